//! `conformance doctor`: diagnoses drivers, devices, missing packages, and faults of the machine.

mod amd;
mod fault;
mod nvidia;
mod nvidia_start;
mod visible;
mod vulkan;

use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use gpu_interop::{
    BACKEND_VARIABLE, BackendChoice, ErrorKind, Feature, MemoryHandleKind, SemaphoreHandleKind, Support,
    TIMELINE_VARIABLE, TimelineStrategy,
};
use gpu_interop_conformance::system::{self, set_variable};
use gpu_interop_conformance::{BACKEND_NAMES, ExporterName, NO_LAYER, Suite, Verdict};
use serde::Serialize;

use crate::drivers::DriverArgs;
use crate::examined::System;
use crate::exit_status::FAILED;
use crate::files::to_json;
use crate::output::{print, say};
use crate::report::{Environment, text};
use crate::runner;

use fault::{Fault, Severity};

/// The options of `conformance doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) drivers: DriverArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Look for faults in the system in this folder, such as an unpacked container image; load no driver.
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

/// The whole diagnosis.
#[derive(Debug, Serialize)]
struct Diagnosis {
    faults: Vec<Fault>,
    backends: Vec<Finding>,
}

/// The diagnosis of one backend.
#[derive(Debug, Serialize)]
struct Finding {
    backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Environment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Finding {
    /// `true` if NVIDIA's driver works and has a device. A simulator says nothing of it.
    fn is_cuda_of_a_gpu(&self) -> bool {
        let found = self.environment.as_ref().filter(|_| self.backend == "cuda");
        found.is_some_and(|found| !found.backend.simulated && !found.devices.is_empty())
    }
}

/// Prints the diagnosis. The exit status is 1 if a fault is an error.
pub(crate) fn run(suite: &Suite, args: &DoctorArgs) -> Verdict<u8> {
    let system = System::new(args.root.as_deref());
    let mut faults = faults(&system);
    let mut backends = Vec::new();
    if args.root.is_none() {
        backends = findings(suite);
        let is_hidden = faults.iter().any(|fault| fault.id == visible::HIDDEN);
        faults.extend(nvidia_start::modes(&system));
        if backends.iter().any(Finding::is_cuda_of_a_gpu) {
            nvidia_start::refute(&mut faults);
        }
        faults.extend(backends.iter().filter_map(|finding| not_started(&system, finding, is_hidden)));
    }
    faults.sort_by_key(|fault| fault.severity);
    let status = if faults.iter().any(|fault| fault.severity == Severity::Error) { FAILED } else { 0 };
    if args.json {
        print(format_args!("{}\n", to_json(&Diagnosis { faults, backends })?));
        return Ok(status);
    }
    if args.root.is_none() {
        variables(&backends);
    }
    for finding in &backends {
        say!("");
        match (&finding.environment, &finding.problem) {
            (Some(environment), _) => show(environment),
            (None, problem) => {
                say!("backend   {}: not usable: {}", finding.backend, problem.as_deref().unwrap_or("no reason"));
            }
        }
    }
    say!("");
    for fault in &faults {
        print(format_args!("{fault}\n"));
    }
    if faults.is_empty() {
        say!("no fault of the machine was found");
    }
    Ok(status)
}

/// The faults that files and variables show.
fn faults(system: &System) -> Vec<Fault> {
    let all = [nvidia::wsl, nvidia::faults, nvidia_start::faults, vulkan::faults, amd::faults, visible::faults];
    all.into_iter().flat_map(|find| find(system)).collect()
}

/// A driver that was found and does not start. The error has the meaning of the driver's code, and what to do.
fn not_started(system: &System, finding: &Finding, is_hidden: bool) -> Option<Fault> {
    let problem = finding.problem.as_deref()?;
    let (function, error) = problem.split_once(": ")?;
    let is_of_start = match function {
        "cuInit" | "hipInit" => true,
        // Unavailable, or in use by the one process that may.
        "cuDevicePrimaryCtxRetain" => {
            ["(46)", "code 46;", "(216)", "code 216;"].iter().any(|code| error.contains(code))
        }
        _ => false,
    };
    let (kind, message) = error.split_once(": ").filter(|_| is_of_start)?;
    // Without a GPU, or with a variable that hides all, an installed driver is no fault.
    let has_gpu =
        if problem.starts_with("cu") { !nvidia_start::gpus(system).is_empty() } else { visible::amd(system) > 0 };
    if kind == ErrorKind::NoDevice.to_string() && (!has_gpu || is_hidden) {
        return None;
    }
    let message = message.split(" [").next().unwrap_or(message);
    let remedy = message
        .split_once("; ")
        .map_or("read `dmesg`, and run the vendor's tool: nvidia-smi or rocminfo", |(_, remedy)| remedy);
    Some(Fault::error("driver_does_not_start", problem.to_owned(), remedy))
}

/// The diagnosis of every backend.
fn findings(suite: &Suite) -> Vec<Finding> {
    let mut names: Vec<String> = BACKEND_NAMES.iter().map(ToString::to_string).collect();
    names.extend(suite.backends().iter().map(|backend| backend.name().to_owned()));
    let mut seen = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    names.into_iter().map(|backend| examine(suite, backend)).collect()
}

/// Explains the environment variables, and how to correct them.
fn variables(findings: &[Finding]) {
    let set = |variable| set_variable(variable).map(|value| value.to_string_lossy().into_owned());
    match (set(BACKEND_VARIABLE), BackendChoice::from_env()) {
        (None, _) => say!("{BACKEND_VARIABLE} is not set: the first backend with a device is used"),
        (Some(value), Err(_)) => {
            say!("{BACKEND_VARIABLE}={value}: unknown backend; set it to cuda, hip, host or auto, or unset it");
        }
        (Some(value), Ok(BackendChoice::Auto)) => {
            say!("{BACKEND_VARIABLE}={value}: the first backend with a device is used");
        }
        (Some(value), Ok(BackendChoice::Named(name))) => {
            let name = name.to_string();
            let usable = findings.iter().any(|finding| finding.backend == name && finding.environment.is_some());
            let advice = if usable { "" } else { ", which is not usable, as below; unset it to use another" };
            say!("{BACKEND_VARIABLE}={value}: no other backend is used{advice}");
        }
    }
    match (set(TIMELINE_VARIABLE), TimelineStrategy::from_environment()) {
        (None, _) => {}
        (Some(value), Ok(_)) => say!("{TIMELINE_VARIABLE}={value}"),
        (Some(value), Err(_)) => {
            say!("{TIMELINE_VARIABLE}={value}: unknown strategy; set it to native, bridge or auto, or unset it");
        }
    }
}

fn examine(suite: &Suite, backend: String) -> Finding {
    let found = suite
        .backend(&backend)
        .and_then(|under_test| runner::discover(under_test.name(), 0, &ExporterName::of_this_system()));
    match found {
        Ok(environment) => Finding { backend, environment: Some(environment), problem: None },
        Err(stop) => Finding { backend, environment: None, problem: Some(stop.reason().into()) },
    }
}

fn show(environment: &Environment) {
    print(format_args!("{}", text::heading(environment)));
    let drivers = environment.exporters.iter().filter_map(|exporter| exporter.available.as_ref());
    if drivers.into_iter().any(|detail| detail.driver.contains(NO_LAYER)) {
        say!("          to have Vulkan's own checks fail a scenario, install them ({})", system::VULKAN_CHECKS);
    }
    for (ordinal, device) in environment.devices.iter().enumerate() {
        say!("device {ordinal}  {device}");
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    let mut row = |what: String, support: Support| {
        table.add_row([what, support.to_string()]);
    };
    let capabilities = &environment.capabilities;
    for kind in MemoryHandleKind::ALL {
        row(format!("memory: {kind}"), capabilities.memory(*kind));
    }
    for kind in SemaphoreHandleKind::ALL {
        row(format!("semaphore: {kind}"), capabilities.semaphore(*kind));
    }
    for feature in Feature::ALL {
        row(feature.to_string(), capabilities.feature(*feature));
    }
    // As in `Device::timeline_support`.
    row("timelines".into(), capabilities.timeline(Some(system::TIMELINE_SEMAPHORE)));
    print(format_args!("{table}\n"));
    for defect in capabilities.known_defects() {
        say!("known defect of this driver: {defect}");
    }
}
