//! Timelines: one counter shared by streams and the exporter, with each strategy.
//!
//! If a device has no timeline semaphores, the strategy `native` is unsupported with the reason; the bridge is
//! available wherever a stream can wait for a word in memory.

pub(super) mod dropped;
pub(super) mod failure;
pub(super) mod misuse;
pub(super) mod order;
pub(super) mod process;
pub(super) mod reset;
pub(super) mod stress;

use std::sync::Arc;

use gpu_interop::{Device, Error, ErrorKind, ExporterTimeline, Feature, Stream, Timeline, TimelineStrategy};

use super::expect_error;
use crate::context::Context;
use crate::exporter::Point;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::pattern::Pattern;

/// As `scenarios!` with every exporter, each scenario once for each strategy: `timeline.<id>.native` and
/// `timeline.<id>.bridge`. The table may begin with the requirements of each, `native need [...], bridge need [...];`.
macro_rules! by_strategy {
    (native need $native:tt, bridge need $bridge:tt;
        $( $id:literal, $purpose:literal, $run:ident $(, $option:ident $(($value:expr))?)*; )+) => {
        crate::scenario::scenarios! { $(
            concat!("timeline.", $id, ".native"), Any, $purpose, $run::<super::Native>,
                needs $native, signals_by_host $(, $option $(($value))?)*;
            concat!("timeline.", $id, ".bridge"), Any, $purpose, $run::<super::Bridge>,
                needs $bridge, signals_by_host $(, $option $(($value))?)*;
        )+ }
    };
    ($($rows:tt)+) => {
        super::by_strategy! { native need [native timelines], bridge need [bridged timelines, word waits]; $($rows)+ }
    };
}
use by_strategy;

trait Strategy {
    const STRATEGY: TimelineStrategy;
}

/// The driver imports the exporter's timeline.
struct Native;

/// A host thread carries the values.
struct Bridge;

impl Strategy for Native {
    const STRATEGY: TimelineStrategy = TimelineStrategy::Native;
}

impl Strategy for Bridge {
    const STRATEGY: TimelineStrategy = TimelineStrategy::HostBridge;
}

/// Both sides of a timeline.
struct Shared {
    exporter: Arc<dyn ExporterTimeline>,
    device: Timeline,
}

impl Shared {
    /// A timeline of the exporter, shared with the context's device.
    fn new<S: Strategy>(context: &Context, value: u64) -> Verdict<Self> {
        Self::with::<S>(context.device(), context.exporter()?.timeline(value)?)
    }

    fn with<S: Strategy>(device: &Device, exporter: Arc<dyn ExporterTimeline>) -> Verdict<Self> {
        need::<S>(device, &*exporter)?;
        need_waits(device, S::STRATEGY)?;
        Self::without_waits::<S>(device, exporter)
    }

    /// Available even if no stream can wait for a value that has not been reached.
    fn without_waits<S: Strategy>(device: &Device, exporter: Arc<dyn ExporterTimeline>) -> Verdict<Self> {
        need::<S>(device, &*exporter)?;
        let timeline = Timeline::with_strategy(device, exporter.clone(), S::STRATEGY)?;
        crate::ensure_eq!(timeline.strategy(), S::STRATEGY, "the strategy of a timeline");
        Ok(Self { exporter, device: timeline })
    }

    fn at(&self, value: u64) -> Point<'_> {
        Point { timeline: &self.exporter, value }
    }
}

/// Stops as unsupported unless a device shares timelines with this strategy.
fn need<S: Strategy>(device: &Device, exporter: &dyn ExporterTimeline) -> Verdict {
    let (capabilities, kind) = (device.capabilities(), exporter.handle_kind());
    let support = match (S::STRATEGY, kind) {
        (TimelineStrategy::Native, None) => {
            return Err(Stop::unsupported("the exporter has no timelines that can be exported".into()));
        }
        (TimelineStrategy::Native, Some(kind)) => capabilities.semaphore(kind),
        _ => capabilities.timeline(None),
    };
    unless(support.reason(), "this strategy")
}

/// Stops as unsupported unless streams can wait for values that have not been reached.
pub(super) fn need_waits(device: &Device, strategy: TimelineStrategy) -> Verdict {
    let wide = device.capabilities().feature(Feature::StreamMemoryOperations64);
    if strategy == TimelineStrategy::Native || wide.is_supported() {
        return Ok(());
    }
    unless(device.capabilities().feature(Feature::StreamMemoryOperations32).reason(), "streams that wait for a word")
}

fn unless(reason: Option<&str>, what: &str) -> Verdict {
    reason.map_or(Ok(()), |reason| Err(Stop::unsupported(format!("{what}: {reason}"))))
}

/// Waits for a stream that was released from a failed timeline, and returns its error. Its late signals decrease the
/// timeline or fail, depending on the driver.
fn let_go(stream: &Stream) -> Verdict<Error> {
    let cancelled = || match stream.synchronize_timeout(WAIT_TIMEOUT) {
        Err(error) if error.kind() == ErrorKind::InvalidArgument => stream.synchronize_timeout(WAIT_TIMEOUT),
        synchronized => synchronized,
    };
    expect_error(cancelled(), ErrorKind::Cancelled, "a stream whose wait was released by a failure")
}

fn of_turn(context: &Context, turn: u64) -> Pattern {
    Pattern::new(context.pattern().seed() ^ u32::try_from(turn).unwrap_or(0))
}
