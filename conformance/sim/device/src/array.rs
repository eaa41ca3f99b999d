//! Mipmapped arrays: images of exporters in lavapipe's linear layout, also for optimal tiling. Copies to and from them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::{with_exposed_provenance as from, with_exposed_provenance_mut as to};
use std::sync::{Arc, Mutex};

use gpu_interop_sim_abi::lock;

use crate::device::InUse;
use crate::objects::Objects;
use crate::stream::Stream;
use crate::system::Mapping;
use crate::{code, faults};

/// Mipmapped arrays by handle.
pub static MIPMAPPED: Objects<Mipmapped> = Objects::new();
/// Their levels by handle.
pub static LEVELS: Objects<Level> = Objects::new();
/// Surfaces by handle. No operation uses them.
pub static SURFACES: Objects<()> = Objects::new();
/// Textures by handle. No operation uses them.
pub static TEXTURES: Objects<()> = Objects::new();

/// Description of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Texels per row of level 0.
    pub width: usize,
    /// Rows of level 0; 0 for images of one dimension.
    pub height: usize,
    /// Slices of level 0, or layers; at least 1.
    pub depth: usize,
    /// `true` if `depth` counts layers, whose number is the same in every level.
    pub layered: bool,
    /// Bytes of a texel.
    pub texel: usize,
}

/// The memory of an image and its levels.
#[derive(Debug)]
struct Memory {
    mapping: Mapping,
    _in_use: InUse,
}

/// A mapped image.
#[derive(Debug)]
pub struct Mipmapped {
    memory: Arc<Memory>,
    levels: Vec<(Plane, [usize; 3])>,
    /// The levels that end with the image, by number.
    own: Mutex<BTreeMap<usize, usize>>,
    /// The other levels.
    apart: Mutex<Vec<usize>>,
}

/// One level of a mapped image.
#[derive(Debug)]
pub struct Level {
    memory: Arc<Memory>,
    plane: Plane,
    /// Bytes per row without padding, rows, slices.
    extent: [usize; 3],
    /// `true` if it outlives its image.
    apart: bool,
}

/// The number of mapped images, and of levels that outlive theirs.
pub(crate) fn live() -> u64 {
    let apart = LEVELS.all().iter().filter(|level| level.apart).count();
    (MIPMAPPED.len() + apart) as u64
}

/// Rows in memory of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// The first byte.
    pub base: usize,
    /// Row pitch, bytes.
    pub row_pitch: usize,
    /// Slice pitch, bytes.
    pub slice_pitch: usize,
}

/// lavapipe aligns rows to a cache line, and images to its raster block.
const LINE: usize = 64;
const BLOCK: usize = 4;

impl Image {
    /// Upper bound of the number of levels.
    pub fn max_levels(&self) -> u32 {
        let depth = if self.layered { 1 } else { self.depth };
        self.width.max(self.height).max(depth).max(1).ilog2() + 1
    }

    /// Offset, row pitch, slice pitch and extent of each level.
    fn levels(&self, count: u32) -> Vec<(Plane, [usize; 3])> {
        let mut offset = 0;
        let level = |level: u32| {
            let shrunk = |n: usize| (n >> level).max(1);
            let (width, height) = (shrunk(self.width), shrunk(self.height));
            let slices = if self.layered { self.depth } else { shrunk(self.depth) };
            let rows = if self.height == 0 { 1 } else { height.next_multiple_of(BLOCK) };
            let row_pitch = (width.next_multiple_of(BLOCK) * self.texel).next_multiple_of(LINE);
            let plane = Plane { base: offset, row_pitch, slice_pitch: row_pitch * rows };
            offset += (plane.slice_pitch * slices).next_multiple_of(LINE);
            (plane, [width * self.texel, height, slices])
        };
        (0..count).map(level).collect()
    }
}

impl Mipmapped {
    /// An image in `memory` at byte `offset`. Levels beyond the end of the memory cannot be used.
    pub fn new(memory: Mapping, offset: usize, image: &Image, levels: u32) -> Self {
        let base = memory.base() + offset;
        let level = |(plane, extent): (Plane, _)| (Plane { base: base + plane.base, ..plane }, extent);
        let levels = image.levels(levels).into_iter().map(level).collect();
        let memory = Arc::new(Memory { _in_use: InUse::new(memory.length()), mapping: memory });
        Self { memory, levels, own: Mutex::default(), apart: Mutex::default() }
    }

