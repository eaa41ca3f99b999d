//! A run: the measurements, their order, and the report.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Instant;

use chrono::{SubsecRound, Utc};
use clap::Args;
use globset::GlobMatcher;
use gpu_interop_conformance::{Stop, StopKind, Suite, Verdict};
use indicatif::{ProgressBar, ProgressStyle};

use crate::drivers::DriverArgs;
use crate::emulate;
use crate::exit_status::FAILED;
use crate::files::{check_writable, to_report_json, write_file};
use crate::filter::glob;
use crate::report::{Merged, Tool, html};

use super::frame::Frame;
use super::machine::Machine;
use super::record::Recorder;
use super::report::{BENCH_SCHEMA, BenchReport};
use super::{
    bandwidth, context_calls, frame, frame_ring, frame_wgpu, heap, live_imports, load, memory, semaphores, text,
    timeline, video,
};
use gpu_interop_conformance::ensure;

/// The options of `conformance bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The backend. Default: GPU_INTEROP_BACKEND, or the first with a device.
    #[arg(long)]
    backend: Option<String>,
    #[command(flatten)]
    pub(crate) drivers: DriverArgs,
    /// Only measurements with a matching name: load, context, memory.64KiB, memory.1MiB, memory.64MiB, memory.heap, signal.1,
    /// signal.8, signal.64, wait.1, wait.8, wait.64, bandwidth.256MiB, bandwidth.1GiB, live_imports;
    /// frame.graphics.1080p, frame.graphics.4K, frame.graphics.8K, frame.transfer.1080p, frame.transfer.4K,
    /// frame.transfer.8K, frame.ring.graphics.1080p, frame.ring.graphics.4K, frame.ring.transfer.1080p,
    /// frame.ring.transfer.4K, frame.wgpu.720p, frame.wgpu.4K; video.nv12, video.p010; timeline.round_trip.graphics,
    /// timeline.round_trip.transfer, timeline.round_trip.own, timeline.one_way.graphics, timeline.one_way.transfer,
    /// timeline.in_flight.graphics, timeline.in_flight.transfer, timeline.idle.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one HTML page without network resources.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A tenth of the time, imprecise: a smoke test.
    #[arg(long)]
    quick: bool,
    /// Fail if a ratio misses its limit, if none with a limit was measured, or if this machine lacks what a measurement
    /// needs.
    #[arg(long)]
    strict: bool,
}

type Measure = fn(&Machine, &mut Recorder, &str) -> Verdict;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// All measurements, in the order of the report.
const GROUPS: [(&str, Measure); 37] = [
    ("load", load::run),
    ("context", context_calls::run),
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
    ("frame.wgpu.720p", |machine, recorder, name| frame_wgpu::run(machine, recorder, name, frame_wgpu::Frame::P720)),
    ("frame.wgpu.4K", |machine, recorder, name| frame_wgpu::run(machine, recorder, name, frame_wgpu::Frame::K4)),
    ("video.nv12", video::nv12),
    ("video.p010", video::p010),
    ("timeline.round_trip.graphics", timeline::round_trip::graphics),
    ("timeline.round_trip.transfer", timeline::round_trip::transfer),
    ("timeline.round_trip.own", timeline::round_trip::own),
    ("timeline.one_way.graphics", timeline::one_way::graphics),
    ("timeline.one_way.transfer", timeline::one_way::transfer),
    ("timeline.in_flight.graphics", timeline::in_flight::graphics),
    ("timeline.in_flight.transfer", timeline::in_flight::transfer),
    ("timeline.idle", timeline::idle::run),
    ("live_imports", live_imports::run),
];

/// Measures, prints and writes the report, and returns the exit status.
pub(crate) fn run(suite: &Suite, args: &BenchArgs) -> Verdict<u8> {
    let (started, start) = (Utc::now().trunc_subsecs(0), Instant::now());
    let filter = args.filter.as_deref().map(glob).transpose()?;
    let groups = chosen(filter.as_ref())?;
    let backend = match args.drivers.backend(args.backend.as_deref())? {
        Some(name) => name,
        None => suite.default_backend()?.0,
    };
    let under_test = suite.backend(&backend)?;
    // Checked before the run rather than after it.
    for path in args.json.iter().chain(&args.html) {
        check_writable(path)?;
    }
    let machine = Machine::open(under_test)?;
    let mut report = BenchReport {
        schema: BENCH_SCHEMA,
        tool: Tool::this(),
        backend: machine.backend.info().clone(),
        emulated: emulate::detect(machine.backend.info()),
        device: machine.device.identity().clone(),
        exporter: machine.exporter(),
        started: Some(started),
        ratios: Vec::new(),
        measurements: Vec::new(),
        not_measured: Vec::new(),
        duration_us: 0,
    };
    crate::output::print(format_args!("{}", text::heading(&report)));
    let recorder = measure(&machine, &groups, args.quick);
    report.ratios = recorder.ratios;
    report.measurements = recorder.measurements;
    report.not_measured = recorder.not_measured;
    report.duration_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    crate::output::print(format_args!("{}", text::results(&report, std::io::stdout().is_terminal())));
    if let Some(path) = &args.json {
        write_file(path, &to_report_json(&report)?)?;
    }
    let status = status_of(&report, args.strict);
    if let Some(path) = &args.html {
        write_file(path, &html::render(&Merged::single_bench(report)))?;
    }
    status
}

