//! Timelines for the tests of the host backend.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_core::{Device, ExporterTimeline, Result, Stream, Timeline, TimelineStrategy};
use gpu_interop_host::{HostBackend, HostSemaphore};

pub(crate) const LONG: Duration = Duration::from_secs(20);
pub(crate) const BOTH: [TimelineStrategy; 2] = [TimelineStrategy::Native, TimelineStrategy::HostBridge];

pub(crate) fn device() -> Device {
    Device::open(&HostBackend::new(), 0).expect("the CPU")
}

/// A timeline that begins at `value`, with its exporter.
pub(crate) fn timeline(device: &Device, strategy: TimelineStrategy, value: u64) -> (HostSemaphore, Timeline) {
    let exporter = HostSemaphore::timeline(value).expect("create");
    let timeline = Timeline::with_strategy(device, Arc::new(exporter.clone()), strategy).expect("a timeline");
    assert_eq!(timeline.strategy(), strategy);
    (exporter, timeline)
}

/// A device with a timeline as of [`timeline`], and a stream.
pub(crate) fn open(strategy: TimelineStrategy, value: u64) -> (Device, HostSemaphore, Timeline, Stream) {
    let device = device();
    let (exporter, timeline) = timeline(&device, strategy, value);
    let stream = device.create_stream().expect("a stream");
    (device, exporter, timeline, stream)
}

/// Exporter that exports nothing and has no waiter for several timelines, like most exporters of other crates.
#[derive(Debug)]
pub(crate) struct Plain(pub(crate) HostSemaphore);

impl ExporterTimeline for Plain {
    fn value(&self) -> Result<u64> {
        Ok(self.0.value())
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.0.signal_value(value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.0.wait_value(value, timeout)
    }
}
