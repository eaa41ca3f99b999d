//! Resource snapshots of the process: objects of the simulator, descriptors, memory files.

use std::time::Duration;

use crate::simulator::{Live, Simulator};

/// Counts of every resource that could leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResourceSnapshot {
    pub(crate) live: Live,
    /// Open descriptors.
    pub(crate) descriptors: usize,
    /// Mappings of memory files, which hold all exported and imported memory.
    pub(crate) mappings: usize,
    /// Their bytes. Adjacent mappings count as one.
    pub(crate) bytes: usize,
}

impl ResourceSnapshot {
    /// The current counts.
    pub(crate) fn now(simulator: &Simulator) -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a list of mappings");
        let files: Vec<usize> = maps.lines().filter(|line| line.contains("/memfd:")).map(length).collect();
        Self {
            live: simulator.live(),
            descriptors: std::fs::read_dir("/proc/self/fd").expect("a list of descriptors").count(),
            mappings: files.len(),
            bytes: files.iter().sum(),
        }
    }

    /// The counts once `done`, or after a second: threads of the simulator may still be releasing objects.
    pub(crate) fn settled(simulator: &Simulator, done: impl Fn(&Self) -> bool) -> Self {
        for _ in 0..500 {
            let now = Self::now(simulator);
            if done(&now) {
                return now;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Self::now(simulator)
    }
}

/// Bytes of a line of `/proc/self/maps`.
fn length(line: &str) -> usize {
    let number = |text: &str| usize::from_str_radix(text, 16).expect("an address");
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let (start, end) = range.expect("a range of addresses");
    number(end) - number(start)
}
