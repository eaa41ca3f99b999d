//! What a device does in order, and later than it is told to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::counter::Counter;
use crate::faults;

type Job = Box<dyn FnOnce(&AtomicBool) + Send>;

/// A thread that does one thing after another. Starts with the first; dropped, it gives up what waits.
#[derive(Default)]
pub(crate) struct Queue {
    worker: Mutex<Option<Worker>>,
    stopped: Arc<AtomicBool>,
}

struct Worker {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start(stopped: Arc<AtomicBool>) -> Self {
        let (jobs, incoming) = channel::<Job>();
        let work = move || {
            for job in incoming {
                if !stopped.load(Ordering::SeqCst) {
                    job(&stopped);
                }
            }
        };
        let thread = std::thread::Builder::new().name("Direct3D queue".into()).spawn(work).expect("a thread");
        Self { jobs, thread }
    }
}

impl Queue {
    pub(crate) fn enqueue(&self, job: impl FnOnce(&AtomicBool) + Send + 'static) {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = worker.get_or_insert_with(|| Worker::start(self.stopped.clone()));
        worker.jobs.send(Box::new(job)).expect("the queue's thread, which ends with the queue");
    }

    /// Waits until all that was enqueued is done.
    pub(crate) fn drain(&self) {
        let (done, waits) = channel();
        self.enqueue(move |_| drop(done));
        waits.recv().unwrap_or(());
    }

    /// As [`drain`](Self::drain), and starts nothing.
    pub(crate) fn drain_if_started(&self) {
        if self.worker.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            self.drain();
        }
    }

    pub(crate) fn signal(&self, fence: Arc<Counter>, value: u64) {
        if !faults::wanted(faults::NO_SIGNAL) {
            self.enqueue(move |_| fence.set(value));
        }
    }

    pub(crate) fn wait(&self, fence: Arc<Counter>, value: u64) {
        self.enqueue(move |stopped| fence.wait(value, stopped));
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(Worker { jobs, thread }) = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            drop(jobs);
            let _ = thread.join();
        }
    }
}
