//! Adapters and factories.

use std::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::{HANDLE, LUID};
use windows::Win32::Graphics::Dxgi::*;
use windows::core::{GUID, HRESULT, IUnknown, Interface, Ref, Result, implement};

use crate::NOT_FOUND;
use crate::children::{dxgi_objects, not_implemented};
use crate::object::{Stand, methods, object, unknown};

#[implement(IDXGIDevice)]
pub(crate) struct DxgiDevice;
#[implement(IDXGIAdapter3)]
struct DxgiAdapter;

dxgi_objects!(DxgiDevice_Impl, DxgiAdapter_Impl);

impl IDXGIDevice_Impl for DxgiDevice_Impl {
    fn GetAdapter(&self) -> Result<IDXGIAdapter> {
        Ok(IDXGIAdapter3::from(DxgiAdapter).into())
    }
    not_implemented! {
        fn CreateSurface(&self, _: *const DXGI_SURFACE_DESC, _: u32, _: DXGI_USAGE, _: *const DXGI_SHARED_RESOURCE,
            _: *mut Option<IDXGISurface>) -> Result<()>;
        fn QueryResourceResidency(&self, _: *const Option<IUnknown>, _: *mut DXGI_RESIDENCY, _: u32) -> Result<()>;
        fn SetGPUThreadPriority(&self, _: i32) -> Result<()>;
        fn GetGPUThreadPriority(&self) -> Result<i32>;
    }
}

impl IDXGIAdapter1_Impl for DxgiAdapter_Impl {
    fn GetDesc1(&self) -> Result<DXGI_ADAPTER_DESC1> {
        Ok(DXGI_ADAPTER_DESC1 { AdapterLuid: crate::luid(), Description: name(), ..DXGI_ADAPTER_DESC1::default() })
    }
}

impl IDXGIAdapter2_Impl for DxgiAdapter_Impl {
    fn GetDesc2(&self) -> Result<DXGI_ADAPTER_DESC2> {
        Ok(DXGI_ADAPTER_DESC2 { AdapterLuid: crate::luid(), Description: name(), ..DXGI_ADAPTER_DESC2::default() })
    }
}

impl IDXGIAdapter3_Impl for DxgiAdapter_Impl {
    not_implemented! {
        fn RegisterHardwareContentProtectionTeardownStatusEvent(&self, _: HANDLE) -> Result<u32>;
        fn QueryVideoMemoryInfo(&self, _: u32, _: DXGI_MEMORY_SEGMENT_GROUP, _: *mut DXGI_QUERY_VIDEO_MEMORY_INFO)
            -> Result<()>;
        fn SetVideoMemoryReservation(&self, _: u32, _: DXGI_MEMORY_SEGMENT_GROUP, _: u64) -> Result<()>;
        fn RegisterVideoMemoryBudgetChangeNotificationEvent(&self, _: HANDLE) -> Result<u32>;
    }
    fn UnregisterHardwareContentProtectionTeardownStatus(&self, _: u32) {}
    fn UnregisterVideoMemoryBudgetChangeNotification(&self, _: u32) {}
}

fn name() -> [u16; 128] {
    let mut name = [0; 128];
    for (unit, character) in name.iter_mut().zip("simulator".encode_utf16()) {
        *unit = character;
    }
    name
}

impl IDXGIAdapter_Impl for DxgiAdapter_Impl {
    not_implemented! {
        fn EnumOutputs(&self, _: u32) -> Result<IDXGIOutput>;
        fn GetDesc(&self) -> Result<DXGI_ADAPTER_DESC>;
        fn CheckInterfaceSupport(&self, _: *const GUID) -> Result<i64>;
    }
}

/// A factory with one adapter.
pub(crate) struct Factory;

impl Stand for Factory {
    const LINE: &'static [GUID] = &[
        IDXGIObject::IID,
        IDXGIFactory::IID,
        IDXGIFactory1::IID,
        IDXGIFactory2::IID,
        IDXGIFactory3::IID,
        IDXGIFactory4::IID,
    ];
}

impl Factory {
    pub(crate) fn create() -> IDXGIFactory4 {
        object!(IDXGIFactory4_Vtbl, Arc::new(Self), |table| {
            table.base__.base__.base__.base__.base__.base__ = unknown::<Self>();
            table.base__.base__.base__.EnumAdapters1 = adapter_by_index;
            table.EnumAdapterByLuid = adapter_by_luid;
        })
    }
}

methods! { Factory;
    fn adapter_by_index(_, index: u32, adapter: *mut *mut c_void) -> HRESULT {
        if index == 0 { IUnknown::from(DxgiAdapter).query(&IDXGIAdapter1::IID, adapter) } else { NOT_FOUND }
    }

    fn adapter_by_luid(_, luid: LUID, iid: *const GUID, adapter: *mut *mut c_void) -> HRESULT {
        if luid == crate::luid() { IUnknown::from(DxgiAdapter).query(iid, adapter) } else { NOT_FOUND }
    }
}
