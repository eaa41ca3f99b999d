//! The leak check: resource snapshots of this process before and after many cycles.

use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::outcome::{Stop, Verdict};
use crate::system;
use crate::{ensure, ensure_eq};

pub use crate::system::ResourceSnapshot;

/// Permitted growth of resident memory, bytes.
const RESIDENT_SLACK: u64 = 4 << 20;
/// Greatest number of counts, 10 ms apart, while resources settle.
const COUNTS: u32 = 200;
/// Number of equal counts in a row, 10 ms apart, after which a measurement ends early if it may be repeated.
const STEADY: u32 = 20;
/// The smallest difference of descriptors that is a leak at once.
const EVIDENT: usize = 64;
/// Number of measurements, all with growth, that count as a leak.
const ROUNDS: usize = 3;
/// Permitted growth of the number of mapped regions: a tenth of the cycles, within these bounds. Allocators keep
/// arenas, and C libraries keep the stacks of ended threads, as many as ever existed at once.
const MAPPING_SLACK: RangeInclusive<usize> = 8..=64;

impl ResourceSnapshot {
    /// Counts the current resources.
    ///
    /// # Errors
    /// If the system does not report them.
    pub fn take() -> Verdict<Self> {
        system::resources()
    }

    /// Counts open descriptors only: listing the mapped regions of a GPU's driver takes longer than most calls.
    pub(crate) fn open_descriptors() -> Verdict<usize> {
        system::open_descriptors()
    }

    /// Counts the resources once descriptors and mappings stay equal for a moment: asynchronous releases have ended.
    pub(crate) fn at_rest() -> Verdict<Self> {
        // Five equal counts: on a loaded machine the threads that release may pause.
        let is_equal = |now: &Self, last: &Self| (now.descriptors, now.mappings) == (last.descriptors, last.mappings);
        Self::counted([COUNTS, 5], is_equal, |_| false)
    }

    /// Counts the resources once they are within the bounds of a check: at most as many descriptors as in `before`,
    /// `mappings` more mapped regions, and less than `resident` more bytes of resident memory. After two seconds they
    /// are counted in any case: asynchronous releases, especially by threads, have had time to end.
    pub(crate) fn settled(before: &Self, mappings: usize, resident: u64) -> Verdict<Self> {
        Self::settled_after([COUNTS; 2], before, mappings, resident)
    }

    /// As [`Self::settled`], for a measurement that is repeated if the resources have grown: also returns them once
    /// they stay equal for a fifth of a second.
    pub(crate) fn settled_or_steady(before: &Self, mappings: usize, resident: u64) -> Verdict<Self> {
        Self::settled_after([COUNTS, STEADY], before, mappings, resident)
    }

    /// As [`Self::settled`], but ends after the first number of counts, 10 ms apart, or after the second number of
    /// equal ones in a row.
    fn settled_after(counts: [u32; 2], before: &Self, mappings: usize, resident: u64) -> Verdict<Self> {
        Self::counted(counts, Self::eq, |now| {
            let memory_settled = now.resident.saturating_sub(before.resident) < resident;
            now.descriptors <= before.descriptors && now.mappings <= before.mappings + mappings && memory_settled
        })
    }

    /// Counts, 10 ms apart, until `is_settled`, or until `steady` counts in a row equal the one before, but `most`
    /// times at most. Returns the last count.
    fn counted(
        [most, steady]: [u32; 2],
        is_equal: impl Fn(&Self, &Self) -> bool,
        is_settled: impl Fn(&Self) -> bool,
    ) -> Verdict<Self> {
        let (mut last, mut equal) = (Self::take()?, 0);
        for _ in 0..most {
            if is_settled(&last) || equal == steady {
                break;
            }
            sleep(Duration::from_millis(10));
            let now = Self::take()?;
            equal = if is_equal(&now, &last) { equal + 1 } else { 0 };
            last = now;
        }
        Ok(last)
    }

    /// Counts open descriptors as [`settled`](Self::settled) does, for a check of these only.
    pub(crate) fn settled_descriptors(before: &Self) -> Verdict<usize> {
        Ok(Self::settled(before, usize::MAX - before.mappings, u64::MAX)?.descriptors)
    }

    /// Fails if another number of descriptors is open than in `before`, or more than `slack` more regions are mapped.
    pub(crate) fn check_since(&self, before: &Self, slack: usize) -> Verdict {
        ensure_eq!(self.descriptors, before.descriptors, "open descriptors");
        let (from, to) = (before.mappings, self.mappings);
        ensure!(to <= from + slack, "mapped regions grew from {from} to {to}");
        Ok(())
    }
}

