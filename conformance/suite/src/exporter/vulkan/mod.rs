//! A real Vulkan driver as exporter.

mod buffer;
mod image;

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    BufferImportOptions, BufferOptions, DeviceChoice, ExportableBuffer, ExportableSemaphore, HeadlessContext,
    HeadlessOptions, ImportedBuffer, ImportedSemaphore, OwnedSemaphore, QueueKind, SemaphoreOp, ValidationLog,
    VulkanInterop,
};
use gpu_interop::{
    Device, DeviceIdentity, ErrorKind, ExporterTimeline, IdentityMatch, MemoryImport, SemaphoreHandle, SemaphoreImport,
    SemaphorePayload,
};

use buffer::{Spare, VulkanAccess, VulkanBuffer};
use buffer::{Staging, USAGE};
use image::VulkanImage;

use super::buffer::too_great;
use super::{
    BufferAccess, BufferSpec, Complaints, ExportedBuffer, ExportedImage, ExportedSemaphore, Exporter, ExporterFeature,
    ExporterName, ImageSpec, NO_LAYER, Placement, is_met,
};
use crate::backend_under_test::BackendUnderTest;
use crate::exporter::Point;
use crate::exporter::semaphore::{Relabelled, handle_of};
use crate::outcome::{Stop, Verdict};
use crate::request;
use crate::system::{self, OsHandle};

pub(super) struct VulkanExporter {
    context: HeadlessContext,
    validated: bool,
    unchecked: Option<String>,
    /// The reasons why the importing backend shares no semaphores with Vulkan, and why Vulkan imports none of its
    /// memory.
    no_semaphores: Option<&'static str>,
    no_imports: Option<&'static str>,
    spare: Arc<Spare>,
    /// Staging memory of the queue for buffers, and of that for images.
    staging: [Arc<Staging>; 2],
}

/// `compute`: the exporter uses a queue without graphics, on which images are copied and cleared without draws.
const QUEUE_VARIABLE: &str = "GPU_INTEROP_VULKAN_QUEUE";

impl VulkanExporter {
    /// Opens the Vulkan device of the importing device, with the validation layer if it is installed and usable.
    pub(super) fn open(backend: &BackendUnderTest, importer: &Device, signals_by_host: bool) -> Verdict<Self> {
        let identity = same_device(importer)?;
        let options = HeadlessOptions::default().device(DeviceChoice::Identity(identity)).copying(true);
        // Other queues and features are for operations that the scenarios record themselves.
        let options = options.computing(true).drawing(true);
        let queue = match system::set_variable(QUEUE_VARIABLE) {
            Some(kind) if kind == "compute" => QueueKind::ComputeOnly,
            Some(other) => {
                return Err(Stop::failed(format!("{QUEUE_VARIABLE}={}: use `compute`, or unset it", other.display())));
            }
            None => QueueKind::General,
        };
        let options = options.queue(queue);
        let unchecked = if signals_by_host { deadlocks()? } else { None };
        let (context, validated) = match HeadlessContext::new(&options.clone().validation(unchecked.is_none())) {
            Ok(context) => (context, unchecked.is_none()),
            // The layer is not installed.
            Err(error) if error.kind() == ErrorKind::Unsupported => (HeadlessContext::new(&options)?, false),
            Err(error) => return Err(error.into()),
        };
        let lacks = |feature| ExporterName::Vulkan.lacks(feature, backend);
        let (no_semaphores, no_imports) = (lacks(ExporterFeature::TimelineSemaphores), lacks(ExporterFeature::Imports));
        let staging = [Arc::new(Staging::new(&context)?), Arc::new(Staging::new(&context)?)];
        Ok(Self { staging, context, validated, unchecked, no_semaphores, no_imports, spare: Arc::default() })
    }
}

/// The Vulkan device of the importing device.
pub fn same_device(importer: &Device) -> Verdict<DeviceIdentity> {
    let devices = HeadlessContext::devices().map_err(|error| match error.kind() {
        ErrorKind::DriverNotFound | ErrorKind::DriverTooOld => Stop::skipped(error.to_string()),
        _ => Stop::from(error),
    })?;
    let same = |identity: &&DeviceIdentity| importer.identity().compare(identity) == IdentityMatch::Same;
    devices.iter().find(same).cloned().ok_or_else(|| {
        let present: Vec<String> = devices.iter().map(ToString::to_string).collect();
        Stop::skipped(format!(
            "Vulkan has no device that is {}; it has: {}. Install the Vulkan driver of this device{}",
            importer.identity(),
            if present.is_empty() { "none".into() } else { present.join("; ") },
            system::VULKAN_ON_CPU,
        ))
    })
}

