//! What a driver's functions return.

use std::ffi::c_uint;

use gpu_interop_core::ErrorKind;

/// `CUresult`, `hipError_t`: a number and never an enum, as a driver may return codes that this version does not know.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub c_uint);

impl Status {
    /// The call did what it says.
    pub const SUCCESS: Self = Self(0);
    /// An argument is none that the driver knows. This number and those below are both vendors'.
    pub const INVALID_VALUE: Self = Self(1);
    /// Memory ran out.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// There is no device.
    pub const NO_DEVICE: Self = Self(100);
    /// The driver shuts down, as the process ends.
    pub const DEINITIALIZED: Self = Self(4);
    /// What was named is not there.
    pub const NOT_FOUND: Self = Self(500);
    /// Enqueued work has not run yet; not an error.
    pub const NOT_READY: Self = Self(600);
    /// A recording, of this thread or another, forbids the call. Nothing is known of the work that it was to ask for.
    pub const CAPTURE_UNSUPPORTED: Self = Self(900);
    /// The device or system does not support the operation.
    pub const NOT_SUPPORTED: Self = Self(801);

    /// Whether nothing runs any more on what answers this: the driver ends, or what a kernel did ended it, and every later
    /// call answers the same. Both vendors' numbers: `ILLEGAL_ADDRESS` (700), `LAUNCH_TIMEOUT` (702), `ASSERT` (710), and
    /// from `HARDWARE_STACK_ERROR` (714) to `LAUNCH_FAILED` (719).
    #[must_use]
    pub fn says_lost(self) -> bool {
        self == Self::DEINITIALIZED || matches!(self.0, 700 | 702 | 710 | 714..=719)
    }
}

/// What [`Status::NOT_FOUND`] means to the user where a kernel was looked for.
pub(crate) const NO_KERNEL: (ErrorKind, &str) = (
    ErrorKind::InvalidArgument,
    "the module has no kernel of this name; a C++ kernel needs extern \"C\" to keep its name",
);

/// What [`Status::says_lost`] means to the user.
pub const LOST: (ErrorKind, &str) = (
    ErrorKind::DeviceLost,
    "nothing runs on the device any more; something that ran there failed. Start the process anew",
);
