//! The backend.

use std::ffi::CString;
use std::sync::Arc;

use gpu_interop::{
    Backend, BackendDevice, BackendInfo, Capabilities, DeviceIdentity, Error, Feature, MemoryHandleKind, Result,
    SemaphoreHandleKind, Support,
};
use gpu_interop_capi as c;

use crate::api::{Api, BACKEND_VARIABLE, api};
use crate::convert;
use crate::device::CDevice;

/// Name of the backend.
pub(crate) const NAME: &str = "capi";

/// Reason for which the interface lacks a feature.
pub(crate) const NO_GRAPHS: &str = "the C interface records no graphs";

/// As [`NO_GRAPHS`].
pub(crate) const NO_OBJECTS: &str = "the C interface makes no surfaces and textures";

/// As [`NO_GRAPHS`]. On the host backend, any host memory is device memory.
pub(crate) const NO_SIGNAL_MEMORY: &str = "the C interface allocates no signal memory";

/// The backend below the C interface.
pub(crate) fn below() -> String {
    std::env::var(BACKEND_VARIABLE).unwrap_or_else(|_| "host".into())
}

/// A backend behind the C interface.
pub(crate) struct CBackend {
    api: &'static Api,
    handle: c::gpi_backend,
    info: BackendInfo,
}

impl std::fmt::Debug for CBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CBackend").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl CBackend {
    pub(crate) fn load() -> Result<Self> {
        let api = api()?;
        let name = CString::new(below()).map_err(|_| Error::invalid("gpi_backend_load", "a NUL"))?;
        // SAFETY: a text, and addresses of variables.
        let (handle, about) = unsafe {
            let handle: c::gpi_backend = api.made(|out| (api.gpi_backend_load)(name.as_ptr(), out))?;
            let about: c::gpi_backend_info = api.made(|out| (api.gpi_backend_get_info)(handle, out))?;
            (handle, about)
        };
        let driver = format!("{} through C", convert::text(&about.driver));
        Ok(Self { api, handle, info: BackendInfo::new(NAME, driver).with_simulated(about.simulated != 0) })
    }

    fn identity(&self, ordinal: usize) -> Result<DeviceIdentity> {
        let (api, ordinal) = (self.api, u32::try_from(ordinal).unwrap_or(u32::MAX));
        // SAFETY: the address of a variable.
        let identity: c::gpi_identity =
            unsafe { api.made(|out| (api.gpi_backend_get_device)(self.handle, ordinal, out)) }?;
        Ok(convert::identity(&identity))
    }
}

impl Backend for CBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        let api = self.api;
        // SAFETY: the address of a variable.
        let about: c::gpi_backend_info = unsafe { api.made(|out| (api.gpi_backend_get_info)(self.handle, out)) }?;
        (0..about.device_count as usize).map(|ordinal| self.identity(ordinal)).collect()
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        let api = self.api;
        let number = u32::try_from(ordinal).unwrap_or(u32::MAX);
        // SAFETY: addresses of variables.
        let (device, about) = unsafe {
            let device: c::gpi_device = api.made(|out| (api.gpi_device_open)(self.handle, number, out))?;
            let about: c::gpi_device_info = api.made(|out| (api.gpi_device_get_info)(device, out))?;
            (device, about)
        };
        let capabilities = capabilities(api, device)?;
        Ok(Arc::new(CDevice::new(api, device, convert::identity(&about.identity), capabilities, about.context)))
    }
}

/// Queries every capability by its name.
fn capabilities(api: &Api, device: c::gpi_device) -> Result<Capabilities> {
    let query = |name: String| -> Result<Support> {
        let name = CString::new(name).map_err(|_| Error::invalid("gpi_device_get_support", "a NUL"))?;
        // SAFETY: a text, and the address of a variable.
        let support: c::gpi_support =
            unsafe { api.made(|out| (api.gpi_device_get_support)(device, name.as_ptr(), out)) }?;
        let detail = convert::text(&support.detail);
        Ok(match support.level {
            c::GPI_SUPPORT_NATIVE => Support::Native,
            c::GPI_SUPPORT_EMULATED => Support::Emulated(detail),
            c::GPI_SUPPORT_DRIVER_TOO_OLD => Support::DriverTooOld(detail),
            c::GPI_SUPPORT_SYMBOL_MISSING => Support::SymbolMissing(detail),
            _ => Support::no(detail),
        })
    };
    // The names are those of JSON.
    let name = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let json = |value: Result<serde_json::Value, serde_json::Error>| name(value.expect("a name"));
    let mut capabilities = Capabilities::none();
    for kind in MemoryHandleKind::ALL {
        let support = query(format!("memory.{}", json(serde_json::to_value(kind))))?;
        capabilities = capabilities.with_memory(*kind, support);
    }
    for kind in SemaphoreHandleKind::ALL {
        let support = query(format!("semaphore.{}", json(serde_json::to_value(kind))))?;
        capabilities = capabilities.with_semaphore(*kind, support);
    }
    for feature in Feature::ALL {
        let support = query(format!("feature.{}", json(serde_json::to_value(feature))))?;
        capabilities = capabilities.with_feature(*feature, missing(*feature).map_or(support, Support::no));
    }
    Ok(capabilities)
}

/// The reason for which the interface lacks a feature.
fn missing(feature: Feature) -> Option<&'static str> {
    match feature {
        Feature::Graphs | Feature::GraphKernels | Feature::GraphSemaphores | Feature::GraphMemoryOperations => {
            Some(NO_GRAPHS)
        }
        Feature::Surfaces | Feature::Textures if below() != "host" => Some(NO_OBJECTS),
        Feature::SignalMemory if below() != "host" => Some(NO_SIGNAL_MEMORY),
        _ => None,
    }
}
