//! A Vulkan device of this library, for scripts.

use std::time::Duration;

use gpu_interop::Error;
use gpu_interop::vulkan::ash::vk::Handle;
use gpu_interop::vulkan::{DeviceChoice, HeadlessContext, HeadlessOptions, QueueKind};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::buffer::PyBuffer;
use super::image::PyImage;
use super::picture::{self, PyPicture};
use super::recording::{self, Command, PyRecording, owner_command};
use super::{Vulkan, image_of};
use crate::convert::{bytes_of, natural, natural_or_none};
use crate::device::PyDevice;
use crate::error::{Raise, exception};
use crate::export::PyExport;
use crate::identity::PyIdentity;
use crate::timeline;
use crate::timeline::PyTimeline;

/// A Vulkan instance, device and queue of this library.
///
/// ``device`` is an index of :func:`gpu_interop.vulkan.devices`, an :class:`Identity`, or ``None`` for the first GPU, or the
/// CPU if there is none. ``queue`` is ``"general"``, or ``"transfer"`` for a transfer-only queue, which is faster for work
/// that only copies. ``timeout`` bounds the blocking methods, in seconds. Objects keep the device alive.
#[pyclass(frozen, module = "gpu_interop.vulkan", name = "Context")]
#[derive(Debug)]
pub(crate) struct PyContext {
    pub(crate) context: HeadlessContext,
    pub(crate) vulkan: Vulkan,
    /// Bounds the blocking methods.
    timeout: Duration,
}

impl PyContext {
    /// A context on a queue of the application.
    pub(crate) fn on_queue(context: HeadlessContext, vulkan: Vulkan) -> Self {
        Self { context, vulkan, timeout: HeadlessOptions::default().timeout }
    }

    /// Submits commands and waits for them.
    fn run(&self, py: Python<'_>, commands: &[Command]) -> PyResult<()> {
        recording::submit(py, &self.context, commands, None, None)?.wait(py, Some(self.timeout.as_secs_f64()))
    }
}

#[pymethods]
impl PyContext {
    #[new]
    #[pyo3(signature = (device=None, *, validation=false, queue="general", timeout=60.0))]
    fn create(
        py: Python<'_>,
        device: Option<&Bound<'_, PyAny>>,
        validation: bool,
        queue: &str,
        timeout: f64,
    ) -> PyResult<Self> {
        const OPERATION: &str = "Context";
        let mut options = HeadlessOptions::default().validation(validation);
        options.queue = match queue {
            "general" => QueueKind::General,
            "compute" => QueueKind::ComputeOnly,
            "transfer" => QueueKind::TransferOnly,
            _ => {
                let error = Error::invalid(OPERATION, "unknown queue; use \"general\", \"compute\" or \"transfer\"");
                return Err(exception(&error.with_context("given", queue)));
            }
        };
        options.timeout = timeline::checked_timeout(OPERATION, Some(timeout))?.unwrap_or_default();
        options.device = match device {
            None => None,
            Some(device) => Some(match device.cast::<PyIdentity>() {
                Ok(identity) => DeviceChoice::Identity(identity.get().inner.clone()),
                Err(_) => DeviceChoice::Index(device.extract()?),
            }),
        };
        let context = py.detach(|| HeadlessContext::new(&options)).raised()?;
        let vulkan = Vulkan::new(context.interop().clone());
        Ok(Self { context, vulkan, timeout: options.timeout })
    }

    /// Identity of the device, for :func:`gpu_interop.open`.
    #[getter]
    fn identity(&self) -> PyIdentity {
        self.context.identity().into()
    }

    /// Name and version of the driver, and the device's version of Vulkan.
    #[getter]
    fn driver(&self) -> String {
        self.vulkan.interop.driver()
    }

    /// The ``VkInstance`` as an integer.
    #[getter]
    fn instance_handle(&self) -> u64 {
        self.vulkan.interop.instance().handle().as_raw()
    }

    /// The ``VkPhysicalDevice`` as an integer.
    #[getter]
    fn physical_device_handle(&self) -> u64 {
        self.vulkan.interop.physical_device().as_raw()
    }

    /// The ``VkDevice`` as an integer.
    #[getter]
    fn device_handle(&self) -> u64 {
        self.vulkan.interop.device().handle().as_raw()
    }

    /// The family of the queue.
    #[getter]
    fn queue_family(&self) -> u32 {
        self.context.queue_family()
    }

    /// Reports of the validation layer, with ``validation=True``.
    #[getter]
    fn validation_errors(&self) -> Vec<String> {
        self.context.validation_errors()
    }

