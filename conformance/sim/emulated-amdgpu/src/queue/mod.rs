//! Hardware queues of KFD and rings of the render node. Each has a thread that executes its packets in order.

pub(crate) mod aql;
mod pm4;
pub(crate) mod ring;
mod sdma;
mod state;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::abi::Result;
use crate::abi::kfd::{QUEUE_TYPE_COMPUTE_AQL, QUEUE_TYPE_SDMA, QUEUE_TYPE_SDMA_XGMI};
use crate::emulation::Emulation;
use crate::kfd;
use crate::lock;
use crate::memory::Storage;
pub(crate) use crate::queue::state::{Backoff, Queue, Stop, poll_pause};
use crate::queue::state::{Kind, Poller};
use crate::report::say;

/// Size of a GPU's doorbells, 8 bytes per queue.
pub(crate) const DOORBELL_BYTES: u64 = 8192;

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
        lock(&self.running)
    }

    /// Makes a queue, with a doorbell on its GPU's page of `doorbells`, and starts its thread, which calls `run`.
    /// Returns its number, which is that of its doorbell too.
    pub(crate) fn create(
        &self,
        doorbells: &'static [Arc<Storage>],
        description: &Description,
        run: impl FnOnce(&Queue) + Send + 'static,
    ) -> Result<u32> {
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
        let page = doorbells.get(description.gpu).ok_or(Errno::INVAL)?;
        let doorbell = page.address().cast::<AtomicU64>().wrapping_add(id as usize);
        // SAFETY: the page is never freed, as `doorbells` is not, and has room for this doorbell.
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
        let thread = spawn(format!("amdgpu-queue-{id}"), move || run(&mine))?;
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

/// Executes packets until the queue stops, and reports why it did.
pub(crate) fn run_queue(queue: &Queue, emulation: &'static Emulation) {
    let result = match queue.kind {
        _ if emulation.faults.at("queue-hang").is_some() => Err(Stop::Hang),
        Kind::Aql => aql::run(queue, emulation),
        Kind::Sdma => sdma::run(queue, emulation),
    };
    let Err(stop) = result;
    if stop != Stop::Destroyed {
        queue.dead.store(true, Ordering::Release);
        kfd::report_stop(emulation, queue, &stop);
    }
}

/// Starts a thread with all signals blocked, so that the application's handlers do not run on it.
pub(crate) fn spawn(name: String, function: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
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
