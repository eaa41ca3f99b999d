//! Small conversions between Python and Rust, and operands of streams.

use std::ops::Range;
use std::sync::Arc;

use gpu_interop::{BufferSlice, Error, Result};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
#[cfg(not(windows))]
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySequence, PyString};

use crate::backing::Backing;
use crate::error::exception;
use crate::layout::Layout;
use crate::memory::PyMemory;
use crate::tensor::PyTensor;

/// True in the main interpreter; also where it cannot be asked, in the stable ABI for Windows.
pub(crate) fn in_main_interpreter(_: Python<'_>) -> bool {
    #[cfg(windows)]
    {
        true
    }
    // SAFETY: the GIL is held, so this thread has an interpreter.
    #[cfg(not(windows))]
    unsafe {
        // That of the main interpreter is 0.
        ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) <= 0
    }
}

/// True if this thread holds the GIL. False where it cannot be asked, in the stable ABI for Windows.
pub(crate) fn holds_gil() -> bool {
    #[cfg(windows)]
    {
        false
    }
    #[cfg(not(windows))]
    {
        unsafe extern "C" {
            // Not in the headers of the stable ABI, but exported by every version.
            fn PyGILState_Check() -> std::ffi::c_int;
        }
        // SAFETY: callable in every state of the interpreter.
        unsafe { ffi::Py_IsInitialized() != 0 && PyGILState_Check() != 0 }
    }
}

/// Runs code without the GIL, which this thread holds.
pub(crate) fn detached<T: Send>(code: impl FnOnce() -> T + Send) -> T {
    Python::attach(|py| py.detach(code))
}

/// Drops a value without the GIL: freeing device memory may wait for work of the device.
pub(crate) fn detached_drop<T: Send>(value: T) {
    let mut value = Some(value);
    // Without an interpreter, such as during its exit, there is no GIL to release.
    let _dropped = Python::try_attach(|py| py.detach(|| drop(value.take())));
    drop(value);
}

/// A number that is not negative. Unlike the extraction by Python, whose class is `OverflowError`, another one is an error
/// of this module.
pub(crate) fn natural<'py, T>(number: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    number.extract().map_err(|error: PyErr| {
        if !error.is_instance_of::<PyOverflowError>(number.py()) {
            return error;
        }
        let message = format!("a number is negative or too great; pass one from 0 to 2**{} - 1", 8 * size_of::<T>());
        let given = number.repr().map_or_else(|_| String::new(), |text| text.to_string());
        exception(&Error::invalid("gpu_interop", message).with_context("given", given))
    })
}

/// As [`natural`], or `None`.
pub(crate) fn natural_or_none(number: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if number.is_none() { Ok(None) } else { natural(number).map(Some) }
}

/// The first `most` items of a sequence. Unlike the extraction of a `Vec`, this does not allocate by the sequence's length:
/// that of a wrong argument, such as `range(2**40)`, may exceed the memory.
pub(crate) fn items<T>(sequence: &Bound<'_, PyAny>, most: usize) -> PyResult<Vec<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    if sequence.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("a sequence is needed, not a str"));
    }
    let sequence = sequence.cast::<PySequence>()?;
    sequence.try_iter()?.take(most).map(|item| item?.extract().map_err(Into::into)).collect()
}

/// Name of an object's type with its module, such as `torch.Tensor`.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().fully_qualified_name().map_or_else(|_| String::new(), |name| name.to_string())
}

/// The bytes of any object with the buffer protocol, in C order.
pub(crate) fn bytes_of<'py>(py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let view = py.import("builtins")?.getattr("memoryview")?.call1((data,)).map_err(|cause| {
        if !cause.is_instance_of::<PyTypeError>(py) {
            return cause;
        }
        let error = PyTypeError::new_err(format!(
            "bytes or an object with the buffer protocol are needed, not {}; pass tensor.numpy() of a torch tensor on the \
             CPU, and tensor.cpu().numpy() of one on a GPU",
            type_name(data)
        ));
        error.set_cause(py, Some(cause));
        error
    })?;
    Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?)
}

/// A range of bytes that streams read or write.
#[derive(Debug)]
pub(crate) struct Operand {
    backing: Arc<Backing>,
    range: Range<u64>,
    read_only: bool,
    /// `None` for a `Memory`.
    pub(crate) layout: Option<Arc<Layout>>,
}

impl Operand {
    /// The bytes of a `Memory` or of a packed `Tensor`.
    pub(crate) fn new(operation: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::or_else(operation, object, "pass a gpu_interop.Memory or a gpu_interop.Tensor")
    }

    /// As [`Operand::new`]; `accepted` is the message for another type.
    pub(crate) fn or_else(operation: &'static str, object: &Bound<'_, PyAny>, accepted: &str) -> PyResult<Self> {
        if let Ok(memory) = object.cast::<PyMemory>() {
            let backing = memory.get().backing(operation)?;
            return Ok(Self { range: 0..backing.size(), backing, read_only: false, layout: None });
        }
        let Ok(tensor) = object.cast::<PyTensor>() else {
            return Err(exception(&Error::invalid(operation, accepted).with_context("given", type_name(object))));
        };
        let tensor = tensor.get();
        let layout = &tensor.layout;
        if !layout.is_packed() {
            let message = "streams copy packed tensors only; use the tensor in torch, CuPy or numpy";
            let error =
                Error::invalid(operation, message).with_context("strides", format_args!("{:?}", layout.strides));
            return Err(exception(&error));
        }
        let range = layout.offset..layout.offset + layout.bytes();
        let layout = Some(Arc::clone(layout));
        Ok(Self { backing: Arc::clone(&tensor.backing), range, read_only: tensor.read_only, layout })
    }

    pub(crate) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(crate) fn slice(&self) -> Result<BufferSlice<'_>> {
        self.backing.slice()?.slice(self.range.clone())
    }

    /// Rejects tensors that were declared read-only.
    pub(crate) fn check_writable(&self, operation: &'static str) -> PyResult<()> {
        if self.read_only {
            return Err(exception(&Error::invalid(
                operation,
                "the tensor is read-only; create it without readonly=True",
            )));
        }
        Ok(())
    }
}
