//! Choice of a device.

use gpu_interop::{
    BackendChoice, BackendName, Device, DeviceIdentity, Error, ErrorKind, LoadAttempt, PciAddress, Result, Uuid,
    available, device_for, select,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::device::PyDevice;
use crate::error;
use crate::error::{Raise, exception};
use crate::identity::PyIdentity;

/// A device that can be opened.
#[pyclass(frozen, module = "gpu_interop", name = "DeviceInfo")]
#[derive(Debug)]
pub(crate) struct PyDeviceInfo {
    backend: String,
    ordinal: usize,
    identity: DeviceIdentity,
}

#[pymethods]
impl PyDeviceInfo {
    /// Name of the backend: ``"cuda"``, ``"hip"`` or ``"host"``.
    #[getter]
    fn backend(&self) -> &str {
        &self.backend
    }

    /// Position of the device in the backend's order.
    #[getter]
    fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Identity of the device.
    #[getter]
    fn identity(&self) -> PyIdentity {
        (&self.identity).into()
    }

    /// Opens the device.
    fn open(&self, py: Python<'_>) -> PyResult<PyDevice> {
        open(py, Some(self.ordinal), None, None, Some(&self.backend), None)
    }

    fn __repr__(&self) -> String {
        format!("<gpu_interop.DeviceInfo {} {}: {}>", self.backend, self.ordinal, self.identity)
    }
}

/// All devices of the backends that load, GPUs first. ``GPU_INTEROP_BACKEND`` restricts the backends.
///
/// Warns with :class:`BackendFailedWarning` for each backend whose driver is there but failed, and raises :class:`System` if
/// the driver of a GPU does not work in this process, as after a fork, and none lists a GPU.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<PyDeviceInfo>> {
    let (found, failed) = py.detach(listed).raised()?;
    warn(py, &failed)?;
    Ok(found)
}

/// The devices, and the backends that failed.
fn listed() -> Result<(Vec<PyDeviceInfo>, Vec<LoadAttempt>)> {
    let choice = BackendChoice::from_env()?;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    let (mut has_gpu, mut not_here) = (false, None);
    for (name, loaded) in available() {
        if matches!(choice, BackendChoice::Named(wanted) if wanted != name) {
            continue;
        }
        match loaded.and_then(|backend| backend.devices()) {
            Ok(devices) => {
                has_gpu |= name != BackendName::Host && !devices.is_empty();
                found.extend(devices.into_iter().enumerate().map(|(ordinal, identity)| PyDeviceInfo {
                    backend: name.to_string(),
                    ordinal,
                    identity,
                }));
            }
            Err(error) => {
                // `backends` has the reasons of all that do not load.
                failed.push(LoadAttempt::failed(name.to_string(), &error));
                if error.kind() == ErrorKind::System {
                    not_here = not_here.or(Some(error));
                }
            }
        }
    }
    match not_here {
        // The same driver works in another process: the CPU must not stand for its GPUs.
        Some(error) if !has_gpu => Err(error),
        _ => Ok((found, failed)),
    }
}

/// Warns of the backends whose driver is there but failed.
fn warn(py: Python<'_>, passed_over: &[LoadAttempt]) -> PyResult<()> {
    for attempt in passed_over.iter().filter(|attempt| attempt.driver_failed()) {
        let category = py.import("gpu_interop._errors")?.getattr("BackendFailedWarning")?;
        let message = format!(
            "the {} backend is not used, because its driver failed: {}; name a backend to get an error instead: \
             gpu_interop.open(backend=\"{}\")",
            attempt.target,
            error::in_python(&attempt.reason),
            attempt.target
        );
        py.import("warnings")?.call_method1("warn", (message, category))?;
    }
    Ok(())
}

/// Each backend with ``"available"``, or the reason why it is not.
#[pyfunction]
pub(crate) fn backends(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let loaded = py.detach(available);
    let table = PyDict::new(py);
    for (name, backend) in loaded {
        let state = match backend.and_then(|backend| backend.devices()) {
            Ok(devices) if devices.is_empty() => "the driver loads but has no device".into(),
            Ok(_) => "available".into(),
            Err(error) => error::in_python(&error.to_string()),
        };
        table.set_item(name.to_string(), state)?;
    }
    Ok(table)
}

/// Opens a device: the one at ``ordinal`` of the backend, with this ``uuid`` or ``pci`` address, or ``matching`` an exporter:
/// an :class:`Identity`, or an object with one, such as a Vulkan context.
///
/// ``backend`` is ``"cuda"``, ``"hip"`` or ``"host"``; by default that of ``GPU_INTEROP_BACKEND``, or the first with a device,
/// the CPU last. Without arguments, opens the first device.
///
/// ``uuid`` is one of :attr:`Identity.uuid`, or as ``nvidia-smi -L`` prints it (``GPU-...``, ``MIG-...``).
///
/// The CPU never replaces a GPU silently: :attr:`Device.passed_over` has the backends that were tried first, and a backend whose
/// driver is there but failed is a :class:`BackendFailedWarning`.
#[pyfunction]
#[pyo3(signature = (ordinal=None, *, uuid=None, pci=None, backend=None, matching=None))]
pub(crate) fn open(
    py: Python<'_>,
    ordinal: Option<usize>,
    uuid: Option<&str>,
    pci: Option<&str>,
    backend: Option<&str>,
    matching: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyDevice> {
    const OPERATION: &str = "gpu_interop.open";
    let given = [ordinal.is_some(), uuid.is_some(), pci.is_some(), matching.is_some()];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(exception(&Error::invalid(OPERATION, "pass at most one of ordinal, uuid, pci and matching")));
    }
    let choice = match backend {
        Some(name) => name.parse::<BackendChoice>().raised()?,
        None => BackendChoice::from_env().raised()?,
    };
    let identity = match (uuid, pci, matching) {
        (Some(text), ..) => Some(DeviceIdentity::default().with_uuid(parsed::<Uuid>(OPERATION, text)?)),
        (_, Some(text), _) => Some(DeviceIdentity::default().with_pci(parsed::<PciAddress>(OPERATION, text)?)),
        (.., Some(object)) => Some(identity_of(object)?),
        _ => None,
    };
    let opened = py.detach(|| match identity {
        // The exporter's device, and no other: nothing is passed over for it.
        Some(identity) if backend.is_none() => device_for(&identity).map(|device| (device, Vec::new())),
        identity => {
            let selection = select(choice)?;
            let device = match identity {
                Some(identity) => Device::open_matching(&*selection.backend, &identity),
                None => Device::open(&*selection.backend, ordinal.unwrap_or(0)),
            };
            device.map(|device| (device, selection.passed_over))
        }
    });
    let (device, passed_over) = opened.raised()?;
    warn(py, &passed_over)?;
    Ok(PyDevice::new(device, passed_over))
}

fn identity_of(object: &Bound<'_, PyAny>) -> PyResult<DeviceIdentity> {
    let identity = match object.cast::<PyIdentity>() {
        Ok(identity) => identity.clone(),
        Err(_) => object.getattr("identity")?.cast_into::<PyIdentity>()?,
    };
    Ok(identity.get().inner.clone())
}

fn parsed<T: std::str::FromStr<Err: std::error::Error>>(operation: &'static str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| exception(&Error::invalid(operation, error.to_string())))
}
