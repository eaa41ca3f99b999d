//! The OpenGL side of gpu-interop: buffers, textures and semaphores that another API exported, in the application's own
//! OpenGL context.
//!
//! OpenGL exports nothing. Where it shares with compute, a third API, Vulkan, allocates; it exports each allocation and
//! each semaphore twice, every export a handle of its own, and OpenGL and the compute device both import:
//!
//! ```text
//!                     +--> gpu_interop_core::Device::import_memory     (CUDA, HIP)
//! ExportableImage ----|
//!                     +--> GlInterop::import_memory                    (OpenGL)
//! ```
//!
//! An application makes a [`GlInterop`] of the context that is current, passes it what `gpu-interop-vulkan` or another
//! exporter gave ([`MemoryImport`](gpu_interop_core::MemoryImport), [`SemaphoreImport`](gpu_interop_core::SemaphoreImport)),
//! and gets [`ImportedMemory`], in it [`ImportedBuffer`]s and [`ImportedTexture`]s, and [`ImportedSemaphore`]s. Their
//! names ([`ImportedBuffer::as_raw`]) go into the application's own calls.
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
//!     // SAFETY: the application's context is current on this thread until all of this is dropped.
//!     let gl = unsafe { GlInterop::new(load) }?;
//! # #[cfg(unix)] {
//!     let memory = gl.import_memory(exported.import_request()?)?;
//!     let buffer = memory.map_buffer(0..exported.buffer().size())?;
//!     let semaphore = gl.import_semaphore(ready.import_request()?)?;
//!     // ... Vulkan, or the compute device that imported it too, submits work that signals `ready`; then:
//!     // SAFETY: the signal was submitted.
//!     unsafe { semaphore.wait(&Barriers::buffers(&[&buffer])) }?;
//!     // ... calls of OpenGL that use the buffer `buffer.as_raw()`.
//! # }
//!     Ok(())
//! }
//! ```
//!
//! # The extensions
//! OpenGL has all of this as extensions ([`Extension`]), and drivers have some of them: NVIDIA's all, Mesa's drivers those
//! for memory and, for some GPUs, those for semaphores. [`GlInterop::memory_support`] and
//! [`GlInterop::semaphore_support`] say what a context can import; whatever it lacks is an
//! [`Unsupported`](gpu_interop_core::ErrorKind::Unsupported) error that names the extension.
//!
//! # The context
//! OpenGL's calls go to the context that is current on the calling thread, and names mean something only in it. So
//! [`GlInterop`] and everything made from it stays on one thread (none of it is `Send`), and the context must be current
//! there, or one that shares its objects, whenever a method is called and whenever a [`ImportedMemory`],
//! [`ImportedBuffer`], [`ImportedTexture`] or [`ImportedSemaphore`] is dropped, which deletes it. OpenGL cannot be asked
//! for that in a way that every window system has. Thus the caller either promises it once ([`GlInterop::new`]), or hands
//! over somebody who knows ([`GlInterop::with_owner`], [`ContextOwner`]). In the second case nothing can go wrong: a method
//! answers with an error, and what is dropped while the context is not current is told to `tracing` and left to the end of
//! the context. In the first, this much is still noticed if *no* context is current.
//!
//! # Who waits for whom
//! OpenGL runs what it is given later. What it does with shared memory is ordered with the other API's work by semaphores:
//! [`ImportedSemaphore::signal`] hands buffers and textures over, [`ImportedSemaphore::wait`] takes them over, each naming
//! them in [`Barriers`]. Without semaphores, `glFinish` on this side and a wait of the host on the other do.
//!
//! # Images
//! [`TextureSpec`] says what a texture is, and must say what the exporter's image is. [`TextureFormat`] and
//! [`TextureLayout`] convert from Vulkan's numbers. Other APIs than Vulkan leave images in [`TextureLayout::General`].
//!
//! NVIDIA's driver (580.159.04, measured) keeps what `glTexSubImage` wrote to a texture from memory of the host, and answers
//! `glGetTexImage` into memory of the host with that, even after another API wrote to the image and OpenGL waited for its
//! semaphore. Drawing sees what is there. Write from a buffer (`GL_PIXEL_UNPACK_BUFFER`) and read into one
//! (`GL_PIXEL_PACK_BUFFER`).
//!
//! # What this crate promises
//! * **Handles are owned.** An import takes its handle by value and, on failure, gives the request back with the handle
//!   open, whatever the driver did with the duplicate it got.
//! * **The device is compared first.** Memory of another device is refused with both identities before OpenGL sees it.
//! * **Bad requests never reach the driver**: sizes of 0, ranges past the end, levels that an image cannot have, handles of
//!   another operating system, descriptors that cannot be GPU objects, values that go backwards.
//! * **Bindings stay.** What the application has bound is bound afterwards.
//! * An error names the `gl*` function, the code of `glGetError`, the device and the values involved. Errors that the
//!   application had not asked for by then are told to `tracing` and lost.
//!
//! # Threads and blocking
//! Nothing here blocks for other work. A driver that runs a context on a thread of its own (NVIDIA's threaded optimisation)
//! catches up at each call of this crate, because `glGetError` must answer.
//!
//! # Platforms
//! File descriptors on Linux, handles of Windows there. A [`HeadlessContext`] (Linux, EGL) is for tests and tools.

mod buffer;
mod error;
mod extension;
mod format;
mod functions;
#[cfg(unix)]
mod headless;
mod identity;
mod interop;
mod layout;
mod lend;
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
