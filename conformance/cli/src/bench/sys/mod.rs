//! The unsafe part of the measurements: raw driver calls, another binding, the backend layer, and host
//! memory that the GPU copies from. The public functions are safe:
//!
//! all enqueued work has completed before they return, so that no object is freed while in use.

mod backend;
mod cuda;
mod cuda_memory;
mod cudarc_binding;
mod staging;
#[cfg(feature = "wgpu")]
mod texel_kernels;
mod vulkan_buffers;

use std::time::{Duration, Instant};

pub(super) use backend::{Lane, backend_cycle};
pub(super) use cuda::{Answer, RawCuda, SemaphoreBatch};
pub(super) use cuda_memory::{NativeMemory, RawImport};
pub(super) use cudarc_binding::Cudarc;
pub(super) use staging::copy_from_staging;
#[cfg(feature = "wgpu")]
pub(super) use texel_kernels::TexelKernels;
pub(super) use vulkan_buffers::bound_buffers;

/// Durations of the steps of one import.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    pub(super) import: Duration,
    pub(super) map: Duration,
    /// Unmapping and ending the import, if they are two steps.
    pub(super) free_and_destroy: Option<(Duration, Duration)>,
    /// Both together.
    pub(super) release: Duration,
}

impl Steps {
    /// Durations between five moments: before, imported, mapped, unmapped, ended.
    pub(super) fn between([start, imported, mapped, freed, destroyed]: [Instant; 5]) -> Self {
        Self {
            import: imported - start,
            map: mapped - imported,
            free_and_destroy: Some((freed - mapped, destroyed - freed)),
            release: destroyed - mapped,
        }
    }
}
