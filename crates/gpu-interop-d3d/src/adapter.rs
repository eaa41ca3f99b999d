//! Adapter descriptions of DXGI.

use windows::Win32::Foundation::LUID;
use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_ADAPTER_FLAG_SOFTWARE, IDXGIAdapter, IDXGIAdapter1, IDXGIFactory4,
};
use windows::core::Interface;

use crate::identity::{Adapter, luid_bytes};

/// Looks up the description of the adapter with this LUID; empty except for the LUID if DXGI does not find it.
pub(crate) fn of_luid(luid: LUID) -> Adapter {
    // SAFETY: the calls take plain values and return reference-counted objects.
    let found = unsafe {
        CreateDXGIFactory1::<IDXGIFactory4>()
            .and_then(|factory| factory.EnumAdapterByLuid::<IDXGIAdapter>(luid))
            .inspect_err(|error| tracing::debug!(%error, "DXGI does not find the adapter of a device"))
    };
    let known = found.map(|adapter| describe(&adapter)).unwrap_or_default();
    Adapter { luid: luid_bytes(luid.LowPart, luid.HighPart), ..known }
}

/// Describes an adapter; the default if it has no description.
pub(crate) fn describe(adapter: &IDXGIAdapter) -> Adapter {
    let newer = adapter.cast::<IDXGIAdapter1>();
    // SAFETY: the adapter is a live object, and the call returns the structure by value.
    let description = newer.and_then(|adapter| unsafe { adapter.GetDesc1() });
    let Ok(description) = description else { return Adapter::default() };
    let length = description.Description.iter().position(|unit| *unit == 0);
    let name = &description.Description[..length.unwrap_or(description.Description.len())];
    Adapter {
        name: String::from_utf16_lossy(name),
        software: Some(description.Flags & DXGI_ADAPTER_FLAG_SOFTWARE.0.cast_unsigned() != 0),
        luid: luid_bytes(description.AdapterLuid.LowPart, description.AdapterLuid.HighPart),
    }
}
