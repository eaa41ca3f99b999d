//! Streams of this library, and streams of others.

use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop::backend::{RawEvent, RawStream};
use gpu_interop::sync::lock;
use gpu_interop::{Error, ErrorKind, Event, Result, Stream};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString, PyTuple};

use crate::array::Texels;
use crate::convert::{Operand, bytes_of, detached_drop, natural};
use crate::device::{PyDevice, Shared};
use crate::error::{Raise, closed, exception};
use crate::timeline;

/// A stream, with an event to hand its work over.
#[derive(Debug)]
pub(crate) struct Flow {
    // Field order is drop order.
    event: Mutex<Option<Event>>,
    pub(crate) stream: Stream,
}

impl Flow {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { event: Mutex::default(), stream }
    }

    /// Makes `consumer`, a stream of another library on the same device, wait for the work enqueued here so far.
    pub(crate) fn hand_over(&self, device: &gpu_interop::Device, consumer: RawStream) -> Result<()> {
        if self.stream.as_raw() == consumer {
            return Ok(());
        }
        let mut event = lock(&self.event);
        let event = match &mut *event {
            Some(event) => event,
            empty => empty.insert(device.create_event()?),
        };
        self.stream.record(event)?;
        let raw: RawEvent = event.as_raw();
        // SAFETY: the event is live and of this device. The consumer's stream is live during this call, by the contract of
        // `__dlpack__`; the driver keeps what a pending wait needs.
        unsafe { device.as_raw().wait_event(consumer, raw) }
    }
}

/// A stream of another library that was used here, kept for further uses.
#[derive(Debug)]
pub(crate) struct Lent {
    raw: RawStream,
    flow: Arc<Flow>,
}

/// Most streams of other libraries that a device keeps.
const MOST_LENT: usize = 16;

/// The stream that `object` names: one of this library, one of another, or the device's default for `None`.
pub(crate) fn resolve(operation: &'static str, shared: &Arc<Shared>, object: &Bound<'_, PyAny>) -> PyResult<Arc<Flow>> {
    if object.is_none() {
        return shared.default_stream().cloned().raised();
    }
    if let Ok(stream) = object.cast::<PyStream>() {
        // The library checks the device.
        return stream.get().flow(operation);
    }
    let (raw, owned) = raw_stream(operation, object)?;
    if shared.is_host() {
        let message = "the host backend has no streams of other libraries; pass a gpu_interop.Stream or None";
        return Err(exception(&Error::invalid(operation, message)));
    }
    let raw = RawStream::new(raw);
    let instead = "pass a gpu_interop.Stream, a stream of torch or CuPy other than cupy.cuda.Stream.ptds, or None";
    // Before the driver sees the number, which is of another GPU's stream.
    check_device(operation, shared, object)?;
    // SAFETY: the stream is live during this call: its owner is, or the documentation requires it. It is one of this device: its
    // object does not say another, by `check_device`, or the documentation requires it.
    object.py().detach(|| unsafe { shared.device.check_raw_stream(operation, raw, instead) }).raised()?;
    if !owned {
        // SAFETY: checked above; the documentation requires of the caller that the stream lives until its work has completed and
        // `Device.collect` was called, and that no graph is captured on it before.
        let stream = unsafe { shared.device.stream_from_raw(raw) }.raised()?;
        return Ok(Arc::new(Flow::new(stream)));
    }
    // Dropped after the lock is released: the owner of a stream may run code of Python.
    let _evicted;
    let mut lent = lock(&shared.lent);
    if let Some(position) = lent.iter().position(|known| known.raw == raw) {
        // The most recently used one is the last.
        let known = lent.remove(position);
        let flow = known.flow.clone();
        lent.push(known);
        return Ok(flow);
    }
    let owner: Arc<Py<PyAny>> = Arc::new(object.clone().unbind());
    // SAFETY: checked above; the object owns the driver's stream of this number, by the protocols of `raw_stream`, and is kept.
    // The documentation requires of the caller that no graph is captured on it before its work has completed.
    let stream = unsafe { shared.device.stream_from_raw_with_owner(raw, owner) }.raised()?;
    let flow = Arc::new(Flow::new(stream));
    _evicted = (lent.len() == MOST_LENT).then(|| lent.remove(0));
    lent.push(Lent { raw, flow: flow.clone() });
    Ok(flow)
}

