//! Buffers and textures of wgpu that CUDA, HIP or the CPU works on, without a copy.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
//! # let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
//! # let desc = wgpu::BufferDescriptor { label: None, size: 4096, usage: wgpu::BufferUsages::VERTEX, mapped_at_creation: false };
//! let (device, queue) = gpu_interop_wgpu::request_device(&adapter, &wgpu::DeviceDescriptor::default())?;
//! let interop = gpu_interop_wgpu::Interop::new(&device, &queue)?; // the same GPU in CUDA or HIP, or the CPU
//! let stream = interop.compute().create_stream()?;
//! let vertices = interop.create_buffer(&desc)?; // `vertices.wgpu()` is a `wgpu::Buffer`
//!
//! let compute = interop.begin_compute(&stream, &[&vertices])?; // behind everything submitted to `queue` so far
//! stream.fill_u32(vertices.mapped(), 0x3F80_0000)?; // or a kernel
//! compute.end()?; // everything submitted to `queue` from now on sees what the stream wrote
//! # Ok(())
//! # }
//! ```
//!
//! Textures go the same way: [`Interop::create_texture`], then [`SharedTexture::read_texels`] and `write_texels`, or a
//! kernel on [`SharedTexture::linear`] or [`SharedTexture::array`]. The repository's `examples` have kernels for CUDA
//! and for the CPU.
//!
//! This version is for wgpu 30, which it re-exports without its optional features: for WGSL add
//! `wgpu = { version = "30", default-features = false, features = ["wgsl"] }` to your own dependencies. Each release of
//! wgpu has a major version of this crate. wgpu runs on Vulkan (Linux and Windows) or on Direct3D 12. Which compute API it is paired with is decided at
//! run time, by the identity of the GPU and the environment variable `GPU_INTEROP_BACKEND` (`cuda`, `hip`, `host` or
//! `auto`; see [`gpu_interop`]).
//!
//! # Devices
//! [`request_device`] creates a wgpu device with the Vulkan extensions that sharing needs. An application that creates
//! its device itself passes it to [`Interop::new`], whose error names what the device lacks. [`Interop::with_compute`]
//! takes a compute device that the application opened, for example with its own kernels for the CPU.
//!
//! # Buffers and textures
//! A [`SharedBuffer`] is a `wgpu::Buffer` and a [`MappedBuffer`](gpu_interop::MappedBuffer); a [`SharedTexture`] is a
//! `wgpu::Texture` and a [`TextureMapping`]: a mipmapped array (optimal tiling, for CUDA's surfaces and textures), or
//! memory with rows (linear tiling) where the compute API maps no arrays, as on the CPU and with HIP on Linux.
//! [`TextureOptions`] choose otherwise. Both start with zeroes, belong to wgpu, and may be dropped at any time, before
//! or after clones of the wgpu handle, with work pending.
//!
//! # Hand-over
//! wgpu and compute take turns. [`Interop::begin_compute`] hands objects to a stream, and [`HandOver::end`], or the
//! drop of the guard, hands them back. Neither blocks the CPU where the compute driver imports timeline semaphores, as
//! CUDA's does; [`HandBack::acquire`] has the other case. Image layouts, ownership transfers, semaphores and the states
//! that wgpu tracks are handled inside.
//!
//! * While compute owns an object, do not submit wgpu work that uses it; recording such work is fine.
//! * wgpu's queue may be used from every thread at any time: [`Interop::submit_with`] says why no submission of another
//!   thread takes a wait or a signal to a wrong place.
//! * To save submissions, [`Interop::submit_and_begin_compute`] and [`HandOver::end_and_submit`] take command buffers.
//! * For several frames in flight, [`HandOver::signal`] ends the work of compute, and [`HandBack::acquire`] makes
//!   wgpu's queue wait for it, later.
//! * [`HandBack::done`] and [`SharedTimeline::reached`] are futures, for every executor.
//!
//! # Errors
//! [`gpu_interop::Error`], with the values involved and the next step. wgpu's own validation errors of a submission
//! made here are its [`source`](std::error::Error::source), and do not reach wgpu's error handler.
//!
//! A kernel that fails does so later than the call that launched it, and also later than [`HandOver::end`]:
//! [`Stream::synchronize`](gpu_interop::Stream::synchronize) reports it.
//!
//! # Limits
//! * wgpu loads Vulkan's validation layer in debug builds. Layers before 1.4.304 may stall for 10 s in a hand-over over a
//!   bridge (HIP on Linux, the CPU), because they mishandle a wait of one thread beside a signal of another. Create the
//!   instance with `flags: wgpu::InstanceFlags::empty().with_env()`, which leaves the layer to `WGPU_VALIDATION=1`.
//! * An object that compute owns is not protected from wgpu: its contents are then undefined, without an error.
//!   `let _ = interop.begin_compute(..)?` ends the hand-over at once.
//! * A kernel that never ends, or a device that is lost, keeps wgpu's queue waiting: bound the waits for it
//!   (`wgpu::PollType::Wait` has a timeout).
//! * Other wgpu backends (Metal, OpenGL, WebGPU) are errors of the kind
//!   [`Unsupported`](gpu_interop::ErrorKind::Unsupported).
//! * Depth, stencil, compressed and planar formats, several samples and mappable buffers are not shared: copy to or
//!   from a buffer or texture of wgpu's own.

mod buffer;
mod format;
mod graphics;
mod hand_over;
mod interop;
mod lane;
mod native;
mod object;
mod reached;
mod request;
mod texels;
mod texture;
mod tiling;
mod timeline;

pub use buffer::SharedBuffer;
pub use format::shared_formats;
pub use gpu_interop;
pub use hand_over::{HandBack, HandOver};
pub use interop::Interop;
pub use native::identity;
pub use object::Shared;
pub use reached::Reached;
pub use request::request_device;
pub use texture::{SharedTexture, TextureMapping};
pub use tiling::{LinearLayout, TextureOptions, Tiling};
pub use timeline::SharedTimeline;
pub use wgpu;
