//! DLPack: the structures of its C interface, and capsules that own a tensor's memory.
//!
//! <https://dmlc.github.io/dlpack/latest/c_api.html>

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::backing::Backing;
use crate::convert::{detached_drop, holds_gil};
use crate::layout::Layout;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// Version of the structures below.
const VERSION: Version = Version { major: 1, minor: 0 };
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

/// `DLDevice`: a type of device, and the number of a device of that type.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DlDevice {
    pub(crate) kind: i32,
    pub(crate) number: i32,
}

impl DlDevice {
    /// `kDLCPU`.
    pub(crate) const CPU: Self = Self { kind: 1, number: 0 };

    /// `kDLCUDA`.
    pub(crate) fn cuda(number: i32) -> Self {
        Self { kind: 2, number }
    }

    /// `kDLROCM`.
    pub(crate) fn rocm(number: i32) -> Self {
        Self { kind: 10, number }
    }
}

#[repr(C)]
#[derive(Debug)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
#[derive(Debug)]
struct Tensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
#[derive(Debug)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLManagedTensor`.
#[repr(C)]
#[derive(Debug)]
struct Legacy {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
#[derive(Debug)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// A managed tensor, first, with what it points to.
#[repr(C)]
struct Managed<T> {
    raw: T,
    // `raw` points into them.
    _lengths: Lengths,
    backing: Arc<Backing>,
}

/// Shape, then strides. Raw, because moving a `Box` invalidates pointers into it.
struct Lengths(NonNull<[i64]>);

impl Lengths {
    fn new(layout: &Layout) -> Self {
        let lengths: Box<[i64]> = layout.shape.iter().chain(&layout.strides).copied().collect();
        Self(NonNull::from(Box::leak(lengths)))
    }

    fn shape(&self) -> *mut i64 {
        self.0.as_ptr().cast()
    }
}

impl Drop for Lengths {
    fn drop(&mut self) {
        // SAFETY: from the box of `new`, and freed once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A tensor to export.
#[derive(Debug)]
pub(crate) struct Export<'a> {
    pub(crate) backing: &'a Arc<Backing>,
    pub(crate) layout: &'a Layout,
    /// Address of the element with all indices 0.
    pub(crate) address: u64,
    pub(crate) device: DlDevice,
    pub(crate) read_only: bool,
    pub(crate) copied: bool,
}

/// Creates a capsule that owns a reference to the memory. The consumer calls the tensor's deleter; if no consumer took the
/// tensor, the capsule's destructor does. The deleter may run on any thread, without the GIL, after every other object is
/// gone. The destructor runs with the GIL.
pub(crate) fn capsule<'py>(py: Python<'py>, export: &Export<'_>, versioned: bool) -> PyResult<Bound<'py, PyAny>> {
    if versioned {
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flag(export.read_only, READ_ONLY) | flag(export.copied, IS_COPIED);
        create(py, export, |tensor| Versioned {
            version: VERSION,
            context: std::ptr::null_mut(),
            deleter: Some(delete::<Versioned>),
            flags,
            tensor,
        })
    } else {
        create(py, export, |tensor| Legacy { tensor, context: std::ptr::null_mut(), deleter: Some(delete::<Legacy>) })
    }
}

/// The kinds of managed tensors.
trait Kind: Sized {
    const NAME: &'static CStr;

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

impl Kind for Legacy {
    const NAME: &'static CStr = LEGACY;

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

impl Kind for Versioned {
    const NAME: &'static CStr = VERSIONED;

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

fn create<'py, T: Kind>(
    py: Python<'py>,
    export: &Export<'_>,
    build: impl FnOnce(Tensor) -> T,
) -> PyResult<Bound<'py, PyAny>> {
    let layout = export.layout;
    let lengths = Lengths::new(layout);
    let tensor = Tensor {
        data: std::ptr::with_exposed_provenance_mut(usize::try_from(export.address)?),
        device: export.device,
        ndim: i32::try_from(layout.shape.len())?,
        dtype: DataType { code: layout.dtype.code, bits: layout.dtype.bits, lanes: 1 },
        shape: lengths.shape(),
        // Inside the array, or its end.
        strides: lengths.shape().wrapping_add(layout.shape.len()),
        byte_offset: 0,
    };
    let managed = Managed { raw: build(tensor), _lengths: lengths, backing: export.backing.clone() };
    let pointer = Box::into_raw(Box::new(managed));
    // SAFETY: the GIL is held; the pointer is not null, the name is static, and the destructor is that of this name.
    let object = unsafe { ffi::PyCapsule_New(pointer.cast(), T::NAME.as_ptr(), Some(release_capsule::<T>)) };
    if object.is_null() {
        // SAFETY: the pointer came from the box above, and no capsule refers to it.
        drop(unsafe { Box::from_raw(pointer) });
        return Err(PyErr::fetch(py));
    }
    // SAFETY: a new reference to a capsule, owned by nothing else.
    Ok(unsafe { Bound::from_owned_ptr(py, object) })
}

/// Releases a managed tensor. Called once, by its consumer or by [`release_capsule`], on any thread.
///
/// # Safety
/// `managed` is null or came from [`create`], and is not used again.
unsafe extern "C" fn delete<T: Kind>(managed: *mut T) {
    if managed.is_null() {
        return;
    }
    // SAFETY: `managed` is the first field of a `Managed<T>` in a box of `create`, and this is the only call for it.
    let owned = unsafe { Box::from_raw(managed.cast::<Managed<T>>()) };
    let free = move || {
        // The last reference frees the memory, which may wait for work of the device, and that for a thread of Python.
        let Some(backing) = Arc::into_inner(owned.backing) else { return };
        if holds_gil() { detached_drop(backing) } else { drop(backing) }
    };
    // Nothing unwinds into C.
    drop(catch_unwind(AssertUnwindSafe(free)));
}

/// Destructor of a capsule: releases the tensor unless a consumer took it, and so renamed the capsule.
///
/// # Safety
/// Python calls it with a capsule of [`create`], with the GIL held.
unsafe extern "C" fn release_capsule<T: Kind>(object: *mut ffi::PyObject) {
    // SAFETY: the caller passes a live capsule. A capsule with this name has the pointer of `create`, which its consumer
    // has not taken.
    unsafe {
        if ffi::PyCapsule_IsValid(object, T::NAME.as_ptr()) == 0 {
            return;
        }
        let managed = ffi::PyCapsule_GetPointer(object, T::NAME.as_ptr()).cast::<T>();
        if let Some(deleter) = managed.as_ref().and_then(Kind::deleter) {
            deleter(managed);
        }
    }
}
