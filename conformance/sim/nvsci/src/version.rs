//! The functions that an application calls first: which versions of the libraries these are.

use gpu_interop_sim_abi::entries;

use crate::behaviour::Behaviour;
use crate::{give, live};

entries! {
    fn NvSciBufCheckVersionCompatibility(major: u32, minor: u32, compatible: *mut u8) gives compatible {
        live::report_at_exit();
        give(compatible, Behaviour::now().knows(major, minor, Behaviour::buf_minor).into())
    }

    fn NvSciSyncCheckVersionCompatibility(major: u32, minor: u32, compatible: *mut u8) gives compatible {
        live::report_at_exit();
        give(compatible, Behaviour::now().knows(major, minor, Behaviour::sync_minor).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