fn chosen(filter: Option<&GlobMatcher>) -> Verdict<Vec<(&'static str, Measure)>> {
    let wanted = |(name, _): &(&str, Measure)| filter.is_none_or(|filter| filter.is_match(name));
    let groups: Vec<_> = GROUPS.into_iter().filter(wanted).collect();
    if groups.is_empty() {
        let names: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        return Err(Stop::failed(format!("--filter matches no measurement; there are: {}", names.join(", "))));
    }
    Ok(groups)
}

/// Measures one group after the other. An error in one does not stop the next.
fn measure(machine: &Machine, groups: &[(&'static str, Measure)], quick: bool) -> Recorder {
    let mut recorder = Recorder { quick, ..Recorder::default() };
    // Shows nothing unless standard error is a terminal.
    let bar = ProgressBar::new(groups.len() as u64);
    // A wrong template falls back to the default style.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
        bar.set_style(style);
    }
    for (name, measure) in groups {
        // Printed once and not redrawn: drawing would distort measurements.
        bar.set_message(*name);
        bar.tick();
        if let Err(stop) = measure(machine, &mut recorder, name) {
            recorder.skip(*name, stop);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    recorder
}

/// The exit status of a report.
fn status_of(report: &BenchReport, strict: bool) -> Verdict<u8> {
    if report.not_measured.iter().any(|gap| gap.stop.is_failure()) {
        return Ok(FAILED);
    }
    ensure!(!report.measurements.is_empty(), "nothing was measured, for the reasons above");
    if !strict {
        return Ok(0);
    }
    let judged: Vec<bool> = report.ratios.iter().filter_map(|ratio| ratio.holds).collect();
    ensure!(!judged.is_empty(), "--strict: no ratio with a limit was measured");
    // A missing package is a gap in the measurements; an unsupported feature is not.
    let gaps = report.not_measured.iter().filter(|gap| gap.stop.kind == StopKind::Skipped);
    let gaps: Vec<&str> = gaps.map(|gap| gap.what.as_str()).collect();
    ensure!(gaps.is_empty(), "--strict: not measured on this machine: {}", gaps.join(", "));
    Ok(if judged.contains(&false) { FAILED } else { 0 })
}

#[cfg(test)]
mod tests {
    use gpu_interop::{BackendInfo, DeviceIdentity};

    use super::super::{Limit, Measurement, NotMeasured, Ratio};
    use super::*;

    fn report(ratio: f64, stop: Option<Stop>) -> BenchReport {
        let measurement = Measurement {
            name: "signal.1".into(),
            variant: "library".into(),
            unit: "ns".into(),
            median: 1.0,
            p10: 1.0,
            p90: 1.0,
            samples: 1,
            left_out: None,
            on_busy_cores: None,
            series: Vec::new(),
        };
        BenchReport {
            schema: BENCH_SCHEMA,
            tool: Tool { name: "t".into(), version: "1".into() },
            backend: BackendInfo::new("b", "d"),
            emulated: None,
            device: DeviceIdentity::default(),
            exporter: None,
            started: None,
            ratios: vec![Ratio::new("r".into(), ratio, (ratio, ratio), Some(Limit::AtMost(1.02)))],
            measurements: vec![measurement],
            not_measured: stop.map(|stop| NotMeasured { what: "frame".into(), stop }).into_iter().collect(),
            duration_us: 1,
        }
    }

    #[test]
    fn a_missed_limit_fails_only_a_strict_run() {
        let unsupported = || Some(Stop::unsupported("no such queue".into()));
        assert_eq!(status_of(&report(1.01, unsupported()), true), Ok(0));
        assert_eq!(status_of(&report(1.03, None), false), Ok(0));
        assert_eq!(status_of(&report(1.03, None), true), Ok(FAILED));
        let unjudged = BenchReport { ratios: Vec::new(), ..report(1.0, None) };
        assert_eq!(status_of(&unjudged, false), Ok(0));
        assert!(status_of(&unjudged, true).is_err(), "nothing that could have missed a limit");
    }

    #[test]
    fn what_failed_and_what_measured_nothing_fail_every_run() {
        let failed = Stop::failed("the frame never arrived".into());
        assert_eq!(status_of(&report(1.0, Some(failed)), false), Ok(FAILED));
        let nothing = BenchReport { measurements: Vec::new(), ..report(1.0, None) };
        assert!(status_of(&nothing, false).is_err());
    }

    #[test]
    fn a_filter_that_matches_nothing_names_what_there_is() {
        let all = glob("memory.*").expect("a glob");
        let names: Vec<&str> = chosen(Some(&all)).expect("groups").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["memory.64KiB", "memory.1MiB", "memory.64MiB", "memory.heap"]);
        let stop = chosen(Some(&glob("nonsense").expect("a glob"))).expect_err("nothing matches");
        assert!(GROUPS.iter().all(|(name, _)| stop.reason().contains(name)), "{stop}");
    }

    /// The help text of `--filter` lists the groups.
    #[test]
    fn the_help_names_every_group() {
        let command = BenchArgs::augment_args(clap::Command::new("bench"));
        let help = command.get_arguments().find(|argument| argument.get_id() == "filter").and_then(clap::Arg::get_help);
        let help = help.expect("help").to_string();
        assert!(GROUPS.iter().all(|(name, _)| help.contains(name)), "{help}");
    }
}
