//! Streams, their hardware queues, and results of calls with the handle of a stream that does not exist.
//!
//! A device has a few hardware queues, which streams share, so that a waiting stream blocks others. Every stream gets a
//! queue at its creation: a new one while there are fewer than `GPU_MAX_HW_QUEUES`; then the one with the fewest
//! streams, of several the newest. A queue executes its work in order, including host functions and waits for events.
//! Streams of each of three priorities have separate queues, and a stream with a mask of compute units has its own.
//! This was recorded on Linux; for Windows it is unknown, and streams share nothing.
//!
//! A query needs a marker behind a stream's work. Without a marker the runtime enqueues one at the query, and returns
//! "not ready" even if the work has completed.
//!
//! For a handle that is not a stream, some versions return a code and some dereference the handle: an invalid address,
//! which crashes the process, or freed memory, whose effect is undefined. The simulator aborts in both cases and prints
//! the reason.

use crate::die_because;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, Once};

use Answer::{Code, Dies};
use gpu_interop_sim_abi::hip::device;
use gpu_interop_sim_abi::hip::version::Era;
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::stream::{Event, STREAMS, Stream};
use gpu_interop_sim_device::{code, settings, work};

/// `hipStreamLegacy`, since HIP 6, and `hipStreamPerThread`: numbers in place of handles.
const LEGACY: usize = 1;
pub(crate) const PER_THREAD: usize = 2;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;

/// State of a created stream.
#[derive(Debug, Clone, Copy)]
struct StreamState {
    /// Waits for the default stream, which also waits for this one.
    blocking: bool,
    device: c_int,
    destroyed: bool,
    /// The runtime does not know whether its last work has completed, and queries the hardware queue.
    in_doubt: bool,
}

static STREAM_STATES: Mutex<BTreeMap<usize, StreamState>> = Mutex::new(BTreeMap::new());

/// Creates a stream with a hardware queue of this kind.
pub(crate) fn create(flags: u32, kind: QueueKind) -> Result<usize, u32> {
    let handle = work::create_stream(flags)?;
    join_queue(handle, kind);
    let made = StreamState {
        blocking: flags & NON_BLOCKING == 0,
        device: device::current(),
        destroyed: false,
        in_doubt: false,
    };
    lock(&STREAM_STATES).insert(handle, made);
    Ok(handle)
}

/// Notes that a reset of the device has destroyed all streams.
pub(crate) fn reset() {
    lock(&STREAM_STATES).iter_mut().filter(|(_, made)| !made.destroyed).for_each(|(handle, made)| {
        made.destroyed = true;
        leave_queue(*handle);
    });
}

/// Waits for a stream's work, and destroys the stream.
pub(crate) fn destroy(handle: usize) -> Result<(), u32> {
    match handle {
        0 | PER_THREAD => return Err(code::INVALID_HANDLE),
        LEGACY => return Err(if Era::now() >= Era::Six { code::INVALID_HANDLE } else { DESTROYED }),
        _ => {}
    }
    let (_, stream) = find(handle, &Missing::STREAM)?;
    crate::graph::forget_capture(handle);
    stream.drain();
    leave_queue(handle);
    mark(handle);
    if let Some(made) = lock(&STREAM_STATES).get_mut(&handle) {
        made.destroyed = true;
    }
    work::destroy_stream(handle)
}

/// The stream of a handle, and its handle in the simulator.
pub(crate) fn find(handle: usize, missing: &Missing) -> Result<(usize, Arc<Stream>), u32> {
    let here = match handle {
        LEGACY if Era::now() >= Era::Six => 0,
        PER_THREAD => 0,
        handle => handle,
    };
    match Stream::of(here) {
        Some(stream) => Ok((here, stream)),
        None => Err(missing.answer(lock(&STREAM_STATES).get(&here).is_some_and(|made| made.destroyed))),
    }
}

/// The stream of a handle for new work, which waits for the work that must run before it.
pub(crate) fn for_work(handle: usize, missing: &Missing) -> Result<(usize, Arc<Stream>), u32> {
    let (here, stream) = for_copy(handle, missing)?;
    // A hardware queue executes its work in order.
    wait_for_queue_mates(here, &stream);
    set_in_doubt(here, true);
    Ok((here, stream))
}

/// Makes a stream wait for the work in its hardware queue.
fn wait_for_queue_mates(here: usize, stream: &Stream) {
    for mate in queue_mates(here).into_iter().filter_map(Stream::of) {
        after(stream, &mate);
    }
}

