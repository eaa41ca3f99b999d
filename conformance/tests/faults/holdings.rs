//! What the process holds: objects of the simulator, descriptors, memory files.

use std::time::Duration;

use crate::control::{Control, Live};

/// A count of all that could leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holdings {
    pub(crate) live: Live,
    /// Open descriptors.
    pub(crate) descriptors: usize,
    /// Mapped parts of memory files: all that is exported or imported is in one.
    pub(crate) mappings: usize,
    /// Their bytes. Two parts beside each other count as one.
    pub(crate) bytes: usize,
}

impl Holdings {
    /// What is held now.
    pub(crate) fn now(control: &Control) -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a list of mappings");
        let files: Vec<usize> = maps.lines().filter(|line| line.contains("/memfd:")).map(length).collect();
        Self {
            live: control.live(),
            descriptors: std::fs::read_dir("/proc/self/fd").expect("a list of descriptors").count(),
            mappings: files.len(),
            bytes: files.iter().sum(),
        }
    }

    /// What is held once `done`, or after a moment: the simulator's threads may still be letting go of what they used.
    pub(crate) fn settled(control: &Control, done: impl Fn(&Self) -> bool) -> Self {
        for _ in 0..100 {
            let now = Self::now(control);
            if done(&now) {
                return now;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Self::now(control)
    }
}

/// Bytes of a line of `/proc/self/maps`.
fn length(line: &str) -> usize {
    let number = |text: &str| usize::from_str_radix(text, 16).expect("an address");
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let (start, end) = range.expect("a range of addresses");
    number(end) - number(start)
}
