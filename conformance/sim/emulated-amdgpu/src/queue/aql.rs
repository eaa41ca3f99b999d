//! AQL packets, and the runtime's signals: values in memory, with an event for sleeping threads.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use crate::abi::aql;
use crate::abi::aql::signal::{END, EVENT_ID, MAILBOX, START, VALUE};
use crate::abi::aql::{PACKET_SIZE, Packet};
use crate::emulation::Emulation;
use crate::memory::{Access, PageFault};
use crate::queue::state::{Queue, Stop};
use crate::report::say;
use crate::{gpu, kernel};

type Result<T> = std::result::Result<T, Stop>;

/// Executes packets until the queue stops.
///
/// Several producers ring the doorbell, in any order of their packets, so it only wakes the thread. The write index and
/// the packets' headers determine the pending packets.
pub(super) fn run(queue: &Queue, emulation: &'static Emulation) -> Result<Infallible> {
    let memory = &emulation.memory;
    let mut read = 0_u64;
    loop {
        let (address, words) = queue.wait_for_packet(|| {
            let written = memory
                .atomic_u64(queue.gpu, queue.write_pointer, Access::Read, |index| index.load(Ordering::Acquire))?;
            if queue.doorbell.load(Ordering::Acquire) == u64::MAX || written <= read {
                return Ok(None);
            }
            let (ring, size) = queue.ring();
            let address = ring + read % (size / PACKET_SIZE) * PACKET_SIZE;
            let words = memory.read_packet(queue.gpu, address)?;
            Ok((aql::decode(&words) != Packet::Invalid).then_some((address, words)))
        })?;
        let began = gpu::gpu_clock();
        let packet = aql::decode(&words);
        say!(2, "queue {} packet {read}: {packet:x?}", queue.id);
        execute(queue, emulation, address, packet)?;
        // The producers own the slot again before the read index is advanced.
        memory.atomic_u64(queue.gpu, address, Access::Write, |header| {
            header.store(words[0] & !0xffff | u64::from(aql::TYPE_INVALID), Ordering::Release);
        })?;
        read += 1;
        memory.write_u64(queue.gpu, queue.read_pointer, read)?;
        complete_signal(emulation, queue.gpu, aql::completion_signal(&words), began)?;
    }
}

fn execute(queue: &Queue, emulation: &'static Emulation, address: u64, packet: Packet) -> Result<()> {
    let gpu = queue.gpu;
    match packet {
        Packet::Dispatch(dispatch) => kernel::run(emulation, queue, address, &dispatch),
        Packet::Barrier { signals, all } => queue.wait(|| {
            let mut any = false;
            for signal in signals.into_iter().filter(|signal| *signal != 0) {
                let zero = signal_value(emulation, gpu, signal)? == 0;
                if all && !zero {
                    return Ok(None);
                }
                any |= zero;
            }
            Ok((all || any || signals == [0; 5]).then_some(()))
        }),
        // A barrier that only flushes caches; as some GPUs need it.
        Packet::BarrierValue { signal: 0, .. } => Ok(()),
        Packet::BarrierValue { signal, value, mask, condition } => queue.wait(|| {
            let found = signal_value(emulation, gpu, signal)? & mask;
            let holds = match condition {
                0 => found == value,
                1 => found != value,
                2 => found < value,
                3 => found >= value,
                other => return Err(Stop::Invalid(format!("barrier-value packet with condition {other}"))),
            };
            Ok(holds.then_some(()))
        }),
        Packet::Commands => Ok(()),
        Packet::Invalid | Packet::Unknown { .. } => Err(Stop::Invalid(format!("unknown packet {packet:?}"))),
    }
}

pub(super) fn signal_value(emulation: &Emulation, gpu: usize, signal: u64) -> std::result::Result<i64, PageFault> {
    let word = emulation.memory.atomic_u64(gpu, signal + VALUE, Access::Read, |value| value.load(Ordering::SeqCst))?;
    Ok(word.cast_signed())
}

/// Completes a packet: writes its times, decrements its signal's value, wakes waiting threads.
pub(super) fn complete_signal(
    emulation: &Emulation,
    gpu: usize,
    signal: u64,
    began: u64,
) -> std::result::Result<(), PageFault> {
    if signal == 0 {
        return Ok(());
    }
    let memory = &emulation.memory;
    memory.write_u64(gpu, signal + START, began)?;
    memory.write_u64(gpu, signal + END, gpu::gpu_clock())?;
    change_signal(emulation, gpu, signal, |value| value - 1)
}

/// Stores an error code in a signal.
pub(crate) fn store_signal(
    emulation: &Emulation,
    gpu: usize,
    signal: u64,
    code: i64,
) -> std::result::Result<(), PageFault> {
    change_signal(emulation, gpu, signal, |_| code)
}

fn change_signal(
    emulation: &Emulation,
    gpu: usize,
    signal: u64,
    change: impl Fn(i64) -> i64,
) -> std::result::Result<(), PageFault> {
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
        // A destroyed event has no waits.
        _ = emulation.events.set(event);
    }
    Ok(())
}
