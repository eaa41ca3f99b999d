//! DLPack: the structures of its C interface, and capsules that own a tensor's memory.
//!
//! <https://dmlc.github.io/dlpack/latest/c_api.html>

use std::ffi::{CStr, c_void};
use std::num::TryFromIntError;
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
pub(crate) struct DataType {
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DlTensor {
    data: *mut c_void,
    pub(crate) device: DlDevice,
    pub(crate) ndim: i32,
    pub(crate) dtype: DataType,
    pub(crate) shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLPackVersion`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// `DLManagedTensor`.
#[repr(C)]
#[derive(Debug)]
struct Legacy {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

/// A managed tensor, first, with what it points to.
#[repr(C)]
struct Managed<T> {
    raw: T,
    // `raw` points into them. A consumer may write to them.
    _lengths: Lengths,
    layout: Arc<Layout>,
    read_only: bool,
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
    pub(crate) layout: &'a Arc<Layout>,
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
        encapsulate(py, self::versioned(export)?)
    } else {
        let context = std::ptr::null_mut();
        encapsulate(py, create(export, |tensor| Legacy { tensor, context, deleter: Some(delete::<Legacy>) })?)
    }
}

/// The context of this module's versioned tensors: its address marks them.
static MARK: u8 = 0;

/// Creates a versioned tensor that owns a reference to the memory, as [`capsule`] does, for a consumer in C.
pub(crate) fn versioned(export: &Export<'_>) -> Result<NonNull<Versioned>, TryFromIntError> {
    let flag = |set: bool, flag: u64| if set { flag } else { 0 };
    let flags = flag(export.read_only, READ_ONLY) | flag(export.copied, IS_COPIED);
    create(export, |tensor| Versioned {
        version: VERSION,
        context: (&raw const MARK).cast_mut().cast(),
        deleter: Some(delete::<Versioned>),
        flags,
        tensor,
    })
}

/// A tensor that a consumer gave away. Its drop calls the deleter.
pub(crate) struct Owned(NonNull<Versioned>);

impl Owned {
    /// # Safety
    /// The tensor is live, of DLPack 1, and used by nothing else.
    pub(crate) unsafe fn new(managed: NonNull<Versioned>) -> Self {
        Self(managed)
    }

    /// Memory, layout, and whether it is read-only, of a tensor of this module; `None` for another one.
    pub(crate) fn parts(&self) -> Option<(Arc<Backing>, Arc<Layout>, bool)> {
        // SAFETY: live, by the contract of `new`. The fields up to the flags are those of every version.
        let context = unsafe { (*self.0.as_ptr()).context };
        if !std::ptr::eq(context.cast_const().cast::<u8>(), &raw const MARK) {
            return None;
        }
        // SAFETY: only `versioned` uses the address of `MARK` as a context, for the first field of a `Managed`.
        let managed = unsafe { self.0.cast::<Managed<Versioned>>().as_ref() };
        Some((managed.backing.clone(), managed.layout.clone(), managed.read_only))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: live, by the contract of `new`, and not used again.
        unsafe {
            if let Some(deleter) = (*self.0.as_ptr()).deleter {
                deleter(self.0.as_ptr());
            }
        }
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

/// A tensor without an owner.
pub(crate) fn plain(export: &Export<'_>, shape: *mut i64, strides: *mut i64) -> Result<DlTensor, TryFromIntError> {
    let layout = export.layout;
    Ok(DlTensor {
        data: std::ptr::with_exposed_provenance_mut(usize::try_from(export.address)?),
        device: export.device,
        ndim: i32::try_from(layout.shape.len())?,
        dtype: DataType { code: layout.dtype.code, bits: layout.dtype.bits, lanes: 1 },
        shape,
        strides,
        byte_offset: 0,
    })
}

fn create<T>(export: &Export<'_>, build: impl FnOnce(DlTensor) -> T) -> Result<NonNull<T>, TryFromIntError> {
    let layout = export.layout;
    let lengths = Lengths::new(layout);
    // The strides are inside the array, or its end.
    let tensor = plain(export, lengths.shape(), lengths.shape().wrapping_add(layout.shape.len()))?;
    let managed = Managed {
        raw: build(tensor),
        _lengths: lengths,
        layout: layout.clone(),
        read_only: export.read_only,
        backing: export.backing.clone(),
    };
    // The first field.
    Ok(NonNull::from(Box::leak(Box::new(managed))).cast())
}

/// A capsule that owns a tensor of [`create`].
fn encapsulate<T: Kind>(py: Python<'_>, managed: NonNull<T>) -> PyResult<Bound<'_, PyAny>> {
    let pointer = managed.as_ptr();
    // SAFETY: the GIL is held; the pointer is not null, the name is static, and the destructor is that of this name.
    let object = unsafe { ffi::PyCapsule_New(pointer.cast(), T::NAME.as_ptr(), Some(release_capsule::<T>)) };
    if object.is_null() {
        // SAFETY: the pointer came from `create`, and no capsule refers to it.
        unsafe { delete(pointer) };
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
