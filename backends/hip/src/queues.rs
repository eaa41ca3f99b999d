//! Which hardware queue a stream gets.
//!
//! The runtime maps the streams of a device to `GPU_MAX_HW_QUEUES` hardware queues (4 unless the environment says
//! otherwise), each of which works in order: a stream that waits on the device for a word holds back every stream of its
//! queue. If one of those is to cause the write of the word, directly or through another API, neither ever goes on. Seen
//! with AMD's runtimes 5.2.3, 5.7.1, 6.4.3 and 7.2.4.
//!
//! So no two streams made here share a queue. The first ones get ordinary streams, one less than there are queues: the
//! runtime gives a new stream the queue with the fewest streams, and the one left over is the null stream's. Every further
//! stream is made with a mask of all compute units, which in those runtimes gives it a hardware queue of its own.
//!
//! A stream with a queue of its own is kept when it ends, for the next one, until the device is closed: 5.7 never gives
//! its memory back, and on 7.2 threads that make and destroy such streams at the same time hang (seen with 5.7.1 and
//! 7.2.4, calling the runtime without this library; with streams that are made once they do not).
//!
//! Called by the vendor's [`create_stream`](gpu_interop_driver::Vendor::create_stream). What is counted here is the
//! process's: a device that is opened twice has its queues once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_uint;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_driver::{DeviceNumber, Driver, DriverFunction, Handle};

use crate::vendor::Hip;

const CREATE: &str = "hipExtStreamCreateWithCUMask";
/// What sets the number of shared queues, read by the runtime when it starts.
const VARIABLE: &str = "GPU_MAX_HW_QUEUES";
/// The words of [`EVERY_UNIT`]: the kernel's driver takes 1024 bits, which no GPU fills.
const WORDS: c_uint = 32;
/// A mask with every compute unit. Bits without a unit are ignored.
static EVERY_UNIT: [u32; WORDS as usize] = [u32::MAX; WORDS as usize];
/// The runtime's own default.
const DEFAULT_QUEUES: usize = 4;

/// What is known of a device's streams that were made here.
#[derive(Debug, Default)]
struct Streams {
    /// How many times the device is open.
    opened: usize,
    /// How many are on a shared queue, or about to be.
    shared: usize,
    /// Those that are.
    on_shared: BTreeSet<Handle>,
    /// Those in use that have a queue of their own.
    own: BTreeSet<Handle>,
    /// Idle ones with a queue of their own, for those that come.
    kept: Vec<Handle>,
}

/// A device of a runtime, which is known by one of its functions: a process may have two.
type Place = (usize, DeviceNumber);

static STREAMS: Mutex<BTreeMap<Place, Streams>> = Mutex::new(BTreeMap::new());

/// Looks at a device's streams. No function of the runtime is called meanwhile.
fn with<T>(driver: &Driver<Hip>, device: DeviceNumber, work: impl FnOnce(&mut Streams) -> T) -> T {
    // Each change leaves it as it should be: a panic leaves nothing half-done.
    let mut all: MutexGuard<'_, _> = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    work(all.entry((driver.own.set_device as usize, device)).or_default())
}

/// Where a new stream comes from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// It is an ordinary one, and was counted.
    Shared,
    /// One that was kept.
    Kept(Handle),
    /// It is made, with a queue of its own.
    Own,
}

impl Streams {
    fn take(&mut self, capacity: usize) -> Source {
        if self.shared < capacity {
            self.shared += 1;
            return Source::Shared;
        }
        match self.kept.pop() {
            Some(stream) => {
                self.own.insert(stream);
                Source::Kept(stream)
            }
            None => Source::Own,
        }
    }

    /// Whether the stream has a queue of its own. It is in use no more.
    fn release(&mut self, stream: Handle) -> bool {
        if self.on_shared.remove(&stream) {
            self.shared = self.shared.saturating_sub(1);
        }
        self.own.remove(&stream)
    }
}

/// How many streams may be on shared queues and have one each.
fn capacity(variable: Option<&str>) -> usize {
    let queues = variable.and_then(|value| value.trim().parse().ok()).unwrap_or(DEFAULT_QUEUES);
    queues.saturating_sub(1)
}

