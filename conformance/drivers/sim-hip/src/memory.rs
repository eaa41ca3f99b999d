//! Which addresses the runtime knows: it looks them up wherever one is given to it.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

use gpu_interop_sim::{code, memory};
use gpu_interop_stand_in::hip::device;
use gpu_interop_stand_in::hip::era::Era;
use gpu_interop_stand_in::lock;

use crate::missing::die_because;
use crate::{external, streams};

/// What was allocated.
#[derive(Debug, Clone, Copy)]
struct Allocation {
    size: usize,
    device: c_int,
}

/// Allocations by their first address.
static ALLOCATIONS: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

/// Memory at an address that the runtime knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where the runtime's own copies, fills and words go, which is not always the address.
    pub(crate) address: usize,
    /// Bytes of the memory, and before the address.
    pub(crate) size: usize,
    pub(crate) offset: usize,
}

impl Found {
    /// How many bytes there are from the address on.
    pub(crate) fn rest(&self) -> usize {
        self.size.saturating_sub(self.offset)
    }
}

/// Allocates, on the current device or for it; nothing for nothing.
pub(crate) fn allocate(size: usize) -> Result<usize, u32> {
    if size == 0 {
        return Ok(0);
    }
    let address = memory::allocate(size).ok_or(code::OUT_OF_MEMORY)?;
    lock(&ALLOCATIONS).insert(address, Allocation { size, device: device::current() });
    Ok(address)
}

/// The allocation that an address is in: its first address, and what it is.
fn allocation(address: usize) -> Option<(usize, Allocation)> {
    let (base, allocation) = lock(&ALLOCATIONS).range(..=address).next_back().map(|(base, it)| (*base, *it))?;
    (address - base < allocation.size).then_some((base, allocation))
}

/// What is at an address; `None` if the runtime does not know it.
pub(crate) fn find(address: usize) -> Option<Found> {
    match allocation(address) {
        Some((base, allocation)) => Some(Found { address, size: allocation.size, offset: address - base }),
        None => external::find(address).or_else(|| crate::physical::find(address)),
    }
}

/// The word at an address that a stream writes or waits for.
pub(crate) fn word(address: usize, size: usize) -> Result<usize, u32> {
    let found = find(address).filter(|_| address != 0).ok_or(code::INVALID_VALUE)?;
    if found.rest() < size {
        die_because("a word is partly outside of its memory, where a device has nothing");
    }
    Ok(found.address)
}

/// Who frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// `hipFree`.
    Device,
    /// `hipHostFree`.
    Host,
}

/// Frees what an address is in, also if that is not its first one, once all work of its device has run. Nothing is freed
/// where there is nothing. Either function frees either sort of allocation.
pub(crate) fn free(address: usize, function: Function) -> Result<(), u32> {
    if address == 0 {
        return Ok(());
    }
    let Some((base, allocation)) = allocation(address) else { return external::free(address, function) };
    streams::drain(Some(allocation.device));
    lock(&ALLOCATIONS).remove(&base);
    if memory::free(base) { Ok(()) } else { Err(code::INVALID_VALUE) }
}

/// What a fill of `size` bytes at an address fills.
pub(crate) fn fill(address: usize, size: usize) -> Result<usize, u32> {
    let found = find(address).filter(|_| address != 0).ok_or(code::INVALID_VALUE)?;
    if size <= found.rest() {
        return Ok(found.address);
    }
    if Era::now() > Era::Early || size > found.size {
        return Err(code::INVALID_VALUE);
    }
    die_because("HIP 5.2 fills memory past its end if the fill does not begin at its first byte")
}

/// One side of a copy: where it really is. What the runtime does not know is the host's.
pub(crate) fn side(address: usize, size: usize) -> Result<(usize, bool), u32> {
    match find(address) {
        Some(found) if found.rest() < size => Err(code::INVALID_VALUE),
        Some(found) => Ok((found.address, true)),
        None => Ok((address, false)),
    }
}
