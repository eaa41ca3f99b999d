//! Open files of the emulated devices.
//!
//! Each open of a device creates a memfd. A descriptor is recognised by its inode, so duplicates of any kind are the
//! same file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::MemfdFlags;

use crate::abi::Result;
use crate::drm::gem::Handles;
use crate::memory::dmabuf::Inode;

/// A device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    Kfd,
    /// The render node of a GPU, by index.
    Render(usize),
}

/// An open file of a device.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) device: Device,
    pub(crate) handles: Mutex<Handles>,
}

/// The open files of a process.
#[derive(Debug, Default)]
pub(crate) struct Files(Mutex<HashMap<Inode, Arc<File>>>);

impl Files {
    fn lock(&self) -> MutexGuard<'_, HashMap<Inode, Arc<File>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a device.
    pub(crate) fn open(&self, device: Device, close_on_exec: bool) -> Result<OwnedFd> {
        let flags = if close_on_exec { MemfdFlags::CLOEXEC } else { MemfdFlags::empty() };
        let name = if device == Device::Kfd { c"emulated-amdgpu-kfd" } else { c"emulated-amdgpu-render" };
        let file = rustix::fs::memfd_create(name, flags)?;
        let status = rustix::fs::fstat(&file)?;
        self.lock().insert((status.st_dev, status.st_ino), Arc::new(File { device, handles: Mutex::default() }));
        Ok(file)
    }

    /// The open file of a descriptor, if it is one of a device.
    pub(crate) fn find(&self, descriptor: i32) -> Option<Arc<File>> {
        if descriptor < 0 {
            return None;
        }
        // SAFETY: only the status of the descriptor is queried, which fails if the descriptor is closed meanwhile.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let status = rustix::fs::fstat(descriptor).ok()?;
        self.lock().get(&(status.st_dev, status.st_ino)).map(Arc::clone)
    }

    /// Removes files without a descriptor in this process. Returns the number of descriptors of the remaining files.
    pub(crate) fn collect(&self) -> usize {
        let mut open = Vec::new();
        for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
            if let Ok(status) = rustix::fs::stat(entry.path()) {
                open.push((status.st_dev, status.st_ino));
            }
        }
        let mut files = self.lock();
        files.retain(|inode, _| open.contains(inode));
        open.iter().filter(|inode| files.contains_key(inode)).count()
    }

    /// The number of GEM handles of the open files.
    pub(crate) fn handles(&self) -> usize {
        let count = |file: &Arc<File>| file.handles.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.lock().values().map(count).sum()
    }
}
