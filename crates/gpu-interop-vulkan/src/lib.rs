//! The Vulkan side of gpu-interop: sharing buffers, images and semaphores of the application's own Vulkan device.
//!
//! An application that renders or computes with Vulkan makes a [`VulkanInterop`] from its instance and device, creates
//! [`ExportableBuffer`]s, [`ExportableImage`]s and [`ExportableSemaphore`]s with it, and passes what they export to an
//! importer: a device of `gpu-interop`, another process, or another Vulkan device ([`ImportedBuffer`],
//! [`ImportedImage`], [`ImportedSemaphore`]). The Vulkan loader is looked for at run time ([`load_entry`]), so a binary
//! starts without one.
//!
//! # Images
//! An [`ImageSpec`] says what an image is: one to three dimensions, a cube or an array of these, mip levels, format,
//! usage, tiling. With `OPTIMAL` tiling only the driver knows where the texels are; an importer imports the memory
//! ([`ExportableImage::import_request`]) and maps it as a mipmapped array ([`ExportableImage::array_desc`]). With
//! `LINEAR` tiling it maps the memory as a buffer and finds each row by [`OwnedImage::subresource_layout`].
//! [`TexelFormat`] has the formats that arrays have, and what of a `VkFormat` an array does not know: the BGRA order,
//! in which its first channel is blue, and the sRGB curve. Other APIs have no image layouts: an image is handed over,
//! and comes back, in `VK_IMAGE_LAYOUT_GENERAL`. A new image has no layout, so its exporter initialises it
//! ([`Recording::initialize_image`]) and releases it before the other side first uses it, whoever writes first; an
//! importer acquires it before anything else. An application that makes its images itself finds the same conversions in
//! [`TexelFormat::from_vulkan`], [`array_shape`] and [`array_usage`].
//!
//! # Which queue
//! What is only copied is best handed over on a queue that only copies: a round trip on a graphics queue makes the GPU
//! change its context twice, which can take ten times as long as all the rest. [`QueueKind`] has the numbers and finds
//! the queue; [`HeadlessContext::send`] and [`HeadlessContext::receive`] copy and hand over in one submission.
//!
//! # What this crate promises
//! * **The device is asked first.** Nothing is created that the device has not said it can share; what it cannot is a
//!   typed [`Unsupported`](gpu_interop_core::ErrorKind::Unsupported) error.
//! * **Handles are owned.** Every export is a new descriptor of the caller's that closes on exec. An import takes its
//!   handle by value and, on failure, gives the request back with the handle open, whatever the driver did with the
//!   duplicate it got.
//! * **Bad requests never reach the driver**: sizes of 0, memory of the wrong size, closed descriptors, and
//!   descriptors that cannot be GPU objects. Drivers block or crash on some of these.
//! * **Forgotten transfers are errors**: a [`HeadlessContext`] refuses commands on a shared buffer or image that is the other
//!   side's, and a release or an acquisition out of order ([`OwnedBuffer`], [`OwnedImage`]).
//! * **Objects free themselves**, children before parents, and their [`Drop`] never panics.
//! * An error names the `vk*` function, the `VkResult`, the device and the values involved.
//!
//! # What the caller must do
//! * Create the instance for Vulkan 1.1 or later, and the device with
//!   [`VulkanInterop::required_device_extensions`]; for semaphores and dma-bufs also with those of
//!   [`VulkanInterop::optional_device_extensions`] that it lists. Timeline semaphores need Vulkan 1.2, or the extension
//!   `VK_KHR_timeline_semaphore`, and the feature `timelineSemaphore`. What can be found out is checked; which features
//!   a device was created with cannot.
//! * Keep instance and device alive as long as anything made from them, or hand over an owner
//!   ([`VulkanInterop::with_owner`]).
//! * Keep a buffer, image or semaphore as long as commands that were submitted through ash use it.
//! * Transfer ownership to and from the other API ([`OwnershipTransfer`]) and make one side wait for the other.
//!
//! # Threads and blocking
//! Every object may be used from every thread; command buffers and queues that the caller passes in follow Vulkan's own
//! rules. Only [`OwnedSemaphore::wait`] and the methods of [`HeadlessContext`] that say so block, and all of them take or have
//! a time limit.
//!
//! # Platforms
//! File descriptors (Linux), NT handles and names (Windows; imports of KMT handles too).

mod buffer;
mod context;
mod error;
mod export;
mod format;
mod handles;
mod identity;
mod image;
mod import;
mod import_memory;
mod import_semaphore;
mod interop;
mod loader;
mod memory;
mod outstanding;
mod ownership;
mod placement;
mod query;
mod queue;
mod raw;
mod semaphore;
mod shape;
mod shared_timeline;
mod timeline;
mod tracking;

pub use ash;
pub use buffer::OwnedBuffer;
pub use context::{
    BufferCopy, DeviceChoice, HeadlessContext, HeadlessOptions, Recording, SemaphoreOp, Submission, ValidationLog,
};
pub use export::{BufferOptions, ExportableBuffer};
pub use format::{ChannelOrder, ColorEncoding, TexelFormat};
pub use identity::device_identity;
pub use image::{ExportableImage, ImageOptions, ImageSpec, OwnedImage, SubresourceLayout};
pub use image::{ImageImportOptions, ImportedImage};
pub use import::{BufferImportOptions, ImportedBuffer};
pub use import_semaphore::ImportedSemaphore;
pub use interop::VulkanInterop;
pub use loader::{LOADER_LIBRARY, load_entry, load_entry_from};
pub use ownership::OwnershipTransfer;
pub use placement::MemoryPlacement;
pub use query::{ExternalFeatures, ImageQuery, memory_handle_type, semaphore_handle_type};
pub use queue::QueueKind;
pub use raw::RawMemory;
pub use semaphore::{ExportableSemaphore, OwnedSemaphore};
pub use shape::{array_shape, array_usage};
pub use shared_timeline::shared_timeline;
