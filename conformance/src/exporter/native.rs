//! The device's own exportable memory. Lets the suite run where there is no graphics API.

use std::sync::Arc;

use gpu_interop::{Device, DeviceIdentity, ExportableMemory, Feature, MemoryImport, SemaphorePayload, Stream};

use super::{BufferSpec, ExportedBuffer, ExportedSemaphore, Exporter, Placement};
use crate::backend_under_test::{BackendUnderTest, MakeSemaphore};
use crate::outcome::{Stop, Verdict};

pub(super) struct NativeExporter {
    /// Opened apart from the importing device, so that nothing is shared but the memory.
    device: Device,
    stream: Arc<Stream>,
    semaphores: Option<MakeSemaphore>,
}

impl NativeExporter {
    pub(super) fn open(backend: &BackendUnderTest, importer: &Device) -> Verdict<Self> {
        if let Some(reason) = importer.capabilities().feature(Feature::ExportableMemory).reason() {
            return Err(Stop::Unsupported(format!("the device has no exportable memory: {reason}")));
        }
        let device = Device::open_matching(&*backend.load()?, importer.identity())?;
        let stream = Arc::new(device.create_stream()?);
        // Whatever the stream needs, its thread in the host backend, is there before a scenario counts anything.
        stream.record(&device.create_event()?)?;
        stream.synchronize()?;
        Ok(Self { device, stream, semaphores: backend.semaphores() })
    }

    fn semaphore(&self, payload: SemaphorePayload, value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        match self.semaphores {
            Some(make) => make(payload, value),
            None => Err(Stop::Unsupported("this backend has no exportable semaphores of its own".into())),
        }
    }
}

impl Exporter for NativeExporter {
    fn identity(&self) -> &DeviceIdentity {
        self.device.identity()
    }

    fn describe(&self) -> String {
        let info = self.device.backend();
        format!("exportable memory of {}: {}", info.name, info.driver)
    }

    fn buffer(&self, spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>> {
        if spec.placement == Placement::HostVisible || spec.dedicated {
            return Err(Stop::Unsupported("native memory has one form: neither host-visible nor dedicated".into()));
        }
        let memory = self.device.allocate_exportable(spec.size)?;
        Ok(Box::new(NativeBuffer {
            memory,
            stream: self.stream.clone(),
            size: spec.size,
            identity: self.device.identity().clone(),
        }))
    }

    fn binary_semaphore(&self) -> Verdict<Box<dyn ExportedSemaphore>> {
        self.semaphore(SemaphorePayload::Binary, 0)
    }

    fn timeline_semaphore(&self, value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        self.semaphore(SemaphorePayload::Timeline, value)
    }
}

struct NativeBuffer {
    memory: ExportableMemory,
    stream: Arc<Stream>,
    size: u64,
    identity: DeviceIdentity,
}

impl ExportedBuffer for NativeBuffer {
    fn size(&self) -> u64 {
        self.size
    }

    fn import_request(&self) -> Verdict<MemoryImport> {
        let handle = self.memory.export()?;
        Ok(MemoryImport::new(handle, self.memory.size()).exported_by(self.identity.clone()))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        Ok(self.stream.write(self.memory.slice(offset..offset + data.len() as u64)?, data)?)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict {
        Ok(self.stream.read(self.memory.slice(offset..offset + data.len() as u64)?, data)?)
    }
}
