//! `conformance doctor`: diagnoses drivers, devices, missing packages, and faults of the machine.

mod amd;
mod nvidia;
mod vulkan;

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use gpu_interop::{
    BACKEND_VARIABLE, BackendChoice, ErrorKind, Feature, MemoryHandleKind, SemaphoreHandleKind, Support,
    TIMELINE_VARIABLE, TimelineStrategy,
};
use gpu_interop_conformance::system::set_variable;
use gpu_interop_conformance::{BACKEND_NAMES, ExporterName, NO_LAYER, Suite, Verdict, system};
use serde::Serialize;

use crate::cli::FAILED;
use crate::drivers::{DriverArgs, HIDING_VARIABLES};
use crate::examined::System;
use crate::files::to_json;
use crate::output::{print, say};
use crate::report::{Environment, text};
use crate::runner;

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
    /// `true` if NVIDIA's driver works and has a device. A simulator does not count.
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
        let is_hidden = faults.iter().any(|fault| fault.id == HIDDEN);
        faults.extend(nvidia::modes(&system));
        if backends.iter().any(Finding::is_cuda_of_a_gpu) {
            nvidia::refute(&mut faults);
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
    let all = [nvidia::wsl, nvidia::faults, nvidia::start_faults, vulkan::faults, amd::faults, hidden_gpus];
    all.into_iter().flat_map(|find| find(system)).collect()
}

/// A driver that was found and does not start. The error has the meaning of the driver's code, and the remedy.
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
    let has_gpu = if problem.starts_with("cu") { !nvidia::gpus(system).is_empty() } else { amd_gpus(system) > 0 };
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

/// The severity of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Severity {
    /// A GPU or a driver cannot be used, or not as intended.
    Error,
    /// Usable, but probably not as intended.
    Warning,
    /// A permanent limit of the machine.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Fault {
    /// A stable name: `icd_library_missing`.
    id: &'static str,
    severity: Severity,
    /// The cause: files, values and versions.
    cause: String,
    /// The remedy, one line.
    remedy: String,
}

impl Fault {
    fn error(id: &'static str, cause: String, remedy: impl Into<String>) -> Self {
        Self { id, severity: Severity::Error, cause, remedy: remedy.into() }
    }

    fn warning(id: &'static str, cause: String, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(id, cause, remedy) }
    }

    fn note(id: &'static str, cause: String, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(id, cause, remedy) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<9} {}: {}\n          remedy: {}", self.severity, self.id, self.cause, self.remedy)
    }
}

const NVIDIA: &str = "NVIDIA";
/// The fault that a variable hides GPUs.
const HIDDEN: &str = "devices_hidden";

/// Variables that hide GPUs. All of them hide those of AMD.
fn hidden_gpus(system: &System) -> Vec<Fault> {
    let mut faults = Vec::new();
    let nvidia = nvidia_uuids(system);
    faults.extend(hidden(system, "CUDA_VISIBLE_DEVICES", NVIDIA, &nvidia));
    let amd = vec![String::new(); amd_gpus(system)];
    for name in HIDING_VARIABLES {
        if name != "CUDA_VISIBLE_DEVICES" || nvidia.is_empty() {
            faults.extend(hidden(system, name, "AMD", &amd));
        }
    }
    faults
}

/// The UUIDs of NVIDIA's GPUs, as the kernel driver reports them.
fn nvidia_uuids(system: &System) -> Vec<String> {
    let gpus = nvidia::gpus(system).into_iter();
    gpus.map(|gpu| nvidia::field(system, &gpu, "GPU UUID:").unwrap_or_default()).collect()
}

/// The number of AMD's GPUs, as the kernel driver reports it.
fn amd_gpus(system: &System) -> usize {
    let has_units = |text: String| {
        let count = text.lines().find_map(|line| line.strip_prefix("simd_count ")?.trim().parse::<u32>().ok());
        count.is_some_and(|count| count > 0)
    };
    let nodes = system.entries("/sys/class/kfd/kfd/topology/nodes").into_iter();
    nodes.filter(|node| system.text(node.join("properties")).is_some_and(has_units)).count()
}

/// A variable that hides some or all GPUs.
fn hidden(system: &System, variable: &str, vendor: &str, gpus: &[String]) -> Option<Fault> {
    // Empty, it hides all GPUs of NVIDIA; AMD's runtime takes it as not set.
    let value = system.variable(variable).filter(|value| vendor == NVIDIA || !value.is_empty())?;
    let count = gpus.len();
    // The first invalid entry ends the list.
    let is_visible = |entry: &&str| match entry.parse::<usize>() {
        Ok(number) => number < count,
        Err(_) if entry.starts_with("GPU-") => {
            let unknown = gpus.iter().any(String::is_empty);
            unknown || gpus.iter().any(|uuid| uuid.to_lowercase().starts_with(&entry.to_lowercase()))
        }
        Err(_) => nvidia::may_be_instance(system, entry),
    };
    let entries: Vec<&str> = value.split(',').map(str::trim).collect();
    let visible = entries.iter().take_while(|entry| is_visible(entry)).count();
    let remedy = format!("unset {variable}, or list the devices that the run needs");
    let shown = &entries[..visible];
    // Measured with driver 580.
    let twice = shown.iter().enumerate().find_map(|(index, entry)| shown[..index].contains(entry).then_some(entry));
    if let Some(entry) = twice.filter(|_| vendor == NVIDIA) {
        let cause = format!("{variable}={value} lists `{entry}` twice: cuInit fails with CUDA_ERROR_INVALID_DEVICE");
        return Some(Fault::error(HIDDEN, cause, remedy));
    }
    if count == 0 || visible >= count {
        return None;
    }
    let wrong = entries.get(visible).filter(|entry| !entry.is_empty() && **entry != "-1");
    let wrong = wrong.map(|entry| format!("; `{entry}` is none of them")).unwrap_or_default();
    let cause = format!("{variable}={value} shows {visible} of {count} GPUs of {vendor}{wrong}");
    Some(match visible {
        0 => Fault::error(HIDDEN, cause, remedy),
        _ => Fault::warning(HIDDEN, cause, remedy),
    })
}
