//! Buffers and textures of wgpu that CUDA, HIP or the CPU works on, without a copy.
//!
//! ```no_run
//! use gpu_interop_wgpu::wgpu;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
//! desc.flags = wgpu::InstanceFlags::empty().with_env(); // no validation layer: see "Limits"
//! let instance = wgpu::Instance::new(desc);
//! let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
//! let (device, queue) = gpu_interop_wgpu::request_device(&adapter, &wgpu::DeviceDescriptor::default())?;
//! let interop = gpu_interop_wgpu::Interop::new(&device, &queue)?; // the same GPU in CUDA or HIP, or the CPU
//! let stream = interop.compute().create_stream()?;
//!
//! let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST; // or any other
//! let desc = wgpu::BufferDescriptor { label: None, size: 4096, usage, mapped_at_creation: false };
//! let (from, to) = (interop.create_buffer(&desc)?, interop.create_buffer(&desc)?);
//! queue.write_buffer(from.wgpu(), 0, &[7; 4096]); // `wgpu()` is a `wgpu::Buffer`
//! queue.submit([]);
//!
//! let compute = interop.begin_compute(&stream, &[&from, &to])?; // behind everything submitted to `queue` so far
//! stream.copy(to.mapped(), from.mapped())?; // the target first; or `fill_u32`, or a kernel
//! compute.end()?; // everything submitted to `queue` from now on sees what the stream wrote
//!
//! let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
//! let readback = device.create_buffer(&wgpu::BufferDescriptor { usage, ..desc });
//! let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
//! encoder.copy_buffer_to_buffer(to.wgpu(), 0, &readback, 0, 4096);
//! queue.submit([encoder.finish()]);
//! readback.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("mapped"));
//! device.poll(wgpu::PollType::wait_indefinitely())?;
//! assert_eq!(readback.get_mapped_range(..)?[..], [7; 4096]);
//! # Ok(())
//! # }
//! ```
//!
//! The section *Install* of the repository's README has the dependency. The features `cuda`, `hip` and `host` are on. The
//! example also needs `pollster = "0.4"`.
//!
//! This version is for wgpu 30. It re-exports [`wgpu`], without its optional features, and [`gpu_interop`]: for WGSL add
//! `wgpu = { version = "30", default-features = false, features = ["wgsl"] }` to your own dependencies. Each release of
//! wgpu has a major version of this crate. wgpu runs on Vulkan (Linux and Windows) or on Direct3D 12. Which compute API
//! it is paired with is decided at run time, by the identity of the GPU and the environment variable
//! `GPU_INTEROP_BACKEND` (`cuda`, `hip`, `host` or `auto`; see [`gpu_interop`]).
//!
//! # Kernels
//! [`Device::load_module`](gpu_interop::Device::load_module) takes PTX of CUDA and code objects of HIP. On the CPU a
//! kernel is a Rust function:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use gpu_interop_wgpu::gpu_interop::host::{HostBackend, KernelCall};
//! use gpu_interop_wgpu::gpu_interop::{KernelArg, LaunchConfig, ModuleImage, device_for_with_host};
//! use gpu_interop_wgpu::{Interop, identity};
//!
//! fn add_one(call: &KernelCall<'_>) -> Result<(), String> {
//!     for index in 0..call.u32(1)? as usize {
//!         // SAFETY: argument 0 is the address of as many bytes as argument 1 says.
//!         unsafe { *call.ptr(0)?.add(index) += 1 };
//!     }
//!     Ok(())
//! }
//!
//! # fn show(
//! #     device: &wgpu::Device,
//! #     queue: &wgpu::Queue,
//! #     ptx: &std::ffi::CStr,
//! #     stream: &gpu_interop_wgpu::gpu_interop::Stream,
//! #     buffer: &gpu_interop_wgpu::SharedBuffer,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let host = HostBackend::builder().kernel(c"add_one".into(), add_one).build();
//! let compute = device_for_with_host(&identity(device)?, Arc::new(host))?;
//! let image = if compute.backend().name.as_str() == "host" { ModuleImage::Builtin } else { ModuleImage::Ptx(ptx) };
//! let kernel = compute.load_module(image)?.kernel(c"add_one")?;
//! let interop = Interop::with_compute(device, queue, compute)?;
//!
//! let compute = interop.begin_compute(stream, &[buffer])?;
//! let arguments = [KernelArg::from(buffer.mapped()), KernelArg::U32(4096)];
//! // SAFETY: the kernel takes an address and an unsigned 32-bit number of bytes, which are the buffer's.
//! unsafe { stream.launch(&kernel, &LaunchConfig::linear(4096), &arguments) }?;
//! compute.end()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Textures
//! [`Interop::create_texture`] creates a texture of wgpu that compute maps as one of two things. Copies through the CPU,
//! for tests, are [`SharedTexture::read_texels`] and [`SharedTexture::write_texels`].
//!
//! ```no_run
//! # fn show(texture: &gpu_interop_wgpu::SharedTexture, stream: &gpu_interop_wgpu::gpu_interop::Stream) -> Result<(), Box<dyn std::error::Error>> {
//! match (texture.array(), texture.linear(0, 0)) {
//!     // Optimal tiling: a mipmapped array, for surfaces and textures of kernels.
//!     (Some(array), _) => println!("{:?}", array.desc()),
//!     // Linear tiling: memory with rows of `row_pitch` bytes. `rows` is as good a target or source of copies as a buffer.
//!     (None, Some((rows, layout))) => println!("{} bytes, rows {} bytes apart", rows.size(), layout.row_pitch),
//!     (None, None) => println!("no such level or layer"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A texture that wgpu renders to, with the usage `RENDER_ATTACHMENT`, needs the promise that no render pass ends with
//! `StoreOp::Discard` for it ([`TextureOptions::never_discarded`]):
//!
//! ```no_run
//! # fn show(interop: &gpu_interop_wgpu::Interop, desc: &wgpu::TextureDescriptor<'_>) -> gpu_interop_wgpu::gpu_interop::Result<()> {
//! # use gpu_interop_wgpu::TextureOptions;
//! let frame = interop.create_texture_with(desc, TextureOptions::default().never_discarded(true))?;
//! # drop(frame);
//! # Ok(())
//! # }
//! ```
//!
//! The repository's `examples` have kernels on both, for CUDA, HIP and the CPU.
//!
//! # Devices
//! [`request_device`] creates a wgpu device with the Vulkan extensions for sharing memory and timelines.
//! [`Interop::new`] also takes a device of [`wgpu::Adapter::request_device`]: it shares memory if its driver and the
//! features of the device permit that, but not timelines, whose values the CPU transfers then, which is slower. The
//! error names what a device lacks. [`Interop::with_compute`] takes a compute device that the application opened, for
//! example with its own kernels for the CPU.
//!
//! # Buffers and textures
//! A [`SharedBuffer`] is a `wgpu::Buffer` and a [`MappedBuffer`](gpu_interop::MappedBuffer); a [`SharedTexture`] is a
//! `wgpu::Texture` and a [`TextureMapping`]: a mipmapped array (optimal tiling, for CUDA's surfaces and textures), or
//! memory with rows (linear tiling) where the compute API maps no arrays, as on the CPU and with HIP on Linux.
//! [`TextureOptions`] choose otherwise. Both start with zeroes, belong to wgpu, and may be dropped at any time, before
//! or after clones of the wgpu handle, with work pending.
//!
//! # Imports
//! The module [`import`] makes textures and buffers of wgpu from imported memory: pictures in dma-bufs of compositors, cameras
//! and decoders, and memory exported by another process, another device or CUDA. It needs no compute device.
//!
//! # Hand-over
//! wgpu and compute take turns. [`Interop::begin_compute`] hands objects to a stream, and [`HandOver::end`], or the
//! drop of the guard, hands them back. Neither blocks the CPU where the compute driver imports timeline semaphores, as
//! CUDA's does. Elsewhere (HIP on Linux, the CPU) the end waits for the stream: see [`HandBack::acquire`]. Image layouts, ownership transfers, semaphores and the states
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
//! * wgpu loads Vulkan's validation layer in debug builds. Layers before 1.4.304 may stall for 10 s in each hand-over
//!   over a bridge (HIP on Linux, the CPU), so for minutes in all, because they mishandle a wait of one thread beside a
//!   signal of another. Create the instance with `flags: wgpu::InstanceFlags::empty().with_env()`, which leaves the layer
//!   to `WGPU_VALIDATION=1`.
//! * Neither side is protected from the other: the contents of an object are undefined, without an error, if wgpu uses
//!   it while compute owns it, or if a stream uses it without [`Interop::begin_compute`].
//!   `let _ = interop.begin_compute(..)?` ends the hand-over at once.
//! * A kernel that never ends, or a device that is lost, keeps wgpu's queue waiting: bound the waits for it
//!   (`wgpu::PollType::Wait` has a timeout).
//! * Other wgpu backends (Metal, OpenGL, WebGPU) are errors of the kind
//!   [`Unsupported`](gpu_interop::ErrorKind::Unsupported).
//! * Depth, stencil, compressed and planar formats, several samples and mappable buffers are not shared: copy to or
//!   from a buffer or texture of wgpu's own.
//! * wgpu cannot zero a shared texture. `RENDER_ATTACHMENT` needs the promise [`TextureOptions::never_discarded`].
//!   `CommandEncoder::clear_texture` is a validation error; clear the texture with a render pass or a stream.
//!
//! [`wgpu`]: https://docs.rs/wgpu/30
//! [`wgpu::Adapter::request_device`]: https://docs.rs/wgpu/30/wgpu/struct.Adapter.html#method.request_device

#![doc(html_root_url = "../")]

mod buffer;
mod check;
mod format;
mod hand_over;
pub mod import;
mod interop;
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
