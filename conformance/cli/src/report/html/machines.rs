//! The machines of a page: their drivers and devices, their matrix with the groups of scenarios, and their capabilities.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use gpu_interop::BackendInfo;
use gpu_interop_conformance::{Outcome, Stop};
use gpu_interop_conformance_bench::BenchReport;
use maud::{Markup, html};
use serde_json::Value;

use super::cases::kernel;
use super::{Run, bar, cell, counts, groups, in_order, machines, sign, tally, words};
use crate::evidence::Host;
use crate::output::counted;
use crate::report::{Emulated, text};

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

/// One row a group, one column a report.
pub(super) fn matrix(runs: &[Run<'_>]) -> Markup {
    html! {
        section aria-labelledby="matrix" {
            h2 id="matrix" { "Groups of scenarios" }
            div class="wide" role="region" aria-labelledby="matrix" tabindex="0" {
                table class="matrix" {
                    thead {
                        tr {
                            th scope="col" { "group" }
                            @for run in runs { th scope="col" { (heading(*run)) } }
                        }
                    }
                    tbody {
                        @for group in groups(runs) {
                            tr {
                                th scope="row" { a href={ "#group-" (group) } { (group) } }
                                @for run in runs { (cell(&tally(run.group(group)))) }
                            }
                        }
                    }
                }
            }
            details class="group" {
                summary { h3 { "What the outcomes mean" } }
                dl class="meanings" {
                    @for outcome in Outcome::ALL {
                        dt { span class={ "chip " (outcome) } { (sign(outcome)) " " (words(outcome)) } }
                        dd { (meaning(outcome)) }
                    }
                }
            }
        }
    }
}

fn meaning(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "Everything that the scenario checks held.",
        Outcome::Failed => "Something that it checks did not hold.",
        Outcome::Crashed => "Its process crashed.",
        Outcome::TimedOut => "It did not end in time.",
        Outcome::UnexpectedPass => {
            "It passed although it is expected to fail. Counts as failed: the expectation is stale."
        }
        Outcome::Flaky => "It failed, and passed when it ran again alone. Counts as failed only on request.",
        Outcome::ExpectedFailure => "It failed, as a file of expectations says. Does not count as failed.",
        Outcome::Unsupported => "The device or the exporter says that it cannot do this.",
        Outcome::Skipped => "The machine lacks a requirement; the reason names the package to install.",
    }
}

pub(super) fn heading(run: Run<'_>) -> Markup {
    html! {
        span class="number" { (run.number) } " " (run.report.backend.name) (machines::mark(&run.report.backend, &run.report.emulated))
        small { (run.report.device.name) }
        small { (exporters(run)) }
    }
}

/// The exporters that were used.
fn exporters(run: Run<'_>) -> String {
    let used = run.report.exporters.iter().filter(|exporter| exporter.available.is_some());
    let names: Vec<&str> = used.map(|exporter| exporter.name.name()).collect();
    if names.is_empty() { "no exporter".into() } else { names.join(", ") }
}

/// One row a capability, one column a report.
pub(super) fn capabilities(runs: &[Run<'_>]) -> Markup {
    let all: Vec<Vec<Capability>> = runs.iter().map(|run| capabilities_of(*run)).collect();
    let names = in_order(all.iter().flatten().map(|capability| (&capability.kind, &capability.name)));
    html! {
        section aria-labelledby="capabilities" {
            h2 id="capabilities" { "Capabilities" }
            details class="group" {
                summary { h3 { "What each device says it can do" } }
                div class="wide" role="region" aria-labelledby="capabilities" tabindex="0" {
                    table class="matrix" {
                        thead {
                            tr {
                                th scope="col" { "capability" }
                                @for run in runs { th scope="col" { (heading(*run)) } }
                            }
                        }
                        tbody {
                            @for (kind, name) in names {
                                tr {
                                    th scope="row" { small { (kind) } code { (name) } }
                                    @for capabilities in &all { (support_cell(capabilities, kind, name)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A capability as the report has it, including kinds of other operating systems.
struct Capability {
    kind: String,
    name: String,
    support: String,
    detail: Option<String>,
}

fn capabilities_of(run: Run<'_>) -> Vec<Capability> {
    // Maps with string keys always serialise.
    let all = serde_json::to_value(&run.report.capabilities).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let mut found = Vec::new();
    for (kind, entries) in all.as_object().into_iter().flatten() {
        for (name, support) in entries.as_object().into_iter().flatten() {
            found.push(Capability {
                kind: kind.clone(),
                name: name.clone(),
                support: text(&support["support"]).unwrap_or_default(),
                detail: text(&support["detail"]),
            });
        }
    }
    found
}

fn support_cell(capabilities: &[Capability], kind: &str, name: &str) -> Markup {
    let found = capabilities.iter().find(|capability| capability.kind == kind && capability.name == name);
    html! {
        @match found {
            Some(Capability { support, detail, .. }) => {
                td class=(class(support)) {
                    (support.replace('_', " "))
                    @if let Some(detail) = detail { small { (detail) } }
                }
            }
            None => { td class="absent" { "unknown" } }
        }
    }
}

/// Uses the colours of outcomes.
fn class(support: &str) -> &'static str {
    match support {
        "native" => "passed",
        "emulated" => "expected_failure",
        _ => "unsupported",
    }
}
