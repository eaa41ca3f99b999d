//! Ioctls of `/dev/kfd`.

mod event;
pub(crate) mod exception;
mod memory;
mod process;
mod queue;

use std::ffi::c_void;

use rustix::io::Errno;

use crate::abi::kfd as number;
use crate::abi::{Result, edit, request_number};
use crate::emulation::Emulation;

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
        number::GET_VERSION => call!(process::version),
        number::GET_CLOCK_COUNTERS => call!(process::clock_counters),
        number::GET_PROCESS_APERTURES_NEW => call!(process::apertures),
        number::GET_TILE_CONFIG => call!(process::tile_config),
        number::ACQUIRE_VM => call!(process::acquire_vm),
        number::SET_XNACK_MODE => call!(process::xnack_mode),
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
        number::CREATE_QUEUE => call!(queue::create),
        number::DESTROY_QUEUE => call!(queue::destroy),
        number::UPDATE_QUEUE => call!(queue::update),
        number::SET_CU_MASK => call!(queue::set_cu_mask),
        _ => Err(Errno::NOTTY),
    }
}
