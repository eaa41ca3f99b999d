//! Copies to and from arrays, as both vendors describe them.

use std::sync::Arc;

use super::{LEVELS, Level, Plane};
use crate::stream::Stream;
use crate::{code, lost};

/// The location of one side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Host or device memory at this address.
    Memory(usize),
    /// The array of a handle.
    Array(usize),
    /// A location that the driver does not support.
    Unknown,
}

/// One side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// What it is.
    pub place: Place,
    /// Offset in the location: byte in the row, row, slice.
    pub origin: [usize; 3],
    /// Row pitch of memory, bytes.
    pub pitch: usize,
    /// Slice pitch of memory, rows.
    pub height: usize,
}

impl Side {
    /// The rows of this side, and the array to keep alive until the copy has run.
    fn plane(&self, extent: [usize; 3]) -> Result<(Plane, Option<Arc<Level>>), u32> {
        let base = match self.place {
            Place::Memory(address) => address,
            Place::Array(handle) => {
                let level = LEVELS.get(handle).ok_or(code::INVALID_HANDLE)?;
                let plane = level.plane(self.origin, extent).ok_or(code::INVALID_VALUE)?;
                return Ok((plane, Some(level)));
            }
            Place::Unknown => return Err(code::INVALID_VALUE),
        };
        let [width, rows, slices] = extent;
        let fits = |pitch: usize, least: usize, count: usize| count <= 1 || pitch >= least;
        if base == 0 || !fits(self.pitch, width, rows) || !fits(self.height, rows, slices) {
            return Err(code::INVALID_VALUE);
        }
        let plane = Plane { base, row_pitch: self.pitch, slice_pitch: self.pitch.wrapping_mul(self.height) };
        Ok((plane.at(self.origin), None))
    }
}

/// Enqueues a copy; the extent is bytes per row, rows and slices.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// Memory is valid and not accessed otherwise until the work has run.
pub unsafe fn enqueue(stream: &Stream, source: Side, target: Side, extent: [usize; 3]) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    stream.enqueue(unsafe { work(source, target, extent) }?);
    Ok(())
}

/// As [`enqueue`], for a driver that does not capture such copies: the copy runs even on a capturing stream.
///
/// # Errors
/// The status code of the failure.
///
/// # Safety
/// As for [`enqueue`].
pub unsafe fn enqueue_now(stream: &Stream, source: Side, target: Side, extent: [usize; 3]) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    stream.enqueue_now(unsafe { work(source, target, extent) }?);
    Ok(())
}

/// The work of a copy.
///
/// # Safety
/// As for [`enqueue`].
unsafe fn work(
    source: Side,
    target: Side,
    extent: [usize; 3],
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    let ((source, held), (target, also)) = (source.plane(extent)?, target.plane(extent)?);
    Ok(move || {
        let _held = (&held, &also);
        // SAFETY: the closure holds the checked arrays; for memory, the caller of `enqueue` guarantees validity.
        lost::touch(|| unsafe { source.copy_to(target, extent) });
        Ok(())
    })
}
