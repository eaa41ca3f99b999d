//! Status codes: those that both vendors have, with the same number.

/// An argument is wrong.
pub const INVALID_VALUE: u32 = 1;
/// There is no memory left.
pub const OUT_OF_MEMORY: u32 = 2;
/// The driver was not initialised.
pub const NOT_INITIALIZED: u32 = 3;
/// There is no device.
pub const NO_DEVICE: u32 = 100;
/// There is no such device.
pub const INVALID_DEVICE: u32 = 101;
/// A module's image is not one.
pub const INVALID_IMAGE: u32 = 200;
/// No context is current.
pub const INVALID_CONTEXT: u32 = 201;
/// There is no such object.
pub const INVALID_HANDLE: u32 = 400;
/// There is nothing of this name.
pub const NOT_FOUND: u32 = 500;
/// Work is pending.
pub const NOT_READY: u32 = 600;
/// The device or the system cannot do that.
pub const NOT_SUPPORTED: u32 = 801;
/// A stream that records a graph does not take that.
pub const CAPTURE_UNSUPPORTED: u32 = 900;
/// What was recorded was spoilt meanwhile.
pub const CAPTURE_INVALIDATED: u32 = 901;
/// The stream records no graph.
pub const ILLEGAL_STATE: u32 = 401;
/// Something else.
pub const UNKNOWN: u32 = 999;

/// Fails where an argument is wrong.
///
/// # Errors
/// [`INVALID_VALUE`].
pub fn reject_if(wrong: bool) -> Result<(), u32> {
    if wrong { Err(INVALID_VALUE) } else { Ok(()) }
}
