//! Imported memory as textures and buffers of wgpu: pictures in dma-bufs of compositors, cameras and decoders, and memory
//! exported by another process, another device or CUDA.
//!
#![cfg_attr(unix, doc = "```no_run")]
#![cfg_attr(not(unix), doc = "```ignore")]
//! use gpu_interop_wgpu::gpu_interop::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
//! use gpu_interop_wgpu::import::{Fences, ImportOptions, Importer, picture_format};
//!
//! # fn show(
//! #     device: &wgpu::Device, // of `gpu_interop_wgpu::request_device`
//! #     queue: &wgpu::Queue,
//! #     (fd, offset, stride): (std::os::fd::OwnedFd, u32, u32),
//! #     (fourcc, modifier, [width, height]): (u32, u64, [u32; 2]),
//! #     draw: impl Fn(&wgpu::Texture) -> wgpu::CommandBuffer,
//! #     give_back: impl FnOnce() + Send + 'static,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let importer = Importer::new(device, queue)?;
//! let code = DrmFourcc(fourcc);
//! let plane = DmaBufPlane::new(fd, offset.into(), stride.into());
//! let picture = DmaBufPicture::new(code, DrmModifier(modifier), [width, height], vec![plane]);
//! let desc = wgpu::TextureDescriptor {
//!     label: None,
//!     size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
//!     mip_level_count: 1,
//!     sample_count: 1,
//!     dimension: wgpu::TextureDimension::D2,
//!     format: picture_format(code).ok_or("wgpu has no such format")?,
//!     usage: wgpu::TextureUsages::TEXTURE_BINDING,
//!     view_formats: &[],
//! };
//! // SAFETY: the producer describes its own buffer.
//! let texture = unsafe { importer.import_picture(picture, &desc, ImportOptions::default()) }
//!     .map_err(|failure| failure.into_parts().0)?; // `into_request` returns the picture with its descriptors
//!
//! // For each frame of the producer in this buffer:
//! let access = texture.begin_access(Fences::Implicit)?; // wgpu's queue waits for the producer
//! queue.submit([draw(texture.wgpu())]);
//! let ended = access.end()?; // the buffer belongs to the producer, once wgpu's queue arrives here
//! ended.on_done(give_back); // such as `wl_buffer.release`
//! # Ok(())
//! # }
//! ```
//!
//! Producers with Vulkan add no implicit fences, unless they call `gpu_interop::vulkan::set_dma_buf_fence`: pass their sync files
//! with `Fences::SyncFiles`. [`EndedAccess::wait`] reports a sync file of a producer that was killed.
//!
//! An [`Importer`] needs no compute device. With an [`Interop`](crate::Interop), make it from
//! [`Interop::device`](crate::Interop::device) and [`Interop::queue`](crate::Interop::queue).
//!
//! # Ownership
//! An import succeeds as a whole, and then owns the descriptors or handles of its request. On failure the request is
//! returned with its descriptors open, whatever the driver did. The producer's memory lives as long as any descriptor or
//! import of it. The object of wgpu, its clones and the wrapper may be dropped in any order, with work pending.
//!
//! # Accesses
//! The producer and wgpu take turns. [`ImportedTexture::begin_access`] acquires the object from the producer's queue family
//! behind its fences; [`Access::end`], or the drop of the guard, releases it.
//!
//! * Between the two, submit any wgpu commands that use the object. Before and after, submit none: the contents are then
//!   undefined, without an error. Recording is fine at any time.
//! * [`EndedAccess`] says when wgpu's queue is done with the memory. Do not give the buffer back to its producer before, unless
//!   the producer waits for `EndedAccess::sync_file` or the implicit fence of `EndedAccess::add_fence`.
//! * The producer leaves an image in the layout `GENERAL`, as APIs without layouts do, and finds it so.
//!
//! # Planes
//! Import a multi-planar picture plane by plane, with a modifier of `Importer::plane_modifiers`.
//! `DmaBufPicture::into_planes` makes a picture of each plane: `R8Unorm` and
//! `Rg8Unorm` for NV12, `R16Unorm` and `Rg16Unorm` (with `Features::TEXTURE_FORMAT_16BIT_NORM`) for P010. Convert the colours in
//! the shader. Imports into wgpu's own formats `NV12` and `P010` are rejected: wgpu 30 samples these by views of their planes,
//! too, and drivers list fewer modifiers for them.
//!
//! # Threads
//! Everything here may be used from every thread. Accesses of one object exclude each other: a second one is an error.
//!
//! # Limits
//! * wgpu's Vulkan backend. With Direct3D 12, [`Importer::new`] returns
//!   [`Unsupported`](gpu_interop::ErrorKind::Unsupported).
//! * wgpu has no swizzles: ignore alpha of the codes without it (`XR24`) in the shader.
//! * A lost wgpu device is reported by [`ImportedTexture::begin_access`] rather than by the import.
//!
//! # wgpu 31 and ash 0.39: what will break
//! * Each major version of wgpu needs a major version of this crate. `wgpu::TextureDescriptor` of wgpu's development branch has
//!   a field `mapped_at_creation`: descriptors written in full, as above, need it. Imports will reject it, as
//!   buffers with `mapped_at_creation` are rejected.
//! * ash's development branch renames `push_next` of its builders to `push` and `extend`, and `new` of its extension
//!   tables to `load`. Applications that pass ash's types to [`gpu_interop::vulkan`], such as
//!   [`ImageImportOptions`](gpu_interop::vulkan::ImageImportOptions), need the version that it re-exports.

