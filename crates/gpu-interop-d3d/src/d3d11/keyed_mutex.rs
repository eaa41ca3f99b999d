//! Keyed mutexes: whose turn a shared resource is.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_core::handle::ObjectName;
use gpu_interop_core::{Error, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport};
use windows::Win32::Graphics::Dxgi::IDXGIKeyedMutex;
use windows::core::Interface;

use super::resource::ExportableResource;
use crate::hresult;
use crate::timeout::milliseconds;

/// The keyed mutex of an [`ExportableResource`], which it keeps.
///
/// Whoever acquires it with a key waits until it was last released with that key; a new one is as if released with 0.
/// This side acquires and releases it on the host, which orders the immediate context's commands too: a release comes
/// after those before it. An importer's streams do the same with [`WaitParams::Key`](gpu_interop_core::WaitParams::Key)
/// and [`SignalParams::Key`](gpu_interop_core::SignalParams::Key).
/// Both use the immediate context, which is not made for several threads: they are `unsafe`.
#[derive(Debug, Clone)]
pub struct KeyedMutex {
    // Let go before the resource that it is a part of.
    mutex: IDXGIKeyedMutex,
    resource: ExportableResource,
}

impl KeyedMutex {
    pub(super) fn new(resource: ExportableResource, mutex: IDXGIKeyedMutex) -> Self {
        Self { mutex, resource }
    }

    /// The mutex.
    #[must_use]
    pub fn as_raw(&self) -> &IDXGIKeyedMutex {
        &self.mutex
    }

    /// The resource that it guards.
    #[must_use]
    pub fn resource(&self) -> &ExportableResource {
        &self.resource
    }

    /// Blocks until the mutex was released with `key`, and acquires it. The timeout is rounded up to milliseconds;
    /// `None` waits without end. Rests on `IDXGIKeyedMutex::AcquireSync`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout): nothing is acquired, and the call may be repeated.
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) with the code `WAIT_ABANDONED` if a device that had
    /// acquired the mutex is gone: the resource may be half written, and both must be created anew; or with what else
    /// the driver answers.
    ///
    /// # Safety
    /// No other thread uses the device's immediate context, or a keyed mutex of the device, during the call.
    pub unsafe fn acquire(&self, key: u64, timeout: Option<Duration>) -> Result<()> {
        let function = self.mutex.vtable().AcquireSync;
        // The crate's own method takes WAIT_TIMEOUT and WAIT_ABANDONED, which are not negative, for success.
        // SAFETY: the function is the mutex's own, which is a live object; the arguments are plain values. The immediate
        // context is this thread's by the caller's promise.
        let answer = unsafe { function(self.mutex.as_raw(), key, milliseconds(timeout)) };
        hresult::waited("IDXGIKeyedMutex::AcquireSync", answer.0).map_err(|error| self.failed(error, key))
    }

    /// Releases the mutex to whoever acquires it with `key`. Rests on `IDXGIKeyedMutex::ReleaseSync`.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) with what the driver answers if this device has not
    /// acquired it.
    ///
    /// # Safety
    /// As [`acquire`](Self::acquire).
    pub unsafe fn release(&self, key: u64) -> Result<()> {
        let function = self.mutex.vtable().ReleaseSync;
        // SAFETY: as in `acquire`.
        let answer = unsafe { function(self.mutex.as_raw(), key) };
        hresult::waited("IDXGIKeyedMutex::ReleaseSync", answer.0).map_err(|error| self.failed(error, key))
    }

    /// Exports the mutex: the resource's NT handle, a new one that is owned by the caller, or its KMT handle, a number
    /// that is valid as long as the resource. Rests on `IDXGIResource1::CreateSharedHandle` or
    /// `IDXGIResource::GetSharedHandle`.
    ///
    /// # Errors
    /// As [`ExportableResource::export`].
    pub fn export(&self) -> Result<SemaphoreHandle> {
        if self.resource.sharing().is_nt() {
            return Ok(SemaphoreHandle::D3d11KeyedMutex(self.resource.nt_handle(None)?.into()));
        }
        Ok(SemaphoreHandle::D3d11KeyedMutexKmt(self.resource.kmt_handle()?))
    }

    /// Exports the mutex as a complete request for an importer: handle and identity. With a KMT handle, the request keeps the
    /// resource until it is gone.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<SemaphoreImport> {
        let handle = self.export()?;
        let is_kmt = handle.kind() == SemaphoreHandleKind::D3d11KeyedMutexKmt;
        // SAFETY: Direct3D shared the resource of this mutex just now as the handle, and the variant is that of a keyed mutex.
        // With a KMT handle, the request keeps the resource.
        let request = unsafe { self.request(handle) };
        Ok(if is_kmt { request.keeping(Arc::new(self.resource.clone())) } else { request })
    }

    /// A request that has the name which the resource was exported under
    /// ([`ExportableResource::import_request_by_name`]): resource and mutex have one name. Creates no handle: the one
    /// that the resource's export gave must stay open until the mutex was imported.
    ///
    /// # Safety
    /// The resource was exported under this name, and a handle from that is open until the request was imported or is gone.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the resource is shared by KMT
    /// handle, which has no name.
    pub unsafe fn import_request_by_name(&self, name: &ObjectName) -> Result<SemaphoreImport> {
        self.resource.check_named("KeyedMutex::import_request_by_name")?;
        // SAFETY: the caller promises that the name is the resource's, until the import.
        Ok(unsafe { self.request(SemaphoreHandle::D3d11KeyedMutex(name.clone().into())) })
    }

    /// # Safety
    /// The handle is of this mutex until it was imported, or the request is gone.
    unsafe fn request(&self, handle: SemaphoreHandle) -> SemaphoreImport {
        // SAFETY: the caller promises it, and the device that exported it is named.
        let request = unsafe { SemaphoreImport::new(handle) };
        request.exported_by(self.resource.interop().identity().clone())
    }

    fn failed(&self, error: Error, key: u64) -> Error {
        self.resource.interop().failed(error).with_context("key", key)
    }
}
