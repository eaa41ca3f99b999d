//! What a driver's functions return.

use std::ffi::c_uint;

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
    /// Enqueued work has not run yet; not an error.
    pub const NOT_READY: Self = Self(600);
    /// The device or system does not support the operation.
    pub const NOT_SUPPORTED: Self = Self(801);
}
