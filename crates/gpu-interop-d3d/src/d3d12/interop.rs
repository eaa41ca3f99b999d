//! The application's device.

use std::sync::Arc;

use gpu_interop_core::handle::{NtHandle, ObjectName};
use gpu_interop_core::{DeviceIdentity, Error, Result};
use windows::Win32::Foundation::GENERIC_ALL;
use windows::Win32::Graphics::Direct3D12::{
    D3D12_HEAP_PROPERTIES, D3D12_HEAP_TYPE_DEFAULT, D3D12_RESOURCE_ALLOCATION_INFO, D3D12_RESOURCE_DESC, ID3D12Device,
    ID3D12DeviceChild, ID3D12Fence, ID3D12Heap, ID3D12Resource,
};
use windows::core::{Interface, Param};

use crate::adapter;
use crate::handle::{created, exported, lent, with_name};
use crate::identity::{check_importer, node_mask};

/// The application's `ID3D12Device`, whose objects are shared. Clones are the same device.
#[derive(Debug, Clone)]
pub struct D3d12Interop {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: ID3D12Device,
    identity: DeviceIdentity,
    node_mask: u32,
}

impl D3d12Interop {
    /// Takes a reference to the device and identifies it: LUID and node mask, and its name if known to DXGI.
    /// Calls `ID3D12Device::GetAdapterLuid` and `GetNodeCount`, and `IDXGIFactory4::EnumAdapterByLuid`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device has several linked GPUs:
    /// CUDA imports from devices of one node ([`for_importer`](Self::for_importer) can select one).
    pub fn new(device: &ID3D12Device) -> Result<Self> {
        Self::create("D3d12Interop::new", device, None)
    }

    /// As [`new`](Self::new), and rejects an importer that is another device. Of linked GPUs it uses the node in the
    /// importer's LUID and creates memory on that node.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMismatch`](gpu_interop_core::ErrorKind::DeviceMismatch) with both identities;
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the device has several linked GPUs
    /// and the importer does not name one of them.
    pub fn for_importer(device: &ID3D12Device, importer: &DeviceIdentity) -> Result<Self> {
        const OPERATION: &str = "D3d12Interop::for_importer";
        let interop = Self::create(OPERATION, device, Some(importer))?;
        check_importer(OPERATION, interop.identity(), importer)?;
        Ok(interop)
    }

    fn create(operation: &'static str, device: &ID3D12Device, importer: Option<&DeviceIdentity>) -> Result<Self> {
        // SAFETY: the device is a live object; the calls have no arguments.
        let (luid, nodes) = unsafe { (device.GetAdapterLuid(), device.GetNodeCount()) };
        let adapter = adapter::of_luid(luid);
        let node_mask = node_mask(operation, nodes, importer.and_then(|importer| importer.luid))
            .map_err(|error| error.with_device(&adapter.clone().identity(0)))?;
        let identity = adapter.identity(node_mask);
        Ok(Self { inner: Arc::new(Inner { device: device.clone(), identity, node_mask }) })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &ID3D12Device {
        &self.inner.device
    }

    /// The identity of the device, to find the matching importer.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        &self.inner.identity
    }

    /// The bit of the node for memory: 1 unless the GPUs are linked.
    #[must_use]
    pub fn node_mask(&self) -> u32 {
        self.inner.node_mask
    }

    /// Opens a new handle to the object that was shared under `name`, which is valid as long as a handle to it is open.
    /// Calls `ID3D12Device::OpenSharedHandleByName`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if no object has the name, or it is
    /// longer than 260 UTF-16 code units; otherwise the driver's error.
    pub fn open_by_name(&self, name: &ObjectName) -> Result<NtHandle> {
        const OPERATION: &str = "ID3D12Device::OpenSharedHandleByName";
        with_name(OPERATION, Some(name), |name| {
            // SAFETY: the name ends with NUL and outlives the call.
            let result = unsafe { self.device().OpenSharedHandleByName(name, GENERIC_ALL.0) };
            // SAFETY: the method opens a new handle for its caller.
            unsafe { exported(OPERATION, result) }
        })
        .map_err(|error| self.failed(error))
    }

    /// Opens the heap of a handle, which the caller still owns. Calls `ID3D12Device::OpenSharedHandle`.
    ///
    /// # Errors
    /// The driver's error, also for a handle to another kind of object.
    pub fn open_heap(&self, handle: &NtHandle) -> Result<ID3D12Heap> {
        self.open(handle)
    }

    /// Opens the committed resource of a handle, which the caller still owns. Calls `ID3D12Device::OpenSharedHandle`.
    ///
    /// # Errors
    /// The driver's error, also for a handle to another kind of object.
    pub fn open_resource(&self, handle: &NtHandle) -> Result<ID3D12Resource> {
        self.open(handle)
    }

    /// Opens the fence of a handle, which the caller still owns. Calls `ID3D12Device::OpenSharedHandle`.
    ///
    /// # Errors
    /// The driver's error, also for a handle to another kind of object.
    pub fn open_fence(&self, handle: &NtHandle) -> Result<ID3D12Fence> {
        self.open(handle)
    }

    fn open<T: Interface>(&self, handle: &NtHandle) -> Result<T> {
        let mut object = None;
        // SAFETY: the handle is open during the call, and the requested interface is the type of `object`.
        let result = unsafe { self.device().OpenSharedHandle(lent(handle), &raw mut object) };
        created("ID3D12Device::OpenSharedHandle", result, object).map_err(|error| self.failed(error))
    }

    /// Creates a handle to an object of this device, optionally with a name. Only this user and the system may open the
    /// object, the default of Windows.
    pub(super) fn share(&self, object: impl Param<ID3D12DeviceChild>, name: Option<&ObjectName>) -> Result<NtHandle> {
        const OPERATION: &str = "ID3D12Device::CreateSharedHandle";
        with_name(OPERATION, name, |name| {
            // SAFETY: the object is a live child of the device, the name ends with NUL and outlives the call.
            let result = unsafe { self.device().CreateSharedHandle(object, None, GENERIC_ALL.0, name) };
            // SAFETY: the method creates a new handle for its caller.
            unsafe { exported(OPERATION, result) }
        })
        .map_err(|error| self.failed(error))
    }

    /// Returns the size and alignment of a resource's allocation, bytes.
    pub(super) fn allocation(&self, desc: &D3D12_RESOURCE_DESC) -> Result<D3D12_RESOURCE_ALLOCATION_INFO> {
        const OPERATION: &str = "ID3D12Device::GetResourceAllocationInfo";
        // SAFETY: the description is plain data.
        let info = unsafe { self.device().GetResourceAllocationInfo(self.node_mask(), std::slice::from_ref(desc)) };
        // The results for an unsupported description.
        if info.SizeInBytes == u64::MAX || info.SizeInBytes == 0 {
            return Err(self.failed(Error::unsupported(OPERATION, "the device does not support such a resource")));
        }
        Ok(info)
    }

    /// Properties of device memory on the shared node, the only kind that Direct3D shares.
    pub(super) fn memory(&self) -> D3D12_HEAP_PROPERTIES {
        D3D12_HEAP_PROPERTIES {
            Type: D3D12_HEAP_TYPE_DEFAULT,
            CreationNodeMask: self.node_mask(),
            VisibleNodeMask: self.node_mask(),
            ..D3D12_HEAP_PROPERTIES::default()
        }
    }

    pub(super) fn failed(&self, error: Error) -> Error {
        error.with_device(self.identity())
    }
}
