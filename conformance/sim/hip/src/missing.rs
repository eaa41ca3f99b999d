//! What a call answers that was given a handle of something that is not there, as recorded of each version.
//!
//! Some versions look whether there is such an object, and some follow the handle: into nothing, and the process dies
//! there; or into memory that was freed, and whatever happens then was not decided by anybody. Here it dies in both cases,
//! and says why.

use gpu_interop_sim_abi::hip::era::Era;
use gpu_interop_sim_device::die;

/// Ends the process, as the runtime does or may.
pub(crate) fn die_because(what: &str) -> ! {
    eprintln!("sim-hip ends the process: {what}");
    die()
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// This code is answered.
    Code(u32),
    /// The handle is followed.
    Dies,
}

use Answer::{Code, Dies};

/// What is answered where a stream was destroyed, and where there never was such a stream, in each [`Era`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    destroyed: [Answer; 4],
    unknown: [Answer; 4],
}

/// `hipErrorContextIsDestroyed`: the stream is not known any more.
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

    /// The code for a handle, unless the process ends.
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
