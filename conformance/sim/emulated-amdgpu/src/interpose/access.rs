//! `access`, `readlink`, `realpath`.

use std::ffi::{c_char, c_int};

use libc::{size_t, ssize_t};
use rustix::io::Errno;

use super::{interpose, path};
use crate::abi::Result;
use crate::sysfs::{Found, Node, Path};

/// `true` if the emulation has a path and permits the access. `None` for paths of the system.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn access_emulated(path: *const c_char, mode: c_int) -> Option<Result<c_int>> {
    // SAFETY: the caller's promise.
    match unsafe { path::find(path, true) } {
        Path::Other => None,
        Path::Missing => Some(Err(Errno::NOENT)),
        Path::Found(Found { node: Node::File(_), .. }) if mode & libc::W_OK != 0 => Some(Err(Errno::ACCESS)),
        Path::Device(_) | Path::Found(_) => Some(Ok(0)),
    }
}

/// The target of an emulated link.
///
/// # Safety
///
/// `path` is null or a C string; `buffer` has `size` bytes.
unsafe fn readlink_emulated(path: *const c_char, buffer: *mut c_char, size: size_t) -> Option<Result<ssize_t>> {
    // SAFETY: the caller's promise.
    Some(match unsafe { path::find(path, false) } {
        Path::Other => return None,
        Path::Missing => Err(Errno::NOENT),
        Path::Found(Found { node: Node::Link(target), .. }) if size > 0 => {
            let length = target.len().min(size);
            // SAFETY: `length` is at most the target's length and the buffer's.
            unsafe { std::ptr::copy_nonoverlapping(target.as_ptr(), buffer.cast::<u8>(), length) };
            Ok(ssize_t::try_from(length).unwrap_or(0))
        }
        Path::Device(_) | Path::Found(_) => Err(Errno::INVAL),
    })
}

interpose! {
    access: fn(path: *const c_char, mode: c_int) -> c_int, -1; {
        // SAFETY: the caller passes a C string, as libc demands.
        unsafe { access_emulated(path, mode) }
    }

    faccessat: fn(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, -1; {
        // SAFETY: as above.
        unsafe { access_emulated(path, mode) }
    }

    readlink: fn(path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t, -1; {
        // SAFETY: the caller passes a C string and room for `size` bytes, as libc demands.
        unsafe { readlink_emulated(path, buffer, size) }
    }

    readlinkat: fn(folder: c_int, path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t, -1; {
        // SAFETY: as above.
        unsafe { readlink_emulated(path, buffer, size) }
    }

    realpath: fn(path: *const c_char, resolved: *mut c_char) -> *mut c_char, std::ptr::null_mut(); {
        // SAFETY: the caller passes a C string, as libc demands.
        let real = match unsafe { path::find(path, true) } {
            Path::Found(found) => found.path,
            Path::Missing => return Some(Err(Errno::NOENT)),
            Path::Other | Path::Device(_) => return None,
        };
        let room = libc::PATH_MAX as usize;
        // SAFETY: `malloc` is asked for as many bytes as a resolved path may have.
        let target = if resolved.is_null() { unsafe { libc::malloc(room) }.cast() } else { resolved };
        if target.is_null() || real.len() >= room {
            return Some(Err(Errno::NAMETOOLONG));
        }
        // SAFETY: the target has room for `PATH_MAX` bytes: the caller's by libc's demand, or the one just made.
        unsafe {
            std::ptr::copy_nonoverlapping(real.as_ptr(), target.cast::<u8>(), real.len());
            target.add(real.len()).write(0);
        }
        Some(Ok(target))
    }
}
