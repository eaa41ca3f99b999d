//! Streams, each with a queue and a thread; their events, and graphs: recorded operations that can be enqueued repeatedly.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use gpu_interop_core::backend::RawGraphNode;
use gpu_interop_core::sync::{lock, unpoisoned};
use gpu_interop_core::{Error, ErrorKind, Result, caught};

use crate::op::Op;

/// Number of operations that fit before the queue allocates.
const INITIAL_CAPACITY: usize = 1024;

#[derive(Debug)]
pub(crate) struct StreamState {
    queue: Mutex<Queue>,
    /// Notified when operations are enqueued or the stream is closed.
    work: Condvar,
    /// Number of operations that have run.
    done: AtomicU64,
    /// Number of synchronising threads; if not 0, changes of `done` are notified.
    synchronising: AtomicU32,
    progress: Condvar,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Op>,
    /// Number of operations enqueued since creation.
    enqueued: u64,
    /// True while the thread sleeps or is about to.
    asleep: bool,
    /// True after the stream is destroyed; the thread ends once it has run all operations.
    closing: bool,
    /// First failure since the last synchronisation.
    failure: Option<Error>,
    /// Operations enqueued while recording.
    recording: Option<Vec<Op>>,
}

impl StreamState {
    /// Starts a stream. The thread owns `keep`, the resources of its operations, until it ends.
    pub(crate) fn start(cancelled: Arc<AtomicBool>, keep: Arc<impl Send + Sync + 'static>) -> Result<Arc<Self>> {
        let stream = Arc::new(Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::with_capacity(INITIAL_CAPACITY),
                enqueued: 0,
                asleep: false,
                closing: false,
                failure: None,
                recording: None,
            }),
            work: Condvar::new(),
            done: AtomicU64::new(0),
            synchronising: AtomicU32::new(0),
            progress: Condvar::new(),
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

    /// Locks the queue, which a panic cannot leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn run(&self, cancelled: &AtomicBool) {
        // Takes all pending operations at once to avoid locking for each.
        let mut batch = VecDeque::with_capacity(INITIAL_CAPACITY);
        loop {
            {
                let mut queue = self.lock();
                while queue.waiting.is_empty() {
                    queue.asleep = true;
                    if queue.closing {
                        if let Some(error) = queue.failure.take() {
                            // A subscriber may panic.
                            let _ = caught(|| tracing::error!(%error, "work of a destroyed stream failed"));
                        }
                        return;
                    }
                    queue = unpoisoned(self.work.wait(queue));
                }
                queue.asleep = false;
                std::mem::swap(&mut queue.waiting, &mut batch);
            }
            for op in batch.drain(..) {
                // A panic of a kernel, or of a value that it captured, must not end the thread.
                let result = caught(|| op.run(cancelled)).unwrap_or_else(|| {
                    Err(Error::new(ErrorKind::Driver, "HostBackend::launch_kernel", "the kernel panicked"))
                });
                if let Err(error) = result {
                    self.lock().failure.get_or_insert(error);
                }
                // SeqCst, here and in `synchronize`: either this thread reads that a thread waits, or that thread reads
                // the new count.
                self.done.fetch_add(1, Ordering::SeqCst);
                if self.synchronising.load(Ordering::SeqCst) != 0 {
                    drop(self.lock());
                    self.progress.notify_all();
                }
            }
        }
    }

    /// Appends operations.
    pub(crate) fn enqueue(&self, ops: impl IntoIterator<Item = Op>) {
        self.append(&mut self.lock(), ops);
    }

    /// Records `event`. The record is enqueued before it becomes visible, so that a stream never waits for a record
    /// enqueued after the wait.
    pub(crate) fn record(&self, event: &EventState) {
        let record = Arc::new(Record::default());
        let mut queue = self.lock();
        self.append(&mut queue, [Op::Record(record.clone())]);
        event.set(record);
    }

    /// Records operations enqueued from here on instead of running them.
    pub(crate) fn begin_recording(&self) {
        self.lock().recording = Some(Vec::new());
    }

    /// Number of recorded operations.
    pub(crate) fn recorded(&self) -> usize {
        self.lock().recording.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn end_recording(&self) -> Vec<Op> {
        self.lock().recording.take().unwrap_or_default()
    }

    fn append(&self, queue: &mut Queue, ops: impl IntoIterator<Item = Op>) {
        if let Some(recording) = &mut queue.recording {
            recording.extend(ops);
            return;
        }
        let before = queue.waiting.len();
        queue.waiting.extend(ops);
        queue.enqueued += (queue.waiting.len() - before) as u64;
        if queue.asleep {
            queue.asleep = false;
            self.work.notify_one();
        }
    }

    /// Returns whether all operations have run.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.lock();
        self.done.load(Ordering::SeqCst) == queue.enqueued
    }

    /// Blocks until all operations enqueued before this call have run.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let mut queue = self.lock();
        let target = queue.enqueued;
        self.synchronising.fetch_add(1, Ordering::SeqCst);
        while self.done.load(Ordering::SeqCst) < target {
            queue = unpoisoned(self.progress.wait(queue));
        }
        self.synchronising.fetch_sub(1, Ordering::SeqCst);
        queue.failure.take().map_or(Ok(()), Err)
    }

    /// Returns the first failure since the last report.
    pub(crate) fn take_failure(&self) -> Result<()> {
        self.lock().failure.take().map_or(Ok(()), Err)
    }

    /// Ends the thread after all operations have run.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.work.notify_one();
    }
}

