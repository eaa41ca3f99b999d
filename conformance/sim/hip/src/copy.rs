//! Memory that is not shared, copies and fills.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut as to};
use std::time::Duration;

use gpu_interop_sim_abi::hip::memory::{Placement, check_host_flags, placement};
use gpu_interop_sim_abi::hip::version::Era;
use gpu_interop_sim_device::{code, device, entries, faults, work};

use crate::device::{need, ready};
use crate::die_because;
use crate::memory::{FreeFunction, Kind};
use crate::streams::Missing;
use crate::{address, give, graph, memory, streams};

/// Allocates memory; a size of 0 gives a null address.
fn allocate(size: usize, kind: Kind) -> Result<*mut c_void, u32> {
    need()?;
    graph::check_permitted()?;
    memory::allocate(size, kind).map(to)
}

/// `HIP_POINTER_ATTRIBUTE_BUFFER_ID`.
const BUFFER_ID: c_int = 7;

/// Frees memory; a null address has no effect.
fn free(pointer: usize, function: FreeFunction) -> Result<(), u32> {
    if pointer == 0 && Era::now() == Era::Early {
        return Ok(());
    }
    need()?;
    graph::check_permitted()?;
    memory::free(pointer, function)
}

/// Maximum size in bytes of pageable host memory that the runtime copies at once, so that the call does not wait: since
/// HIP 6.
const STAGED: usize = 1 << 20;

/// Direction of a copy function. Before HIP 6 copies to and from the host use no hardware queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyDirection {
    HostAndDevice,
    Devices,
}

/// Enqueues a copy. A copy to or from memory unknown to the runtime blocks until it has run, after the stream's earlier
/// work, unless it is staged.
///
/// # Safety
/// Memory unknown to the runtime is valid until the copy has run.
unsafe fn copy(target: usize, source: usize, size: usize, stream: usize, direction: CopyDirection) -> Result<(), u32> {
    need()?;
    let (here, found) = if direction == CopyDirection::HostAndDevice && Era::now() < Era::Six {
        streams::for_copy(stream, &Missing::COPY)?
    } else {
        streams::for_work(stream, &Missing::COPY)?
    };
    if size == 0 {
        return match (found.recording().is_some(), Era::now()) {
            (true, Era::Seven) => Err(code::INVALID_VALUE),
            // A captured copy never ends.
            (true, Era::Early | Era::Five) => {
                found.enqueue(hang);
                Ok(())
            }
            _ => Ok(()),
        };
    }
    code::reject_if(target == 0 || source == 0)?;
    let ((target, to_known), (source, from_known)) = (memory::side(target, size)?, memory::side(source, size)?);
    code::reject_if(!to_known && !from_known)?;
    let recorded = found.recording().is_some();
    if !from_known && !recorded && size <= STAGED && Era::now() >= Era::Six {
        // SAFETY: the caller's promise.
        let staged = unsafe { std::slice::from_raw_parts(with_exposed_provenance::<u8>(source), size) }.to_vec();
        found.enqueue(move || {
            // SAFETY: the runtime knows the memory, which has that size.
            faults::unless_lost(|| unsafe { to::<u8>(target).copy_from(staged.as_ptr(), size) });
            Ok(())
        });
        streams::note_work(here, &found);
        return Ok(());
    }
    // SAFETY: known memory has that size; the caller guarantees the rest.
    unsafe { work::copy(target, source, size, here) }?;
    streams::note_work(here, &found);
    // Pageable memory is not left to the device.
    if !(recorded || from_known && to_known) {
        found.drain();
        streams::mark(here);
    }
    Ok(())
}

