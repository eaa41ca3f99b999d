//! Work that a device executes in order, possibly later than it was submitted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::counter::Counter;
use crate::lock;
use crate::{AbortOnPanic, faults};

type Job = Box<dyn FnOnce(&AtomicBool) + Send>;

/// A thread that executes work in order. Recorded work is executed after it is submitted; dropping the queue discards
/// pending work.
#[derive(Default)]
pub(crate) struct Queue {
    held: Mutex<Vec<Job>>,
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
            let _abort = AbortOnPanic;
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
    fn held(&self) -> MutexGuard<'_, Vec<Job>> {
        lock(&self.held)
    }

    pub(crate) fn record(&self, job: impl FnOnce(&AtomicBool) + Send + 'static) {
        self.held().push(Box::new(job));
    }

    /// Submits the recorded work to the thread.
    pub(crate) fn submit(&self) {
        let mut held = self.held();
        if held.is_empty() {
            return;
        }
        let mut worker = lock(&self.worker);
        let worker = worker.get_or_insert_with(|| Worker::start(self.stopped.clone()));
        for job in held.drain(..) {
            worker.jobs.send(job).expect("the queue's thread, which ends with the queue");
        }
    }

    /// Submits the recorded work, and waits until all work has completed.
    pub(crate) fn drain(&self) {
        let (done, waits) = channel();
        self.record(move |_| drop(done));
        self.submit();
        waits.recv().unwrap_or(());
    }

    /// As [`drain`](Self::drain), but starts no thread if no work was ever recorded.
    pub(crate) fn drain_if_used(&self) {
        let started = lock(&self.worker).is_some();
        if started || !self.held().is_empty() {
            self.drain();
        }
    }

    pub(crate) fn signal(&self, fence: Arc<Counter>, value: u64) {
        if !faults::wanted(faults::NO_SIGNAL) {
            self.record(move |_| fence.set(value));
        }
    }

    pub(crate) fn wait(&self, fence: Arc<Counter>, value: u64) {
        self.record(move |stopped| fence.wait(value, stopped));
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Otherwise a wait for the queue would never end, without a reason.
    #[test]
    fn a_job_that_panics_ends_the_process() {
        const CHILD: &str = "GPU_INTEROP_SIM_D3D_TEST_PANIC";
        if std::env::var_os(CHILD).is_some() {
            let queue = Queue::default();
            queue.record(|_| panic!("a job's panic"));
            return queue.drain();
        }
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "queue::tests::a_job_that_panics_ends_the_process", "--nocapture"]).env(CHILD, "1");
        let output = child.output().expect("a process");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("a job's panic"), "{output:?}");
    }
}
