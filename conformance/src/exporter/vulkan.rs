//! A real Vulkan driver as the exporter.

use std::sync::Mutex;

use gpu_interop::vulkan::{
    BufferOptions, Context, ContextOptions, DeviceChoice, ExportableBuffer, MemoryPlacement, ValidationLog, ash::vk,
};
use gpu_interop::{Device, DeviceIdentity, ErrorKind, IdentityMatch, MemoryImport};

use super::{BufferSpec, Complaints, ExportedBuffer, Exporter, Placement};
use crate::outcome::{Stop, Verdict};

pub(super) struct VulkanExporter {
    context: Context,
    validated: bool,
}

impl VulkanExporter {
    /// Opens the Vulkan device that is the importing device, with the validation layer if it is installed.
    pub(super) fn open(importer: &Device) -> Verdict<Self> {
        let devices = Context::devices().map_err(|error| match error.kind() {
            ErrorKind::DriverNotFound | ErrorKind::DriverTooOld => Stop::Skipped(error.to_string()),
            _ => Stop::from(error),
        })?;
        let same = |identity: &&DeviceIdentity| importer.identity().compare(identity) == IdentityMatch::Same;
        let Some(identity) = devices.iter().find(same) else {
            let present: Vec<String> = devices.iter().map(ToString::to_string).collect();
            return Err(Stop::Skipped(format!(
                "Vulkan has no device that is {}; it has: {}. Install the Vulkan driver of this device (Debian, for the \
                 CPU: mesa-vulkan-drivers)",
                importer.identity(),
                if present.is_empty() { "none".into() } else { present.join("; ") }
            )));
        };
        let options = ContextOptions::default().device(DeviceChoice::Identity(identity.clone()));
        match Context::new(&options.clone().validation(true)) {
            Ok(context) => Ok(Self { context, validated: true }),
            // The layer is not installed.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Ok(Self { context: Context::new(&options)?, validated: false })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Exporter for VulkanExporter {
    fn identity(&self) -> &DeviceIdentity {
        self.context.identity()
    }

    fn describe(&self) -> String {
        let layer = if self.validated { "on" } else { "not installed" };
        format!("{}, validation layer {layer}", self.context.interop().driver())
    }

    fn buffer(&self, spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let placement = match spec.placement {
            Placement::HostVisible => MemoryPlacement::HostVisible,
            Placement::DeviceLocal => MemoryPlacement::DeviceLocal,
        };
        let options = BufferOptions::new(spec.size, usage).memory(placement).dedicated(spec.dedicated);
        let exported = ExportableBuffer::new(self.context.interop(), &options).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => Stop::Unsupported(error.to_string()),
            // SwiftShader refuses allocations of just the size that it gives as the largest. Anything smaller must be
            // there, or something leaks.
            ErrorKind::OutOfMemory if spec.size >= self.context.interop().max_allocation_size() => {
                Stop::Unsupported(error.to_string())
            }
            _ => Stop::from(error),
        })?;
        Ok(Box::new(VulkanBuffer {
            context: self.context.clone(),
            exported,
            placement: spec.placement,
            released: Mutex::new(false),
        }))
    }

    fn complaints(&self) -> Complaints {
        let log = self.context.validation_log();
        Box::new(move || log.as_ref().map(ValidationLog::errors).unwrap_or_default())
    }
}

struct VulkanBuffer {
    context: Context,
    exported: ExportableBuffer,
    placement: Placement,
    /// Whether the importer's side owns it (`VK_QUEUE_FAMILY_EXTERNAL`).
    released: Mutex<bool>,
}

impl VulkanBuffer {
    /// Takes the buffer back from the importer's side, runs `transfer`, and hands it over again.
    fn owned(&self, transfer: impl FnOnce() -> gpu_interop::Result<()>) -> Verdict {
        let mut released = self.released.lock().map_err(|_| Stop::Failed("another transfer panicked".into()))?;
        if *released {
            self.context.acquire(self.exported.buffer())?;
        }
        *released = false;
        transfer()?;
        self.context.release(self.exported.buffer())?;
        *released = true;
        Ok(())
    }
}

impl ExportedBuffer for VulkanBuffer {
    fn size(&self) -> u64 {
        self.exported.buffer().size()
    }

    fn import_request(&self) -> Verdict<MemoryImport> {
        Ok(self.exported.import_request()?)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        let buffer = self.exported.buffer();
        match self.placement {
            // The host's own accesses need no queue and no transfer of ownership.
            Placement::HostVisible => Ok(buffer.write(offset, data)?),
            Placement::DeviceLocal => self.owned(|| self.context.upload(buffer, offset, data)),
        }
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict {
        let buffer = self.exported.buffer();
        match self.placement {
            Placement::HostVisible => Ok(buffer.read(offset, data)?),
            Placement::DeviceLocal => self.owned(|| self.context.download(buffer, offset, data)),
        }
    }
}
