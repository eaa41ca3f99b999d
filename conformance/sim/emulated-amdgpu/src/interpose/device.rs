//! `ioctl` and `mmap` of the devices, `ioctl` of sync files, and `lseek` of dma-bufs, which returns their size. `mmap` maps
//! doorbells, registers, and buffer objects by the offset that their allocation returned.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::Arc;

use libc::{off_t, size_t};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::abi::kfd::{MMAP_GPU_MASK, MMAP_GPU_SHIFT, MMAP_TYPE_DOORBELL, MMAP_TYPE_REGISTERS, MMAP_TYPE_SHIFT};
use crate::abi::{Result, request_type};
use crate::emulation::{Device, Emulation, File};
use crate::interpose::interpose;
use crate::memory::{Storage, dmabuf};
use crate::{drm, emulation, kfd, sync};

interpose! {
    ioctl: fn(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int, -1; {
        let kind = request_type(request);
        if descriptor >= 0 {
            // SAFETY: it is used during this call only; if it is closed, its uses fail.
            let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
            // SAFETY: the caller passes what the request demands.
            if let Some(done) = unsafe { sync::file::ioctl(file, request, argument) } {
                return Some(done.map(|()| 0));
            }
        }
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

/// The target of a device's offset, and the offset within it.
fn object(emulation: &Emulation, file: &File, offset: u64) -> Result<(Arc<Storage>, u64)> {
    match file.device {
        Device::Kfd => {
            let id = offset >> MMAP_GPU_SHIFT & MMAP_GPU_MASK;
            let gpu = emulation.gpu(u32::try_from(id).map_err(|_| Errno::INVAL)?)?;
            let pages = match offset >> MMAP_TYPE_SHIFT {
                MMAP_TYPE_DOORBELL => &emulation.doorbells,
                MMAP_TYPE_REGISTERS => &emulation.registers,
                _ => return Err(Errno::INVAL),
            };
            let page = pages.get(gpu.index).ok_or(Errno::INVAL)?;
            Ok((Arc::clone(page), offset & ((1 << MMAP_GPU_SHIFT) - 1)))
        }
        Device::Render(_) => emulation.memory.at_mmap_offset(offset),
    }
}

interpose! {
    mmap, mmap64: fn(
        address: *mut c_void,
        length: size_t,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: off_t
    ) -> *mut c_void, libc::MAP_FAILED; {
        if flags & libc::MAP_ANONYMOUS != 0 || !emulation::inherited() {
            return None;
        }
        let emulation = emulation::current()?;
        let file = emulation.files.find(descriptor)?;
        Some(object(emulation, &file, offset.cast_unsigned()).and_then(|(storage, within)| {
            let protection = ProtFlags::from_bits_retain(protection.cast_unsigned());
            let flags = MapFlags::from_bits_retain(flags.cast_unsigned());
            // SAFETY: the caller passes what `mmap` demands.
            unsafe { storage.map_for_application(address, length, protection, flags, within) }
        }))
    }
}

interpose! {
    lseek, lseek64: fn(descriptor: c_int, offset: off_t, origin: c_int) -> off_t, -1; {
        if origin != libc::SEEK_END || descriptor < 0 || !emulation::inherited() {
            return None;
        }
        // SAFETY: it is used during this call only; if it is closed, its uses fail.
        let size = dmabuf::exported_size(unsafe { BorrowedFd::borrow_raw(descriptor) })?;
        // As in the kernel: the size of a dma-buf is its only position from the end.
        let size = off_t::try_from(size).map_err(|_| Errno::OVERFLOW);
        Some(if offset == 0 { size } else { Err(Errno::INVAL) })
    }
}
