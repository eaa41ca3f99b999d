//! Timelines: calls of the driver, failures and lifetimes.

mod bridge;
mod exporter;
mod failure;
mod lifetime;
mod native;
mod polled;

use std::sync::Arc;
use std::time::Duration;

use self::exporter::{Behaviour, Exporter};
use super::recorder::{Call, Recorder, everything, gpu};
use super::{assert_error, assert_invalid, open, open_on};
use crate::capability::{Capabilities, Feature, Support};
use crate::object::{Device, Stream, Timeline};
use crate::timeline::TimelineStrategy;

const LONG: Duration = Duration::from_secs(20);

/// A device without these features.
fn open_without(features: &[Feature]) -> (Arc<Recorder>, Device) {
    let lacks = |all: Capabilities, feature: &Feature| all.with_feature(*feature, Support::no("injected by the test"));
    open_on(Recorder::with_capabilities(gpu(1), features.iter().fold(everything(), lacks)))
}

fn bridged(device: &Device, exporter: &Exporter) -> Timeline {
    Timeline::with_strategy(device, exporter.private(), TimelineStrategy::HostBridge).expect("a timeline")
}

/// A device, a timeline over a bridge, and a stream.
fn bridged_timeline() -> (Arc<Recorder>, Exporter, Timeline, Stream) {
    let (recorder, device) = open();
    let (exporter, timeline, stream) = bridged_timeline_on(&recorder, &device);
    (recorder, exporter, timeline, stream)
}

fn bridged_timeline_on(recorder: &Recorder, device: &Device) -> (Exporter, Timeline, Stream) {
    let exporter = Exporter::default();
    let (timeline, stream) = (bridged(device, &exporter), device.create_stream().expect("stream"));
    recorder.forget_calls();
    (exporter, timeline, stream)
}

/// Calls that enqueue work or allocate, without queries.
fn work(recorder: &Recorder) -> Vec<Call> {
    let is_query = |call: &Call| matches!(call, Call::QueryStream(_) | Call::QueryEvent(_));
    recorder.calls().into_iter().filter(|call| !is_query(call)).collect()
}