/// Runs a tenth of `cycles` to warm up, then `cycles`, and compares the resources after both. It passes with equally
/// many descriptors, at most a tenth of the cycles more mapped regions (8 to 64), and less than 4 MiB more resident
/// memory.
///
/// If they differ, the cycles run again, twice at most: a leak grows each time, and a stray close reduces the number of
/// descriptors each time. What grows once is no leak: a backlog of threads that the machine did not run, whose memory
/// allocators keep, and whose stacks C libraries keep; a descriptor that a driver opens when it first needs it, or that
/// a thread of an earlier scenario closes late. A difference of a descriptor in every second cycle, and of 64 at least,
/// is a leak at once: with tens of thousands of handles, Wine takes minutes for a measurement.
///
/// # Errors
/// The error of `run`, or the resources that have grown.
pub fn leak_check(cycles: u32, run: impl FnMut(u32) -> Verdict) -> Verdict {
    leak_check_after(COUNTS, cycles, run)
}

/// As [`leak_check`], with this greatest number of counts while resources settle.
fn leak_check_after(counts: u32, cycles: u32, mut run: impl FnMut(u32) -> Verdict) -> Verdict {
    let mut several = |count: u32| (0..count).try_for_each(&mut run);
    several(cycles.div_ceil(10))?;
    let first = ResourceSnapshot::at_rest()?;
    let tenth = usize::try_from(cycles / 10).unwrap_or(usize::MAX);
    let mapping_slack = tenth.clamp(*MAPPING_SLACK.start(), *MAPPING_SLACK.end());
    let evident = usize::try_from(cycles / 2).unwrap_or(usize::MAX).max(EVIDENT);
    let differ = |expected: usize, found: usize| {
        format!("open descriptors after {cycles} cycles: expected {expected}, found {found}")
    };
    let (mut before, mut descriptors, mut regions, mut bytes) = (first, Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        several(cycles)?;
        // The last measurement decides: it waits longer.
        let steady = if round < ROUNDS { counts.min(STEADY) } else { counts };
        let after = ResourceSnapshot::settled_after([counts, steady], &before, mapping_slack, RESIDENT_SLACK)?;
        if after.descriptors.abs_diff(before.descriptors) >= evident {
            return Err(Stop::failed(differ(before.descriptors, after.descriptors)));
        }
        descriptors
            .extend((after.descriptors != before.descriptors).then_some((before.descriptors, after.descriptors)));
        regions.extend(Some(after.mappings.saturating_sub(before.mappings)).filter(|&grown| grown > mapping_slack));
        bytes.extend(Some(after.resident.saturating_sub(before.resident)).filter(|&grown| grown >= RESIDENT_SLACK));
        if descriptors.len() < round && regions.len() < round && bytes.len() < round {
            return Ok(());
        }
        before = after;
    }
    if let [.., (expected, found)] = descriptors[..]
        && descriptors.len() == ROUNDS
    {
        return Err(Stop::failed(format!("{}, {ROUNDS} times", differ(expected, found))));
    }
    ensure!(regions.len() < ROUNDS, "mapped regions grew by {regions:?}, each in {cycles} cycles");
    Err(Stop::failed(format!("resident memory grew by {bytes:?} bytes, each in {cycles} cycles")))
}

/// Fails unless as many descriptors are open after `action` as before, within `patience`. If fewer are open then,
/// repeats this, three times at most: a stray close of `action` shows each time, the late one of an earlier scenario's
/// thread only once.
///
/// # Errors
/// The first error of `action`, or both counts, after `what`.
pub(crate) fn keeps_descriptors(patience: Duration, what: &str, action: impl FnMut() -> Verdict) -> Verdict {
    keeps(ResourceSnapshot::open_descriptors, patience, what, action)
}

