//! Exportable fences, also as the exporter's side of a [`Timeline`](gpu_interop_core::Timeline).

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{
    Error, ExporterTimeline, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, TimelineWaiter,
};
use windows::Win32::Foundation::GENERIC_ALL;
use windows::Win32::Graphics::Direct3D11::{
    D3D11_FENCE_FLAG_SHARED, ID3D11Device5, ID3D11DeviceContext, ID3D11DeviceContext4, ID3D11Fence,
};
use windows::core::Interface;

use super::interop::D3d11Interop;
use crate::fence::{Counter, Fence, check_value};
use crate::handle::{Checked, created, exported, keep_handle, with_name};
use crate::waiter::Waiter;

/// An `ID3D11Fence` that can be exported. Clones are the same fence.
///
/// The greatest value, 2^64 - 1, means that the device is lost: waiting for the fence and reading its value are then
/// errors, and signals with this value are rejected. In Direct3D 11 only commands of the
/// context signal a fence; the host cannot.
#[derive(Debug, Clone)]
pub struct ExportableFence {
    interop: D3d11Interop,
    raw: ID3D11Fence,
    counter: Arc<Counter>,
}

impl ExportableFence {
    /// Creates a fence with the value `initial`. Calls `ID3D11Device5::CreateFence` with `D3D11_FENCE_FLAG_SHARED`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device lacks fences (before Windows
    /// 10, version 1703); `InvalidArgument` for the greatest value; otherwise the driver's error.
    pub fn new(interop: &D3d11Interop, initial: u64) -> Result<Self> {
        const OPERATION: &str = "ID3D11Device5::CreateFence";
        check_value("ExportableFence::new", initial)?;
        let device: ID3D11Device5 = interop.query()?;
        let mut raw: Option<ID3D11Fence> = None;
        // SAFETY: the arguments are plain values; the requested interface is the type of `raw`.
        let result = unsafe { device.CreateFence(initial, D3D11_FENCE_FLAG_SHARED, &raw mut raw) };
        let raw = created(OPERATION, result, raw).map_err(|error| interop.failed(error))?;
        let counter = Counter::new(Fence::D3d11 { fence: raw.clone(), device: interop.device().clone() });
        Ok(Self { interop: interop.clone(), raw, counter: Arc::new(counter) })
    }

    /// Enqueues a signal of `value` behind the context's earlier commands. Calls `ID3D11DeviceContext4::Signal`. Flush
    /// the context before the host waits for the value. Signals of one fence must be ordered and increase the value.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for 2^64 - 1; otherwise the
    /// driver's error.
    ///
    /// # Safety
    /// `context` is the immediate context of the fence's device. No other thread uses it during the call, unless the
    /// application enabled `ID3D11Multithread::SetMultithreadProtected`.
    pub unsafe fn context_signal(&self, context: &ID3D11DeviceContext, value: u64) -> Result<()> {
        let context = self.context("ExportableFence::context_signal", context, value)?;
        // SAFETY: context and fence are live objects of one device; by the caller's guarantee no other thread uses the
        // context.
        let signalled = unsafe { context.Signal(&self.raw, value) };
        signalled.checked("ID3D11DeviceContext4::Signal").map_err(|error| self.interop.failed(error))
    }

    /// Enqueues a wait for `value` before the context's later commands. Calls `ID3D11DeviceContext4::Wait`.
    ///
    /// # Errors
    /// As [`context_signal`](Self::context_signal).
    ///
    /// # Safety
    /// As [`context_signal`](Self::context_signal).
    pub unsafe fn context_wait(&self, context: &ID3D11DeviceContext, value: u64) -> Result<()> {
        let context = self.context("ExportableFence::context_wait", context, value)?;
        // SAFETY: as in `context_signal`.
        let waits = unsafe { context.Wait(&self.raw, value) };
        waits.checked("ID3D11DeviceContext4::Wait").map_err(|error| self.interop.failed(error))
    }

    fn context(
        &self,
        operation: &'static str,
        context: &ID3D11DeviceContext,
        value: u64,
    ) -> Result<ID3D11DeviceContext4> {
        check_value(operation, value)?;
        context.cast().checked("ID3D11DeviceContext::QueryInterface").map_err(|error| self.interop.failed(error))
    }

    fn share(&self, name: Option<&ObjectName>) -> Result<NtHandle> {
        const OPERATION: &str = "ID3D11Fence::CreateSharedHandle";
        with_name(OPERATION, name, |name| {
            // SAFETY: the fence is a live object, the name ends with NUL and outlives the call.
            let result = unsafe { self.raw.CreateSharedHandle(None, GENERIC_ALL.0, name) };
            // SAFETY: the method creates a new handle for its caller.
            unsafe { exported(OPERATION, result) }
        })
        .map_err(|error| self.interop.failed(error))
    }
}

nt_exports!(
    ExportableFence,
    "fence",
    "ID3D11Fence::CreateSharedHandle",
    SemaphoreHandle::D3d11Fence,
    SemaphoreImport,
    "handle and device identity"
);

fence_methods!(
    ID3D11Fence,
    D3d11Fence,
    /// The timeline of compute drivers that import the fence. Over a bridge, streams can wait for the context, but
    /// their signals fail the timeline, because the host cannot signal the fence; use a Direct3D 12 fence there.
    timeline {
        fn signal(&self, _value: u64) -> Result<()> {
            Err(self.interop.failed(Error::unsupported(
                "ExporterTimeline::signal",
                "the host cannot signal a Direct3D 11 fence; signal it by a command of the context, or use a Direct3D \
                 12 fence",
            )))
        }
    }
);
