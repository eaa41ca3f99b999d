//! What the thread of a queue does.

use std::sync::atomic::Ordering;

use super::state::{Kind, Queue, Stop};
use super::{aql, sdma};
use crate::emulation::Emulation;
use crate::kfd::exception;

/// Executes packets until the queue stops, and reports why it did.
pub(crate) fn run(queue: &Queue, emulation: &'static Emulation) {
    let result = match queue.kind {
        _ if emulation.faults.at("queue-hang").is_some() => Err(Stop::Hang),
        Kind::Aql => aql::run(queue, emulation),
        Kind::Sdma => sdma::run(queue, emulation),
    };
    let Err(stop) = result;
    if stop != Stop::Destroyed {
        queue.dead.store(true, Ordering::Release);
        exception::report(emulation, queue, &stop);
    }
}
