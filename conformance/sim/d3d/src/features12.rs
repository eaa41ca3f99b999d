//! Features of a device of Direct3D 12.

use std::ffi::c_void;

use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_12_0;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;
use windows::core::HRESULT;

use crate::E_INVALIDARG;
use crate::layout::{has_texels, planes};
use crate::object::methods;
use crate::state12::Device12;

/// Uses of a format with texels. Only copies are simulated; views can be created.
const USES: D3D12_FORMAT_SUPPORT1 = D3D12_FORMAT_SUPPORT1(
    D3D12_FORMAT_SUPPORT1_TEXTURE1D.0
        | D3D12_FORMAT_SUPPORT1_TEXTURE2D.0
        | D3D12_FORMAT_SUPPORT1_TEXTURE3D.0
        | D3D12_FORMAT_SUPPORT1_TEXTURECUBE.0
        | D3D12_FORMAT_SUPPORT1_MIP.0
        | D3D12_FORMAT_SUPPORT1_SHADER_LOAD.0
        | D3D12_FORMAT_SUPPORT1_SHADER_SAMPLE.0
        | D3D12_FORMAT_SUPPORT1_RENDER_TARGET.0
        | D3D12_FORMAT_SUPPORT1_BLENDABLE.0
        | D3D12_FORMAT_SUPPORT1_TYPED_UNORDERED_ACCESS_VIEW.0,
);
const STORAGE: D3D12_FORMAT_SUPPORT2 =
    D3D12_FORMAT_SUPPORT2(D3D12_FORMAT_SUPPORT2_UAV_TYPED_LOAD.0 | D3D12_FORMAT_SUPPORT2_UAV_TYPED_STORE.0);

fn support(format: DXGI_FORMAT) -> D3D12_FEATURE_DATA_FORMAT_SUPPORT {
    let (first, second) = match planes(format) {
        Some(_) => (D3D12_FORMAT_SUPPORT1_TEXTURE2D, D3D12_FORMAT_SUPPORT2_NONE),
        None if has_texels(format) => (USES, STORAGE),
        None => (D3D12_FORMAT_SUPPORT1_NONE, D3D12_FORMAT_SUPPORT2_NONE),
    };
    D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format, Support1: first, Support2: second }
}

/// The structure of a feature.
///
/// # Panics
/// If the caller's has another size.
///
/// # Safety
/// `data` is the caller's structure, of `size` bytes.
unsafe fn structure<'a, T>(data: *mut c_void, size: u32) -> &'a mut T {
    assert_eq!(size as usize, size_of::<T>(), "bytes of a feature's structure");
    // SAFETY: the caller's promise; all are plain data.
    unsafe { &mut *data.cast::<T>() }
}

methods! { Device12;
    /// Newer features are unknown, as to an old runtime.
    pub(crate) fn check_feature_support(device, feature: D3D12_FEATURE, data: *mut c_void, size: u32) -> HRESULT {
        match feature {
            D3D12_FEATURE_D3D12_OPTIONS => {
                let options: &mut D3D12_FEATURE_DATA_D3D12_OPTIONS = structure(data, size);
                options.ResourceHeapTier = D3D12_RESOURCE_HEAP_TIER(device.behavior.heap_tier);
                options.ResourceBindingTier = D3D12_RESOURCE_BINDING_TIER_3;
            }
            D3D12_FEATURE_FEATURE_LEVELS => {
                let levels: &mut D3D12_FEATURE_DATA_FEATURE_LEVELS = structure(data, size);
                levels.MaxSupportedFeatureLevel = D3D_FEATURE_LEVEL_12_0;
            }
            D3D12_FEATURE_ARCHITECTURE => {
                let architecture: &mut D3D12_FEATURE_DATA_ARCHITECTURE = structure(data, size);
                architecture.UMA = false.into();
            }
            D3D12_FEATURE_FORMAT_SUPPORT => {
                let format: &mut D3D12_FEATURE_DATA_FORMAT_SUPPORT = structure(data, size);
                *format = support(format.Format);
            }
            _ => return E_INVALIDARG,
        }
        HRESULT(0)
    }
}
