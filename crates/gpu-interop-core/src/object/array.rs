//! Images in imported memory.

use std::sync::Arc;

use super::lifetime::{Owned, Resource};
use super::memory::MemoryInner;
use crate::array::MipmappedArrayDesc;
use crate::backend::{RawArray, RawMipmappedArray};
use crate::error::{Error, Result};

/// An image in imported memory, mapped as a mipmapped array. Keeps the import alive.
#[derive(Debug)]
pub struct MappedMipmappedArray {
    // Dropped in this order: the mapping goes before its memory.
    owned: Owned,
    _memory: Arc<MemoryInner>,
    raw: RawMipmappedArray,
    desc: MipmappedArrayDesc,
}

impl MappedMipmappedArray {
    pub(super) fn new(memory: Arc<MemoryInner>, raw: RawMipmappedArray, desc: MipmappedArrayDesc) -> Self {
        let owned = Owned::new(memory.owned.device.clone(), Resource::MipmappedArray { raw, memory: memory.raw });
        Self { owned, _memory: memory, raw, desc }
    }

    /// The driver's object, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawMipmappedArray {
        self.raw
    }

    /// What was mapped.
    #[must_use]
    pub fn desc(&self) -> &MipmappedArrayDesc {
        &self.desc
    }

    /// The driver's array for one mip level (`cuMipmappedArrayGetLevel`), valid while `self` lives. It belongs to
    /// `self`: do not free it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if there is no such level; else what the
    /// driver answers.
    pub fn level(&self, level: u32) -> Result<RawArray> {
        let device = &self.owned.device;
        if level >= self.desc.levels {
            let error = Error::invalid("MappedMipmappedArray::level", "there is no such mip level")
                .with_context("level", level)
                .with_context("levels", self.desc.levels);
            return Err(device.decorate(error));
        }
        // SAFETY: the array is live and has this level.
        unsafe { device.raw.mipmapped_array_level(self.raw, level) }.map_err(|error| device.decorate(error))
    }

    /// Unmaps it, and says if that failed.
    ///
    /// # Errors
    /// What the driver answers (`cuMipmappedArrayDestroy`); the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}
