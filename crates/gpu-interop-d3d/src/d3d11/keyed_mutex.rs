//! Keyed mutexes, which give one side at a time access to a shared resource.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_core::handle::ObjectName;
use gpu_interop_core::{Error, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport};
use windows::Win32::Graphics::Dxgi::IDXGIKeyedMutex;
use windows::core::Interface;

use super::resource::{ExportableResource, text};
use crate::hresult;
use crate::waiter::milliseconds;

/// The keyed mutex of an [`ExportableResource`], which it keeps alive.
///
/// An acquire with a key waits until the last release was with that key; a new mutex counts as released with key 0.
/// This side acquires and releases it on the host, which also orders the immediate context's commands: a release
/// follows the earlier ones. An importer's streams do the same with
/// [`WaitParams::Key`](gpu_interop_core::WaitParams::Key) and
/// [`SignalParams::Key`](gpu_interop_core::SignalParams::Key). Acquire and release use the immediate context, which is
/// not thread-safe, and are therefore `unsafe`.
#[derive(Debug, Clone)]
pub struct KeyedMutex {
    // Released before its resource.
    mutex: IDXGIKeyedMutex,
    resource: ExportableResource,
}

impl ExportableResource {
    /// The resource's keyed mutex.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the resource was created without
    /// one; `Unsupported` if this implementation of Direct3D lacks keyed mutexes.
    pub fn keyed_mutex(&self) -> Result<KeyedMutex> {
        if self.sharing().semaphore_handle_kind().is_none() {
            return Err(Error::invalid(
                "ExportableResource::keyed_mutex",
                "the resource was created without a keyed mutex; create it with a sharing mode that has one",
            )
            .with_context("sharing", text(self.sharing())));
        }
        let mutex: IDXGIKeyedMutex = self.query()?;
        Ok(KeyedMutex { mutex, resource: self.clone() })
    }
}

impl KeyedMutex {
    /// The mutex.
    #[must_use]
    pub fn as_raw(&self) -> &IDXGIKeyedMutex {
        &self.mutex
    }

    /// The protected resource.
    #[must_use]
    pub fn resource(&self) -> &ExportableResource {
        &self.resource
    }

    /// Blocks until the mutex is released with `key`, and acquires it. The timeout is rounded up to milliseconds;
    /// `None` is infinite. Calls `IDXGIKeyedMutex::AcquireSync`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout): nothing is acquired, and the call may be repeated.
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) with the code `WAIT_ABANDONED` if a device was
    /// destroyed while it had acquired the mutex: the resource may be partly written, and both must be created again.
    /// Otherwise the driver's error.
    ///
    /// # Safety
    /// No other thread uses the device's immediate context, or a keyed mutex of the device, during the call.
    pub unsafe fn acquire(&self, key: u64, timeout: Option<Duration>) -> Result<()> {
        let function = self.mutex.vtable().AcquireSync;
        // The method of the `windows` crate treats WAIT_TIMEOUT and WAIT_ABANDONED, which are not negative, as success.
        // SAFETY: the function is from the vtable of the mutex, a live object; the arguments are plain values. By the
        // caller's guarantee no other thread uses the immediate context.
        let result = unsafe { function(self.mutex.as_raw(), key, milliseconds(timeout)) };
        hresult::waited("IDXGIKeyedMutex::AcquireSync", result.0).map_err(|error| self.failed(error, key))
    }

    /// Releases the mutex for an acquire with `key`. Calls `IDXGIKeyedMutex::ReleaseSync`.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) if this device has not acquired the mutex.
    ///
    /// # Safety
    /// As [`acquire`](Self::acquire).
    pub unsafe fn release(&self, key: u64) -> Result<()> {
        let function = self.mutex.vtable().ReleaseSync;
        // SAFETY: as in `acquire`.
        let result = unsafe { function(self.mutex.as_raw(), key) };
        hresult::waited("IDXGIKeyedMutex::ReleaseSync", result.0).map_err(|error| self.failed(error, key))
    }

    /// Exports the mutex: a new NT handle of the resource, owned by the caller, or its KMT handle, a number valid as
    /// long as the resource. Calls `IDXGIResource1::CreateSharedHandle` or `IDXGIResource::GetSharedHandle`.
    ///
    /// # Errors
    /// As [`ExportableResource::export`].
    pub fn export(&self) -> Result<SemaphoreHandle> {
        if self.resource.sharing().is_nt() {
            return Ok(SemaphoreHandle::D3d11KeyedMutex(self.resource.nt_handle(None)?.into()));
        }
        Ok(SemaphoreHandle::D3d11KeyedMutexKmt(self.resource.kmt_handle()?))
    }

    /// Exports the mutex as an import request: handle and device identity. With a KMT handle, the request keeps the
    /// resource alive.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<SemaphoreImport> {
        let handle = self.export()?;
        let is_kmt = handle.kind() == SemaphoreHandleKind::D3d11KeyedMutexKmt;
        // SAFETY: Direct3D just shared the resource of this mutex as the handle, and the variant is that of a keyed
        // mutex. With a KMT handle, the request keeps the resource alive.
        let request = unsafe { self.request(handle) };
        Ok(if is_kmt { request.keeping(Arc::new(self.resource.clone())) } else { request })
    }

    /// Creates an import request with the name of the resource ([`ExportableResource::import_request_by_name`]), which
    /// is also the name of the mutex. Creates no handle: the handle of the resource's export must stay open until the
    /// mutex is imported.
    ///
    /// # Safety
    /// The resource was exported under this name, and a handle of that export stays open until the request is imported
    /// or dropped.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the resource is shared by KMT
    /// handle, which has no name.
    pub unsafe fn import_request_by_name(&self, name: &ObjectName) -> Result<SemaphoreImport> {
        self.resource.check_named("KeyedMutex::import_request_by_name")?;
        // SAFETY: the caller guarantees that the name is valid for the resource until the import.
        Ok(unsafe { self.request(SemaphoreHandle::D3d11KeyedMutex(name.clone().into())) })
    }

    /// # Safety
    /// The handle refers to this mutex until the request is imported or dropped.
    unsafe fn request(&self, handle: SemaphoreHandle) -> SemaphoreImport {
        // SAFETY: the caller guarantees that the handle is valid for this mutex; the exporting device is named.
        let request = unsafe { SemaphoreImport::new(handle) };
        request.exported_by(self.resource.interop().identity().clone())
    }

    fn failed(&self, error: Error, key: u64) -> Error {
        self.resource.interop().failed(error).with_context("key", key)
    }
}
