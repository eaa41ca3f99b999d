//! Objects of the native API.

use gpu_interop::{MemoryImport, MipmappedArrayDesc, Result};

use crate::tiling::LinearLayout;

/// A buffer or texture of the native API, for the barriers of a hand-over. Clones are the same object, which is
/// destroyed with the last of them.
#[derive(Debug, Clone)]
pub(crate) enum Resource {
    VulkanBuffer(gpu_interop::vulkan::OwnedBuffer),
    VulkanImage(gpu_interop::vulkan::OwnedImage),
    /// Direct3D 12 needs no barriers in addition to wgpu's.
    #[cfg(windows)]
    D3d12,
}

/// The exporter of an object's memory.
#[derive(Debug)]
pub(crate) enum Exporter {
    VulkanBuffer(gpu_interop::vulkan::ExportableBuffer),
    VulkanImage(gpu_interop::vulkan::ExportableImage),
    #[cfg(windows)]
    D3d12(gpu_interop::d3d::d3d12::ExportableResource),
}

impl Exporter {
    /// A new handle of the memory, with its description.
    pub(crate) fn import_request(&self) -> Result<MemoryImport> {
        match self {
            Self::VulkanBuffer(buffer) => buffer.import_request(),
            Self::VulkanImage(image) => image.import_request(),
            #[cfg(windows)]
            Self::D3d12(resource) => resource.import_request(),
        }
    }
}

/// A new buffer and the exporter of its memory.
pub(crate) struct NewBuffer {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) resource: Resource,
    pub(crate) exporter: Exporter,
}

/// How compute maps a texture.
#[derive(Debug)]
pub(crate) enum Layout {
    /// As an array: optimal tiling.
    Array(MipmappedArrayDesc),
    /// As a buffer: linear tiling. The layouts of each level's layers, by level.
    Linear(Vec<Vec<LinearLayout>>),
}

/// A new texture, the exporter of its memory, and what compute needs to map it.
pub(crate) struct NewTexture {
    pub(crate) texture: wgpu::Texture,
    pub(crate) resource: Resource,
    pub(crate) exporter: Exporter,
    pub(crate) format: gpu_interop::ArrayFormat,
    pub(crate) layout: Layout,
}

/// A timeline of the native API. Clones are the same object.
#[derive(Debug, Clone)]
pub(crate) enum NativeTimeline {
    Vulkan(gpu_interop::vulkan::OwnedSemaphore),
    #[cfg(windows)]
    D3d12(gpu_interop::d3d::d3d12::ExportableFence),
}

/// Direction of a hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// A new object: its contents are zeroed, and its layout is made the one of hand-overs.
    Initialize,
    /// To compute.
    Release,
    /// Back to wgpu.
    Acquire,
}
