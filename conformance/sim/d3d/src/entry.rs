//! Exported functions of the library.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;

use windows::Win32::Foundation::HMODULE;
use windows::Win32::Graphics::Direct3D::{D3D_DRIVER_TYPE, D3D_FEATURE_LEVEL, D3D_FEATURE_LEVEL_11_1};
use windows::Win32::Graphics::Direct3D12::ID3D12Device;
use windows::core::{GUID, HRESULT, IUnknown, Interface};

use crate::device11::{Behavior11, Device11};
use crate::dxgi::Factory;
use crate::os;
use crate::state12::{Behavior12, Device12};

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
