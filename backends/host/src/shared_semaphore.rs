//! State of a semaphore in shared memory.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpu_interop_core::{Error, ErrorKind, Result, SemaphoreHandle, SemaphorePayload};

use crate::imported::Mapping;
use crate::sys;

/// "gpuisem" and a version byte.
const MAGIC: u64 = u64::from_le_bytes(*b"gpuisem\x01");
const BINARY: u32 = 1;
const TIMELINE: u32 = 2;
/// Interval at which a sleeping waiter checks for cancellation.
const SLICE: Duration = Duration::from_millis(20);
/// Number of checks before a waiter sleeps, which avoids a system call if the signal is imminent.
const SPINS: u32 = 200;

/// Layout at the start of the shared memory. A peer may write any value at any time: every field is atomic, and invalid
/// values cause wrong results but never undefined behaviour.
#[repr(C)]
struct State {
    magic: AtomicU64,
    payload: AtomicU32,
    /// Number of waiters that sleep or are about to. A killed process may leave it too high, which costs its peers one
    /// superfluous system call per signal.
    waiters: AtomicU32,
    /// Counter of a timeline; 0 or 1 for a binary semaphore.
    value: AtomicU64,
    /// Futex word that waiters sleep on; every signal changes it.
    sequence: AtomicU32,
}

#[derive(Debug)]
pub(crate) struct SharedSemaphore {
    memory: sys::Owned,
    mapping: Mapping,
    payload: SemaphorePayload,
}

/// Returns whether shared memory starts with the header of a semaphore of this backend.
pub(crate) fn is_semaphore(memory: sys::Borrowed<'_>) -> bool {
    let mut magic = [0_u8; 8];
    sys::read_start(memory, &mut magic) && u64::from_ne_bytes(magic) == MAGIC
}

impl SharedSemaphore {
    /// Creates a semaphore with an initial value.
    pub(crate) fn new(payload: SemaphorePayload, value: u64) -> Result<Self> {
        let code = match payload {
            SemaphorePayload::Binary => BINARY,
            SemaphorePayload::Timeline => TIMELINE,
            SemaphorePayload::KeyedMutex | SemaphorePayload::NvSciSync => {
                return Err(Error::unsupported(
                    "HostSemaphore::new",
                    "the host backend supports binary and timeline semaphores only",
                ));
            }
        };
        let memory = sys::create("gpu-interop semaphore", sys::page())?;
        let mapping = Mapping::new(sys::borrow(&memory), 0, sys::page())?;
        let state = mapping.ptr().cast::<State>();
        // SAFETY: the mapping is a fresh, page-aligned page that is not shared yet.
        unsafe {
            state.write(State {
                magic: AtomicU64::new(MAGIC),
                payload: AtomicU32::new(code),
                waiters: AtomicU32::new(0),
                value: AtomicU64::new(value),
                sequence: AtomicU32::new(0),
            });
        }
        Ok(Self { memory, mapping, payload })
    }

    /// Opens a semaphore of this backend, possibly from another process. The caller keeps ownership of the handle.
    pub(crate) fn open(handle: &SemaphoreHandle) -> Result<Self> {
        const OPERATION: &str = "HostBackend::import_semaphore";
        let rejected = |message: String| Error::new(ErrorKind::ImportRejected, OPERATION, message);
        let payload = handle.kind().payload();
        let memory = sys::of_semaphore(OPERATION, handle)?;
        let borrowed = sys::borrow(&memory);
        // Reads are limited to shared memory: reading other descriptors could block.
        if sys::check_is_memory(borrowed).is_err() || !is_semaphore(borrowed) {
            return Err(rejected(
                "the handle is not a semaphore of the host backend, which imports no other kind; share a semaphore of \
                 Vulkan with a `Timeline`"
                    .into(),
            ));
        }
        if !sys::cannot_shrink(borrowed) || sys::size(OPERATION, borrowed)? < sys::page() {
            return Err(rejected("the semaphore's memory is too small, or not sealed against shrinking".into()));
        }
        let mapping = Mapping::new(borrowed, 0, sys::page())?;
        let semaphore = Self { memory, mapping, payload };
        let code = semaphore.state().payload.load(Ordering::Relaxed);
        let actual = match code {
            BINARY => SemaphorePayload::Binary,
            TIMELINE => SemaphorePayload::Timeline,
            other => return Err(rejected(format!("the semaphore has the unknown payload {other}"))),
        };
        if actual != payload {
            return Err(rejected(format!("the semaphore is {actual:?}, but the handle's kind is {payload:?}")));
        }
        Ok(semaphore)
    }

