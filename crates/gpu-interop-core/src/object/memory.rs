//! Imported memory.

use std::sync::Arc;

use super::array::MappedMipmappedArray;
use super::buffer::MappedBuffer;
use super::device::DeviceInner;
use super::lifetime::Owned;
use super::resource::Resource;
use super::validate;
use crate::array::MipmappedArrayDesc;
use crate::backend::RawMemory;
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::handle::{MemoryHandle, MemoryHandleKind};
use crate::import::MemoryImport;
use crate::nv_sci::NvSciBufProperties;

#[derive(Debug)]
pub(super) struct MemoryInner {
    pub(super) owned: Owned,
    pub(super) raw: RawMemory,
    size: u64,
    kind: MemoryHandleKind,
    nv_sci: Option<Arc<NvSciBufProperties>>,
}

impl MemoryInner {
    /// Whether the exporter allows no writes.
    pub(super) fn is_read_only(&self) -> bool {
        self.nv_sci.as_ref().is_some_and(|properties| properties.read_only)
    }
}

/// Memory of another API, imported. Map it to use it.
///
/// Ends with its last mapping, or when it is closed or dropped if it has none.
#[derive(Debug)]
pub struct ExternalMemory {
    inner: Arc<MemoryInner>,
}

impl ExternalMemory {
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawMemory, request: &MemoryImport) -> Self {
        device.lifetimes.keep(Resource::Memory(raw), request.handle.owner());
        let owned = Owned::new(device, Resource::Memory(raw));
        let (size, kind) = (request.size, request.handle.kind());
        let nv_sci = match &request.handle {
            MemoryHandle::NvSciBuf(object) => object.shared_properties().cloned(),
            _ => None,
        };
        Self { inner: Arc::new(MemoryInner { owned, raw, size, kind, nv_sci }) }
    }

    /// Size of the import, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// The kind of handle it was imported from.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.inner.kind
    }

    /// What was reconciled about the NvSciBuf object, if the handle said so.
    #[must_use]
    pub fn nv_sci_buf(&self) -> Option<&NvSciBufProperties> {
        self.inner.nv_sci.as_deref()
    }

    /// The driver's object, valid while `self` or one of its mappings lives.
    #[must_use]
    pub fn as_raw(&self) -> RawMemory {
        self.inner.raw
    }

    /// Maps `size` bytes from `offset` as a linear buffer (`cuExternalMemoryGetMappedBuffer`).
    ///
    /// May be called several times. Of ranges that overlap, each mapping may have addresses of its own, and a kernel that
    /// writes at one need not see it at another: map the whole range once, and take slices of it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or not inside the
    /// memory; else what the driver answers.
    pub fn map_buffer(&self, offset: u64, size: u64) -> Result<MappedBuffer> {
        const OPERATION: &str = "ExternalMemory::map_buffer";
        let device = &self.inner.owned.device;
        validate::feature(OPERATION, device.raw.capabilities(), Feature::MappedBuffer)
            .and_then(|()| validate::extent(OPERATION, offset, size, self.inner.size))
            // SAFETY: the import is live, and the range is not empty and inside it.
            .and_then(|()| unsafe { device.raw.map_buffer(self.inner.raw, offset, size) })
            .map(|ptr| MappedBuffer::new(self.inner.clone(), ptr, offset, size))
            .map_err(|error| device.decorate(error))
    }

    /// Maps all of it as a linear buffer.
    ///
    /// # Errors
    /// As for [`ExternalMemory::map_buffer`].
    pub fn map_all(&self) -> Result<MappedBuffer> {
        self.map_buffer(0, self.inner.size)
    }

    /// Maps an image (`cuExternalMemoryGetMappedMipmappedArray`). The only way to see images with optimal tiling.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device cannot;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) as [`MipmappedArrayDesc::validate`] says, and for
    /// mip levels of an NvSciBuf object, which has exactly one; else what the driver answers.
    pub fn map_mipmapped_array(&self, desc: &MipmappedArrayDesc) -> Result<MappedMipmappedArray> {
        const OPERATION: &str = "ExternalMemory::map_mipmapped_array";
        let device = &self.inner.owned.device;
        validate::feature(OPERATION, device.raw.capabilities(), Feature::MappedMipmappedArray)
            .and_then(|()| desc.validate(self.inner.size))
            .and_then(|()| self.check_levels(OPERATION, desc))
            // SAFETY: the import is live and the descriptor was validated against its size.
            .and_then(|()| unsafe { device.raw.map_mipmapped_array(self.inner.raw, desc) })
            .map(|raw| MappedMipmappedArray::new(self.inner.clone(), raw, *desc))
            .map_err(|error| device.decorate(error))
    }

    /// NVIDIA's programming guide: the number of mip levels in an NvSciBuf object must be 1.
    fn check_levels(&self, operation: &'static str, desc: &MipmappedArrayDesc) -> Result<()> {
        if self.inner.kind == MemoryHandleKind::NvSciBuf && desc.driver_levels() != 1 {
            return Err(Error::invalid(operation, "an image in an NvSciBuf object has exactly one mip level")
                .with_context("levels", desc.driver_levels()));
        }
        Ok(())
    }

    /// Ends the import, and says if that failed. While mappings live, the last of them ends it instead.
    ///
    /// # Errors
    /// What the driver answers (`cuDestroyExternalMemory`); the object is gone either way.
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.inner).map_or(Ok(()), |mut inner| inner.owned.release())
    }
}