impl VulkanExporter {
    fn semaphore(
        &self,
        make: impl FnOnce(&VulkanInterop) -> gpu_interop::Result<ExportableSemaphore>,
    ) -> Verdict<Box<dyn ExportedSemaphore>> {
        if let Some(reason) = self.no_semaphores {
            return Err(Stop::unsupported(reason.into()));
        }
        let exported = make(self.context.interop()).map_err(Stop::attempted)?;
        Ok(Box::new(VulkanSemaphore { context: self.context.clone(), exported }))
    }
}

impl Exporter for VulkanExporter {
    fn identity(&self) -> &DeviceIdentity {
        self.context.identity()
    }

    fn describe(&self) -> String {
        let layer = if self.validated { "validation layer on" } else { NO_LAYER };
        format!("{}, {layer}", self.context.interop().driver())
    }

    fn buffer(&self, spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>> {
        let options = BufferOptions::new(spec.size, USAGE).memory(spec.placement.into()).dedicated(spec.dedicated);
        let exported = ExportableBuffer::new(self.context.interop(), &options).map_err(|error| match error.kind() {
            // SwiftShader rejects allocations of exactly its reported maximum. A smaller one fails only after a leak.
            ErrorKind::OutOfMemory if spec.size >= self.context.interop().max_allocation_size() => {
                Stop::unsupported(error.to_string())
            }
            ErrorKind::OutOfMemory => too_great(spec.size, error),
            _ => Stop::attempted(error),
        })?;
        let access = VulkanAccess {
            context: self.context.clone(),
            buffer: exported.buffer().clone(),
            placement: spec.placement,
            released: Mutex::new(false),
            spare: self.spare.clone(),
            staging: self.staging[0].clone(),
        };
        Ok(Box::new(VulkanBuffer { access, exported }))
    }

    fn image(&self, spec: ImageSpec) -> Verdict<Box<dyn ExportedImage>> {
        Ok(Box::new(VulkanImage::new(&self.context, spec, self.staging[1].clone())?))
    }

    fn import(&self, request: MemoryImport, size: u64) -> Verdict<Box<dyn BufferAccess>> {
        if let Some(reason) = self.no_imports {
            return Err(Stop::unsupported(reason.into()));
        }
        let options = BufferImportOptions::new(size, USAGE);
        let imported = ImportedBuffer::new(self.context.interop(), request, &options)?;
        let buffer = imported.buffer().clone();
        let released = Mutex::new(true);
        Ok(Box::new(VulkanAccess {
            context: self.context.clone(),
            buffer,
            placement: Placement::DeviceLocal,
            released,
            spare: self.spare.clone(),
            staging: self.staging[0].clone(),
        }))
    }

    fn binary_semaphore(&self) -> Verdict<Box<dyn ExportedSemaphore>> {
        self.semaphore(ExportableSemaphore::binary)
    }

    fn timeline_semaphore(&self, value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        self.semaphore(|interop| ExportableSemaphore::timeline(interop, value))
    }

    fn timeline(&self, value: u64) -> Verdict<Arc<dyn ExporterTimeline>> {
        create_timeline(self.context.interop(), value, self.no_semaphores.is_none())
    }

    fn timeline_reach(&self) -> u64 {
        self.context.interop().max_timeline_difference()
    }

    fn send_timeline(&self, timeline: &dyn ExporterTimeline) -> Verdict<OsHandle> {
        send_timeline(timeline)
    }

    fn open_timeline(&self, timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
        open_timeline(self.context.interop(), timeline)
    }

    fn binary_as_timeline(&self) -> Verdict<Arc<dyn ExporterTimeline>> {
        binary_timeline(self.context.interop())
    }

    fn vulkan(&self) -> Option<&HeadlessContext> {
        Some(&self.context)
    }

    fn complaints(&self) -> Complaints {
        let log = self.context.validation_log();
        Box::new(move || log.as_ref().map(ValidationLog::errors).unwrap_or_default())
    }

    fn unchecked(&self) -> Option<String> {
        self.unchecked.clone()
    }
}

struct VulkanSemaphore {
    context: HeadlessContext,
    exported: ExportableSemaphore,
}

impl VulkanSemaphore {
    /// Time limit of a submission that only signals.
    const TIMEOUT: Duration = Duration::from_secs(8);

