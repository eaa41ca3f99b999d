//! Emulated folders: `opendir` and the functions that read its result.

use std::collections::HashSet;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{DIR, dirent64};
use rustix::io::Errno;

use crate::interpose::{interpose, path};
use crate::sysfs::{Found, Node, Path, list};

struct Folder {
    entries: Vec<dirent64>,
    position: usize,
}

/// Addresses of the open folders, and their number, which is read without the lock.
static OPEN: Mutex<Option<HashSet<usize>>> = Mutex::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn with_open<R>(function: impl FnOnce(&mut HashSet<usize>) -> R) -> R {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
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

fn entry(number: u64, name: &str, kind: u8) -> dirent64 {
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
        Some(match unsafe { path::look_up_path(path, true) } {
            Path::Other => return None,
            Path::Missing => Err(Errno::NOENT),
            Path::Found(Found { path, node: Node::Folder }) => {
                let kinds = list(&path).into_iter().map(|(name, node)| match node {
                    Node::Folder => (name, libc::DT_DIR),
                    Node::File(_) => (name, libc::DT_REG),
                    Node::Link(_) => (name, libc::DT_LNK),
                });
                let own = [".", ".."].map(|name| (name.to_owned(), libc::DT_DIR));
                let entries =
                    (0..).zip(own.into_iter().chain(kinds)).map(|(number, (name, kind))| entry(number, &name, kind));
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
