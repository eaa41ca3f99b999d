//! Attribute lists, common to both libraries.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::mem::size_of;
use std::ptr::{self, NonNull, with_exposed_provenance_mut};
use std::sync::Arc;

use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_driver::{DriverFunction, Status};

use crate::error::{BAD_PARAMETER, check, check_reconciled, not_null};
use crate::sys::{Handle, KeyValuePair, Plain};

type Create = unsafe extern "system" fn(Handle, *mut Handle) -> Status;
type Free = unsafe extern "system" fn(Handle);
type Pairs = unsafe extern "system" fn(Handle, *mut KeyValuePair, usize) -> Status;
type Reconcile = unsafe extern "system" fn(*const Handle, usize, *mut Handle, *mut Handle) -> Status;

/// One library's functions for attribute lists, with their names.
#[derive(Clone, Copy)]
pub(crate) struct ListFunctions {
    pub(crate) create: (&'static str, Create),
    pub(crate) free: Free,
    pub(crate) set: (&'static str, Pairs),
    pub(crate) get: (&'static str, Pairs),
    pub(crate) reconcile: (&'static str, Reconcile),
}

/// An attribute value to set.
pub(crate) struct Value {
    pub(crate) key: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Value {
    pub(crate) fn new(key: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self { key, bytes: bytes.into() }
    }

    pub(crate) fn bool(key: u32, value: bool) -> Self {
        Self::new(key, [u8::from(value)])
    }

    pub(crate) fn u32(key: u32, value: u32) -> Self {
        Self::new(key, value.to_ne_bytes())
    }

    pub(crate) fn u64(key: u32, value: u64) -> Self {
        Self::new(key, value.to_ne_bytes())
    }

    pub(crate) fn u32s(key: u32, values: impl IntoIterator<Item = u32>) -> Self {
        Self::new(key, values.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>())
    }
}

/// An owned attribute list.
pub(crate) struct List {
    functions: ListFunctions,
    raw: NonNull<c_void>,
    /// Dropped after the list is freed.
    module: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the library accepts the address from any thread.
unsafe impl Send for List {}
// SAFETY: methods with `&self` only read the list, which NVIDIA documents as safe from several threads. A caller that
// writes through the raw handle must exclude other users.
unsafe impl Sync for List {}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({:#x})", self.raw.addr())
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: `self` owns the list, which `create` or `reconcile` returned, and whose module is dropped after this call.
        unsafe { (self.functions.free)(self.as_raw()) };
    }
}

impl List {
    /// Creates a list without values, of a live module.
    ///
    /// # Safety
    /// `module_raw` is live as long as `module` is, and the functions are of its library.
    pub(crate) unsafe fn create(
        functions: ListFunctions,
        module_raw: Handle,
        module: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        let (name, create) = functions.create;
        let mut raw = 0;
        // SAFETY: the module is live, by contract; the pointer is valid for the call.
        check(name, unsafe { create.traced(name, (module_raw, &raw mut raw)) })?;
        Ok(Self { functions, raw: not_null(name, raw)?, module })
    }

    pub(crate) fn as_raw(&self) -> Handle {
        self.raw.as_ptr().expose_provenance()
    }

    pub(crate) fn as_non_null(&self) -> NonNull<c_void> {
        self.raw
    }

    /// Sets attributes. Each can be set only once.
    pub(crate) fn set(&mut self, values: &[Value]) -> Result<()> {
        let (name, set) = self.functions.set;
        // Aligned to 8 bytes, the greatest alignment of a value's type.
        let stored: Vec<Vec<u64>> = values.iter().map(|value| aligned(&value.bytes)).collect();
        let pair = |(value, stored): (&Value, &Vec<u64>)| KeyValuePair {
            key: value.key,
            value: stored.as_ptr().cast(),
            length: value.bytes.len(),
        };
        let mut pairs: Vec<KeyValuePair> = values.iter().zip(&stored).map(pair).collect();
        if pairs.is_empty() {
            return Ok(());
        }
        // SAFETY: the list is live; pairs and values live for the call, which copies them.
        let result = unsafe { set.traced(name, (self.as_raw(), pairs.as_mut_ptr(), pairs.len())) };
        check(name, result).map_err(|error| {
            let keys: Vec<String> = values.iter().map(|value| format!("{:#x}", value.key)).collect();
            error.with_context("attribute keys", keys.join(", "))
        })
    }

    /// The values of an attribute; empty if it was never set.
    pub(crate) fn get<T: Plain>(&self, key: u32) -> Result<Vec<T>> {
        // SAFETY: the list is live as long as `self`.
        unsafe { get(self.functions, self.as_raw(), key) }
    }

    /// As [`List::get`]; empty also for an attribute that [`find`] does not find.
    pub(crate) fn get_if_known<T: Plain>(&self, key: u32) -> Result<Vec<T>> {
        // SAFETY: the list is live as long as `self`.
        unsafe { get_if_known(self.functions, self.as_raw(), key) }
    }

    /// `true` if this library knows an attribute for lists of this type.
    pub(crate) fn knows(&self, key: u32) -> Result<bool> {
        // SAFETY: the list is live as long as `self`.
        Ok(unsafe { find::<u8>(self.functions, self.as_raw(), key) }?.is_some())
    }

    /// Reconciles lists of one module.
    pub(crate) fn reconcile(first: &Self, others: &[&Self]) -> Result<Self> {
        let (name, reconcile) = first.functions.reconcile;
        if others.iter().any(|other| !Arc::ptr_eq(&first.module, &other.module)) {
            return Err(Error::invalid(
                name,
                "the attribute lists belong to different modules; create them from one module",
            ));
        }
        let raws: Vec<Handle> = [first].into_iter().chain(others.iter().copied()).map(Self::as_raw).collect();
        if raws.iter().enumerate().any(|(index, raw)| raws[..index].contains(raw)) {
            return Err(Error::invalid(name, "an attribute list is passed twice; pass each list once"));
        }
        let (mut reconciled, mut conflict) = (0, 0);
        let outputs = (&raw mut reconciled, &raw mut conflict);
        // SAFETY: the lists are live; array and outputs are valid for the call.
        let result = unsafe { reconcile.traced(name, (raws.as_ptr(), raws.len(), outputs.0, outputs.1)) };
        let own = |raw| Self { functions: first.functions, raw, module: first.module.clone() };
        // The caller frees the conflict list with any status code. NVIDIA's guides forbid reading it, and a read may
        // abort.
        let _conflict = NonNull::new(with_exposed_provenance_mut(conflict)).map(own);
        check_reconciled(name, result)?;
        Ok(own(not_null(name, reconciled)?))
    }

    /// The names of those attributes in `keys` for which lists have different values. A list whose value cannot be read is
    /// skipped.
    pub(crate) fn differences(lists: &[&Self], keys: &[(u32, &'static str)]) -> Vec<&'static str> {
        let differs = |key: u32| {
            let mut values =
                lists.iter().filter_map(|list| list.get_if_known::<u8>(key).ok()).filter(|value| !value.is_empty());
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        keys.iter().filter(|(key, _)| differs(*key)).map(|(_, name)| *name).collect()
    }
}

/// The error for an empty set of lists.
pub(crate) fn no_list(operation: &'static str) -> Error {
    Error::invalid(operation, "pass at least one attribute list")
}

fn aligned(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        })
        .collect()
}

/// The values of an attribute of a borrowed list.
///
/// # Safety
/// The list is live, and of the library of these functions.
pub(crate) unsafe fn get<T: Plain>(functions: ListFunctions, list: Handle, key: u32) -> Result<Vec<T>> {
    let (name, get) = functions.get;
    let mut pair = KeyValuePair { key, value: ptr::null::<c_void>(), length: 0 };
    let named = |error: Error| error.with_context("attribute key", format_args!("{key:#x}"));
    // SAFETY: the list is live, by contract; the pair is valid for the call.
    check(name, unsafe { get.traced(name, (list, &raw mut pair, 1)) }).map_err(named)?;
    if pair.value.is_null() || pair.length == 0 {
        return Ok(Vec::new());
    }
    if !pair.length.is_multiple_of(size_of::<T>()) {
        let message = "the library returned a value whose size is not a multiple of its type's size in NVIDIA's headers; \
                       the library may be newer than this crate supports";
        return Err(named(Error::new(ErrorKind::Driver, name, message).with_context("length", pair.length)));
    }
    let value = pair.value.cast::<T>();
    // SAFETY: the library returned that many bytes, which live as long as the list and are not written; every bit
    // pattern is a value.
    Ok((0..pair.length / size_of::<T>()).map(|index| unsafe { value.add(index).read_unaligned() }).collect())
}

/// As [`get`]; empty for an attribute that [`find`] does not find.
///
/// # Safety
/// As for [`get`].
pub(crate) unsafe fn get_if_known<T: Plain>(functions: ListFunctions, list: Handle, key: u32) -> Result<Vec<T>> {
    // SAFETY: the caller's promise.
    Ok(unsafe { find(functions, list, key) }?.unwrap_or_default())
}

/// As [`get`]; `None` if the library rejects the attribute with the documented code: it is unknown, or not valid for lists
/// of this type.
///
/// # Safety
/// As for [`get`].
unsafe fn find<T: Plain>(functions: ListFunctions, list: Handle, key: u32) -> Result<Option<Vec<T>>> {
    // SAFETY: the caller's promise.
    match unsafe { get(functions, list, key) } {
        Err(error) if error.code().is_some_and(|code| code.value == i64::from(BAD_PARAMETER)) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_stored_as_their_bytes() {
        assert_eq!(aligned(&[1, 2, 3]), [u64::from_ne_bytes([1, 2, 3, 0, 0, 0, 0, 0])]);
        assert_eq!(aligned(&[7; 17]).len(), 3);
        assert_eq!(Value::u32s(1, [2, 3]).bytes, [2_u32.to_ne_bytes(), 3_u32.to_ne_bytes()].concat());
        assert_eq!((Value::bool(1, true).bytes, Value::u64(1, 9).bytes.len()), (vec![1], 8));
    }
}
