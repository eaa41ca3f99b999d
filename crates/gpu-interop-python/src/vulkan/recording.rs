//! Commands for one submission.

use std::sync::{Mutex, MutexGuard};

use gpu_interop::sync::lock;
use gpu_interop::vulkan::{
    HeadlessContext, OwnedBuffer, OwnedImage, OwnedSemaphore, Recording, SemaphoreOp, Submission,
};
use gpu_interop::{Error, ErrorKind, Result};
use pyo3::prelude::*;

use super::buffer::PyBuffer;
use super::image::PyImage;
use super::{image_of, semaphore_of};
use crate::convert::{items, natural, natural_or_none, type_name};
use crate::error::{Raise, exception};
use crate::timeline;
use crate::timeline::PyTimeline;

/// A command, recorded when the commands are submitted.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Fill { buffer: OwnedBuffer, offset: u64, size: u64, word: u32 },
    Copy { source: OwnedBuffer, source_offset: u64, target: OwnedBuffer, target_offset: u64, size: u64 },
    Acquire(OwnedBuffer),
    Release(OwnedBuffer),
    InitializeImage(OwnedImage),
    AcquireImage(OwnedImage),
    ReleaseImage(OwnedImage),
    CopyToImage { source: OwnedBuffer, offset: u64, image: OwnedImage, level: u32, layer: u32 },
    CopyFromImage { image: OwnedImage, level: u32, layer: u32, target: OwnedBuffer, offset: u64 },
}

impl Command {
    fn record(&self, recording: &mut Recording<'_>) -> Result<()> {
        match self {
            Self::Fill { buffer, offset, size, word } => recording.fill(buffer, *offset, *size, *word),
            Self::Copy { source, source_offset, target, target_offset, size } => {
                recording.copy(source, *source_offset, target, *target_offset, *size)
            }
            Self::Acquire(buffer) => recording.acquire(buffer),
            Self::Release(buffer) => recording.release(buffer),
            Self::InitializeImage(image) => recording.initialize_image(image),
            Self::AcquireImage(image) => recording.acquire_image(image),
            Self::ReleaseImage(image) => recording.release_image(image),
            Self::CopyToImage { source, offset, image, level, layer } => {
                recording.copy_to_image(source, *offset, image, *level, *layer)
            }
            Self::CopyFromImage { image, level, layer, target, offset } => {
                recording.copy_from_image(image, *level, *layer, target, *offset)
            }
        }
    }
}

/// The command `buffer`'s or `image`'s kind of object needs.
pub(crate) fn owner_command(
    operation: &'static str,
    object: &Bound<'_, PyAny>,
    of_buffer: fn(OwnedBuffer) -> Command,
    of_image: fn(OwnedImage) -> Command,
) -> PyResult<Command> {
    if let Ok(buffer) = object.cast::<PyBuffer>() {
        return Ok(of_buffer(buffer.get().buffer.clone()));
    }
    if let Some(image) = image_of(object) {
        return Ok(of_image(image));
    }
    let message = "pass a gpu_interop.vulkan.Buffer, Image or Picture";
    Err(exception(&Error::invalid(operation, message).with_context("given", type_name(object))))
}

/// The image of a copy.
fn copied(operation: &'static str, object: &Bound<'_, PyAny>) -> PyResult<OwnedImage> {
    image_of(object).ok_or_else(|| {
        let error = Error::invalid(operation, "pass a gpu_interop.vulkan.Image or Picture");
        exception(&error.with_context("given", type_name(object)))
    })
}

/// Pairs of a timeline and a value.
pub(crate) type Points<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

fn points(operation: &'static str, points: Points<'_, '_>) -> PyResult<Vec<(OwnedSemaphore, u64)>> {
    let Some(points) = points else { return Ok(Vec::new()) };
    let points: Vec<(Py<PyTimeline>, u64)> = items(points, usize::MAX)?;
    points.iter().map(|(timeline, value)| Ok((semaphore_of(operation, timeline.get())?.clone(), *value))).collect()
}

