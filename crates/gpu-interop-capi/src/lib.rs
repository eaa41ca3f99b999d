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
mod event;
mod exported_semaphore;
mod exporter;
mod handle;
mod identity;
mod import_memory;
mod import_semaphore;
mod kernel;
mod last_error;
mod linear_memory;
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
mod word;

pub use array::*;
pub use array_copy::*;
pub use array_desc::*;
pub use backend::*;
pub use buffer::*;
pub use callback_timeline::gpi_timeline_functions;
pub use capability::*;
pub use constants::*;
pub use device::*;
pub use event::*;
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
pub use word::*;