/// Rejects a stream that says it is on another GPU: its number would name another stream here, or none.
fn check_device(operation: &'static str, shared: &Shared, stream: &Bound<'_, PyAny>) -> PyResult<()> {
    match (ordinal_of(stream), shared.device.ordinal()) {
        (Some(theirs), Some(ours)) if theirs != ours => {
            let backend = &shared.device.backend().name;
            let message = format!(
                "the stream is on another GPU than the timeline; pass a stream of the timeline's device, or use a timeline \
                 of the stream's: gpu_interop.open({theirs}, backend=\"{backend}\"); if it is a torch.cuda.ExternalStream, \
                 create it with its device"
            );
            let error = Error::new(ErrorKind::DeviceMismatch, operation, message)
                .with_backend(backend)
                .with_device(shared.device.identity())
                .with_context("stream's device", theirs)
                .with_context("timeline's device", ours);
            Err(exception(&error))
        }
        _ => Ok(()),
    }
}

/// The ordinal of the device that a stream of another library says it is on. The libraries count devices as the driver does
/// in this process. `None` if it does not say, as CuPy's default stream, whose number is -1.
fn ordinal_of(stream: &Bound<'_, PyAny>) -> Option<usize> {
    let py = stream.py();
    let number =
        |object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>| object.getattr_opt(name).ok()??.extract::<usize>().ok();
    // torch, CuPy; then the device's object of torch, and of cuda.core.
    let device_id = intern!(py, "device_id");
    number(stream, intern!(py, "device_index")).or_else(|| number(stream, device_id)).or_else(|| {
        let device = stream.getattr_opt(intern!(py, "device")).ok()??;
        number(&device, intern!(py, "index")).or_else(|| number(&device, device_id))
    })
}

/// The driver's stream of an object, and whether the object owns it.
fn raw_stream(operation: &'static str, object: &Bound<'_, PyAny>) -> PyResult<(usize, bool)> {
    if !object.is_instance_of::<PyBool>() {
        if let Ok(method) = object.getattr("__cuda_stream__") {
            let (_version, raw): (u32, usize) = method.call0()?.extract()?;
            return Ok((raw, true));
        }
        if let Ok(raw) = object.getattr("cuda_stream") {
            return Ok((raw.extract()?, true));
        }
        // Memory and events have a `ptr`, too, here and in CuPy.
        if object.hasattr("wait_event")?
            && let Ok(raw) = object.getattr("ptr")
        {
            return Ok((raw.extract()?, true));
        }
        if let Ok(raw) = object.extract::<usize>() {
            return Ok((raw, false));
        }
    }
    let message = "not a stream; pass a gpu_interop.Stream, an object with __cuda_stream__(), cuda_stream (torch) or ptr \
                   and wait_event (CuPy), the address as an integer, or None for the device's default stream";
    let given = object.repr().map_or_else(|_| String::new(), |text| text.to_string());
    Err(exception(&Error::invalid(operation, message).with_context("given", given)))
}

/// A queue of work that runs in order, asynchronously to the host. Dropping it does not wait: its work still runs.
#[pyclass(frozen, module = "gpu_interop", name = "Stream")]
#[derive(Debug)]
pub(crate) struct PyStream {
    flow: Mutex<Option<Arc<Flow>>>,
    pub(crate) shared: Arc<Shared>,
}

impl PyStream {
    pub(crate) fn new(flow: Arc<Flow>, shared: Arc<Shared>) -> Self {
        Self { flow: Mutex::new(Some(flow)), shared }
    }

    pub(crate) fn flow(&self, operation: &'static str) -> PyResult<Arc<Flow>> {
        // Unlocked before the exception is made, which may let other threads take the GIL.
        let flow = self.lock().clone();
        flow.ok_or_else(|| exception(&closed(operation, "stream")))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Flow>>> {
        lock(&self.flow)
    }
}

#[pymethods]
impl PyStream {
    /// The device of the stream.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(&self.shared)
    }

    /// Address of the driver's stream, for ``torch.cuda.ExternalStream(stream.ptr, device=...)`` and
    /// ``cupy.cuda.ExternalStream``. Without ``device``, torch takes its current device as the stream's.
    #[getter]
    fn ptr(&self) -> PyResult<usize> {
        Ok(self.flow("Stream.ptr")?.stream.as_raw().get())
    }

    /// The CUDA stream protocol: version 0 and the address.
    fn __cuda_stream__(&self) -> PyResult<(u32, usize)> {
        if self.shared.is_host() {
            let message = "streams of the host backend are threads, not streams of CUDA";
            return Err(exception(&Error::unsupported("Stream.__cuda_stream__", message)));
        }
        Ok((0, self.ptr()?))
    }

