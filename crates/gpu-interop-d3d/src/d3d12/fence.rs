//! Exportable fences, also as the exporter's side of a [`Timeline`](gpu_interop_core::Timeline).

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{
    ExporterTimeline, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, TimelineWaiter,
};
use windows::Win32::Graphics::Direct3D12::{D3D12_FENCE_FLAG_SHARED, ID3D12CommandQueue, ID3D12Fence};

use super::interop::D3d12Interop;
use crate::fence::{Counter, Fence, check_value};
use crate::handle::{Checked, keep_handle};
use crate::waiter::Waiter;

/// An `ID3D12Fence` that can be exported. Clones are the same fence.
///
/// The greatest value, 2^64 - 1, means that the device is lost: waiting for the fence and reading its value are then
/// errors, and signals with this value are rejected.
#[derive(Debug, Clone)]
pub struct ExportableFence {
    interop: D3d12Interop,
    raw: ID3D12Fence,
    counter: Arc<Counter>,
}

impl ExportableFence {
    /// Creates a fence with the value `initial`. Calls `ID3D12Device::CreateFence` with `D3D12_FENCE_FLAG_SHARED`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for the greatest value; otherwise
    /// the driver's error.
    pub fn new(interop: &D3d12Interop, initial: u64) -> Result<Self> {
        const OPERATION: &str = "ID3D12Device::CreateFence";
        check_value("ExportableFence::new", initial)?;
        // SAFETY: the arguments are plain values.
        let raw: ID3D12Fence = unsafe { interop.device().CreateFence(initial, D3D12_FENCE_FLAG_SHARED) }
            .checked(OPERATION)
            .map_err(|error| interop.failed(error))?;
        Ok(Self::from_raw(interop, raw))
    }

    /// Wraps an existing fence of this device, created with `D3D12_FENCE_FLAG_SHARED` or opened from another process
    /// ([`D3d12Interop::open_fence`]). Makes no driver call.
    #[must_use]
    pub fn from_raw(interop: &D3d12Interop, raw: ID3D12Fence) -> Self {
        let counter = Counter::new(Fence::D3d12 { fence: raw.clone(), device: interop.device().clone() });
        Self { interop: interop.clone(), raw, counter: Arc::new(counter) }
    }

    /// Signals the fence from the host. Calls `ID3D12Fence::Signal`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) unless `value` is above the current
    /// one and below 2^64 - 1; otherwise as [`value`](Self::value).
    pub fn signal(&self, value: u64) -> Result<()> {
        // SAFETY: the fence is a live object, and the argument a plain value.
        let signal = || unsafe { self.raw.Signal(value) }.checked("ID3D12Fence::Signal");
        self.counter
            .check_signal("ExportableFence::signal", value)
            .and_then(|()| signal())
            .map_err(|error| self.interop.failed(error))
    }

    /// Enqueues a signal of `value` behind the queue's earlier work. Rests on
    /// `ID3D12CommandQueue::Signal`. Signals of one fence must be ordered and increase the value.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for 2^64 - 1; otherwise the
    /// driver's error.
    pub fn queue_signal(&self, queue: &ID3D12CommandQueue, value: u64) -> Result<()> {
        check_value("ExportableFence::queue_signal", value)?;
        // SAFETY: queue and fence are live objects.
        let signalled = unsafe { queue.Signal(&self.raw, value) };
        signalled.checked("ID3D12CommandQueue::Signal").map_err(|error| self.interop.failed(error))
    }

    /// Enqueues a wait for `value` before the queue's later work. Calls `ID3D12CommandQueue::Wait`.
    ///
    /// # Errors
    /// As [`queue_signal`](Self::queue_signal).
    pub fn queue_wait(&self, queue: &ID3D12CommandQueue, value: u64) -> Result<()> {
        check_value("ExportableFence::queue_wait", value)?;
        // SAFETY: queue and fence are live objects.
        let waits = unsafe { queue.Wait(&self.raw, value) };
        waits.checked("ID3D12CommandQueue::Wait").map_err(|error| self.interop.failed(error))
    }

    fn share(&self, name: Option<&ObjectName>) -> Result<NtHandle> {
        self.interop.share(&self.raw, name)
    }
}

nt_exports!(
    ExportableFence,
    "fence",
    "ID3D12Device::CreateSharedHandle",
    SemaphoreHandle::D3d12Fence,
    SemaphoreImport,
    "handle and device identity"
);

fence_methods!(
    ID3D12Fence,
    D3d12Fence,
    timeline {
        fn signal(&self, value: u64) -> Result<()> {
            Self::signal(self, value)
        }
    }
);