/// As [`keeps_descriptors`], for what `count` counts.
fn keeps(
    count: impl Fn() -> Verdict<usize>,
    patience: Duration,
    what: &str,
    mut action: impl FnMut() -> Verdict,
) -> Verdict {
    let mut round = 1;
    loop {
        let before = count()?;
        action()?;
        let (start, mut after) = (Instant::now(), count()?);
        while after > before && start.elapsed() < patience {
            sleep(Duration::from_millis(5));
            after = count()?;
        }
        if after >= before || round == ROUNDS {
            ensure_eq!(after, before, "{what}");
            return Ok(());
        }
        round += 1;
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use gpu_interop_test_support::in_own_process;

    use super::*;

    /// Nothing here is released later.
    const FEW_COUNTS: u32 = 20;

    /// Each kind of leak is detected alone. Other tests of the same process would free memory at the same time.
    #[test]
    fn every_sort_of_leak_is_found() {
        if !in_own_process("leak_check::tests::every_sort_of_leak_is_found") {
            return;
        }
        let mut files = Vec::new();
        let leaks = leak_check_after(FEW_COUNTS, 20, |_| {
            for _ in 0..10 {
                files.push(std::fs::File::open("/dev/null")?);
            }
            Ok(())
        });
        let reason = leaks.expect_err("200 descriptors, each time").to_string();
        assert!(reason.contains("open descriptors after 20 cycles"), "{reason}");
        assert_eq!(files.len(), 220, "one round is enough");
        // Fewer, which may be a driver's own.
        let mut few = Vec::new();
        let leaks = leak_check_after(FEW_COUNTS, 20, |_| {
            few.push(std::fs::File::open("/dev/null")?);
            Ok(())
        });
        let reason = leaks.expect_err("20 descriptors, each time").to_string();
        assert!(reason.contains("3 times") && few.len() == 62, "{}: {reason}", few.len());
        drop(few);
        // A driver that closes descriptors of others.
        let leaks = leak_check_after(FEW_COUNTS, 5, |_| {
            files.truncate(files.len().saturating_sub(20));
            Ok(())
        });
        let reason = leaks.expect_err("100 descriptors fewer, each time").to_string();
        assert!(reason.contains("open descriptors after 5 cycles"), "{reason}");
        // Fewer, in each measurement: a stray close.
        let mut held: Vec<_> = (0..62).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
        let leaks = leak_check_after(FEW_COUNTS, 20, |_| {
            held.pop();
            Ok(())
        });
        let reason = leaks.expect_err("20 descriptors fewer, each time").to_string();
        assert!(reason.contains("3 times") && held.is_empty(), "{}: {reason}", held.len());
        drop(files);
        let leaks = leak_check_after(FEW_COUNTS, 20, |_| {
            for _ in 0..20 {
                let (size, flags) = (4096, rustix::mm::MapFlags::PRIVATE);
                // Alternating protections keep neighbours from merging into one region.
                for protection in
                    [rustix::mm::ProtFlags::READ, rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE]
                {
                    // SAFETY: a new mapping at an address chosen by the kernel overlaps no other. It is leaked.
                    unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), size, protection, flags) }?;
                }
            }
            Ok(())
        });
        leaks.expect_err("800 mapped regions");
        let leaks = leak_check_after(FEW_COUNTS, 20, |number| {
            let byte = number.to_le_bytes()[0] | 1;
            std::mem::forget(std::hint::black_box(vec![byte; 1 << 20]));
            Ok(())
        });
        leaks.expect_err("20 MiB, each time");
        let mut kept = Vec::new();
        leak_check_after(FEW_COUNTS, 20, |number| {
            if kept.is_empty() && number >= 10 {
                kept.push(std::hint::black_box(vec![number.to_le_bytes()[0]; 10 << 20]));
            }
            Ok(())
        })
        .expect("10 MiB, once");
        let stop = leak_check(3, |_| Err(Stop::skipped("not here".into())));
        assert_eq!(stop, Err(Stop::skipped("not here".into())), "the cycle's own stop");
    }

    #[test]
    fn a_check_finds_more_and_fewer_descriptors() {
        let snapshot = |descriptors, mappings| ResourceSnapshot { descriptors, mappings, resident: 0 };
        let check = |descriptors, mappings| snapshot(descriptors, mappings).check_since(&snapshot(8, 100), 5);
        assert_eq!((check(8, 105), check(8, 90)), (Ok(()), Ok(())));
        for (descriptors, mappings, part) in [
            (9, 100, "open descriptors: expected 8, found 9"),
            (7, 100, "open descriptors: expected 8, found 7"),
            (8, 106, "mapped regions grew from 100 to 106"),
        ] {
            assert_eq!(check(descriptors, mappings).expect_err(part).to_string(), part);
        }
    }

    #[test]
    fn fewer_objects_count_if_it_shows_each_time_and_more_at_once() {
        let compared = |changes: [i8; ROUNDS]| {
            let (held, mut changes) = (std::cell::Cell::new(8_usize), changes.into_iter());
            let action = || {
                held.set(held.get().saturating_add_signed(changes.next().unwrap_or_default().into()));
                Ok(())
            };
            keeps(|| Ok(held.get()), Duration::ZERO, "what is held", action)
        };
        for passing in [[0, 1, -1], [-2, 0, 1], [-1, -1, 0]] {
            assert_eq!(compared(passing), Ok(()));
        }
        for (failing, reason) in [
            ([1, 0, 0], "what is held: expected 8, found 9"),
            ([-2, 1, 0], "what is held: expected 6, found 7"),
            ([-1, -1, -1], "what is held: expected 6, found 5"),
        ] {
            assert_eq!(compared(failing).expect_err("differs").to_string(), reason);
        }
        let stop = keeps(|| Ok(0), Duration::ZERO, "", || Err(Stop::skipped("not here".into())));
        assert_eq!(stop, Err(Stop::skipped("not here".into())), "the action's own stop");
    }
}