    /// Waits until all enqueued work has completed, or raises :class:`Timeout` after ``timeout`` seconds; 0 queries once,
    /// as :attr:`idle` does. The message of a :class:`Timeout` lists the timelines that the stream waits for. Releases the
    /// GIL and honours Ctrl-C.
    ///
    /// Raises the failure of the enqueued work since the last call. A wait that :meth:`Timeline.abandon` or
    /// :meth:`Timeline.watch_process` released is :class:`Cancelled`: the work ran without the data that it waited for. For
    /// native timelines that holds for the last 4 timelines that the stream waited for.
    #[pyo3(signature = (timeout=None))]
    fn synchronize(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        const OPERATION: &str = "Stream.synchronize";
        let flow = self.flow(OPERATION)?;
        let timeout = timeline::checked_timeout(OPERATION, timeout)?;
        synchronize(py, OPERATION, &flow, timeout)
    }

    /// True if all enqueued work has completed. On HIP the first query after new work may be false although
    /// it has.
    #[getter]
    fn idle(&self, py: Python<'_>) -> PyResult<bool> {
        let flow = self.flow("Stream.idle")?;
        py.detach(|| flow.stream.is_idle()).raised()
    }

    /// Fills memory or a packed tensor with a byte (``bits=8``) or a 32-bit word.
    #[pyo3(signature = (target, value, *, bits=8))]
    fn fill(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = natural::<u32>)] value: u32,
        bits: u32,
    ) -> PyResult<()> {
        const OPERATION: &str = "Stream.fill";
        let (flow, target) = (self.flow(OPERATION)?, Operand::new(OPERATION, target)?);
        target.check_writable(OPERATION)?;
        let byte = u8::try_from(value);
        py.detach(|| match (bits, byte) {
            (32, _) => flow.stream.fill_u32(target.slice()?, value),
            (8, Ok(byte)) => flow.stream.fill(target.slice()?, byte),
            _ => Err(Error::invalid(OPERATION, "pass a byte with bits=8, or a 32-bit word with bits=32")
                .with_context("value", value)
                .with_context("bits", bits)),
        })
        .raised()
    }

    /// Copies memory, a packed tensor, level 0 of an :class:`Array` or an :class:`ArrayRegion` to another of the same size in
    /// bytes. Texels are not converted.
    ///
    /// A tensor must have the shape and dtype of the texels; dimensions of length 1 do not count. Between memory and tensors
    /// only the bytes are compared. Not checked: Vulkan must have initialised and released an image before the stream uses its
    /// array.
    fn copy(&self, py: Python<'_>, target: &Bound<'_, PyAny>, source: &Bound<'_, PyAny>) -> PyResult<()> {
        const OPERATION: &str = "Stream.copy";
        let flow = self.flow(OPERATION)?;
        let (target, source) = (Side::new(OPERATION, target)?, Side::new(OPERATION, source)?);
        target.check_writable(OPERATION)?;
        if let (Side::Linear(linear), Side::Texels(texels)) | (Side::Texels(texels), Side::Linear(linear)) =
            (&target, &source)
        {
            check_packed(OPERATION, linear, texels).raised()?;
        }
        let stream = &flow.stream;
        py.detach(|| match (&target, &source) {
            (Side::Linear(target), Side::Linear(source)) => stream.copy(target.slice()?, source.slice()?),
            (Side::Linear(target), Side::Texels(source)) => stream.copy_from_array(target.slice()?, source.region()?),
            (Side::Texels(target), Side::Linear(source)) => stream.copy_to_array(target.region()?, source.slice()?),
            (Side::Texels(target), Side::Texels(source)) => stream.copy_array(target.region()?, source.region()?),
        })
        .raised()
    }

    /// Copies memory, a packed tensor, level 0 of an :class:`Array` or an :class:`ArrayRegion` to the host, in stream order,
    /// and waits for it. Texels have no gaps.
    fn read<'py>(&self, py: Python<'py>, source: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        const OPERATION: &str = "Stream.read";
        let (flow, source) = (self.flow(OPERATION)?, Side::new(OPERATION, source)?);
        let size = usize::try_from(source.size().raised()?).map_err(PyErr::from)?;
        // Here, because the copy's own wait does not honour Ctrl-C.
        synchronize(py, OPERATION, &flow, None)?;
        PyBytes::new_with(py, size, |bytes| {
            py.detach(|| match &source {
                Side::Linear(source) => flow.stream.read(source.slice()?, bytes),
                Side::Texels(source) => flow.stream.read_array(source.region()?, bytes),
            })
            .raised()
        })
    }

    /// Copies bytes of the host to memory, a packed tensor, level 0 of an :class:`Array` or an :class:`ArrayRegion` of the
    /// same size, in stream order, and waits for it.
    fn write(&self, py: Python<'_>, target: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        const OPERATION: &str = "Stream.write";
        let (flow, target) = (self.flow(OPERATION)?, Side::new(OPERATION, target)?);
        target.check_writable(OPERATION)?;
        let data = bytes_of(py, data)?;
        let bytes = data.as_bytes();
        // As in `read`.
        synchronize(py, OPERATION, &flow, None)?;
        py.detach(|| match &target {
            Side::Linear(target) => flow.stream.write(target.slice()?, bytes),
            Side::Texels(target) => flow.stream.write_array(target.region()?, bytes),
        })
        .raised()
    }

    /// Keeps memory or a packed tensor until the work enqueued here has completed: work of other libraries on this
    /// stream that uses it.
    fn keep(&self, used: &Bound<'_, PyAny>) -> PyResult<()> {
        const OPERATION: &str = "Stream.keep";
        let (flow, used) = (self.flow(OPERATION)?, Operand::new(OPERATION, used)?);
        used.slice().and_then(|slice| flow.stream.keep(slice)).raised()
    }

    /// Drops the stream. Work already enqueued still runs.
    fn close(&self) {
        let flow = self.lock().take();
        detached_drop(flow);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let state = self.flow("").map_or_else(|_| "closed".into(), |flow| format!("{:#x}", flow.stream.as_raw().get()));
        format!(
            "<gpu_interop.Stream {state} of {} {}>",
            self.shared.device.backend().name,
            self.shared.device.identity()
        )
    }
}

