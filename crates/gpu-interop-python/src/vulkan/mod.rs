//! Vulkan: a context for scripts, and the application's own device.

pub(crate) mod buffer;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod image;
pub(crate) mod picture;
pub(crate) mod recording;

use std::sync::Arc;

use gpu_interop::vulkan::{ExportableSemaphore, OwnedImage, OwnedSemaphore, VulkanInterop, shared_timeline};
use gpu_interop::{Error, ErrorKind, ExporterTimeline, Result, Timeline};
use pyo3::prelude::*;

use self::image::PyImage;
use self::picture::PyPicture;
use crate::device::PyDevice;
use crate::error::{Raise, exception};
use crate::timeline::PyTimeline;
use crate::watcher::Watcher;

/// A Vulkan device, with the thread that wakes asyncio for its timelines.
#[derive(Debug, Clone)]
pub(crate) struct Vulkan {
    pub(crate) interop: VulkanInterop,
    pub(crate) watcher: Arc<Watcher>,
}

impl Vulkan {
    pub(crate) fn new(interop: VulkanInterop) -> Self {
        Self { interop, watcher: Arc::default() }
    }

    /// A new timeline for this device and the streams of `device`.
    pub(crate) fn timeline(&self, py: Python<'_>, device: &PyDevice, initial: u64) -> PyResult<PyTimeline> {
        let shared = device.shared("Context.timeline")?;
        let (semaphore, timeline) = py.detach(|| shared_timeline(&self.interop, &shared.device, initial)).raised()?;
        Ok(PyTimeline::vulkan(shared, timeline, semaphore, self.watcher.clone()))
    }

    /// A timeline semaphore of the application.
    pub(crate) fn adopt_timeline(
        &self,
        py: Python<'_>,
        device: &PyDevice,
        semaphore: u64,
        exportable: bool,
        owner: Py<PyAny>,
    ) -> PyResult<PyTimeline> {
        use gpu_interop::vulkan::ash::vk::{self, Handle};
        let shared = device.shared("Device.timeline_from_handle")?;
        let (raw, owner) = (vk::Semaphore::from_raw(semaphore), Arc::new(owner));
        let made = py.detach(|| -> Result<(OwnedSemaphore, Timeline)> {
            // SAFETY: `Device.timeline_from_handle` passes the obligations on to its caller: a live timeline semaphore of this
            // device, created for export if `exportable`, and raised in order. `owner` is kept.
            let (semaphore, exporter): (_, Arc<dyn ExporterTimeline>) = unsafe {
                if exportable {
                    let exported = ExportableSemaphore::timeline_from_raw(&self.interop, raw, owner)?;
                    (exported.semaphore().clone(), Arc::new(exported))
                } else {
                    let borrowed = OwnedSemaphore::timeline_from_raw(&self.interop, raw, owner)?;
                    (borrowed.clone(), Arc::new(borrowed))
                }
            };
            Ok((semaphore, Timeline::new(&shared.device, exporter)?))
        });
        let (semaphore, timeline) = made.raised()?;
        Ok(PyTimeline::vulkan(shared, timeline, semaphore, self.watcher.clone()))
    }
}

/// The image of an `Image` or a `Picture`; `None` for another object.
pub(crate) fn image_of(object: &Bound<'_, PyAny>) -> Option<OwnedImage> {
    if let Ok(image) = object.cast::<PyImage>() {
        return Some(image.get().image.image().clone());
    }
    object.cast::<PyPicture>().ok().map(|picture| picture.get().image.clone())
}

/// The semaphore of a timeline of Vulkan.
pub(crate) fn semaphore_of<'a>(operation: &'static str, timeline: &'a PyTimeline) -> PyResult<&'a OwnedSemaphore> {
    timeline.semaphore.as_ref().ok_or_else(|| {
        let message = "the timeline is one of the host; create it with Context.timeline";
        exception(&Error::new(ErrorKind::InvalidArgument, operation, message))
    })
}
