//! Exporters: the APIs whose memory and semaphores a device imports.

mod buffer;
#[cfg(windows)]
mod d3d12;
mod image;
mod native;
mod semaphore;
mod vulkan;

use std::sync::Arc;

use gpu_interop::{Device, DeviceIdentity, ExporterTimeline, MemoryImport, SemaphoreHandle, SemaphoreHandleKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use buffer::{BufferAccess, BufferSpec, ExportedBuffer, Placement};
pub use image::{ExportedImage, ImageSpec, RowLayout, Tiling};
use semaphore::no_timelines;
pub use semaphore::{Exchange, ExportedSemaphore, Point};
pub(crate) use semaphore::{Unwrapping, Wrapper, is_met};
pub(crate) use vulkan::operation;
pub use vulkan::same_device as vulkan_device;

use crate::backend_under_test::BackendUnderTest;
use crate::outcome::{Stop, Verdict};
use crate::request;
use crate::system::{self, OsHandle};

/// The exporters of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExporterName {
    /// The device's own exportable memory, and the backend's own semaphores if it has any.
    Native,
    /// A real Vulkan driver.
    Vulkan,
    /// Direct3D 12, on Windows only.
    D3d12,
}

impl ExporterName {
    /// Every exporter, of all systems.
    pub const ALL: [Self; 3] = [Self::Native, Self::Vulkan, Self::D3d12];

    /// The name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Vulkan => "vulkan",
            Self::D3d12 => "d3d12",
        }
    }

    /// The exporters of this system.
    #[must_use]
    pub fn of_this_system() -> Vec<Self> {
        let mut all = vec![Self::Native, Self::Vulkan];
        if cfg!(windows) {
            all.push(Self::D3d12);
        }
        all
    }
}

/// Reasons why an exporter never offers a feature.
const NO_IMAGES: &str = "the suite has no images of this exporter";
const NATIVE_FORM: &str = "native memory has one form: neither host-visible nor dedicated";
const NO_HEAPS: &str = "heaps are of Vulkan's memory only, not of this exporter's";
const NO_COMMANDS: &str = "the suite draws and dispatches on Vulkan's queues only, not on this exporter's";
const NO_LATE_BINDING: &str = "the suite binds buffers and images late to memory of Vulkan only, not of this exporter";
const NO_PRESENTATION: &str = "the suite presents from Vulkan's queues only, not from this exporter's";
const NO_FRAME_RINGS: &str = "frame rings are of Vulkan's queues only, not of this exporter's";
const NO_OWN_SEMAPHORES: &str = "this backend has no exportable semaphores of its own";
const D3D12_PLACEMENT: &str = "Direct3D 12 shares no memory that the host can map";
const D3D12_FENCES: &str = "Direct3D 12 has no binary semaphores, only fences";
const D3D12_IMPORTS: &str = "Direct3D 12 imports nothing that compute drivers export";

/// Requirements of scenarios on an exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExporterFeature {
    /// Images.
    Images,
    /// Host-visible buffers.
    HostVisible,
    /// Dedicated allocations.
    Dedicated,
    /// Exportable binary semaphores that the backend can import.
    BinarySemaphores,
    /// Exportable timeline semaphores that the backend can import.
    TimelineSemaphores,
    /// Imports of the device's memory, the reverse direction.
    Imports,
    /// A Vulkan device, for OpenGL.
    Vulkan,
    /// Heaps, from which buffers are cut for both sides.
    Heaps,
    /// Rings of frames in flight.
    FrameRings,
    /// Draws, dispatches and other commands of its queues.
    Commands,
    /// Buffers and images that are bound to memory after its export.
    LateBinding,
    /// Presentations to a surface.
    Presentation,
    /// Memory that a reset of the device under test leaves.
    SurvivesReset,
}

