//! Addresses known to the runtime, which looks up every address that it receives.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

use gpu_interop_sim_abi::hip::device;
use gpu_interop_sim_abi::hip::version::Era;
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::{code, memory};

use crate::die_because;
use crate::{external, physical, streams};

/// An allocation.
#[derive(Debug, Clone, Copy)]
struct Allocation {
    size: usize,
    device: c_int,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// For signals: a reset of the device leaves it.
    Signal,
    /// Pinned memory of the process.
    Pinned,
}

/// Allocations by their first address.
static ALLOCATIONS: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

/// Allocates memory, on the current device or for it; a size of 0 gives a null address.
pub(crate) fn allocate(size: usize, kind: Kind) -> Result<usize, u32> {
    if size == 0 {
        return Ok(0);
    }
    let address = memory::allocate(size, kind == Kind::Signal).ok_or(code::OUT_OF_MEMORY)?;
    lock(&ALLOCATIONS).insert(address, Allocation { size, device: device::current(), kind });
    Ok(address)
}

/// Pins memory of the process.
pub(crate) fn pin(address: usize, size: usize) -> Result<(), u32> {
    if !memory::pin(address) {
        return Err(code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    lock(&ALLOCATIONS).insert(address, Allocation { size, device: device::current(), kind: Kind::Pinned });
    Ok(())
}

/// Unpins memory of the process, once all work of its device has run.
pub(crate) fn unpin(address: usize) -> Result<(), u32> {
    let Some((base, pinned)) = allocation(address).filter(|(_, found)| found.kind == Kind::Pinned) else {
        return Err(code::HOST_MEMORY_NOT_REGISTERED);
    };
    streams::drain(Some(pinned.device));
    lock(&ALLOCATIONS).remove(&base);
    memory::unpin(base);
    Ok(())
}

/// The number of the allocation that contains an address.
pub(crate) fn number(address: usize) -> Option<u64> {
    allocation(address).and_then(|(base, _)| memory::number(base))
}

/// Forgets the memory that a reset of the device has freed.
pub(crate) fn reset() {
    lock(&ALLOCATIONS).retain(|_, allocation| allocation.kind == Kind::Signal);
}

/// The allocation that contains an address, with its first address.
fn allocation(address: usize) -> Option<(usize, Allocation)> {
    let (base, allocation) = lock(&ALLOCATIONS).range(..=address).next_back().map(|(base, it)| (*base, *it))?;
    (address - base < allocation.size).then_some((base, allocation))
}

/// The memory at an address; `None` if it is unknown to the runtime.
pub(crate) fn find(address: usize) -> Option<Found> {
    match allocation(address) {
        Some((base, allocation)) => {
            Some(Found { address, size: allocation.size, offset: address - base, real: allocation.size })
        }
        None => external::find(address).or_else(|| physical::find(address)),
    }
}

/// A word for writes and waits of streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    address: usize,
    /// The word is within one allocation and aligned.
    reachable: bool,
}

impl Word {
    /// The address; if the word cannot be accessed, the device has a page fault.
    pub(crate) fn reachable(self) -> Result<usize, u32> {
        if self.reachable {
            Ok(self.address)
        } else {
            page_fault("a word is partly outside of its memory, or not aligned")
        }
    }
}

/// The word of `size` bytes at an address. The runtime only checks that it begins in memory.
pub(crate) fn word(address: usize, size: usize) -> Result<Word, u32> {
    let found = find(address).filter(|_| address != 0).ok_or(code::INVALID_VALUE)?;
    Ok(Word { address: found.address, reachable: found.rest() >= size && found.address.is_multiple_of(size) })
}

/// The device accesses invalid memory: the process aborts, and since HIP 7.2 the work fails.
pub(crate) fn page_fault(what: &str) -> Result<usize, u32> {
    /// `hipErrorIllegalAddress`.
    const ILLEGAL_ADDRESS: u32 = 700;
    if Era::now() >= Era::Seven { Err(ILLEGAL_ADDRESS) } else { die_because(what) }
}

/// Frees the allocation that contains an address, even if it is not the first one, once all work of its device has run.
/// A null address has no effect. Both functions free both kinds of allocations.
pub(crate) fn free(address: usize, function: FreeFunction) -> Result<(), u32> {
    if address == 0 {
        return Ok(());
    }
    let Some((base, allocation)) = allocation(address) else {
        // Success, although it must not be freed so; a later unmap succeeds, too.
        return if physical::is_mapped(address) { Ok(()) } else { external::free(address, function) };
    };
    code::reject_if(allocation.kind == Kind::Pinned)?;
    streams::drain(Some(allocation.device));
    lock(&ALLOCATIONS).remove(&base);
    if memory::free(base) { Ok(()) } else { Err(code::INVALID_VALUE) }
}

/// The memory that a fill of `size` bytes at an address writes; `None` if the device accesses nothing there.
pub(crate) fn fill(address: usize, size: usize) -> Result<Option<usize>, u32> {
    let found = find(address).filter(|_| address != 0).ok_or(code::INVALID_VALUE)?;
    if size <= found.rest() {
        return Ok((found.offset + size <= found.real).then_some(found.address));
    }
    code::reject_if(Era::now() > Era::Early || size > found.size)?;
    die_because("HIP 5.2 fills memory past its end if the fill does not begin at its first byte")
}

/// The real address of a side of a copy. Memory unknown to the runtime is the host's.
pub(crate) fn side(address: usize, size: usize) -> Result<(usize, bool), u32> {
    match find(address) {
        Some(found) if found.rest() < size => Err(code::INVALID_VALUE),
        Some(found) => Ok((found.address, true)),
        None => Ok((address, false)),
    }
}

/// The memory at an address known to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The address that the runtime's copies, fills and words access, which may differ.
    pub(crate) address: usize,
    /// Size of the memory known to the runtime, offset of the address in it, and real size; bytes.
    pub(crate) size: usize,
    pub(crate) offset: usize,
    pub(crate) real: usize,
}

impl Found {
    /// Bytes from the address to the end.
    pub(crate) fn rest(&self) -> usize {
        self.size.saturating_sub(self.offset)
    }
}

/// The function that frees memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreeFunction {
    /// `hipFree`.
    Device,
    /// `hipHostFree`.
    Host,
}
