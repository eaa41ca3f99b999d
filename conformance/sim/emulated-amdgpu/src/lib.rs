//! An emulated amdgpu kernel driver for AMD's unmodified HIP runtimes and Mesa's unmodified Vulkan driver RADV.
//!
//! `LD_PRELOAD` loads this library before libamdhip64, ROCR, the thunk, libdrm and RADV. It implements the kernel
//! interfaces that they use: `/dev/kfd`, the render nodes with their submissions and syncobjs, the topology below `/sys`,
//! buffer objects, events and queues. A thread per queue executes the packets; an interpreter executes the instructions
//! of kernels and of compute programs. The same file is a Vulkan layer, `VK_LAYER_gpu_interop_emulated_amdgpu`, which
//! sets the PCI address of a Vulkan device to that of an emulated GPU. [`settings`] lists the environment variables,
//! [`faults`] the injected faults, [`report`] the report at exit.
//!
//! | modules | topic |
//! |---|---|
//! | `interpose`, `sysfs` | functions of libc defined before libc's, and the files below `/sys` and `/dev/dri` |
//! | `kfd`, `drm` | calls of the kernel driver: ioctls of `/dev/kfd` and of the render nodes |
//! | `memory` | buffer objects, address spaces, and accesses by GPU addresses |
//! | `queue` | hardware queues with their AQL and SDMA packets, rings with their PM4 and SDMA packets |
//! | `sync` | fences, syncobjs and sync files, also between processes |
//! | `kernel` | kernels and compute programs |
//! | `abi` | structures and numbers of the kernel driver and of the packets |
//! | `vulkan` | the Vulkan layer |
//!
//! Limits: dma-bufs and syncobjs are memfds, and sync files are pipes. Submissions that share memory are not ordered by
//! the memory. Draws, caches, page tables below the granularity of a buffer, and timing are not emulated. A process that
//! opens no device of the driver is not affected.

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
