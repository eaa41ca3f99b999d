//! The handles that an open render node has of buffer objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::io::Errno;

use crate::abi::Result;
use crate::memory::Storage;

/// The handles of an open file.
#[derive(Debug, Default)]
pub(crate) struct Handles(BTreeMap<u32, Arc<Storage>>);

impl Handles {
    /// The handle of an object: the existing one, or a new one.
    pub(super) fn of(&mut self, storage: Arc<Storage>) -> Result<u32> {
        if let Some((handle, _)) = self.0.iter().find(|(_, known)| Arc::ptr_eq(known, &storage)) {
            return Ok(*handle);
        }
        let handle = (1..).find(|handle| !self.0.contains_key(handle)).ok_or(Errno::NOMEM)?;
        self.0.insert(handle, storage);
        Ok(handle)
    }

    pub(super) fn get(&self, handle: u32) -> Result<Arc<Storage>> {
        self.0.get(&handle).map(Arc::clone).ok_or(Errno::NOENT)
    }

    /// Takes an object's handle away from it.
    pub(super) fn remove(&mut self, handle: u32) -> Option<Arc<Storage>> {
        self.0.remove(&handle)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