    /// Creates a buffer. ``kind`` is that of its exports; by default the system's opaque one.
    #[pyo3(signature = (size, *, exportable=true, host_visible=false, dedicated=false, kind=None))]
    fn buffer(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = natural::<u64>)] size: u64,
        exportable: bool,
        host_visible: bool,
        dedicated: bool,
        kind: Option<&str>,
    ) -> PyResult<PyBuffer> {
        PyBuffer::create(py, &self.vulkan, size, exportable, host_visible, dedicated, kind)
    }

    /// Imports memory that another API exported, such as ``memory.export()``, as a buffer of Vulkan. The other API owns
    /// it: acquire it before its first use. On success the import owns the handle.
    #[pyo3(signature = (export, size=None))]
    fn import_buffer(&self, py: Python<'_>, export: &Bound<'_, PyExport>, size: Option<u64>) -> PyResult<PyBuffer> {
        PyBuffer::import(py, &self.vulkan, export.get(), size)
    }

    /// Creates an image that can be exported, of two dimensions, or three if ``depth`` is greater than 1, with ``levels`` mip
    /// levels, and ``layers`` layers of two dimensions.
    ///
    /// ``format`` is ``"r8_unorm"``, ``"rg8_unorm"``, ``"rgba8_unorm"``, ``"rgba8_srgb"``, ``"rgba8_uint"``, ``"bgra8_unorm"``,
    /// ``"r16_float"``, ``"rg16_float"``, ``"rgba16_float"``, ``"r32_float"``, ``"rg32_float"``, ``"rgba32_float"``,
    /// ``"r32_uint"``, ``"r16_uint"`` or ``"r8_uint"``. The ``dtype`` of its texels is the type of each channel: ``"float16"``
    /// for ``"rgba16_float"``; for ``unorm`` and ``srgb`` the type of the bytes: ``"uint8"`` for ``"rgba8_unorm"``.
    #[pyo3(signature = (width, height, format, *, depth=1, levels=1, layers=1, linear=false))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments.
    fn image(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = natural::<u32>)] width: u32,
        #[pyo3(from_py_with = natural::<u32>)] height: u32,
        format: &str,
        #[pyo3(from_py_with = natural::<u32>)] depth: u32,
        #[pyo3(from_py_with = natural::<u32>)] levels: u32,
        #[pyo3(from_py_with = natural::<u32>)] layers: u32,
        linear: bool,
    ) -> PyResult<PyImage> {
        PyImage::create(py, &self.vulkan, [width, height, depth], format, levels, layers, linear)
    }

    /// Imports a picture in dma-bufs: ``frame`` is a mapping or an object with the fields of FFmpeg's ``AVDRMFrameDescriptor`` or
    /// libva's ``VADRMPRIMESurfaceDescriptor``, and ``width`` and ``height``: ``objects``, each with ``fd`` and ``format_modifier``,
    /// and ``layers``, each with ``format`` and ``planes`` of ``object_index``, ``offset`` and ``pitch``. Instead of layers, the frame
    /// itself may have a ``format``, such as ``"NV12"``, and ``planes``.
    ///
    /// The descriptors stay the caller's, open: the picture owns duplicates. The description must be true, and nothing may change
    /// the size of the dma-bufs. ``same_driver`` declares that this device's own driver produces the picture.
    #[pyo3(signature = (frame, *, same_driver=false))]
    fn import_picture(&self, py: Python<'_>, frame: &Bound<'_, PyAny>, same_driver: bool) -> PyResult<PyPicture> {
        const OPERATION: &str = "Context.import_picture";
        let mut pictures = picture::import(py, &self.vulkan, OPERATION, frame, false, same_driver)?;
        pictures.pop().ok_or_else(|| exception(&Error::invalid(OPERATION, "the picture has no plane")))
    }

    /// As :meth:`import_picture`, with each plane of a video format as a picture of its own: ``"R8"`` and ``"GR88"`` for
    /// ``"NV12"``. Devices import those where they do not import the whole, and this module copies them.
    #[pyo3(signature = (frame, *, same_driver=false))]
    fn import_planes(&self, py: Python<'_>, frame: &Bound<'_, PyAny>, same_driver: bool) -> PyResult<Vec<PyPicture>> {
        picture::import(py, &self.vulkan, "Context.import_planes", frame, true, same_driver)
    }

    /// The DRM modifiers with which the device imports pictures of a format, such as ``"AR24"``, each with the number of memory
    /// planes. Pass them to a producer that allocates.
    fn picture_modifiers(&self, py: Python<'_>, format: &str) -> PyResult<Vec<(u64, usize)>> {
        py.detach(|| picture::modifiers(&self.vulkan, format)).raised()
    }

    /// Creates a timeline for this queue and the streams of ``device``.
    #[pyo3(signature = (device, initial=0))]
    fn timeline(&self, py: Python<'_>, device: &Bound<'_, PyDevice>, initial: u64) -> PyResult<PyTimeline> {
        self.vulkan.timeline(py, device.get(), initial)
    }

    /// Begins commands for one submission.
    fn record(&self) -> PyRecording {
        PyRecording::new(self.context.clone())
    }

    /// Releases buffers and images to the other API, and waits.
    #[pyo3(signature = (*objects))]
    fn release(&self, py: Python<'_>, objects: &Bound<'_, PyTuple>) -> PyResult<()> {
        let command = |object| owner_command("Context.release", &object, Command::Release, Command::ReleaseImage);
        self.run(py, &objects.iter().map(command).collect::<PyResult<Vec<_>>>()?)
    }

    /// Acquires buffers and images from the other API, and waits.
    #[pyo3(signature = (*objects))]
    fn acquire(&self, py: Python<'_>, objects: &Bound<'_, PyTuple>) -> PyResult<()> {
        let command = |object| owner_command("Context.acquire", &object, Command::Acquire, Command::AcquireImage);
        self.run(py, &objects.iter().map(command).collect::<PyResult<Vec<_>>>()?)
    }

    /// Fills a buffer with a 32-bit word, and waits.
    #[pyo3(signature = (buffer, word, offset=0, size=None))]
    fn fill(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyBuffer>,
        #[pyo3(from_py_with = natural::<u32>)] word: u32,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        #[pyo3(from_py_with = natural_or_none)] size: Option<u64>,
    ) -> PyResult<()> {
        let buffer = buffer.get().buffer.clone();
        let size = size.unwrap_or_else(|| buffer.size().saturating_sub(offset));
        self.run(py, &[Command::Fill { buffer, offset, size, word }])
    }

    /// Gives a new image its layout, and waits.
    fn initialize(&self, py: Python<'_>, image: &Bound<'_, PyImage>) -> PyResult<()> {
        self.run(py, &[Command::InitializeImage(image.get().image.image().clone())])
    }

    /// Copies bytes of the host to a buffer, or packed texels to a layer of a level of an image, and waits.
    #[pyo3(signature = (target, data, offset=0, *, level=0, layer=0))]
    fn upload(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        #[pyo3(from_py_with = natural::<u32>)] level: u32,
        #[pyo3(from_py_with = natural::<u32>)] layer: u32,
    ) -> PyResult<()> {
        let data = bytes_of(py, data)?;
        let bytes = data.as_bytes();
        if let Some(image) = image_of(target) {
            return py.detach(|| self.context.upload_image(&image, level, layer, bytes)).raised();
        }
        let buffer = &target.cast::<PyBuffer>()?.get().buffer;
        py.detach(|| self.context.upload(buffer, offset, bytes)).raised()
    }

    /// Copies a buffer, or a layer of a level of an image, to the host, and waits.
    #[pyo3(signature = (source, size=None, offset=0, *, level=0, layer=0))]
    fn download<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = natural_or_none)] size: Option<u64>,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        #[pyo3(from_py_with = natural::<u32>)] level: u32,
        #[pyo3(from_py_with = natural::<u32>)] layer: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(image) = image_of(source) {
            let size = usize::try_from(image.spec().level_size(level).raised()?)?;
            return PyBytes::new_with(py, size, |bytes| {
                py.detach(|| self.context.download_image(&image, level, layer, bytes)).raised()
            });
        }
        let buffer = &source.cast::<PyBuffer>()?.get().buffer;
        let left = buffer.size().saturating_sub(offset);
        let size = size.unwrap_or(left);
        if size > left {
            let error = Error::invalid("Context.download", "the range goes past the end of the buffer");
            let error = error.with_context("offset", offset).with_context("size", size);
            return Err(exception(&error.with_context("buffer", format_args!("{} bytes", buffer.size()))));
        }
        PyBytes::new_with(py, usize::try_from(size)?, |bytes| {
            py.detach(|| self.context.download(buffer, offset, bytes)).raised()
        })
    }

    fn __repr__(&self) -> String {
        format!("<gpu_interop.vulkan.Context {}>", self.context.identity())
    }
}

/// Identities of all Vulkan devices, in the driver's order.
#[pyfunction]
pub(crate) fn vulkan_devices(py: Python<'_>) -> PyResult<Vec<PyIdentity>> {
    let devices = py.detach(HeadlessContext::devices).raised()?;
    Ok(devices.iter().map(PyIdentity::from).collect())
}