    fn operation(&self, value: u64) -> SemaphoreOp<'_> {
        SemaphoreOp { semaphore: self.exported.semaphore(), value }
    }
}

impl ExportedSemaphore for VulkanSemaphore {
    fn export(&self) -> Verdict<SemaphoreHandle> {
        Ok(self.exported.export()?)
    }

    fn import_request(&self) -> Verdict<SemaphoreImport> {
        Ok(self.exported.import_request()?)
    }

    /// Signalled by the queue, as in a renderer.
    fn signal(&self, value: u64) -> Verdict {
        let submission = self.context.submit(&[], &[self.operation(value)], |_| Ok(()))?;
        Ok(submission.wait(Self::TIMEOUT)?)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Verdict<bool> {
        let waited = match self.exported.semaphore().payload() {
            SemaphorePayload::Timeline => self.exported.semaphore().wait(value, timeout),
            // Only a queue can wait for a binary semaphore. An unsatisfied wait stays enqueued.
            _ => self.context.submit(&[self.operation(value)], &[], |_| Ok(()))?.wait(timeout),
        };
        is_met(waited)
    }
}

/// The first version without the deadlock.
const SOUND: u32 = vk::make_api_version(0, 1, 4, 304);

/// The reason why the layer must be disabled if one host thread signals a timeline that another waits for or reads;
/// `None` if it may be enabled, or is not installed. Old layers deadlock then for 10 seconds each time, and report an
/// error caused by a defect of their own (KhronosGroup/Vulkan-ValidationLayers, #8519).
pub(super) fn deadlocks() -> Verdict<Option<String>> {
    let entry = gpu_interop::vulkan::load_entry()?;
    // SAFETY: the entry is a Vulkan loader's.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(|code| Stop::failed(format!("vkEnumerateInstanceLayerProperties: {code}")))?;
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(c"VK_LAYER_KHRONOS_validation"));
    let old = layer.map(|layer| layer.spec_version).filter(|version| *version < SOUND);
    Ok(old.map(|version| {
        let [major, minor, patch] =
            [vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version)];
        format!(
            "the Vulkan validation layer is off: version {major}.{minor}.{patch} waits for itself where threads of the \
             host signal timelines, which those before 1.4.304 may"
        )
    }))
}

/// A timeline, exportable if `may_export` and the device supports it: lavapipe and SwiftShader do not.
fn create_timeline(interop: &VulkanInterop, value: u64, may_export: bool) -> Verdict<Arc<dyn ExporterTimeline>> {
    if may_export {
        match ExportableSemaphore::timeline(interop, value) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            created => return Ok(Arc::new(created?)),
        }
    }
    Ok(Arc::new(OwnedSemaphore::timeline(interop, value).map_err(Stop::attempted)?))
}

fn send_timeline(timeline: &dyn ExporterTimeline) -> Verdict<OsHandle> {
    let timeline: &dyn Any = timeline;
    let exportable = timeline.downcast_ref::<ExportableSemaphore>();
    let reason = "timelines of this exporter cannot be sent to another process";
    handle_of(exportable.ok_or_else(|| Stop::unsupported(reason.into()))?.export()?)
}

/// A timeline of another process, through Vulkan's import for the host; a driver may import the descriptor as well.
fn open_timeline(interop: &VulkanInterop, timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
    let exported = Some(timeline.try_clone()?);
    let timeline = ImportedSemaphore::new(interop, request::semaphore(system::timeline_semaphore(timeline)))?;
    Ok(Arc::new(Relabelled { timeline, exported }))
}

fn binary_timeline(interop: &VulkanInterop) -> Verdict<Arc<dyn ExporterTimeline>> {
    Ok(Arc::new(OwnedSemaphore::binary(interop)?))
}

/// A value of a timeline for a submission.
pub(crate) fn operation<'a>(point: Point<'a>) -> Verdict<SemaphoreOp<'a>> {
    let timeline: &dyn Any = &**point.timeline;
    let exportable = timeline.downcast_ref().map(ExportableSemaphore::semaphore);
    let semaphore = exportable.or_else(|| timeline.downcast_ref());
    let semaphore = semaphore.ok_or_else(|| Stop::failed("the timeline is not this exporter's".into()))?;
    Ok(SemaphoreOp { semaphore, value: point.value })
}
