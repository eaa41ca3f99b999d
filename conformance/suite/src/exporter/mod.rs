//! The other side: what exports the memory and semaphores that a device imports.

#[cfg(windows)]
mod d3d12;
mod image;
mod native;
mod timeline;
mod vulkan;

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::{
    Device, DeviceIdentity, Error, ErrorKind, ExporterTimeline, MemoryImport, SemaphoreHandle, SemaphoreHandleKind,
    SemaphoreImport,
};
pub use image::{ExportedImage, ImageSpec, RowLayout, Tiling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use timeline::{Exchange, Point};
pub(crate) use timeline::{Unwrapping, Wrapper};

use crate::backend_under_test::BackendUnderTest;
use crate::image::length;
use crate::outcome::{Stop, Verdict};
use crate::pattern::{Pattern, verify_bytes};
use crate::request;
use crate::system::{self, OsHandle};

pub use vulkan::same_device as vulkan_device;

/// The exporters of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExporterName {
    /// The device's own exportable memory, and the backend's own semaphores where it has some.
    Native,
    /// A real Vulkan driver.
    Vulkan,
    /// Direct3D 12, which only Windows has.
    D3d12,
}

impl ExporterName {
    /// Every exporter, of whichever system.
    pub const ALL: [Self; 3] = [Self::Native, Self::Vulkan, Self::D3d12];

    /// The name as options and reports write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Vulkan => "vulkan",
            Self::D3d12 => "d3d12",
        }
    }

    /// Those that this system can have.
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
const NO_OWN_SEMAPHORES: &str = "this backend has no exportable semaphores of its own";
const D3D12_PLACEMENT: &str = "Direct3D 12 shares no memory that the host can map";
const D3D12_FENCES: &str = "Direct3D 12 has no binary semaphores, only fences";
const D3D12_IMPORTS: &str = "Direct3D 12 imports nothing that compute drivers export";

/// What a scenario may need of an exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExporterFeature {
    /// Images.
    Images,
    /// Buffers that its host side maps.
    HostVisible,
    /// Dedicated allocations.
    Dedicated,
    /// Exportable binary semaphores that the backend can import.
    BinarySemaphores,
    /// Exportable timeline semaphores that the backend can import.
    TimelineSemaphores,
    /// Imports of the device's memory, the reverse direction.
    Imports,
    /// A Vulkan device, for OpenGL beside it.
    Vulkan,
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
        })
    }
}

impl ExporterName {
    /// The reason why this exporter never offers a feature to a backend; `None` if it may, which its driver decides.
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
            _ => None,
        }
    }

    /// The kind of handle that its exported timelines have.
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

/// Where exported memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The exporter's host side can map it.
    HostVisible,
    /// The exporter reaches it with GPU copies only.
    DeviceLocal,
}

/// The description of a requested object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSpec {
    /// Bytes.
    pub size: u64,
    /// Where it lies.
    pub placement: Placement,
    /// Whether it is a dedicated allocation.
    pub dedicated: bool,
}

impl BufferSpec {
    /// A buffer that is device-local and not dedicated.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, placement: Placement::DeviceLocal, dedicated: false }
    }
}

/// Something that exports memory and semaphores.
pub trait Exporter: Send + Sync {
    /// Which device it runs on.
    fn identity(&self) -> &DeviceIdentity;

    /// The description for reports: driver and version.
    fn describe(&self) -> String;

