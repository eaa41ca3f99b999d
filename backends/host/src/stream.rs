//! Streams: a queue and a thread each.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::op::Op;

/// Room for this many operations before the queue allocates.
const INITIAL_CAPACITY: usize = 1024;

#[derive(Debug)]
pub(crate) struct StreamState {
    queue: Mutex<Queue>,
    /// Tells the thread that there is work.
    work: Condvar,
    /// Tells those who synchronise that there is none left.
    idle: Condvar,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Op>,
    /// The thread sleeps or is about to.
    asleep: bool,
    /// The stream was destroyed; the thread ends once it has run everything.
    closing: bool,
    /// The first failure since the last synchronisation.
    failure: Option<Error>,
}

impl StreamState {
    /// Starts a stream. `keep` is what its operations need; the thread holds it until it ends.
    pub(crate) fn start(cancelled: Arc<AtomicBool>, keep: Arc<impl Send + Sync + 'static>) -> Result<Arc<Self>> {
        let stream = Arc::new(Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::with_capacity(INITIAL_CAPACITY),
                asleep: false,
                closing: false,
                failure: None,
            }),
            work: Condvar::new(),
            idle: Condvar::new(),
        });
        let worker = stream.clone();
        std::thread::Builder::new()
            .name("gpu-interop stream".into())
            .spawn(move || {
                worker.run(&cancelled);
                drop(keep);
            })
            .map_err(|error| {
                Error::new(ErrorKind::System, "HostBackend::create_stream", "cannot start the stream's thread")
                    .with_source(error)
            })?;
        Ok(stream)
    }

    /// Nothing under the lock can be left half-done by a panic.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, cancelled: &AtomicBool) {
        // Takes everything that waits at once, so that the lock is not taken for each operation.
        let mut batch = VecDeque::with_capacity(INITIAL_CAPACITY);
        loop {
            {
                let mut queue = self.lock();
                while queue.waiting.is_empty() {
                    queue.asleep = true;
                    self.idle.notify_all();
                    if queue.closing {
                        return;
                    }
                    queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                queue.asleep = false;
                std::mem::swap(&mut queue.waiting, &mut batch);
            }
            for op in batch.drain(..) {
                if let Err(error) = op.run(cancelled) {
                    self.lock().failure.get_or_insert(error);
                }
            }
        }
    }

    /// Appends operations, all of them or, never, none.
    pub(crate) fn enqueue(&self, ops: impl IntoIterator<Item = Op>) {
        let mut queue = self.lock();
        queue.waiting.extend(ops);
        if queue.asleep {
            queue.asleep = false;
            self.work.notify_one();
        }
    }

    /// Whether everything has run.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.lock();
        queue.asleep && queue.waiting.is_empty()
    }

    /// Blocks until everything has run.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let mut queue = self.lock();
        while !(queue.asleep && queue.waiting.is_empty()) {
            queue = self.idle.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.failure.take().map_or(Ok(()), Err)
    }

    /// Ends the thread once everything has run.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.work.notify_one();
    }
}
