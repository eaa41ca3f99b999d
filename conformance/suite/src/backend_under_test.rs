//! A backend that the suite can run on.

use std::fmt;
use std::sync::Arc;

use gpu_interop::cuda::CudaBackend;
use gpu_interop::hip::HipBackend;
use gpu_interop::host::{ExporterHeader, HostBackend, HostSemaphore};
use gpu_interop::{Backend, BinaryImage, Device, ExporterTimeline, ModuleImage, Result, SemaphorePayload};

use crate::exporter::{ExportedSemaphore, is_met};
use crate::outcome::{Stop, Verdict};

type Load = Box<dyn Fn() -> Result<Arc<dyn Backend>> + Send + Sync>;
type Kernels = Box<dyn Fn(&Device) -> Verdict<ModuleImage<'static>> + Send + Sync>;

/// Creates exportable semaphores of the backend's own kind, from the payload type and the initial value.
pub type MakeSemaphore = fn(SemaphorePayload, u64) -> Verdict<Box<dyn ExportedSemaphore>>;

/// A backend: its name and a function that loads it. Loaded separately in every scenario's process.
pub struct BackendUnderTest {
    name: String,
    load: Load,
    kernels: Kernels,
    semaphores: Option<MakeSemaphore>,
    driver_api: Option<DriverApi>,
    system_objects: bool,
}

/// The vendor's API below a backend. Scenarios call some of its functions without the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverApi {
    /// NVIDIA's CUDA driver API.
    Cuda,
    /// AMD's HIP runtime API.
    Hip,
}

/// A use of the vendor's driver without the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverUse {
    /// The device's free memory.
    FreeMemory,
    /// Stream capture by a thread of the application.
    StreamCapture,
    /// Environment variables that hide devices.
    VisibleDevices,
    /// Malformed calls of CUDA's driver, in another process.
    RawCalls,
    /// A reset of the device by another library.
    Reset,
    /// Contexts of another library.
    Contexts,
    /// Streams of another library.
    Streams,
}

impl fmt::Display for DriverUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FreeMemory => "free memory of the device",
            Self::StreamCapture => "stream capture by the application",
            Self::VisibleDevices => "variables that hide devices",
            Self::RawCalls => "raw calls of CUDA's driver",
            Self::Reset => "a reset of the device",
            Self::Contexts => "contexts of another library",
            Self::Streams => "streams of another library",
        })
    }
}

impl DriverApi {
    /// `true` if the suite can use this API for a purpose.
    #[must_use]
    pub fn provides(self, used: DriverUse) -> bool {
        match used {
            DriverUse::RawCalls | DriverUse::Contexts => self == Self::Cuda,
            _ => true,
        }
    }

    /// `true` if a stream's wait for a greater word compares cyclically, so that 1 follows 2^32 - 16.
    #[must_use]
    pub fn waits_cyclically(self) -> bool {
        // HIP documents *ptr & mask >= value.
        self != Self::Hip
    }
}

impl BackendUnderTest {
    /// A backend that `load` loads. It is expected to have built-in kernels, or to report that it has none.
    #[must_use]
    pub fn new(name: impl Into<String>, load: impl Fn() -> Result<Arc<dyn Backend>> + Send + Sync + 'static) -> Self {
        let kernels: Kernels = Box::new(|_| Ok(ModuleImage::Builtin));
        Self {
            name: name.into(),
            load: Box::new(load),
            kernels,
            semaphores: None,
            driver_api: None,
            system_objects: false,
        }
    }

    /// Sets the module that has the kernels of `gpu-interop-kernels` for this backend.
    #[must_use]
    pub fn with_kernels(self, image: ModuleImage<'static>) -> Self {
        self.with_kernels_for(move |_| Ok(image))
    }

    /// As [`BackendUnderTest::with_kernels`], for backends whose devices need different modules.
    #[must_use]
    pub fn with_kernels_for(
        mut self,
        choose: impl Fn(&Device) -> Verdict<ModuleImage<'static>> + Send + Sync + 'static,
    ) -> Self {
        self.kernels = Box::new(choose);
        self
    }

    /// Adds exportable semaphores, for backends with their own kind.
    #[must_use]
    pub fn with_semaphores(mut self, make: MakeSemaphore) -> Self {
        self.semaphores = Some(make);
        self
    }

    /// Names the vendor's API below the backend. Without it, scenarios that call the driver directly are unsupported.
    #[must_use]
    pub fn with_driver_api(mut self, api: DriverApi) -> Self {
        self.driver_api = Some(api);
        self
    }

    /// Declares that the backend's memory and semaphores are objects of the operating system, not of a GPU driver:
    /// graphics APIs neither share semaphores with it nor import its memory, and it imports the system's own shared
    /// memory.
    #[must_use]
    pub fn with_system_objects(mut self) -> Self {
        self.system_objects = true;
        self
    }

