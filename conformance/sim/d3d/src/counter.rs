//! Fences and keyed mutexes, in shared memory.

use std::os::windows::io::OwnedHandle;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use windows::Win32::Foundation::HANDLE;
use windows::Win32::System::Threading::SetEvent;
use windows::core::{HRESULT, PCWSTR, Result};

use crate::lock;
use crate::section::Section;
use crate::{AbortOnPanic, E_INVALIDARG, INVALID_CALL, faults, os};

/// The first bytes of a timeline semaphore of the host backend.
const MAGIC: u64 = u64::from_le_bytes(*b"gpuisem\x01");
const TIMELINE: u32 = 2;

/// The host backend's layout.
#[repr(C)]
struct State {
    magic: AtomicU64,
    payload: AtomicU32,
    waiters: AtomicU32,
    value: AtomicU64,
    sequence: AtomicU32,
}

/// The value of a fence, and the events that wait for it.
#[derive(Debug)]
pub struct Counter {
    section: Section,
    waiting: Mutex<Vec<(u64, OwnedHandle)>>,
}

impl Counter {
    /// Creates a fence.
    pub(crate) fn new(value: u64) -> Result<Arc<Self>> {
        let section = Section::new(size_of::<State>())?;
        let counter = Self { section, waiting: Mutex::default() };
        counter.state(|state| {
            state.payload.store(TIMELINE, Ordering::Relaxed);
            state.value.store(value, Ordering::Relaxed);
            state.magic.store(MAGIC, Ordering::SeqCst);
        });
        Ok(Arc::new(counter))
    }

    /// Opens another module's fence.
    pub(crate) fn open(handle: HANDLE) -> Result<Arc<Self>> {
        let counter = Self { section: Section::open(handle)?, waiting: Mutex::default() };
        let known = counter.state(|state| state.magic.load(Ordering::SeqCst) == MAGIC);
        if known { Ok(Arc::new(counter)) } else { Err(E_INVALIDARG.into()) }
    }

    fn state<T>(&self, run: impl FnOnce(&State) -> T) -> T {
        // SAFETY: a section is at least a page, which is aligned and holds words for which any value is valid.
        self.section.with(|base| run(unsafe { &*base.cast::<State>() }))
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<(u64, OwnedHandle)>> {
        lock(&self.waiting)
    }

    /// The value in memory.
    fn load(&self) -> u64 {
        self.state(|state| state.value.load(Ordering::SeqCst))
    }

    /// The current value. When it is returned, the events that waited for it are signalled and closed.
    pub fn value(&self) -> u64 {
        self.notice(&mut self.waiters())
    }

    /// Sets the value, and signals and closes the events that waited for it.
    pub fn set(&self, value: u64) {
        let mut waiting = self.waiters();
        self.state(|state| {
            state.value.store(value, Ordering::SeqCst);
            state.sequence.fetch_add(1, Ordering::SeqCst);
        });
        self.notice(&mut waiting);
    }

    /// Signals the events whose value is reached, possibly by another process.
    fn notice(&self, waiting: &mut Vec<(u64, OwnedHandle)>) -> u64 {
        let value = self.load();
        waiting.retain(|(at, event)| {
            let waits = *at > value;
            if !waits {
                // SAFETY: an open handle to an event, owned by this object.
                unsafe { SetEvent(os::raw(event)) }.expect("an event");
            }
            waits
        });
        value
    }

    /// Waits briefly for threads that use the fence to drop it, so that a program which counts its handles finds none
    /// of a fence that was signalled and released. Waits for a value may keep it without limit.
    pub(crate) fn settle(self: &Arc<Self>) {
        const RELEASE_TIMEOUT: Duration = Duration::from_millis(5);
        lock(&WATCHED).retain(|watched| !is(watched, self));
        let start = Instant::now();
        while Arc::strong_count(self) > 1 && start.elapsed() < RELEASE_TIMEOUT {
            std::thread::yield_now();
        }
    }

    /// As on Windows, this refers to the event itself and does not depend on the caller's handle.
    pub(crate) fn notify(self: &Arc<Self>, value: u64, event: HANDLE) -> Result<()> {
        let event = os::duplicate(event)?;
        let mut waiting = self.waiters();
        waiting.push((value, event));
        self.notice(&mut waiting);
        drop(waiting);
        if self.section.is_shared() {
            watch(self);
        }
        Ok(())
    }

    /// The number of waiting events.
    pub fn waiting(&self) -> usize {
        self.waiters().len()
    }

    /// Blocks this thread until the value is reached, or `stopped`.
    pub(crate) fn wait(&self, value: u64, stopped: &AtomicBool) {
        /// Time of polling before sleeping: a millisecond is longer than most work here.
        const LOOK: Duration = Duration::from_micros(300);
        let start = Instant::now();
        while self.load() < value && !stopped.load(Ordering::SeqCst) && !faults::wanted(faults::NO_WAIT) {
            if start.elapsed() < LOOK { std::thread::yield_now() } else { os::pause() }
        }
    }

    pub(crate) fn share(self: &Arc<Self>, name: PCWSTR) -> Result<HANDLE> {
        let handle = self.section.share(name)?;
        if self.waiting() > 0 {
            watch(self);
        }
        Ok(handle)
    }
}

/// The fences of a device.
#[derive(Debug, Default)]
pub(crate) struct Fences(Mutex<Vec<Weak<Counter>>>);

impl Fences {
    pub(crate) fn keep(&self, fence: &Arc<Counter>) {
        let mut fences = self.0.lock().expect("no panic");
        fences.retain(|fence| fence.strong_count() > 0);
        fences.push(Arc::downgrade(fence));
    }

