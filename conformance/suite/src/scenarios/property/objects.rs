//! Property tests of streams, events and semaphores.

use std::time::Duration;

use gpu_interop::{Device, ErrorKind, ExternalMemory, ExternalSemaphore, Feature, MappedBuffer, Stream, WaitCondition};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::semaphore_misuse::{import_timeline, need_batches};
use super::super::{BRIEF, keeps_waiting};
use super::{check, with_all_descriptors_back};
use crate::context::{Context, import_on};
use crate::ensure_eq;
use crate::exporter::{ExportedBuffer, ExportedSemaphore};
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::pattern::compare;
use crate::scenario::scenarios;

scenarios! {
    "property.objects", Any,
        "Random sequences of imports, mappings, fills, closes and drops, on streams that are idle, or busy where streams can \
         wait: all enqueued work completes in order, and every descriptor is closed at the end.",
        objects, needs [memory of this system];
    "property.semaphores", Any,
        "Random batches of signals and waits: valid batches reach the values of a model, and malformed ones are rejected \
         whole.",
        semaphores, needs [shared timelines];
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
                    self.stream.synchronize_timeout(WAIT_TIMEOUT)?;
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
            self.stream.synchronize_timeout(WAIT_TIMEOUT)?;
            self.blocked = false;
            self.mappings.iter_mut().for_each(|(_, used)| *used = false);
        }
        Ok(())
    }

    /// The expected memory.
    fn finish(mut self) -> Verdict<Vec<u8>> {
        self.unblock()?;
        self.stream.synchronize_timeout(WAIT_TIMEOUT)?;
        Ok(std::mem::take(&mut self.model))
    }
}

/// Opens the gate for a stream that waits when its step fails.
impl Drop for State<'_> {
    fn drop(&mut self) {
        if self.blocked {
            // Best effort: the next request fails too, with a reason.
            let _ = self.gate_buffer.write(0, &1_u32.to_ne_bytes());
            let _ = self.stream.synchronize_timeout(WAIT_TIMEOUT);
        }
    }
}

/// Timelines of one request.
const TIMELINES: usize = 3;
/// The time for which a value must not be reached.
const GLANCE: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
struct Batch {
    signals: bool,
    /// The timeline's index, and its value.
    entries: Vec<(usize, Value)>,
}

/// A value relative to the last signalled one.
#[derive(Debug, Clone, Copy)]
enum Value {
    Further(u64),
    Back(u64),
    /// No value, as for a binary semaphore.
    None,
}

fn batch(reach: u64) -> impl Strategy<Value = Batch> {
    let value = prop_oneof![
        10 => (1..20_u64).prop_map(Value::Further),
        3 => (1..=reach).prop_map(Value::Further),
        1 => (0..20_u64).prop_map(Value::Back),
        1 => any::<u64>().prop_map(Value::Back),
        1 => Just(Value::None),
    ];
    (prop::bool::weighted(0.6), vec((0..TIMELINES, value), 0..6))
        .prop_map(|(signals, entries)| Batch { signals, entries })
}

fn semaphores(context: &Context) -> Verdict {
    need_batches(context)?;
    // Keeps the sum below 2^64.
    let reach = context.exporter()?.timeline_reach().min(1 << 40);
    let stream = context.stream()?;
    check(context, "property.semaphores", 32, &vec(batch(reach), 1..8), |batches| {
        let shared = (0..TIMELINES).map(|_| import_timeline(context, 0)).collect::<Verdict<Vec<_>>>()?;
        let mut values = [0; TIMELINES];
        for batch in batches {
            values = enqueued(&stream, &shared, batch, values)?;
        }
        stream.synchronize_timeout(WAIT_TIMEOUT).map_err(|error| {
            Stop::failed(format!("a wait for a value that was signalled is not met: {error}")).with_error(&error)
        })?;
        for ((exported, _), value) in shared.iter().zip(values) {
            ensure_eq!(exported.wait(value, WAIT_TIMEOUT)?, true, "whether the exporter sees {value}, of {values:?}");
            ensure_eq!(exported.wait(value + 1, GLANCE)?, false, "whether the exporter sees more, of {values:?}");
        }
        Ok(())
    })
}

type Shared = (Box<dyn ExportedSemaphore>, ExternalSemaphore);

/// Enqueues a batch, which must be rejected if it is malformed, and returns the values that the timelines reach.
fn enqueued(stream: &Stream, shared: &[Shared], batch: &Batch, before: [u64; TIMELINES]) -> Verdict<[u64; TIMELINES]> {
    let (mut after, mut right) = (before, !batch.entries.is_empty());
    let (mut signals, mut waits) = (Vec::new(), Vec::new());
    for &(place, value) in &batch.entries {
        let (_, semaphore) = &shared[place];
        match (batch.signals, value) {
            (_, Value::None) => {
                right = false;
                signals.push(semaphore.signal());
                waits.push(semaphore.wait());
            }
            (true, value) => {
                let value = match value {
                    Value::Further(by) => after[place] + by,
                    Value::Back(by) => after[place].saturating_sub(by),
                    Value::None => 0,
                };
                signals.push(semaphore.signal_value(value));
                right &= value > after[place];
                after[place] = after[place].max(value);
            }
            // For signalled values only: otherwise the stream would wait forever.
            (false, Value::Further(by) | Value::Back(by)) => {
                waits.push(semaphore.wait_value(before[place].saturating_sub(by)));
            }
        }
    }
    let done = if batch.signals { stream.signal(&signals) } else { stream.wait(&waits) };
    match done {
        Ok(()) if right => Ok(if batch.signals { after } else { before }),
        Ok(()) => Err(Stop::failed(format!("{batch:?} was accepted at {before:?}"))),
        Err(error) if right => {
            Err(Stop::failed(format!("{batch:?} was rejected at {before:?}: {error}")).with_error(&error))
        }
        Err(error) => {
            ensure_eq!(error.kind(), ErrorKind::InvalidArgument, "the error kind of {batch:?} at {before:?}");
            Ok(before)
        }
    }
}
