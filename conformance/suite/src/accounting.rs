//! What this process holds: descriptors, mappings, memory.

use crate::outcome::{Stop, Verdict};
use crate::system;
use crate::{ensure, ensure_eq};

/// Resident memory may grow by less than this, bytes.
const RESIDENT_SLACK: u64 = 4 << 20;
/// How often resident memory must grow to be a leak.
const MEMORY_ROUNDS: usize = 3;
/// Mapped regions may grow by the smaller of these and more with the number of cycles, up to the greater: allocators keep
/// arenas, and C libraries the stacks of threads that have ended, as many as were ever alive at once.
const MAPPING_SLACK: std::ops::RangeInclusive<usize> = 8..=64;

/// A count of what could leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    /// Open descriptors or handles.
    pub descriptors: usize,
    /// Mapped regions.
    pub mappings: usize,
    /// Resident memory, bytes.
    pub resident: u64,
}

impl Holdings {
    /// What the process holds now.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn now() -> Verdict<Self> {
        system::holdings()
    }

    /// Runs a tenth of `cycles` to warm up, then `cycles`, and checks that the process holds no more than between the
    /// two: as many descriptors, mappings for at most a tenth of the cycles (but 8 in any case, and never more than 64: an
    /// allocator's arenas, the stacks of threads), and less than 4 MiB more resident memory.
    ///
    /// Memory that grows is measured again, twice at most. A leak grows each time. The backlog of a driver's thread that the
    /// machine did not run grows once: allocators keep what it took.
    ///
    /// # Errors
    /// What `run` returns, or what has grown.
    pub fn unchanged_by(cycles: u32, mut run: impl FnMut(u32) -> Verdict) -> Verdict {
        let mut several = |count: u32| (0..count).try_for_each(&mut run);
        several(cycles.div_ceil(10))?;
        let first = Self::at_rest()?;
        let tenth = usize::try_from(cycles / 10).unwrap_or(usize::MAX);
        let (mut before, mut growths) = (first, Vec::new());
        while growths.len() < MEMORY_ROUNDS {
            several(cycles)?;
            let after = Self::settled(&before)?;
            ensure_eq!(after.descriptors, first.descriptors, "open descriptors after {cycles} cycles");
            ensure!(
                after.mappings <= first.mappings + tenth.clamp(*MAPPING_SLACK.start(), *MAPPING_SLACK.end()),
                "mapped regions grew from {} to {} in {cycles} cycles",
                first.mappings,
                after.mappings
            );
            let grown = after.resident.saturating_sub(before.resident);
            if grown < RESIDENT_SLACK {
                return Ok(());
            }
            growths.push(grown);
            before = after;
        }
        Err(Stop::Failed(format!("resident memory grew by {growths:?} bytes, each in {cycles} cycles")))
    }

    /// What the process holds once that stays the same for a moment: what ends asynchronously has ended.
    pub(crate) fn at_rest() -> Verdict<Self> {
        let mut before = Self::now()?;
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let now = Self::now()?;
            if (now.descriptors, now.mappings) == (before.descriptors, before.mappings) {
                return Ok(now);
            }
            before = now;
        }
        Ok(before)
    }

    /// What the process holds once what ends asynchronously, threads above all, has had time to end.
    pub(crate) fn settled(before: &Self) -> Verdict<Self> {
        for _ in 0..200 {
            let now = Self::now()?;
            let memory_settled = now.resident.saturating_sub(before.resident) < RESIDENT_SLACK;
            if now.descriptors <= before.descriptors && now.mappings <= before.mappings && memory_settled {
                return Ok(now);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Self::now()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// Each sort of leak is found alone. Other tests of this process may open and close things meanwhile, but not so many.
    #[test]
    fn every_sort_of_leak_is_found() {
        let mut files = Vec::new();
        let leaks = Holdings::unchanged_by(20, |_| {
            for _ in 0..20 {
                files.push(std::fs::File::open("/dev/null")?);
            }
            Ok(())
        });
        let reason = leaks.expect_err("400 descriptors").to_string();
        assert!(reason.contains("open descriptors after 20 cycles"), "{reason}");
        drop(files);
        let leaks = Holdings::unchanged_by(20, |_| {
            for _ in 0..20 {
                let (size, flags) = (4096, rustix::mm::MapFlags::PRIVATE);
                // Every other page may be written, so that neighbours are no single region.
                for protection in
                    [rustix::mm::ProtFlags::READ, rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE]
                {
                    // SAFETY: fresh memory, which is leaked.
                    unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), size, protection, flags) }?;
                }
            }
            Ok(())
        });
        leaks.expect_err("800 mapped regions");
        let leaks = Holdings::unchanged_by(20, |number| {
            let byte = number.to_le_bytes()[0] | 1;
            std::mem::forget(std::hint::black_box(vec![byte; 1 << 20]));
            Ok(())
        });
        leaks.expect_err("20 MiB, each time");
        let mut kept = Vec::new();
        Holdings::unchanged_by(20, |number| {
            if kept.is_empty() && number >= 10 {
                kept.push(std::hint::black_box(vec![number.to_le_bytes()[0]; 10 << 20]));
            }
            Ok(())
        })
        .expect("10 MiB, once");
        let stop = Holdings::unchanged_by(3, |_| Err(crate::outcome::Stop::Skipped("not here".into())));
        assert_eq!(stop, Err(crate::outcome::Stop::Skipped("not here".into())), "what the cycle says itself");
    }
}
