//! `mmap` of the devices: doorbells, registers, and buffer objects by the offset that their allocation returned.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use libc::{off_t, size_t};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::{next, set_errno};
use crate::abi::Result;
use crate::abi::kfd::{MMAP_GPU_MASK, MMAP_GPU_SHIFT, MMAP_TYPE_DOORBELL, MMAP_TYPE_REGISTERS, MMAP_TYPE_SHIFT};
use crate::emulation::{self, Emulation};
use crate::files::{Device, File};
use crate::memory::Storage;

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

/// # Safety
///
/// As for `mmap`.
unsafe fn emulated(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> Option<Result<*mut c_void>> {
    if flags & libc::MAP_ANONYMOUS != 0 || !emulation::inherited() {
        return None;
    }
    let emulation = emulation::current()?;
    let file = emulation.files.find(descriptor)?;
    Some(object(emulation, &file, offset.cast_unsigned()).and_then(|(storage, within)| {
        let protection = ProtFlags::from_bits_retain(protection.cast_unsigned());
        let flags = MapFlags::from_bits_retain(flags.cast_unsigned());
        // SAFETY: the caller's promise.
        unsafe { storage.map_for_application(address, length, protection, flags, within) }
    }))
}

macro_rules! define_mmap {
    ($($name:ident),*) => {
        $(
            /// See libc.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                address: *mut c_void,
                length: size_t,
                protection: c_int,
                flags: c_int,
                descriptor: c_int,
                offset: off_t,
            ) -> *mut c_void {
                // SAFETY: the caller's promise.
                match unsafe { emulated(address, length, protection, flags, descriptor, offset) } {
                    Some(Ok(mapped)) => mapped,
                    Some(Err(error)) => {
                        set_errno(error);
                        libc::MAP_FAILED
                    }
                    None => next!(
                        $name(
                            address: *mut c_void,
                            length: size_t,
                            protection: c_int,
                            flags: c_int,
                            descriptor: c_int,
                            offset: off_t
                        ) -> *mut c_void,
                        libc::MAP_FAILED
                    ),
                }
            }
        )*
    };
}

define_mmap!(mmap, mmap64);
