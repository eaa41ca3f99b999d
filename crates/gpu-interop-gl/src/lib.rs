//! OpenGL importer of gpu-interop: imports buffers, textures and semaphores of another API into the application's own
//! OpenGL context.
//!
//! OpenGL cannot export. To share with a compute API, a third API, Vulkan, allocates; it exports each allocation and
//! each semaphore twice, and OpenGL and the compute device import one handle each:
//!
//! ```text
//!                     +--> gpu_interop_core::Device::import_memory     (CUDA, HIP)
//! ExportableImage ----|
//!                     +--> GlInterop::import_memory                    (OpenGL)
//! ```
//!
//! An application creates a [`GlInterop`] from the current context, passes it the requests of `gpu-interop-vulkan` or
//! another exporter ([`MemoryImport`](gpu_interop_core::MemoryImport),
//! [`SemaphoreImport`](gpu_interop_core::SemaphoreImport)), and gets [`ImportedMemory`], which contains
//! [`ImportedBuffer`]s and [`ImportedTexture`]s, and [`ImportedSemaphore`]s. OpenGL calls of the application use their
//! names ([`ImportedBuffer::as_raw`]).
//!
//! ```no_run
//! use std::ffi::{CStr, c_void};
//!
//! use gpu_interop_gl::{Barriers, GlInterop};
//! use gpu_interop_vulkan::{ExportableBuffer, ExportableSemaphore};
//!
//! fn share(
//!     exported: &ExportableBuffer,
//!     ready: &ExportableSemaphore,
//!     load: impl FnMut(&CStr) -> *const c_void,
//! ) -> gpu_interop_core::Result<()> {
//!     // SAFETY: the application's context is current on this thread until everything made from it is dropped.
//!     let gl = unsafe { GlInterop::new(load) }?;
//! # #[cfg(unix)] {
//!     let memory = gl.import_memory(exported.import_request()?)?;
//!     let buffer = memory.map_buffer(0..exported.buffer().size())?;
//!     let semaphore = gl.import_semaphore(ready.import_request()?)?;
//!     // ... Vulkan, or a compute device that imported `ready`, submits work that signals it; then:
//!     // SAFETY: the signal was submitted.
//!     unsafe { semaphore.wait(&Barriers::buffers(&[&buffer])) }?;
//!     // ... OpenGL calls that use the buffer `buffer.as_raw()`.
//! # }
//!     Ok(())
//! }
//! ```
//!
//! # Extensions
//! All of this is in extensions ([`Extension`]): NVIDIA's driver has all of them, Mesa's drivers those for memory and,
//! for some GPUs, those for semaphores. [`GlInterop::memory_support`] and [`GlInterop::semaphore_support`] report what
//! a context can import; everything else is an [`Unsupported`](gpu_interop_core::ErrorKind::Unsupported) error that
//! names the extension.
//!
//! # The context
//! OpenGL calls use the context that is current on the calling thread, and names are valid only there. [`GlInterop`]
//! and everything made from it therefore stay on one thread (nothing is `Send`), and that context, or one that shares
//! its objects, must be current there whenever a method is called and whenever an [`ImportedMemory`],
//! [`ImportedBuffer`], [`ImportedTexture`] or [`ImportedSemaphore`] is dropped, which deletes it. No query for this
//! works with every window system. The caller either promises it once ([`GlInterop::new`]), or passes an owner that
//! reports it ([`GlInterop::with_owner`], [`ContextOwner`]). With an owner, a method returns an error while the context
//! is not current, and objects dropped then are logged to `tracing` and stay until the context is destroyed. Without
//! one, the same holds only while *no* context is current.
//!
//! # Synchronisation
//! OpenGL executes commands later. Semaphores order its use of shared memory with the other API's:
//! [`ImportedSemaphore::signal`] releases buffers and textures, [`ImportedSemaphore::wait`] acquires them, each listing
//! them in [`Barriers`]. Without semaphores, use `glFinish` here and a host wait on the other side.
//!
//! # Images
//! [`TextureSpec`] describes a texture and must match the exporter's image. [`TextureFormat`] and [`TextureLayout`]
//! convert from Vulkan's numbers. APIs other than Vulkan leave images in [`TextureLayout::General`].
//!
//! NVIDIA's driver (580.159.04, measured) caches the data of `glTexSubImage` from host memory and returns it from
//! `glGetTexImage` into host memory, even after another API wrote to the image and OpenGL waited for its semaphore.
//! Drawing uses the current texels. Write from a buffer (`GL_PIXEL_UNPACK_BUFFER`) and read into one
//! (`GL_PIXEL_PACK_BUFFER`).
//!
//! # Guarantees
//! * **Handles are owned.** An import takes its handle by value and, on failure, returns the request with the handle
//!   open, whatever the driver did with its duplicate.
//! * **Devices are compared first.** Memory of another device is rejected with both identities before OpenGL is called.
//! * **Invalid requests never reach the driver**: sizes of 0, ranges past the end, impossible mip levels, handles of
//!   another operating system, descriptors that cannot be GPU objects, decreasing timeline values.
//! * **Bindings are restored** after every call.
//! * **Errors name** the `gl*` function, the code of `glGetError`, the device and the values involved. Pending errors
//!   that the application has not queried are logged to `tracing` and cleared.
//!
//! # Threads and blocking
//! No function blocks for other work. A driver that runs the context on its own thread (NVIDIA's threaded optimisation)
//! synchronises at each call of this crate, because of `glGetError`.
//!
//! # Platforms
//! File descriptors on Linux, Windows handles and names on Windows. A [`HeadlessContext`] (Linux, EGL) is for tests and
//! tools.

#![doc(html_root_url = "../")]

mod buffer;
mod error;
mod extension;
mod format;
mod functions;
#[cfg(unix)]
mod headless;
mod interop;
mod layout;
mod memory;
mod semaphore;
mod sys;
mod texture;

pub use buffer::ImportedBuffer;
pub use extension::Extension;
pub use format::TextureFormat;
#[cfg(unix)]
pub use headless::{HeadlessContext, HeadlessOptions};
pub use interop::{ContextOwner, GlInterop};
pub use layout::TextureLayout;
pub use memory::ImportedMemory;
pub use semaphore::{Barriers, ImportedSemaphore};
pub use texture::{ImportedTexture, TextureSpec, TextureTiling};
