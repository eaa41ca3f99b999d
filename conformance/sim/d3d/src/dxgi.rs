//! Adapters and factories.

use std::ffi::c_void;
use std::sync::Arc;

use windows::Win32::Foundation::LUID;
use windows::Win32::Graphics::Dxgi::*;
use windows::core::{GUID, HRESULT, IUnknown, Interface, Ref, Result, implement};

use crate::NOT_FOUND;
use crate::children::{dxgi_objects, not_implemented};
use crate::object::{Stand, methods, object, unknown};

#[implement(IDXGIDevice)]
pub(crate) struct DxgiDevice;
#[implement(IDXGIAdapter1)]
struct DxgiAdapter;

dxgi_objects!(DxgiDevice_Impl, DxgiAdapter_Impl);

impl IDXGIDevice_Impl for DxgiDevice_Impl {
    fn GetAdapter(&self) -> Result<IDXGIAdapter> {
        Ok(IDXGIAdapter1::from(DxgiAdapter).into())
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
        let mut desc = DXGI_ADAPTER_DESC1 { AdapterLuid: crate::luid(), ..DXGI_ADAPTER_DESC1::default() };
        for (unit, character) in desc.Description.iter_mut().zip("simulator".encode_utf16()) {
            *unit = character;
        }
        Ok(desc)
    }
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
            table.EnumAdapterByLuid = adapter_by_luid;
        })
    }
}

methods! { Factory;
    fn adapter_by_luid(_, luid: LUID, iid: *const GUID, adapter: *mut *mut c_void) -> HRESULT {
        if luid == crate::luid() { IUnknown::from(DxgiAdapter).query(iid, adapter) } else { NOT_FOUND }
    }
}