fn operations(points: &[(OwnedSemaphore, u64)]) -> Vec<SemaphoreOp<'_>> {
    points.iter().map(|(semaphore, value)| SemaphoreOp { semaphore, value: *value }).collect()
}

/// Submits commands.
pub(crate) fn submit(
    py: Python<'_>,
    context: &HeadlessContext,
    commands: &[Command],
    waits: Points<'_, '_>,
    signals: Points<'_, '_>,
) -> PyResult<PySubmission> {
    const OPERATION: &str = "Recording.submit";
    let (waits, signals) = (points(OPERATION, waits)?, points(OPERATION, signals)?);
    let submitted = py.detach(|| {
        context.submit(&operations(&waits), &operations(&signals), |recording: &mut Recording<'_>| {
            commands.iter().try_for_each(|command| command.record(recording))
        })
    });
    Ok(PySubmission { submission: Mutex::new(submitted.raised()?) })
}

/// Commands for one submission, recorded in order. Every method returns the recording.
///
/// The library records the barriers: each command sees the writes of the ones before it, in this and in earlier submissions
/// of the context.
#[pyclass(frozen, module = "gpu_interop.vulkan", name = "Recording")]
#[derive(Debug)]
pub(crate) struct PyRecording {
    context: HeadlessContext,
    commands: Mutex<Vec<Command>>,
}

