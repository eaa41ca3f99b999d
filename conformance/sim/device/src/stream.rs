//! Streams: queues with a thread each.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use crate::code;
use crate::event::{Event, Record};
use crate::objects::Objects;
use gpu_interop_sim_abi::lock;

/// Streams by handle. The default stream is not among them.
pub static STREAMS: Objects<Stream> = Objects::new();

/// What a stream runs, once, or as often as a graph is launched. A failure is the code that the next synchronisation
/// answers.
#[derive(Clone)]
pub(crate) struct Work {
    run: Arc<dyn Fn() -> Result<(), u32> + Send + Sync>,
    order: Order,
}

/// How work comes to lie among other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Behind all that is there.
    Plain,
    /// As that, but [`Order::Overtaking`] may pass it as long as nothing else is behind it.
    Slow,
    /// In front of what is slow and has not begun.
    Overtaking,
}

impl Work {
    /// Does something else from now on, at the same place.
    pub(crate) fn replace(&mut self, run: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.run = Arc::new(run);
    }

    fn new(order: Order, run: impl Fn() -> Result<(), u32> + Send + Sync + 'static) -> Self {
        Self { run: Arc::new(run), order }
    }
}

/// A graph that is being recorded, by one stream or several: what they enqueue, in the order in which they do.
#[derive(Default)]
pub struct Recording {
    state: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    work: Vec<Work>,
    spoilt: bool,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}

impl Recording {
    /// Has its end fail.
    pub fn spoil(&self) {
        lock(&self.state).spoilt = true;
    }

    /// Whether its end fails.
    pub fn is_spoilt(&self) -> bool {
        lock(&self.state).spoilt
    }

    /// How much was recorded.
    pub fn length(&self) -> usize {
        lock(&self.state).work.len()
    }

    fn end(&self) -> Result<Vec<Work>, u32> {
        let mut state = lock(&self.state);
        if state.spoilt { Err(code::CAPTURE_INVALIDATED) } else { Ok(std::mem::take(&mut state.work)) }
    }
}

/// A stream.
pub struct Stream {
    queue: Mutex<Queue>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    /// What is enqueued goes here instead.
    capture: Option<Arc<Recording>>,
    enqueued: u64,
    done: u64,
    failure: Option<u32>,
    closing: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

impl Stream {
    /// A stream and its thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start() -> std::io::Result<Arc<Self>> {
        let stream = Arc::new(Self { queue: Mutex::default(), changed: Condvar::new(), thread: Mutex::default() });
        let own = stream.clone();
        let thread = std::thread::Builder::new().name("sim stream".into()).spawn(move || own.run())?;
        *lock(&stream.thread) = Some(thread);
        Ok(stream)
    }

    /// The stream of this handle; 0 is the default stream, which is made when it is first asked for.
    pub fn of(handle: usize) -> Option<Arc<Self>> {
        static DEFAULT: OnceLock<Option<Arc<Stream>>> = OnceLock::new();
        match handle {
            0 => DEFAULT.get_or_init(|| Self::start().ok()).clone(),
            handle => STREAMS.get(handle),
        }
    }

