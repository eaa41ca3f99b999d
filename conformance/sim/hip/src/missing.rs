//! Results of calls with the handle of an object that does not exist, as recorded with each version.
//!
//! Some versions check whether the object exists, and some dereference the handle: an invalid address, which crashes
//! the process, or freed memory, whose effect is undefined. The simulator aborts in both cases and prints the reason.

use gpu_interop_sim_abi::hip::era::Era;
use gpu_interop_sim_device::die;

/// Aborts the process, as the runtime does or may.
pub(crate) fn die_because(what: &str) -> ! {
    eprintln!("sim-hip ends the process: {what}");
    die()
}

/// Result of the call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// The call returns this code.
    Code(u32),
    /// The runtime dereferences the handle.
    Dies,
}

use Answer::{Code, Dies};

/// Results for a destroyed stream, and for a handle that never was a stream, in each [`Era`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    destroyed: [Answer; 4],
    unknown: [Answer; 4],
}

/// `hipErrorContextIsDestroyed`: the stream is unknown.
pub(crate) const DESTROYED: u32 = 709;
const GONE: Answer = Code(DESTROYED);
const WRONG: Answer = Code(1);
const NO_HANDLE: Answer = Code(400);

impl Missing {
    pub(crate) const COPY: Self = Self { destroyed: [Dies, Dies, GONE, GONE], unknown: [Dies; 4] };
    pub(crate) const FILL: Self = Self { destroyed: [Dies; 4], unknown: [Dies; 4] };
    pub(crate) const WORD: Self = Self { destroyed: [Dies, GONE, GONE, GONE], unknown: [Dies, GONE, GONE, GONE] };
    pub(crate) const STREAM: Self = Self { destroyed: [GONE, GONE, GONE, Dies], unknown: [GONE, GONE, GONE, Dies] };
    pub(crate) const WAIT_EVENT: Self =
        Self { destroyed: [GONE, NO_HANDLE, NO_HANDLE, Dies], unknown: [GONE, NO_HANDLE, NO_HANDLE, Dies] };
    pub(crate) const RECORD_EVENT: Self =
        Self { destroyed: [Dies, GONE, GONE, Dies], unknown: [Dies, GONE, GONE, Dies] };
    pub(crate) const HOST_FUNCTION: Self = Self { destroyed: [Dies, GONE, GONE, Dies], unknown: [Dies; 4] };
    pub(crate) const CAPTURE: Self = Self { destroyed: [WRONG, GONE, GONE, Dies], unknown: [WRONG, GONE, GONE, Dies] };
    pub(crate) const GRAPH: Self = Self { destroyed: [WRONG, GONE, GONE, GONE], unknown: [WRONG, GONE, GONE, GONE] };
    pub(crate) const KERNEL: Self = Self { destroyed: [Dies, WRONG, WRONG, GONE], unknown: [Dies, WRONG, WRONG, GONE] };

    /// Returns the code for a handle, or aborts the process.
    pub(crate) fn answer(&self, was_one: bool) -> u32 {
        let (answers, what) = if was_one {
            (self.destroyed, "a destroyed stream is used")
        } else {
            (self.unknown, "there is no such stream")
        };
        match Era::now().pick(answers) {
            Code(code) => code,
            Dies => die_because(what),
        }
    }
}
