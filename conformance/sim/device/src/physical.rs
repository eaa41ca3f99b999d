//! Exportable memory: memory files, and the address ranges at which they are mapped.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::device::InUse;
use crate::objects::Objects;
use crate::system::{EXPORTED_AS, ExportHandle, ImportHandle, Mapping, SharedMemory};
use crate::work::address;
use crate::{code, device};

/// A memory file.
#[derive(Debug)]
pub struct Physical {
    memory: SharedMemory,
    size: usize,
    _in_use: InUse,
}

/// Memory files by handle.
pub static PHYSICAL: Objects<Physical> = Objects::new();
/// Reserved address ranges by their first address.
pub static RESERVED: Objects<Mapping> = Objects::new();

/// Granularity of sizes in bytes, as measured on an NVIDIA GPU, unless a driver sets another one.
static GRANULARITY: OnceLock<usize> = OnceLock::new();

/// Granularity of sizes, bytes.
pub fn granularity() -> usize {
    *GRANULARITY.get_or_init(|| 2 << 20)
}

/// Sets the granularity of sizes. Must be called once, before the first query.
pub fn choose_granularity(bytes: usize) {
    GRANULARITY.get_or_init(|| bytes);
}

impl Physical {
    /// Maps a range of it into reserved addresses, not accessible yet.
    fn map(&self, reserved: &Mapping, at: usize, size: usize, offset: usize) -> io::Result<()> {
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.memory.map(reserved, at, size, offset)
    }
}

// Implementations of the functions of both vendors. A failure is a status code.

/// Numbers that both vendors use: pinned allocation, device location, access for reads and writes.
const PINNED: u32 = 1;
const DEVICE: u32 = 1;
const READ_WRITE: u32 = 3;

/// Fails unless a description is of device memory: type, handle types, location and device.
pub fn check([kind, handles, location, number]: [u32; 4]) -> Result<(), u32> {
    code::reject_if(kind != PINNED || location != DEVICE || !device::exists(number.cast_signed()))?;
    if handles & !EXPORTED_AS != 0 { Err(code::NOT_SUPPORTED) } else { Ok(()) }
}

/// Returns the size, which must be a non-zero multiple of the granularity.
fn whole(size: usize) -> Result<usize, u32> {
    if size == 0 || !size.is_multiple_of(granularity()) { Err(code::INVALID_VALUE) } else { Ok(size) }
}

/// The reserved range that contains an address.
///
/// # Errors
/// [`code::INVALID_VALUE`].
pub fn reserved(pointer: u64) -> Result<(usize, Arc<Mapping>), u32> {
    let pointer = address(pointer);
    let inside = |range: &Arc<Mapping>| (range.base()..range.base() + range.length()).contains(&pointer);
    RESERVED.all().into_iter().find(inside).map(|range| (pointer, range)).ok_or(code::INVALID_VALUE)
}

fn physical(handle: u64) -> Result<Arc<Physical>, u32> {
    PHYSICAL.get(address(handle)).ok_or(code::INVALID_VALUE)
}

/// Creates memory and returns its handle.
pub fn create(size: usize, flags: u64) -> Result<u64, u32> {
    code::reject_if(flags != 0)?;
    let size = whole(size)?;
    let memory = SharedMemory::new(size).map_err(|_| code::OUT_OF_MEMORY)?;
    Ok(PHYSICAL.insert(Physical { memory, size, _in_use: InUse::new(size) }) as u64)
}

/// Releases a handle. The memory is freed with its last mapping.
pub fn release(handle: u64) -> Result<(), u32> {
    PHYSICAL.remove(address(handle)).map(drop).ok_or(code::INVALID_VALUE)
}

/// Reserves addresses and returns the first.
pub fn reserve(size: usize, alignment: usize, flags: u64) -> Result<u64, u32> {
    code::reject_if(flags != 0 || !(alignment == 0 || alignment.is_power_of_two()))?;
    let range = Mapping::reserved(whole(size)?).map_err(|_| code::OUT_OF_MEMORY)?;
    let base = range.base();
    RESERVED.insert_as(base, range);
    Ok(base as u64)
}

/// Frees a whole reservation.
pub fn unreserve(pointer: u64, size: usize) -> Result<(), u32> {
    let (pointer, range) = reserved(pointer)?;
    code::reject_if(range.base() != pointer || range.length() != size)?;
    RESERVED.remove(pointer).map(drop).ok_or(code::INVALID_VALUE)
}

/// Maps memory from its first byte.
pub fn map(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) -> Result<(), u32> {
    let (pointer, range) = reserved(pointer)?;
    code::reject_if(flags != 0 || offset != 0)?;
    physical(handle)?.map(&range, pointer, whole(size)?, offset).map_err(|_| code::INVALID_VALUE)
}

/// Undoes [`map`].
pub fn unmap(pointer: u64, size: usize) -> Result<(), u32> {
    let (pointer, range) = reserved(pointer)?;
    range.clear(pointer, whole(size)?).map_err(|_| code::INVALID_VALUE)
}

/// Makes mapped memory accessible to the device: location and flags, as numbers.
pub fn allow(pointer: u64, size: usize, [location, flags]: [u32; 2]) -> Result<(), u32> {
    code::reject_if(location != DEVICE || flags != READ_WRITE)?;
    let (pointer, range) = reserved(pointer)?;
    range.allow(pointer, whole(size)?).map_err(|_| code::INVALID_VALUE)
}

/// Creates a handle of memory that any process exported. The caller still owns the exported handle.
pub fn import(given: ImportHandle, kind: u32) -> Result<u64, u32> {
    code::reject_if(kind != EXPORTED_AS)?;
    let (memory, size) = SharedMemory::open(given).ok_or(code::INVALID_VALUE)?;
    Ok(PHYSICAL.insert(Physical { memory, size, _in_use: InUse::new(size) }) as u64)
}

/// Exports memory as a handle that the caller owns.
pub fn export(handle: u64, kind: u32, flags: u64) -> Result<ExportHandle, u32> {
    code::reject_if(kind != EXPORTED_AS || flags != 0)?;
    physical(handle)?.memory.export().map_err(|_| code::OUT_OF_MEMORY)
}