fn set_in_doubt(here: usize, in_doubt: bool) {
    if let Some(made) = lock(&STREAM_STATES).get_mut(&here) {
        made.in_doubt = in_doubt;
    }
}

/// Makes a stream's hardware queue report the completion of its work, if it is not known otherwise. The query waits in
/// the queue, too.
pub(crate) fn query_queue(here: usize, stream: &Stream) {
    if here == 0 || lock(&STREAM_STATES).get(&here).is_some_and(|made| made.in_doubt) {
        wait_for_queue_mates(here, stream);
    }
}

/// Records that a stream's work has completed.
pub(crate) fn note_completed(here: usize) {
    mark(here);
    set_in_doubt(here, false);
}

/// As [`for_work`], for work of a copy engine, which uses no hardware queue.
pub(crate) fn for_copy(handle: usize, missing: &Missing) -> Result<(usize, Arc<Stream>), u32> {
    let (here, stream) = find(handle, missing)?;
    set_in_doubt(here, false);
    if stream.recording().is_some_and(|recording| recording.is_invalid()) {
        return Err(code::CAPTURE_INVALIDATED);
    }
    if here == 0 {
        static DEFAULT: Once = Once::new();
        DEFAULT.call_once(|| join_queue(0, QueueKind::Priority(0)));
        blocking().iter().for_each(|other| after(&stream, other));
    } else {
        let blocking = lock(&STREAM_STATES).get(&here).is_some_and(|made| made.blocking);
        if let Some(default) = blocking.then(|| Stream::of(0)).flatten() {
            after(&stream, &default);
        }
    }
    Ok((here, stream))
}

fn blocking() -> Vec<Arc<Stream>> {
    lock(&STREAM_STATES)
        .iter()
        .filter(|(_, made)| made.blocking && !made.destroyed)
        .filter_map(|(handle, _)| STREAMS.get(*handle))
        .collect()
}

/// Makes a stream wait for the current work of another, unless one of them is capturing.
fn after(stream: &Stream, other: &Stream) {
    if stream.recording().is_some() || other.recording().is_some() || !other.is_busy() {
        return;
    }
    let event = Event::default();
    if let Some(record) = other.record(&event).ok().and_then(|()| event.last()) {
        stream.enqueue(move || {
            record.wait();
            Ok(())
        });
    }
}

/// Waits for all work of the streams of a device; of every device with `None`.
pub(crate) fn drain(device: Option<c_int>) {
    let of_it: Vec<_> = lock(&STREAM_STATES)
        .iter()
        .filter(|(_, made)| device.is_none_or(|device| made.device == device) && !made.destroyed)
        .filter_map(|(handle, _)| STREAMS.get(*handle))
        .collect();
    of_it.into_iter().chain(Stream::of(0)).for_each(|stream| stream.drain());
}

/// Keeps an object alive until the current work of every stream has completed.
pub(crate) fn keep<T: Send + Sync + 'static>(thing: &Arc<T>) {
    for stream in STREAMS.all().into_iter().chain(Stream::of(0)).filter(|stream| stream.is_busy()) {
        let thing = thing.clone();
        stream.enqueue_now(move || {
            let _kept = &thing;
            Ok(())
        });
    }
}

/// `true` if a handle may be a stream, for functions that do not use it.
pub(crate) fn exists(handle: usize) -> bool {
    let exists = Stream::of(if handle == PER_THREAD { 0 } else { handle }).is_some();
    if !exists && Era::now() == Era::Early {
        die_because("before HIP 5.5 functions of external semaphores follow the handle of a stream");
    }
    exists
}

/// Waits for every stream and returns the first failure.
pub(crate) fn synchronize_all() -> Result<(), u32> {
    let synchronize = |stream: Arc<Stream>| {
        if stream.recording().is_some() {
            stream.drain();
            return Ok(());
        }
        stream.synchronize()
    };
    mark_all();
    STREAMS.all().into_iter().chain(Stream::of(0)).map(synchronize).fold(Ok(()), Result::and)
}

/// Maximum number of queues, from the environment or the default.
const MAX_QUEUES: usize = 4;

/// The streams of a queue, by handle.
type Queue = Vec<usize>;

/// The queues of each priority: high, normal and low. Older ones come first.
static QUEUES: Mutex<[Vec<Queue>; 3]> = Mutex::new([Vec::new(), Vec::new(), Vec::new()]);

/// The queue that a stream gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueKind {
    /// A shared queue of a priority: less than 0 is high.
    Priority(i32),
    /// Its own queue.
    Own,
}

