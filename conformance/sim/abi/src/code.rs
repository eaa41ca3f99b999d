//! Status codes with the same number in both vendors' APIs.

/// An argument is invalid.
pub const INVALID_VALUE: u32 = 1;
/// Out of memory.
pub const OUT_OF_MEMORY: u32 = 2;
/// The driver is not initialised.
pub const NOT_INITIALIZED: u32 = 3;
/// The machine has no device.
pub const NO_DEVICE: u32 = 100;
/// The device does not exist.
pub const INVALID_DEVICE: u32 = 101;
/// A module's image is invalid.
pub const INVALID_IMAGE: u32 = 200;
/// No context is current.
pub const INVALID_CONTEXT: u32 = 201;
/// The object does not exist.
pub const INVALID_HANDLE: u32 = 400;
/// The name does not exist.
pub const NOT_FOUND: u32 = 500;
/// Work is pending.
pub const NOT_READY: u32 = 600;
/// A reset of the device destroyed the context.
pub const CONTEXT_IS_DESTROYED: u32 = 709;
/// The page is pinned already.
pub const HOST_MEMORY_ALREADY_REGISTERED: u32 = 712;
/// The page is not pinned.
pub const HOST_MEMORY_NOT_REGISTERED: u32 = 713;
/// The device or the system does not support the operation.
pub const NOT_SUPPORTED: u32 = 801;
/// A capturing stream does not support the operation.
pub const CAPTURE_UNSUPPORTED: u32 = 900;
/// The capture was invalidated.
pub const CAPTURE_INVALIDATED: u32 = 901;
/// The stream is not capturing.
pub const ILLEGAL_STATE: u32 = 401;
/// Another failure.
pub const UNKNOWN: u32 = 999;

/// Fails where an argument is wrong.
///
/// # Errors
/// [`INVALID_VALUE`].
pub fn reject_if(wrong: bool) -> Result<(), u32> {
    if wrong { Err(INVALID_VALUE) } else { Ok(()) }
}
