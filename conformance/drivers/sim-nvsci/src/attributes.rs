//! Attribute lists: keys with their values, as bytes.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::slice;
use std::sync::{Arc, Mutex};

use gpu_interop_stand_in::lock;

use crate::{Pair, error};

/// Values by key. Aligned as any type asks for.
pub(crate) type Values = BTreeMap<i32, Stored>;

/// A value, at an address that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    words: Box<[u64]>,
    length: usize,
}

impl Stored {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0_u64; bytes.len().div_ceil(8)].into_boxed_slice();
        // SAFETY: the words are at least as many bytes, and apart.
        unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Self { words, length: bytes.len() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the words are at least as many bytes.
        unsafe { slice::from_raw_parts(self.words.as_ptr().cast(), self.length) }
    }

    pub(crate) fn u32s(&self) -> Vec<u32> {
        self.bytes().chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_ne_bytes).collect()
    }

    pub(crate) fn u64s(&self) -> Vec<u64> {
        self.bytes().chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_ne_bytes).collect()
    }

    pub(crate) fn bool(&self) -> bool {
        self.bytes().first() == Some(&1)
    }
}

/// An attribute list.
#[derive(Debug)]
pub(crate) struct List {
    /// The module that it was made with.
    pub(crate) module: usize,
    pub(crate) reconciled: bool,
    pub(crate) values: Mutex<Values>,
}

impl List {
    pub(crate) fn new(module: usize, reconciled: bool, values: Values) -> Self {
        Self { module, reconciled, values: Mutex::new(values) }
    }

    /// Sets values. `check` says whether a key may be set to so many bytes, which are looked at, too.
    ///
    /// # Safety
    /// There are so many pairs, whose values have the lengths that they say.
    pub(crate) unsafe fn set(
        &self,
        pairs: *const Pair,
        count: usize,
        check: impl Fn(i32, &[u8], &Values) -> bool,
    ) -> Result<(), u32> {
        if pairs.is_null() || count == 0 || self.reconciled {
            return Err(error::BAD_PARAMETER);
        }
        let mut values = lock(&self.values);
        let mut new = values.clone();
        // SAFETY: the caller's promise.
        for pair in unsafe { slice::from_raw_parts(pairs, count) } {
            if pair.value.is_null() || pair.len == 0 || new.contains_key(&pair.key) {
                return Err(error::BAD_PARAMETER);
            }
            // SAFETY: the caller's promise.
            let bytes = unsafe { slice::from_raw_parts(pair.value.cast::<u8>(), pair.len) };
            if !check(pair.key, bytes, &new) {
                return Err(error::BAD_PARAMETER);
            }
            new.insert(pair.key, Stored::new(bytes));
        }
        *values = new;
        Ok(())
    }

    /// Gives the addresses of values, which stay until the list is freed. `check` says whether a key may be asked for.
    ///
    /// # Safety
    /// There are so many pairs.
    pub(crate) unsafe fn get(
        &self,
        pairs: *mut Pair,
        count: usize,
        check: impl Fn(i32, bool) -> bool,
    ) -> Result<(), u32> {
        if pairs.is_null() || count == 0 {
            return Err(error::BAD_PARAMETER);
        }
        let values = lock(&self.values);
        // SAFETY: the caller's promise.
        for pair in unsafe { slice::from_raw_parts_mut(pairs, count) } {
            if !check(pair.key, self.reconciled) {
                return Err(error::BAD_PARAMETER);
            }
            let stored = values.get(&pair.key);
            pair.value = stored.map_or(std::ptr::null::<c_void>(), |stored| stored.words.as_ptr().cast());
            pair.len = stored.map_or(0, |stored| stored.length);
        }
        Ok(())
    }
}

/// The lists of a call that reconciles: none of them reconciled or named twice, all of one module.
///
/// # Safety
/// There are so many handles.
pub(crate) unsafe fn inputs(
    lists: *const usize,
    count: usize,
    list_of: impl Fn(usize) -> Arc<List>,
) -> Result<Vec<Arc<List>>, u32> {
    if lists.is_null() || count == 0 {
        return Err(error::BAD_PARAMETER);
    }
    // SAFETY: the caller's promise.
    let handles = unsafe { slice::from_raw_parts(lists, count) };
    if handles.iter().enumerate().any(|(index, handle)| *handle == 0 || handles[..index].contains(handle)) {
        return Err(error::BAD_PARAMETER);
    }
    let lists: Vec<Arc<List>> = handles.iter().map(|handle| list_of(*handle)).collect();
    if lists.iter().any(|list| list.reconciled || list.module != lists[0].module) {
        return Err(error::BAD_PARAMETER);
    }
    Ok(lists)
}
