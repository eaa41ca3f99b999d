//! `stat` in all its forms. Devices are character devices with the numbers of a real machine.

use std::ffi::{c_char, c_int, c_uint};

use libc::{stat as Stat, stat64 as Stat64, statx as Statx};
use rustix::io::Errno;

use super::{interpose, path};
use crate::abi::Result;
use crate::abi::drm::MAJOR;
use crate::emulation;
use crate::files::Device;
use crate::sysfs::{Node, Path, render_minor};

/// The major device number that KFD has on most machines; the kernel chooses it.
const KFD_MAJOR: u32 = 235;

/// The result of `stat`: the mode with the kind of file, the device's number, the size.
#[derive(Debug, Clone, Copy)]
struct Status {
    mode: u32,
    device: (u32, u32),
    size: i64,
}

fn of_device(device: Device) -> Status {
    let device = match device {
        Device::Kfd => (KFD_MAJOR, 0),
        Device::Render(gpu) => (MAJOR, render_minor(gpu).unwrap_or(0)),
    };
    Status { mode: libc::S_IFCHR | 0o666, device, size: 0 }
}

/// The status of a path. `None` for paths of the system.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn of_path(path: *const c_char, follow: bool) -> Option<Result<Status>> {
    // SAFETY: the caller's promise.
    let (mode, size) = match unsafe { path::find(path, follow) } {
        Path::Other => return None,
        Path::Missing => return Some(Err(Errno::NOENT)),
        Path::Device(device) => return Some(Ok(of_device(device))),
        Path::Found(found) => match found.node {
            Node::Folder => (libc::S_IFDIR | 0o755, 0),
            Node::File(_) => (libc::S_IFREG | 0o444, 4096),
            Node::Link(target) => (libc::S_IFLNK | 0o777, i64::try_from(target.len()).unwrap_or(0)),
        },
    };
    Some(Ok(Status { mode, device: (0, 0), size }))
}

/// The status of a descriptor of a device. `None` for another file.
fn of_descriptor(descriptor: c_int) -> Option<Status> {
    let file = emulation::current()?.files.find(descriptor)?;
    Some(of_device(file.device))
}

macro_rules! define_stat {
    ($type:ident, $stat:ident, $lstat:ident, $fstat:ident, $fstatat:ident, $write:ident) => {
        /// Writes a status as this structure.
        ///
        /// # Safety
        ///
        /// `to` is writable.
        unsafe fn $write(status: Status, to: *mut $type) -> c_int {
            // SAFETY: zeroes are a valid value of a structure of integers.
            let mut value: $type = unsafe { std::mem::zeroed() };
            value.st_mode = status.mode;
            value.st_nlink = 1;
            value.st_rdev = libc::makedev(status.device.0, status.device.1);
            value.st_size = status.size;
            value.st_blksize = 4096;
            // SAFETY: the caller's promise.
            unsafe { to.write(value) };
            0
        }

        interpose! {
            $stat: fn(path: *const c_char, to: *mut $type) -> c_int, -1; {
                // SAFETY: the caller passes a C string and a structure to write to, as libc demands.
                unsafe { of_path(path, true).map(|status| status.map(|status| $write(status, to))) }
            }

            $lstat: fn(path: *const c_char, to: *mut $type) -> c_int, -1; {
                // SAFETY: as above.
                unsafe { of_path(path, false).map(|status| status.map(|status| $write(status, to))) }
            }

            $fstat: fn(descriptor: c_int, to: *mut $type) -> c_int, -1; {
                // SAFETY: the caller passes a structure to write to.
                of_descriptor(descriptor).map(|status| Ok(unsafe { $write(status, to) }))
            }

            $fstatat: fn(folder: c_int, path: *const c_char, to: *mut $type, flags: c_int) -> c_int, -1; {
                // SAFETY: the caller passes a C string and a structure to write to, as libc demands.
                unsafe { of_path_at(folder, path, flags).map(|status| status.map(|status| $write(status, to))) }
            }
        }
    };
}

/// The status of a path that is relative to a folder, or of the folder's descriptor itself if that is what is asked
/// for.
///
/// # Safety
///
/// As for [`of_path`].
unsafe fn of_path_at(descriptor: c_int, path: *const c_char, flags: c_int) -> Option<Result<Status>> {
    // SAFETY: the caller's promise.
    let status = unsafe { of_path(path, flags & libc::AT_SYMLINK_NOFOLLOW == 0) };
    status.or_else(|| {
        // SAFETY: not null, so a C string, by the caller's word.
        let empty = path.is_null() || unsafe { path.read() } == 0;
        (empty && flags & libc::AT_EMPTY_PATH != 0).then(|| of_descriptor(descriptor)).flatten().map(Ok)
    })
}

define_stat!(Stat, stat, lstat, fstat, fstatat, write_stat);
define_stat!(Stat64, stat64, lstat64, fstat64, fstatat64, write_stat64);

interpose! {
    statx: fn(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut Statx) -> c_int, -1; {
        // SAFETY: the caller passes a C string, as libc demands.
        let status = unsafe { of_path_at(folder, path, flags) }?;
        Some(status.map(|status| {
            // SAFETY: zeroes are a valid value of a structure of integers.
            let mut value: Statx = unsafe { std::mem::zeroed() };
            value.stx_mask = libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_SIZE | libc::STATX_NLINK;
            // The kind and the permissions fit.
            value.stx_mode = u16::try_from(status.mode).unwrap_or(0);
            value.stx_nlink = 1;
            (value.stx_rdev_major, value.stx_rdev_minor) = status.device;
            value.stx_size = u64::try_from(status.size).unwrap_or(0);
            value.stx_blksize = 4096;
            // SAFETY: the caller passes a structure to write to.
            unsafe { to.write(value) };
            0
        }))
    }
}
