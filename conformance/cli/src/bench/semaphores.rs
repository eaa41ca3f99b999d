//! Signals and waits: the calling thread's cost to enqueue one, and batches.
//!
//! All variants use the same imported timelines and stream, so that only the call differs. A round
//! enqueues too few operations to fill a launch queue, and the stream drains outside
//! the measured time. Waits are for a value that has been reached already. At the end the exporter must have seen every
//! value. The raw variant reuses its parameter blocks, as in a careful C program.
//!
//! `signal_allocations` in `gpu-interop-core` tests that a signal or wait allocates nothing.

use std::cell::Cell;
use std::time::{Duration, Instant};

use gpu_interop::{SemaphoreSignal, SemaphoreWait, SignalBatch, WaitBatch};
use gpu_interop_conformance::Verdict;

use super::machine::{Machine, Timeline};
use super::record::{Comparison, Recorder, TIME};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::sys::{Lane, SemaphoreBatch};

/// For a plain call with one semaphore. Batches are encoded again each time, and have no limit.
const PLAIN: Limit = Limit::AtMost(1.02);

/// For a prepared batch of `N`. The values of signals are compared with the last ones, which plain signals share, and
/// those of waits are copied.
const fn prepared<const N: usize>() -> Limit {
    Limit::AtMost(match N {
        1 => 1.025,
        ..=8 => 1.05,
        _ => 1.1,
    })
}

/// For batches of `N`.
fn comparisons<const N: usize>() -> [Comparison; 4] {
    let of = |over, under| Comparison::new(0, over, under);
    [
        of("prepared", "raw").limit(prepared::<N>()),
        Comparison { limit: (N == 1).then_some(PLAIN), ..of("library", "raw") },
        of("backend", "raw"),
        of("library", "backend"),
    ]
}

/// Maximum number of operations in a round.
const IN_FLIGHT: u64 = 256;

fn calls<const N: usize>() -> u64 {
    (IN_FLIGHT / N as u64).max(1)
}

fn nanoseconds(taken: Duration, calls: u64) -> f64 {
    taken.as_secs_f64() * 1e9 / calls as f64
}

fn effort() -> Effort {
    Effort::within(Duration::from_millis(1500))
}

/// `N` timelines on both sides.
fn open<const N: usize>(machine: &Machine) -> Verdict<(Vec<Timeline>, Lane)> {
    let exported = (0..N).map(|_| Timeline::new(machine)).collect::<Verdict<Vec<_>>>()?;
    let requests = exported.iter().map(Timeline::import_request).collect::<Verdict<Vec<_>>>()?;
    let lane = Lane::new(&machine.device, requests)?;
    Ok((exported, lane))
}

/// Signals in batches of `N`.
pub(super) fn signals<const N: usize>(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let (exported, lane) = open::<N>(machine)?;
    let (timelines, calls) = (lane.batch::<N>()?, calls::<N>());
    let value = Cell::new(1);
    // Values rise across variants.
    let next = &|| value.replace(value.get() + calls);
    let mut prepared = SignalBatch::new(timelines)?;
    let mut variants = Vec::new();
    if let Some(raw) = recorder.side("every raw variant", &machine.raw) {
        let mut batch = SemaphoreBatch::new(timelines)?;
        let lane = &lane;
        variants.push(Variant::of_one("raw", move || {
            Ok(nanoseconds(raw.signals(lane.stream(), &mut batch, next(), calls)?, calls))
        }));
    }
    variants.push(Variant::of_one("backend", || Ok(nanoseconds(lane.backend_signals::<N>(next(), calls)?, calls))));
    variants.push(Variant::of_one("library", || {
        let first = next();
        let start = Instant::now();
        for value in first..first + calls {
            // As in an application; an array returned by a function would be copied once more.
            if N == 1 {
                lane.stream().signal(&[timelines[0].signal_value(value)])?;
                continue;
            }
            let signals: [SemaphoreSignal<'_>; N] = std::array::from_fn(|index| timelines[index].signal_value(value));
            lane.stream().signal(&signals)?;
        }
        let taken = start.elapsed();
        lane.stream().synchronize()?;
        Ok(nanoseconds(taken, calls))
    }));
    variants.push(Variant::of_one("prepared", || {
        let first = next();
        let start = Instant::now();
        for value in first..first + calls {
            prepared.set_all(&[value; N])?;
            lane.stream().signal_prepared(&mut prepared)?;
        }
        let taken = start.elapsed();
        lane.stream().synchronize()?;
        Ok(nanoseconds(taken, calls))
    }));
    recorder.measure(name, effort(), &[TIME], &mut variants, &comparisons::<N>())?;
    exported.iter().try_for_each(|timeline| timeline.must_have_reached(value.get() - 1))
}

/// Waits in batches of `N`.
pub(super) fn waits<const N: usize>(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    const SIGNALLED: u64 = 7;
    let (exported, lane) = open::<N>(machine)?;
    let (timelines, calls) = (lane.batch::<N>()?, calls::<N>());
    lane.stream().signal(&timelines.each_ref().map(|timeline| timeline.signal_value(SIGNALLED)))?;
    lane.stream().synchronize()?;
    exported.iter().try_for_each(|timeline| timeline.must_have_reached(SIGNALLED))?;
    let mut prepared = WaitBatch::new(timelines)?;
    let mut variants = Vec::new();
    if let Some(raw) = recorder.side("every raw variant", &machine.raw) {
        let mut batch = SemaphoreBatch::new(timelines)?;
        let lane = &lane;
        variants.push(Variant::of_one("raw", move || {
            Ok(nanoseconds(raw.waits(lane.stream(), &mut batch, SIGNALLED, calls)?, calls))
        }));
    }
    variants.push(Variant::of_one("backend", || Ok(nanoseconds(lane.backend_waits::<N>(SIGNALLED, calls)?, calls))));
    variants.push(Variant::of_one("library", || {
        let start = Instant::now();
        for _ in 0..calls {
            if N == 1 {
                lane.stream().wait(&[timelines[0].wait_value(SIGNALLED)])?;
                continue;
            }
            let waits: [SemaphoreWait<'_>; N] = std::array::from_fn(|index| timelines[index].wait_value(SIGNALLED));
            lane.stream().wait(&waits)?;
        }
        let taken = start.elapsed();
        lane.stream().synchronize()?;
        Ok(nanoseconds(taken, calls))
    }));
    variants.push(Variant::of_one("prepared", || {
        let start = Instant::now();
        for _ in 0..calls {
            prepared.set_all(&[SIGNALLED; N])?;
            lane.stream().wait_prepared(&prepared)?;
        }
        let taken = start.elapsed();
        lane.stream().synchronize()?;
        Ok(nanoseconds(taken, calls))
    }));
    recorder.measure(name, effort(), &[TIME], &mut variants, &comparisons::<N>())
}