/// Blocks until the device is lost.
fn hang() -> Result<(), u32> {
    while !faults::is_lost() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn fill<T: Copy + Send + Sync + 'static>(target: u64, value: T, count: usize, stream: usize) -> Result<(), u32> {
    need()?;
    let (target, era) = (address(target), Era::now());
    let (here, found) = streams::for_work(stream, &Missing::FILL)?;
    // The product wraps around.
    let size = count.wrapping_mul(size_of::<T>());
    let recorded = found.recording().is_some();
    if size == 0 {
        return match (recorded, era) {
            (true, Era::Early) => {
                found.enqueue(|| die_because("HIP 5.2 launches a graph in which nothing is filled"));
                Ok(())
            }
            (true, _) => Err(code::INVALID_VALUE),
            (false, _) => Ok(()),
        };
    }
    let target = memory::fill(target, size)?;
    streams::note_work(here, &found);
    let Some(target) = target else {
        found.enqueue(|| memory::page_fault("memory is filled that the import does not have").map(drop));
        return Ok(());
    };
    if !target.is_multiple_of(size_of::<T>()) && era < Era::Six {
        die_because("before HIP 6 a fill with words needs an address that is a multiple of one");
    }
    if era == Era::Early && !target.is_multiple_of(8) && size < 8 - target % 8 {
        let die = || die_because("HIP 5.2 fills 2^64 bytes where a fill neither begins nor ends at a multiple of 8");
        if recorded {
            found.enqueue(die);
            return Ok(());
        }
        return die();
    }
    // SAFETY: the runtime knows the memory, which has that size.
    unsafe { work::fill_anywhere(&found, target, value, size / size_of::<T>()) };
    Ok(())
}

entries! {
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) gives pointer {
        code::reject_if(pointer.is_null())?;
        give(pointer, allocate(size, Kind::Plain)?)
    }

    fn hipExtMallocWithFlags(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        // The location is ignored: all memory is the same here.
        let place = placement(size, flags)?;
        code::reject_if(pointer.is_null())?;
        let is_signal = place == Placement::Host;
        let memory = allocate(size, if is_signal { Kind::Signal } else { Kind::Plain })?;
        if is_signal {
            // A signal has the initial value 1.
            memory.cast::<u64>().write(1);
        }
        give(pointer, memory)
    }

    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        need()?;
        give(free, usize::try_from(device::free_memory()).unwrap_or(usize::MAX))?;
        give(total, usize::try_from(device::TOTAL_MEMORY).unwrap_or(usize::MAX))
    }

    fn hipFree(pointer: u64) {
        free(address(pointer), FreeFunction::Device)
    }

    fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        need()?;
        code::reject_if(pointer.is_null())?;
        graph::check_permitted()?;
        // Every later failure writes a null result.
        give(pointer, std::ptr::null_mut())?;
        check_host_flags(flags)?;
        give(pointer, allocate(size, Kind::Plain)?)
    }

    fn hipHostRegister(pointer: *mut c_void, size: usize, flags: c_uint) {
        need()?;
        graph::check_permitted()?;
        code::reject_if(pointer.is_null() || size == 0 || flags & !0xf != 0)?;
        memory::pin(pointer.expose_provenance(), size)
    }

    fn hipHostUnregister(pointer: *mut c_void) {
        need()?;
        graph::check_permitted()?;
        memory::unpin(pointer.expose_provenance())
    }

    fn hipPointerGetAttribute(value: *mut c_void, attribute: c_int, pointer: u64) {
        ready()?;
        code::reject_if(value.is_null() || attribute != BUFFER_ID)?;
        give(value.cast::<u64>(), memory::number(address(pointer)).ok_or(code::INVALID_VALUE)?)
    }

    fn hipDeviceReset() {
        need()?;
        device::reset();
        memory::reset();
        streams::reset();
        Ok(())
    }

    fn hipHostGetDevicePointer(device: *mut *mut c_void, pointer: *mut c_void, flags: c_uint) gives device {
        need()?;
        let known = memory::find(pointer.expose_provenance()).is_some();
        code::reject_if(pointer.is_null() || !known || (flags != 0 && Era::now() >= Era::Six))?;
        give(device, pointer)
    }

    fn hipHostFree(pointer: *mut c_void) {
        free(pointer.expose_provenance(), FreeFunction::Host)
    }

    fn hipMemcpyDtoDAsync(target: u64, source: u64, size: usize, stream: usize) {
        copy(address(target), address(source), size, stream, CopyDirection::Devices)
    }

    fn hipMemcpyDtoHAsync(target: *mut c_void, source: u64, size: usize, stream: usize) {
        copy(target.expose_provenance(), address(source), size, stream, CopyDirection::HostAndDevice)
    }

    fn hipMemcpyHtoDAsync(target: u64, source: *const c_void, size: usize, stream: usize) {
        copy(address(target), source.expose_provenance(), size, stream, CopyDirection::HostAndDevice)
    }

    fn hipMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) {
        fill(target, value, count, stream)
    }

    fn hipMemsetD32Async(target: u64, value: c_int, count: usize, stream: usize) {
        fill(target, value, count, stream)
    }
}
