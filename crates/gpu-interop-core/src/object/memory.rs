//! Imported memory.

use std::sync::Arc;

use super::device_state::DeviceInner;
use super::owned::Owned;
use super::resource::Resource;
use crate::array::MipmappedArrayDesc;
use crate::backend::RawMemory;
use crate::error::Result;
use crate::handle::{MemoryHandle, MemoryHandleKind};
use crate::import::MemoryImport;
use crate::nv_sci::NvSciBufProperties;

#[derive(Debug)]
pub(super) struct MemoryInner {
    pub(super) owned: Owned,
    pub(super) raw: RawMemory,
    pub(super) size: u64,
    pub(super) kind: MemoryHandleKind,
    pub(super) image: Option<MipmappedArrayDesc>,
    nv_sci: Option<Arc<NvSciBufProperties>>,
}

impl MemoryInner {
    /// `true` if the exporter allows reads only.
    pub(super) fn is_read_only(&self) -> bool {
        self.nv_sci.as_ref().is_some_and(|properties| properties.read_only)
    }
}

/// Imported memory of another API. Map it to use it.
///
/// If the host maps the same memory through the exporting API, the application must keep the mappings coherent: with
/// Vulkan by barriers, and by `vkFlushMappedMemoryRanges` and `vkInvalidateMappedMemoryRanges` unless the memory type
/// is `HOST_COHERENT`. If other drivers map the same NvSciBuf object, signals and waits of NvSciSync semaphores keep it
/// coherent ([`SignalParams::NvSciSync`](crate::SignalParams::NvSciSync)); other semaphores do not.
///
/// Destroyed with its last mapping, or when it is closed or dropped without any.
///
#[doc(alias("CUexternalMemory", "cudaExternalMemory_t", "hipExternalMemory_t"))]
#[doc = include_str!("memory.md")]
#[derive(Debug)]
pub struct ExternalMemory {
    pub(super) inner: Arc<MemoryInner>,
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
        Self { inner: Arc::new(MemoryInner { owned, raw, size, kind, image: request.image, nv_sci }) }
    }

    /// Size of the import in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// Kind of the imported handle.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.inner.kind
    }

    /// The image that the memory contains, if the exporter declared it. Map it with this description; the kernel usages
    /// ([`ArrayUsage::SURFACE_LOAD_STORE`](crate::ArrayUsage::SURFACE_LOAD_STORE),
    /// [`ArrayUsage::TEXTURE_GATHER`](crate::ArrayUsage::TEXTURE_GATHER)) may differ.
    #[must_use]
    pub fn image(&self) -> Option<&MipmappedArrayDesc> {
        self.inner.image.as_ref()
    }

    /// Reconciled properties of the NvSciBuf object, if the handle has them.
    #[must_use]
    pub fn nv_sci_buf(&self) -> Option<&NvSciBufProperties> {
        self.inner.nv_sci.as_deref()
    }

    /// The driver's object, valid while `self` or one of its mappings lives.
    #[must_use]
    pub fn as_raw(&self) -> RawMemory {
        self.inner.raw
    }

    /// Destroys the import and returns the driver's error. A live mapping defers this to the drop of the last one.
    ///
    /// # Errors
    /// The driver's error (`cuDestroyExternalMemory`). The object is consumed in either case.
    #[doc(alias("cuDestroyExternalMemory", "cudaDestroyExternalMemory", "hipDestroyExternalMemory"))]
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.inner).map_or(Ok(()), |mut inner| inner.owned.release())
    }
}
