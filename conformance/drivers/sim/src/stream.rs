//! Streams: queues with a thread each.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use crate::event::{Event, Record};
use crate::objects::Objects;
use gpu_interop_stand_in::lock;

/// Streams by handle. The default stream is not among them.
pub static STREAMS: Objects<Stream> = Objects::new();

/// What a stream runs. A failure is the code that the next synchronisation answers.
type Work = Box<dyn FnOnce() -> Result<(), u32> + Send>;

/// A stream.
pub struct Stream {
    queue: Mutex<Queue>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    /// And whether it may be overtaken.
    waiting: VecDeque<(Work, bool)>,
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
    #[must_use]
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
                    Some((work, _)) => break work,
                    None if queue.closing => return,
                    None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            let result = work();
            let mut queue = lock(&self.queue);
            queue.done += 1;
            if let Err(code) = result {
                queue.failure.get_or_insert(code);
            }
            drop(queue);
            self.changed.notify_all();
        }
    }

    /// Enqueues work that [`Stream::overtake`] may pass as long as nothing else is behind it.
    pub fn enqueue_slow(&self, work: impl FnOnce() -> Result<(), u32> + Send + 'static) {
        self.push(Box::new(work), true);
    }

    /// Enqueues work in front of what may be overtaken and has not begun.
    pub fn overtake(&self, work: impl FnOnce() -> Result<(), u32> + Send + 'static) {
        let mut queue = lock(&self.queue);
        let slow = queue.waiting.iter().rev().take_while(|(_, may_be_overtaken)| *may_be_overtaken).count();
        let first = queue.waiting.len() - slow;
        match queue.waiting.get_mut(first) {
            None => Self::append(&mut queue, Box::new(work), false),
            Some((overtaken, _)) => {
                // Together, so that whoever counts what was enqueued before still counts right.
                let overtaken = std::mem::replace(overtaken, Box::new(|| Ok(())));
                queue.waiting[first] = (Box::new(move || work().and(overtaken())), false);
                Self::append(&mut queue, Box::new(|| Ok(())), false);
            }
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// Enqueues work.
    pub fn enqueue(&self, work: impl FnOnce() -> Result<(), u32> + Send + 'static) {
        self.push(Box::new(work), false);
    }

    fn push(&self, work: Work, may_be_overtaken: bool) {
        let mut queue = lock(&self.queue);
        Self::append(&mut queue, work, may_be_overtaken);
        drop(queue);
        self.changed.notify_all();
    }

    fn append(queue: &mut Queue, work: Work, may_be_overtaken: bool) {
        queue.waiting.push_back((work, may_be_overtaken));
        queue.enqueued += 1;
    }

    /// Records an event.
    pub fn record(&self, event: &Event) {
        let record = Arc::new(Record::default());
        let mut queue = lock(&self.queue);
        let passed = record.clone();
        Self::append(
            &mut queue,
            Box::new(move || {
                passed.pass();
                Ok(())
            }),
            false,
        );
        // Under the lock: who sees the record finds it enqueued.
        event.set(record);
        drop(queue);
        self.changed.notify_all();
    }

    /// Whether everything has run; the code of what failed.
    ///
    /// # Errors
    /// As for [`Stream::synchronize`].
    pub fn is_idle(&self) -> Result<bool, u32> {
        let mut queue = lock(&self.queue);
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
        let target = queue.enqueued;
        while queue.done < target {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.failure.take().map_or(Ok(()), Err)
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

/// Waits until everything that is enqueued now has run. Not a call of a driver: no fault befalls it.
#[unsafe(no_mangle)]
pub extern "C" fn sim_settle() {
    let _ = synchronize_all();
}
