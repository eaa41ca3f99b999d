//! Random sequences of imports, mappings, streams and devices, with and without pending work.

use gpu_interop::{Device, ExternalMemory, Feature, MappedBuffer, Stream, WaitCondition};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{BRIEF, keeps_waiting};
use super::{check, with_all_descriptors_back};
use crate::context::import_on;
use crate::image::compare;
use crate::scenario::scenarios;
use crate::{Context, ExportedBuffer, PATIENCE, Verdict};

scenarios! {
    "property.objects", Any,
        "Random sequences of imports, mappings, fills, closes and drops, on streams that are idle, or busy where streams can \
         wait: all enqueued work completes in order, and every descriptor is closed at the end.",
        objects, needs [memory of this system];
}

const SIZE: u64 = 20_000;

/// Indices of imports and mappings wrap around their number.
#[derive(Debug, Clone)]
enum Step {
    Import,
    /// The import's index, the offset and the length, cut off at the end.
    Map(usize, u64, u64),
    Fill(usize, u8),
    Read(usize),
    DropMapping(usize),
    CloseMapping(usize),
    DropImport(usize),
    CloseImport(usize),
    /// Work enqueued from now on waits.
    Block,
    Unblock,
    ReplaceStream,
    DropDevice,
}

fn step() -> impl Strategy<Value = Step> {
    let index = || 0..6_usize;
    prop_oneof![
        3 => Just(Step::Import),
        5 => (index(), 0..SIZE, 1..SIZE).prop_map(|(import, offset, size)| Step::Map(import, offset, size)),
        6 => (index(), any::<u8>()).prop_map(|(mapping, value)| Step::Fill(mapping, value)),
        2 => index().prop_map(Step::Read),
        2 => index().prop_map(Step::DropMapping),
        2 => index().prop_map(Step::CloseMapping),
        1 => index().prop_map(Step::DropImport),
        1 => index().prop_map(Step::CloseImport),
        2 => Just(Step::Block),
        1 => Just(Step::Unblock),
        1 => Just(Step::ReplaceStream),
        1 => Just(Step::DropDevice),
    ]
}

fn objects(context: &Context) -> Verdict {
    let can_block = context.device().capabilities().feature(Feature::StreamMemoryOperations32);
    if let Some(reason) = can_block.reason() {
        context.leave_out(format!("streams that are busy: {reason}"));
    }
    let (buffer, gate_buffer) = (context.buffer(SIZE)?, context.buffer(4096)?);
    // Resources of the first use stay open.
    drop(context.open_again()?.import_memory(buffer.import_request()?)?.map_buffer(..)?);
    let steps = vec(step(), 1..24);
    check(context, "property.objects", 32, &steps, |steps| {
        with_all_descriptors_back(|| {
            let model = {
                let mut state = State::new(context, &*buffer, &*gate_buffer, can_block.is_supported())?;
                for step in steps {
                    state.apply(step)?;
                }
                state.finish()?
            };
            let mut found = vec![0; model.len()];
            buffer.read(0, &mut found)?;
            compare(&found, &model, "the whole memory at the end")
        })
    })
}

/// The objects, and the expected memory once all enqueued work has completed.
struct State<'a> {
    buffer: &'a dyn ExportedBuffer,
    gate_buffer: &'a dyn ExportedBuffer,
    can_block: bool,
    device: Option<Device>,
    stream: Stream,
    gate: MappedBuffer,
    blocked: bool,
    imports: Vec<ExternalMemory>,
    /// With a flag that states whether pending work uses it.
    mappings: Vec<(MappedBuffer, bool)>,
    model: Vec<u8>,
}

impl<'a> State<'a> {
    fn new(
        context: &Context,
        buffer: &'a dyn ExportedBuffer,
        gate_buffer: &'a dyn ExportedBuffer,
        can_block: bool,
    ) -> Verdict<Self> {
        let model = context.pattern().bytes(0, usize::try_from(SIZE)?);
        buffer.write(0, &model)?;
        let device = context.open_again()?;
        let stream = device.create_stream()?;
        let gate = import_on(&device, gate_buffer)?;
        Ok(Self {
            buffer,
            gate_buffer,
            can_block,
            device: Some(device),
            stream,
            gate,
            blocked: false,
            imports: Vec::new(),
            mappings: Vec::new(),
            model,
        })
    }