    /// The existing fences.
    pub(crate) fn all(&self) -> Vec<Arc<Counter>> {
        self.0.lock().expect("no panic").iter().filter_map(Weak::upgrade).collect()
    }
}

/// The fences polled every millisecond: those with waiting events, which others may signal.
static WATCHED: Mutex<Vec<Weak<Counter>>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

fn is(known: &Weak<Counter>, counter: &Arc<Counter>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(counter))
}

fn watch(counter: &Arc<Counter>) {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let mut watched = lock(&WATCHED);
    if !watched.iter().any(|known| is(known, counter)) {
        watched.push(Arc::downgrade(counter));
    }
    MORE.notify_one();
    if !STARTED.swap(true, Ordering::SeqCst) {
        // Runs for the life of the process: this library is never unloaded.
        std::thread::Builder::new().name("Direct3D fences".into()).spawn(look).expect("a thread");
    }
}

fn look() {
    let _abort = AbortOnPanic;
    loop {
        let mut watched = lock(&WATCHED);
        while watched.is_empty() {
            watched = MORE.wait(watched).unwrap_or_else(PoisonError::into_inner);
        }
        watched.retain(|counter| {
            counter.upgrade().is_some_and(|counter| {
                counter.value();
                counter.waiting() > 0
            })
        });
        drop(watched);
        os::pause();
    }
}

const MUTEX_MAGIC: u64 = u64::from_le_bytes(*b"gpuikmx\x01");
/// Size of the mutex's state at the end of a resource's section, bytes.
pub(crate) const SIZE: usize = 4096;

const FREE: u32 = 0;
const HELD: u32 = 1;
const ABANDONED: u32 = u32::MAX;

const OK: HRESULT = HRESULT(0);
const WAIT_ABANDONED: HRESULT = HRESULT(0x80);
const WAIT_TIMEOUT: HRESULT = HRESULT(0x102);

#[repr(C)]
struct MutexState {
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
        mutex.state(|state| state.magic.store(MUTEX_MAGIC, Ordering::SeqCst));
        Arc::new(mutex)
    }

    /// Opens the mutex of another device's resource, if it has one.
    pub(crate) fn open(section: &Arc<Section>) -> Option<Arc<Self>> {
        let mutex = Self { section: section.clone(), held: AtomicBool::new(false) };
        let known = section.length() > SIZE && mutex.state(|state| state.magic.load(Ordering::SeqCst) == MUTEX_MAGIC);
        known.then(|| Arc::new(mutex))
    }

    fn state<T>(&self, run: impl FnOnce(&MutexState) -> T) -> T {
        let place = self.section.length() - SIZE;
        // SAFETY: the last page of the section, which is aligned and holds words for which any value is valid.
        self.section.with(|base| run(unsafe { &*base.add(place).cast::<MutexState>() }))
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
fn take(state: &MutexState, key: u64) -> Option<HRESULT> {
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