    /// NVIDIA's driver.
    #[must_use]
    pub fn cuda() -> Self {
        Self::new("cuda", || Ok(Arc::new(CudaBackend::load()?) as Arc<dyn Backend>))
            .with_kernels(ModuleImage::Ptx(gpu_interop_kernels::ptx()))
            .with_driver_api(DriverApi::Cuda)
    }

    /// AMD's runtime.
    #[must_use]
    pub fn hip() -> Self {
        Self::new("hip", || Ok(Arc::new(HipBackend::load()?) as Arc<dyn Backend>))
            .with_kernels_for(code_object)
            .with_driver_api(DriverApi::Hip)
    }

    /// The host backend.
    #[must_use]
    pub fn host() -> Self {
        // SAFETY: headers at the start of memory are detected.
        unsafe { Self::host_with(ExporterHeader::Detect) }
    }

    /// The host backend, reading imported memory in a given way.
    ///
    /// # Safety
    /// As for `HostBackendBuilder::exporter_header`.
    #[must_use]
    pub unsafe fn host_with(header: ExporterHeader) -> Self {
        Self::new("host", move || {
            // SAFETY: the caller's promise.
            let builder = unsafe { HostBackend::builder().exporter_header(header) };
            Ok(Arc::new(builder.build()) as Arc<dyn Backend>)
        })
        .with_semaphores(host_semaphore)
        .with_system_objects()
    }

    /// The name by which `--backend` finds it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Loads it.
    ///
    /// # Errors
    /// The backend's error.
    pub fn load(&self) -> Result<Arc<dyn Backend>> {
        (self.load)()
    }

    /// The module that has the kernels for a device.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if the device has none.
    pub fn kernels(&self, device: &Device) -> Verdict<ModuleImage<'static>> {
        (self.kernels)(device)
    }

    /// The vendor's API below the backend, if known.
    #[must_use]
    pub fn driver_api(&self) -> Option<DriverApi> {
        self.driver_api
    }

    /// `true` if its memory and semaphores are objects of the operating system.
    #[must_use]
    pub fn has_system_objects(&self) -> bool {
        self.system_objects
    }

    /// Creates a semaphore of the backend's own kind; `None` if it has none.
    #[must_use]
    pub fn semaphores(&self) -> Option<MakeSemaphore> {
        self.semaphores
    }
}

impl fmt::Debug for BackendUnderTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackendUnderTest({})", self.name)
    }
}

/// The code object for an AMD GPU.
fn code_object(device: &Device) -> Verdict<ModuleImage<'static>> {
    let architecture = device.architecture().unwrap_or_default();
    let Some(bytes) = gpu_interop_kernels::code_object(architecture) else {
        return Err(Stop::unsupported(format!("no kernels are built for the architecture `{architecture}`")));
    };
    // SAFETY: whole code objects, which the tests of `gpu-interop-kernels` read to the end.
    Ok(ModuleImage::Binary(unsafe { BinaryImage::new(bytes) }))
}

/// An exportable semaphore of the host backend.
///
/// # Errors
/// If the kernel has no shared memory, or the host backend does not support the payload.
pub fn host_semaphore(payload: SemaphorePayload, value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
    match payload {
        SemaphorePayload::Binary => Ok(Box::new(HostSemaphore::binary()?)),
        SemaphorePayload::Timeline => Ok(Box::new(HostSemaphore::timeline(value)?)),
        other => Err(Stop::unsupported(format!("the host backend has no {other:?} semaphores"))),
    }
}

impl ExportedSemaphore for HostSemaphore {
    fn export(&self) -> Verdict<gpu_interop::SemaphoreHandle> {
        Ok(HostSemaphore::export(self)?)
    }

    fn import_request(&self) -> Verdict<gpu_interop::SemaphoreImport> {
        Ok(HostSemaphore::import_request(self)?)
    }

    fn signal(&self, value: u64) -> Verdict {
        Ok(match self.payload() {
            SemaphorePayload::Binary => HostSemaphore::signal(self),
            _ => self.signal_value(value),
        }?)
    }

    fn wait(&self, value: u64, timeout: std::time::Duration) -> Verdict<bool> {
        let waited = match self.payload() {
            SemaphorePayload::Binary => HostSemaphore::wait(self, timeout),
            _ => self.wait_value(value, timeout),
        };
        is_met(waited)
    }

    fn as_timeline(&self) -> Option<Arc<dyn ExporterTimeline>> {
        (self.payload() == SemaphorePayload::Timeline).then(|| Arc::new(self.clone()) as Arc<dyn ExporterTimeline>)
    }
}
