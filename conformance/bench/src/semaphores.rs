//! Signals and waits: the calling thread's cost to enqueue one, and batches.
//!
//! All variants use the same imported timelines and stream, so that only the call differs. A round
//! enqueues too few operations to fill a launch queue, and the stream drains outside
//! the measured time. Waits are for a value that has been reached already. At the end the exporter must have seen every
//! value. The raw variant reuses its parameter blocks, as in a careful C program.
//!
//! `signal_allocations` in `gpu-interop-core` tests that signals and waits of up to 8 semaphores, and prepared batches
//! of any size, allocate nothing.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use gpu_interop::{Result, SemaphoreSignal, SemaphoreWait, SignalBatch, Stream, WaitBatch};
use gpu_interop_conformance::Verdict;

use crate::machine::{Machine, Timeline};
use crate::record::{Comparison, Recorder, TIME};
use crate::report::Limit;
use crate::rounds::{Effort, Variant};
use crate::sys::{ImportedTimelines, SemaphoreBatch};

/// For a plain call with one semaphore, and for prepared batches with one value for all, like the raw variant. A batch of one
/// has one value. Plain batches are encoded again each time, and have no limit. The query whether another library has reset the
/// device (`cuCtxGetId`) is 2 to 5 % of a call.
const LIMIT: Limit = Limit::AtMost(1.06);

/// For a prepared batch of `N` values relative to raw calls with one value for all: those of signals are compared with the last
/// ones, and those of waits copied.
const fn prepared<const N: usize>() -> Limit {
    Limit::AtMost(match N {
        1 => return LIMIT,
        ..=8 => 1.08,
        _ => 1.1,
    })
}

/// For a prepared batch of `N` values relative to raw calls with `N` values.
const PREPARED_TO_RAW_EACH: Limit = Limit::AtMost(1.08);

/// For batches of `N`.
fn comparisons<const N: usize>() -> [Comparison; 6] {
    let of = |over, under| Comparison::new(0, over, under);
    [
        of("filled", "raw").limit(LIMIT),
        of("prepared", "raw").limit(prepared::<N>()),
        // Not measured with one semaphore.
        of("prepared", "raw_each").limit(PREPARED_TO_RAW_EACH),
        Comparison { limit: (N == 1).then_some(LIMIT), ..of("library", "raw") },
        of("backend", "raw"),
        of("library", "backend"),
    ]
}

/// Number of measured operations in a round, if these are at least `LEAST_CALLS` calls.
const IN_FLIGHT: u64 = 256;
/// Minimum number of measured calls in a round: the first one after a synchronisation takes longer.
const LEAST_CALLS: u64 = 16;
/// Calls before the measured ones, completed before these start. The first two batches after another variant's signals compare
/// each timeline in its semaphore, as the first two of an application do.
const BEFORE: u64 = 2;

fn calls<const N: usize>() -> u64 {
    (IN_FLIGHT / N as u64).max(LEAST_CALLS)
}

fn effort() -> Effort {
    Effort::within(Duration::from_millis(1500)).on_a_free_core()
}

/// `N` timelines on both sides.
fn open<const N: usize>(machine: &Machine) -> Verdict<(Vec<Timeline>, ImportedTimelines)> {
    let exported = (0..N).map(|_| Timeline::new(machine)).collect::<Verdict<Vec<_>>>()?;
    let requests = exported.iter().map(Timeline::import_request).collect::<Verdict<Vec<_>>>()?;
    let imported = ImportedTimelines::new(&machine.device, requests)?;
    Ok((exported, imported))
}

/// Makes variants whose rounds enqueue operations with rising numbers.
struct Rounds<'a> {
    stream: &'a Stream,
    /// The next number, across variants.
    next: &'a Cell<u64>,
    calls: u64,
}

impl<'a> Rounds<'a> {
    /// A variant: `enqueue` makes this many calls from a number on, and returns their duration.
    fn variant(&self, name: &'static str, mut enqueue: impl FnMut(u64, u64) -> Verdict<Duration> + 'a) -> Variant<'a> {
        let Self { next, calls, .. } = *self;
        Variant::of_one(name, move || {
            let first = next.replace(next.get() + BEFORE + calls);
            enqueue(first, BEFORE)?;
            Ok(enqueue(first + BEFORE, calls)?.as_secs_f64() * 1e9 / calls as f64)
        })
    }

    /// A variant of the safe objects.
    fn safe(&self, name: &'static str, mut call: impl FnMut(u64) -> Result<()> + 'a) -> Variant<'a> {
        let stream = self.stream;
        self.variant(name, move |first, calls| {
            let start = Instant::now();
            for number in first..first + calls {
                call(number)?;
            }
            let taken = start.elapsed();
            stream.synchronize()?;
            Ok(taken)
        })
    }
}

