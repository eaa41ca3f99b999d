//! Fences: a counter in a section, with the waiting events.

use std::os::windows::io::OwnedHandle;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use windows::Win32::Foundation::HANDLE;
use windows::Win32::System::Threading::SetEvent;
use windows::core::{PCWSTR, Result};

use crate::os;
use crate::section::Section;
use crate::{AbortOnPanic, E_INVALIDARG, faults};

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
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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
        const PATIENCE: Duration = Duration::from_millis(5);
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|watched| !is(watched, self));
        let start = Instant::now();
        while Arc::strong_count(self) > 1 && start.elapsed() < PATIENCE {
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

    /// A new handle, owned by the caller.
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
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
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
