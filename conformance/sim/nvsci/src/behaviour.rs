//! Settings of `GPU_INTEROP_SIM_NVSCI`, and the functions that an application calls first: checks of the versions.

use gpu_interop_sim_abi::{entries, settings};

use crate::give;

/// The words of `GPU_INTEROP_SIM_NVSCI`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviour(String);

/// The newest minor versions, which are the default.
const NEWEST_BUF: u32 = 11;
const NEWEST_SYNC: u32 = 8;

impl Behaviour {
    /// Reads the environment.
    pub(crate) fn now() -> Self {
        Self(settings::text("GPU_INTEROP_SIM_NVSCI").unwrap_or_default())
    }

    #[cfg(test)]
    pub(crate) fn of(words: &str) -> Self {
        Self(words.into())
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.split(',').any(|other| other == word)
    }

    fn minor(&self, start: &str, newest: u32) -> u32 {
        let asked = self.0.split(',').find_map(|word| word.strip_prefix(start)?.parse().ok());
        asked.unwrap_or(newest)
    }

    /// `true` if a caller's version is known, of the library with this minor version.
    pub(crate) fn knows(&self, major: u32, minor: u32, newest: impl FnOnce(&Self) -> u32) -> bool {
        major == 2 && minor <= newest(self) && !self.has("incompatible")
    }

    /// The minor version of NvSciBuf 2.
    pub(crate) fn buf_minor(&self) -> u32 {
        self.minor("buf_2.", NEWEST_BUF)
    }

    /// The minor version of NvSciSync 2.
    pub(crate) fn sync_minor(&self) -> u32 {
        self.minor("sync_2.", NEWEST_SYNC)
    }

    /// The last general attribute of NvSciBuf: those of GPU caches and compression were added after 2.0 and exist in
    /// 2.6. Headers between these were not consulted.
    pub(crate) fn last_general_key(&self) -> i32 {
        if self.buf_minor() < 6 { 8 } else { 11 }
    }

    /// The last attribute of NvSciSync. 2.1 and 2.2 were not consulted, and count as 2.0.
    pub(crate) fn last_sync_key(&self) -> i32 {
        match self.sync_minor() {
            0..3 => 5,
            3..5 => 9,
            5..8 => 12,
            _ => 13,
        }
    }

    /// The greatest value of a primitive: of 32 bits, as for syncpoints, or of a 64-bit semaphore.
    pub(crate) fn greatest_value(&self) -> u64 {
        if self.has("wide") { u64::MAX } else { u32::MAX.into() }
    }
}

entries! {
    fn NvSciBufCheckVersionCompatibility(major: u32, minor: u32, compatible: *mut u8) gives compatible {
        crate::report_at_exit();
        give(compatible, Behaviour::now().knows(major, minor, Behaviour::buf_minor).into())
    }

    fn NvSciSyncCheckVersionCompatibility(major: u32, minor: u32, compatible: *mut u8) gives compatible {
        crate::report_at_exit();
        give(compatible, Behaviour::now().knows(major, minor, Behaviour::sync_minor).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_with_their_versions() {
        let last = |words: &str| (Behaviour::of(words).last_general_key(), Behaviour::of(words).last_sync_key());
        assert_eq!(last(""), (11, 13));
        assert_eq!(last("wide,buf_2.0,sync_2.0"), (8, 5));
        assert_eq!(last("buf_2.6,sync_2.3"), (11, 9));
        assert_eq!(last("sync_2.5,buf_2.8"), (11, 12));
    }

    #[test]
    fn versions_are_compared_with_their_minor() {
        type Check = unsafe extern "C" fn(u32, u32, *mut u8) -> u32;
        for (check, newest) in
            [(NvSciBufCheckVersionCompatibility as Check, 11), (NvSciSyncCheckVersionCompatibility as Check, 8)]
        {
            for (major, minor, expected) in [(2, 0, 1), (2, newest, 1), (2, newest + 1, 0), (1, 0, 0), (3, 0, 0)] {
                let mut compatible = 9;
                // SAFETY: the output is valid for the call.
                let code = unsafe { check(major, minor, &raw mut compatible) };
                assert_eq!((code, compatible), (0, expected), "{major}.{minor}");
            }
        }
    }
}