/// Assigns a queue to a stream.
pub(crate) fn join_queue(stream: usize, kind: QueueKind) {
    let QueueKind::Priority(priority) = kind else { return };
    if cfg!(windows) {
        return;
    }
    let most = settings::number("GPU_MAX_HW_QUEUES", MAX_QUEUES).max(1);
    let mut queues = lock(&QUEUES);
    let place = usize::try_from(priority.signum() + 1).unwrap_or(1);
    let queues = &mut queues[place];
    if queues.len() < most {
        queues.push(vec![stream]);
    } else if let Some(fewest) = queues.iter_mut().rev().min_by_key(|queue| queue.len()) {
        fewest.push(stream);
    }
}

/// Removes a stream from its queue.
pub(crate) fn leave_queue(stream: usize) {
    lock(&QUEUES).iter_mut().flatten().for_each(|queue| queue.retain(|other| *other != stream));
}

/// The other streams of a stream's queue.
pub(crate) fn queue_mates(stream: usize) -> Vec<usize> {
    let queues = lock(&QUEUES);
    let queue = queues.iter().flatten().find(|queue| queue.contains(&stream));
    queue.into_iter().flatten().copied().filter(|other| *other != stream).collect()
}

/// Streams whose last work has no marker behind it.
static UNMARKED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Records that work was enqueued on a stream.
pub(crate) fn note_work(here: usize, stream: &Stream) {
    if stream.recording().is_none() {
        lock(&UNMARKED).insert(here);
    }
}

/// Records a marker behind a stream's work, or the completion of that work. Returns whether there was a marker already.
pub(crate) fn mark(here: usize) -> bool {
    !lock(&UNMARKED).remove(&here)
}

/// Records the completion of all work.
pub(crate) fn mark_all() {
    lock(&UNMARKED).clear();
}

/// Result of the call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// The call returns this code.
    Code(u32),
    /// The runtime dereferences the handle.
    Dies,
}

/// Results for a destroyed stream, and for a handle that never was a stream, in each [`Era`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    destroyed: [Answer; 4],
    unknown: [Answer; 4],
}

/// `hipErrorContextIsDestroyed`: the stream is unknown.
pub(crate) const DESTROYED: u32 = 709;
const GONE: Answer = Code(DESTROYED);
const WRONG: Answer = Code(1);
const NO_HANDLE: Answer = Code(400);

impl Missing {
    pub(crate) const COPY: Self = Self { destroyed: [Dies, Dies, GONE, GONE], unknown: [Dies; 4] };
    pub(crate) const FILL: Self = Self { destroyed: [Dies; 4], unknown: [Dies; 4] };
    pub(crate) const WORD: Self = Self { destroyed: [Dies, GONE, GONE, GONE], unknown: [Dies, GONE, GONE, GONE] };
    pub(crate) const STREAM: Self = Self { destroyed: [GONE, GONE, GONE, Dies], unknown: [GONE, GONE, GONE, Dies] };
    pub(crate) const WAIT_EVENT: Self =
        Self { destroyed: [GONE, NO_HANDLE, NO_HANDLE, Dies], unknown: [GONE, NO_HANDLE, NO_HANDLE, Dies] };
    pub(crate) const RECORD_EVENT: Self =
        Self { destroyed: [Dies, GONE, GONE, Dies], unknown: [Dies, GONE, GONE, Dies] };
    pub(crate) const HOST_FUNCTION: Self = Self { destroyed: [Dies, GONE, GONE, Dies], unknown: [Dies; 4] };
    pub(crate) const CAPTURE: Self = Self { destroyed: [WRONG, GONE, GONE, Dies], unknown: [WRONG, GONE, GONE, Dies] };
    pub(crate) const GRAPH: Self = Self { destroyed: [WRONG, GONE, GONE, GONE], unknown: [WRONG, GONE, GONE, GONE] };
    pub(crate) const KERNEL: Self = Self { destroyed: [Dies, WRONG, WRONG, GONE], unknown: [Dies, WRONG, WRONG, GONE] };

    /// Returns the code for a handle, or aborts the process.
    pub(crate) fn answer(&self, was_one: bool) -> u32 {
        let (answers, what) = if was_one {
            (self.destroyed, "a destroyed stream is used")
        } else {
            (self.unknown, "the stream does not exist")
        };
        match Era::now().pick(answers) {
            Code(code) => code,
            Dies => die_because(what),
        }
    }
}
