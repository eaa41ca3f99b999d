//! DLPack's C exchange API: a table of functions for consumers in C, on the type of tensors.
//!
//! <https://dmlc.github.io/dlpack/latest/python_spec.html>

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, Weak};

use gpu_interop::sync::lock;
use gpu_interop::{Error, ErrorKind, Result};
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::backing::Backing;
use crate::convert::{detached, holds_gil};
use crate::device::Shared;
use crate::dlpack::{self, DlDevice, DlTensor, Version, Versioned};
use crate::dtype::Dtype;
use crate::error::{in_python, operation};
use crate::layout::{Layout, MOST_DIMENSIONS};
use crate::tensor::PyTensor;

const NAME: &CStr = c"dlpack_exchange_api";
const ALLOCATOR: &str = "Tensor.__dlpack_c_exchange_api__";

/// Reports an error of the allocator: its context, the name of a class of Python, and the message.
type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackExchangeAPIHeader`.
#[repr(C)]
struct Header {
    version: Version,
    previous: *mut Header,
}

/// `DLPackExchangeAPI`.
#[repr(C)]
struct Table {
    header: Header,
    managed_tensor_allocator:
        unsafe extern "C" fn(*mut DlTensor, *mut *mut Versioned, *mut c_void, Option<SetError>) -> c_int,
    managed_tensor_from_py_object_no_sync: unsafe extern "C" fn(*mut c_void, *mut *mut Versioned) -> c_int,
    managed_tensor_to_py_object_no_sync: unsafe extern "C" fn(*mut Versioned, *mut *mut c_void) -> c_int,
    dltensor_from_py_object_no_sync: unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int,
    current_work_stream: unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int,
}

// SAFETY: nothing writes to the table, and its pointer is null.
unsafe impl Sync for Table {}

static TABLE: Table = Table {
    header: Header { version: Version { major: 1, minor: 3 }, previous: null_mut() },
    managed_tensor_allocator: allocate,
    managed_tensor_from_py_object_no_sync: managed_from_object,
    managed_tensor_to_py_object_no_sync: object_from_managed,
    dltensor_from_py_object_no_sync: plain_from_object,
    current_work_stream,
};

/// Open devices, for the allocator.
static DEVICES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Makes a device known to the allocator, while it is open.
pub(crate) fn register(device: &Arc<Shared>) {
    let mut devices = lock(&DEVICES);
    devices.retain(|known| known.strong_count() > 0);
    devices.push(Arc::downgrade(device));
}

/// The device with this number that was opened first.
fn device(wanted: DlDevice) -> Result<Arc<Shared>> {
    // Upgraded outside of the lock: the drop of the last reference closes a device.
    let known = lock(&DEVICES).clone();
    known.iter().filter_map(Weak::upgrade).find(|device| device.dl == wanted).ok_or_else(|| {
        let message = "no open gpu_interop.Device has this type and number; open it and keep it";
        Error::new(ErrorKind::NoDevice, ALLOCATOR, message)
            .with_context("device_type", wanted.kind)
            .with_context("device_id", wanted.number)
    })
}

/// The capsule of the table, which lives as long as the process.
pub(crate) fn capsule(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let table = (&raw const TABLE).cast_mut().cast();
    // SAFETY: the GIL is held; the table and the name are static, and there is no destructor.
    let object = unsafe { ffi::PyCapsule_New(table, NAME.as_ptr(), None) };
    // SAFETY: a new reference, or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, object) }.map(Bound::unbind)
}

/// Runs code for a caller in C that holds the GIL: 0, or -1 with a Python exception set. Nothing unwinds.
fn answer(code: impl FnOnce(Python<'_>) -> PyResult<()>) -> c_int {
    Python::attach(|py| {
        let outcome = catch_unwind(AssertUnwindSafe(|| code(py)));
        match outcome.unwrap_or_else(|_| Err(PyRuntimeError::new_err("gpu_interop panicked"))) {
            Ok(()) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    })
}

/// The tensor behind a consumer's pointer, ready for the consumer: the driver's default stream, the stream of
/// [`current_work_stream`], waits for the tensor's stream; for memory of the CPU, the host does.
///
/// # Safety
/// `object` is null or a live object of Python.
unsafe fn ready<'py>(py: Python<'py>, object: *mut c_void) -> PyResult<Bound<'py, PyTensor>> {
    // SAFETY: the caller's promise.
    let object = unsafe { Bound::from_borrowed_ptr_or_opt(py, object.cast()) };
    let object = object.ok_or_else(|| PyBufferError::new_err("the object is null; pass a gpu_interop.Tensor"))?;
    let tensor = object.cast_into::<PyTensor>()?;
    tensor.get().hand_over_by_default(py)?;
    Ok(tensor)
}

fn null(what: &str) -> PyErr {
    PyBufferError::new_err(format!("{what} is null"))
}

/// `DLPackManagedTensorFromPyObjectNoSync`.
///
/// # Safety
/// The GIL is held. `object` is null or a live object of Python, `out` is null or writable.
unsafe extern "C" fn managed_from_object(object: *mut c_void, out: *mut *mut Versioned) -> c_int {
    answer(|py| {
        if out.is_null() {
            return Err(null("out"));
        }
        // SAFETY: the caller's promise.
        let tensor = unsafe { ready(py, object) }?;
        let managed = dlpack::versioned(&tensor.get().as_export())?;
        // SAFETY: the caller's promise; not null.
        unsafe { out.write(managed.as_ptr()) };
        Ok(())
    })
}

/// `DLPackDLTensorFromPyObjectNoSync`: shape and strides are the tensor object's own.
///
/// # Safety
/// As for [`managed_from_object`].
unsafe extern "C" fn plain_from_object(object: *mut c_void, out: *mut DlTensor) -> c_int {
    answer(|py| {
        if out.is_null() {
            return Err(null("out"));
        }
        // SAFETY: the caller's promise.
        let tensor = unsafe { ready(py, object) }?;
        let tensor = tensor.get();
        if tensor.read_only {
            return Err(PyBufferError::new_err(
                "the tensor is read-only, which a DLTensor cannot express; use managed_tensor_from_py_object_no_sync",
            ));
        }
        let (shape, strides) = (tensor.layout.shape.as_ptr(), tensor.layout.strides.as_ptr());
        let plain = dlpack::plain(&tensor.as_export(), shape.cast_mut(), strides.cast_mut())?;
        // SAFETY: the caller's promise; not null.
        unsafe { out.write(plain) };
        Ok(())
    })
}

/// `DLPackManagedTensorToPyObjectNoSync`: tensors of this module only.
///
/// # Safety
/// The GIL is held. `managed` is null or a live tensor whose ownership passes over; `out` is null or writable.
unsafe extern "C" fn object_from_managed(managed: *mut Versioned, out: *mut *mut c_void) -> c_int {
    answer(|py| {
        let Some(managed) = NonNull::new(managed) else { return Err(null("tensor")) };
        // SAFETY: the caller's promise.
        let owned = unsafe { dlpack::Owned::new(managed) };
        if out.is_null() {
            return Err(null("out"));
        }
        let Some((backing, layout, read_only)) = owned.parts() else {
            return Err(PyBufferError::new_err(
                "a gpu_interop.Tensor views memory of this module only; import the tensor with the consumer's from_dlpack, or copy \
                 it to memory of Device.allocate",
            ));
        };
        let object = PyTensor::of(py, backing, &layout, read_only)?;
        // SAFETY: the caller's promise; not null.
        unsafe { out.write(object.into_ptr().cast()) };
        Ok(())
    })
}

/// `DLPackCurrentWorkStream`: the driver's default stream, null, for which tensors are made ready.
///
/// # Safety
/// `out` is null or writable.
unsafe extern "C" fn current_work_stream(_kind: c_int, _number: i32, out: *mut *mut c_void) -> c_int {
    if out.is_null() {
        return answer(|_| Err(null("out")));
    }
    // SAFETY: the caller's promise; not null.
    unsafe { out.write(null_mut()) };
    0
}

/// `DLPackManagedTensorAllocator`: exportable memory of an open device, in C order. With or without the GIL.
///
/// # Safety
/// `prototype` is null or live, and its shape has as many numbers as it says; `out` is null or writable; `set_error` may be
/// called with `context`.
unsafe extern "C" fn allocate(
    prototype: *mut DlTensor,
    out: *mut *mut Versioned,
    context: *mut c_void,
    set_error: Option<SetError>,
) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise.
        let prototype = unsafe { prototype.as_ref() };
        let prototype = prototype.filter(|_| !out.is_null());
        let prototype = prototype.ok_or_else(|| Error::invalid(ALLOCATOR, "the prototype or out is null"))?;
        // SAFETY: the caller's promise.
        let managed = unsafe { allocated(prototype) }?;
        // SAFETY: the caller's promise; not null.
        unsafe { out.write(managed.as_ptr()) };
        Ok(())
    }));
    let (class, message) = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => {
            let error: Error = error;
            (class_of(error.kind()), message(&error))
        }
        Err(_) => (c"RuntimeError", "gpu_interop panicked".to_owned()),
    };
    if let Some(set_error) = set_error {
        let message = CString::new(message.replace('\0', "\u{fffd}")).unwrap_or_default();
        // SAFETY: the caller's promise; both texts live during the call.
        unsafe { set_error(context, class.as_ptr(), message.as_ptr()) };
    }
    -1
}

fn message(error: &Error) -> String {
    let text = format!("{error:?}");
    let rest = text.strip_prefix(error.operation()).unwrap_or(&text);
    format!("{}{}", operation(error.operation()), in_python(rest))
}

fn class_of(kind: ErrorKind) -> &'static CStr {
    match kind {
        ErrorKind::OutOfMemory => c"MemoryError",
        ErrorKind::InvalidArgument => c"ValueError",
        ErrorKind::NoDevice => c"BufferError",
        _ => c"RuntimeError",
    }
}

/// # Safety
/// The prototype's shape has as many numbers as it says.
unsafe fn allocated(prototype: &DlTensor) -> Result<NonNull<Versioned>> {
    let invalid = |message: &str| Err(Error::invalid(ALLOCATOR, message));
    let Some(dtype) = Dtype::of_dlpack(prototype.dtype.code, prototype.dtype.bits, prototype.dtype.lanes) else {
        return invalid("the type of elements is unknown; use one of gpu_interop.Tensor");
    };
    let dimensions = usize::try_from(prototype.ndim).ok().filter(|dimensions| *dimensions <= MOST_DIMENSIONS);
    let Some(dimensions) = dimensions else { return invalid("a tensor has at most 64 dimensions") };
    let shape = match NonNull::new(prototype.shape) {
        _ if dimensions == 0 => Vec::new(),
        None => return invalid("the shape is null"),
        // SAFETY: the caller's promise; not null.
        Some(shape) => unsafe { std::slice::from_raw_parts(shape.as_ptr(), dimensions) }.to_vec(),
    };
    let layout = Layout::new(dtype, shape, None, 0, (0, i64::MAX.unsigned_abs()))?;
    let device = device(prototype.device)?;
    let allocated = |device: Arc<Shared>| {
        let memory = device.device.allocate_exportable(layout.bytes().max(1))?;
        Ok::<_, Error>(Arc::new(Backing::allocated(device, memory)))
    };
    let backing = if holds_gil() { detached(|| allocated(device)) } else { allocated(device) }?;
    let export = dlpack::Export {
        address: backing.address()?,
        device: backing.device.dl,
        backing: &backing,
        layout: &Arc::new(layout),
        read_only: false,
        copied: false,
    };
    dlpack::versioned(&export).map_err(|_| Error::invalid(ALLOCATOR, "the tensor exceeds the address space"))
}
