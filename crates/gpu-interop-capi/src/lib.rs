//! C interface of gpu-interop: memory and semaphores of Vulkan, Direct3D and NvSci in CUDA, HIP or the CPU.
//!
//! The functions are those of `include/gpu_interop.h`, which is generated from this source. They are thin: each checks its
//! pointers and handles, calls one method of [`gpu_interop`], and stores the error of a failure for the calling thread. The
//! README of this crate states the rules of ownership and ordering.
//!
//! # Guarantees
//! * A handle is the number of an object in a table, not an address. A null handle, a freed one, one of another type and an
//!   arbitrary number are `GPI_ERROR_INVALID_ARGUMENT`.
//! * A null or misaligned pointer is `GPI_ERROR_INVALID_ARGUMENT`.
//! * A failed function has changed nothing: its results are not written, and handles of the operating system still belong
//!   to the caller.
//! * No panic leaves a function: it is `GPI_ERROR_INTERNAL`.
//!
//! # Requirements
//! Pointers that are not null must point to as many bytes as documented. The functions are `unsafe` in Rust for that reason;
//! applications in Rust use `gpu-interop` itself.
//!
//! # Contracts of unsafe calls
//! Every `unsafe` function of the library that this crate calls, with what enforces its contract: checks of this crate or of
//! the library before the driver is called, and the requirement in the header ("Requires") that passes the rest on.
//! `tests/contracts.rs` compares the first column with the sources.
//!
//! | call | checked | required of the caller |
//! |---|---|---|
//! | `Device::check_raw_stream`, `Device::stream_from_raw_with_owner` | `gpi_stream_wrap`: not the per-thread default stream, no number of a default stream on the host, no capture at this time | `gpi_stream_wrap`: a stream of the device, live until `release`, no later capture |
//! | `Device::borrow_memory` | the library: address and size | `gpi_device_wrap_memory`: accessible to streams, allocated until `release`, accesses ordered |
//! | `NvSciSyncAttrList::from_raw` | not null, a known use | `gpi_device_fill_nvscisync_attributes`: an attribute list |
//! | `MemoryHandle::opaque_from_raw_fd`, `NtHandle::from_raw`, `NvSciBufObject::from_raw`, `NvSciSyncObject::from_raw` | `os_handle.rs`: the descriptor is open, the handle is not null; a failed import leaves it with the caller (`description.rs`) | `gpi_device_import_memory`, `gpi_device_import_semaphore`: the caller's own, which nothing else closes |
//! | `MemoryImport::new`, `MemoryImport::dedicated`, `MemoryImport::native`, `MemoryImport::of_image`, `MemoryImport::trusted_peer`, `SemaphoreImport::new` | the library: kind, size, the exporter's identity if it is set | `gpi_device_import_memory`, `gpi_device_import_semaphore`: a true description |
//! | `BinaryImage::new` | `gpi_module_load`: not empty | `gpi_module_load`: complete and well-formed |
//! | `Stream::launch` | the library: device of kernel and buffers, a launch with threads; `by_value.rs`: size and alignment of structures | `gpi_stream_launch`: arguments match the parameters, memory behind addresses is valid |
//! | `Stream::read_async`, `Stream::write_async` | `transfer.rs`: host memory is not null; the library: the range and its device | `gpi_stream_read_async`, `gpi_stream_write_async`: host memory of that size, unused until the copy has completed |
//! | `NvSciFence::from_raw` | not null | `gpi_stream_signal`, `gpi_stream_wait`: a valid fence |
//! | `vulkan::device_identity` | `gpi_vulkan_device`: handles are not null | `gpi_vulkan_get_physical_device_identity`: handles belong together, live |
//! | `VulkanInterop::with_owner` | handles are not null; the library: version and extensions | `gpi_vulkan_wrap`: handles belong together, live until `release` |
//! | `VulkanInterop::export_memory`, `VulkanInterop::export_semaphore` | a known kind; the library: not null, the device exports it | `gpi_vulkan_export_memory`, `gpi_vulkan_export_semaphore`: live, allocated or created for export, as described |
//! | `VulkanInterop::record_buffer_release`, `VulkanInterop::record_buffer_acquire`, `VulkanInterop::record_image_release`, `VulkanInterop::record_image_acquire`, `OwnedImage::record_initialize` | handles are not null; the library: the transfer and the layout | `gpi_vulkan_record_*`: a recording command buffer of this device, ownership, no other thread |
//! | `OwnedSemaphore::timeline_from_raw`, `ExportableSemaphore::timeline_from_raw` | the library: not null, the device has timelines | `gpi_exported_semaphore_wrap_vulkan`: a timeline of this device, live until `release`, raised in order |
#![allow(non_camel_case_types, reason = "the names of C")]
#![allow(clippy::missing_safety_doc, reason = "stated once, above; each function documents what exceeds it")]
#![allow(clippy::missing_errors_doc, reason = "the status of each function is documented for C")]

mod array;
mod array_copy;
mod array_desc;
mod backend;
mod buffer;
mod by_value;
mod call;
mod callback_timeline;
mod capability;
mod constants;
mod description;
mod device;
mod exported_semaphore;
mod exporter;
mod handle;
mod identity;
mod import_memory;
mod import_semaphore;
mod kernel;
mod last_error;
mod log;
mod memory;
mod names;
mod nv_sci;
mod object;
mod os_handle;
mod pointer;
mod release;
mod semaphore;
mod status;
mod stream;
mod text;
mod timeline;
mod transfer;
mod vulkan;

pub use array::*;
pub use array_copy::*;
pub use array_desc::*;
pub use backend::*;
pub use buffer::*;
pub use callback_timeline::gpi_timeline_functions;
pub use capability::*;
pub use constants::*;
pub use device::*;
pub use exported_semaphore::*;
pub use handle::*;
pub use identity::*;
pub use import_memory::*;
pub use import_semaphore::*;
pub use kernel::*;
pub use last_error::*;
pub use log::*;
pub use memory::*;
pub use nv_sci::*;
pub use release::gpi_release_function;
pub use semaphore::*;
pub use status::*;
pub use stream::*;
pub use timeline::*;
pub use transfer::*;
pub use vulkan::*;
