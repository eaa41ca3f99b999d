//! Selection of a backend.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use gpu_interop_core::{Backend, Device, DeviceIdentity, DeviceKind, Error, ErrorKind, LoadAttempt, Result};

use crate::candidate::{AnyCandidate, CANDIDATES, Candidate};

/// Environment variable that names the backend: `cuda`, `hip`, `host` or `auto`.
pub const BACKEND_VARIABLE: &str = "GPU_INTEROP_BACKEND";

/// Backend requested by the application or its user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum BackendChoice {
    /// The first backend of this build that has a device: `cuda`, then `hip`, then `host`.
    #[default]
    Auto,
    /// This backend, or an error.
    Named(BackendName),
}

impl BackendChoice {
    /// Reads [`BACKEND_VARIABLE`]; [`BackendChoice::Auto`] if it is not set or empty.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if it names no backend.
    pub fn from_env() -> Result<Self> {
        match std::env::var_os(BACKEND_VARIABLE) {
            Some(value) if !value.is_empty() => {
                value.to_string_lossy().parse().map_err(|error: Error| error.with_context("variable", BACKEND_VARIABLE))
            }
            _ => Ok(Self::Auto),
        }
    }
}

impl FromStr for BackendChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Named).map_err(|_: Error| {
            Error::invalid("BackendChoice::from_str", "the backend must be cuda, hip, host or auto")
                .with_context("given", format_args!("{text:?}"))
        })
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Named(name) => name.fmt(f),
        }
    }
}

/// Selected backend, and the backends tried before it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Selection {
    /// The backend. It has at least one device.
    pub backend: Arc<dyn Backend>,
    /// Backends tried first, and the reasons why they were not selected. Applications can show these to explain why the
    /// CPU does the work. Those of which [`LoadAttempt::driver_failed`] is true are also reported at level `WARN`.
    pub passed_over: Vec<LoadAttempt>,
}

/// Loads the backend that [`BACKEND_VARIABLE`] names, or the first that has a device.
///
/// # Errors
/// As for [`select`], and [`ErrorKind::InvalidArgument`] if the variable names no backend.
pub fn load() -> Result<Selection> {
    select(BackendChoice::from_env()?)
}

/// Loads a backend that has at least one device.
///
/// # Errors
/// For a named backend, the error of loading it ([`ErrorKind::Unsupported`] if this build does not contain it). For
/// [`BackendChoice::Auto`], [`ErrorKind::System`] if this process cannot use a driver that it has, as in a process that
/// was forked after the driver was used; otherwise [`ErrorKind::NoDevice`] with every backend that was tried.
pub fn select(choice: BackendChoice) -> Result<Selection> {
    first_usable("gpu_interop::select", choice, true, AnyCandidate::load, |backend| {
        if backend.devices()?.is_empty() {
            return Err(Error::new(ErrorKind::NoDevice, "gpu_interop::select", "the driver loads but has no device"));
        }
        Ok(())
    })
    .map(|(backend, (), passed_over)| Selection { backend, passed_over })
}

/// Opens the device that `exporter` describes, on the backend that [`BACKEND_VARIABLE`] allows: an NVIDIA GPU
/// through CUDA, an AMD GPU through HIP, a CPU renderer's device through the host backend.
///
/// # Errors
/// [`ErrorKind::NoDevice`] if no backend has a device that is proven to be the same; the error contains the failure of
/// each backend. [`ErrorKind::System`] as for [`select`]. [`ErrorKind::InvalidArgument`] if the variable names no
/// backend.
#[doc(alias("cudaSetDevice", "hipSetDevice", "cuDeviceGet", "hipDeviceGet"))]
pub fn device_for(exporter: &DeviceIdentity) -> Result<Device> {
    device_loaded_by("gpu_interop::device_for", exporter, AnyCandidate::load)
}

