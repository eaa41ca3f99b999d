//! Random slices, copies and fills, compared with the same operations on a `Vec<u8>`.

use gpu_interop::{BufferSlice, ErrorKind, MappedBuffer, Stream};
use proptest::collection::vec;
use proptest::prelude::*;

use super::check;
use crate::image::compare;
use crate::scenario::scenarios;
use crate::{Context, Pattern, Stop, Verdict, ensure_eq};

scenarios! {
    "property.slices", Any,
        "Random slices, fills, copies, writes and reads leave the memory equal to a model; ranges past the end are rejected.",
        slices;
}

const SIZE: u64 = 10_007;

/// A slice of a slice, by offset and length.
#[derive(Debug, Clone, Copy)]
struct Part {
    within: u64,
    start: u64,
    length: u64,
}

#[derive(Debug, Clone)]
enum Step {
    Fill(Part, u8),
    FillWords(Part, u32),
    /// Copies to the first range from the second, as many bytes as the second has.
    Copy(Part, Part),
    Write(Part),
    Read(Part),
}

fn part() -> impl Strategy<Value = Part> {
    let start = prop_oneof![9 => 0..SIZE, 1 => SIZE..SIZE + 8, 1 => any::<u64>()];
    let words = (0..SIZE / 16).prop_map(|words| words * 4);
    let length = prop_oneof![4 => 1..64_u64, 4 => 0..SIZE / 4, 2 => words, 1 => any::<u64>()];
    (0..96_u64, start, length).prop_map(|(within, start, length)| Part { within, start, length })
}

fn step() -> impl Strategy<Value = Step> {
    // At word boundaries, or adjacent to them.
    let words = (0..8_u64, 0..SIZE / 4, 1..SIZE / 8, prop_oneof![3 => Just(0_u64), 1 => 1..4_u64]);
    let words =
        words.prop_map(|(within, start, count, off)| Part { within, start: start * 4 + off, length: count * 4 });
    prop_oneof![
        (part(), any::<u8>()).prop_map(|(part, value)| Step::Fill(part, value)),
        (prop_oneof![words, part()], any::<u32>()).prop_map(|(part, value)| Step::FillWords(part, value)),
        (part(), part()).prop_map(|(target, source)| Step::Copy(Part { length: source.length, ..target }, source)),
        part().prop_map(Step::Write),
        part().prop_map(Step::Read),
    ]
}

fn slices(context: &Context) -> Verdict {
    /// The mapping begins at an odd byte.
    const BEFORE: u64 = 13;
    let buffer = context.buffer(BEFORE + SIZE + 5)?;
    let memory = context.import_memory(&*buffer)?;
    let (mapped, stream) = (memory.map_buffer(BEFORE..BEFORE + SIZE)?, context.stream()?);
    check(context, "property.slices", 48, &vec(step(), 1..12), |steps| {
        let mut model = context.pattern().bytes(0, usize::try_from(buffer.size())?);
        buffer.write(0, &model)?;
        let (start, end) = (usize::try_from(BEFORE)?, usize::try_from(BEFORE + SIZE)?);
        for (number, step) in (1..).zip(steps) {
            let written = Pattern::new(context.pattern().seed().wrapping_add(number));
            apply(&stream, &mapped, step, &mut model[start..end], written)?;
        }
        stream.synchronize()?;
        let mut found = vec![0; model.len()];
        buffer.read(0, &mut found)?;
        compare(&found, &model, "the whole memory")
    })
}

impl Part {
    /// The range in the memory; `None` if it is outside.
    fn range(self) -> Option<std::ops::Range<usize>> {
        let start = self.within.checked_add(self.start)?;
        let end = start.checked_add(self.length)?;
        (self.length > 0 && end <= SIZE).then(|| Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?))?
    }

    fn of(self, mapped: &MappedBuffer) -> gpu_interop::Result<BufferSlice<'_>> {
        mapped.slice(self.within..)?.slice(self.start..self.start.saturating_add(self.length))
    }
}

/// Runs one step on the device and on the model. Both must reject the same steps.
fn apply(stream: &Stream, mapped: &MappedBuffer, step: &Step, model: &mut [u8], written: Pattern) -> Verdict {
    let aligned = |part: &Part| {
        let address = mapped.as_raw().get().wrapping_add(part.within).wrapping_add(part.start);
        address.is_multiple_of(4) && part.length.is_multiple_of(4)
    };
    match step {
        Step::Fill(part, value) => {
            let done = part.of(mapped).and_then(|slice| stream.fill(slice, *value));
            if let Some(range) = agreed(done, part.range(), step)? {
                model[range].fill(*value);
            }
        }
        Step::FillWords(part, value) => {
            let done = part.of(mapped).and_then(|slice| stream.fill_u32(slice, *value));
            if let Some(range) = agreed(done, part.range().filter(|_| aligned(part)), step)? {
                for word in model[range].chunks_exact_mut(4) {
                    word.copy_from_slice(&value.to_ne_bytes());
                }
            }
        }
        Step::Copy(target, source) => {
            let done = target.of(mapped).and_then(|target| stream.copy(target, source.of(mapped)?));
            let apart = |target: &std::ops::Range<usize>, source: &std::ops::Range<usize>| {
                target.end <= source.start || source.end <= target.start
            };
            let both = target.range().zip(source.range()).filter(|(target, source)| apart(target, source));
            if let Some((target, source)) = agreed(done, both, step)? {
                model.copy_within(source, target.start);
            }
        }
        Step::Write(part) => {
            let data = part.range().map(|range| written.bytes(0, range.len())).unwrap_or_default();
            let done = part.of(mapped).and_then(|slice| stream.write(slice, &data));
            if let Some(range) = agreed(done, part.range(), step)? {
                model[range].copy_from_slice(&data);
            }
        }
        Step::Read(part) => {
            let mut found = vec![0; part.range().map_or(0, |range| range.len())];
            let done = part.of(mapped).and_then(|slice| stream.read(slice, &mut found));
            if let Some(range) = agreed(done, part.range(), step)? {
                compare(&found, &model[range], &format!("the data of {step:?}"))?;
            }
        }
    }
    Ok(())
}

/// The model's range if both accept the step, and `None` if both reject it.
fn agreed<T>(done: gpu_interop::Result<()>, possible: Option<T>, step: &Step) -> Verdict<Option<T>> {
    match (done, possible) {
        (Ok(()), Some(range)) => Ok(Some(range)),
        (Ok(()), None) => Err(Stop::failed(format!("{step:?} was accepted"))),
        (Err(error), Some(_)) => Err(Stop::failed(format!("{step:?} was rejected: {error}")).with_error(&error)),
        (Err(error), None) => {
            ensure_eq!(error.kind(), ErrorKind::InvalidArgument, "the error kind of {step:?}");
            Ok(None)
        }
    }
}