impl PyRecording {
    pub(crate) fn new(context: HeadlessContext) -> Self {
        Self { context, commands: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Command>> {
        lock(&self.commands)
    }

    fn push(this: PyRef<'_, Self>, command: Command) -> PyRef<'_, Self> {
        this.lock().push(command);
        this
    }
}

#[pymethods]
impl PyRecording {
    /// Fills ``size`` bytes, by default all from ``offset`` on, with a 32-bit word.
    #[pyo3(signature = (buffer, word, offset=0, size=None))]
    fn fill<'py>(
        this: PyRef<'py, Self>,
        buffer: &Bound<'py, PyBuffer>,
        #[pyo3(from_py_with = natural::<u32>)] word: u32,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        #[pyo3(from_py_with = natural_or_none)] size: Option<u64>,
    ) -> PyRef<'py, Self> {
        let buffer = buffer.get().buffer.clone();
        let size = size.unwrap_or_else(|| buffer.size().saturating_sub(offset));
        Self::push(this, Command::Fill { buffer, offset, size, word })
    }

    /// Copies ``size`` bytes, by default the smaller of what remains of both buffers.
    #[pyo3(signature = (source, target, *, source_offset=0, target_offset=0, size=None))]
    fn copy<'py>(
        this: PyRef<'py, Self>,
        source: &Bound<'py, PyBuffer>,
        target: &Bound<'py, PyBuffer>,
        #[pyo3(from_py_with = natural::<u64>)] source_offset: u64,
        #[pyo3(from_py_with = natural::<u64>)] target_offset: u64,
        #[pyo3(from_py_with = natural_or_none)] size: Option<u64>,
    ) -> PyRef<'py, Self> {
        let (source, target) = (source.get().buffer.clone(), target.get().buffer.clone());
        let left = |buffer: &OwnedBuffer, offset: u64| buffer.size().saturating_sub(offset);
        let size = size.unwrap_or_else(|| left(&source, source_offset).min(left(&target, target_offset)));
        Self::push(this, Command::Copy { source, source_offset, target, target_offset, size })
    }

    /// Acquires a buffer or image from the other API, which has released it.
    fn acquire<'py>(this: PyRef<'py, Self>, object: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, Self>> {
        let command = owner_command("Recording.acquire", object, Command::Acquire, Command::AcquireImage)?;
        Ok(Self::push(this, command))
    }

    /// Releases a buffer or image to the other API.
    fn release<'py>(this: PyRef<'py, Self>, object: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, Self>> {
        let command = owner_command("Recording.release", object, Command::Release, Command::ReleaseImage)?;
        Ok(Self::push(this, command))
    }

    /// Gives a new image its layout. Its content is undefined afterwards.
    fn initialize<'py>(this: PyRef<'py, Self>, image: &Bound<'py, PyImage>) -> PyRef<'py, Self> {
        let image = image.get().image.image().clone();
        Self::push(this, Command::InitializeImage(image))
    }

    /// Copies packed texels from a buffer to a layer of a level of an image. ``offset`` is the first byte in the buffer.
    #[pyo3(signature = (source, image, *, offset=0, level=0, layer=0))]
    fn copy_to_image<'py>(
        this: PyRef<'py, Self>,
        source: &Bound<'py, PyBuffer>,
        image: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        #[pyo3(from_py_with = natural::<u32>)] level: u32,
        #[pyo3(from_py_with = natural::<u32>)] layer: u32,
    ) -> PyResult<PyRef<'py, Self>> {
        let (source, image) = (source.get().buffer.clone(), copied("Recording.copy_to_image", image)?);
        Ok(Self::push(this, Command::CopyToImage { source, offset, image, level, layer }))
    }

    /// Copies a layer of a level of an image to a buffer, as packed texels. ``offset`` is the first byte in the buffer.
    #[pyo3(signature = (image, target, *, offset=0, level=0, layer=0))]
    fn copy_from_image<'py>(
        this: PyRef<'py, Self>,
        image: &Bound<'py, PyAny>,
        target: &Bound<'py, PyBuffer>,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        #[pyo3(from_py_with = natural::<u32>)] level: u32,
        #[pyo3(from_py_with = natural::<u32>)] layer: u32,
    ) -> PyResult<PyRef<'py, Self>> {
        let (target, image) = (target.get().buffer.clone(), copied("Recording.copy_from_image", image)?);
        Ok(Self::push(this, Command::CopyFromImage { image, level, layer, target, offset }))
    }

    /// Submits the commands after all earlier submissions: they run once each timeline of ``wait`` has reached its value,
    /// and raise those of ``signal`` afterwards. Does not block. The recording may be submitted again.
    #[pyo3(signature = (*, wait=None, signal=None))]
    fn submit(&self, py: Python<'_>, wait: Points<'_, '_>, signal: Points<'_, '_>) -> PyResult<PySubmission> {
        let commands = self.lock().clone();
        submit(py, &self.context, &commands, wait, signal)
    }

    fn __len__(&self) -> usize {
        self.lock().len()
    }

    fn __repr__(&self) -> String {
        format!("<gpu_interop.vulkan.Recording of {} commands>", self.lock().len())
    }
}

/// Submitted commands. Dropping it does not wait.
#[pyclass(frozen, module = "gpu_interop.vulkan", name = "Submission")]
#[derive(Debug)]
pub(crate) struct PySubmission {
    submission: Mutex<Submission>,
}

impl PySubmission {
    fn lock(&self) -> MutexGuard<'_, Submission> {
        lock(&self.submission)
    }
}

#[pymethods]
impl PySubmission {
    /// Waits until the commands have finished, or raises :class:`Timeout` after ``timeout`` seconds. Releases the GIL and
    /// honours Ctrl-C.
    #[pyo3(signature = (timeout=None))]
    pub(crate) fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        const OPERATION: &str = "Submission.wait";
        let timeout = timeline::checked_timeout(OPERATION, timeout)?;
        let expired = |_: &Error| Error::new(ErrorKind::Timeout, OPERATION, "the commands have not finished");
        timeline::sliced(py, timeout, |slice| self.lock().wait(slice), expired)
    }

    /// True if the commands have finished.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().is_finished())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = if self.finished(py) { "finished" } else { "pending" };
        format!("<gpu_interop.vulkan.Submission {state}>")
    }
}