    /// The handle of a level. It is the same in every call, and ends with the image.
    pub fn level(&self, level: u32) -> Option<usize> {
        let number = usize::try_from(level).ok()?;
        let mut own = lock(&self.own);
        if let Some(handle) = own.get(&number) {
            return Some(*handle);
        }
        let handle = self.insert(level, false)?;
        own.insert(number, handle);
        Some(handle)
    }

    /// A new handle of a level, which keeps the image's memory until it is removed from [`LEVELS`].
    pub fn new_level(&self, level: u32) -> Option<usize> {
        let handle = self.insert(level, true)?;
        lock(&self.apart).push(handle);
        Some(handle)
    }

    /// Destroys the remaining handles of [`Mipmapped::new_level`].
    pub fn end_levels(&self) {
        for handle in lock(&self.apart).drain(..) {
            LEVELS.remove(handle);
        }
    }

    fn insert(&self, level: u32, apart: bool) -> Option<usize> {
        let (plane, extent) = *self.levels.get(usize::try_from(level).ok()?)?;
        Some(LEVELS.insert(Level { memory: self.memory.clone(), plane, extent, apart }))
    }
}

impl Drop for Mipmapped {
    fn drop(&mut self) {
        for handle in lock(&self.own).values() {
            LEVELS.remove(*handle);
        }
    }
}

impl Level {
    /// The rows starting at `origin`: byte in the row, row, slice. `None` if the extent exceeds them.
    pub fn plane(&self, origin: [usize; 3], extent: [usize; 3]) -> Option<Plane> {
        for ((origin, size), most) in origin.into_iter().zip(extent).zip(self.extent) {
            origin.checked_add(size).filter(|end| *end <= most)?;
        }
        let plane = self.plane.at(origin);
        let mapping = &self.memory.mapping;
        let memory = mapping.base()..mapping.base() + mapping.length();
        let used = plane.used(extent);
        (memory.start <= used.start && used.end <= memory.end).then_some(plane)
    }
}

impl Plane {
    /// The same rows from another origin.
    #[must_use]
    pub fn at(self, [x, row, slice]: [usize; 3]) -> Self {
        let offset =
            x.wrapping_add(row.wrapping_mul(self.row_pitch)).wrapping_add(slice.wrapping_mul(self.slice_pitch));
        Self { base: self.base.wrapping_add(offset), ..self }
    }

    fn used(&self, [width, rows, slices]: [usize; 3]) -> Range<usize> {
        let last = self.at([width, rows.saturating_sub(1), slices.saturating_sub(1)]);
        self.base..last.base
    }

    /// Copies `width` bytes of each row of each slice to another plane.
    ///
    /// # Safety
    /// Both planes have this extent, and do not overlap.
    pub unsafe fn copy_to(self, target: Self, [width, rows, slices]: [usize; 3]) {
        for slice in 0..slices {
            for row in 0..rows {
                let (source, target) = (self.at([0, row, slice]).base, target.at([0, row, slice]).base);
                // SAFETY: the caller's promise.
                unsafe { to::<u8>(target).copy_from_nonoverlapping(from(source), width) };
            }
        }
    }
}

/// The location of one side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyLocation {
    /// Host or device memory at this address.
    Memory(usize),
    /// The array of a handle.
    Array(usize),
    /// A location that the driver does not support.
    Unknown,
}

/// One side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopySide {
    /// The location.
    pub place: CopyLocation,
    /// Offset in the location: byte in the row, row, slice.
    pub origin: [usize; 3],
    /// Row pitch of memory, bytes.
    pub pitch: usize,
    /// Slice pitch of memory, rows.
    pub height: usize,
}

