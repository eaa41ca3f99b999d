//! Memory of the GPUs: buffer objects, address spaces, and accesses through them.

mod access;
pub(crate) mod dmabuf;
mod keeper;
mod pool;
mod space;
mod storage;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::abi::Result;
use crate::faults::Faults;
use crate::gpu::Gpu;
use crate::lock;
use crate::memory::dmabuf::{Form, Inode};
pub(crate) use crate::memory::keeper::{Keeper, Kept};
use crate::memory::pool::Pool;
pub(crate) use crate::memory::pool::high_descriptor;
pub(crate) use crate::memory::space::{Access, Backing, Owner, PageFault, Space, Span};
pub(crate) use crate::memory::storage::Storage;
use crate::memory::storage::VramShare;

/// The memory of all GPUs of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    pool: Arc<Pool>,
    /// Video memory in use, by GPU.
    vram: Vec<Arc<AtomicU64>>,
    /// One per GPU, shared by KFD and all open files of the render node: libdrm has one device for all libraries of a
    /// process, KFD uses its file, and addresses of KFD and of Mesa do not overlap. Locked for reading during accesses, so that no memory is freed during an access. Packets do not wait while it is
    /// held.
    spaces: RwLock<Vec<Space>>,
    buffers: Mutex<Buffers>,
    exports: Mutex<HashMap<Inode, Weak<Storage>>>,
}

impl Memory {
    pub(crate) fn new(gpus: &[Gpu]) -> Result<Self> {
        Ok(Self {
            pool: Arc::new(Pool::new()?),
            vram: gpus.iter().map(|_| Arc::default()).collect(),
            spaces: RwLock::new(gpus.iter().map(|_| Space::default()).collect()),
            buffers: Mutex::default(),
            exports: Mutex::default(),
        })
    }

    /// The files that this process has open without descriptors.
    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        self.pool.keeper()
    }

    fn spaces(&self) -> RwLockReadGuard<'_, Vec<Space>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn spaces_mut(&self) -> RwLockWriteGuard<'_, Vec<Space>> {
        self.spaces.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn buffers(&self) -> MutexGuard<'_, Buffers> {
        lock(&self.buffers)
    }

    fn exports(&self) -> MutexGuard<'_, HashMap<Inode, Weak<Storage>>> {
        lock(&self.exports)
    }

    /// Bytes of a GPU's video memory in use.
    pub(crate) fn vram_used(&self, gpu: usize) -> u64 {
        self.vram.get(gpu).map_or(0, |used| used.load(Ordering::Relaxed))
    }

    /// Allocates video memory of a GPU.
    pub(crate) fn new_vram(&self, gpu: &Gpu, size: u64, form: Form, faults: &Faults) -> Result<Arc<Storage>> {
        let used = self.vram.get(gpu.index).ok_or(Errno::INVAL)?;
        if faults.from("vram-full").is_some() {
            return Err(Errno::NOMEM);
        }
        let share = VramShare::take(used, size, gpu.vram)?;
        Storage::new(&self.pool, size, Some((gpu.index, share)), form)
    }

    /// Allocates system memory.
    pub(crate) fn new_system(&self, size: u64, form: Form) -> Result<Arc<Storage>> {
        Storage::new(&self.pool, size, None, form)
    }

    /// Uses memory of the application.
    pub(crate) fn user(&self, size: u64, address: u64) -> Arc<Storage> {
        Storage::user(&self.pool, size, address)
    }

    /// Memory of a dma-buf's descriptor: an exported object of this process, or another driver's memory.
    pub(crate) fn import(&self, gpu: usize, file: BorrowedFd<'_>) -> Result<Arc<Storage>> {
        let found = dmabuf::inspect(file)?;
        if let Some(own) = self.exports().get(&found.inode).and_then(Weak::upgrade) {
            return Ok(own);
        }
        Storage::imported(&self.pool, file, &found, gpu)
    }

    /// Exports an object as a dma-buf.
    pub(crate) fn export(&self, storage: &Arc<Storage>) -> Result<OwnedFd> {
        // The memory is not accessed while it moves.
        let spaces = self.spaces_mut();
        let file = storage.export()?;
        drop(spaces);
        let status = rustix::fs::fstat(&file)?;
        let mut exports = self.exports();
        exports.retain(|_, storage| storage.strong_count() > 0);
        exports.insert((status.st_dev, status.st_ino), Arc::downgrade(storage));
        Ok(file)
    }

    pub(crate) fn map(&self, gpu: usize, start: u64, span: Span) -> Result<()> {
        self.spaces_mut().get_mut(gpu).ok_or(Errno::INVAL)?.map(start, span)
    }

    /// Maps the kernel's trap handler among the addresses of an open file, which become those of KFD.
    pub(crate) fn map_trap_handler(&self, gpu: usize, file: u64) -> Result<()> {
        self.spaces_mut().get_mut(gpu).ok_or(Errno::INVAL)?.map_trap_handler(file)
    }

    pub(crate) fn unmap(&self, gpu: usize, start: u64) -> Result<Span> {
        self.spaces_mut().get_mut(gpu).ok_or(Errno::INVAL)?.unmap(start)
    }

    /// As [`unmap`](Self::unmap), if the mapping is one of this object by this owner.
    pub(crate) fn unmap_of(&self, gpu: usize, start: u64, owner: Owner, object: Option<&Arc<Storage>>) -> Result<Span> {
        self.spaces_mut().get_mut(gpu).ok_or(Errno::INVAL)?.unmap_of(start, owner, object)
    }

    pub(crate) fn clear(&self, gpu: usize, start: u64, length: u64) -> Result<()> {
        self.spaces_mut().get_mut(gpu).ok_or(Errno::INVAL)?.clear(start, length);
        Ok(())
    }

    /// Ends all mappings of an object made by its GEM handle of an open file.
    pub(crate) fn unmap_object(&self, gpu: usize, file: u64, storage: &Arc<Storage>) {
        if let Some(space) = self.spaces_mut().get_mut(gpu) {
            space.unmap_object(file, storage);
        }
    }

    /// The object at an offset of a render node, and the offset within it.
    pub(crate) fn at_mmap_offset(&self, offset: u64) -> Result<(Arc<Storage>, u64)> {
        self.pool.names().find(offset).ok_or(Errno::INVAL)
    }

    /// The number of mapped address ranges of all GPUs.
    pub(crate) fn mapped(&self) -> usize {
        self.spaces().iter().map(Space::len).sum()
    }
}

/// A buffer object of KFD.
#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    pub(crate) storage: Arc<Storage>,
    pub(crate) address: u64,
    pub(crate) writable: bool,
    pub(crate) imported: bool,
    /// The GPUs that have it mapped.
    pub(crate) mapped: Vec<usize>,
}

/// All buffer objects of a process.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    by_handle: BTreeMap<u64, Buffer>,
    last: u32,
}

impl Buffers {
    /// Stores an object. The upper half of the handle is the GPU's number, as in the kernel.
    pub(crate) fn insert(&mut self, gpu_id: u32, buffer: Buffer) -> u64 {
        loop {
            self.last = self.last.wrapping_add(1);
            let handle = u64::from(gpu_id) << 32 | u64::from(self.last);
            if let std::collections::btree_map::Entry::Vacant(vacant) = self.by_handle.entry(handle) {
                vacant.insert(buffer);
                return handle;
            }
        }
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Buffer> {
        self.by_handle.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut Buffer> {
        self.by_handle.get_mut(&handle)
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Option<Buffer> {
        self.by_handle.remove(&handle)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Buffer> {
        self.by_handle.values()
    }
}
