//! Host bridge of timelines that the compute driver cannot import: a thread transfers their values.
//!
//! * **A stream waits** for a word in signal memory. The bridge writes the word once the exporter's timeline has
//!   reached the value.
//! * **A stream signals** by writing a word. The bridge reads it and raises the exporter's timeline from the host.
//!
//! A device has one bridge, and so one thread, for each exporter (each `VkDevice`) whose timelines it bridges. The
//! timelines and the thread own it; the thread ends when there are no timelines and nothing is pending. Host functions
//! never block: drivers may serialise those of independent streams, so a blocking one could delay the one that it waits
//! for.
//!
//! # Memory ordering
//! * *Stream to exporter.* A stream writes the word after all work enqueued before it, behind a system-scope fence
//!   (`cuStreamWriteValue64` without `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`, and HIP's default). The bridge reads
//!   the word with acquire ordering and then signals: earlier writes are in the first scope of the signal, which
//!   includes the host memory domain, and the exporter's wait makes them visible to its device. Further requirements of
//!   the exporting API for external memory (in Vulkan an acquire from `VK_QUEUE_FAMILY_EXTERNAL`) are the application's
//!   task, as with a native timeline.
//! * *Exporter to stream.* The exporter releases the memory and signals; the signal makes its writes available. The
//!   bridge observes the value, so the signal happens before the bridge's store of the word, a system-scope release
//!   (host memory mapped into the device). The stream's wait acquires the word, and work behind it observes the data.

mod forecast;
#[cfg(all(test, loom))]
mod models;
mod pace;
mod pending;
mod side;
mod words;
mod worker;

use std::sync::{Arc, Weak};

pub(crate) use pending::Request;
pub(crate) use side::{BridgedTimeline, ReleasedWaits, StreamFaults};
pub(crate) use words::{Ticket, Words};
pub(crate) use worker::SkipUntilWake;
pub(crate) use worker::Threads;
use worker::Worker;

use crate::backend::{BackendDevice, SignalMemory};
use crate::error::{Error, Result};

use crate::sync::{Mutex, unpoisoned};
use crate::timeline::ExporterTimeline;

/// Bridges of a device.
#[derive(Debug, Default)]
pub(crate) struct Bridges {
    words: Arc<Words>,
    /// Workers used by a timeline or with pending requests. Weak references, so that idle ones do not keep the
    /// exporter's waiter.
    workers: Mutex<Vec<Weak<Worker>>>,
    threads: Threads,
}

impl Bridges {
    /// Returns a reference to the bridge that serves `timeline`; creates it if there is none.
    ///
    /// # Errors
    /// Errors of [`ExporterTimeline::waiter`].
    pub(crate) fn bridge(&self, timeline: &dyn ExporterTimeline) -> Result<Bridge> {
        // The exporter is called without the lock, because it may create timelines itself. Two concurrent calls may
        // create two workers where one would serve both.
        let known = self.live();
        let worker = match known.iter().find(|worker| worker.serves(timeline)) {
            Some(worker) => worker.clone(),
            None => {
                let worker = Arc::new(Worker::new(timeline.waiter()?, self.words.clone()));
                let mut workers = unpoisoned(self.workers.lock());
                workers.retain(|worker| worker.strong_count() > 0);
                workers.push(Arc::downgrade(&worker));
                worker
            }
        };
        worker.join();
        Ok(Bridge { worker, threads: self.threads.clone() })
    }

    /// `true` if no thread runs: nothing is pending and no exporter is in use. Requires that no timeline is left.
    pub(crate) fn are_idle(&self) -> bool {
        self.threads.have_ended()
    }

    /// Releases every wait of a stream for a bridge.
    pub(crate) fn cancel(&self) {
        self.live().iter().for_each(|worker| worker.cancel());
    }

    /// Fails the timelines with pending signals: `error` reports that the device is lost.
    pub(crate) fn set_lost(&self, error: Error) {
        self.words.set_lost(error);
        self.live().iter().for_each(|worker| worker.wake());
    }

    /// Keeps the device that owns the words alive while a thread may read one: it may be inside a call of the exporter.
    pub(crate) fn keep(&self, device: &Arc<dyn BackendDevice>) {
        self.words.keep(device.clone());
    }

    /// Ends the bridges with requests pending. The words that streams may still write are leaked.
    pub(crate) fn abandon(&self) {
        self.live().iter().for_each(|worker| worker.abandon());
    }

    /// Allocates a ticket of a word.
    ///
    /// # Errors
    /// Errors of the device (`cuMemHostRegister`, `hipExtMallocWithFlags`).
    pub(crate) fn take(&self, device: &dyn BackendDevice) -> Result<Ticket> {
        self.words.take(|| device.allocate_signal_memory())
    }

    /// Returns a ticket that no stream uses.
    pub(crate) fn put(&self, ticket: Ticket) {
        self.words.put(ticket);
    }

    /// Frees the words; words in use are leaked. `report` gets failures.
    ///
    /// # Safety
    /// No stream waits for a word.
    pub(crate) unsafe fn free(&self, device: &dyn BackendDevice, report: impl Fn(&Error, SignalMemory)) {
        // SAFETY: the caller guarantees that no stream waits; a ticket is returned when its stream has written the
        // word, and the streams of retired tickets have been destroyed.
        unsafe { self.words.free(device, report) };
    }

    fn live(&self) -> Vec<Arc<Worker>> {
        unpoisoned(self.workers.lock()).iter().filter_map(Weak::upgrade).collect()
    }
}

/// A timeline's reference to its bridge.
#[derive(Debug)]
pub(crate) struct Bridge {
    worker: Arc<Worker>,
    threads: Threads,
}

impl Bridge {
    /// Starts the thread unless it runs. Called before work is enqueued on the stream; the result is for
    /// [`Bridge::submit`].
    ///
    /// # Errors
    /// [`ErrorKind::System`](crate::ErrorKind::System) if the thread cannot be started.
    pub(crate) fn prepare(&self, stream: &Arc<StreamFaults>) -> Result<Option<SkipUntilWake>> {
        self.worker.ensure_running(stream, || worker::spawn(self.worker.clone(), &self.threads))
    }

    /// Adds a request, after [`Bridge::prepare`].
    pub(crate) fn submit(&self, request: Request, skip: Option<SkipUntilWake>) {
        self.worker.submit(request, skip);
    }

    /// Wakes the bridge to query its timelines.
    pub(crate) fn wake(&self) {
        self.worker.wake();
    }

    /// Returns a function that a stream's host function calls after it has signalled its ticket. Does not block.
    pub(crate) fn notifier(&self) -> impl FnOnce() + Send + 'static {
        // A worker with pending requests is kept alive by its thread.
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
            // The lock may be held by a thread that does not exist in this process.
            std::mem::forget(self.worker.clone());
        }
    }
}
