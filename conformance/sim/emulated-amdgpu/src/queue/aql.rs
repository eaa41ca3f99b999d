//! Executes AQL packets.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use super::{Queue, Stop, clock, signal};
use crate::abi::aql::{self, PACKET_SIZE, Packet};
use crate::emulation::Emulation;
use crate::kernel;
use crate::log::say;
use crate::memory::Access;

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
        let began = clock::gpu();
        let packet = aql::decode(&words);
        say!(2, "queue {} packet {read}: {packet:x?}", queue.id);
        execute(queue, emulation, packet)?;
        // The producers own the slot again before the read index is advanced.
        memory.atomic_u64(queue.gpu, address, Access::Write, |header| {
            header.store(words[0] & !0xffff | u64::from(aql::TYPE_INVALID), Ordering::Release);
        })?;
        read += 1;
        memory.write_u64(queue.gpu, queue.read_pointer, read)?;
        signal::complete(emulation, queue.gpu, aql::completion_signal(&words), began)?;
    }
}

fn execute(queue: &Queue, emulation: &'static Emulation, packet: Packet) -> Result<()> {
    let gpu = queue.gpu;
    match packet {
        Packet::Dispatch(dispatch) => kernel::run(emulation, queue, &dispatch),
        Packet::Barrier { signals, all } => queue.wait(|| {
            let mut any = false;
            for signal in signals.into_iter().filter(|signal| *signal != 0) {
                let zero = signal::value(emulation, gpu, signal)? == 0;
                if all && !zero {
                    return Ok(None);
                }
                any |= zero;
            }
            Ok((all || any || signals == [0; 5]).then_some(()))
        }),
        // A barrier that only flushes caches; the runtime dispatches it on gfx90a.
        Packet::BarrierValue { signal: 0, .. } => Ok(()),
        Packet::BarrierValue { signal, value, mask, condition } => queue.wait(|| {
            let found = signal::value(emulation, gpu, signal)? & mask;
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

/// Waits until a kernel's condition is met.
pub(crate) fn wait_until(queue: &Queue, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    queue.wait(|| Ok(holds()?.then_some(())))
}
