//! Hardware queues. Each has a thread that executes its packets in order.

mod aql;
mod backoff;
pub(crate) mod clock;
mod doorbell;
mod sdma;
pub(crate) mod signal;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;

pub(crate) use self::aql::wait_until;
use self::backoff::Backoff;
use self::doorbell::Poller;
use crate::abi::Result;
use crate::abi::kfd::{QUEUE_TYPE_COMPUTE_AQL, QUEUE_TYPE_SDMA, QUEUE_TYPE_SDMA_XGMI};
use crate::emulation::{DOORBELL_BYTES, Emulation};
use crate::log::say;
use crate::memory::PageFault;

/// Packet format of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Aql,
    Sdma,
}

/// Reason why a queue stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The queue is destroyed.
    Destroyed,
    PageFault(PageFault),
    /// A packet or a kernel that cannot be executed.
    Invalid(String),
    /// Injected fault: the packet never ends.
    Hang,
    /// Injected fault: the GPU is reset.
    Reset,
}

impl From<PageFault> for Stop {
    fn from(fault: PageFault) -> Self {
        Self::PageFault(fault)
    }
}

/// Description of a queue by its creator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Description {
    pub(crate) gpu: usize,
    pub(crate) kind: u32,
    pub(crate) ring: u64,
    pub(crate) ring_size: u64,
    pub(crate) read_pointer: u64,
    pub(crate) write_pointer: u64,
}

/// A hardware queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: u32,
    pub(crate) gpu: usize,
    kind: Kind,
    ring: AtomicU64,
    ring_size: AtomicU64,
    read_pointer: u64,
    write_pointer: u64,
    doorbell: &'static AtomicU64,
    stop: AtomicBool,
    /// The runtime set its share of time to 0.
    paused: AtomicBool,
    /// It has stopped and executes no more packets.
    dead: AtomicBool,
    /// Last doorbell value seen by the thread while it sleeps; `None` while it is awake.
    asleep: Mutex<Option<u64>>,
    awake: Condvar,
}

/// Time that a queue's thread polls for packets before it relies on the doorbell thread.
const ATTENTIVE: Duration = Duration::from_millis(2);

impl Queue {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Stops the queue.
    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether the thread must abandon its current packet.
    fn ended(&self) -> bool {
        self.stopped() || self.dead.load(Ordering::Acquire)
    }

    fn ring(&self) -> (u64, u64) {
        (self.ring.load(Ordering::Acquire), self.ring_size.load(Ordering::Acquire))
    }

    fn asleep(&self) -> MutexGuard<'_, Option<u64>> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` returns something.
    fn wait<T>(&self, mut ready: impl FnMut() -> std::result::Result<Option<T>, Stop>) -> std::result::Result<T, Stop> {
        let mut backoff = Backoff::new();
        loop {
            if self.ended() {
                return Err(Stop::Destroyed);
            }
            if !self.paused.load(Ordering::Acquire)
                && let Some(found) = ready()?
            {
                return Ok(found);
            }
            backoff.pause();
        }
    }

    /// Waits for a packet: as [`wait`](Self::wait), but after a while sleeps until the doorbell changes.
    fn wait_for_packet<T>(
        &self,
        mut ready: impl FnMut() -> std::result::Result<Option<T>, Stop>,
    ) -> std::result::Result<T, Stop> {
        let mut backoff = Backoff::new();
        loop {
            let doorbell = self.doorbell.load(Ordering::Acquire);
            if self.ended() {
                return Err(Stop::Destroyed);
            }
            if !self.paused.load(Ordering::Acquire)
                && let Some(found) = ready()?
            {
                return Ok(found);
            }
            if backoff.waited() < ATTENTIVE {
                backoff.pause();
                continue;
            }
            // The doorbell was read before the last check for packets, so a packet written since then changes it.
            self.sleep(doorbell);
            backoff.reset();
        }
    }