/// Opens the device that `exporter` describes, as [`device_for`] does, with `host` as the host backend: one with the
/// application's own kernels ([`HostBackendBuilder::kernel`](gpu_interop_host::HostBackendBuilder::kernel)).
///
/// # Errors
/// As for [`device_for`].
#[cfg(feature = "host")]
pub fn device_for_with_host(exporter: &DeviceIdentity, host: Arc<gpu_interop_host::HostBackend>) -> Result<Device> {
    device_loaded_by("gpu_interop::device_for_with_host", exporter, |candidate| match candidate {
        AnyCandidate::Host(_) => Ok(host.clone()),
        other => other.load(),
    })
}

fn device_loaded_by(
    operation: &'static str,
    exporter: &DeviceIdentity,
    load: impl Fn(&AnyCandidate) -> Result<Arc<dyn Backend>>,
) -> Result<Device> {
    let choice = BackendChoice::from_env()?;
    let wants_gpu = exporter.kind != DeviceKind::Cpu;
    first_usable(operation, choice, wants_gpu, load, |backend| Device::open_matching(backend, exporter))
        .map(|(_, device, _)| device)
        .map_err(|error| error.with_context("exporter", exporter))
}

/// Returns the first backend allowed by `choice` that `load` loads and `accept` accepts, the result of `accept`, and
/// the failures before it. If a GPU is wanted, a backend that this process cannot use is an error, not a failure before.
fn first_usable<T>(
    operation: &'static str,
    choice: BackendChoice,
    wants_gpu: bool,
    load: impl Fn(&AnyCandidate) -> Result<Arc<dyn Backend>>,
    accept: impl Fn(&dyn Backend) -> Result<T>,
) -> Result<(Arc<dyn Backend>, T, Vec<LoadAttempt>)> {
    let mut passed_over = Vec::new();
    for candidate in CANDIDATES {
        let name = candidate.name();
        if matches!(choice, BackendChoice::Named(wanted) if wanted != name) {
            continue;
        }
        let tried = load(candidate).and_then(|backend| Ok((accept(&*backend)?, backend)));
        match tried {
            Ok((accepted, backend)) => {
                tracing::debug!(backend = %name, ?passed_over, "selected");
                for failed in passed_over.iter().filter(|attempt: &&LoadAttempt| attempt.driver_failed()) {
                    tracing::warn!(backend = %name, %failed, "the driver of a backend failed, and another backend is used");
                }
                return Ok((backend, accepted, passed_over));
            }
            // The CPU must not replace a GPU that this process cannot use, as after a fork, or without free descriptors.
            Err(error)
                if matches!(choice, BackendChoice::Named(_)) || error.kind() == ErrorKind::System && wants_gpu =>
            {
                return Err(error.with_backend(&name.to_string()));
            }
            Err(error) => passed_over.push(LoadAttempt::failed(name.to_string(), &error)),
        }
    }
    Err(Error::new(
        ErrorKind::NoDevice,
        operation,
        "no backend of this build has a usable device, or none has the exporter's",
    )
    .with_attempts(passed_over))
}

/// Loads every backend, in the order of `auto`. Each entry is the backend or the error of loading it.
#[doc(alias("cuDeviceGetCount", "cudaGetDeviceCount", "hipGetDeviceCount"))]
#[must_use]
pub fn available() -> Vec<(BackendName, Result<Arc<dyn Backend>>)> {
    CANDIDATES.iter().map(|candidate| (candidate.name(), candidate.load())).collect()
}

/// Backends of this project. A build contains those whose Cargo feature is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum BackendName {
    /// NVIDIA's driver.
    Cuda,
    /// AMD's driver.
    Hip,
    /// The CPU.
    Host,
}

impl BackendName {
    /// Backend of `device`; `None` for a backend of another crate.
    #[must_use]
    pub fn of(device: &Device) -> Option<Self> {
        device.backend().name.parse().ok()
    }
}

