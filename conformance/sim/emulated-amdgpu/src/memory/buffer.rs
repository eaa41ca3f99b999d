//! KFD's buffer objects by handle.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Storage;

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
