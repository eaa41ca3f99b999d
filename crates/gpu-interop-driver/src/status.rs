//! Status codes of a driver's functions.

use std::ffi::c_uint;

use gpu_interop_core::ErrorKind;

/// `CUresult`, `hipError_t`. A number rather than an enum, because drivers may return codes that this version does not
/// define.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub c_uint);

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// Invalid argument. This code and those below are the same for both vendors.
    pub const INVALID_VALUE: Self = Self(1);
    /// Out of memory.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// No device.
    pub const NO_DEVICE: Self = Self(100);
    /// The driver is shutting down at process exit.
    pub const DEINITIALIZED: Self = Self(4);
    /// No object has the given name.
    pub const NOT_FOUND: Self = Self(500);
    /// Enqueued work has not completed; not an error.
    pub const NOT_READY: Self = Self(600);
    /// A stream capture of this or another thread forbids the call. The state of the queried work is unknown.
    pub const CAPTURE_UNSUPPORTED: Self = Self(900);
    /// The device or system does not support the operation.
    pub const NOT_SUPPORTED: Self = Self(801);

    /// Returns whether a call with objects of one context may return the code because another one is current, or none:
    /// `INVALID_VALUE`, `INVALID_CONTEXT` (201) or `INVALID_HANDLE` (400).
    pub(crate) fn may_be_of_another_context(self) -> bool {
        matches!(self.0, 1 | 201 | 400)
    }

    /// Returns whether the code reports a lost context: the driver is shutting down, or a kernel fault ended the
    /// context and every later call returns the same code. Both vendors use the same numbers: `ILLEGAL_ADDRESS` (700),
    /// `LAUNCH_TIMEOUT` (702), `ASSERT` (710), and `HARDWARE_STACK_ERROR` (714) to `LAUNCH_FAILED` (719).
    #[must_use]
    pub fn says_lost(self) -> bool {
        self == Self::DEINITIALIZED || matches!(self.0, 700 | 702 | 710 | 714..=719)
    }
}

/// Meaning of [`Status::NOT_FOUND`] for the lookup of a kernel.
pub(crate) const NO_KERNEL: (ErrorKind, &str) = (
    ErrorKind::InvalidArgument,
    "the module has no kernel of this name; a C++ kernel needs extern \"C\" to keep its name",
);

/// Meaning of the codes of [`Status::says_lost`].
pub const DEVICE_LOST: (ErrorKind, &str) = (
    ErrorKind::DeviceLost,
    "an earlier operation on the device failed, and no further work can run; restart the process",
);