impl FromStr for BackendName {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for anything but `cuda`, `hip` and
    /// `host`, in any case.
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "cuda" => Ok(Self::Cuda),
            "hip" => Ok(Self::Hip),
            "host" => Ok(Self::Host),
            _ => Err(Error::invalid("BackendName::from_str", "the backend must be cuda, hip or host")
                .with_context("given", format_args!("{text:?}"))),
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Host => "host",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_parse_and_print() {
        for text in ["auto", "cuda", "hip", "host"] {
            assert_eq!(text.parse::<BackendChoice>().expect(text).to_string(), text);
        }
        assert_eq!("HOST".parse::<BackendChoice>().expect("any case"), BackendChoice::Named(BackendName::Host));
        let error = "cpu".parse::<BackendChoice>().expect_err("no such backend");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("\"cpu\""), "{error}");
    }

    #[test]
    fn a_backend_that_is_not_compiled_in_is_unsupported() {
        use crate::candidate::{AbsentCandidate, Candidate};
        let error = AbsentCandidate(BackendName::Hip).load().expect_err("absent");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("no hip backend"), "{error}");
    }

    #[test]
    fn a_failed_driver_is_told_from_an_absent_one() {
        let failed = |kind| LoadAttempt::failed("cuda", &Error::new(kind, "cuInit", "no")).driver_failed();
        use ErrorKind::{Driver, DriverNotFound, DriverTooOld, NoDevice, System, Unsupported};
        assert_eq!([Driver, System, DriverTooOld].map(failed), [true; 3]);
        assert_eq!([DriverNotFound, NoDevice, Unsupported].map(failed), [false; 3]);
        assert!(!LoadAttempt::new("cuda", "cuInit: driver error").driver_failed());
    }

    #[cfg(feature = "host")]
    #[test]
    fn a_device_is_found_by_its_exporters_identity() {
        use gpu_interop_core::{DeviceKind, Uuid};
        let selection = select(BackendChoice::Named(BackendName::Host)).expect("the host backend always loads");
        assert_eq!(selection.backend.info().name, "host");
        let lavapipe = DeviceIdentity::new("llvmpipe", DeviceKind::Cpu).with_uuid(Uuid::from_bytes([7; 16]));
        let open = |identity: &DeviceIdentity| {
            let load = AnyCandidate::load;
            first_usable("test", BackendChoice::Auto, true, load, |backend| Device::open_matching(backend, identity))
        };
        let device = open(&lavapipe).expect("the CPU").1;
        assert_eq!((BackendName::of(&device), device.ordinal()), (Some(BackendName::Host), Some(0)));
        let card = lavapipe.with_name("some card").with_kind(DeviceKind::Gpu);
        let error = open(&card).expect_err("no GPU backend in this build");
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.attempts().iter().any(|attempt| attempt.target == "host"), "{error}");
    }

    #[cfg(feature = "host")]
    #[test]
    fn kernels_of_the_application_run_on_the_exporters_cpu() {
        use gpu_interop_core::{DeviceKind, KernelArg, LaunchConfig, ModuleImage};
        use gpu_interop_host::HostBackend;
        let (sender, sums) = std::sync::mpsc::channel();
        let add = move |call: &gpu_interop_host::KernelCall<'_>| {
            sender.send(call.u32(0)? + call.u32(1)?).map_err(|error| error.to_string())
        };
        let host = Arc::new(HostBackend::builder().kernel(c"add".into(), add).build());
        let device = device_for_with_host(&DeviceIdentity::new("llvmpipe", DeviceKind::Cpu), host).expect("the CPU");
        let stream = device.create_stream().expect("stream");
        let kernel = device.load_module(ModuleImage::Builtin).expect("module").kernel(c"add").expect("kernel");
        // SAFETY: the kernel takes two 32-bit integers.
        unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &[KernelArg::U32(20), KernelArg::U32(22)]) }
            .expect("launch");
        stream.synchronize().expect("no error");
        assert_eq!(sums.try_recv(), Ok(42));
    }
}
