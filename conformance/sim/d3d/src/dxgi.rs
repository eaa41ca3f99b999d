//! Adapters and factories.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use windows::Win32::Foundation::LUID;
use windows::Win32::Graphics::Dxgi::*;
use windows::core::{GUID, HRESULT, IUnknown, Interface, Ref, Result, implement};

use crate::children::dxgi_objects;
use crate::object::{Stand, create, table, unknown};
use crate::{E_NOTIMPL, NOT_FOUND};

#[implement(IDXGIDevice)]
pub(crate) struct DxgiDevice;
#[implement(IDXGIAdapter1)]
struct DxgiAdapter;

dxgi_objects!(DxgiDevice_Impl, DxgiAdapter_Impl);

impl IDXGIDevice_Impl for DxgiDevice_Impl {
    fn GetAdapter(&self) -> Result<IDXGIAdapter> {
        Ok(IDXGIAdapter1::from(DxgiAdapter).into())
    }
    fn CreateSurface(
        &self,
        _: *const DXGI_SURFACE_DESC,
        _: u32,
        _: DXGI_USAGE,
        _: *const DXGI_SHARED_RESOURCE,
        _: *mut Option<IDXGISurface>,
    ) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn QueryResourceResidency(&self, _: *const Option<IUnknown>, _: *mut DXGI_RESIDENCY, _: u32) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn SetGPUThreadPriority(&self, _: i32) -> Result<()> {
        Err(E_NOTIMPL.into())
    }
    fn GetGPUThreadPriority(&self) -> Result<i32> {
        Err(E_NOTIMPL.into())
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
    fn EnumOutputs(&self, _: u32) -> Result<IDXGIOutput> {
        Err(E_NOTIMPL.into())
    }
    fn GetDesc(&self) -> Result<DXGI_ADAPTER_DESC> {
        Err(E_NOTIMPL.into())
    }
    fn CheckInterfaceSupport(&self, _: *const GUID) -> Result<i64> {
        Err(E_NOTIMPL.into())
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
        static TABLE: OnceLock<IDXGIFactory4_Vtbl> = OnceLock::new();
        let methods = TABLE.get_or_init(|| {
            // SAFETY: the table is that of the interface.
            let mut table = unsafe { table::<IDXGIFactory4_Vtbl>() };
            table.base__.base__.base__.base__.base__.base__ = unknown::<Self>();
            table.EnumAdapterByLuid = adapter_by_luid;
            table
        });
        // SAFETY: the interface is the last of its ancestors, and the methods are its own.
        unsafe { create(methods, Arc::new(Self)) }
    }
}

unsafe extern "system" fn adapter_by_luid(
    _: *mut c_void,
    luid: LUID,
    iid: *const GUID,
    adapter: *mut *mut c_void,
) -> HRESULT {
    if luid != crate::luid() {
        return NOT_FOUND;
    }
    // SAFETY: DXGI's rules: both pointers are valid.
    unsafe { IUnknown::from(DxgiAdapter).query(iid, adapter) }
}
