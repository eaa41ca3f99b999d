//! The devices of a measurement: one through each binding, and Vulkan's on the other side.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use gpu_interop::vulkan::{
    BufferOptions, DeviceChoice, ExportableBuffer, ExportableSemaphore, HeadlessContext, HeadlessOptions, QueueKind,
    ash::vk,
};
use gpu_interop::{
    Backend, Device, DeviceKind, ErrorKind, ExportableMemory, Feature, MemoryImport, SemaphoreImport, SemaphorePayload,
    Stream,
};
use gpu_interop_conformance::system::set_variable;
use gpu_interop_conformance::{BackendUnderTest, ExportedSemaphore, ExporterDetail, Stop, Verdict, request};

use super::sys::{Cudarc, RawCuda};

/// The variable that names the driver's file, for the library and the measurements.
pub(super) const CUDA_LIBRARY_VARIABLE: &str = "GPU_INTEROP_CUDA_LIBRARY";

/// Timeout of waits.
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The device, and the other bindings and exporters on the same hardware.
pub(super) struct Machine {
    pub(super) under_test: Arc<BackendUnderTest>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) stream: Stream,
    pub(super) device: Device,
    /// CUDA's driver, called directly.
    pub(super) raw: Verdict<RawCuda>,
    pub(super) cudarc: Verdict<Cudarc>,
    /// Without validation, which would distort measurements.
    pub(super) vulkan: Verdict<HeadlessContext>,
    transfer: OnceCell<Verdict<HeadlessContext>>,
}

impl Machine {
    /// Opens the first device of the backend. Other parts are optional.
    pub(super) fn open(under_test: &Arc<BackendUnderTest>) -> Verdict<Self> {
        let backend = under_test.load()?;
        let device = Device::open(&*backend, 0)?;
        let raw = raw(&*backend);
        let cudarc = raw.as_ref().map_err(Clone::clone).and_then(|_| cudarc());
        let vulkan = vulkan(&device, QueueKind::General);
        let stream = device.create_stream()?;
        let transfer = OnceCell::new();
        Ok(Self { under_test: under_test.clone(), backend, stream, device, raw, cudarc, vulkan, transfer })
    }

    /// The Vulkan device with a graphics queue, or a compute queue.
    pub(super) fn graphics_queue(&self) -> Verdict<&HeadlessContext> {
        self.vulkan.as_ref().map_err(Clone::clone)
    }

    /// The Vulkan device with a transfer queue; opened at first use.
    pub(super) fn transfer_queue(&self) -> Verdict<&HeadlessContext> {
        let transfer = self.transfer.get_or_init(|| vulkan(&self.device, QueueKind::TransferOnly));
        transfer.as_ref().map_err(Clone::clone)
    }

    pub(super) fn is_gpu(&self) -> bool {
        self.device.identity().kind != DeviceKind::Cpu
    }

    /// `true` for the driver of a GPU, for which limits relative to a peer are meant: on a CPU and on a simulator both sides
    /// share the processors.
    pub(super) fn is_judged(&self) -> bool {
        self.is_gpu() && !self.backend.info().simulated
    }

    pub(super) fn exporter(&self) -> Option<ExporterDetail> {
        let context = self.vulkan.as_ref().ok()?;
        Some(ExporterDetail { device: context.identity().clone(), driver: context.interop().driver() })
    }
}

/// The backend's driver, for raw calls.
fn raw(backend: &dyn Backend) -> Verdict<RawCuda> {
    let info = backend.info();
    if info.name != "cuda" {
        return Err(Stop::unsupported(format!(
            "the backend {} has no driver that could be called directly",
            info.name
        )));
    }
    let file = info.library.as_ref().map_or("libcuda.so.1".as_ref(), |file| file.as_os_str());
    // The backend has loaded this driver, so a failure is not a missing driver.
    let raw = RawCuda::open(file, 0).map_err(|stop| Stop::failed(stop.reason().into()))?;
    // Once, as an application does at its start. Later calls of the library find it current.
    raw.make_current()?;
    Ok(raw)
}

fn cudarc() -> Verdict<Cudarc> {
    if let Some(file) = set_variable(CUDA_LIBRARY_VARIABLE) {
        return Err(Stop::unsupported(format!(
            "cudarc looks for the driver itself and does not use {}",
            file.display()
        )));
    }
    Cudarc::open(0)
}

