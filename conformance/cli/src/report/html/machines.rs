//! The machines of a page.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use gpu_interop::BackendInfo;
use gpu_interop_conformance::Stop;
use maud::{Markup, html};

use super::cases::kernel;
use super::run::{Run, bar, counts, tally};
use crate::evidence::Host;
use crate::output::counted;
use crate::report::{Emulated, text};
use gpu_interop_conformance_bench::BenchReport;

/// A card for each report.
pub(super) fn section(runs: &[Run<'_>]) -> Markup {
    html! {
        section aria-labelledby="runs" {
            h2 id="runs" { "What ran where" }
            div class="cards" { @for run in runs { (card(*run)) } }
        }
    }
}

fn card(run: Run<'_>) -> Markup {
    let report = run.report;
    let took = std::time::Duration::from_micros(report.duration_us);
    html! {
        article class="card" {
            h3 {
                span class="number" { (run.number) } " "
                (report.backend.name) " · " (report.device.name) (mark(&report.backend, &report.emulated))
            }
            @let tally = tally(report.results.iter());
            (bar(&tally))
            p class="counts" { (counts(&tally)) }
            @if let Some(emulated) = &report.emulated { p { (emulated) } }
            dl {
                dt { "driver" } dd { (report.backend.driver) }
                @if let Some(library) = &report.backend.library { dt { "library" } dd { (library.display()) } }
                dt { "device" } dd { (report.device) }
                @for exporter in &report.exporters {
                    dt { (exporter.name) }
                    dd {
                        @match (&exporter.available, &exporter.stop) {
                            (Some(detail), _) => { (detail.driver) " (" (detail.device.name) ")" }
                            (None, stop) => { "not used: " (stop.as_ref().map_or("no reason", Stop::reason)) }
                        }
                    }
                }
                @if let Some(host) = &report.host { (of_host(host)) }
                dt { "run" }
                dd { (counted(report.results.len(), "scenario")) " in " (format!("{took:.1?}")) ", " (text::seeds(report)) }
                @if let Some(started) = report.started { dt { "began" } dd { (date(started)) } }
                @if let Some(list) = &report.cases { dt { "cases" } dd { (list.name) ", SHA-256 " code { (list.sha256) } } }
                @if let Some(shard) = &report.shard { dt { "shard" } dd { (shard.index) " of " (shard.count) } }
                @if !report.shards.is_empty() {
                    dt { "shards" }
                    dd { ul { @for shard in &report.shards { li { (shard.index) ": " (shard.device) } } } }
                }
                @for time in &report.resumed { dt { "continued" } dd { (date(*time)) } }
                @if let Some(stopped) = &report.stopped { dt { "stopped" } dd { (stopped) } }
                dt { "made by" } dd { (report.tool.name) " " (report.tool.version) }
                @if !run.source.is_empty() { dt { "report" } dd { (run.source) } }
            }
            @if !report.kernel_log.is_empty() {
                details {
                    summary { (counted(report.kernel_log.len(), "message")) " of the kernel" }
                    (kernel(&report.kernel_log))
                }
            }
        }
    }
}

/// The computer.
fn of_host(host: &Host) -> Markup {
    let list = |all: &BTreeMap<String, String>| {
        all.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
    };
    let system = [host.distribution.as_deref(), host.kernel.as_deref()].into_iter().flatten().collect::<Vec<_>>();
    html! {
        dt { "system" } dd { (host.os) " on " (host.architecture) @for part in system { ", " (part) } }
        @if let Some(container) = &host.container { dt { "container" } dd { (container) } }
        @if let Some(processor) = &host.processor { dt { "processor" } dd { (processor) ", " (counted(host.cores, "core")) } }
        @if !host.kernel_modules.is_empty() { dt { "modules" } dd { (list(&host.kernel_modules)) } }
        @if let Some(gpu) = &host.gpu {
            dt { "GPU" }
            dd {
                (gpu.sensors)
                @if let Some(firmware) = &gpu.firmware { ", firmware " (firmware) }
                @if gpu.ecc == Some(true) { ", ECC" }
                @if gpu.mig == Some(true) { ", MIG" }
            }
        }
        @if !host.packages.is_empty() {
            dt { "packages" }
            dd { details { summary { (host.packages.len()) } (list(&host.packages)) } }
        }
    }
}

fn date(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The mark of a run without a vendor's driver and hardware.
pub(super) fn mark(backend: &BackendInfo, emulated: &Option<Emulated>) -> Markup {
    let about = match emulated {
        Some(emulated) if !backend.simulated => emulated.to_string(),
        _ => "This run says nothing about a vendor's driver.".into(),
    };
    html! {
        @if let Some(mark) = text::mark(backend, emulated.as_ref()) {
            " " strong class="simulated" title=(about) { (mark) }
        }
    }
}

/// The device and driver of a measurement.
pub(super) fn of_bench(report: &BenchReport, source: &str) -> Markup {
    let took = std::time::Duration::from_micros(report.duration_us);
    html! {
        @if let Some(emulated) = &report.emulated { p { (emulated) } }
        dl {
            dt { "driver" } dd { (report.backend.driver) }
            dt { "device" } dd { (report.device) }
            @if let Some(exporter) = &report.exporter { dt { "Vulkan" } dd { (exporter.driver) } }
            dt { "run" } dd { (counted(report.measurements.len(), "measurement")) " in " (format!("{took:.1?}")) }
            @if let Some(started) = report.started { dt { "began" } dd { (date(started)) } }
            @if !source.is_empty() { dt { "report" } dd { (source) } }
        }
    }
}
