//! Ioctls of `/dev/kfd`, and exceptions of the GPU as the kernel reports them.
//!
//! A page fault is an event of the kind "memory" with the address. For work that the queue cannot execute, an error
//! code is written to the queue's own signal, for which the runtime has a handler. A reset is an event of the kind
//! "hardware exception", and ends the queues of the GPU.

pub(crate) mod event;
mod memory;

use std::ffi::c_void;

use rustix::io::Errno;

use crate::abi::kfd::{
    AcquireVm, Apertures, ById, ClockCounters, CreateQueue, EVENT_HW_EXCEPTION, EVENT_MEMORY, GetApertures, GetVersion,
    SetCuMask, TileConfig, UpdateQueue, XnackMode,
};
use crate::abi::{Result, edit, kfd as number, request_number, write_user};
use crate::drm::GB_ADDR_CONFIG;
use crate::emulation::{Device, Emulation};
use crate::kfd::memory::doorbell_offset;
use crate::memory::PageFault;
use crate::queue::{Description, Queue, Stop, aql};
use crate::settings::TrapHandler;
use crate::{gpu, queue, report};

/// Executes an ioctl.
///
/// # Safety
///
/// `argument` is valid for the request, as the caller of `ioctl` guarantees.
pub(crate) unsafe fn ioctl(emulation: &'static Emulation, request: u64, argument: *mut c_void) -> Result<()> {
    let number = request_number(request);
    let name = number::name(number).unwrap_or_else(|| format!("kfd-{number:#04x}"));
    // SAFETY: the caller's promise.
    emulation.ioctl(&name, || unsafe { dispatch(emulation, request, argument) })
}

/// # Safety
///
/// As for [`ioctl`].
unsafe fn dispatch(emulation: &'static Emulation, request: u64, argument: *mut c_void) -> Result<()> {
    macro_rules! call {
        ($function:path) => {
            // SAFETY: the caller's promise.
            unsafe { edit(request, argument, |value| $function(emulation, value)) }
        };
    }
    match request_number(request) {
        number::GET_VERSION => call!(version),
        number::GET_CLOCK_COUNTERS => call!(clock_counters),
        number::GET_PROCESS_APERTURES_NEW => call!(apertures),
        number::GET_TILE_CONFIG => call!(tile_config),
        number::ACQUIRE_VM => call!(acquire_vm),
        number::SET_XNACK_MODE => call!(xnack_mode),
        // Setup of features that are not emulated.
        number::SET_MEMORY_POLICY | number::SET_SCRATCH_BACKING_VA | number::SET_TRAP_HANDLER => Ok(()),
        number::AVAILABLE_MEMORY => call!(memory::available),
        number::ALLOC_MEMORY_OF_GPU => call!(memory::allocate),
        number::FREE_MEMORY_OF_GPU => call!(memory::free),
        number::MAP_MEMORY_TO_GPU => call!(memory::map),
        number::UNMAP_MEMORY_FROM_GPU => call!(memory::unmap),
        number::GET_DMABUF_INFO => call!(memory::dmabuf_info),
        number::IMPORT_DMABUF => call!(memory::import),
        number::EXPORT_DMABUF => call!(memory::export),
        number::CREATE_EVENT => call!(event::create),
        number::DESTROY_EVENT => call!(event::destroy),
        number::SET_EVENT => call!(event::set),
        number::RESET_EVENT => call!(event::reset),
        number::WAIT_EVENTS => call!(event::wait),
        number::CREATE_QUEUE => call!(create_queue),
        number::DESTROY_QUEUE => call!(destroy_queue),
        number::UPDATE_QUEUE => call!(update_queue),
        number::SET_CU_MASK => call!(set_cu_mask),
        _ => Err(Errno::NOTTY),
    }
}

fn version(_: &Emulation, value: &mut GetVersion) -> Result<()> {
    (value.major, value.minor) = (1, 17);
    Ok(())
}

fn clock_counters(_: &Emulation, value: &mut ClockCounters) -> Result<()> {
    value.gpu_clock_counter = gpu::gpu_clock();
    value.cpu_clock_counter = gpu::cpu_clock();
    value.system_clock_counter = gpu::system_clock();
    value.system_clock_freq = 1_000_000_000;
    Ok(())
}

/// High words of the addresses through which flat instructions reach LDS, and private memory.
pub(crate) const LDS_APERTURE: u32 = 1 << 16;
pub(crate) const SCRATCH_APERTURE: u32 = 2 << 16;

fn apertures(emulation: &Emulation, value: &mut GetApertures) -> Result<()> {
    let room = usize::try_from(value.count).map_err(|_| Errno::INVAL)?;
    for (gpu, at) in emulation.gpus.iter().take(room).zip((value.apertures..).step_by(size_of::<Apertures>())) {
        let apertures = Apertures {
            lds_base: u64::from(LDS_APERTURE) << 32,
            lds_limit: u64::from(LDS_APERTURE) << 32 | 0xffff_ffff,
            scratch_base: u64::from(SCRATCH_APERTURE) << 32,
            scratch_limit: u64::from(SCRATCH_APERTURE) << 32 | 0xffff_ffff,
            gpuvm_base: 0x4000,
            gpuvm_limit: (1 << 47) - 1,
            gpu_id: gpu.id(),
            pad: 0,
        };
        // SAFETY: the caller of the ioctl passes an array of `count` elements, and no more are written.
        unsafe { write_user(at, apertures)? };
    }
    value.count = u32::try_from(emulation.gpus.len()).map_err(|_| Errno::INVAL)?;
    Ok(())
}

