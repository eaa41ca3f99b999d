//! Imported memory.

use std::ops::RangeBounds;
use std::sync::Arc;

use super::array::MappedMipmappedArray;
use super::buffer::MappedBuffer;
use super::device::DeviceInner;
use super::owned::Owned;
use super::resource::Resource;
use super::validate;
use crate::array::{ArrayUsage, MipmappedArrayDesc};
use crate::backend::RawMemory;
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::handle::{MemoryHandle, MemoryHandleKind};
use crate::import::MemoryImport;
use crate::nv_sci::NvSciBufProperties;
use crate::range::byte_range;

#[derive(Debug)]
pub(super) struct MemoryInner {
    pub(super) owned: Owned,
    pub(super) raw: RawMemory,
    size: u64,
    kind: MemoryHandleKind,
    image: Option<MipmappedArrayDesc>,
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
/// If the host maps the same memory through the exporting API, the application keeps both coherent: with Vulkan by
/// `vkFlushMappedMemoryRanges` and `vkInvalidateMappedMemoryRanges`, unless the memory type is `HOST_COHERENT`, and in any
/// case by barriers. If other drivers map the same NvSciBuf object, signals and waits of NvSciSync semaphores keep it
/// coherent ([`SignalParams::NvSciSync`](crate::SignalParams::NvSciSync)); other semaphores do not.
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
        Self { inner: Arc::new(MemoryInner { owned, raw, size, kind, image: request.image, nv_sci }) }
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

    /// The image that it holds, if the exporter said which: how to map it, up to what kernels do with it
    /// ([`ArrayUsage::SURFACE_LOAD_STORE`], [`ArrayUsage::TEXTURE_GATHER`]).
    #[must_use]
    pub fn image(&self) -> Option<&MipmappedArrayDesc> {
        self.inner.image.as_ref()
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

    /// Maps a range, in bytes, as a linear buffer (`cuExternalMemoryGetMappedBuffer`); `..` maps all of the memory.
    ///
    /// May be called several times. Of ranges that overlap, each mapping may have addresses of its own, and a kernel that
    /// writes at one need not see it at another: map the whole range once, and take slices of it.
    ///
    /// The range is that of a buffer of the exporter's, and so begins where its API demands
    /// (`VkMemoryRequirements::alignment`). The library does not know where its buffers begin. The drivers that it was run
    /// with map ranges that begin elsewhere, too, exactly; their references do not promise it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or not inside the
    /// memory; else what the driver answers.
    pub fn map_buffer(&self, range: impl RangeBounds<u64>) -> Result<MappedBuffer> {
        const OPERATION: &str = "ExternalMemory::map_buffer";
        let device = &self.inner.owned.device;
        validate::feature(OPERATION, device.raw.capabilities(), Feature::MappedBuffer)
            .and_then(|()| byte_range(OPERATION, range, self.inner.size))
            .and_then(|(offset, size)| {
                // SAFETY: the import is live, and the range is not empty and inside it.
                let ptr = unsafe { device.raw.map_buffer(self.inner.raw, offset, size) }?;
                Ok(MappedBuffer::new(self.inner.clone(), ptr, offset, size))
            })
            .map_err(|error| device.decorate(error))
    }

    /// Maps an image (`cuExternalMemoryGetMappedMipmappedArray`). The only way to see images with optimal tiling.
    ///
    /// `desc` is the exporter's image: its offset, shape, format, all of its mip levels, and
    /// [`ArrayUsage::COLOR_ATTACHMENT`] exactly if the exporter may render to it. What a driver does with another
    /// description is not defined. Where the request said what the memory holds ([`MemoryImport::of_image`]), as those of
    /// gpu-interop's exporters of images do, that is checked. Otherwise, as with heaps, NvSciBuf objects, and requests that an
    /// application makes itself, the caller must know.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device cannot;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) as [`MipmappedArrayDesc::validate`] says, for
    /// another image than [`ExternalMemory::image`], and for mip levels of an NvSciBuf object, which has exactly one; else
    /// what the driver answers.
    pub fn map_mipmapped_array(&self, desc: &MipmappedArrayDesc) -> Result<MappedMipmappedArray> {
        const OPERATION: &str = "ExternalMemory::map_mipmapped_array";
        let device = &self.inner.owned.device;
        validate::feature(OPERATION, device.raw.capabilities(), Feature::MappedMipmappedArray)
            .and_then(|()| desc.validate(self.inner.size))
            .and_then(|()| self.check_levels(OPERATION, desc))
            .and_then(|()| self.check_image(OPERATION, desc))
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

    /// What kernels do with the array is not the exporter's to say, the rest is.
    fn check_image(&self, operation: &'static str, desc: &MipmappedArrayDesc) -> Result<()> {
        let Some(image) = &self.inner.image else { return Ok(()) };
        let attachment = |desc: &MipmappedArrayDesc| desc.usage.contains(ArrayUsage::COLOR_ATTACHMENT);
        let same = [
            ("offset", desc.offset == image.offset),
            ("shape", desc.shape == image.shape),
            ("format", desc.format == image.format),
            ("number of mip levels", desc.levels == image.levels),
            ("number of levels in the layout", desc.driver_levels() == image.driver_levels()),
            ("use as a colour attachment", attachment(desc) == attachment(image)),
        ];
        let Some((what, _)) = same.into_iter().find(|(_, same)| !same) else { return Ok(()) };
        let message = format!("the {what} is not that of the exporter's image; map it as its exporter describes it");
        Err(Error::invalid(operation, message)
            .with_context("image", format_args!("{image:?}"))
            .with_context("description", format_args!("{desc:?}")))
    }

    /// Ends the import, and says if that failed. While mappings live, the last of them ends it instead.
    ///
    /// # Errors
    /// What the driver answers (`cuDestroyExternalMemory`); the object is gone either way.
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.inner).map_or(Ok(()), |mut inner| inner.owned.release())
    }
}
