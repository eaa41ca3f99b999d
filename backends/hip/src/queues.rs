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
//! Called by the vendor's [`create_stream`](gpu_interop_driver::Vendor::create_stream). The counts are the process's: a
//! device that is opened twice has its queues once.

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

/// The streams made here that are on one of the shared queues, by device.
static SHARED: Mutex<BTreeMap<DeviceNumber, BTreeSet<Handle>>> = Mutex::new(BTreeMap::new());

fn shared() -> MutexGuard<'static, BTreeMap<DeviceNumber, BTreeSet<Handle>>> {
    // Insertions and removals are single calls: a panic leaves nothing half-done.
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
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
    {
        // Held during the call: of two threads, one would take the last queue twice.
        let mut shared = shared();
        let streams = shared.entry(device).or_default();
        if streams.len() < capacity {
            let stream = ordinary()?;
            streams.insert(stream);
            return Ok(stream);
        }
    }
    let mut stream: Handle = 0;
    let arguments = (&raw mut stream, WORDS, EVERY_UNIT.as_ptr());
    // SAFETY: both pointers are valid for the call, and the mask has that many words.
    driver.check(CREATE, unsafe { create.traced(CREATE, arguments) })?;
    if stream == 0 {
        return Err(Error::new(ErrorKind::Driver, CREATE, "the runtime reported success but gave no stream"));
    }
    Ok(stream)
}

/// Notes that a stream is about to be destroyed: its queue is free for another.
pub(crate) fn forget_stream(device: DeviceNumber, stream: Handle) {
    if let Some(streams) = shared().get_mut(&device) {
        streams.remove(&stream);
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
}
