//! `open` and `fopen` in all their forms.

use std::ffi::{c_char, c_int};

use libc::{FILE, mode_t};
use rustix::fd::{IntoRawFd as _, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::{answer, next, path, set_errno};
use crate::abi::Result;
use crate::emulation;
use crate::files::Device;
use crate::log::say;
use crate::sysfs::{Node, Path};

/// Opens an emulated path. `None` for paths of the system.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn open_emulated(path: *const c_char, flags: c_int) -> Option<Result<OwnedFd>> {
    // SAFETY: the caller's promise.
    let found = unsafe { path::find(path, flags & libc::O_NOFOLLOW == 0) };
    let close_on_exec = flags & libc::O_CLOEXEC != 0;
    Some(match found {
        Path::Other => return None,
        Path::Missing => Err(Errno::NOENT),
        Path::Device(device) => open_device(device, close_on_exec),
        Path::Found(found) => match found.node {
            Node::File(_) if flags & libc::O_ACCMODE != libc::O_RDONLY => Err(Errno::ACCESS),
            Node::File(_) if flags & libc::O_DIRECTORY != 0 => Err(Errno::NOTDIR),
            Node::File(contents) => file(&contents, close_on_exec),
            // A folder's descriptor has no use here: `opendir` reads folders.
            Node::Folder => Err(Errno::ISDIR),
            Node::Link(_) => Err(Errno::LOOP),
        },
    })
}

fn open_device(device: Device, close_on_exec: bool) -> Result<OwnedFd> {
    let emulation = emulation::start().ok_or(Errno::NODEV)?;
    let point = if device == Device::Kfd { "open-kfd" } else { "open-render" };
    if let Some(error) = emulation.faults.at(point) {
        return Err(error);
    }
    let file = emulation.files.open(device, close_on_exec)?;
    say!(1, "{device:?} is opened");
    Ok(file)
}

/// A file with these contents.
fn file(contents: &[u8], close_on_exec: bool) -> Result<OwnedFd> {
    let flags = if close_on_exec { MemfdFlags::CLOEXEC } else { MemfdFlags::empty() };
    let file = rustix::fs::memfd_create(c"emulated-amdgpu-sysfs", flags)?;
    rustix::io::pwrite(&file, contents, 0)?;
    Ok(file)
}

macro_rules! define_open {
    ($($name:ident),*) => {
        $(
            /// See libc.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
                // SAFETY: the caller passes a C string, as libc requires.
                match unsafe { open_emulated(path, flags) } {
                    Some(result) => answer(result.map(OwnedFd::into_raw_fd)),
                    None => next!($name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, -1),
                }
            }
        )*
    };
}

macro_rules! define_openat {
    ($($name:ident),*) => {
        $(
            /// See libc.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
                // SAFETY: the caller passes a C string, as libc requires.
                match unsafe { open_emulated(path, flags) } {
                    Some(result) => answer(result.map(OwnedFd::into_raw_fd)),
                    None => next!(
                        $name(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int,
                        -1
                    ),
                }
            }
        )*
    };
}

macro_rules! define_fopen {
    ($($name:ident),*) => {
        $(
            /// See libc.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
                // SAFETY: the caller passes two C strings, as libc requires.
                match unsafe { fopen_emulated(path, mode) } {
                    Some(file) => file,
                    None => next!(
                        $name(path: *const c_char, mode: *const c_char) -> *mut FILE,
                        std::ptr::null_mut()
                    ),
                }
            }
        )*
    };
}

/// # Safety
///
/// Both are null or C strings.
unsafe fn fopen_emulated(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    // SAFETY: the caller's promise.
    let text = unsafe { super::bytes(mode) }.unwrap_or_default();
    let writes = text.iter().any(|letter| b"wa+".contains(letter));
    let close_on_exec = if text.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    let flags = if writes { libc::O_RDWR } else { libc::O_RDONLY } | close_on_exec;
    // SAFETY: the caller's promise.
    match unsafe { open_emulated(path, flags) }? {
        Ok(file) => {
            let descriptor = file.into_raw_fd();
            // SAFETY: the descriptor is owned here and passes to the stream; the mode is the caller's.
            Some(unsafe { libc::fdopen(descriptor, mode) })
        }
        Err(error) => {
            set_errno(error);
            Some(std::ptr::null_mut())
        }
    }
}

define_open!(open, open64, __open_2, __open64_2);
define_openat!(openat, openat64, __openat_2, __openat64_2);
define_fopen!(fopen, fopen64);