    fn sleep(&self, doorbell: u64) {
        let mut asleep = self.asleep();
        *asleep = Some(doorbell);
        while asleep.is_some() && !self.ended() {
            asleep = self.awake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep = None;
    }

    /// Wakes the thread if the doorbell rang since it fell asleep, and returns whether it did.
    fn wake_if_rung(&self) -> bool {
        let mut asleep = self.asleep();
        let rung = asleep.is_some_and(|known| self.doorbell.load(Ordering::Acquire) != known);
        if rung {
            *asleep = None;
            self.awake.notify_all();
        }
        rung
    }

    fn wake(&self) {
        *self.asleep() = None;
        self.awake.notify_all();
    }

    /// Main function of the queue's thread.
    fn run(&self, emulation: &'static Emulation) {
        let result = match self.kind {
            _ if emulation.faults.at("queue-hang").is_some() => Err(Stop::Hang),
            Kind::Aql => aql::run(self, emulation),
            Kind::Sdma => sdma::run(self, emulation),
        };
        let Err(stop) = result;
        if stop != Stop::Destroyed {
            self.dead.store(true, Ordering::Release);
            crate::kfd::exception::report(emulation, self, &stop);
        }
    }

    /// The signal that receives the error code of an AQL queue: the pointers are fields of the runtime's `amd_queue_t`.
    pub(crate) fn error_signal(&self, emulation: &Emulation) -> Option<u64> {
        use crate::abi::aql::queue::{INACTIVE_SIGNAL, READ_INDEX};
        let known = self.kind == Kind::Aql && self.read_pointer == self.write_pointer + READ_INDEX;
        let signal = emulation.memory.read_u64(self.gpu, self.write_pointer + INACTIVE_SIGNAL).ok()?;
        (known && signal != 0).then_some(signal)
    }
}

#[derive(Debug)]
struct Running {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// The queues of a process.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    running: Mutex<BTreeMap<u32, Running>>,
    poller: Poller,
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a queue and starts its thread. Returns its number, which is also that of its doorbell.
    pub(crate) fn create(&self, emulation: &'static Emulation, description: &Description) -> Result<u32> {
        let kind = match description.kind {
            QUEUE_TYPE_COMPUTE_AQL => Kind::Aql,
            QUEUE_TYPE_SDMA | QUEUE_TYPE_SDMA_XGMI => Kind::Sdma,
            _ => return Err(Errno::INVAL),
        };
        if description.ring_size == 0 || !description.ring_size.is_power_of_two() {
            return Err(Errno::INVAL);
        }
        let mut running = self.lock();
        let limit = u32::try_from(DOORBELL_BYTES / 8).unwrap_or(0);
        let id = (0..limit).find(|id| !running.contains_key(id)).ok_or(Errno::NOMEM)?;
        let page = emulation.doorbells.get(description.gpu).ok_or(Errno::INVAL)?;
        let doorbell = page.address().cast::<AtomicU64>().wrapping_add(id as usize);
        // SAFETY: the page lives as long as the emulation, which is never freed, and includes this doorbell.
        let doorbell: &'static AtomicU64 = unsafe { &*doorbell };
        doorbell.store(u64::MAX, Ordering::Release);
        let queue = Arc::new(Queue {
            id,
            gpu: description.gpu,
            kind,
            ring: AtomicU64::new(description.ring),
            ring_size: AtomicU64::new(description.ring_size),
            read_pointer: description.read_pointer,
            write_pointer: description.write_pointer,
            doorbell,
            stop: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            asleep: Mutex::new(None),
            awake: Condvar::new(),
        });
        let mine = Arc::clone(&queue);
        let thread = spawn(format!("amdgpu-queue-{id}"), move || mine.run(emulation))?;
        self.poller.add(&queue)?;
        say!(1, "queue {id} of {kind:?} on GPU {}", description.gpu);
        running.insert(id, Running { queue, thread });
        Ok(id)
    }

    /// Stops a queue's thread and frees its number.
    pub(crate) fn destroy(&self, id: u32) -> Result<()> {
        let Running { queue, thread } = self.lock().remove(&id).ok_or(Errno::INVAL)?;
        queue.stop.store(true, Ordering::Release);
        queue.wake();
        // The thread has reported its own panic.
        _ = thread.join();
        Ok(())
    }

    /// Changes a queue's ring, and pauses or resumes it.
    pub(crate) fn update(&self, id: u32, ring: u64, ring_size: u64, paused: bool) -> Result<()> {
        let running = self.lock();
        let queue = &running.get(&id).ok_or(Errno::INVAL)?.queue;
        if ring_size != 0 {
            queue.ring.store(ring, Ordering::Release);
            queue.ring_size.store(ring_size, Ordering::Release);
        }
        queue.paused.store(paused, Ordering::Release);
        queue.wake();
        Ok(())
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.lock().contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The queues of a GPU.
    pub(crate) fn of_gpu(&self, gpu: usize) -> Vec<Arc<Queue>> {
        self.lock().values().map(|running| Arc::clone(&running.queue)).filter(|queue| queue.gpu == gpu).collect()
    }
}

/// Starts a thread with all signals blocked, so that the application's handlers do not run on it.
fn spawn(name: String, function: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the calls write both sets before they are read; the thread's mask is restored below.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let thread = std::thread::Builder::new().name(name).spawn(function);
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    thread.map_err(|_| Errno::NOMEM)
}
