//! Streams, and their state besides their work.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, Once};

use gpu_interop_sim_abi::hip::device;
use gpu_interop_sim_abi::hip::era::Era;
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::event::Event;
use gpu_interop_sim_device::stream::{STREAMS, Stream};
use gpu_interop_sim_device::{code, work};

use crate::marker;
use crate::missing::{DESTROYED, Missing, die_because};
use crate::queue::{self, Sort};

/// `hipStreamLegacy`, since HIP 6, and `hipStreamPerThread`: numbers in place of handles.
const LEGACY: usize = 1;
pub(crate) const PER_THREAD: usize = 2;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;

/// State of a created stream.
#[derive(Debug, Clone, Copy)]
struct Made {
    /// Waits for the default stream, which also waits for this one.
    blocking: bool,
    device: c_int,
    destroyed: bool,
    /// The runtime does not know whether its last work has completed, and queries the hardware queue.
    in_doubt: bool,
}

static MADE: Mutex<BTreeMap<usize, Made>> = Mutex::new(BTreeMap::new());

/// Creates a stream with a hardware queue of this kind.
pub(crate) fn create(flags: u32, sort: Sort) -> Result<usize, u32> {
    let handle = work::create_stream(flags)?;
    queue::join(handle, sort);
    let made =
        Made { blocking: flags & NON_BLOCKING == 0, device: device::current(), destroyed: false, in_doubt: false };
    lock(&MADE).insert(handle, made);
    Ok(handle)
}

/// Notes that a reset of the device has destroyed all streams.
pub(crate) fn reset() {
    lock(&MADE).iter_mut().filter(|(_, made)| !made.destroyed).for_each(|(handle, made)| {
        made.destroyed = true;
        queue::leave(*handle);
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
    crate::capture::forget(handle);
    stream.drain();
    queue::leave(handle);
    marker::mark(handle);
    if let Some(made) = lock(&MADE).get_mut(&handle) {
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
        None => Err(missing.answer(lock(&MADE).get(&here).is_some_and(|made| made.destroyed))),
    }
}

/// The stream of a handle for new work, which waits for the work that must run before it.
pub(crate) fn for_work(handle: usize, missing: &Missing) -> Result<(usize, Arc<Stream>), u32> {
    let (here, stream) = for_copy(handle, missing)?;
    // A hardware queue executes its work in order.
    behind_mates(here, &stream);
    doubt(here, true);
    Ok((here, stream))
}

/// Makes a stream wait for the work in its hardware queue.
fn behind_mates(here: usize, stream: &Stream) {
    for mate in queue::mates(here).into_iter().filter_map(Stream::of) {
        after(stream, &mate);
    }
}

fn doubt(here: usize, in_doubt: bool) {
    if let Some(made) = lock(&MADE).get_mut(&here) {
        made.in_doubt = in_doubt;
    }
}

/// Makes a stream's hardware queue report the completion of its work, if it is not known otherwise. The query waits in
/// the queue, too.
pub(crate) fn ask(here: usize, stream: &Stream) {
    if here == 0 || lock(&MADE).get(&here).is_some_and(|made| made.in_doubt) {
        behind_mates(here, stream);
    }
}

/// Records that a stream's work has completed.
pub(crate) fn known(here: usize) {
    marker::mark(here);
    doubt(here, false);
}

/// As [`for_work`], for work of a copy engine, which uses no hardware queue.
pub(crate) fn for_copy(handle: usize, missing: &Missing) -> Result<(usize, Arc<Stream>), u32> {
    let (here, stream) = find(handle, missing)?;
    doubt(here, false);
    if stream.recording().is_some_and(|recording| recording.is_spoilt()) {
        return Err(code::CAPTURE_INVALIDATED);
    }
    if here == 0 {
        static DEFAULT: Once = Once::new();
        DEFAULT.call_once(|| queue::join(0, Sort::Priority(0)));
        blocking().iter().for_each(|other| after(&stream, other));
    } else {
        let blocking = lock(&MADE).get(&here).is_some_and(|made| made.blocking);
        if let Some(default) = blocking.then(|| Stream::of(0)).flatten() {
            after(&stream, &default);
        }
    }
    Ok((here, stream))
}

fn blocking() -> Vec<Arc<Stream>> {
    lock(&MADE)
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
    let of_it: Vec<_> = lock(&MADE)
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
    marker::mark_all();
    STREAMS.all().into_iter().chain(Stream::of(0)).map(synchronize).fold(Ok(()), Result::and)
}
