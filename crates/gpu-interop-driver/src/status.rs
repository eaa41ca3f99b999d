//! What a driver's functions return.

use std::ffi::c_uint;

/// `CUresult`, `hipError_t`: a number and never an enum, as a driver may return codes that this version does not know.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub c_uint);

impl Status {
    /// The call did what it says.
    pub const SUCCESS: Self = Self(0);
    /// Enqueued work has not run yet; not an error. The number is both vendors'.
    pub const NOT_READY: Self = Self(600);
}
