//! Two devices of one backend used concurrently.

use gpu_interop::{Device, ExportableMemory, Feature, MappedBuffer, Stream, WaitCondition};

use super::identity::open_second;
use super::keeps_waiting;
use crate::scenario::scenarios;
use crate::{Context, PATIENCE, Stop, Verdict, WATCH, ensure, request};

scenarios! {
    "identity.second_device_pending", None,
        "Mappings of two devices with pending work are dropped by other threads; all work completes, and nothing hangs.",
        pending, needs [second device, ExportableMemory, StreamMemoryOperations32];
}

const SIZE: u64 = 64 << 10;

/// The objects of one device: its own memory, imported into itself.
struct Side {
    /// Read after the import has ended.
    memory: ExportableMemory,
    gate: MappedBuffer,
    stream: Stream,
    /// Opens the gate.
    opener: Stream,
    value: u8,
}

/// A device's own memory, imported and mapped.
fn import(device: &Device) -> Verdict<(ExportableMemory, MappedBuffer)> {
    let memory = device.allocate_exportable(SIZE)?;
    let request = request::memory(memory.export()?, memory.size()).exported_by(device.identity().clone());
    let mapped = device.import_memory(request)?.map_buffer(0..SIZE)?;
    Ok((memory, mapped))
}

impl Side {
    /// With a fill pending on the first of the returned mappings.
    fn with_pending_work(device: &Device, value: u8) -> Verdict<(Self, [MappedBuffer; 2])> {
        let ((memory, busy), (_, idle), (_, gate)) = (import(device)?, import(device)?, import(device)?);
        let (stream, opener) = (device.create_stream()?, device.create_stream()?);
        for mapped in [&busy, &idle, &gate] {
            opener.fill(mapped, 0)?;
        }
        opener.synchronize_timeout(PATIENCE)?;
        stream.wait_value_u32(gate.slice(..4)?, 1, WaitCondition::Equal)?;
        stream.fill(&busy, value)?;
        Ok((Self { memory, gate, stream, opener, value }, [busy, idle]))
    }

    fn open(&self) -> Verdict {
        Ok(self.opener.write_value_u32(self.gate.slice(..4)?, 1)?)
    }

    fn verify(&self, what: &str) -> Verdict {
        self.stream.synchronize_timeout(PATIENCE)?;
        let mut found = vec![0; 64 << 10];
        self.opener.read(self.memory.slice(..SIZE)?, &mut found)?;
        let wrong = found.iter().position(|byte| *byte != self.value);
        ensure!(wrong.is_none(), "{what}: byte {wrong:?} of {SIZE} is not the pending fill's");
        Ok(())
    }
}

fn pending(context: &Context) -> Verdict {
    let first = context.device();
    let second = open_second(context)?;
    for device in [first, &second] {
        for feature in [Feature::ExportableMemory, Feature::StreamMemoryOperations32] {
            if let Some(reason) = device.capabilities().feature(feature).reason() {
                return Err(Stop::unsupported(format!("{feature}: {reason}")));
            }
        }
    }
    for round in 0..4_u8 {
        let (one, dropped) = Side::with_pending_work(first, 0x10 + round)?;
        let (other, also_dropped) = Side::with_pending_work(&second, 0x20 + round)?;
        let sides = if round % 2 == 0 { [&one, &other] } else { [&other, &one] };
        std::thread::scope(|scope| -> Verdict {
            // A driver that waits for its streams before it frees blocks only these two.
            scope.spawn(move || drop(dropped));
            scope.spawn(move || drop(also_dropped));
            // Opened even after a failure: the threads end only if the gates open.
            let what = format!("round {round}: a stream did not wait");
            let waited = sides.map(|side| keeps_waiting(&side.stream, WATCH / 2, &what));
            let opened = sides.map(Side::open);
            opened.into_iter().chain(waited).collect()
        })?;
        one.verify(&format!("round {round}, the first device"))?;
        other.verify(&format!("round {round}, the second device"))?;
    }
    Ok(())
}
