//! Vulkan exporter of gpu-interop: shares buffers, images and semaphores of the application's own Vulkan device.
//!
//! An application that renders or computes with Vulkan creates a [`VulkanInterop`] from its instance and device,
//! creates [`ExportableBuffer`]s, [`ExportableImage`]s and [`ExportableSemaphore`]s with it, and passes their exports
//! to an importer: a device of `gpu-interop`, another process, or another Vulkan device ([`ImportedBuffer`],
//! [`ImportedImage`], [`ImportedSemaphore`]). The Vulkan loader is loaded at run time ([`load_entry`]), so a binary
//! starts without one.
//!
//! # Images
//! An [`ImageSpec`] describes an image: one to three dimensions, a cube or an array of these, mip levels, format,
//! usage, tiling. The driver chooses the texel layout of `OPTIMAL` tiling; an importer imports the memory
//! ([`ExportableImage::import_request`]) and maps it as a mipmapped array ([`ExportableImage::array_desc`]). An
//! importer maps an image of `LINEAR` tiling as a buffer and locates each row with [`OwnedImage::subresource_layout`].
//! [`TexelFormat`] maps a `VkFormat` to an array format, the channel order (RGBA or BGRA) and the encoding (linear or
//! sRGB). Other APIs have no image layouts: an image changes owner in `VK_IMAGE_LAYOUT_GENERAL`, in both directions. A
//! new image has no layout, so its exporter initialises it ([`Recording::initialize_image`]) and releases it before the
//! other API first uses it, whichever side writes first; an importer acquires it before anything else. For images that
//! the application creates itself there are [`TexelFormat::from_vulkan`], [`array_shape`] and [`array_usage`].
//!
//! # Video
//! An [`ExportableVideo`] is a picture of a [`VideoFormat`](gpu_interop_core::VideoFormat), such as NV12 or P010, with luma
//! and chroma in separate planes: images of their own, or one multi-planar image where the driver has it
//! ([`PlaneStorage`]). An importer maps linear planes as pitched memory ([`ExportableVideo::map`]), and optimal ones as
//! arrays ([`ExportableVideo::map_arrays`]).
//!
//! # Pictures of other producers
//! A compositor, a camera, a decoder or another Vulkan device passes a picture as dma-bufs with a DRM modifier. An
//! `ImportedPicture` (Unix) is an image on them, with the producer's offsets and pitches. Its fences pass as sync files
//! (`SyncFileSemaphore`), or as points of a DRM syncobj (`DrmSyncobj`, Linux), the timelines of Wayland's explicit
//! synchronisation. A `DrmSyncobj` is also the exporter of a [`Timeline`](gpu_interop_core::Timeline).
//!
//! A [`PictureFeed`] passes pictures on to a compute device: shared where that imports them, otherwise copied by a queue.
//!
//! # Many buffers
//! An import costs tens of microseconds and a descriptor. A [`SharedHeap`] imports and maps one allocation and cuts
//! buffers from it for both sides at once.
//!
//! # Frames in flight
//! A [`FrameRing`] has the buffers, images and timelines of several frames in flight, and enqueues the halves of both
//! sides with their waits, signals and transfers of ownership:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use gpu_interop_core::{Device, Result};
//! # use gpu_interop_vulkan::{BufferOptions, FrameRing, FrameRingOptions, HeadlessContext, ash::vk::BufferUsageFlags};
//! # fn frames(context: &HeadlessContext, device: &Device) -> Result<()> {
//! # let buffer = BufferOptions::new(4096, BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST);
//! # let (stream, number) = (device.create_stream()?, 7);
//! let ring = FrameRing::new(context, device, &FrameRingOptions::new(3).buffer(buffer))?;
//! let mut frame = ring.acquire(Duration::from_secs(1))?; // blocks while three frames are in flight
//! frame.render(context, |commands, memory| commands.fill(memory.buffers()[0].buffer(), 0, 4096, number))?;
//! frame.compute(&stream, |stream, memory| stream.fill_u32(memory.buffers()[0].slice(2048..)?, !number))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Queue for transfers of ownership
//! Data that is only copied is best handed over on a transfer-only queue: a round trip on a graphics queue makes the
//! GPU switch contexts twice, which can take ten times as long as the rest. [`QueueKind`] has the measurements and
//! finds the queue family; [`HeadlessContext::send`] and [`HeadlessContext::receive`] copy and transfer ownership in
//! one submission.
//!
//! # Guarantees
//! * **The device is queried first.** Objects are created only if the device reports that it can share them; anything
//!   else is a typed [`Unsupported`](gpu_interop_core::ErrorKind::Unsupported) error.
//! * **Handles are owned.** Every export is a new descriptor that the caller owns and that closes on exec. An import
//!   takes its handle by value and, on failure, returns the request with the handle open, whatever the driver did with
//!   its duplicate.
//! * **Invalid requests never reach the driver**: sizes of 0, memory of the wrong size, closed descriptors, and
//!   descriptors that cannot be GPU objects. Drivers block or crash on some of these.
//! * **Missing ownership transfers are errors**: a [`HeadlessContext`] rejects commands on a shared buffer or image
//!   that the other API owns, and a release or an acquire out of order ([`OwnedBuffer`], [`OwnedImage`]).
//! * **Objects are freed on drop**, children before parents, and [`Drop`] never panics.
//! * **Errors name** the `vk*` function, the `VkResult`, the device and the values involved.
//!
//! # Requirements
//! * Create the instance for Vulkan 1.1 or later, and the device with [`VulkanInterop::required_device_extensions`];
//!   for semaphores and dma-bufs also with those of [`VulkanInterop::optional_device_extensions`] that it lists.
//!   Timeline semaphores need Vulkan 1.2, or the extension `VK_KHR_timeline_semaphore`, and the feature
//!   `timelineSemaphore`. Everything that Vulkan can report is checked; the enabled features of a device cannot be
//!   queried.
//! * Keep the instance and the device alive as long as anything made from them, or pass an owner
//!   ([`VulkanInterop::with_owner`]).
//! * Keep a buffer, image or semaphore alive while commands submitted through ash use it.
//! * Transfer ownership to and from the other API ([`OwnershipTransfer`]) and synchronise the two sides.
//!
//! # Threads and blocking
//! Every object may be used from every thread; command buffers and queues passed in by the caller follow Vulkan's own
//! rules. Only [`OwnedSemaphore::wait`] and the methods of [`HeadlessContext`] documented as blocking block, each with
//! a timeout.
//!
//! # Platforms
//! File descriptors (Linux); NT handles and object names (Windows), and KMT handles for imports.