fn vulkan(device: &Device, queue: QueueKind) -> Verdict<HeadlessContext> {
    let choice = DeviceChoice::Identity(gpu_interop_conformance::vulkan_device(device)?);
    HeadlessContext::new(&HeadlessOptions::default().device(choice).queue(queue)).map_err(|error| match error.kind() {
        ErrorKind::NoDevice => Stop::unsupported(error.to_string()),
        _ => error.into(),
    })
}

/// Exported memory; every import request gets a new handle.
pub(super) enum Source {
    Vulkan(ExportableBuffer),
    Native(ExportableMemory),
}

impl Source {
    /// Memory of Vulkan, or of the device itself without Vulkan. Every word is `word`.
    pub(super) fn new(machine: &Machine, size: u64, word: u32) -> Verdict<Self> {
        Self::with(machine, &BufferOptions::new(size, TRANSFER), word)
    }

    /// The same with a dedicated allocation, if there is Vulkan.
    pub(super) fn dedicated(machine: &Machine, size: u64, word: u32) -> Verdict<Self> {
        Self::with(machine, &BufferOptions::new(size, TRANSFER).dedicated(true), word)
    }

    fn with(machine: &Machine, options: &BufferOptions, word: u32) -> Verdict<Self> {
        let size = options.size;
        let Ok(context) = &machine.vulkan else {
            if let Some(reason) = machine.device.capabilities().feature(Feature::ExportableMemory).reason() {
                return Err(Stop::unsupported(format!("Vulkan and exportable memory are unavailable: {reason}")));
            }
            let memory = machine.device.allocate_exportable(size).map_err(too_much)?;
            machine.stream.fill_u32(&memory, word)?;
            machine.stream.synchronize()?;
            return Ok(Self::Native(memory));
        };
        if size > context.interop().max_allocation_size() {
            return Err(Stop::unsupported(format!("the Vulkan device allocates no {size} bytes at once")));
        }
        let buffer = ExportableBuffer::new(context.interop(), options).map_err(too_much)?;
        context.fill(buffer.buffer(), 0, size, word)?;
        context.release(buffer.buffer())?;
        Ok(Self::Vulkan(buffer))
    }

    /// A new handle with size and dedicated flag.
    pub(super) fn request(&self) -> Verdict<MemoryImport> {
        match self {
            Self::Vulkan(buffer) => Ok(buffer.import_request()?),
            Self::Native(memory) => Ok(request::memory(memory.export()?, memory.size())),
        }
    }
}

/// Usage of the measurements' buffers.
pub(super) const TRANSFER: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// Too little memory, or a missing memory type, is not a failure of the library.
pub(super) fn too_much(error: gpu_interop::Error) -> Stop {
    match error.kind() {
        ErrorKind::OutOfMemory => Stop::skipped(error.to_string()),
        ErrorKind::Unsupported => Stop::unsupported(error.to_string()),
        _ => error.into(),
    }
}

/// A timeline on the exporter's side.
pub(super) enum Timeline {
    Vulkan(ExportableSemaphore),
    Own(Box<dyn ExportedSemaphore>),
}

impl Timeline {
    /// A timeline of Vulkan, or of the backend itself where it imports no others.
    pub(super) fn new(machine: &Machine) -> Verdict<Self> {
        if let Some(make) = machine.under_test.semaphores() {
            return Ok(Self::Own(make(SemaphorePayload::Timeline, 0)?));
        }
        let context = machine.vulkan.as_ref().map_err(Clone::clone)?;
        Ok(Self::Vulkan(ExportableSemaphore::timeline(context.interop(), 0)?))
    }

    pub(super) fn import_request(&self) -> Verdict<SemaphoreImport> {
        match self {
            Self::Vulkan(semaphore) => Ok(semaphore.import_request()?),
            Self::Own(semaphore) => semaphore.import_request(),
        }
    }

    /// Fails unless the exporter reads this value.
    pub(super) fn must_have_reached(&self, value: u64) -> Verdict {
        match self {
            Self::Vulkan(semaphore) => Ok(semaphore.semaphore().wait(value, WAIT_TIMEOUT)?),
            Self::Own(semaphore) if semaphore.wait(value, WAIT_TIMEOUT)? => Ok(()),
            Self::Own(_) => Err(Stop::failed(format!("the exporter never saw the value {value}"))),
        }
    }
}
