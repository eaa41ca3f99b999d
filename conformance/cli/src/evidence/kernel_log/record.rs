//! Processes in the kernel's messages.

/// The initial namespace of process ids, in which the kernel's messages name processes.
const INITIAL: &str = "pid:[4026531836]";
/// The greatest depth of a process below the suite.
const DEPTH: usize = 16;

/// `true` if the kernel's messages name processes by the ids of this process's namespace.
pub(super) fn shares_process_ids() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == INITIAL)
}

/// `true` if there is no such process now.
pub(super) fn has_ended(process: u32) -> bool {
    !std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// This program's name in the kernel's messages.
pub(super) fn own_name() -> Option<String> {
    std::fs::read_to_string("/proc/self/comm").ok().map(|name| name.trim_end().to_owned())
}

/// A process and its ancestors; the process alone if it has ended.
pub(super) fn family(process: u32) -> Vec<u32> {
    let parent = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|parent| *parent != 0)
    };
    std::iter::successors(Some(process), parent).take(DEPTH).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_parent() {
        let parent = std::os::unix::process::parent_id();
        assert_eq!(family(std::process::id()).get(1), Some(&parent).filter(|parent| **parent != 0));
        assert_eq!(family(u32::MAX), [u32::MAX]);
    }
}