/// Makes a stream whose queue no other stream made here has. `ordinary` makes one on a shared queue
/// (`hipStreamCreateWithFlags`). The device is current.
///
/// # Errors
/// What the runtime answers, for example that it has no memory for another queue.
pub(crate) fn create_stream(
    driver: &Driver<Hip>,
    device: DeviceNumber,
    ordinary: impl FnOnce() -> Result<Handle>,
) -> Result<Handle> {
    // Elsewhere the runtime has other queues below it, and it is not known which streams share one.
    let with_mask = driver.own.stream_create_with_cu_mask.get().filter(|_| cfg!(target_os = "linux"));
    let Some(create) = with_mask else {
        tracing::debug!("streams share hardware queues: a wait of one may hold back others");
        return ordinary();
    };
    let capacity = capacity(std::env::var(VARIABLE).ok().as_deref());
    match with(driver, device, |streams| streams.take(capacity)) {
        Source::Kept(stream) => return Ok(stream),
        Source::Shared => {
            let stream = ordinary();
            with(driver, device, |streams| match &stream {
                Ok(stream) => drop(streams.on_shared.insert(*stream)),
                Err(_) => streams.shared = streams.shared.saturating_sub(1),
            });
            return stream;
        }
        Source::Own => {}
    }
    let mut stream: Handle = 0;
    let arguments = (&raw mut stream, WORDS, EVERY_UNIT.as_ptr());
    // SAFETY: both pointers are valid for the call, and the mask has that many words.
    driver.check(CREATE, unsafe { create.traced(CREATE, arguments) })?;
    if stream == 0 {
        return Err(Error::new(ErrorKind::Driver, CREATE, "the runtime reported success but gave no stream"));
    }
    with(driver, device, |streams| streams.own.insert(stream));
    Ok(stream)
}

/// Ends a stream: destroys it, or keeps it if it is idle and has a queue of its own.
///
/// # Errors
/// The runtime's error.
///
/// # Safety
/// The stream is live, it is not used afterwards, and its device is current.
pub(crate) unsafe fn end_stream(driver: &Driver<Hip>, device: DeviceNumber, stream: Handle) -> Result<()> {
    // Before it is destroyed: another thread may be given its address then.
    let own = with(driver, device, |streams| streams.release(stream));
    // SAFETY: the caller's promise. A stream in an unknown state is not reused.
    if own && matches!(unsafe { driver.is_idle(stream) }, Ok(true)) {
        with(driver, device, |streams| streams.kept.push(stream));
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { driver.destroy_stream(stream) }
}

/// Notes that a stream may record for ever: it is not kept when it ends.
pub(crate) fn spoilt(driver: &Driver<Hip>, device: DeviceNumber, stream: Handle) {
    with(driver, device, |streams| streams.own.remove(&stream));
}

/// Notes that a device was opened, once more.
pub(crate) fn opened(driver: &Driver<Hip>, device: DeviceNumber) {
    with(driver, device, |streams| streams.opened += 1);
}

/// Notes that a device was closed. The last one who closes it destroys the streams that were kept.
pub(crate) fn closed(driver: &Driver<Hip>, device: DeviceNumber) {
    let kept = with(driver, device, |streams| {
        streams.opened = streams.opened.saturating_sub(1);
        if streams.opened == 0 { std::mem::take(&mut streams.kept) } else { Vec::new() }
    });
    for stream in kept {
        // SAFETY: made here and idle; kept streams are not handed out.
        if let Err(error) = unsafe { driver.destroy_stream(stream) } {
            tracing::warn!(%error, "a stream that was kept could not be destroyed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_is_left_for_the_null_stream() {
        for (variable, expected) in
            [(None, 3), (Some("32"), 31), (Some(" 8 "), 7), (Some("1"), 0), (Some("0"), 0), (Some("many"), 3)]
        {
            assert_eq!(capacity(variable), expected, "{variable:?}");
        }
    }

    #[test]
    fn shared_queues_come_first_then_kept_streams_then_new_ones() {
        let mut streams = Streams::default();
        assert_eq!([streams.take(1), streams.take(1)], [Source::Shared, Source::Own]);
        streams.on_shared.insert(10);
        streams.own.insert(11);
        assert!(streams.release(11), "it has its own queue");
        streams.kept.push(11);
        assert_eq!([streams.take(1), streams.take(1)], [Source::Kept(11), Source::Own]);
        assert!(!streams.release(10), "its queue is shared");
        assert_eq!([streams.take(1), streams.take(1)], [Source::Shared, Source::Own]);
        assert!(!streams.release(99), "a stream that is not from here");
        assert_eq!(streams.shared, 1);
    }
}