#![doc(html_root_url = "../")]

#[macro_use]
mod macros;

mod buffer;
mod context;
mod error;
mod export;
mod feed;
mod format;
mod handles;
mod heap;
mod identity;
mod image;
mod import;
mod interop;
mod loader;
mod memory;
mod ownership;
mod pending;
#[cfg(unix)]
mod picture;
mod placement;
mod query;
mod queue;
mod raw;
mod ring;
mod semaphore;
mod shape;
#[cfg(unix)]
mod sync_file;
mod timeline;
mod tracking;
mod usage;
mod video;
mod wake;

pub use ash;
pub use buffer::OwnedBuffer;
pub use context::{
    BufferCopy, DeviceChoice, HeadlessContext, HeadlessOptions, Recording, SemaphoreOp, Submission, ValidationLog,
};
pub use export::{BufferOptions, ExportableBuffer, ExportableSemaphore};
pub use feed::{FeedFences, FeedImage, FeedSource, PictureFeed, PictureFeedOptions, PictureWay, picture_planes};
pub use format::{ChannelOrder, ColorEncoding, TexelFormat};
pub use heap::{SharedHeap, SharedHeapBuffer, SharedHeapOptions, SharedHeapUsage};
pub use identity::device_identity;
pub use image::{
    ExportableImage, ImageImportOptions, ImageOptions, ImageSpec, ImportedImage, OwnedImage, SubresourceLayout,
};
pub use import::{BufferImportOptions, ImportedBuffer, ImportedSemaphore};
pub use interop::VulkanInterop;
pub use loader::{LOADER_LIBRARY, load_entry, load_entry_from};
pub use ownership::OwnershipTransfer;
#[cfg(unix)]
pub use picture::{ImportedPicture, ModifierSupport, PictureOptions, Producer};
pub use placement::MemoryPlacement;
pub use query::{ExternalFeatures, ImageQuery, memory_handle_type, semaphore_handle_type};
pub use queue::QueueKind;
pub use raw::RawMemory;
pub use ring::{
    Frame, FrameBuffer, FrameGraphs, FrameImage, FrameMemory, FramePicture, FrameRing, FrameRingOptions, FrameSide,
    FrameSync,
};
pub use semaphore::OwnedSemaphore;
pub use shape::{array_shape, array_usage};
#[cfg(unix)]
pub use sync_file::{DmaBufAccess, SyncFileSemaphore, dma_buf_fence, set_dma_buf_fence};
#[cfg(target_os = "linux")]
pub use sync_file::{DrmDevice, DrmSyncobj, DrmSyncobjState, SyncFileStatus, sync_file_status};
pub use timeline::shared_timeline;
pub use video::{ExportableVideo, PlaneStorage, VideoOptions, VideoSpec};