    /// Makes an exportable buffer.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if this exporter has no such buffers.
    fn buffer(&self, spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>>;

    /// Makes an exportable image. Its contents are undefined.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if this exporter has no such images.
    fn image(&self, _spec: ImageSpec) -> Verdict<Box<dyn ExportedImage>> {
        Err(Stop::Unsupported(NO_IMAGES.into()))
    }

    /// Imports memory that the device under test exported: the reverse direction.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if this exporter imports none.
    fn import(&self, request: MemoryImport, size: u64) -> Verdict<Box<dyn BufferAccess>>;

    /// Makes an exportable binary semaphore.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if it has none.
    fn binary_semaphore(&self) -> Verdict<Box<dyn ExportedSemaphore>> {
        Err(no_semaphores())
    }

    /// Makes an exportable timeline semaphore with a first value.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if it has none.
    fn timeline_semaphore(&self, _value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        Err(no_semaphores())
    }

    /// Makes a timeline with a first value: the exporter's side of a [`Timeline`](gpu_interop::Timeline). Exportable where
    /// the exporter has such, and the device imports them.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if it has none.
    fn timeline(&self, _value: u64) -> Verdict<Arc<dyn ExporterTimeline>> {
        Err(no_timelines())
    }

    /// By how much a signal of its timelines, or a wait of its queue, may be ahead of their value.
    fn timeline_reach(&self) -> u64 {
        u64::MAX
    }

    /// A descriptor of one of its timelines, to be sent to another process.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if they cannot be.
    fn send_timeline(&self, _timeline: &dyn ExporterTimeline) -> Verdict<OsHandle> {
        Err(no_timelines())
    }

    /// Opens a timeline that the exporter of another process sent.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if it cannot.
    fn open_timeline(&self, _timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
        Err(no_timelines())
    }

    /// The greatest value that its timelines take.
    fn greatest_value(&self) -> u64 {
        u64::MAX
    }

    /// A request for memory that this exporter's like in another process exported and sent, of `size` bytes. Of a buffer
    /// that is not dedicated.
    fn sent_memory(&self, handle: OsHandle, size: u64) -> MemoryImport {
        let request = request::memory(system::memory(handle), size).exported_by(self.identity().clone());
        // SAFETY: the other process is one of the suite's own, which truncates nothing.
        unsafe { request.trusted_peer(true) }
    }

    /// As [`sent_memory`](Self::sent_memory), of a timeline.
    fn sent_timeline(&self, handle: OsHandle) -> SemaphoreHandle {
        system::timeline_semaphore(handle)
    }

    /// A binary semaphore that is passed off as a timeline.
    ///
    /// # Errors
    /// [`Stop::Unsupported`] if it has none.
    fn binary_as_timeline(&self) -> Verdict<Arc<dyn ExporterTimeline>> {
        Err(no_timelines())
    }

    /// The Vulkan device, for Vulkan-only scenarios; `None` for other exporters.
    fn vulkan(&self) -> Option<&gpu_interop::vulkan::HeadlessContext> {
        None
    }

    /// Lists the complaints of the exporter's own checks, such as Vulkan's validation layer. Also of what happens when
    /// the exporter is dropped, which it outlives.
    fn complaints(&self) -> Complaints {
        Box::new(Vec::new)
    }

    /// The checks that are off, with the reason.
    fn unchecked(&self) -> Option<String> {
        None
    }
}

/// True if a wait was met, false if it timed out.
pub(crate) fn is_met(waited: gpu_interop::Result<()>) -> Verdict<bool> {
    match waited {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(false),
        waited => Ok(waited.map(|()| true)?),
    }
}

/// The outcome of a failed allocation: skipped above 4 GiB, which not every device has.
fn too_great(size: u64, error: Error) -> Stop {
    if error.kind() == ErrorKind::OutOfMemory && size > 1 << 32 {
        return Stop::Skipped(format!("needs a device with {} MiB of free memory: {error}", size >> 20));
    }
    Stop::from(error)
}

fn no_semaphores() -> Stop {
    Stop::Unsupported("the suite has no semaphores of this exporter".into())
}

/// The Vulkan exporter's description without a validation layer.
pub const NO_LAYER: &str = "validation layer not installed";

fn no_timelines() -> Stop {
    Stop::Unsupported("the suite has no timelines of this exporter".into())
}

/// The handle of an exported timeline.
fn handle_of(timeline: SemaphoreHandle) -> Verdict<OsHandle> {
    system::into_semaphore(timeline).ok_or_else(|| Stop::Failed("the timeline was not exported as a handle".into()))
}

/// Lists complaints.
pub type Complaints = Box<dyn Fn() -> Vec<String>>;

/// A buffer as the exporter's side reads and writes it.
pub trait BufferAccess: Send + Sync {
    /// The buffer's size, bytes; not more than the allocation's.
    fn size(&self) -> u64;

    /// Writes from the exporter's side, and waits until it is done.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn write(&self, offset: u64, data: &[u8]) -> Verdict;

    /// Reads from the exporter's side.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict;

    /// Fills the whole buffer with a pattern.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn put(&self, pattern: Pattern) -> Verdict {
        self.write(0, &pattern.bytes(0, length(self.size())?))
    }

    /// Reads the whole buffer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn contents(&self) -> Verdict<Vec<u8>> {
        let mut bytes = vec![0; length(self.size())?];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Checks that every byte of the buffer is that of a pattern.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if bytes differ: how many, and the first.
    fn verify(&self, pattern: Pattern, what: &str) -> Verdict {
        pattern.verify(0, &self.contents()?, what)
    }

    /// Checks that every byte of the buffer is `byte`.
    ///
    /// # Errors
    /// As [`verify`](Self::verify).
    fn verify_all(&self, byte: u8, what: &str) -> Verdict {
        verify_bytes(&self.contents()?, byte, what)
    }

    /// Reads a 32-bit word.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn word(&self, offset: u64) -> Verdict<u32> {
        let mut word = [0; 4];
        self.read(offset, &mut word)?;
        Ok(u32::from_ne_bytes(word))
    }
}

/// A buffer that the exporter allocated.
pub trait ExportedBuffer: BufferAccess {
    /// Exports it: a new handle with the allocation's size, dedicated flag and exporter.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn import_request(&self) -> Verdict<MemoryImport>;

    /// Gives the exporter's queue something to do once a timeline has reached `wait`: take out what the buffer holds, as
    /// many bytes as `data` has, put `data` in its place, and raise a timeline to `signal`. Does not wait. The queue does
    /// one thing after another.
    ///
    /// # Errors
    /// If the exporter's driver fails; [`Stop::Unsupported`] if this exporter has no timelines.
    fn exchange(&self, _wait: Point<'_>, _data: &[u8], _signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        Err(no_timelines())
    }
}

/// A semaphore on the exporter's side. `value` is ignored for a binary one.
pub trait ExportedSemaphore: Send + Sync {
    /// Exports it: a new handle.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn export(&self) -> Verdict<SemaphoreHandle>;

    /// Exports it as a request to import it.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    fn import_request(&self) -> Verdict<SemaphoreImport>;

    /// Signals it from the exporter's side.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn signal(&self, value: u64) -> Verdict;

    /// Waits on the exporter's side; `false` if the time ran out.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn wait(&self, value: u64, timeout: Duration) -> Verdict<bool>;

    /// A timeline semaphore as the library's `Timeline` takes it; `None` if this is none.
    fn as_timeline(&self) -> Option<Arc<dyn ExporterTimeline>> {
        None
    }
}

/// Opens an exporter for `device`; with `signals_by_host`, one whose own checks allow a thread of the host to signal a
/// timeline that another waits for.
///
/// # Errors
/// [`Stop::Unsupported`] if the device has no such exporter,
/// [`Stop::Skipped`] with what to install if the machine lacks it.
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
        ExporterName::D3d12 => Err(Stop::Unsupported("Direct3D is part of Windows".into())),
    }
}
