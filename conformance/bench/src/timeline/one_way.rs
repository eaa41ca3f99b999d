//! Each direction alone: the latency of a side that is already waiting.
//!
//! `to_stream`: from the exporter's submission until the host sees that the waiting stream has copied the
//! exporter's data. `to_exporter`: from the stream's work until the host sees that the exporter's waiting submission
//! has read it. Both include the work of a round trip and a host wait, so their sum is
//! more than a round trip.
//!
//! The waiting side has waited for 100 µs, a time that a bridge has learned and spins at its end. With `_after_5ms`
//! it has waited for 5 ms, as for a slow frame that the bridge did not expect: it sleeps by then, until the
//! exporter's driver wakes it or it polls the stream's word again.

use std::time::{Duration, Instant};

use gpu_interop_conformance::Verdict;

use super::LibraryCounter;
use super::exchange::{Exchange, Side, VulkanSide};
use crate::machine::Machine;
use crate::record::{Comparison, Quantity, Recorder};
use crate::rounds::{Effort, Variant};

const QUANTITIES: [Quantity; 2] =
    [Quantity { suffix: ".to_stream", unit: "ns" }, Quantity { suffix: ".to_exporter", unit: "ns" }];
const LATE_QUANTITIES: [Quantity; 2] = [
    Quantity { suffix: ".to_stream_after_5ms", unit: "ns" },
    Quantity { suffix: ".to_exporter_after_5ms", unit: "ns" },
];
/// The waiting time before the other side starts.
const AHEAD: Duration = Duration::from_micros(100);
/// Much longer than a bridge spins.
const FAR_AHEAD: Duration = Duration::from_millis(5);

pub(crate) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, &VulkanSide::new(machine.graphics_queue()?)?)
}

pub(crate) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, &VulkanSide::new(machine.transfer_queue()?)?)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, side: &dyn Side) -> Verdict {
    let exchange = &Exchange::new(machine, side)?;
    let native = LibraryCounter::native(machine, side.exporter());
    let bridge = LibraryCounter::bridge(machine, side.exporter());
    let (mut variants, mut late) = (Vec::new(), Vec::new());
    if let Some(counter) = recorder.side("every native variant", &native) {
        variants.push(Variant::new("native", || second(|| with_library(exchange, counter, AHEAD))));
        late.push(Variant::new("native", || nanoseconds(with_library(exchange, counter, FAR_AHEAD)?)));
    }
    if let Some(counter) = recorder.side("every bridge variant", &bridge) {
        variants.push(Variant::new("bridge", || second(|| with_library(exchange, counter, AHEAD))));
        late.push(Variant::new("bridge", || nanoseconds(with_library(exchange, counter, FAR_AHEAD)?)));
    }
    variants.push(Variant::new("fence", || second(|| with_fence(exchange))));
    let compare = |quantity| [("bridge", "native"), ("fence", "native")].map(|(a, b)| Comparison::new(quantity, a, b));
    let comparisons = [compare(0), compare(1)].concat();
    recorder.measure(name, Effort::within(Duration::from_secs(1)), &QUANTITIES, &mut variants, &comparisons)?;
    // Few rounds: each waits twice.
    let comparisons = [0, 1].map(|quantity| Comparison::new(quantity, "bridge", "native"));
    recorder.measure(name, Effort::within(Duration::from_millis(400)), &LATE_QUANTITIES, &mut late, &comparisons)
}

/// The second of two rounds, as in a round trip.
fn second(mut round: impl FnMut() -> Verdict<[Duration; 2]>) -> Verdict<Vec<Option<f64>>> {
    round()?;
    nanoseconds(round()?)
}

fn nanoseconds(durations: [Duration; 2]) -> Verdict<Vec<Option<f64>>> {
    Ok(durations.map(|duration| Some(duration.as_secs_f64() * 1e9)).into())
}

fn with_library(exchange: &Exchange<'_>, counter: &LibraryCounter, ahead: Duration) -> Verdict<[Duration; 2]> {
    let (word, stream) = (exchange.next(), exchange.stream);
    let (given, answered) = (counter.next(), counter.next());
    stream.wait_timeline(&counter.follower, given)?;
    exchange.copy()?;
    std::thread::sleep(ahead);
    let start = Instant::now();
    let gives = exchange.side.give(word, Some((&counter.exported, given)))?;
    stream.synchronize()?;
    let to_stream = start.elapsed();
    gives.wait()?;

    let takes = exchange.side.take(Some((&counter.exported, answered)))?;
    std::thread::sleep(ahead);
    let start = Instant::now();
    exchange.fill(word)?;
    stream.signal_timeline(&counter.follower, answered)?;
    takes.wait()?;
    let to_exporter = start.elapsed();
    exchange.check(word)?;
    Ok([to_stream, to_exporter])
}

/// Neither side waits in advance: the host starts each.
fn with_fence(exchange: &Exchange<'_>) -> Verdict<[Duration; 2]> {
    let word = exchange.next();
    let start = Instant::now();
    exchange.side.give(word, None)?.wait()?;
    exchange.copy()?;
    exchange.stream.synchronize()?;
    let to_stream = start.elapsed();

    let start = Instant::now();
    exchange.fill(word)?;
    exchange.stream.synchronize()?;
    exchange.side.take(None)?.wait()?;
    let to_exporter = start.elapsed();
    exchange.check(word)?;
    Ok([to_stream, to_exporter])
}
