//! Assignment of streams to hardware queues.
//!
//! The runtime maps the streams of a device to `GPU_MAX_HW_QUEUES` in-order hardware queues (default 4): a stream that
//! waits on the device for a word in memory blocks every other stream of its queue. If the write of the word depends on one
//! of those, directly or through another API, both wait for ever. Measured with AMD's runtimes 5.2.3, 5.7.1, 6.4.3 and 7.2.4.
//!
//! On Linux, streams created here therefore never share a queue, if the runtime creates streams with a mask of compute
//! units. The first ones, one less than the number of queues, are ordinary
//! streams: the runtime assigns a new stream to the queue with the fewest streams, and the remaining queue serves the
//! null stream. Every further stream is created with a mask of all compute units, which in those runtimes gives it its
//! own hardware queue.
//!
//! A stream with its own queue is kept for reuse until the device is closed: 5.7 never frees its memory, and on 7.2
//! threads that concurrently create and destroy such streams hang (measured with 5.7.1 and 7.2.4 without this library;
//! streams that are created once cause no hang).
//!
//! Called by the vendor's [`create_stream`](gpu_interop_driver::Vendor::create_stream). The counters are per process: a
//! device that is opened twice has one set of queues.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_uint;
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_driver::{DeviceNumber, Driver, DriverFunction, Handle};

use crate::Hip;
use crate::memory::Sentinel;

const CREATE: &str = "hipExtStreamCreateWithCUMask";
/// Environment variable for the number of shared queues, read by the runtime at initialisation.
const VARIABLE: &str = "GPU_MAX_HW_QUEUES";
/// Number of words in [`ALL_UNITS`]: the kernel driver accepts 1024 bits, more than any GPU has units.
const WORDS: c_uint = 32;
/// Mask of all compute units. Bits without a unit are ignored.
static ALL_UNITS: [u32; WORDS as usize] = [u32::MAX; WORDS as usize];
/// Default of the runtime.
const DEFAULT_QUEUES: usize = 4;

/// Streams of a device created here.
#[derive(Debug, Default)]
struct Streams {
    /// Number of times the device is open.
    opened: usize,
    /// Shows whether the streams still exist.
    sentinel: Option<Sentinel>,
    /// Number of streams on the runtime's ordinary queues, including those being created.
    shared: usize,
    /// Streams on the runtime's ordinary queues.
    on_shared: BTreeSet<Handle>,
    /// Streams in use with their own queue.
    own: BTreeSet<Handle>,
    /// Idle streams with their own queue, kept for reuse.
    idle: Vec<Handle>,
}

/// Key of a device: the address of a function of its runtime, because a process may load two, and the device number.
type Key = (usize, DeviceNumber);

static STREAMS: Mutex<BTreeMap<Key, Streams>> = Mutex::new(BTreeMap::new());

/// Accesses a device's streams under the lock. `work` calls no function of the runtime.
fn with<T>(driver: &Driver<Hip>, device: DeviceNumber, work: impl FnOnce(&mut Streams) -> T) -> T {
    // A panic cannot leave the map inconsistent.
    let mut all: MutexGuard<'_, _> = lock(&STREAMS);
    work(all.entry((driver.own.set_device as usize, device)).or_default())
}

/// Source of a new stream.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// Ordinary stream, already counted.
    Shared,
    /// Kept stream.
    Idle(Handle),
    /// New stream with its own queue.
    Own,
}

impl Streams {
    fn take(&mut self, capacity: usize) -> Source {
        if self.shared < capacity {
            self.shared += 1;
            return Source::Shared;
        }
        match self.idle.pop() {
            Some(stream) => {
                self.own.insert(stream);
                Source::Idle(stream)
            }
            None => Source::Own,
        }
    }

    /// Marks a stream as unused. Returns whether it has its own queue.
    fn release(&mut self, stream: Handle) -> bool {
        if self.on_shared.remove(&stream) {
            self.shared = self.shared.saturating_sub(1);
        }
        self.own.remove(&stream)
    }
}

/// Number of streams that get one of the runtime's ordinary queues each.
fn capacity(variable: Option<&str>) -> usize {
    let queues = variable.and_then(|value| value.trim().parse().ok()).unwrap_or(DEFAULT_QUEUES);
    queues.saturating_sub(1)
}

