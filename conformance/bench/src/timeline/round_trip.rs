//! From the exporter to a stream and back.
//!
//! In a round the exporter fills its own memory with a new word, copies it to the shared memory, and signals. The
//! stream waits, works ([`Exchange`]), and signals. The exporter waits and reads the stream's data. All is
//! enqueued at once; the host waits only for the end.

use std::time::Duration;

use gpu_interop_conformance::Verdict;

use super::exchange::{Exchange, OwnSide, Side, VulkanSide};
use super::{Clock, Counter, Elapsed, LibraryCounter, Peer, RawCounter};
use crate::machine::Machine;
use crate::record::{Comparison, PEER, Quantity, Recorder, TIME};
use crate::report::Limit;
use crate::rounds::{Effort, Variant};
use crate::sys::SemaphoreBatch;

/// The duration of a round, and the processor time of this process, all threads.
const QUANTITIES: [Quantity; 2] = [TIME, Quantity { suffix: ".cpu", unit: "ns" }];
const OVERHEAD: Limit = Limit::AtMost(1.02);

pub(crate) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, &VulkanSide::new(machine.graphics_queue()?)?, Some(Limit::AtMost(1.2)))
}

pub(crate) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, &VulkanSide::new(machine.transfer_queue()?)?, Some(Limit::AtMost(2.0)))
}

/// With the backend's own semaphores on both sides.
pub(crate) fn own(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let peer = Peer::open(machine)?;
    run(machine, recorder, name, &OwnSide::new(&peer)?, None)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, side: &dyn Side, limit: Option<Limit>) -> Verdict {
    let exchange = &Exchange::new(machine, side)?;
    let exporter = side.exporter();
    let by_hand = RawCounter::raw(machine, exporter);
    let native = LibraryCounter::native(machine, exporter);
    let bridge = LibraryCounter::bridge(machine, exporter);
    let native = recorder.side("every native variant", &native);
    let mut variants = Vec::new();
    if let (Some(raw), Ok(counter)) = (recorder.side("every raw variant", &machine.raw), &by_hand) {
        let mut batch = SemaphoreBatch::new(counter.follower.semaphores())?;
        variants.push(Variant::new("raw", move || {
            second(|| {
                round(exchange, counter, |values, word, then| {
                    raw.answer(counter.follower.stream(), &mut batch, values, &exchange.answer(word)?, then)
                })
            })
        }));
    }
    if let Some(counter) = native {
        variants.push(Variant::new("native", || second(|| with_library(exchange, counter))));
    }
    if let Some(counter) = recorder.side("every bridge variant", &bridge) {
        variants.push(Variant::new("bridge", || second(|| with_library(exchange, counter))));
    }
    variants.push(Variant::new("fence", || second(|| with_fence(exchange))));
    let peer = machine.is_judged().then_some(PEER);
    let comparisons = [
        Comparison::new(0, "native", "raw").limit(OVERHEAD),
        Comparison { limit, ..Comparison::new(0, "bridge", "native") },
        Comparison { limit: peer, ..Comparison::new(0, "native", "fence") },
        Comparison { limit: peer, ..Comparison::new(0, "bridge", "fence") },
        Comparison::new(1, "bridge", "native"),
    ];
    recorder.measure(name, Effort::within(Duration::from_secs(2)), &QUANTITIES, &mut variants, &comparisons)
}

/// The second of two rounds: the first one's duration depends on the previous variant.
fn second(mut round: impl FnMut() -> Verdict<Elapsed>) -> Verdict<Vec<Option<f64>>> {
    round()?;
    let Elapsed { time, processor } = round()?;
    Ok([time, processor].map(|duration| Some(duration.as_secs_f64() * 1e9)).into())
}

/// A round with semaphores. `answer` is the stream's side: it enqueues a wait for the first value, the work with the
/// word, and a signal of the second value, and then calls its argument.
fn round<Follower>(
    exchange: &Exchange<'_>,
    counter: &Counter<Follower>,
    answer: impl FnOnce([u64; 2], u32, &dyn Fn() -> Verdict<Elapsed>) -> Verdict<Elapsed>,
) -> Verdict<Elapsed> {
    let word = exchange.next();
    let (given, answered) = (counter.next(), counter.next());
    let clock = Clock::start();
    let gives = exchange.side.give(word, Some((&counter.exported, given)))?;
    let elapsed = answer([given, answered], word, &|| {
        let takes = exchange.side.take(Some((&counter.exported, answered)))?;
        takes.wait()?;
        Ok(clock.elapsed())
    })?;
    gives.wait()?;
    exchange.check(word)?;
    Ok(elapsed)
}

fn with_library(exchange: &Exchange<'_>, counter: &LibraryCounter) -> Verdict<Elapsed> {
    round(exchange, counter, |[given, answered], word, then| {
        exchange.stream.wait_timeline(&counter.follower, given)?;
        exchange.copy()?;
        exchange.fill(word)?;
        exchange.stream.signal_timeline(&counter.follower, answered)?;
        then()
    })
}

/// The host waits for each side before it starts the other.
fn with_fence(exchange: &Exchange<'_>) -> Verdict<Elapsed> {
    let word = exchange.next();
    let clock = Clock::start();
    exchange.side.give(word, None)?.wait()?;
    exchange.copy()?;
    exchange.fill(word)?;
    exchange.stream.synchronize()?;
    exchange.side.take(None)?.wait()?;
    let elapsed = clock.elapsed();
    exchange.check(word)?;
    Ok(elapsed)
}