mod access;
mod memory;
#[cfg(unix)]
mod picture;
#[cfg(unix)]
mod wait;

use std::sync::Arc;

use gpu_interop::Result;

use crate::interop::Graphics;
use crate::native::Native;

pub use access::{Access, EndedAccess, Fences, ImportedBuffer, ImportedTexture};
#[cfg(unix)]
pub use picture::picture_format;

/// Imports memory into a wgpu device. Cheap to clone: all clones are the same object. May be used from every thread.
#[derive(Debug, Clone)]
pub struct Importer {
    graphics: Arc<Graphics>,
}

/// Options of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The same physical device and driver produces the picture, with Vulkan: the queue family of ownership transfers is
    /// `VK_QUEUE_FAMILY_EXTERNAL`. The default, `VK_QUEUE_FAMILY_FOREIGN_EXT`, is right for every producer of dma-bufs, and
    /// needs `VK_EXT_queue_family_foreign`. Other imports than pictures ignore this.
    ///
    /// Set it for pictures of `ExportableImage` and `ExportableVideo`, which release to `VK_QUEUE_FAMILY_EXTERNAL`. Both are the
    /// same if `deviceUUID` and `driverUUID` of `VkPhysicalDeviceIDProperties` are equal on both sides. The `main_device` of
    /// Wayland's `linux-dmabuf` names the device only, not the driver.
    pub same_driver: bool,
    /// No render pass ends with `StoreOp::Discard` for the texture. `RENDER_ATTACHMENT` needs this promise:
    /// [`TextureOptions::never_discarded`](crate::TextureOptions::never_discarded) has the reason.
    pub never_discarded: bool,
}

impl ImportOptions {
    /// Sets whether the same driver produces the picture.
    #[must_use]
    pub fn same_driver(mut self, same_driver: bool) -> Self {
        self.same_driver = same_driver;
        self
    }

    /// Promises that no render pass discards the texture.
    #[must_use]
    pub fn never_discarded(mut self, never_discarded: bool) -> Self {
        self.never_discarded = never_discarded;
        self
    }
}

impl Importer {
    /// Prepares imports into `device`. `queue` belongs to it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop::ErrorKind::Unsupported) if wgpu runs on another backend than Vulkan, or the
    /// device lacks an extension: [`request_device`](crate::request_device) creates a device with all extensions.
    /// [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument) for the queue of another device.
    pub fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Self> {
        const OPERATION: &str = "Importer::new";
        let native = Native::new(OPERATION, device)?;
        native.vulkan(OPERATION)?;
        native.check_queue(OPERATION, queue)?;
        let graphics = Graphics { device: device.clone(), queue: queue.clone(), native };
        Ok(Self { graphics: Arc::new(graphics) })
    }
}
