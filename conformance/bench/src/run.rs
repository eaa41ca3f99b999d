//! A run: the measurements, their order, and the report.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use chrono::{SubsecRound, Utc};
use gpu_interop::BackendInfo;
use gpu_interop_conformance::{BackendUnderTest, Emulated, Tool, Verdict};

use crate::frame::Frame;
use crate::machine::Machine;
use crate::record::Recorder;
use crate::report::{BENCH_SCHEMA, BenchReport};
use crate::{bandwidth, convert, feed, frame, frame_ring, heap, in_flight, load, memory, semaphores, timeline, video};

type Measure = fn(&Machine, &mut Recorder, &str) -> Verdict;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[cfg(feature = "wgpu")]
const WGPU_FRAMES: [Measure; 2] = [crate::frame_wgpu::frame_720p, crate::frame_wgpu::frame_4k];
#[cfg(not(feature = "wgpu"))]
const WGPU_FRAMES: [Measure; 2] = [no_wgpu; 2];

/// All measurements, in the order of the report. A static, so that they are compiled in this crate, with its optimisation: the
/// functions that a constant names are compiled where it is used.
static GROUPS: [(&str, Measure); 41] = [
    ("load", load::run),
    ("context", semaphores::context),
    ("memory.64KiB", |machine, recorder, name| memory::run(machine, recorder, name, 64 * KIB)),
    ("memory.1MiB", |machine, recorder, name| memory::run(machine, recorder, name, MIB)),
    ("memory.64MiB", |machine, recorder, name| memory::run(machine, recorder, name, 64 * MIB)),
    ("memory.heap", heap::run),
    ("signal.1", semaphores::signals::<1>),
    ("signal.8", semaphores::signals::<8>),
    ("signal.64", semaphores::signals::<64>),
    ("wait.1", semaphores::waits::<1>),
    ("wait.8", semaphores::waits::<8>),
    ("wait.64", semaphores::waits::<64>),
    ("bandwidth.256MiB", |machine, recorder, name| bandwidth::run(machine, recorder, name, 256 * MIB)),
    ("bandwidth.1GiB", |machine, recorder, name| bandwidth::run(machine, recorder, name, 1024 * MIB)),
    ("frame.graphics.1080p", |machine, recorder, name| frame::graphics(machine, recorder, name, Frame::P1080)),
    ("frame.graphics.4K", |machine, recorder, name| frame::graphics(machine, recorder, name, Frame::K4)),
    ("frame.graphics.8K", |machine, recorder, name| frame::graphics(machine, recorder, name, Frame::K8)),
    ("frame.transfer.1080p", |machine, recorder, name| frame::transfer(machine, recorder, name, Frame::P1080)),
    ("frame.transfer.4K", |machine, recorder, name| frame::transfer(machine, recorder, name, Frame::K4)),
    ("frame.transfer.8K", |machine, recorder, name| frame::transfer(machine, recorder, name, Frame::K8)),
    ("frame.ring.graphics.1080p", |machine, recorder, name| {
        frame_ring::graphics(machine, recorder, name, Frame::P1080)
    }),
    ("frame.ring.graphics.4K", |machine, recorder, name| frame_ring::graphics(machine, recorder, name, Frame::K4)),
    ("frame.ring.transfer.1080p", |machine, recorder, name| {
        frame_ring::transfer(machine, recorder, name, Frame::P1080)
    }),
    ("frame.ring.transfer.4K", |machine, recorder, name| frame_ring::transfer(machine, recorder, name, Frame::K4)),
    ("frame.wgpu.720p", WGPU_FRAMES[0]),
    ("frame.wgpu.4K", WGPU_FRAMES[1]),
    ("video.nv12", video::nv12),
    ("video.p010", video::p010),
    ("feed.rgba8", feed::rgba8),
    ("feed.nv12", feed::nv12),
    ("convert.nv12", convert::nv12),
    ("convert.p010", convert::p010),
    ("timeline.round_trip.graphics", timeline::round_trip::graphics),
    ("timeline.round_trip.transfer", timeline::round_trip::transfer),
    ("timeline.round_trip.own", timeline::round_trip::own),
    ("timeline.one_way.graphics", timeline::one_way::graphics),
    ("timeline.one_way.transfer", timeline::one_way::transfer),
    ("timeline.in_flight.graphics", in_flight::graphics),
    ("timeline.in_flight.transfer", in_flight::transfer),
    ("timeline.idle", timeline::idle::run),
    ("live_imports", memory::live_imports),
];

/// The names of all measurements, in the order of the report.
pub fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, _)| *name)
}

/// A run of measurements on one machine.
pub struct Bench {
    machine: Machine,
    report: BenchReport,
    start: Instant,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("report", &self.report).finish_non_exhaustive()
    }
}

impl Bench {
    /// Opens the first device of the backend, and the same device in Vulkan and other bindings, if they are there.
    /// `emulation` detects an emulated driver below a loaded backend.
    ///
    /// # Errors
    /// If the backend or its device cannot be opened.
    pub fn open(
        under_test: &Arc<BackendUnderTest>,
        emulation: impl FnOnce(&BackendInfo) -> Option<Emulated>,
    ) -> Verdict<Self> {
        let (started, start) = (Utc::now().trunc_subsecs(0), Instant::now());
        let machine = Machine::open(under_test)?;
        let info = machine.backend.info();
        let report = BenchReport {
            schema: BENCH_SCHEMA,
            tool: Tool::this(),
            backend: info.clone(),
            emulated: emulation(info),
            device: machine.device.identity().clone(),
            exporter: machine.exporter(),
            started: Some(started),
            ratios: Vec::new(),
            measurements: Vec::new(),
            not_measured: Vec::new(),
            duration_us: 0,
        };
        Ok(Self { machine, report, start })
    }

    /// The report before the measurements: the machine.
    #[must_use]
    pub fn report(&self) -> &BenchReport {
        &self.report
    }

    /// Makes the chosen measurements one after the other, and returns the report. An error in one does not stop the next.
    /// `quick` takes a tenth of the time, and is imprecise. `before` is called with the name of each.
    #[must_use]
    pub fn measure(
        self,
        chosen: impl Fn(&str) -> bool,
        quick: bool,
        mut before: impl FnMut(&'static str),
    ) -> BenchReport {
        let Self { machine, mut report, start } = self;
        let mut recorder = Recorder { quick, ..Recorder::default() };
        for &(name, measure) in GROUPS.iter().filter(|(name, _)| chosen(name)) {
            before(name);
            if let Err(stop) = measure(&machine, &mut recorder, name) {
                recorder.skip(name, stop);
            }
        }
        report.ratios = recorder.ratios;
        report.measurements = recorder.measurements;
        report.not_measured = recorder.not_measured;
        report.duration_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        report
    }
}

#[cfg(not(feature = "wgpu"))]
fn no_wgpu(_: &Machine, _: &mut Recorder, _: &str) -> Verdict {
    let reason = "this command was built without wgpu; build it with `--features gpu-interop-conformance-cli/wgpu`";
    Err(gpu_interop_conformance::Stop::unsupported(reason.into()))
}
