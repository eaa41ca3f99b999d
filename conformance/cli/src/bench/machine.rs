//! What is measured: the device through each binding, and Vulkan on the other side.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use gpu_interop::vulkan::{
    BufferOptions, Context, ContextOptions, DeviceChoice, ExportableBuffer, ExportableSemaphore, QueueKind, ash::vk,
};
use gpu_interop::{
    Backend, Device, DeviceKind, ErrorKind, ExportableMemory, Feature, MemoryImport, SemaphoreImport, SemaphorePayload,
    Stream,
};
use gpu_interop_conformance::{BackendUnderTest, ExportedSemaphore, ExporterDetail, Stop, Verdict, request};

use super::sys::{Cudarc, RawCuda};

/// How long the run waits for something that should happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// The device, and everything else that could be opened on the same hardware.
pub(super) struct Machine {
    pub(super) under_test: Arc<BackendUnderTest>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) stream: Stream,
    pub(super) device: Device,
    /// CUDA's driver, called directly.
    pub(super) raw: Verdict<RawCuda>,
    pub(super) cudarc: Verdict<Cudarc>,
    /// Without validation, which would be measured too.
    pub(super) vulkan: Verdict<Context>,
    transfer: OnceCell<Verdict<Context>>,
}

impl Machine {
    /// Opens the first device of the backend. What else cannot be opened is left out.
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

    /// The same Vulkan device with a queue that draws, or computes at least.
    pub(super) fn graphics_queue(&self) -> Verdict<&Context> {
        self.vulkan.as_ref().map_err(Clone::clone)
    }

    /// The same Vulkan device with a queue that only copies; opened when first asked for.
    pub(super) fn transfer_queue(&self) -> Verdict<&Context> {
        let transfer = self.transfer.get_or_init(|| vulkan(&self.device, QueueKind::TransferOnly));
        transfer.as_ref().map_err(Clone::clone)
    }

    /// Whether the device is a GPU, on which much takes little time.
    pub(super) fn is_gpu(&self) -> bool {
        self.device.identity().kind != DeviceKind::Cpu
    }

    pub(super) fn exporter(&self) -> Option<ExporterDetail> {
        let context = self.vulkan.as_ref().ok()?;
        Some(ExporterDetail { device: context.identity().clone(), driver: context.interop().driver() })
    }
}

/// The driver that the backend is using, called directly.
fn raw(backend: &dyn Backend) -> Verdict<RawCuda> {
    let info = backend.info();
    if info.name != "cuda" {
        return Err(Stop::Unsupported(format!(
            "the backend {} has no driver that could be called directly",
            info.name
        )));
    }
    let file = info.library.as_ref().map_or("libcuda.so.1".as_ref(), |file| file.as_os_str());
    // The backend has just loaded it: what fails now is no missing driver, and must not pass for one.
    let raw = RawCuda::open(file, 0).map_err(|stop| Stop::Failed(stop.reason().into()))?;
    // Once, as an application does at its start. The library finds it current from then on.
    raw.make_current()?;
    Ok(raw)
}

fn cudarc() -> Verdict<Cudarc> {
    if let Some(file) = std::env::var_os(super::CUDA_LIBRARY_VARIABLE).filter(|file| !file.is_empty()) {
        return Err(Stop::Unsupported(format!(
            "cudarc looks for the driver in its own way and would not take {}",
            file.display()
        )));
    }
    Cudarc::open(0)
}

fn vulkan(device: &Device, queue: QueueKind) -> Verdict<Context> {
    let choice = DeviceChoice::Identity(gpu_interop_conformance::vulkan_device(device)?);
    Context::new(&ContextOptions::default().device(choice).queue(queue)).map_err(|error| match error.kind() {
        ErrorKind::NoDevice => Stop::Unsupported(error.to_string()),
        _ => error.into(),
    })
}

/// Memory to import, again and again: every request has a handle of its own.
pub(super) enum Source {
    Vulkan(ExportableBuffer),
    Native(ExportableMemory),
}

impl Source {
    /// Vulkan's, or the device's own where there is no Vulkan. Every word is `word`.
    pub(super) fn new(machine: &Machine, size: u64, word: u32) -> Verdict<Self> {
        Self::with(machine, &BufferOptions::new(size, TRANSFER), word)
    }

    /// The same with an allocation of its own, where there is Vulkan.
    pub(super) fn dedicated(machine: &Machine, size: u64, word: u32) -> Verdict<Self> {
        Self::with(machine, &BufferOptions::new(size, TRANSFER).dedicated(true), word)
    }

    fn with(machine: &Machine, options: &BufferOptions, word: u32) -> Verdict<Self> {
        let size = options.size;
        let Ok(context) = &machine.vulkan else {
            if let Some(reason) = machine.device.capabilities().feature(Feature::ExportableMemory).reason() {
                return Err(Stop::Unsupported(format!("there is no Vulkan, and no exportable memory: {reason}")));
            }
            let memory = machine.device.allocate_exportable(size).map_err(too_much)?;
            machine.stream.fill_u32(&memory, word)?;
            machine.stream.synchronize()?;
            return Ok(Self::Native(memory));
        };
        if size > context.interop().max_allocation_size() {
            return Err(Stop::Unsupported(format!("the Vulkan device allocates no {size} bytes at once")));
        }
        let buffer = ExportableBuffer::new(context.interop(), options).map_err(too_much)?;
        context.fill(buffer.buffer(), 0, size, word)?;
        context.release(buffer.buffer())?;
        Ok(Self::Vulkan(buffer))
    }

    /// A new handle, with what an importer must be told.
    pub(super) fn request(&self) -> Verdict<MemoryImport> {
        match self {
            Self::Vulkan(buffer) => Ok(buffer.import_request()?),
            Self::Native(memory) => Ok(request::memory(memory.export()?, memory.size())),
        }
    }
}

/// What buffers of the measurements are used for.
pub(super) const TRANSFER: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// A device without the memory for a measurement, or without such memory, is no failure of the library.
pub(super) fn too_much(error: gpu_interop::Error) -> Stop {
    match error.kind() {
        ErrorKind::OutOfMemory => Stop::Skipped(error.to_string()),
        ErrorKind::Unsupported => Stop::Unsupported(error.to_string()),
        _ => error.into(),
    }
}

/// A timeline on the exporter's side.
pub(super) enum Timeline {
    Vulkan(ExportableSemaphore),
    Own(Box<dyn ExportedSemaphore>),
}

impl Timeline {
    /// Vulkan's, or the backend's own where it imports no others.
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

    /// Fails unless the exporter sees this value.
    pub(super) fn must_have_reached(&self, value: u64) -> Verdict {
        match self {
            Self::Vulkan(semaphore) => Ok(semaphore.semaphore().wait(value, PATIENCE)?),
            Self::Own(semaphore) if semaphore.wait(value, PATIENCE)? => Ok(()),
            Self::Own(_) => Err(Stop::Failed(format!("the exporter never saw the value {value}"))),
        }
    }
}