    pub(crate) fn export(&self) -> Result<SemaphoreHandle> {
        let memory = sys::duplicate("HostSemaphore::export", sys::borrow(&self.memory))?;
        Ok(sys::to_semaphore(memory, self.payload))
    }

    pub(crate) fn payload(&self) -> SemaphorePayload {
        self.payload
    }

    fn state(&self) -> &State {
        // SAFETY: the mapping is an aligned page, larger than `State`, and holds initialised words that are all atomic.
        unsafe { &*self.mapping.ptr().cast::<State>() }
    }

    /// Current value.
    pub(crate) fn value(&self) -> u64 {
        self.state().value.load(Ordering::Acquire)
    }

    /// Raises a timeline to `value`.
    pub(crate) fn signal_value(&self, value: u64) -> Result<()> {
        let previous = self.state().value.fetch_max(value, Ordering::AcqRel);
        if previous >= value {
            return Err(Error::invalid("HostSemaphore::signal_value", "a timeline only grows")
                .with_context("value", value)
                .with_context("current value", previous));
        }
        self.wake();
        Ok(())
    }

    pub(crate) fn signal_binary(&self) -> Result<()> {
        if self.state().value.swap(1, Ordering::AcqRel) != 0 {
            return Err(Error::invalid(
                "HostSemaphore::signal",
                "the semaphore is already signalled; wait for it before the next signal",
            ));
        }
        self.wake();
        Ok(())
    }

    /// Waits until a timeline is at least `value`.
    pub(crate) fn wait_value(&self, value: u64, deadline: Option<Instant>, cancelled: &AtomicBool) -> Result<()> {
        self.wait_until(deadline, cancelled, || self.value() >= value)
            .map_err(|error| error.with_context("value", value).with_context("current value", self.value()))
    }

    /// Waits for a binary semaphore and resets it.
    pub(crate) fn wait_binary(&self, deadline: Option<Instant>, cancelled: &AtomicBool) -> Result<()> {
        let value = &self.state().value;
        self.wait_until(deadline, cancelled, || {
            value.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Registers a waiter. Returns the futex word and the value to sleep on. The caller then checks
    /// [`SharedSemaphore::value`], sleeps if needed, and calls [`SharedSemaphore::leave_wait`].
    pub(crate) fn enter_wait(&self) -> (&AtomicU32, u32) {
        let state = self.state();
        // SeqCst: see `wake`.
        state.waiters.fetch_add(1, Ordering::SeqCst);
        (&state.sequence, state.sequence.load(Ordering::SeqCst))
    }

    /// Unregisters a waiter of [`SharedSemaphore::enter_wait`].
    pub(crate) fn leave_wait(&self) {
        self.state().waiters.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self) {
        let state = self.state();
        // SeqCst, here, in `wait_until` and in `enter_wait`: either the waiter's futex call finds the new sequence and does
        // not sleep, or the waiter is registered before this function reads the number of waiters.
        state.sequence.fetch_add(1, Ordering::SeqCst);
        if state.waiters.load(Ordering::SeqCst) != 0 {
            sys::wake(&state.sequence, true);
        }
    }

    fn wait_until(
        &self,
        deadline: Option<Instant>,
        cancelled: &AtomicBool,
        mut satisfied: impl FnMut() -> bool,
    ) -> Result<()> {
        const OPERATION: &str = "HostSemaphore::wait";
        for _ in 0..SPINS {
            if satisfied() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let state = self.state();
        loop {
            let sequence = state.sequence.load(Ordering::SeqCst);
            if satisfied() {
                return Ok(());
            }
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, OPERATION, "the device was closed while a stream waited"));
            }
            let pause =
                deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()).min(SLICE));
            if pause.is_zero() {
                return Err(Error::new(ErrorKind::Timeout, OPERATION, "the semaphore was not signalled in time"));
            }
            state.waiters.fetch_add(1, Ordering::SeqCst);
            sys::sleep(&state.sequence, sequence, pause);
            state.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
