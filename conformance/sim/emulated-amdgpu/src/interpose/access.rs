//! `access`, `readlink`, `realpath`.

use std::ffi::{c_char, c_int};

use libc::{size_t, ssize_t};
use rustix::io::Errno;

use super::{answer, next, path, set_errno};
use crate::abi::Result;
use crate::sysfs::{Found, Node, Path};

/// Whether the emulation has a path and permits the access. `None` for paths of the system.
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

/// See libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller passes a C string, as libc requires.
    match unsafe { access_emulated(path, mode) } {
        Some(result) => answer(result),
        None => next!(access(path: *const c_char, mode: c_int) -> c_int, -1),
    }
}

/// See libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller passes a C string, as libc requires.
    match unsafe { access_emulated(path, mode) } {
        Some(result) => answer(result),
        None => next!(faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, -1),
    }
}

/// The target of an emulated link.
///
/// # Safety
///
/// `path` is null or a C string; `buffer` has `size` bytes.
unsafe fn readlink_emulated(path: *const c_char, buffer: *mut c_char, size: size_t) -> Option<ssize_t> {
    // SAFETY: the caller's promise.
    let error = match unsafe { path::find(path, false) } {
        Path::Other => return None,
        Path::Missing => Errno::NOENT,
        Path::Found(Found { node: Node::Link(target), .. }) if size > 0 => {
            let length = target.len().min(size);
            // SAFETY: `length` is at most the target's length and the buffer's.
            unsafe { std::ptr::copy_nonoverlapping(target.as_ptr(), buffer.cast::<u8>(), length) };
            return Some(ssize_t::try_from(length).unwrap_or(0));
        }
        Path::Device(_) | Path::Found(_) => Errno::INVAL,
    };
    set_errno(error);
    Some(-1)
}

/// See libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the caller passes a C string and a buffer of `size` bytes, as libc requires.
    match unsafe { readlink_emulated(path, buffer, size) } {
        Some(result) => result,
        None => next!(readlink(path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t, -1),
    }
}

/// See libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlinkat(folder: c_int, path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the caller passes a C string and a buffer of `size` bytes, as libc requires.
    match unsafe { readlink_emulated(path, buffer, size) } {
        Some(result) => result,
        None => next!(
            readlinkat(folder: c_int, path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t,
            -1
        ),
    }
}

/// See libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    // SAFETY: the caller passes a C string, as libc requires.
    let real = match unsafe { path::find(path, true) } {
        Path::Found(found) => found.path,
        Path::Missing => {
            set_errno(Errno::NOENT);
            return std::ptr::null_mut();
        }
        Path::Other | Path::Device(_) => {
            return next!(
                realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char,
                std::ptr::null_mut()
            );
        }
    };
    let room = libc::PATH_MAX as usize;
    // SAFETY: the requested size is the maximum length of a resolved path.
    let target = if resolved.is_null() { unsafe { libc::malloc(room) }.cast() } else { resolved };
    if target.is_null() || real.len() >= room {
        set_errno(Errno::NAMETOOLONG);
        return std::ptr::null_mut();
    }
    // SAFETY: the target has `PATH_MAX` bytes: the caller's by libc's requirement, or the new one.
    unsafe {
        std::ptr::copy_nonoverlapping(real.as_ptr(), target.cast::<u8>(), real.len());
        target.add(real.len()).write(0);
    }
    target
}
