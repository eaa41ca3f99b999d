//! Keyed mutexes, by Direct3D's rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windows::core::HRESULT;

use crate::os;
use crate::section::Section;
use crate::{INVALID_CALL, faults};

const MAGIC: u64 = u64::from_le_bytes(*b"gpuikmx\x01");
/// Size of the mutex's state at the end of a resource's section, bytes.
pub(crate) const SIZE: usize = 4096;

const FREE: u32 = 0;
const HELD: u32 = 1;
const ABANDONED: u32 = u32::MAX;

const OK: HRESULT = HRESULT(0);
const WAIT_ABANDONED: HRESULT = HRESULT(0x80);
const WAIT_TIMEOUT: HRESULT = HRESULT(0x102);

#[repr(C)]
struct State {
    magic: AtomicU64,
    /// The key of the last release.
    key: AtomicU64,
    owner: AtomicU32,
    sequence: AtomicU32,
}

/// The keyed mutex at the end of a resource's section, for one device.
#[derive(Debug)]
pub struct KeyedMutex {
    section: Arc<Section>,
    /// `true` if this device has acquired it.
    held: AtomicBool,
}

impl KeyedMutex {
    /// Creates a mutex, released with key 0.
    pub(crate) fn new(section: Arc<Section>) -> Arc<Self> {
        let mutex = Self { section, held: AtomicBool::new(false) };
        mutex.state(|state| state.magic.store(MAGIC, Ordering::SeqCst));
        Arc::new(mutex)
    }

    /// Opens the mutex of another device's resource, if it has one.
    pub(crate) fn open(section: &Arc<Section>) -> Option<Arc<Self>> {
        let mutex = Self { section: section.clone(), held: AtomicBool::new(false) };
        let known = section.length() > SIZE && mutex.state(|state| state.magic.load(Ordering::SeqCst) == MAGIC);
        known.then(|| Arc::new(mutex))
    }

    fn state<T>(&self, run: impl FnOnce(&State) -> T) -> T {
        let place = self.section.length() - SIZE;
        // SAFETY: the last page of the section, which is aligned and holds words for which any value is valid.
        self.section.with(|base| run(unsafe { &*base.add(place).cast::<State>() }))
    }

    /// Acquires it for this device: `AcquireSync`.
    pub fn acquire(&self, key: u64, milliseconds: u32) -> HRESULT {
        let limit = (milliseconds != u32::MAX).then(|| Duration::from_millis(milliseconds.into()));
        let start = Instant::now();
        loop {
            match self.state(|state| take(state, key)) {
                Some(OK) => {
                    self.held.store(true, Ordering::SeqCst);
                    return OK;
                }
                Some(code) => return code,
                None if limit.is_some_and(|limit| start.elapsed() >= limit) => return WAIT_TIMEOUT,
                None => os::pause(),
            }
        }
    }

    /// Releases it: `ReleaseSync`.
    pub fn release(&self, key: u64) -> HRESULT {
        if !self.held.swap(false, Ordering::SeqCst) {
            return INVALID_CALL;
        }
        self.state(|state| {
            state.key.store(key, Ordering::SeqCst);
            state.sequence.fetch_add(1, Ordering::SeqCst);
            state.owner.store(FREE, Ordering::SeqCst);
        });
        OK
    }

    /// Abandons it when the device that has acquired it is destroyed.
    pub fn abandon(&self) {
        if !faults::wanted(faults::FORGET_ABANDONED) {
            self.state(|state| state.owner.store(ABANDONED, Ordering::SeqCst));
        }
    }
}

/// Acquires the mutex if it is free and was last released with the key; otherwise returns `None`, or that it is
/// abandoned.
fn take(state: &State, key: u64) -> Option<HRESULT> {
    let fits = || faults::wanted(faults::ANY_KEY) || state.key.load(Ordering::SeqCst) == key;
    if state.owner.load(Ordering::SeqCst) == ABANDONED {
        return Some(WAIT_ABANDONED);
    }
    if !fits() || state.owner.compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return None;
    }
    // Another holder may have released it with another key in between.
    if fits() {
        return Some(OK);
    }
    state.owner.store(FREE, Ordering::SeqCst);
    None
}

impl Drop for KeyedMutex {
    fn drop(&mut self) {
        if *self.held.get_mut() {
            self.abandon();
        }
    }
}
