//! Timelines that the compute driver does not import: a thread carries their values.
//!
//! * **A stream waits** for a word in signal memory. The bridge writes the word once the exporter's timeline has reached
//!   the value.
//! * **A stream signals** by writing a word. The bridge sees it and raises the exporter's timeline from the host.
//!
//! There is one bridge, and so one thread, for each exporter (each `VkDevice`) that a device has such timelines of. It is
//! held by its timelines and by the thread, which ends when there are none and nothing is outstanding. Nothing ever blocks
//! in a host function: drivers may run those of independent streams one after another, so that one which waits keeps the
//! one away that it waits for.
//!
//! # Why the data is there when the value is
//! * *Stream to exporter.* A stream's write of a word comes after everything enqueued before it, behind a fence for the
//!   whole system (`cuStreamWriteValue64` without `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`, and HIP's default). The
//!   bridge reads the word with acquire ordering, and then signals: what happened before is in the signal's scope, which
//!   is defined to include the host's memory domain, and the exporter's wait makes it visible to its device. What the
//!   exporting API demands of external memory beyond that (in Vulkan an acquire from `VK_QUEUE_FAMILY_EXTERNAL`) is the
//!   exporter's part, as with a native timeline.
//! * *Exporter to stream.* The exporter releases the memory and signals; the signal makes its writes available. The
//!   bridge sees the value, so the signal happened before its write of the word, which is a release to the whole system
//!   (host memory, mapped into the device). The stream's wait acquires it, and what is enqueued behind sees the data.

#[cfg(all(test, loom))]
mod models;
mod pace;
mod pending;
mod polling;
mod process;
mod side;
mod threads;
mod words;
mod worker;

use std::sync::{Arc, Weak};

pub(crate) use pending::Request;
pub use polling::PollingWaiter;
pub(crate) use side::{Side, release};
pub(crate) use threads::Threads;
pub(crate) use words::{Ticket, Words};
use worker::Worker;

use crate::backend::BackendDevice;
use crate::error::{Error, Result};
use crate::sync::{Mutex, lock};
use crate::timeline::ExporterTimeline;

/// The bridges of a device.
#[derive(Debug, Default)]
pub(crate) struct Bridges {
    words: Arc<Words>,
    /// Those that a timeline uses, or that have something outstanding. No others: they would keep the exporter's waiter.
    workers: Mutex<Vec<Weak<Worker>>>,
    threads: Threads,
}

impl Bridges {
    /// A place on the bridge that serves `timeline`.
    ///
    /// # Errors
    /// What the exporter answers ([`ExporterTimeline::waiter`]).
    pub(crate) fn bridge(&self, timeline: &dyn ExporterTimeline) -> Result<Bridge> {
        // The exporter is asked without the lock: it may make timelines itself. Two threads at once may make two machines for
        // timelines that one would serve.
        let known = self.live();
        let worker = match known.iter().find(|worker| worker.serves(timeline)) {
            Some(worker) => worker.clone(),
            None => {
                let worker = Arc::new(Worker::new(timeline.waiter()?, self.words.clone()));
                let mut workers = lock(&self.workers);
                workers.retain(|worker| worker.strong_count() > 0);
                workers.push(Arc::downgrade(&worker));
                worker
            }
        };
        worker.join();
        Ok(Bridge { worker, threads: self.threads.clone() })
    }

    /// Whether nothing is outstanding on any bridge, and no exporter in use. Only when no timeline is left.
    pub(crate) fn are_idle(&self) -> bool {
        self.threads.have_ended()
    }

    /// Lets go every stream that waits for a bridge.
    pub(crate) fn cancel(&self) {
        self.live().iter().for_each(|worker| worker.cancel());
    }

    /// Fails the timelines that a stream was to signal, because of `error` none runs any more.
    pub(crate) fn set_lost(&self, error: Error) {
        self.words.set_lost(error);
        self.live().iter().for_each(|worker| worker.wake());
    }

    /// Keeps the device that the words are of, as long as a thread may read one: it may be inside the exporter.
    pub(crate) fn keep(&self, device: &Arc<dyn BackendDevice>) {
        self.words.keep(device.clone());
    }

    /// Ends the bridges whatever is outstanding. The words that streams may still write stay where they are.
    pub(crate) fn abandon(&self) {
        self.live().iter().for_each(|worker| worker.abandon());
    }

    /// A use of a word.
    ///
    /// # Errors
    /// What the device answers (`cuMemHostAlloc`, `hipExtMallocWithFlags`).
    pub(crate) fn take(&self, device: &dyn BackendDevice) -> Result<Ticket> {
        self.words.take(|| device.allocate_signal_memory())
    }

    /// Takes back a word that no stream heard of.
    pub(crate) fn put(&self, ticket: Ticket) {
        self.words.put(ticket);
    }

    /// Frees the words; those that something still uses are leaked.
    ///
    /// # Safety
    /// No stream waits for a word any more.
    pub(crate) unsafe fn free(&self, device: &dyn BackendDevice) {
        // SAFETY: the caller's promise; a ticket is put back when its stream has written the word, and those retired are
        // of streams too.
        unsafe { self.words.free(device) };
    }

    fn live(&self) -> Vec<Arc<Worker>> {
        lock(&self.workers).iter().filter_map(Weak::upgrade).collect()
    }
}

/// A timeline's place on a bridge.
#[derive(Debug)]
pub(crate) struct Bridge {
    worker: Arc<Worker>,
    threads: Threads,
}

impl Bridge {
    /// Makes sure that an order will be carried: called before the stream is told.
    ///
    /// # Errors
    /// [`ErrorKind::System`](crate::ErrorKind::System) if the thread cannot be started.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.worker.ensure_running(|| worker::spawn(self.worker.clone(), &self.threads))
    }

    /// Hands over an order, after [`Bridge::prepare`].
    pub(crate) fn submit(&self, request: Request) {
        self.worker.submit(request);
    }

    /// Makes the bridge look at its timelines again.
    pub(crate) fn wake(&self) {
        self.worker.wake();
    }

    /// What a stream's host function calls after it has reached its ticket. Does not block.
    pub(crate) fn notifier(&self) -> impl FnOnce() + Send + 'static {
        // While somebody waits to be told, the machine's thread holds it.
        let worker = Arc::downgrade(&self.worker);
        move || {
            if let Some(worker) = worker.upgrade() {
                worker.wake();
            }
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if self.threads.belong_to_this_process() {
            self.worker.leave();
        } else {
            // The lock may be held for ever: whoever held it is not here.
            std::mem::forget(self.worker.clone());
        }
    }
}
