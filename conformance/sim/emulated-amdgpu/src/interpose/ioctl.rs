//! `ioctl` of the devices.

use std::ffi::{c_int, c_ulong, c_void};

use rustix::io::Errno;

use super::interpose;
use crate::abi::request_type;
use crate::files::Device;
use crate::{drm, emulation, kfd};

interpose! {
    ioctl: fn(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int, -1; {
        let kind = request_type(request);
        if !matches!(kind, b'K' | b'd') || !emulation::inherited() {
            return None;
        }
        let Some((emulation, file)) = emulation::current().and_then(|it| Some((it, it.files.find(descriptor)?))) else {
            // A device that the parent opened is the parent's.
            return is_device(descriptor).then_some(Err(Errno::BADF));
        };
        let done = match (file.device, kind) {
            // SAFETY: the caller passes what the request demands.
            (Device::Kfd, b'K') => unsafe { kfd::ioctl(emulation, request, argument) },
            // SAFETY: as above.
            (Device::Render(gpu), b'd') => unsafe { drm::ioctl(emulation, &file, gpu, request, argument) },
            _ => Err(Errno::NOTTY),
        };
        Some(done.map(|()| 0))
    }
}

/// `true` if a descriptor is of an emulated device, opened by any process.
fn is_device(descriptor: c_int) -> bool {
    let link = rustix::fs::readlink(format!("/proc/self/fd/{descriptor}"), Vec::new());
    link.is_ok_and(|link| {
        let link = link.as_bytes();
        link.starts_with(b"/memfd:emulated-amdgpu-kfd") || link.starts_with(b"/memfd:emulated-amdgpu-render")
    })
}
