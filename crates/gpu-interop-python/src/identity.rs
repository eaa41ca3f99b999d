//! Identities of devices.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use gpu_interop::{DeviceIdentity, DeviceKind, IdentityMatch};
use pyo3::prelude::*;

/// Identity of a device in terms that Vulkan, CUDA and HIP share.
#[pyclass(frozen, module = "gpu_interop", name = "Identity")]
#[derive(Debug)]
pub(crate) struct PyIdentity {
    pub(crate) inner: DeviceIdentity,
}

impl From<&DeviceIdentity> for PyIdentity {
    fn from(identity: &DeviceIdentity) -> Self {
        Self { inner: identity.clone() }
    }
}

#[pymethods]
impl PyIdentity {
    /// The driver's name of the device. Never compared.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// ``"gpu"``, ``"cpu"`` or ``"unknown"``.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.inner.kind {
            DeviceKind::Gpu => "gpu",
            DeviceKind::Cpu => "cpu",
            _ => "unknown",
        }
    }

    /// The UUID as 32 hexadecimal digits with dashes, if the driver reports it.
    #[getter]
    fn uuid(&self) -> Option<String> {
        self.inner.uuid.map(|uuid| uuid.to_string())
    }

    /// The PCI address, such as ``"0000:17:00.0"``, if the driver reports it.
    #[getter]
    fn pci(&self) -> Option<String> {
        self.inner.pci.map(|pci| pci.to_string())
    }

    /// The adapter's LUID on Windows.
    #[getter]
    fn luid(&self) -> Option<String> {
        self.inner.luid.map(|luid| luid.to_string())
    }

    /// ``"same"``, ``"different"``, or ``"unknown"`` if no field is known for both.
    fn compare(&self, other: &Self) -> &'static str {
        match self.inner.compare(&other.inner) {
            IdentityMatch::Same => "same",
            IdentityMatch::Different => "different",
            IdentityMatch::Unknown => "unknown",
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().inner == self.inner)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.inner.hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("<gpu_interop.Identity {}>", self.inner)
    }
}
