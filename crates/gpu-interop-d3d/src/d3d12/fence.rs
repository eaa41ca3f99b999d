//! Fences, their export, and fences as the exporter's side of a [`Timeline`](gpu_interop_core::Timeline).

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
/// Its greatest value, 2^64 - 1, is what a fence answers once its device is lost: waiting and asking for the value is
/// an error then, and no fence is signalled with it.
#[derive(Debug, Clone)]
pub struct ExportableFence {
    interop: D3d12Interop,
    raw: ID3D12Fence,
    counter: Arc<Counter>,
}

impl ExportableFence {
    /// A fence at `initial`. Rests on `ID3D12Device::CreateFence` with `D3D12_FENCE_FLAG_SHARED`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for the greatest value; otherwise
    /// what the driver answers.
    pub fn new(interop: &D3d12Interop, initial: u64) -> Result<Self> {
        const OPERATION: &str = "ID3D12Device::CreateFence";
        check_value("ExportableFence::new", initial)?;
        // SAFETY: the arguments are plain values.
        let raw: ID3D12Fence = unsafe { interop.device().CreateFence(initial, D3D12_FENCE_FLAG_SHARED) }
            .checked(OPERATION)
            .map_err(|error| interop.failed(error))?;
        Ok(Self::from_raw(interop, raw))
    }

    /// A fence of this device that the application has already: created with `D3D12_FENCE_FLAG_SHARED`, or another
    /// process's that it opened ([`D3d12Interop::open_fence`]). Calls nothing.
    #[must_use]
    pub fn from_raw(interop: &D3d12Interop, raw: ID3D12Fence) -> Self {
        let counter = Counter::new(Fence::D3d12 { fence: raw.clone(), device: interop.device().clone() });
        Self { interop: interop.clone(), raw, counter: Arc::new(counter) }
    }

    /// Raises the value from the host. Rests on `ID3D12Fence::Signal`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) unless `value` is above the present
    /// one and below 2^64 - 1; otherwise as [`value`](Self::value).
    pub fn signal(&self, value: u64) -> Result<()> {
        // SAFETY: the fence is a live object, and the argument a plain value.
        let signal = || unsafe { self.raw.Signal(value) }.checked("ID3D12Fence::Signal");
        self.counter
            .check_signal("ExportableFence::signal", value)
            .and_then(|()| signal())
            .map_err(|error| self.interop.failed(error))
    }

    /// Has the queue raise the value once it has run what was submitted to it so far. Rests on
    /// `ID3D12CommandQueue::Signal`. Signals of one fence must be ordered, and go up.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for 2^64 - 1; otherwise what the
    /// driver answers.
    pub fn queue_signal(&self, queue: &ID3D12CommandQueue, value: u64) -> Result<()> {
        check_value("ExportableFence::queue_signal", value)?;
        // SAFETY: queue and fence are live objects.
        let signalled = unsafe { queue.Signal(&self.raw, value) };
        signalled.checked("ID3D12CommandQueue::Signal").map_err(|error| self.interop.failed(error))
    }

    /// Has the queue wait for the value before it runs what is submitted next. Rests on `ID3D12CommandQueue::Wait`.
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
