//! Functions of paths: `open` and `fopen` in all their forms, `access`, `readlink`, `realpath`, `stat` in all its
//! forms, and `opendir` with the functions that read its result. Devices are character devices with the numbers of a
//! real machine.

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{DIR, FILE, dirent64, mode_t, size_t, ssize_t, stat as Stat, stat64 as Stat64, statx as Statx};
use rustix::fd::{IntoRawFd as _, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use crate::abi::Result;
use crate::abi::drm::MAJOR;
use crate::emulation;
use crate::emulation::Device;
use crate::interpose::{bytes, interpose};
use crate::lock;
use crate::report::say;
use crate::sysfs::{Found, Node, Path, list, look_up, render_minor};

/// Looks up a path relative to a folder's descriptor. Only absolute paths can be emulated.
///
/// # Safety
///
/// `path` is null or a C string.
pub(super) unsafe fn look_up_path(path: *const c_char, follow: bool) -> Path {
    // SAFETY: the caller's promise; the bytes are not kept.
    let Some(path) = (unsafe { bytes(path) }) else { return Path::Other };
    let found = look_up(path, follow);
    if found != Path::Other {
        say!(3, "path {}: {}", String::from_utf8_lossy(path), if found == Path::Missing { "missing" } else { "found" });
    }
    found
}

/// Opens an emulated path. `None` for paths of the system.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn open_emulated(path: *const c_char, flags: c_int) -> Option<Result<OwnedFd>> {
    // SAFETY: the caller's promise.
    let found = unsafe { look_up_path(path, flags & libc::O_NOFOLLOW == 0) };
    let close_on_exec = flags & libc::O_CLOEXEC != 0;
    Some(match found {
        Path::Other => return None,
        Path::Missing => Err(Errno::NOENT),
        Path::Device(device) => open_device(device, close_on_exec),
        Path::Found(found) => match found.node {
            Node::File(_) if flags & libc::O_ACCMODE != libc::O_RDONLY => Err(Errno::ACCESS),
            Node::File(_) if flags & libc::O_DIRECTORY != 0 => Err(Errno::NOTDIR),
            Node::File(contents) => memory_file(&contents, close_on_exec),
            // A folder's descriptor has no use here: `opendir` reads folders.
            Node::Folder => Err(Errno::ISDIR),
            Node::Link(_) => Err(Errno::LOOP),
            Node::Device(device) => open_device(device, close_on_exec),
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

fn memory_file(contents: &[u8], close_on_exec: bool) -> Result<OwnedFd> {
    let flags = if close_on_exec { MemfdFlags::CLOEXEC } else { MemfdFlags::empty() };
    let file = rustix::fs::memfd_create(c"emulated-amdgpu-sysfs", flags)?;
    rustix::io::pwrite(&file, contents, 0)?;
    Ok(file)
}

/// # Safety
///
/// Both are null or C strings.
unsafe fn fopen_emulated(path: *const c_char, mode: *const c_char) -> Option<Result<*mut FILE>> {
    // SAFETY: the caller's promise.
    let text = unsafe { crate::interpose::bytes(mode) }.unwrap_or_default();
    let writes = text.iter().any(|letter| b"wa+".contains(letter));
    let close_on_exec = if text.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    let flags = if writes { libc::O_RDWR } else { libc::O_RDONLY } | close_on_exec;
    // SAFETY: the caller's promise.
    let opened = unsafe { open_emulated(path, flags) }?;
    // SAFETY: the descriptor is owned here and passes to the stream; the mode is the caller's.
    Some(opened.map(|file| unsafe { libc::fdopen(file.into_raw_fd(), mode) }))
}

interpose! {
    open, open64, __open_2, __open64_2: fn(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, -1; {
        // SAFETY: the caller passes a C string, as libc demands.
        unsafe { open_emulated(path, flags) }.map(|result| result.map(OwnedFd::into_raw_fd))
    }

    openat, openat64, __openat_2, __openat64_2: fn(
        folder: c_int,
        path: *const c_char,
        flags: c_int,
        mode: mode_t
    ) -> c_int, -1; {
        // SAFETY: as above.
        unsafe { open_emulated(path, flags) }.map(|result| result.map(OwnedFd::into_raw_fd))
    }

    fopen, fopen64: fn(path: *const c_char, mode: *const c_char) -> *mut FILE, std::ptr::null_mut(); {
        // SAFETY: the caller passes two C strings, as libc demands.
        unsafe { fopen_emulated(path, mode) }
    }
}

/// `true` if the emulation has a path and permits the access. `None` for paths of the system.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn access_emulated(path: *const c_char, mode: c_int) -> Option<Result<c_int>> {
    // SAFETY: the caller's promise.
    match unsafe { look_up_path(path, true) } {
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
    Some(match unsafe { look_up_path(path, false) } {
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
        let real = match unsafe { look_up_path(path, true) } {
            Path::Found(found) => found.path,
            Path::Missing => return Some(Err(Errno::NOENT)),
            // SAFETY: as above. A device's name has no links.
            Path::Device(_) => String::from_utf8_lossy(unsafe { bytes(path) }?).into_owned(),
            Path::Other => return None,
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
    let (mode, size) = match unsafe { look_up_path(path, follow) } {
        Path::Other => return None,
        Path::Missing => return Some(Err(Errno::NOENT)),
        Path::Device(device) => return Some(Ok(of_device(device))),
        Path::Found(found) => match found.node {
            Node::Folder => (libc::S_IFDIR | 0o755, 0),
            Node::File(_) => (libc::S_IFREG | 0o444, 4096),
            Node::Link(target) => (libc::S_IFLNK | 0o777, i64::try_from(target.len()).unwrap_or(0)),
            Node::Device(device) => return Some(Ok(of_device(device))),
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

struct Folder {
    entries: Vec<dirent64>,
    position: usize,
}

/// Addresses of the open folders, and their number, which is read without the lock.
static OPEN: Mutex<Option<HashSet<usize>>> = Mutex::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn with_open<R>(function: impl FnOnce(&mut HashSet<usize>) -> R) -> R {
    let mut open = lock(&OPEN);
    let open = open.get_or_insert_default();
    let result = function(open);
    COUNT.store(open.len(), Ordering::Release);
    result
}

/// The folder behind a pointer, if it is an emulated one.
fn folder(directory: *mut DIR) -> Option<*mut Folder> {
    let address = directory.addr();
    let known = COUNT.load(Ordering::Acquire) > 0 && with_open(|open| open.contains(&address));
    known.then_some(directory.cast())
}

fn directory_entry(number: u64, name: &str, kind: u8) -> dirent64 {
    // SAFETY: zeroes are a valid value of a structure of integers.
    let mut entry: dirent64 = unsafe { std::mem::zeroed() };
    entry.d_ino = number + 1;
    entry.d_off = i64::try_from(number).unwrap_or(0) + 1;
    entry.d_reclen = u16::try_from(size_of::<dirent64>()).unwrap_or(0);
    entry.d_type = kind;
    let last = entry.d_name.len() - 1;
    for (to, from) in entry.d_name.iter_mut().take(last).zip(name.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    entry
}

interpose! {
    opendir: fn(path: *const c_char) -> *mut DIR, std::ptr::null_mut(); {
        // SAFETY: the caller passes a C string, as libc demands.
        Some(match unsafe { look_up_path(path, true) } {
            Path::Other => return None,
            Path::Missing => Err(Errno::NOENT),
            Path::Found(Found { path, node: Node::Folder }) => {
                let kinds = list(&path).into_iter().map(|(name, node)| match node {
                    Node::Folder => (name, libc::DT_DIR),
                    Node::File(_) => (name, libc::DT_REG),
                    Node::Link(_) => (name, libc::DT_LNK),
                    Node::Device(_) => (name, libc::DT_CHR),
                });
                let own = [".", ".."].map(|name| (name.to_owned(), libc::DT_DIR));
                let entries =
                    (0..).zip(own.into_iter().chain(kinds)).map(|(number, (name, kind))| directory_entry(number, &name, kind));
                let folder = Box::into_raw(Box::new(Folder { entries: entries.collect(), position: 0 }));
                with_open(|open| open.insert(folder.addr()));
                Ok(folder.cast())
            }
            Path::Found(_) | Path::Device(_) => Err(Errno::NOTDIR),
        })
    }

    // Both forms have the same structure on this platform.
    readdir, readdir64: fn(directory: *mut DIR) -> *mut dirent64, std::ptr::null_mut(); {
        // SAFETY: `opendir` made it, and `closedir` was not called; libc forbids to use it from two threads at once.
        let folder = unsafe { &mut *folder(directory)? };
        let entry = folder.entries.get_mut(folder.position).map_or(std::ptr::null_mut(), std::ptr::from_mut);
        folder.position += usize::from(!entry.is_null());
        Some(Ok(entry))
    }

    closedir: fn(directory: *mut DIR) -> c_int, -1; {
        let folder = folder(directory)?;
        with_open(|open| open.remove(&folder.addr()));
        // SAFETY: `opendir` made it as a box, and it was in the set, so it was not freed before.
        drop(unsafe { Box::from_raw(folder) });
        Some(Ok(0))
    }

    rewinddir: fn(directory: *mut DIR) -> (), (); {
        // SAFETY: as in `readdir`.
        unsafe { (*folder(directory)?).position = 0 };
        Some(Ok(()))
    }

    // A folder of the emulation has no descriptor.
    dirfd: fn(directory: *mut DIR) -> c_int, -1; {
        folder(directory).map(|_| Err(Errno::NOTSUP))
    }
}