impl CopySide {
    /// The rows of this side, and the array to keep alive until the copy has run.
    fn plane(&self, extent: [usize; 3]) -> Result<(Plane, Option<Arc<Level>>), u32> {
        let base = match self.place {
            CopyLocation::Memory(address) => address,
            CopyLocation::Array(handle) => {
                let level = LEVELS.get(handle).ok_or(code::INVALID_HANDLE)?;
                let plane = level.plane(self.origin, extent).ok_or(code::INVALID_VALUE)?;
                return Ok((plane, Some(level)));
            }
            CopyLocation::Unknown => return Err(code::INVALID_VALUE),
        };
        let [width, rows, slices] = extent;
        let fits = |pitch: usize, least: usize, count: usize| count <= 1 || pitch >= least;
        code::reject_if(base == 0 || !fits(self.pitch, width, rows) || !fits(self.height, rows, slices))?;
        let plane = Plane { base, row_pitch: self.pitch, slice_pitch: self.pitch.wrapping_mul(self.height) };
        Ok((plane.at(self.origin), None))
    }
}

/// Enqueues a copy; the extent is bytes per row, rows and slices.
///
/// # Safety
/// Memory is valid and not accessed otherwise until the work has run.
pub unsafe fn enqueue_copy(stream: &Stream, source: CopySide, target: CopySide, extent: [usize; 3]) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    stream.enqueue(unsafe { copy_work(source, target, extent) }?);
    Ok(())
}

/// As [`enqueue_copy`], for a driver that does not capture such copies: the copy runs even on a capturing stream.
///
/// # Safety
/// As for [`enqueue_copy`].
pub unsafe fn enqueue_copy_now(
    stream: &Stream,
    source: CopySide,
    target: CopySide,
    extent: [usize; 3],
) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    stream.enqueue_now(unsafe { copy_work(source, target, extent) }?);
    Ok(())
}

/// The work of a copy.
///
/// # Safety
/// As for [`enqueue_copy`].
unsafe fn copy_work(
    source: CopySide,
    target: CopySide,
    extent: [usize; 3],
) -> Result<impl Fn() -> Result<(), u32> + Send + Sync + use<>, u32> {
    let ((source, held), (target, also)) = (source.plane(extent)?, target.plane(extent)?);
    Ok(move || {
        let _held = (&held, &also);
        // SAFETY: the closure holds the checked arrays; for memory, the caller of `enqueue_copy` guarantees validity.
        faults::unless_lost(|| unsafe { source.copy_to(target, extent) });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As measured of lavapipe: an image of 100 x 37 texels of 4 bytes.
    #[test]
    fn levels_lie_where_lavapipe_puts_them() {
        let image = Image { width: 100, height: 37, depth: 1, layered: false, texel: 4 };
        let levels = image.levels(2);
        assert_eq!((levels[0].0.base, levels[0].0.row_pitch, levels[0].1), (0, 448, [400, 37, 1]));
        assert_eq!((levels[1].0.base, levels[1].0.row_pitch, levels[1].1), (17920, 256, [200, 18, 1]));
        assert_eq!(image.max_levels(), 7);
        assert_eq!(Image { depth: 300, layered: true, ..image }.max_levels(), 7);
        assert_eq!(Image { depth: 300, ..image }.max_levels(), 9);
    }

    #[test]
    fn rows_are_copied_and_what_is_not_there_is_refused() {
        let memory = Mapping::anonymous(8192).expect("memory");
        let image = Image { width: 8, height: 8, depth: 2, layered: true, texel: 4 };
        let mipmapped = Mipmapped::new(memory, 64, &image, 2);
        let level = LEVELS.get(mipmapped.level(1).expect("a level")).expect("an array");
        assert_eq!((mipmapped.level(2), mipmapped.level(1)), (None, mipmapped.level(1)));
        let apart = mipmapped.new_level(1).expect("a level");
        assert!(mipmapped.level(1) != Some(apart) && mipmapped.new_level(1) != Some(apart));
        let extent = [8, 2, 2];
        let plane = level.plane([4, 1, 0], extent).expect("inside");
        assert!(level.plane([12, 1, 0], extent).is_none() && level.plane([4, 3, 0], extent).is_none());
        assert!(level.plane([4, 1, 1], extent).is_none());
        let (source, mut back) = ((0..32).collect::<Vec<u8>>(), [0_u8; 32]);
        let packed = |base| Plane { base, row_pitch: 8, slice_pitch: 16 };
        // SAFETY: 32 bytes each, which the level has.
        unsafe {
            packed(source.as_ptr().expose_provenance()).copy_to(plane, extent);
            plane.copy_to(packed(back.as_mut_ptr().expose_provenance()), extent);
        }
        assert_eq!(source, back);
    }
}
