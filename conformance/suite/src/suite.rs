//! The scenarios, the backends they can run on, and the devices and exporters of a backend.

use std::sync::Arc;

use gpu_interop::{BackendChoice, BackendInfo, BackendName, Capabilities, Device, DeviceIdentity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend_under_test::BackendUnderTest;
use crate::context::Context;
use crate::exporter::{self, ExporterName};
use crate::outcome::{Stop, Verdict};
use crate::peer::Channel;
use crate::process::{self, Request};
#[cfg(unix)]
use crate::raw_cuda;
use crate::scenario::{Role, Scenario};
use crate::{execution, scenarios};

/// Scenarios and the backends they can run on.
///
/// `gpu_interop_conformance_cli::main` turns it into a program, the `conformance` command.
#[derive(Debug)]
pub struct Suite {
    scenarios: Vec<Scenario>,
    backends: Vec<Arc<BackendUnderTest>>,
    roles: Vec<(&'static str, Role)>,
}

impl Suite {
    /// The standard scenarios and the backends of this project.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            scenarios: scenarios::standard(),
            backends: [BackendUnderTest::cuda(), BackendUnderTest::hip(), BackendUnderTest::host()]
                .map(Arc::new)
                .into(),
            roles: scenarios::roles(),
        }
    }

    /// Adds a backend, which `--backend` selects by its name. An existing backend of this name is replaced.
    #[must_use]
    pub fn with_backend(mut self, backend: BackendUnderTest) -> Self {
        self.backends.retain(|present| present.name() != backend.name());
        self.backends.push(Arc::new(backend));
        self
    }

    /// The scenarios.
    #[must_use]
    pub fn scenarios(&self) -> &[Scenario] {
        &self.scenarios
    }

    /// The backends.
    #[must_use]
    pub fn backends(&self) -> &[Arc<BackendUnderTest>] {
        &self.backends
    }

    /// The backend of this name.
    ///
    /// # Errors
    /// [`Stop::skipped`] with the existing names.
    pub fn backend(&self, name: &str) -> Verdict<&Arc<BackendUnderTest>> {
        self.backends.iter().find(|backend| backend.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.backends.iter().map(|backend| backend.name()).collect();
            Stop::skipped(format!("this build has no backend `{name}`; it has: {}", known.join(", ")))
        })
    }

    /// The default backend, and the backends tried before it: the one that `GPU_INTEROP_BACKEND` names, or the first
    /// with a device.
    ///
    /// # Errors
    /// If the variable names no existing backend, or no backend has a device.
    pub fn default_backend(&self) -> Verdict<(String, Vec<gpu_interop::LoadAttempt>)> {
        match BackendChoice::from_env()? {
            BackendChoice::Named(name) => Ok((self.backend(&name.to_string())?.name().to_owned(), Vec::new())),
            BackendChoice::Auto => {
                let selection = gpu_interop::select(BackendChoice::Auto)?;
                Ok((selection.backend.info().name.clone(), selection.passed_over))
            }
        }
    }

    /// The scenario with this id.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn scenario(&self, id: &str) -> Verdict<&Scenario> {
        self.scenarios
            .iter()
            .find(|scenario| scenario.id == id)
            .ok_or_else(|| Stop::failed(format!("unknown scenario `{id}`")))
    }

    pub(crate) fn role(&self, name: &str) -> Verdict<Role> {
        self.roles
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, role)| *role)
            .ok_or_else(|| Stop::failed(format!("unknown role `{name}`")))
    }

    /// Handles a request of another process of the suite. This process ends with that process.
    ///
    /// # Errors
    /// If the request is of another version of the suite, or fails.
    pub fn serve(&self, request: &str) -> Verdict {
        process::die_with_parent()?;
        let request =
            serde_json::from_str(request).map_err(|error| Stop::failed(format!("no request of the suite: {error}")))?;
        match request {
            Request::Peer { role, backend, exporter, seed, device, signals_by_host } => {
                let (role, backend) = (self.role(&role)?, self.backend(&backend)?.clone());
                let context = Context::open_for(backend, exporter, device, seed, signals_by_host)?;
                let channel = Channel::of_this_process()?;
                execution::checked(context, |context| role(context, &channel))
            }
            Request::Discover { backend, device } => process::answer(&discover(self.backend(&backend)?, device, &[])),
            #[cfg(unix)]
            Request::RawCuda { library, device } => raw_cuda::serve(&library, device),
        }
    }
}

/// All names that `--require` accepts besides the exporters'.
pub const BACKEND_NAMES: [BackendName; 3] = [BackendName::Cuda, BackendName::Hip, BackendName::Host];

/// Devices and exporters of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Discovery {
    /// The backend.
    pub backend: BackendInfo,
    /// The requested device.
    pub device: DeviceIdentity,
    /// Every device of the backend.
    pub devices: Vec<DeviceIdentity>,
    /// The device's capabilities.
    pub capabilities: Capabilities,
    /// The requested exporters.
    pub exporters: Vec<ExporterReport>,
}

/// An exporter, and whether it can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExporterReport {
    /// The exporter.
    pub name: ExporterName,
    /// The exporting device and driver, if it can be used.
    pub available: Option<ExporterDetail>,
    /// The reason why it is unavailable: unsupported by the device, missing with the package to install, or broken.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub stop: Option<Stop>,
}

/// A usable exporter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExporterDetail {
    /// Its device.
    pub device: DeviceIdentity,
    /// Its driver.
    pub driver: String,
}

/// Loads a backend, opens its device of this ordinal, and tries to open each exporter for it.
///
/// # Errors
/// If the backend does not load, or the device is unknown.
pub fn discover(under_test: &BackendUnderTest, device: usize, exporters: &[ExporterName]) -> Verdict<Discovery> {
    let backend = under_test.load()?;
    let devices = backend.devices()?;
    let device = Device::open(&*backend, device)?;
    let exporters = exporters
        .iter()
        .map(|name| match exporter::open(*name, under_test, &device, false) {
            Ok(opened) => ExporterReport {
                name: *name,
                available: Some(ExporterDetail { device: opened.identity().clone(), driver: opened.describe() }),
                stop: None,
            },
            Err(stop) => ExporterReport { name: *name, available: None, stop: Some(stop) },
        })
        .collect();
    Ok(Discovery {
        backend: backend.info().clone(),
        device: device.identity().clone(),
        devices,
        capabilities: device.capabilities().clone(),
        exporters,
    })
}