/// The message for another operand of copies.
const ACCEPTED: &str = "pass a gpu_interop.Memory, Tensor, Array or ArrayRegion; for a tensor of another library create \
                        memory here, tensor = device.allocate(size).tensor(shape, dtype), pass that tensor, and use the same \
                        memory there: from_dlpack(tensor)";

/// Rejects memory without the size of the texels, and a tensor without their shape and dtype. Dimensions of length 1 do not
/// count.
fn check_packed(operation: &'static str, linear: &Operand, texels: &Texels) -> Result<()> {
    let packed = texels.packed()?;
    let long = |length: &u64| *length != 1;
    let (wrong, given) = match &linear.layout {
        None if linear.size() == packed.size => return Ok(()),
        None => ("the memory does not have the size", format!("{} bytes", linear.size())),
        Some(layout) => {
            let shape: Vec<u64> = layout.shape.iter().map(|length| length.unsigned_abs()).collect();
            let equal =
                shape.iter().filter(|length| long(length)).eq(packed.shape.iter().filter(|length| long(length)));
            if equal && layout.dtype.name == packed.dtype {
                return Ok(());
            }
            ("the tensor does not have the shape and dtype", format!("{shape:?} {}", layout.dtype.name))
        }
    };
    let message = format!("{wrong} of the texels; use memory.tensor({})", packed.names);
    let texels = format!("{:?} {}, {} bytes", packed.shape, packed.dtype, packed.size);
    Err(Error::invalid(operation, message).with_context("given", given).with_context("texels", texels))
}

/// An operand of copies: memory, or texels of an array.
#[derive(Debug)]
enum Side {
    Linear(Operand),
    Texels(Texels),
}

impl Side {
    fn new(operation: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        match Texels::of(operation, object)? {
            Some(texels) => Ok(Self::Texels(texels)),
            None => Operand::or_else(operation, object, ACCEPTED).map(Self::Linear),
        }
    }

    fn size(&self) -> Result<u64> {
        match self {
            Self::Linear(memory) => Ok(memory.size()),
            Self::Texels(texels) => Ok(texels.region()?.size()),
        }
    }

    /// Rejects tensors that were declared read-only; the library checks arrays.
    fn check_writable(&self, operation: &'static str) -> PyResult<()> {
        match self {
            Self::Linear(memory) => memory.check_writable(operation),
            Self::Texels(_) => Ok(()),
        }
    }
}

/// Waits for a stream's work without the GIL.
pub(crate) fn synchronize(
    py: Python<'_>,
    operation: &'static str,
    flow: &Flow,
    timeout: Option<std::time::Duration>,
) -> PyResult<()> {
    // Without the timeout of the slice.
    let expired = |last: &Error| {
        let error = Error::new(ErrorKind::Timeout, operation, last.message());
        let waits = last.context().iter().filter(|(key, _)| *key != "timeout");
        waits.fold(error, |error, (key, value)| error.with_context(key, value))
    };
    timeline::sliced(py, timeout, |slice| flow.stream.synchronize_timeout(slice), expired)
}
