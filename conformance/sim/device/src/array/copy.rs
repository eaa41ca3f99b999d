//! Copies to and from arrays, as both vendors describe them.

use std::sync::Arc;

use super::{LEVELS, Level, Plane};
use crate::stream::Stream;
use crate::{code, lost};

/// What one side of a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Memory from this address on, the host's or a device's.
    Memory(usize),
    /// The array of a handle.
    Array(usize),
    /// What the driver does not copy.
    Unknown,
}

/// One side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// What it is.
    pub place: Place,
    /// Where it begins in it: byte in the row, row, slice.
    pub origin: [usize; 3],
    /// From row to row of memory, bytes.
    pub pitch: usize,
    /// From slice to slice of memory, rows.
    pub height: usize,
}

impl Side {
    /// The rows of this side, and the array that must live until they were used.
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
        code::reject_if(base == 0 || !fits(self.pitch, width, rows) || !fits(self.height, rows, slices))?;
        let plane = Plane { base, row_pitch: self.pitch, slice_pitch: self.pitch.wrapping_mul(self.height) };
        Ok((plane.at(self.origin), None))
    }
}

/// Enqueues a copy of bytes in a row, rows and slices.
///
/// # Safety
/// Until the work has run, memory is there, and is not used otherwise.
pub unsafe fn enqueue(stream: &Stream, source: Side, target: Side, extent: [usize; 3]) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    stream.enqueue(unsafe { work(source, target, extent) }?);
    Ok(())
}

/// As [`enqueue`], for a driver that records no such copies: it is run also where a graph is recorded.
///
/// # Safety
/// As for [`enqueue`].
pub unsafe fn enqueue_now(stream: &Stream, source: Side, target: Side, extent: [usize; 3]) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    stream.enqueue_now(unsafe { work(source, target, extent) }?);
    Ok(())
}

/// What a copy does.
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
        // SAFETY: arrays are held and were checked; for memory, whoever enqueued the copy promised as much.
        lost::touch(|| unsafe { source.copy_to(target, extent) });
        Ok(())
    })
}
