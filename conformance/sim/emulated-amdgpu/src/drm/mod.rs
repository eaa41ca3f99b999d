//! Ioctls of the render nodes.

pub(crate) mod gem;
mod info;

use std::ffi::c_void;

use rustix::io::Errno;

use crate::abi::drm::{self as number, Client, GetCap, Version};
use crate::abi::{Result, edit, request_number, write_user};
use crate::emulation::Emulation;
use crate::files::File;
use crate::gpu::Gpu;

/// The open file of an ioctl, and the GPU of its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    emulation: &'static Emulation,
    file: &'a File,
    gpu: &'static Gpu,
}

/// Executes an ioctl of a GPU's render node.
///
/// # Safety
///
/// `argument` is valid for the request, as the caller of `ioctl` guarantees.
pub(crate) unsafe fn ioctl(
    emulation: &'static Emulation,
    file: &File,
    gpu: usize,
    request: u64,
    argument: *mut c_void,
) -> Result<()> {
    let number = request_number(request);
    let name = number::name(number).unwrap_or_else(|| format!("drm-{number:#04x}"));
    emulation.ioctl(&name, || {
        let gpu = emulation.gpus.get(gpu).ok_or(Errno::NODEV)?;
        // SAFETY: the caller's promise.
        unsafe { dispatch(Caller { emulation, file, gpu }, request, argument) }
    })
}

/// # Safety
///
/// As for [`ioctl`].
unsafe fn dispatch(caller: Caller<'_>, request: u64, argument: *mut c_void) -> Result<()> {
    macro_rules! call {
        ($function:path) => {
            // SAFETY: the caller's promise.
            unsafe { edit(request, argument, |value| $function(caller, value)) }
        };
    }
    match request_number(request) {
        number::VERSION => call!(version),
        number::GET_CLIENT => call!(client),
        number::GET_CAP => call!(capability),
        number::INFO => call!(info::info),
        number::GEM_CREATE => call!(gem::create),
        number::GEM_USERPTR => call!(gem::userptr),
        number::GEM_CLOSE => call!(gem::close),
        number::GEM_MMAP => call!(gem::mmap_offset),
        number::GEM_VA => call!(gem::address),
        number::GEM_WAIT_IDLE => call!(gem::wait_idle),
        number::GEM_METADATA => call!(gem::metadata),
        number::GEM_OP => call!(gem::operation),
        number::PRIME_FD_TO_HANDLE => call!(gem::import),
        number::PRIME_HANDLE_TO_FD => call!(gem::export),
        _ => Err(Errno::NOTTY),
    }
}

fn version(_: Caller<'_>, value: &mut Version) -> Result<()> {
    (value.major, value.minor, value.patch) = (3, 54, 0);
    for ([length, address], text) in value.texts.iter_mut().zip(["amdgpu", "20150101", "AMD GPU"]) {
        let room = *length;
        for (at, byte) in (*address..).zip(text.bytes()).take(usize::try_from(room).unwrap_or(0)) {
            if *address != 0 {
                // SAFETY: the caller of the ioctl passes a buffer of the stated size.
                unsafe { write_user(at, byte)? };
            }
        }
        *length = text.len() as u64;
    }
    Ok(())
}

/// Every user that opens a render node counts as authenticated.
fn client(_: Caller<'_>, value: &mut Client) -> Result<()> {
    value.authenticated = 1;
    Ok(())
}

/// PRIME: import and export. Synchronisation objects: none.
fn capability(_: Caller<'_>, value: &mut GetCap) -> Result<()> {
    value.value = if value.capability == 5 { 3 } else { 0 };
    Ok(())
}
