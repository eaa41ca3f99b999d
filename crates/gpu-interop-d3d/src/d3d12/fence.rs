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
use crate::handle::{Checked, keep};
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

    /// The fence.
    #[must_use]
    pub fn as_raw(&self) -> &ID3D12Fence {
        &self.raw
    }

    pub(crate) fn fence(&self) -> &Fence {
        self.counter.fence()
    }

    /// The present value. Rests on `ID3D12Fence::GetCompletedValue`.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) with the reason if the device is lost.
    pub fn value(&self) -> Result<u64> {
        self.fence().value().map_err(|error| self.interop.failed(error))
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

    /// Blocks until the value is at least `value`. Rests on `ID3D12Fence::SetEventOnCompletion`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`; the wait may be repeated.
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for 2^64 - 1; otherwise as
    /// [`value`](Self::value).
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.counter.wait(value, timeout).map_err(|error| self.interop.failed(error))
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

    /// Exports the fence. Every call gives a new handle, owned by the caller, that keeps the fence. Rests on
    /// `ID3D12Device::CreateSharedHandle`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if this implementation of Direct3D shares
    /// nothing; otherwise what the driver answers. No handle is left then.
    pub fn export(&self) -> Result<SemaphoreHandle> {
        Ok(SemaphoreHandle::D3d12Fence(self.interop.share(&self.raw, None)?.into()))
    }

    /// Exports the fence as a complete request for an importer: handle and identity.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<SemaphoreImport> {
        Ok(self.request(self.export()?))
    }

    /// Exports the fence under a name, and a request that has the name instead of the handle. The name works in this
    /// and other processes of the session until the returned handle, and all others to the object, are closed; the request
    /// keeps one until it is gone.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the name is taken or longer than
    /// 260 UTF-16 code units; otherwise as [`export`](Self::export).
    pub fn import_request_by_name(&self, name: &ObjectName) -> Result<(NtHandle, SemaphoreImport)> {
        let handle = self.interop.share(&self.raw, Some(name))?;
        let request = self.request(SemaphoreHandle::D3d12Fence(name.clone().into()));
        let request = keep(&handle, request, SemaphoreImport::keeping).map_err(|error| self.interop.failed(error))?;
        Ok((handle, request))
    }

    /// `handle` is of this fence: its callers have just shared it.
    fn request(&self, handle: SemaphoreHandle) -> SemaphoreImport {
        // SAFETY: Direct3D shared this fence just before as the handle, or by the name that is in it, of which the request is
        // given a handle to keep. The variant is that of such a fence. The device that exported it is named.
        let request = unsafe { SemaphoreImport::new(handle) };
        request.exported_by(self.interop.identity().clone())
    }
}

impl ExporterTimeline for ExportableFence {
    fn value(&self) -> Result<u64> {
        Self::value(self)
    }

    fn signal(&self, value: u64) -> Result<()> {
        Self::signal(self, value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        Self::wait(self, value, timeout)
    }

    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        Some(SemaphoreHandleKind::D3d12Fence)
    }

    fn export(&self) -> Result<SemaphoreImport> {
        self.import_request()
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Waiter::new()?))
    }
}