    fn apply(&mut self, step: &Step) -> Verdict {
        match step {
            Step::Import => {
                self.unblock()?;
                if let Some(device) = &self.device {
                    self.imports.push(device.import_memory(self.buffer.import_request()?)?);
                }
            }
            Step::Map(index, offset, size) if !self.imports.is_empty() => {
                self.unblock()?;
                let mapped = self.imports[index % self.imports.len()]
                    .map_buffer(*offset..*offset + (*size).min(SIZE - offset))?;
                self.mappings.push((mapped, false));
            }
            Step::Fill(index, value) if !self.mappings.is_empty() => {
                let place = index % self.mappings.len();
                let (mapping, used) = &mut self.mappings[place];
                self.stream.fill(&*mapping, *value)?;
                *used |= self.blocked;
                let start = usize::try_from(mapping.offset())?;
                self.model[start..start + usize::try_from(mapping.size())?].fill(*value);
            }
            Step::Read(index) if !self.mappings.is_empty() => {
                self.unblock()?;
                let (mapping, _) = &self.mappings[index % self.mappings.len()];
                let mut found = vec![0; usize::try_from(mapping.size())?];
                self.stream.read(mapping, &mut found)?;
                let start = usize::try_from(mapping.offset())?;
                compare(&found, &self.model[start..start + found.len()], "an intermediate read")?;
            }
            Step::DropMapping(index) | Step::CloseMapping(index) if !self.mappings.is_empty() => {
                let place = index % self.mappings.len();
                // Drivers unmap idle mappings at once, and wait for all streams to do it.
                if !self.mappings[place].1 {
                    self.unblock()?;
                }
                let (mapping, _) = self.mappings.swap_remove(place);
                if matches!(step, Step::CloseMapping(_)) { mapping.close()? } else { drop(mapping) }
            }
            Step::DropImport(index) | Step::CloseImport(index) if !self.imports.is_empty() => {
                self.unblock()?;
                let import = self.imports.swap_remove(index % self.imports.len());
                if matches!(step, Step::CloseImport(_)) { import.close()? } else { drop(import) }
            }
            Step::Block if self.can_block && !self.blocked => {
                self.gate_buffer.write(0, &0_u32.to_ne_bytes())?;
                self.stream.wait_value_u32(self.gate.slice(..4)?, 1, WaitCondition::Equal)?;
                self.blocked = true;
            }
            Step::Unblock => self.unblock()?,
            Step::ReplaceStream => {
                self.unblock()?;
                if let Some(device) = &self.device {
                    self.stream.synchronize_timeout(PATIENCE)?;
                    let old = std::mem::replace(&mut self.stream, device.create_stream()?);
                    old.close()?;
                }
            }
            Step::DropDevice => drop(self.device.take()),
            _ => {}
        }
        Ok(())
    }

    /// Opens the gate, and waits until the stream's work has completed.
    fn unblock(&mut self) -> Verdict {
        if self.blocked {
            keeps_waiting(&self.stream, BRIEF, "the stream did not wait")?;
            self.gate_buffer.write(0, &1_u32.to_ne_bytes())?;
            self.stream.synchronize_timeout(PATIENCE)?;
            self.blocked = false;
            self.mappings.iter_mut().for_each(|(_, used)| *used = false);
        }
        Ok(())
    }

    /// The expected memory.
    fn finish(mut self) -> Verdict<Vec<u8>> {
        self.unblock()?;
        self.stream.synchronize_timeout(PATIENCE)?;
        Ok(std::mem::take(&mut self.model))
    }
}

/// Opens the gate for a stream that waits when its step fails.
impl Drop for State<'_> {
    fn drop(&mut self) {
        if self.blocked {
            // Best effort: the next request fails too, with a reason.
            let _ = self.gate_buffer.write(0, &1_u32.to_ne_bytes());
            let _ = self.stream.synchronize_timeout(PATIENCE);
        }
    }
}
