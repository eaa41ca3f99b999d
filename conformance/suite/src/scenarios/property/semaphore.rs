//! Random batches of signals and waits.

use std::time::Duration;

use gpu_interop::{ErrorKind, ExternalSemaphore, Stream};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::semaphore_misuse::{import_timeline, need_batches};
use super::check;
use crate::scenario::scenarios;
use crate::{Context, ExportedSemaphore, PATIENCE, Stop, Verdict, ensure_eq};

scenarios! {
    "property.semaphores", Any,
        "Random batches of signals and waits: valid batches reach the values of a model, and malformed ones are rejected \
         whole.",
        semaphores, needs [shared timelines];
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
        stream.synchronize_timeout(PATIENCE).map_err(|error| {
            Stop::failed(format!("a wait for a value that was signalled is not met: {error}")).with_error(&error)
        })?;
        for ((exported, _), value) in shared.iter().zip(values) {
            ensure_eq!(exported.wait(value, PATIENCE)?, true, "whether the exporter sees {value}, of {values:?}");
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
