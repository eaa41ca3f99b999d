//! Views of memory as elements, for other libraries.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use gpu_interop::backend::RawStream;
use gpu_interop::{Error, ErrorKind};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::backing::Backing;
use crate::convert::{detached_drop, items, natural};
use crate::device::PyDevice;
use crate::dlpack::{self, DlDevice};
use crate::dtype::Dtype;
use crate::error::{Raise, exception};
use crate::exchange;
use crate::layout::{Layout, MOST_DIMENSIONS};
use crate::memory::PyMemory;
use crate::stream::{self, Flow, PyStream};

/// A view of memory as elements. Keeps the memory alive.
#[pyclass(frozen, subclass, module = "gpu_interop", name = "TensorBase")]
#[derive(Debug)]
pub(crate) struct PyTensor {
    /// Taken by `drop` only.
    pub(crate) backing: ManuallyDrop<Arc<Backing>>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) read_only: bool,
    address: u64,
    /// The stream whose work a consumer waits for; `None` for the device's default stream.
    flow: Option<Arc<Flow>>,
}

/// What a hand-over waits with.
enum Consumer {
    /// The caller orders the work itself.
    Unordered,
    /// The host reads the memory.
    Host,
    Stream(RawStream),
}

/// The class of Python, which adds the buffer protocol.
pub(crate) fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "gpu_interop._tensor", "Tensor")
}