/// Signals in batches of `N`.
pub(super) fn signals<const N: usize>(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let (exported, imported) = open::<N>(machine)?;
    let (timelines, stream, next) = (imported.batch::<N>()?, imported.stream(), Cell::new(1));
    let rounds = Rounds { stream, next: &next, calls: calls::<N>() };
    let (mut filled, mut set) = (SignalBatch::new(timelines)?, SignalBatch::new(timelines)?);
    let mut variants = Vec::new();
    if let Some(raw) = recorder.side("every raw variant", &machine.raw) {
        let mut batch = SemaphoreBatch::new(timelines)?;
        variants.push(rounds.variant("raw", move |first, calls| {
            raw.signals(stream, &mut batch, first..first + calls, |batch, value| batch.fill_signals(value))
        }));
        if N > 1 {
            let mut batch = SemaphoreBatch::new(timelines)?;
            variants.push(rounds.variant("raw_each", move |first, calls| {
                raw.signals(stream, &mut batch, first..first + calls, |batch, value| {
                    batch.set_signals(&black_box([value; N]));
                })
            }));
        }
    }
    variants.extend([
        rounds.variant("backend", |first, calls| imported.backend_signals::<N>(first, calls)),
        rounds.safe("library", |value| {
            // As in an application; an array returned by a function would be copied once more.
            if N == 1 {
                return stream.signal(&[timelines[0].signal_value(value)]);
            }
            let signals: [SemaphoreSignal<'_>; N] = std::array::from_fn(|index| timelines[index].signal_value(value));
            stream.signal(&signals)
        }),
        rounds.safe("filled", |value| {
            filled.fill(value);
            stream.signal_prepared(&mut filled)
        }),
        rounds.safe("prepared", |value| {
            set.set_all(&black_box([value; N]))?;
            stream.signal_prepared(&mut set)
        }),
    ]);
    recorder.measure(name, effort(), &[TIME], &mut variants, &comparisons::<N>())?;
    exported.iter().try_for_each(|timeline| timeline.must_have_reached(next.get() - 1))
}

/// Waits in batches of `N`.
pub(super) fn waits<const N: usize>(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    const SIGNALLED: u64 = 7;
    let (exported, imported) = open::<N>(machine)?;
    let (timelines, stream, next) = (imported.batch::<N>()?, imported.stream(), Cell::new(1));
    stream.signal(&timelines.each_ref().map(|timeline| timeline.signal_value(SIGNALLED)))?;
    stream.synchronize()?;
    exported.iter().try_for_each(|timeline| timeline.must_have_reached(SIGNALLED))?;
    let rounds = Rounds { stream, next: &next, calls: calls::<N>() };
    let (mut filled, mut set) = (WaitBatch::new(timelines)?, WaitBatch::new(timelines)?);
    let mut variants = Vec::new();
    if let Some(raw) = recorder.side("every raw variant", &machine.raw) {
        let mut batch = SemaphoreBatch::new(timelines)?;
        variants.push(rounds.variant("raw", move |_, calls| {
            raw.waits(stream, &mut batch, 0..calls, |batch, _| batch.fill_waits(SIGNALLED))
        }));
        if N > 1 {
            let mut batch = SemaphoreBatch::new(timelines)?;
            variants.push(rounds.variant("raw_each", move |_, calls| {
                raw.waits(stream, &mut batch, 0..calls, |batch, _| batch.set_waits(&black_box([SIGNALLED; N])))
            }));
        }
    }
    variants.extend([
        rounds.variant("backend", |_, calls| imported.backend_waits::<N>(SIGNALLED, calls)),
        rounds.safe("library", |_| {
            if N == 1 {
                return stream.wait(&[timelines[0].wait_value(SIGNALLED)]);
            }
            let waits: [SemaphoreWait<'_>; N] = std::array::from_fn(|index| timelines[index].wait_value(SIGNALLED));
            stream.wait(&waits)
        }),
        rounds.safe("filled", |_| {
            filled.fill(SIGNALLED);
            stream.wait_prepared(&filled)
        }),
        rounds.safe("prepared", |_| {
            set.set_all(&black_box([SIGNALLED; N]))?;
            stream.wait_prepared(&set)
        }),
    ]);
    recorder.measure(name, effort(), &[TIME], &mut variants, &comparisons::<N>())
}

const CONTEXT_CALLS: u32 = 1000;

/// The driver's cost of a current context.
///
/// Every call except signals and waits checks or sets the current context: one `cuCtxGetCurrent` more than a
/// program that sets it once, and a push and a pop on threads where it is not current.
pub(super) fn context(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let raw = machine.raw.as_ref().map_err(Clone::clone)?;
    let each = |taken: Duration| taken.as_secs_f64() * 1e9 / f64::from(CONTEXT_CALLS);
    let mut variants = [
        Variant::of_one("cuCtxGetCurrent", || Ok(each(raw.ask_current(CONTEXT_CALLS)?))),
        Variant::of_one("cuCtxPushCurrent+PopCurrent", || Ok(each(raw.push_and_pop(CONTEXT_CALLS)?))),
    ];
    recorder.measure(name, Effort::within(Duration::from_millis(500)), &[TIME], &mut variants, &[])
}
