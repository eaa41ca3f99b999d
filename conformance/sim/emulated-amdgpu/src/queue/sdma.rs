//! Executes SDMA packets.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::abi::sdma;
use crate::abi::sdma::{LONGEST, Packet, RectangleSide};
use crate::emulation::Emulation;
use crate::gpu;
use crate::memory::Access;
use crate::queue::ring::Commands;
use crate::queue::state::{Backoff, Queue, Stop};
use crate::report::say;

type Result<T> = std::result::Result<T, Stop>;

/// Executes packets until the queue stops. The doorbell's value is the number of bytes written.
pub(super) fn run(queue: &Queue, emulation: &'static Emulation) -> Result<Infallible> {
    let memory = &emulation.memory;
    let mut read = 0_u64;
    loop {
        queue.wait_for_packet(|| {
            let written = queue.doorbell.load(Ordering::Acquire);
            Ok((written != u64::MAX && written > read).then_some(()))
        })?;
        let (ring, size) = queue.ring();
        let mut words = [0; LONGEST];
        for (index, word) in (0_u64..).zip(&mut words) {
            *word = memory.read_u32(queue.gpu, ring + (read + index * 4) % size)?;
        }
        let (packet, length) = sdma::decode(&words);
        say!(2, "queue {} SDMA {packet:x?}", queue.id);
        execute(emulation, queue.gpu, packet, |ready| queue.wait_until(ready))?;
        read += length * 4;
        memory.write_u64(queue.gpu, queue.read_pointer, read)?;
    }
}

/// Executes the commands of a submission to the render node.
pub(super) fn run_commands(emulation: &'static Emulation, gpu: usize, commands: Commands) -> Result<()> {
    let words = emulation.memory.read_words(gpu, commands.address, commands.words)?;
    let mut rest = words.as_slice();
    while !rest.is_empty() {
        let mut packet = [0; LONGEST];
        for (to, from) in packet.iter_mut().zip(rest) {
            *to = *from;
        }
        let (packet, length) = sdma::decode(&packet);
        say!(2, "SDMA commands: {packet:x?}");
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
        let Some(length) = length else {
            return Err(Stop::Invalid(format!("the commands end within the SDMA packet {packet:x?}")));
        };
        execute(emulation, gpu, packet, wait)?;
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(())
}

/// Time after which the kernel driver takes a submission for hung.
const LIMIT: Duration = Duration::from_secs(10);

/// Waits within a submission.
fn wait(ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
    let mut backoff = Backoff::new();
    while !ready()? {
        if backoff.waited() > LIMIT {
            return Err(Stop::Invalid(format!("an SDMA poll: no change for {} s", LIMIT.as_secs())));
        }
        backoff.pause();
    }
    Ok(())
}

/// Executes a packet. `wait` waits until a function returns `true`.
fn execute(
    emulation: &'static Emulation,
    gpu: usize,
    packet: Packet,
    wait: impl FnOnce(&mut dyn FnMut() -> Result<bool>) -> Result<()>,
) -> Result<()> {
    let memory = &emulation.memory;
    match packet {
        Packet::Nothing => {}
        Packet::Copy { from, to, size } => memory.copy(gpu, to, from, size)?,
        Packet::CopyRectangle { element, from, to, extent } => {
            for slice in 0..extent[2] {
                for row in 0..extent[1] {
                    let at = |side: &RectangleSide| {
                        let [x, y, z] = side.origin;
                        let elements = x + (y + row) * side.pitch[0] + (z + slice) * side.pitch[1];
                        side.address + elements * element
                    };
                    memory.copy(gpu, at(&to), at(&from), extent[0] * element)?;
                }
            }
        }
        Packet::Fence { address, value } => memory.write_u32(gpu, address, value)?,
        // A destroyed event has no waits.
        Packet::Trap { event } => _ = emulation.events.set(event),
        Packet::Poll { address, function, reference, mask } => wait(&mut || {
            let found = memory.read_u32(gpu, address)? & mask;
            Ok(sdma::holds(function, found, reference))
        })?,
        Packet::AtomicAdd { address, value } => {
            memory.atomic_u64(gpu, address, Access::Write, |word| word.fetch_add(value, Ordering::SeqCst))?;
        }
        Packet::Fill { address, words, value } => memory.fill(gpu, address, words * 4, &value.to_le_bytes())?,
        Packet::Timestamp { address } => memory.write_u64(gpu, address, gpu::gpu_clock())?,
        Packet::Unknown { operation, sub } => {
            return Err(Stop::Invalid(format!("unknown SDMA packet: operation {operation}, sub-operation {sub}")));
        }
    }
    Ok(())
}
