//! Objects by handle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock;

/// Handles look like pointers, but are not: dereferencing one crashes.
static NEXT: AtomicUsize = AtomicUsize::new(FIRST);
const FIRST: usize = 0x51_0000_1000;
/// Handles from [`FIRST`] to this one are from before the last reset of the device.
static RESET: AtomicUsize = AtomicUsize::new(FIRST);

/// Notes a reset of the device: the objects of all handles so far are gone.
pub fn note_reset() {
    RESET.store(NEXT.load(Ordering::SeqCst), Ordering::SeqCst);
}

/// `true` for handles from before the last reset of the device.
pub fn is_before_reset(handle: usize) -> bool {
    (FIRST..RESET.load(Ordering::SeqCst)).contains(&handle)
}

/// The live objects of one kind.
#[derive(Debug)]
pub struct Objects<T> {
    live: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T> Objects<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self { live: Mutex::new(BTreeMap::new()) }
    }

    /// Inserts an object and returns its handle.
    pub fn insert(&self, object: impl Into<Arc<T>>) -> usize {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        self.insert_as(handle, object);
        handle
    }

    /// As [`Objects::insert`], with a handle chosen by the object.
    pub fn insert_as(&self, handle: usize, object: impl Into<Arc<T>>) {
        lock(&self.live).insert(handle, object.into());
    }

    /// The object of a handle.
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        lock(&self.live).get(&handle).cloned()
    }

    /// Removes a handle.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        lock(&self.live).remove(&handle)
    }

    /// Removes all handles.
    pub fn take_all(&self) -> Vec<Arc<T>> {
        std::mem::take(&mut *lock(&self.live)).into_values().collect()
    }

    /// Removes the handles whose objects do not satisfy the predicate.
    pub fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut gone = Vec::new();
        lock(&self.live).retain(|_, object| {
            keep(object) || {
                gone.push(object.clone());
                false
            }
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.live).len()
    }

    /// `true` if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.live).values().cloned().collect()
    }
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self::new()
    }
}
