//! Exported functions of the library, and DXGI: adapters and factories.

use std::ffi::c_void;
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, OnceLock};

use windows::Win32::Foundation::{HANDLE, HMODULE, LUID};
use windows::Win32::Graphics::Direct3D::{D3D_DRIVER_TYPE, D3D_FEATURE_LEVEL, D3D_FEATURE_LEVEL_11_1};
use windows::Win32::Graphics::Direct3D12::ID3D12Device;
use windows::Win32::Graphics::Dxgi::*;
use windows::core::{GUID, HRESULT, IUnknown, Interface, Ref, Result, implement};

use crate::device11::{Behavior11, Device11};
use crate::device12::{Behavior12, Device12};
use crate::object::{ComObject, dxgi_objects, methods, not_implemented, object, unknown};
use crate::{NOT_FOUND, os};

const S_FALSE: HRESULT = HRESULT(1);

/// Identifies the library as a simulator, as in the simulators of compute drivers: 1, because the CPU does the work.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that is looked up")]
pub static gpu_interop_simulated: AtomicI32 = AtomicI32::new(1);

/// Opens the only device, for any adapter. As on Windows, each call returns the same object.
///
/// # Safety
/// Direct3D's rules: pointers are valid or null.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name in Direct3D's header")]
pub unsafe extern "system" fn D3D12CreateDevice(
    _adapter: *mut c_void,
    _level: D3D_FEATURE_LEVEL,
    iid: *const GUID,
    device: *mut *mut c_void,
) -> HRESULT {
    if device.is_null() {
        return S_FALSE;
    }
    static DEVICE: OnceLock<ID3D12Device> = OnceLock::new();
    let created = DEVICE.get_or_init(|| {
        os::keep_loaded(D3D12CreateDevice as *const c_void);
        Device12::new(Behavior12::default()).0
    });
    // SAFETY: the caller's promise.
    unsafe { created.query(iid, device) }
}

/// As [`D3D12CreateDevice`], with its immediate context.
///
/// # Safety
/// Direct3D's rules: pointers are valid or null.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name in Direct3D's header")]
pub unsafe extern "system" fn D3D11CreateDevice(
    _adapter: *mut c_void,
    _driver: D3D_DRIVER_TYPE,
    _software: HMODULE,
    _flags: u32,
    _levels: *const D3D_FEATURE_LEVEL,
    _level_count: u32,
    _version: u32,
    device: *mut *mut c_void,
    level: *mut D3D_FEATURE_LEVEL,
    context: *mut *mut c_void,
) -> HRESULT {
    let (created, state) = Device11::new(Behavior11::default());
    // SAFETY: the caller's promise.
    unsafe {
        if !level.is_null() {
            *level = D3D_FEATURE_LEVEL_11_1;
        }
        if !context.is_null() {
            *context = state.context().into_raw();
        }
        if device.is_null() {
            return S_FALSE;
        }
        *device = created.into_raw();
    }
    HRESULT(0)
}

/// As [`CreateDXGIFactory2`].
///
/// # Safety
/// DXGI's rules: pointers are valid.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name in DXGI's header")]
pub unsafe extern "system" fn CreateDXGIFactory1(iid: *const GUID, factory: *mut *mut c_void) -> HRESULT {
    // SAFETY: the caller's promise.
    unsafe { CreateDXGIFactory2(0, iid, factory) }
}

/// Creates the factory with one adapter.
///
/// # Safety
/// DXGI's rules: pointers are valid.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name in DXGI's header")]
pub unsafe extern "system" fn CreateDXGIFactory2(_flags: u32, iid: *const GUID, factory: *mut *mut c_void) -> HRESULT {
    // SAFETY: the caller's promise.
    unsafe { IUnknown::from(Factory::create()).query(iid, factory) }
}

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

impl ComObject for Factory {
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
