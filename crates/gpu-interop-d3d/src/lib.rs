//! The Direct3D side of gpu-interop: sharing heaps, resources, fences and keyed mutexes of the application's own
//! devices.
//!
//! An application that renders or computes with Direct3D makes a `d3d12::D3d12Interop` or `d3d11::D3d11Interop` from
//! its device, creates what is to be shared with it, and passes what that exports to an importer: a device of
//! `gpu-interop` or another process.
//!
//! | | Direct3D 12 | Direct3D 11 |
//! |---|---|---|
//! | memory | `ExportableResource` (committed buffers and textures), `ExportableHeap` with what is placed on it | `ExportableResource` (buffers and textures), by NT or KMT handle |
//! | order | `ExportableFence` | `ExportableFence`, `KeyedMutex` |
//! | timelines | `ExportableFence` is an [`ExporterTimeline`](gpu_interop_core::ExporterTimeline) | the same, natively only: the host cannot signal it |
//!
//! # Textures
//! A [`TextureSpec`] says what a texture is. Where its texels are only the driver knows; an importer imports the memory
//! and maps it with the `array_desc` of the resource. [`TexelFormat`] has the formats that arrays have, and what of a
//! `DXGI_FORMAT` an array does not know: the BGRA order, in which its first channel is blue, and the sRGB curve. An
//! application that makes its textures itself finds the same conversions in [`TexelFormat::from_dxgi`], [`array_shape`]
//! and [`array_usage`]; the numbers of Direct3D's headers are types of this crate, which the `windows` crate's convert
//! to.
//!
//! # What this crate promises
//! * **Handles are owned.** Every export by NT handle is a new handle of the caller's, which child processes do not
//!   inherit. A KMT handle is a number that is valid as long as its resource.
//! * **Bad requests never reach the driver**: sizes of 0, formats, views and flags that no array has, ranges behind a
//!   heap, fences that would go back.
//! * **The dedicated flag is right.** Requests for committed resources and for those of Direct3D 11 have it, those for
//!   heaps do not.
//! * **Waits end typed.** A keyed mutex that ran out of time, or was abandoned, is an error, although Direct3D answers
//!   with a code of success; so is a fence whose device is lost.
//! * An error names the method, the `HRESULT`, the device and the values involved.
//!
//! # What the caller must do
//! * Have resources of Direct3D 12 in `D3D12_RESOURCE_STATE_COMMON` whenever the other API uses them, and make one side
//!   wait for the other.
//! * Keep what a name stands for open until it was imported, and a resource as long as its KMT handle is used.
//! * Use Direct3D 11's immediate context, and keyed mutexes, from one thread at a time: what uses them here is `unsafe`.
//! * Not use a device of several linked GPUs: CUDA imports from devices of one node.
//!
//! # Platforms
//! Windows 10 or later. Elsewhere the conversions are there, and nothing else.

#[cfg(windows)]
#[macro_use]
mod macros;

#[cfg(windows)]
mod adapter;
#[cfg(windows)]
pub mod d3d11;
#[cfg(windows)]
pub mod d3d12;
mod dimension;
#[cfg(windows)]
mod event;
#[cfg(windows)]
mod fence;
mod flags;
mod format;
#[cfg(windows)]
mod handle;
#[cfg(any(windows, test))]
mod hresult;
mod identity;
mod sharing;
mod texture;
#[cfg(any(windows, test))]
mod timeout;
#[cfg(windows)]
mod waiter;

pub use dimension::{SrvDimension, array_shape};
pub use flags::{BindFlags, MiscFlags, ResourceFlags, array_usage, array_usage_of_bindings};
pub use format::{ChannelOrder, ColorEncoding, DxgiFormat, TexelFormat};
pub use identity::luid_bytes;
pub use sharing::Sharing;
pub use texture::TextureSpec;
#[cfg(windows)]
pub use windows;
