//! What is here, what it can do, and what to do about what is missing.

use clap::ValueEnum;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use gpu_interop::{BACKEND_VARIABLE, Feature, MemoryHandleKind, SemaphoreHandleKind, Support, TIMELINE_VARIABLE};
use serde::Serialize;

use crate::cli::to_json;
use crate::exporter::ExporterName;
use crate::outcome::Verdict;
use crate::output::say;
use crate::report::{Environment, text};
use crate::runner;
use crate::suite::{BACKEND_NAMES, Suite};

/// One backend as the doctor found it.
#[derive(Debug, Serialize)]
struct Finding {
    backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<Environment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(crate) fn run(suite: &Suite, json: bool) -> Verdict {
    let mut names: Vec<String> = BACKEND_NAMES.iter().map(ToString::to_string).collect();
    names.extend(suite.backends().iter().map(|backend| backend.name().to_owned()));
    let mut seen = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    let findings: Vec<Finding> = names.into_iter().map(|backend| examine(suite, backend)).collect();
    if json {
        say!("{}", to_json(&findings)?);
        return Ok(());
    }
    match std::env::var(BACKEND_VARIABLE) {
        Ok(value) => say!("{BACKEND_VARIABLE}={value}"),
        Err(_) => say!("{BACKEND_VARIABLE} is not set: the first backend with a device is used"),
    }
    if let Ok(value) = std::env::var(TIMELINE_VARIABLE) {
        say!("{TIMELINE_VARIABLE}={value}");
    }
    for finding in &findings {
        say!("");
        match (&finding.environment, &finding.problem) {
            (Some(environment), _) => show(environment),
            (None, problem) => {
                say!("backend   {}: not usable: {}", finding.backend, problem.as_deref().unwrap_or("no reason"));
            }
        }
    }
    Ok(())
}

fn examine(suite: &Suite, backend: String) -> Finding {
    let found = suite
        .backend(&backend)
        .and_then(|under_test| runner::discover(under_test.name(), 0, ExporterName::value_variants()));
    match found {
        Ok(environment) => Finding { backend, environment: Some(environment), problem: None },
        Err(stop) => Finding { backend, environment: None, problem: Some(stop.reason().into()) },
    }
}

fn show(environment: &Environment) {
    crate::output::print(format_args!("{}", text::heading(environment)));
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
    // As `Device::timeline_support` says it.
    row("timelines".into(), capabilities.timeline(Some(SemaphoreHandleKind::TimelineFd)));
    say!("{table}");
}