impl std::fmt::Display for ExporterFeature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Images => "images",
            Self::HostVisible => "host-visible memory",
            Self::Dedicated => "dedicated allocations",
            Self::BinarySemaphores => "binary semaphores",
            Self::TimelineSemaphores => "timeline semaphores",
            Self::Imports => "import of the device's memory",
            Self::Vulkan => "Vulkan",
            Self::Heaps => "shared heaps",
            Self::FrameRings => "frame rings",
            Self::Commands => "draws and dispatches",
            Self::LateBinding => "memory that is bound late",
            Self::Presentation => "presentations",
            Self::SurvivesReset => "memory that survives a reset of the device",
        })
    }
}

impl ExporterName {
    /// The reason why this exporter never offers a feature to a backend; `None` if its driver decides.
    #[must_use]
    pub fn lacks(self, feature: ExporterFeature, backend: &BackendUnderTest) -> Option<&'static str> {
        use ExporterFeature as Need;
        match (self, feature) {
            (Self::Native | Self::D3d12, Need::Images) => Some(NO_IMAGES),
            (Self::Native, Need::HostVisible | Need::Dedicated) => Some(NATIVE_FORM),
            (Self::Native, Need::BinarySemaphores | Need::TimelineSemaphores) => {
                backend.semaphores().is_none().then_some(NO_OWN_SEMAPHORES)
            }
            (Self::Vulkan, Need::BinarySemaphores | Need::TimelineSemaphores) => {
                backend.has_system_objects().then_some("the host backend imports semaphores of its own kind only")
            }
            (Self::Vulkan, Need::Imports) => {
                backend.has_system_objects().then_some("Vulkan's CPU drivers import memory of their own kind only")
            }
            (Self::D3d12, Need::HostVisible) => Some(D3D12_PLACEMENT),
            (Self::D3d12, Need::BinarySemaphores) => Some(D3D12_FENCES),
            (Self::D3d12, Need::Imports) => Some(D3D12_IMPORTS),
            (Self::Native | Self::D3d12, Need::Vulkan) => {
                Some("OpenGL imports memory of Vulkan only, not of this exporter")
            }
            (Self::Native, Need::SurvivesReset) => Some("a reset of the device ends this exporter's device, too"),
            (Self::Native | Self::D3d12, Need::Heaps) => Some(NO_HEAPS),
            (Self::Native | Self::D3d12, Need::FrameRings) => Some(NO_FRAME_RINGS),
            (Self::Native | Self::D3d12, Need::Commands) => Some(NO_COMMANDS),
            (Self::Native | Self::D3d12, Need::LateBinding) => Some(NO_LATE_BINDING),
            (Self::Native | Self::D3d12, Need::Presentation) => Some(NO_PRESENTATION),
            _ => None,
        }
    }

    /// The handle kind of its exported timelines.
    pub(crate) fn timeline_kind(self) -> SemaphoreHandleKind {
        match self {
            Self::Native | Self::Vulkan => system::TIMELINE_SEMAPHORE,
            Self::D3d12 => SemaphoreHandleKind::D3d12Fence,
        }
    }
}

impl std::str::FromStr for ExporterName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = Self::ALL.map(Self::name);
        let found = Self::ALL.into_iter().find(|exporter| exporter.name() == text);
        found.ok_or_else(|| format!("no exporter; there are: {}", all.join(", ")))
    }
}

impl std::fmt::Display for ExporterName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// An exporter of memory and semaphores.
pub trait Exporter: Send + Sync {
    /// Its device.
    fn identity(&self) -> &DeviceIdentity;

    /// The description for reports: driver and version.
    fn describe(&self) -> String;

