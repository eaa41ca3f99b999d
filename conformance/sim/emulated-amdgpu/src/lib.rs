//! An emulated amdgpu kernel driver for AMD's unmodified user-space runtime.
//!
//! `LD_PRELOAD` loads this library before libamdhip64, ROCR, the thunk and libdrm. It implements the kernel interfaces
//! that they use: `/dev/kfd`, the render nodes, the topology below `/sys`, buffer objects, events and queues. A thread
//! per queue executes the packets of copies, fills and signals; the runtime's own kernels are executed by name. The
//! same file is a Vulkan layer, `VK_LAYER_gpu_interop_emulated_amdgpu`, which sets the PCI address of a Vulkan device
//! to that of an emulated GPU. [`settings`] lists the environment variables, [`faults`] the injected faults, [`report`]
//! the report at exit.
//!
//! | modules | topic |
//! |---|---|
//! | `interpose`, `sysfs` | functions of libc defined before libc's, and the files below `/sys` |
//! | `kfd`, `drm` | calls of the kernel driver: ioctls of `/dev/kfd` and of the render nodes |
//! | `memory` | buffer objects, address spaces, and accesses by GPU addresses |
//! | `queue` | hardware queues, and their AQL and SDMA packets |
//! | `kernel` | kernels, executed by name |
//! | `abi` | structures and numbers of the kernel driver and of the packets |
//! | `vulkan` | the Vulkan layer |
//!
//! Limits: dma-bufs are memfds. Caches, page tables below the granularity of a buffer, timing and the instruction set
//! are not emulated. A process that opens no device of the driver is not affected.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod abi;
mod drm;
mod emulation;
pub mod faults;
mod gpu;
mod interpose;
mod kernel;
mod kfd;
mod memory;
mod queue;
pub mod report;
pub mod settings;
mod sync;
mod sysfs;
mod vulkan;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, ignoring poison: a panic does not invalidate the data of the emulation's locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
