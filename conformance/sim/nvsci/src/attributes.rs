//! Attribute lists: keys and their values, as bytes.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::slice;
use std::sync::{Arc, Mutex};

use gpu_interop_sim_abi::lock;
use gpu_interop_sim_abi::objects::Objects;

use crate::behaviour::Behaviour;
use crate::{Pair, error, give, panics};

/// Values by key, with the greatest alignment of any type.
pub(crate) type Values = BTreeMap<i32, Stored>;

/// A value at a stable address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    words: Box<[u64]>,
    length: usize,
}

impl Stored {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0_u64; bytes.len().div_ceil(8)].into_boxed_slice();
        // SAFETY: the words have at least that many bytes, and do not overlap the source.
        unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Self { words, length: bytes.len() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the words have at least that many bytes.
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

/// The kind of an attribute list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Unreconciled,
    Reconciled,
    /// The conflict list of a failed reconciliation. NVIDIA's guides forbid reads and writes of it; here either aborts
    /// the process.
    Conflict,
}

#[derive(Debug)]
pub(crate) struct List {
    /// The module that it was created with.
    pub(crate) module: usize,
    pub(crate) kind: ListKind,
    pub(crate) values: Mutex<Values>,
}

impl List {
    pub(crate) fn new(module: usize, kind: ListKind, values: Values) -> Self {
        Self { module, kind, values: Mutex::new(values) }
    }

    /// `true` if it is reconciled. Aborts the process if the list must not be used.
    pub(crate) fn is_reconciled(&self) -> bool {
        match self.kind {
            ListKind::Unreconciled => false,
            ListKind::Reconciled => true,
            ListKind::Conflict => panics("attributes of a conflict list were read or set"),
        }
    }

    /// Sets values in any order; if one is invalid, none is set. `check` returns whether a key may be set to these
    /// bytes, with the values of this and earlier calls.
    ///
    /// # Safety
    /// `pairs` has that many elements, whose values have the stated lengths.
    pub(crate) unsafe fn set(
        &self,
        pairs: *const Pair,
        count: usize,
        check: impl Fn(i32, &[u8], &Values) -> bool,
    ) -> Result<(), u32> {
        error::reject_if(self.is_reconciled() || pairs.is_null() || count == 0)?;
        let mut values = lock(&self.values);
        let mut new = values.clone();
        // SAFETY: the caller's promise.
        let pairs = unsafe { slice::from_raw_parts(pairs, count) };
        for pair in pairs {
            error::reject_if(pair.value.is_null() || pair.len == 0 || new.contains_key(&pair.key))?;
            // SAFETY: the caller's promise.
            let bytes = unsafe { slice::from_raw_parts(pair.value.cast::<u8>(), pair.len) };
            new.insert(pair.key, Stored::new(bytes));
        }
        let allowed = |pair: &Pair| new.get(&pair.key).is_some_and(|stored| check(pair.key, stored.bytes(), &new));
        error::reject_if(!pairs.iter().all(allowed))?;
        *values = new;
        Ok(())
    }

    /// Returns the addresses of values, which stay valid until the list is freed. `check` returns whether a key may be
    /// queried.
    ///
    /// # Safety
    /// `pairs` has that many elements.
    pub(crate) unsafe fn get(
        &self,
        pairs: *mut Pair,
        count: usize,
        check: impl Fn(i32, bool) -> bool,
    ) -> Result<(), u32> {
        let reconciled = self.is_reconciled();
        error::reject_if(pairs.is_null() || count == 0)?;
        let values = lock(&self.values);
        // SAFETY: the caller's promise.
        for pair in unsafe { slice::from_raw_parts_mut(pairs, count) } {
            error::reject_if(!check(pair.key, reconciled))?;
            let stored = values.get(&pair.key);
            pair.value = stored.map_or(std::ptr::null::<c_void>(), |stored| stored.words.as_ptr().cast());
            pair.len = stored.map_or(0, |stored| stored.length);
        }
        Ok(())
    }
}

/// Reconciles lists: none of them reconciled or named twice, all of one module. `find` finds the list of a handle,
/// `rules` makes the values, or the code and whether it comes with a conflict list, and `known` holds what is made.
///
/// # Safety
/// There are so many handles, and the outputs are NULL or valid.
pub(crate) unsafe fn reconcile(
    (lists, count): (*const usize, usize),
    [list, conflict]: [*mut usize; 2],
    known: &Objects<List>,
    find: impl Fn(usize) -> Arc<List>,
    rules: impl FnOnce(&Behaviour, &[Values]) -> Result<Values, (u32, bool)>,
) -> Result<(), u32> {
    error::reject_if(list.is_null() || conflict.is_null() || lists.is_null() || count == 0)?;
    // SAFETY: the caller's promise.
    let handles = unsafe { slice::from_raw_parts(lists, count) };
    error::reject_if(
        handles.iter().enumerate().any(|(index, handle)| *handle == 0 || handles[..index].contains(handle)),
    )?;
    let lists: Vec<Arc<List>> = handles.iter().map(|handle| find(*handle)).collect();
    let module = lists[0].module;
    error::reject_if(lists.iter().any(|list| list.kind != ListKind::Unreconciled || list.module != module))?;
    let values: Vec<Values> = lists.iter().map(|list| lock(&list.values).clone()).collect();
    let behaviour = Behaviour::now();
    match rules(&behaviour, &values) {
        // SAFETY: the caller's promise.
        Ok(values) => unsafe { give(list, known.insert(List::new(module, ListKind::Reconciled, values))) },
        Err((code, with_list)) => {
            if with_list {
                let none = behaviour.has("no_conflict_list");
                let made = || known.insert(List::new(module, ListKind::Conflict, Values::new()));
                // SAFETY: the caller's promise.
                unsafe { give(conflict, if none { 0 } else { made() }) }?;
            }
            Err(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &List, keys: &[i32]) -> Result<(), u32> {
        let value = 1_u32;
        let pairs: Vec<Pair> =
            keys.iter().map(|key| Pair { key: *key, value: (&raw const value).cast(), len: 4 }).collect();
        // Key 2 requires key 1.
        let check = |key: i32, _: &[u8], all: &Values| key != 2 || all.contains_key(&1);
        // SAFETY: that many pairs, each with a value of 4 bytes.
        unsafe { list.set(pairs.as_ptr(), pairs.len(), check) }
    }

    #[test]
    fn the_order_within_a_call_does_not_matter() {
        let list = || List::new(1, ListKind::Unreconciled, Values::new());
        assert_eq!(set(&list(), &[2, 1]), Ok(()));
        let one = list();
        assert_eq!(set(&one, &[2]), Err(error::BAD_PARAMETER));
        assert!(lock(&one.values).is_empty(), "a call that failed set something");
        assert_eq!((set(&one, &[1]), set(&one, &[2])), (Ok(()), Ok(())));
        assert_eq!(set(&one, &[1]), Err(error::BAD_PARAMETER), "a key that is set already");
        assert_eq!(set(&list(), &[1, 1]), Err(error::BAD_PARAMETER), "a key twice");
    }
}
