//! The application's device.

use std::sync::Arc;

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{DeviceIdentity, Error, Result};
use windows::Win32::Graphics::Direct3D11::{
    D3D11_CREATE_DEVICE_SINGLETHREADED, ID3D11Device, ID3D11Device1, ID3D11Device5, ID3D11Fence, ID3D11Resource,
};
use windows::Win32::Graphics::Dxgi::{DXGI_SHARED_RESOURCE_READ, DXGI_SHARED_RESOURCE_WRITE, IDXGIDevice};
use windows::core::Interface;

use crate::adapter;
use crate::handle::{Checked, created, lent, with_name};
use crate::identity::check_importer;

/// Access of other users to a shared resource.
pub(super) const ACCESS: u32 = DXGI_SHARED_RESOURCE_READ.0 | DXGI_SHARED_RESOURCE_WRITE.0;

/// The application's `ID3D11Device`, whose objects are shared. Clones are the same device.
///
/// Methods of the device may be called from any thread. Its immediate context and keyed mutexes are used by one thread
/// at a time; methods of this crate that use either are `unsafe`.
#[derive(Debug, Clone)]
pub struct D3d11Interop {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: ID3D11Device,
    identity: DeviceIdentity,
}

impl D3d11Interop {
    /// Takes a reference to the device and identifies it by name and LUID. Direct3D 11 does not report linked
    /// GPUs: its shared objects are on the first node. Calls `IDXGIDevice::GetAdapter` and `IDXGIAdapter1::GetDesc1`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the device was created with
    /// `D3D11_CREATE_DEVICE_SINGLETHREADED`, because this type may be sent to other threads. The driver's error if the
    /// device has no adapter.
    pub fn new(device: &ID3D11Device) -> Result<Self> {
        const OPERATION: &str = "IDXGIDevice::GetAdapter";
        // SAFETY: the device is a live object; the call has no arguments.
        let flags = unsafe { device.GetCreationFlags() };
        if flags & D3D11_CREATE_DEVICE_SINGLETHREADED.0 != 0 {
            return Err(Error::invalid(
                "D3d11Interop::new",
                "only one thread may use the device; create it without D3D11_CREATE_DEVICE_SINGLETHREADED",
            ));
        }
        let dxgi: IDXGIDevice = device.cast().checked("ID3D11Device::QueryInterface")?;
        // SAFETY: the device is a live object; the call has no arguments.
        let adapter = unsafe { dxgi.GetAdapter() }.checked(OPERATION)?;
        let identity = adapter::describe(&adapter).identity(1);
        Ok(Self { inner: Arc::new(Inner { device: device.clone(), identity }) })
    }

    /// As [`new`](Self::new), and rejects an importer that is another device, or not the first node of linked GPUs.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMismatch`](gpu_interop_core::ErrorKind::DeviceMismatch) with both identities; otherwise as
    /// [`new`](Self::new).
    pub fn for_importer(device: &ID3D11Device, importer: &DeviceIdentity) -> Result<Self> {
        let interop = Self::new(device)?;
        check_importer("D3d11Interop::for_importer", interop.identity(), importer)?;
        Ok(interop)
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &ID3D11Device {
        &self.inner.device
    }

    /// The identity of the device, to find the matching importer.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        &self.inner.identity
    }

    /// Opens the resource of an NT handle, which the caller still owns. Calls `ID3D11Device1::OpenSharedResource1`.
    ///
    /// # Errors
    /// The driver's error, also for a handle to another kind of object.
    pub fn open_resource(&self, handle: &NtHandle) -> Result<ID3D11Resource> {
        let device: ID3D11Device1 = self.query()?;
        // SAFETY: the handle is open during the call.
        unsafe { device.OpenSharedResource1(lent(handle)) }
            .checked("ID3D11Device1::OpenSharedResource1")
            .map_err(|error| self.failed(error))
    }

    /// Opens the resource that was shared under `name`, which is valid as long as a handle to it is open. Rests on
    /// `ID3D11Device1::OpenSharedResourceByName`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if no object has the name, or it is
    /// longer than 260 UTF-16 code units; otherwise the driver's error.
    pub fn open_resource_by_name(&self, name: &ObjectName) -> Result<ID3D11Resource> {
        const OPERATION: &str = "ID3D11Device1::OpenSharedResourceByName";
        let device: ID3D11Device1 = self.query()?;
        // SAFETY: the name ends with NUL and outlives the call.
        let open = |name| unsafe { device.OpenSharedResourceByName(name, ACCESS) }.checked(OPERATION);
        with_name(OPERATION, Some(name), open).map_err(|error| self.failed(error))
    }

    /// Opens the fence of a handle, which the caller still owns. Calls `ID3D11Device5::OpenSharedFence`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device lacks fences; otherwise the
    /// driver's error, also for a handle to another kind of object.
    pub fn open_fence(&self, handle: &NtHandle) -> Result<ID3D11Fence> {
        let device: ID3D11Device5 = self.query()?;
        let mut fence = None;
        // SAFETY: the handle is open during the call, and the requested interface is the type of `fence`.
        let result = unsafe { device.OpenSharedFence(lent(handle), &raw mut fence) };
        created("ID3D11Device5::OpenSharedFence", result, fence).map_err(|error| self.failed(error))
    }

    /// A newer interface of the device.
    pub(super) fn query<T: Interface>(&self) -> Result<T> {
        self.device().cast().checked("ID3D11Device::QueryInterface").map_err(|error| self.failed(error))
    }

    pub(super) fn failed(&self, error: Error) -> Error {
        error.with_device(self.identity())
    }
}
