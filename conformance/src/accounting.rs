//! What this process holds: descriptors, mappings, memory.

use crate::outcome::Verdict;
use crate::{ensure, ensure_eq};

/// Resident memory may grow by less than this, bytes.
const RESIDENT_SLACK: u64 = 4 << 20;
/// Mapped regions may grow by the smaller of these and more with the number of cycles, up to the greater: allocators keep
/// arenas, and C libraries the stacks of threads that have ended, as many as were ever alive at once.
const MAPPING_SLACK: std::ops::RangeInclusive<usize> = 8..=64;

/// A count of what could leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    /// Open descriptors.
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
    /// If `/proc` cannot be read.
    pub fn now() -> Verdict<Self> {
        // The iterator itself holds one descriptor while it counts.
        let descriptors = std::fs::read_dir("/proc/self/fd")?.count().saturating_sub(1);
        let mappings = std::fs::read_to_string("/proc/self/maps")?.lines().count();
        let statm = std::fs::read_to_string("/proc/self/statm")?;
        let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        Ok(Self { descriptors, mappings, resident: pages * rustix::param::page_size() as u64 })
    }

    /// Runs a tenth of `cycles` to warm up, then `cycles`, and checks that the process holds no more than between the
    /// two: as many descriptors, mappings for at most a tenth of the cycles (but 8 in any case, and never more than 64: an
    /// allocator's arenas, the stacks of threads), and less than 4 MiB more resident memory.
    ///
    /// # Errors
    /// What `run` returns, or what has grown.
    pub fn unchanged_by(cycles: u32, mut run: impl FnMut(u32) -> Verdict) -> Verdict {
        let mut several = |count: u32| (0..count).try_for_each(&mut run);
        several(cycles.div_ceil(10))?;
        let before = Self::now()?;
        several(cycles)?;
        let after = Self::settled(&before)?;
        ensure_eq!(after.descriptors, before.descriptors, "open descriptors after {cycles} cycles");
        let tenth = usize::try_from(cycles / 10).unwrap_or(usize::MAX);
        ensure!(
            after.mappings <= before.mappings + tenth.clamp(*MAPPING_SLACK.start(), *MAPPING_SLACK.end()),
            "mapped regions grew from {} to {} in {cycles} cycles",
            before.mappings,
            after.mappings
        );
        let grown = after.resident.saturating_sub(before.resident);
        ensure!(grown < RESIDENT_SLACK, "resident memory grew by {grown} bytes in {cycles} cycles");
        Ok(())
    }

    /// What the process holds once what ends asynchronously, threads above all, has had time to end.
    pub(crate) fn settled(before: &Self) -> Verdict<Self> {
        for _ in 0..200 {
            let now = Self::now()?;
            if now.descriptors <= before.descriptors && now.mappings <= before.mappings {
                return Ok(now);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Self::now()
    }
}

/// How many threads this process has.
///
/// # Errors
/// If `/proc` cannot be read.
pub(crate) fn threads() -> Verdict<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Memory that is available without swapping, bytes.
///
/// # Errors
/// If `/proc/meminfo` cannot be read.
pub(crate) fn available_memory() -> Verdict<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let kilobytes = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kilobytes.unwrap_or(0) * 1024)
}

/// How many descriptors this process may have open.
pub(crate) fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}
