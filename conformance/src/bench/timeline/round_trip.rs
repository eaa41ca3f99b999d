//! From the exporter to a stream and back.
//!
//! A round: the exporter fills memory of its own with a new word, copies that to the shared memory, and signals. The
//! stream waits, copies the words within the shared memory, fills another part with their complement, and signals. The
//! exporter waits, and fetches what the stream wrote. All is enqueued at once; the host waits for the end only, and
//! finds the word in the stream's copy and its complement beside it: so the stream saw the exporter's data, and the
//! exporter the stream's.

use std::cell::Cell;
use std::time::Duration;

use gpu_interop::{BufferSlice, Stream};

use super::counter::{Counter, LibraryCounter, RawCounter};
use super::exporter::Peer;
use super::side::{ALL, OwnSide, PART, Side, VulkanSide};
use crate::bench::clock::{Clock, Elapsed};
use crate::bench::machine::{Machine, PATIENCE};
use crate::bench::record::{Comparison, Quantity, Recorder, TIME};
use crate::bench::report::Limit;
use crate::bench::rounds::{Effort, Variant};
use crate::bench::sys::{Answer, SemaphoreBatch};
use crate::ensure_eq;
use crate::outcome::Verdict;

/// What a round takes, and what this process computes meanwhile, on all threads.
const QUANTITIES: [Quantity; 2] = [TIME, Quantity { suffix: ".cpu", unit: "ns" }];
const OVERHEAD: Limit = Limit::AtMost(1.02);

/// With Vulkan's graphics queue.
pub(in crate::bench) fn graphics(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, &VulkanSide::new(machine.graphics_queue()?)?, Some(Limit::AtMost(1.2)))
}

/// With a queue of Vulkan that only copies.
pub(in crate::bench) fn transfer(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, &VulkanSide::new(machine.transfer_queue()?)?, Some(Limit::AtMost(2.0)))
}

/// With the backend's own semaphores, on both sides.
pub(in crate::bench) fn own(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let peer = Peer::open(machine)?;
    run(machine, recorder, name, &OwnSide::new(&peer)?, None)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, side: &dyn Side, limit: Option<Limit>) -> Verdict {
    let shared = machine.device.import_memory(side.memory()?)?.map_buffer(0, ALL)?;
    let trips = &Trips {
        side,
        stream: &machine.stream,
        there: shared.slice(..PART)?,
        copy: shared.slice(PART..2 * PART)?,
        back: shared.slice(2 * PART..)?,
        number: Cell::new(0),
    };
    let exporter = side.exporter();
    let native = LibraryCounter::native(machine, exporter);
    let bridge = LibraryCounter::bridge(machine, exporter);
    let by_hand = RawCounter::raw(machine, exporter);
    let mut variants = Vec::new();
    let native = recorder.side("every native variant", &native);
    if let (Some(raw), Ok(counter)) = (recorder.side("every raw variant", &machine.raw), &by_hand) {
        let mut batch = SemaphoreBatch::new(counter.follower.semaphores())?;
        variants.push(Variant::new("raw", move || {
            second(|| {
                trips.round(counter, |values, word, then| {
                    raw.answer(counter.follower.stream(), &mut batch, values, &trips.answer(word), then)
                })
            })
        }));
    }
    if let Some(counter) = native {
        variants.push(Variant::new("native", || second(|| trips.with_library(counter))));
    }
    if let Some(counter) = recorder.side("every bridge variant", &bridge) {
        variants.push(Variant::new("bridge", || second(|| trips.with_library(counter))));
    }
    variants.push(Variant::new("fence", || second(|| trips.with_fence())));
    let comparisons = [
        Comparison::new(0, "native", "raw").limit(OVERHEAD),
        Comparison { limit, ..Comparison::new(0, "bridge", "native") },
        Comparison::new(0, "fence", "native"),
        Comparison::new(1, "bridge", "native"),
    ];
    recorder.measure(name, Effort::within(Duration::from_secs(2)), &QUANTITIES, &mut variants, &comparisons)?;
    machine.stream.synchronize_timeout(PATIENCE)?;
    Ok(())
}

/// Of two rounds the second: how long the first takes depends on the variant that had its turn before.
fn second(mut round: impl FnMut() -> Verdict<Elapsed>) -> Verdict<Vec<Option<f64>>> {
    round()?;
    let Elapsed { time, processor } = round()?;
    Ok(vec![Some(time.as_secs_f64() * 1e9), Some(processor.as_secs_f64() * 1e9)])
}

/// The rounds of one exporter.
struct Trips<'a> {
    side: &'a dyn Side,
    stream: &'a Stream,
    there: BufferSlice<'a>,
    copy: BufferSlice<'a>,
    back: BufferSlice<'a>,
    /// The word of the latest round.
    number: Cell<u32>,
}

impl<'a> Trips<'a> {
    /// A round by semaphores. `answer` is the stream's part: it enqueues a wait for the first value, the work with the
    /// word, and a signal of the second value, and then calls what it is given.
    fn round<Follower>(
        &self,
        counter: &Counter<Follower>,
        answer: impl FnOnce([u64; 2], u32, &dyn Fn() -> Verdict<Elapsed>) -> Verdict<Elapsed>,
    ) -> Verdict<Elapsed> {
        let word = self.next();
        let (given, answered) = (counter.next(), counter.next());
        let clock = Clock::start();
        let gives = self.side.give(word, Some((&counter.exported, given)))?;
        let elapsed = answer([given, answered], word, &|| {
            let takes = self.side.take(Some((&counter.exported, answered)))?;
            takes.wait()?;
            Ok(clock.elapsed())
        })?;
        gives.wait()?;
        self.check(word)?;
        Ok(elapsed)
    }

    fn with_library(&self, counter: &LibraryCounter) -> Verdict<Elapsed> {
        self.round(counter, |[given, answered], word, then| {
            self.stream.wait_timeline(&counter.follower, given)?;
            self.enqueue(word)?;
            self.stream.signal_timeline(&counter.follower, answered)?;
            then()
        })
    }

    /// The host waits for each side before it tells the other to begin.
    fn with_fence(&self) -> Verdict<Elapsed> {
        let word = self.next();
        let clock = Clock::start();
        self.side.give(word, None)?.wait()?;
        self.enqueue(word)?;
        self.stream.synchronize()?;
        self.side.take(None)?.wait()?;
        let elapsed = clock.elapsed();
        self.check(word)?;
        Ok(elapsed)
    }

    /// The stream's work.
    fn enqueue(&self, word: u32) -> Verdict {
        self.stream.copy(self.copy, self.there)?;
        Ok(self.stream.fill_u32(self.back, !word)?)
    }

    /// The same for the driver.
    fn answer(&self, word: u32) -> Answer<'a> {
        Answer { copy: (self.copy, self.there), fill: Some((self.back, !word)) }
    }

    fn next(&self) -> u32 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    fn check(&self, word: u32) -> Verdict {
        ensure_eq!(self.side.fetched()?, [word, word, !word, !word], "what came back from the stream");
        Ok(())
    }
}
