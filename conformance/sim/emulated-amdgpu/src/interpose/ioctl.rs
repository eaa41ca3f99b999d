//! `ioctl` of the devices.

use std::ffi::{c_int, c_ulong, c_void};

use rustix::io::Errno;

use super::{answer, next};
use crate::abi::{Result, request_type};
use crate::files::Device;
use crate::{drm, emulation, kfd};

/// See libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: the caller passes a valid argument for the request.
    match unsafe { emulated(descriptor, request, argument) } {
        Some(result) => answer(result.map(|()| 0)),
        None => next!(ioctl(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int, -1),
    }
}

/// # Safety
///
/// `argument` is valid for the request.
unsafe fn emulated(descriptor: c_int, request: u64, argument: *mut c_void) -> Option<Result<()>> {
    let kind = request_type(request);
    if !matches!(kind, b'K' | b'd') || !emulation::inherited() {
        return None;
    }
    let Some((emulation, file)) = emulation::current().and_then(|it| Some((it, it.files.find(descriptor)?))) else {
        // A device opened by the parent belongs to the parent.
        return is_device(descriptor).then_some(Err(Errno::BADF));
    };
    Some(match (file.device, kind) {
        // SAFETY: the caller's promise.
        (Device::Kfd, b'K') => unsafe { kfd::ioctl(emulation, request, argument) },
        // SAFETY: the caller's promise.
        (Device::Render(gpu), b'd') => unsafe { drm::ioctl(emulation, &file, gpu, request, argument) },
        _ => Err(Errno::NOTTY),
    })
}

/// Whether a descriptor is of an emulated device, opened by any process.
fn is_device(descriptor: c_int) -> bool {
    let link = rustix::fs::readlink(format!("/proc/self/fd/{descriptor}"), Vec::new());
    link.is_ok_and(|link| {
        let link = link.as_bytes();
        link.starts_with(b"/memfd:emulated-amdgpu-kfd") || link.starts_with(b"/memfd:emulated-amdgpu-render")
    })
}