impl PyTensor {
    /// A tensor on the same memory as an earlier one.
    pub(crate) fn of<'py>(
        py: Python<'py>,
        backing: Arc<Backing>,
        layout: &Layout,
        read_only: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Layout { dtype, shape, strides, offset } = layout;
        let memory = Bound::new(py, PyMemory::of(backing))?;
        class(py)?.call1((memory, shape.clone(), dtype.name, strides.clone(), offset, read_only))
    }

    /// What a consumer gets.
    pub(crate) fn as_export(&self) -> dlpack::Export<'_> {
        dlpack::Export {
            backing: &self.backing,
            layout: &self.layout,
            address: self.address,
            device: self.backing.device.dl,
            read_only: self.read_only,
            copied: false,
        }
    }

    /// Orders the work of the driver's default stream, or of the host for memory of the CPU, after that of the tensor's
    /// stream.
    pub(crate) fn hand_over_by_default(&self, py: Python<'_>) -> PyResult<()> {
        self.hand_over(py, &self.consumer(None)?)
    }

    /// Orders the consumer's work after that of the tensor's stream.
    fn hand_over(&self, py: Python<'_>, consumer: &Consumer) -> PyResult<()> {
        let Some(flow) = self.flow.as_ref().or_else(|| self.backing.device.existing_default_stream()) else {
            return Ok(());
        };
        match consumer {
            Consumer::Unordered => Ok(()),
            Consumer::Host => stream::synchronize(py, "Tensor.__dlpack__", flow, None),
            Consumer::Stream(raw) => {
                let device = &self.backing.device.device;
                py.detach(|| flow.hand_over(device, *raw)).raised()
            }
        }
    }

    /// The consumer that the argument `stream` of `__dlpack__` names.
    fn consumer(&self, stream: Option<&Bound<'_, PyAny>>) -> PyResult<Consumer> {
        let device = self.backing.device.dl;
        let number = match stream.filter(|stream| !stream.is_none()) {
            None => None,
            Some(stream) => Some(stream.extract::<i64>().map_err(|_| {
                PyTypeError::new_err("stream must be an integer or None: the address of the consumer's stream, or -1")
            })?),
        };
        if device == DlDevice::CPU {
            return match number {
                None => Ok(Consumer::Host),
                Some(-1) => Ok(Consumer::Unordered),
                Some(_) => Err(PyValueError::new_err("stream must be None for memory of the CPU")),
            };
        }
        let is_cuda = device.kind == DlDevice::cuda(0).kind;
        match number {
            Some(-1) => Ok(Consumer::Unordered),
            // 2 with CUDA, the per-thread default stream, is that of this thread, the consumer's: the wait is enqueued here, and
            // nothing is kept.
            // The default stream; with CUDA the legacy one, whose address is 0 for the driver.
            None => Ok(Consumer::Stream(RawStream::new(0))),
            Some(1) if is_cuda => Ok(Consumer::Stream(RawStream::new(0))),
            Some(0) if is_cuda => Err(PyValueError::new_err(
                "stream 0 is ambiguous with CUDA: pass 1 for the legacy default stream or 2 for the thread's",
            )),
            Some(1 | 2) if !is_cuda => Err(PyValueError::new_err("streams 1 and 2 do not exist with ROCm: pass 0")),
            Some(number) => usize::try_from(number)
                .map(|raw| Consumer::Stream(RawStream::new(raw)))
                .map_err(|_| PyValueError::new_err("stream must be -1, or the address of a stream")),
        }
    }

    /// A packed copy in memory of the host.
    fn host_copy(&self) -> PyResult<(Arc<Backing>, Arc<Layout>)> {
        let layout = Layout::new(self.layout.dtype, self.layout.shape.clone(), None, 0, (0, i64::MAX.unsigned_abs()));
        let layout = layout.raised()?;
        let words = usize::try_from(layout.bytes().div_ceil(8))?;
        let mut copy = Vec::new();
        if copy.try_reserve_exact(words).is_err() {
            let error = Error::new(ErrorKind::OutOfMemory, "Tensor.__dlpack__", "the host has no memory for the copy");
            return Err(exception(&error.with_context("bytes", layout.bytes())));
        }
        copy.resize(words, 0_u64);
        let mut copy = copy.into_boxed_slice();
        let element = usize::try_from(layout.dtype.size())?;
        let target = copy.as_mut_ptr().cast::<u8>();
        let source: *const u8 = std::ptr::with_exposed_provenance(usize::try_from(self.address)?);
        let mut index = vec![0_i64; layout.shape.len()];
        for position in 0..usize::try_from(layout.elements())? {
            let at: i64 = index.iter().zip(&self.layout.strides).map(|(index, stride)| index * stride).sum();
            let at = isize::try_from(at)? * element.cast_signed();
            for byte in 0..element {
                // SAFETY: `Layout::new` checked that each element of the tensor is inside its memory, which the host may read
                // (the caller checked) and `backing` keeps mapped. `copy` has `elements` packed elements, and is new. The read
                // is volatile because other processes may write the memory: then the bytes are theirs, old or new.
                unsafe { target.add(position * element + byte).write(source.offset(at).add(byte).read_volatile()) };
            }
            for (digit, length) in index.iter_mut().zip(&layout.shape).rev() {
                *digit += 1;
                if *digit < *length {
                    break;
                }
                *digit = 0;
            }
        }
        Ok((Arc::new(Backing::copied(self.backing.device.clone(), copy)), Arc::new(layout)))
    }

    /// The dictionary of both array interfaces.
    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(typestr) = self.layout.dtype.typestr() else {
            return Err(PyAttributeError::new_err(format!(
                "the array interface has no {}; use DLPack, or view the memory as uint8 or uint16",
                self.layout.dtype.name
            )));
        };
        let interface = PyDict::new(py);
        interface.set_item("shape", PyTuple::new(py, &self.layout.shape)?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (self.address, self.read_only))?;
        let strides = if self.layout.is_packed() { None } else { Some(PyTuple::new(py, self.layout.byte_strides())?) };
        interface.set_item("strides", strides)?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (memory, shape, dtype, strides=None, offset=0, readonly=false, stream=None))]
    #[allow(clippy::too_many_arguments)] // The arguments of `Memory.tensor`.
    fn new(
        py: Python<'_>,
        memory: &Bound<'_, PyMemory>,
        shape: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
        strides: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        readonly: bool,
        stream: Option<&Bound<'_, PyStream>>,
    ) -> PyResult<Self> {
        const OPERATION: &str = "Memory.tensor";
        let backing = memory.get().backing(OPERATION)?;
        // One length, as in numpy.
        let lengths = |given: &Bound<'_, PyAny>| items(given, MOST_DIMENSIONS + 1);
        let shape = shape.extract::<i64>().map_or_else(|_| lengths(shape), |length| Ok(vec![length]))?;
        let strides = strides.map(lengths).transpose()?;
        let dtype = Dtype::parse(dtype)?;
        let base = py.detach(|| backing.address()).raised()?;
        let layout = Layout::new(dtype, shape, strides, offset, (base, backing.size())).raised()?;
        let flow = match stream {
            None => None,
            Some(stream) if Arc::ptr_eq(&stream.get().shared, &backing.device) => Some(stream.get().flow(OPERATION)?),
            Some(_) => {
                let message = "the stream belongs to another device than the memory";
                return Err(exception(&Error::new(ErrorKind::InvalidArgument, OPERATION, message)));
            }
        };
        let read_only = readonly || backing.is_read_only();
        Ok(Self {
            address: base + offset,
            layout: Arc::new(layout),
            read_only,
            flow,
            backing: ManuallyDrop::new(backing),
        })
    }

    /// Lengths of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.layout.shape)
    }

    /// Elements between neighbours in each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.layout.strides)
    }

    /// Name of the type of elements.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.layout.dtype.name
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> u64 {
        self.layout.dtype.size()
    }

    /// Number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.layout.shape.len()
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> u64 {
        self.layout.elements()
    }

    /// Bytes of the elements, without gaps.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.layout.bytes()
    }

    /// Bytes from the start of the memory to the first element.
    #[getter]
    fn offset(&self) -> u64 {
        self.layout.offset
    }

    /// Address of the first element in the device's address space: torch's ``data_ptr()``.
    #[getter]
    fn ptr(&self) -> u64 {
        self.address
    }

    /// True if consumers may only read.
    #[getter]
    fn readonly(&self) -> bool {
        self.read_only
    }

    /// The device of the memory.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(&self.backing.device)
    }

    /// DLPack's C exchange API, version 1.3, for consumers in C: its functions order the driver's default stream, the "current
    /// work stream", after the tensor's stream, without a wait of the host. Memory of the CPU is ready: the host waits. The
    /// allocator needs an open :class:`Device`. Only tensors of this module become objects again.
    #[classattr]
    fn __dlpack_c_exchange_api__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        exchange::capsule(py)
    }

    /// DLPack's type and number of the device.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (self.backing.device.dl.kind, self.backing.device.dl.number)
    }

    /// A capsule for ``from_dlpack``. The consumer's stream waits for the work on the tensor's stream; for memory of the
    /// CPU, the host waits. The capsule keeps the memory alive.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let device = self.backing.device.dl;
        if dl_device.is_some_and(|wanted| wanted != (device.kind, device.number)) {
            return Err(PyBufferError::new_err(
                "the memory is on another device than dl_device; copy it with the consumer's own methods",
            ));
        }
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        if self.read_only && !versioned && copy != Some(true) {
            return Err(PyBufferError::new_err(
                "the tensor is read-only, which DLPack before version 1.0 cannot express; pass copy=True or use a consumer \
                 that passes max_version=(1, 0)",
            ));
        }
        let consumer = self.consumer(stream)?;
        self.hand_over(py, &consumer)?;
        if copy == Some(true) {
            if device != DlDevice::CPU {
                return Err(PyBufferError::new_err(
                    "memory of a GPU is not copied here; copy it in the consumer: clone()",
                ));
            }
            let (backing, layout) = self.host_copy()?;
            let address = backing.address().raised()?;
            let export =
                dlpack::Export { backing: &backing, layout: &layout, address, device, read_only: false, copied: true };
            return dlpack::capsule(py, &export, versioned);
        }
        dlpack::capsule(py, &self.as_export(), versioned)
    }

    /// numpy's array interface, on memory of the CPU. Waits for the work on the tensor's stream.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if !self.backing.device.is_host() {
            return Err(PyAttributeError::new_err("the host cannot access memory of a GPU; use torch, CuPy or JAX"));
        }
        let interface = self.interface(py)?;
        self.hand_over(py, &Consumer::Host)?;
        Ok(interface)
    }

    /// The CUDA array interface, version 3, on GPUs. Its ``stream`` is the tensor's stream, for which the consumer waits.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let device = &self.backing.device;
        if device.is_host() {
            return Err(PyAttributeError::new_err("memory of the CPU has no CUDA array interface; use numpy"));
        }
        let interface = self.interface(py)?;
        let flow = self.flow.as_ref().or_else(|| device.existing_default_stream());
        interface.set_item("stream", flow.map(|flow| flow.stream.as_raw().get()))?;
        Ok(interface)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first =
            self.layout.shape.first().ok_or_else(|| PyTypeError::new_err("len() of a tensor without dimensions"))?;
        Ok(usize::try_from(*first)?)
    }

    fn __repr__(&self) -> String {
        let (layout, device) = (&self.layout, &self.backing.device.device);
        let strides = if layout.is_packed() { String::new() } else { format!(", strides {:?}", layout.strides) };
        let access = if self.read_only { ", read-only" } else { "" };
        format!(
            "<gpu_interop.Tensor {} {:?}{strides}{access} at {:#x} on {} {}>",
            layout.dtype.name,
            layout.shape,
            self.address,
            device.backend().name,
            device.identity()
        )
    }
}

impl Drop for PyTensor {
    fn drop(&mut self) {
        // SAFETY: the field is not used after this, the only call.
        let backing = unsafe { ManuallyDrop::take(&mut self.backing) };
        // The last reference frees the memory.
        if let Some(last) = Arc::into_inner(backing) {
            detached_drop(last);
        }
    }
}