fn tile_config(emulation: &Emulation, value: &mut TileConfig) -> Result<()> {
    emulation.gpu(value.gpu_id)?;
    (value.tile_configs, value.macro_tile_configs) = (0, 0);
    (value.gb_addr_config, value.banks, value.ranks) = (GB_ADDR_CONFIG, 1, 1);
    Ok(())
}

fn acquire_vm(emulation: &Emulation, value: &mut AcquireVm) -> Result<()> {
    let gpu = emulation.gpu(value.gpu_id)?;
    let descriptor = i32::try_from(value.drm_fd).map_err(|_| Errno::INVAL)?;
    let file = emulation.files.find(descriptor).ok_or(Errno::INVAL)?;
    if file.device != Device::Render(gpu.index) {
        return Err(Errno::INVAL);
    }
    match emulation.settings.trap_handler {
        TrapHandler::Reserved => Ok(()),
        TrapHandler::High => emulation.memory.map_trap_handler(gpu.index, file.number),
    }
}

/// Page faults are never retried.
fn xnack_mode(_: &Emulation, value: &mut XnackMode) -> Result<()> {
    if value.enabled.cast_signed() > 0 {
        return Err(Errno::PERM);
    }
    value.enabled = 0;
    Ok(())
}

fn create_queue(emulation: &'static Emulation, value: &mut CreateQueue) -> Result<()> {
    let gpu = emulation.gpu(value.gpu_id)?;
    let description = Description {
        gpu: gpu.index,
        kind: value.queue_type,
        ring: value.ring_base_address,
        ring_size: u64::from(value.ring_size),
        read_pointer: value.read_pointer_address,
        write_pointer: value.write_pointer_address,
    };
    value.queue_id =
        emulation.queues.create(&emulation.doorbells, &description, move |queue| queue::run_queue(queue, emulation))?;
    value.doorbell_offset = doorbell_offset(gpu) | (u64::from(value.queue_id) * 8);
    Ok(())
}

fn destroy_queue(emulation: &Emulation, value: &mut ById) -> Result<()> {
    emulation.queues.destroy(value.id)
}

/// A share of 0 percent pauses the queue.
fn update_queue(emulation: &Emulation, value: &mut UpdateQueue) -> Result<()> {
    let paused = value.queue_percentage & 0xff == 0;
    emulation.queues.update(value.queue_id, value.ring_base_address, u64::from(value.ring_size), paused)
}

/// The mask of a queue's compute units is ignored: one thread executes the queue.
fn set_cu_mask(emulation: &Emulation, value: &mut SetCuMask) -> Result<()> {
    if value.mask_bits == 0 || !value.mask_bits.is_multiple_of(32) || !emulation.queues.contains(value.queue_id) {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// The error code of `amd_queue_t`'s signal that the runtime translates to "invalid code object".
const INVALID_CODE_OBJECT: i64 = 16;

/// Reports the reason why a queue stopped.
pub(crate) fn report_stop(emulation: &Emulation, queue: &Queue, stop: &Stop) {
    let id = queue.id;
    let gpu = emulation.gpus.get(queue.gpu).map_or(0, crate::gpu::Gpu::id);
    match stop {
        Stop::Destroyed => {}
        Stop::Hang => report::failure(format_args!("queue {id} hangs")),
        Stop::PageFault(PageFault { address, read_only, .. }) => {
            let why = if *read_only { "read-only" } else { "not mapped" };
            report::failure(format_args!("queue {id}: GPU page fault at {address:#x}, {why}"));
            emulation.counters.add("page_faults", why);
            emulation.events.raise(EVENT_MEMORY, memory_exception(*address, gpu, *read_only));
        }
        Stop::Invalid(why) => {
            report::failure(format_args!("queue {id}: {why}"));
            emulation.counters.add("queue_errors", why);
            match queue.error_signal(&emulation.memory) {
                Some(signal) => _ = aql::store_signal(emulation, queue.gpu, signal, INVALID_CODE_OBJECT),
                None => emulation.events.raise(EVENT_HW_EXCEPTION, hardware_exception(gpu)),
            }
        }
        Stop::Reset => {
            report::failure(format_args!("queue {id}: GPU {} is reset", queue.gpu));
            emulation.counters.add("resets", "reset");
            for other in emulation.queues.of_gpu(queue.gpu) {
                other.kill();
            }
            emulation.events.raise(EVENT_HW_EXCEPTION, hardware_exception(gpu));
        }
    }
}

/// `kfd_hsa_memory_exception_data`.
fn memory_exception(address: u64, gpu: u32, read_only: bool) -> [u64; 4] {
    let (not_present, read_only) = (u64::from(!read_only), u64::from(read_only));
    [not_present | read_only << 32, 0, address & !0xfff, u64::from(gpu)]
}

/// `kfd_hsa_hw_exception_data`: the whole GPU was reset after a hang, and its memory is lost.
fn hardware_exception(gpu: u32) -> [u64; 4] {
    [0, 1 | u64::from(gpu) << 32, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_laid_out_as_in_the_kernels_header() {
        assert_eq!(memory_exception(0x1234_5678, 0x4321, false), [1, 0, 0x1234_5000, 0x4321]);
        assert_eq!(memory_exception(0x1000, 7, true), [1 << 32, 0, 0x1000, 7]);
        assert_eq!(hardware_exception(0x4321), [0, 0x4321_0000_0001, 0, 0]);
    }
}