/// Creates a stream whose queue no other stream created here uses, as far as the runtime permits it. `ordinary` creates one
/// on an ordinary queue (`hipStreamCreateWithFlags`). The device is current.
///
/// # Errors
/// The runtime's error, for example if it has no memory for another queue.
pub(crate) fn create_stream(
    driver: &Driver<Hip>,
    device: DeviceNumber,
    ordinary: impl FnOnce() -> Result<Handle>,
) -> Result<Handle> {
    // On other systems the runtime's queues use those of the system's driver: which streams share one is unknown.
    let with_mask = driver.own.stream_create_with_cu_mask.get().filter(|_| cfg!(target_os = "linux"));
    let Some(create) = with_mask else {
        tracing::debug!("streams share hardware queues: a wait of one may block others");
        return ordinary();
    };
    let capacity = capacity(std::env::var(VARIABLE).ok().as_deref());
    match with(driver, device, |streams| streams.take(capacity)) {
        Source::Idle(stream) => return Ok(stream),
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
    let arguments = (&raw mut stream, WORDS, ALL_UNITS.as_ptr());
    // SAFETY: both pointers are valid for the call, and the mask has that many words.
    driver.check(CREATE, unsafe { create.traced(CREATE, arguments) })?;
    if stream == 0 {
        return Err(Error::new(ErrorKind::Driver, CREATE, "the runtime reported success but returned no stream"));
    }
    with(driver, device, |streams| streams.own.insert(stream));
    Ok(stream)
}

/// Destroys a stream, or keeps it if it is idle and has its own queue.
///
/// # Errors
/// The runtime's error.
///
/// # Safety
/// The stream is live, it is not used afterwards, and its device is current.
pub(crate) unsafe fn end_stream(driver: &Driver<Hip>, device: DeviceNumber, stream: Handle) -> Result<()> {
    // Removed before the stream is destroyed: the runtime may reuse the handle for another thread's stream at once.
    let own = with(driver, device, |streams| streams.release(stream));
    if own {
        // SAFETY: the caller's promise.
        match unsafe { driver.is_idle(stream) } {
            Ok(true) => {
                with(driver, device, |streams| streams.idle.push(stream));
                return Ok(());
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "querying a stream failed; it is destroyed instead of kept"),
        }
    }
    // SAFETY: the caller's promise.
    unsafe { driver.destroy_stream(stream) }
}

/// Notes that a stream may be stuck in capture: it is destroyed instead of kept.
pub(crate) fn mark_capture_failed(driver: &Driver<Hip>, device: DeviceNumber, stream: Handle) {
    with(driver, device, |streams| streams.own.remove(&stream));
}

/// Counts an open of a device, and returns the sentinel that shows whether the device was reset since then. The device is
/// current.
pub(crate) fn opened(driver: &Driver<Hip>, device: DeviceNumber) -> Option<Sentinel> {
    let known = with(driver, device, |streams| {
        streams.opened += 1;
        streams.sentinel
    });
    if known.is_some_and(|sentinel| sentinel.is_alive(driver).unwrap_or(true)) {
        return known;
    }
    let placed = Sentinel::place(driver);
    let used = with(driver, device, |streams| {
        if streams.sentinel == known {
            if known.is_some() {
                // A reset has destroyed the streams.
                *streams = Streams { opened: streams.opened, ..Streams::default() };
            }
            streams.sentinel = placed;
        }
        streams.sentinel
    });
    if let Some(placed) = placed.filter(|_| used != placed) {
        // Another thread has opened the device, too.
        placed.remove(driver);
    }
    used
}

/// Counts a close of a device. The last close destroys the kept streams and, if it may wait for the device's other
/// streams, the sentinel. The device is current.
pub(crate) fn closed(driver: &Driver<Hip>, device: DeviceNumber, may_wait: bool) {
    let (idle, sentinel) = with(driver, device, |streams| {
        streams.opened = streams.opened.saturating_sub(1);
        let idle = if streams.opened == 0 { std::mem::take(&mut streams.idle) } else { Vec::new() };
        (idle, streams.sentinel)
    });
    if sentinel.is_some_and(|sentinel| !sentinel.is_alive(driver).unwrap_or(true)) {
        // A reset has destroyed the streams.
        return;
    }
    for stream in idle {
        // SAFETY: the stream was created here, is idle, and was removed from the kept streams.
        if let Err(error) = unsafe { driver.destroy_stream(stream) } {
            tracing::warn!(%error, "destroying a stream failed; it is leaked");
        }
    }
    let unused = |streams: &mut Streams| streams.sentinel.take_if(|_| streams.opened == 0 && may_wait);
    if let Some(sentinel) = with(driver, device, unused) {
        sentinel.remove(driver);
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
    fn shared_queues_come_first_then_idle_streams_then_new_ones() {
        let mut streams = Streams::default();
        assert_eq!([streams.take(1), streams.take(1)], [Source::Shared, Source::Own]);
        streams.on_shared.insert(10);
        streams.own.insert(11);
        assert!(streams.release(11), "it has its own queue");
        streams.idle.push(11);
        assert_eq!([streams.take(1), streams.take(1)], [Source::Idle(11), Source::Own]);
        assert!(!streams.release(10), "its queue is shared");
        assert_eq!([streams.take(1), streams.take(1)], [Source::Shared, Source::Own]);
        assert!(!streams.release(99), "a stream of the application");
        assert_eq!(streams.shared, 1);
    }
}
