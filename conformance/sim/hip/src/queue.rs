//! Hardware queues, which streams share, so that a waiting stream blocks others.
//!
//! A device has a few queues, and every stream gets one at its creation: a new one while there are fewer than
//! `GPU_MAX_HW_QUEUES`; then the one with the fewest streams, of several the newest. A queue executes its work in
//! order, including host functions and waits for events. Streams of each of three priorities have separate queues, and
//! a stream with a mask of compute units has its own. This was recorded on Linux; for Windows it is unknown, and
//! streams share nothing.

use std::sync::Mutex;

use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::settings;

/// Maximum number of queues, from the environment or the default.
const MOST: usize = 4;

/// The streams of a queue, by handle.
type Queue = Vec<usize>;

/// The queues of each priority: high, normal and low. Older ones come first.
static QUEUES: Mutex<[Vec<Queue>; 3]> = Mutex::new([Vec::new(), Vec::new(), Vec::new()]);

/// The queue that a stream gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A shared queue of a priority: less than 0 is high.
    Priority(i32),
    /// Its own queue.
    Own,
}

/// Assigns a queue to a stream.
pub(crate) fn join(stream: usize, sort: Sort) {
    let Sort::Priority(priority) = sort else { return };
    if cfg!(windows) {
        return;
    }
    let most = settings::number("GPU_MAX_HW_QUEUES", MOST).max(1);
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
pub(crate) fn leave(stream: usize) {
    lock(&QUEUES).iter_mut().flatten().for_each(|queue| queue.retain(|other| *other != stream));
}

/// The other streams of a stream's queue.
pub(crate) fn mates(stream: usize) -> Vec<usize> {
    let queues = lock(&QUEUES);
    let queue = queues.iter().flatten().find(|queue| queue.contains(&stream));
    queue.into_iter().flatten().copied().filter(|other| *other != stream).collect()
}
