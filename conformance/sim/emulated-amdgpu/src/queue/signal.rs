//! The runtime's signals: values in memory, with an event for sleeping threads.

use std::sync::atomic::Ordering;

use super::clock;
use crate::abi::aql::signal::{END, EVENT_ID, MAILBOX, START, VALUE};
use crate::emulation::Emulation;
use crate::log::say;
use crate::memory::{Access, PageFault};

/// A signal's value.
pub(super) fn value(emulation: &Emulation, gpu: usize, signal: u64) -> Result<i64, PageFault> {
    let word = emulation.memory.atomic_u64(gpu, signal + VALUE, Access::Read, |value| value.load(Ordering::SeqCst))?;
    Ok(word.cast_signed())
}

/// Completes a packet: writes its times, decrements its signal's value, wakes waiting threads.
pub(super) fn complete(emulation: &Emulation, gpu: usize, signal: u64, began: u64) -> Result<(), PageFault> {
    if signal == 0 {
        return Ok(());
    }
    let memory = &emulation.memory;
    memory.write_u64(gpu, signal + START, began)?;
    memory.write_u64(gpu, signal + END, clock::gpu())?;
    change(emulation, gpu, signal, |value| value - 1)
}

/// Stores an error code in a signal.
pub(crate) fn store(emulation: &Emulation, gpu: usize, signal: u64, code: i64) -> Result<(), PageFault> {
    change(emulation, gpu, signal, |_| code)
}

fn change(emulation: &Emulation, gpu: usize, signal: u64, change: impl Fn(i64) -> i64) -> Result<(), PageFault> {
    let memory = &emulation.memory;
    // Read before the value changes: the signal may be destroyed right after.
    let mailbox = memory.read_u64(gpu, signal + MAILBOX)?;
    let event = memory.read_u32(gpu, signal + EVENT_ID)?;
    let value = memory.atomic_u64(gpu, signal + VALUE, Access::Write, |value| {
        let mut old = value.load(Ordering::SeqCst);
        loop {
            let new = change(old.cast_signed());
            match value.compare_exchange(old, new.cast_unsigned(), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return new,
                Err(now) => old = now,
            }
        }
    })?;
    say!(3, "signal {signal:#x} is {value}, event {event}");
    if mailbox != 0 {
        memory.write_u64(gpu, mailbox, u64::from(event))?;
        // An event destroyed meanwhile has no waits.
        _ = emulation.events.set(event);
    }
    Ok(())
}
