//! The Direct3D side of gpu-interop: sharing heaps, resources, fences and keyed mutexes of the application's own
//! devices.
//!
//! An application that renders or computes with Direct3D creates a `d3d12::D3d12Interop` or `d3d11::D3d11Interop` from
//! its device, creates shared objects with it, and passes their exports to an importer: a device of `gpu-interop` or
//! another process.
//!
//! | | Direct3D 12 | Direct3D 11 |
//! |---|---|---|
//! | memory | `ExportableResource` (committed buffers and textures), `ExportableHeap` with placed resources | `ExportableResource` (buffers and textures), by NT or KMT handle |
//! | synchronisation | `ExportableFence` | `ExportableFence`, `KeyedMutex` |
//! | timelines | `ExportableFence` is an [`ExporterTimeline`](gpu_interop_core::ExporterTimeline) | the same, natively only: the host cannot signal it |
//!
//! # Textures
//! A [`TextureSpec`] describes a texture. The memory layout of its texels is private to the driver; an importer imports
//! the memory and maps it with the `array_desc` of the resource. [`TexelFormat`] has the array format of a
//! `DXGI_FORMAT`, and the two properties that array formats lack: the channel order (with BGRA, the first channel is
//! blue) and the sRGB encoding. Applications that create their textures themselves use the same conversions:
//! [`TexelFormat::from_dxgi`], [`array_shape`] and [`array_usage`]. The types of this crate have the numbers of
//! Direct3D's headers; the types of the `windows` crate convert to them.
//!
//! # Guarantees
//! * **Handles are owned.** Every export by NT handle returns a new handle, owned by the caller and not inherited by
//!   child processes. A KMT handle is a number, valid as long as its resource.
//! * **Invalid requests never reach the driver**: sizes of 0, formats, views and flags that arrays lack, ranges past
//!   the end of a heap, fence values that do not increase.
//! * **The dedicated flag is correct.** It is set in requests for committed resources and Direct3D 11 resources, not
//!   for heaps.
//! * **Failed waits are typed errors.** A timeout of a keyed mutex and an abandoned keyed mutex are errors, although
//!   Direct3D returns a success code; so is a fence of a lost device.
//! * **Errors name** the method, the `HRESULT`, the device and the values involved.
//!
//! # Requirements for the caller
//! * Direct3D 12 resources are in `D3D12_RESOURCE_STATE_COMMON` whenever the other API uses them, and one side waits
//!   for the other.
//! * A handle to a named object stays open until the import by name, and a resource lives as long as its KMT handle is
//!   used.
//! * Direct3D 11's immediate context and keyed mutexes are used by one thread at a time; methods that use them are
//!   `unsafe`.
//! * The device has one node: CUDA does not import from devices of several linked GPUs.
//!
//! # Platforms
//! Windows 10 or later. On other systems only the conversions are available.

#![doc(html_root_url = "../")]

#[cfg(windows)]
mod adapter;
#[cfg(windows)]
#[macro_use]
mod macros;

#[cfg(windows)]
pub mod d3d11;
#[cfg(windows)]
pub mod d3d12;
mod dimension;
#[cfg(windows)]
mod fence;
mod flags;
mod format;
#[cfg(windows)]
mod handle;
#[cfg(any(windows, test))]
mod hresult;
mod identity;
mod texture;
mod video;
#[cfg(windows)]
mod waiter;

pub use dimension::{SrvDimension, array_shape};
pub use flags::Sharing;
pub use flags::{BindFlags, MiscFlags, ResourceFlags, array_usage, array_usage_of_bindings};
pub use format::{ChannelOrder, ColorEncoding, DxgiFormat, TexelFormat};
pub use identity::luid_bytes;
pub use texture::TextureSpec;
pub use video::VideoTextureSpec;
#[cfg(windows)]
pub use windows;