    /// Creates an exportable buffer.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if this exporter does not support such buffers.
    fn buffer(&self, spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>>;

    /// Creates an exportable image. Its contents are undefined.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if this exporter does not support such images.
    fn image(&self, _spec: ImageSpec) -> Verdict<Box<dyn ExportedImage>> {
        Err(Stop::unsupported(NO_IMAGES.into()))
    }

    /// Imports memory that the device under test exported: the reverse direction.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if this exporter cannot import.
    fn import(&self, request: MemoryImport, size: u64) -> Verdict<Box<dyn BufferAccess>>;

    /// Creates an exportable binary semaphore.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if it has none.
    fn binary_semaphore(&self) -> Verdict<Box<dyn ExportedSemaphore>> {
        Err(no_semaphores())
    }

    /// Creates an exportable timeline semaphore with an initial value.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if it has none.
    fn timeline_semaphore(&self, _value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        Err(no_semaphores())
    }

    /// Creates a timeline with an initial value: the exporter's side of a [`Timeline`](gpu_interop::Timeline).
    /// Exportable if the exporter supports it and the device imports such timelines.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if it has none.
    fn timeline(&self, _value: u64) -> Verdict<Arc<dyn ExporterTimeline>> {
        Err(no_timelines())
    }

    /// Maximum difference between a timeline's current value and the value of a signal, or of a wait of its queue.
    fn timeline_reach(&self) -> u64 {
        u64::MAX
    }

    /// A descriptor of one of its timelines, for another process.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if it cannot be sent.
    fn send_timeline(&self, _timeline: &dyn ExporterTimeline) -> Verdict<OsHandle> {
        Err(no_timelines())
    }

    /// Opens a timeline sent by the exporter of another process.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if it cannot be opened.
    fn open_timeline(&self, _timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
        Err(no_timelines())
    }

    /// The greatest value of its timelines.
    fn greatest_value(&self) -> u64 {
        u64::MAX
    }

    /// Creates a request for memory of `size` bytes that the same exporter sent from another process, for a buffer that
    /// is not dedicated.
    fn sent_memory(&self, handle: OsHandle, size: u64) -> MemoryImport {
        let request = request::memory(system::memory(handle), size).exported_by(self.identity().clone());
        // SAFETY: the other process is one of the suite's, which truncates no file.
        unsafe { request.trusted_peer(true) }
    }

    /// As [`sent_memory`](Self::sent_memory), for a timeline.
    fn sent_timeline(&self, handle: OsHandle) -> SemaphoreHandle {
        system::timeline_semaphore(handle)
    }

    /// A binary semaphore, falsely declared as a timeline.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if it has none.
    fn binary_as_timeline(&self) -> Verdict<Arc<dyn ExporterTimeline>> {
        Err(no_timelines())
    }

    /// The Vulkan device, for Vulkan-only scenarios; `None` for other exporters.
    fn vulkan(&self) -> Option<&gpu_interop::vulkan::HeadlessContext> {
        None
    }

    /// Lists the errors of the exporter's own checks, such as Vulkan's validation layer, including those at its drop.
    /// The list outlives the exporter.
    fn complaints(&self) -> Complaints {
        Box::new(Vec::new)
    }

    /// The disabled checks, with the reason.
    fn unchecked(&self) -> Option<String> {
        None
    }
}

fn no_semaphores() -> Stop {
    Stop::unsupported("the suite has no semaphores of this exporter".into())
}

/// The Vulkan exporter's description without a validation layer.
pub const NO_LAYER: &str = "validation layer not installed";

/// Lists errors.
pub type Complaints = Box<dyn Fn() -> Vec<String>>;

/// Opens an exporter for `device`. With `signals_by_host`, its own checks must support a host thread that signals a
/// timeline while another waits for it.
///
/// # Errors
/// [`Stop::unsupported`](crate::Stop::unsupported) if the device does not support the exporter,
/// [`Stop::skipped`](crate::Stop::skipped) with the packages to install if the machine lacks it.
pub(crate) fn open(
    name: ExporterName,
    backend: &BackendUnderTest,
    device: &Device,
    signals_by_host: bool,
) -> Verdict<Box<dyn Exporter>> {
    match name {
        ExporterName::Native => Ok(Box::new(native::NativeExporter::open(backend, device)?)),
        ExporterName::Vulkan => Ok(Box::new(vulkan::VulkanExporter::open(backend, device, signals_by_host)?)),
        #[cfg(windows)]
        ExporterName::D3d12 => Ok(Box::new(d3d12::D3d12Exporter::open(backend, device)?)),
        #[cfg(not(windows))]
        ExporterName::D3d12 => Err(Stop::unsupported("Direct3D is part of Windows".into())),
    }
}