    fn run(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let work = loop {
                match queue.waiting.pop_front() {
                    Some(work) => break work,
                    None if queue.closing => return,
                    None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            let result = (work.run)();
            // What it holds goes before it counts as done.
            drop(work);
            let mut queue = lock(&self.queue);
            queue.done += 1;
            if let Err(code) = result {
                queue.failure.get_or_insert(code);
            }
            drop(queue);
            self.changed.notify_all();
        }
    }

    /// Enqueues work.
    pub fn enqueue(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.push(Work::new(Order::Plain, work));
    }

    /// Enqueues work that [`Stream::overtake`] may pass as long as nothing else is behind it.
    pub fn enqueue_slow(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.push(Work::new(Order::Slow, work));
    }

    /// Enqueues work in front of what may be overtaken and has not begun.
    pub fn overtake(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        self.push(Work::new(Order::Overtaking, work));
    }

    /// Enqueues work that is run also where a graph is recorded, and is not part of it.
    pub fn enqueue_now(&self, work: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
        Self::append(&mut lock(&self.queue), Work::new(Order::Plain, work));
        self.changed.notify_all();
    }

    fn push(&self, work: Work) {
        let mut queue = lock(&self.queue);
        match &mut queue.capture {
            Some(capture) => lock(&capture.state).work.push(work),
            None => Self::append(&mut queue, work),
        }
        drop(queue);
        self.changed.notify_all();
    }

    fn append(queue: &mut Queue, work: Work) {
        queue.enqueued += 1;
        let slow = match work.order {
            Order::Overtaking => queue.waiting.iter().rev().take_while(|work| work.order == Order::Slow).count(),
            Order::Plain | Order::Slow => 0,
        };
        let first = queue.waiting.len() - slow;
        let Some(overtaken) = queue.waiting.get_mut(first) else { return queue.waiting.push_back(work) };
        // Together, so that whoever counts what was enqueued before still counts right.
        let behind = std::mem::replace(overtaken, Work::new(Order::Plain, || Ok(())));
        *overtaken = Work::new(Order::Plain, move || (work.run)().and((behind.run)()));
        queue.waiting.push_back(Work::new(Order::Plain, || Ok(())));
    }

    /// Records what is enqueued from here on, instead of running it.
    ///
    /// # Errors
    /// If it does already.
    pub fn begin_capture(&self) -> Result<(), u32> {
        self.join(Arc::default())
    }

    /// As [`Stream::begin_capture`], together with the streams that record into the same.
    ///
    /// # Errors
    /// If it records already.
    pub fn join(&self, recording: Arc<Recording>) -> Result<(), u32> {
        let mut queue = lock(&self.queue);
        if queue.capture.is_some() {
            return Err(code::ILLEGAL_STATE);
        }
        queue.capture = Some(recording);
        Ok(())
    }

    /// What it records into, if it does.
    pub fn recording(&self) -> Option<Arc<Recording>> {
        lock(&self.queue).capture.clone()
    }

    /// Records no longer, and leaves what was recorded.
    pub fn leave(&self) {
        lock(&self.queue).capture = None;
    }

    /// How much was recorded.
    ///
    /// # Errors
    /// If nothing is.
    pub fn captured(&self) -> Result<usize, u32> {
        self.recording().map(|recording| recording.length()).ok_or(code::ILLEGAL_STATE)
    }

    /// Ends a recording.
    ///
    /// # Errors
    /// If there is none, or it was spoilt.
    pub(crate) fn end_capture(&self) -> Result<Vec<Work>, u32> {
        let capture = lock(&self.queue).capture.take().ok_or(code::ILLEGAL_STATE)?;
        capture.end()
    }

    /// Enqueues recorded work, or records it once more.
    pub(crate) fn repeat(&self, work: &[Work]) {
        work.iter().for_each(|work| self.push(work.clone()));
    }

    /// Fails, and spoils the recording, if there is one.
    fn need_no_capture(queue: &mut Queue) -> Result<(), u32> {
        match &mut queue.capture {
            Some(capture) => {
                capture.spoil();
                Err(code::CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Records an event.
    ///
    /// # Errors
    /// Where a graph is recorded. Real drivers have more to say there.
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
        // Under the lock: who sees the record finds it enqueued.
        event.set(record);
        drop(queue);
        self.changed.notify_all();
        Ok(())
    }

    /// Whether something has not run.
    pub fn is_busy(&self) -> bool {
        let queue = lock(&self.queue);
        queue.done < queue.enqueued
    }

    /// Waits until everything that is enqueued now has run, whether a graph is recorded or not. What failed is left to
    /// others.
    pub fn drain(&self) {
        drop(self.wait(lock(&self.queue)));
    }

    fn wait<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let target = queue.enqueued;
        while queue.done < target {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue
    }

    /// Whether everything has run; the code of what failed.
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

    /// Waits until everything that is enqueued now has run.
    ///
    /// # Errors
    /// The code of the first work that failed since the last call.
    pub fn synchronize(&self) -> Result<(), u32> {
        let mut queue = lock(&self.queue);
        Self::need_no_capture(&mut queue)?;
        self.wait(queue).failure.take().map_or(Ok(()), Err)
    }

    /// Lets the thread end once everything has run. If it has, the thread ends before this returns.
    pub fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closing = true;
        let idle = queue.done == queue.enqueued;
        drop(queue);
        self.changed.notify_all();
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

/// Waits until every stream has run what it has now. What failed is left to others.
pub fn drain_all() {
    STREAMS.all().into_iter().chain(Stream::of(0)).for_each(|stream| stream.drain());
}

/// Waits until everything that is enqueued now has run. Not a call of a driver: no fault befalls it.
#[unsafe(no_mangle)]
pub extern "C" fn sim_settle() {
    let _ = synchronize_all();
}
