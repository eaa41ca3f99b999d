//! Hardware queues: what streams share, so that one which waits holds others back.
//!
//! A device has a few, and every stream is given one of them when it is made: while there are fewer than
//! `GPU_MAX_HW_QUEUES`, a new one; then the one that the fewest streams have, of these the youngest. What is in a queue is
//! done in its order, host functions and waits for events included. Streams of each of three priorities have queues of
//! their own, and a stream with a mask of compute units has one for itself. So it was recorded on Linux; for Windows it is
//! not known, and nothing is shared.

use std::sync::Mutex;

use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::settings;

/// As many queues as there are, unless the environment says otherwise.
const MOST: usize = 4;

/// The streams of a queue, by handle.
type Queue = Vec<usize>;

/// The queues of each priority: high, normal and low. Old ones come first.
static QUEUES: Mutex<[Vec<Queue>; 3]> = Mutex::new([Vec::new(), Vec::new(), Vec::new()]);

/// Which queues a stream is given one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Those of a priority: less than 0 is high.
    Priority(i32),
    /// One for itself.
    Own,
}

/// Gives a stream a queue.
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

/// Takes a stream out of its queue.
pub(crate) fn leave(stream: usize) {
    lock(&QUEUES).iter_mut().flatten().for_each(|queue| queue.retain(|other| *other != stream));
}

/// The other streams of a stream's queue.
pub(crate) fn mates(stream: usize) -> Vec<usize> {
    let queues = lock(&QUEUES);
    let queue = queues.iter().flatten().find(|queue| queue.contains(&stream));
    queue.into_iter().flatten().copied().filter(|other| *other != stream).collect()
}
