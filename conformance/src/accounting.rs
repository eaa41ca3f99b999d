//! What this process holds: descriptors, mappings, memory.

use crate::outcome::Verdict;

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