/// Event: its latest record.
#[derive(Debug, Default)]
pub(crate) struct EventState {
    last: Mutex<Option<Arc<Record>>>,
}

impl EventState {
    /// Sets the latest record, which is already enqueued.
    pub(crate) fn set(&self, record: Arc<Record>) {
        *lock(&self.last) = Some(record);
    }

    /// Returns the latest record, if any.
    pub(crate) fn last_record(&self) -> Option<Arc<Record>> {
        lock(&self.last).clone()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.last_record().is_none_or(|record| *lock(&record.passed))
    }
}

/// Record of an event. Waits refer to a record, because a later record of the same event on another stream is
/// independent of it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    passed: Mutex<bool>,
    changed: Condvar,
}

impl Record {
    /// Marks the record as passed.
    pub(crate) fn pass(&self) {
        *lock(&self.passed) = true;
        self.changed.notify_all();
    }

    /// Blocks until the record has passed.
    pub(crate) fn wait(&self, cancelled: &AtomicBool) -> Result<()> {
        const SLICE: Duration = Duration::from_millis(20);
        let mut passed = lock(&self.passed);
        while !*passed {
            if cancelled.load(Ordering::Relaxed) {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "HostBackend::wait_event",
                    "the device was closed while a stream waited",
                ));
            }
            passed = unpoisoned(self.changed.wait_timeout(passed, SLICE)).0;
        }
        Ok(())
    }
}

/// Recorded operations.
#[derive(Debug)]
pub(crate) struct Graph {
    ops: Mutex<Vec<Op>>,
}

/// Returns the node of the operation recorded last: the number of operations recorded so far.
pub(crate) fn last(stream: &StreamState) -> RawGraphNode {
    RawGraphNode::new(stream.recorded())
}

impl Graph {
    /// Ends a stream's recording and returns the graph.
    pub(crate) fn of(stream: &StreamState) -> Self {
        Self { ops: Mutex::new(stream.end_recording()) }
    }

    /// Locks the operations, which a panic cannot leave inconsistent.
    fn ops(&self) -> MutexGuard<'_, Vec<Op>> {
        lock(&self.ops)
    }

    /// Enqueues the operations on a stream.
    pub(crate) fn launch(&self, stream: &StreamState) {
        stream.enqueue(self.ops().iter().cloned());
    }

    /// Replaces the operations that end with `node`.
    pub(crate) fn replace(&self, node: RawGraphNode, new: impl ExactSizeIterator<Item = Op>) -> Result<()> {
        let mut ops = self.ops();
        let batch = node.get().checked_sub(new.len()).and_then(|first| ops.get_mut(first..node.get()));
        let batch = batch
            .ok_or_else(|| Error::invalid("HostBackend::graph", "the graph has no batch of this length at the node"))?;
        batch.iter_mut().zip(new).for_each(|(op, new)| *op = new);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn synchronisation_waits_for_earlier_operations_only() {
        let stream = StreamState::start(Arc::default(), Arc::new(())).expect("stream");
        let [before, after] = [(); 2].map(|()| Arc::new(Record::default()));
        stream.enqueue([Op::WaitEvent(before.clone())]);
        std::thread::scope(|scope| {
            let synchronising = scope.spawn(|| stream.synchronize());
            // Incremented where `synchronize` reads the number of enqueued operations.
            while stream.synchronising.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            stream.enqueue([Op::WaitEvent(after.clone())]);
            assert!(!synchronising.is_finished(), "the earlier operation is pending");
            before.pass();
            let start = Instant::now();
            while !synchronising.is_finished() && start.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let returned = synchronising.is_finished();
            after.pass();
            assert!(returned, "the later operation delays the earlier synchronisation");
        });
        stream.close();
    }
}
