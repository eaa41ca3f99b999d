//! Streams: queues with a thread each. Events, which they record, and host functions, which they call.
//!
//! One thread calls the host functions of all streams in sequence. Drivers may do the same, so a function that blocks
//! delays those of all other streams.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use gpu_interop_sim_abi::lock;

use crate::code;
use crate::objects::{Objects, is_before_reset};
use crate::system::die;

/// Streams by handle, without the default stream.
pub static STREAMS: Objects<Stream> = Objects::new();

/// Work of a stream, run once, or once per launch of a graph. An error is the code that the next synchronisation
/// returns.
#[derive(Clone)]
pub(crate) struct Work {
    run: Arc<dyn Fn() -> Result<(), u32> + Send + Sync>,
    order: Order,
}

/// Position of work in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// At the end.
    Plain,
    /// At the end, but [`Order::Overtaking`] may pass it as long as only slow work follows it.
    Slow,
    /// Before the slow work at the end of the queue, except what has begun.
    Overtaking,
}

impl Work {
    /// Replaces the operation, at the same position.
    pub(crate) fn replace(&mut self, run: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.run = Arc::new(run);
    }

    fn new(order: Order, run: impl Fn() -> Result<(), u32> + Send + Sync + 'static) -> Self {
        Self { run: Arc::new(run), order }
    }
}

/// A graph in capture, by one stream or several: the captured work, in order.
#[derive(Default)]
pub struct Recording {
    state: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    work: Vec<Work>,
    invalid: bool,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}

impl Recording {
    /// Makes the end of the capture fail.
    pub fn invalidate(&self) {
        lock(&self.state).invalid = true;
    }

    /// `true` if the end of the capture fails.
    pub fn is_invalid(&self) -> bool {
        lock(&self.state).invalid
    }

    /// The number of captured operations.
    pub fn length(&self) -> usize {
        lock(&self.state).work.len()
    }

    fn end(&self) -> Result<Vec<Work>, u32> {
        let mut state = lock(&self.state);
        if state.invalid { Err(code::CAPTURE_INVALIDATED) } else { Ok(std::mem::take(&mut state.work)) }
    }
}

/// A stream.
pub struct Stream {
    queue: Mutex<Queue>,
    /// Notified of new work if the stream's thread sleeps.
    work: Condvar,
    /// Notified of completed work if a thread synchronises.
    progress: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    /// The capture that receives enqueued work.
    capture: Option<Arc<Recording>>,
    enqueued: u64,
    done: u64,
    /// Set by the stream's thread before it sleeps, cleared by the thread that wakes it.
    asleep: bool,
    /// Number of threads that wait for work to run.
    synchronising: usize,
    failure: Option<u32>,
    closing: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

impl Stream {
    /// Creates a stream and its thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start() -> std::io::Result<Arc<Self>> {
        let stream = Arc::new(Self {
            queue: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
            thread: Mutex::default(),
        });
        let own = stream.clone();
        let thread = std::thread::Builder::new().name("sim stream".into()).spawn(move || own.run())?;
        *lock(&stream.thread) = Some(thread);
        Ok(stream)
    }

    /// The stream of this handle; 0 is the default stream, which is created at the first use.
    pub fn of(handle: usize) -> Option<Arc<Self>> {
        static DEFAULT: OnceLock<Option<Arc<Stream>>> = OnceLock::new();
        match handle {
            0 => DEFAULT.get_or_init(|| Self::start().ok()).clone(),
            handle => {
                let found = STREAMS.get(handle);
                if found.is_none() && is_before_reset(handle) {
                    eprintln!("a simulator ends the process: a stream is used after a reset of its device");
                    die();
                }
                found
            }
        }
    }

    /// Ends the stream without running its pending work: the device was reset.
    pub(crate) fn abandon(&self) {
        lock(&self.queue).waiting.clear();
        self.close();
    }

    fn run(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let work = loop {
                match queue.waiting.pop_front() {
                    Some(work) => break work,
                    None if queue.closing => return,
                    None => {
                        queue.asleep = true;
                        queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(queue);
            let result = (work.run)();
            // The work's references are dropped before it counts as done.
            drop(work);
            let mut queue = lock(&self.queue);
            queue.done += 1;
            if let Err(code) = result {
                queue.failure.get_or_insert(code);
            }
            let synchronising = queue.synchronising;
            drop(queue);
            if synchronising != 0 {
                self.progress.notify_all();
            }
        }
    }

    /// Enqueues work.
    pub fn enqueue(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.push(Work::new(Order::Plain, work));
    }

    /// Enqueues work that [`Stream::overtake`] may pass as long as only slow work follows it.
    pub fn enqueue_slow(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.push(Work::new(Order::Slow, work));
    }

    /// Enqueues work before the slow work at the end of the queue, except what has begun.
    pub fn overtake(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.push(Work::new(Order::Overtaking, work));
    }

    /// Enqueues work that runs even during a capture, and is not part of the graph.
    pub fn enqueue_now(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        let mut queue = lock(&self.queue);
        Self::append(&mut queue, Work::new(Order::Plain, work));
        self.wake(queue);
    }

    fn push(&self, work: Work) {
        let mut queue = lock(&self.queue);
        match &mut queue.capture {
            Some(capture) => lock(&capture.state).work.push(work),
            None => {
                Self::append(&mut queue, work);
                self.wake(queue);
            }
        }
    }

    /// Wakes the stream's thread if it sleeps. Each notification is a system call, also without a waiting thread.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        let asleep = std::mem::take(&mut queue.asleep);
        drop(queue);
        if asleep {
            self.work.notify_one();
        }
    }

    fn append(queue: &mut Queue, work: Work) {
        queue.enqueued += 1;
        let slow = match work.order {
            Order::Overtaking => queue.waiting.iter().rev().take_while(|work| work.order == Order::Slow).count(),
            Order::Plain | Order::Slow => 0,
        };
        let first = queue.waiting.len() - slow;
        let Some(overtaken) = queue.waiting.get_mut(first) else { return queue.waiting.push_back(work) };
        // Runs as one operation with the first that it overtakes: `wait` counts operations, and an inserted one would
        // move those behind it.
        let behind = std::mem::replace(overtaken, Work::new(Order::Plain, || Ok(())));
        *overtaken = Work::new(Order::Plain, move || (work.run)().and((behind.run)()));
        queue.waiting.push_back(Work::new(Order::Plain, || Ok(())));
    }

    /// Begins to capture enqueued work instead of running it.
    ///
    /// # Errors
    /// If the stream is already capturing.
    pub fn begin_capture(&self) -> Result<(), u32> {
        self.join(Arc::default())
    }

    /// As [`Stream::begin_capture`], into the same graph as other streams.
    ///
    /// # Errors
    /// If the stream is already capturing.
    pub fn join(&self, recording: Arc<Recording>) -> Result<(), u32> {
        let mut queue = lock(&self.queue);
        if queue.capture.is_some() {
            return Err(code::ILLEGAL_STATE);
        }
        queue.capture = Some(recording);
        Ok(())
    }

    /// The current capture, if any.
    pub fn recording(&self) -> Option<Arc<Recording>> {
        lock(&self.queue).capture.clone()
    }

    /// Leaves the capture. Its recording keeps the work captured so far.
    pub fn leave(&self) {
        lock(&self.queue).capture = None;
    }

    /// The number of captured operations.
    ///
    /// # Errors
    /// If the stream is not capturing.
    pub fn captured(&self) -> Result<usize, u32> {
        self.recording().map(|recording| recording.length()).ok_or(code::ILLEGAL_STATE)
    }

    /// Ends a capture.
    ///
    /// # Errors
    /// If the stream is not capturing, or the capture is invalid.
    pub(crate) fn end_capture(&self) -> Result<Vec<Work>, u32> {
        let capture = lock(&self.queue).capture.take().ok_or(code::ILLEGAL_STATE)?;
        capture.end()
    }

    /// Enqueues captured work, or captures it again.
    pub(crate) fn repeat(&self, work: &[Work]) {
        work.iter().for_each(|work| self.push(work.clone()));
    }

    /// Fails, and invalidates the capture, if the stream is capturing.
    fn need_no_capture(queue: &mut Queue) -> Result<(), u32> {
        match &mut queue.capture {
            Some(capture) => {
                capture.invalidate();
                Err(code::CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Records an event.
    ///
    /// # Errors
    /// If the stream is capturing. Real drivers support more here.
    pub fn record(&self, event: &Event) -> Result<(), u32> {
        let record = Arc::new(Record::default());
        let mut queue = lock(&self.queue);
        Self::need_no_capture(&mut queue)?;
        let passed = record.clone();
        let pass = move || {
            passed.pass();
            Ok(())
        };
        Self::append(&mut queue, Work::new(Order::Plain, pass));
        // Under the lock, so that a visible record is already enqueued.
        event.set(record);
        self.wake(queue);
        Ok(())
    }

    /// `true` if work is pending.
    pub fn is_busy(&self) -> bool {
        let queue = lock(&self.queue);
        queue.done < queue.enqueued
    }

    /// Waits until all work enqueued so far has run, also during a capture. Does not report failures.
    pub fn drain(&self) {
        drop(self.wait(lock(&self.queue)));
    }

    fn wait<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let target = queue.enqueued;
        queue.synchronising += 1;
        while queue.done < target {
            queue = self.progress.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.synchronising -= 1;
        queue
    }

    /// `true` if all work has run.
    ///
    /// # Errors
    /// As for [`Stream::synchronize`].
    pub fn is_idle(&self) -> Result<bool, u32> {
        let mut queue = lock(&self.queue);
        Self::need_no_capture(&mut queue)?;
        match queue.failure.take() {
            Some(code) => Err(code),
            None => Ok(queue.done == queue.enqueued),
        }
    }

    /// Waits until all work enqueued so far has run.
    ///
    /// # Errors
    /// The code of the first work that failed since the last call.
    pub fn synchronize(&self) -> Result<(), u32> {
        let mut queue = lock(&self.queue);
        Self::need_no_capture(&mut queue)?;
        self.wait(queue).failure.take().map_or(Ok(()), Err)
    }

    /// Ends the thread once all work has run. If all had run before the call, the thread ends before this returns.
    pub fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closing = true;
        let idle = queue.done == queue.enqueued;
        self.wake(queue);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread.filter(|thread| idle && thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// Waits for every stream.
///
/// # Errors
/// The first failure.
pub fn synchronize_all() -> Result<(), u32> {
    let streams = STREAMS.all().into_iter().chain(Stream::of(0));
    streams.map(|stream| stream.synchronize()).fold(Ok(()), Result::and)
}

/// Waits until every stream has run the work enqueued so far. Does not report failures.
pub fn drain_all() {
    STREAMS.all().into_iter().chain(Stream::of(0)).for_each(|stream| stream.drain());
}

/// Waits until all work enqueued so far has run, and forgets its failures. A capture becomes invalid. Not a call of a
/// driver: no fault applies to it.
#[unsafe(no_mangle)]
pub extern "C" fn sim_settle() {
    let _ = synchronize_all();
}

/// Events by handle.
pub static EVENTS: Objects<Event> = Objects::new();

/// An event: its last record.
#[derive(Debug, Default)]
pub struct Event {
    last: Mutex<Option<Arc<Record>>>,
}

/// One record of an event.
#[derive(Debug, Default)]
pub struct Record {
    state: Mutex<RecordState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct RecordState {
    passed: bool,
    /// Number of waiting threads. Each notification is a system call, also without one.
    waiting: usize,
}

impl Event {
    pub(crate) fn set(&self, record: Arc<Record>) {
        *lock(&self.last) = Some(record);
    }

    /// The last record; `None` if the event was never recorded.
    pub fn last(&self) -> Option<Arc<Record>> {
        lock(&self.last).clone()
    }

    /// `true` if all work before the last record has run.
    pub fn is_complete(&self) -> bool {
        self.last().is_none_or(|record| lock(&record.state).passed)
    }
}

impl Record {
    pub(crate) fn pass(&self) {
        let mut state = lock(&self.state);
        state.passed = true;
        let waiting = state.waiting;
        drop(state);
        if waiting != 0 {
            self.changed.notify_all();
        }
    }

    /// Waits without a time limit.
    pub fn wait(&self) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        while !state.passed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }
}

/// A host function.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// A call, and the channel that reports its end.
struct HostCall {
    function: HostFunction,
    /// An address, because the data belongs to the function.
    data: usize,
    done: Sender<()>,
}

fn host_function_caller() -> Option<&'static Sender<HostCall>> {
    static CALLER: OnceLock<Option<Sender<HostCall>>> = OnceLock::new();
    let start = || {
        let (calls, incoming) = channel::<HostCall>();
        let call = move || {
            for HostCall { function, data, done } in incoming {
                // SAFETY: the caller of `call_host_function` guarantees it.
                unsafe { function(std::ptr::with_exposed_provenance_mut(data)) };
                let _ = done.send(());
            }
        };
        std::thread::Builder::new().name("sim host functions".into()).spawn(call).ok().map(|_| calls)
    };
    CALLER.get_or_init(start).as_ref()
}

/// Calls a function after the earlier calls of all streams, and waits for its end.
///
/// # Safety
/// The function accepts the data, whose provenance is exposed, and does not unwind.
pub(crate) unsafe fn call_host_function(function: HostFunction, data: usize) {
    let (done, end) = channel();
    if host_function_caller().is_some_and(|caller| caller.send(HostCall { function, data, done }).is_ok()) {
        let _ = end.recv();
    }
}
