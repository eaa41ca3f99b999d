//! The outcome of one exercise without faults, in a separate process, on a complete or a partial library.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_interop::{Error, ErrorKind};
use gpu_interop_test_support::{PartialLibrary, this_program};
use libtest_mimic::Failed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::simulator::{Driver, ResourceSnapshot, Simulator};
use crate::{child, exercise, missing_symbols};

/// The argument of the process; a driver's name and a library come after it.
pub(crate) const SHOW: &str = "show-an-exercise";

/// The argument of a process that only loads; a driver's name comes after it.
pub(crate) const LOAD: &str = "load-a-library";

/// An error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) section: String,
    pub(crate) kind: ErrorKind,
    pub(crate) operation: String,
    pub(crate) text: String,
}

impl Shown {
    pub(crate) fn of(section: &str, error: &Error) -> Self {
        let (kind, operation) = (error.kind(), error.operation().into());
        Self { section: section.into(), kind, operation, text: error.to_string() }
    }
}

/// The process's output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) errors: Vec<Shown>,
    pub(crate) facts: BTreeMap<String, String>,
    /// Violated guarantees and log events.
    pub(crate) wrong: Vec<String>,
    /// Leaked resources.
    pub(crate) left: Option<String>,
    /// How often each function that the library exports was called.
    pub(crate) calls: BTreeMap<String, u64>,
}

/// The process.
pub(crate) fn main(driver: &str, library: &Path) {
    let driver = Driver::named(driver);
    let simulator = Simulator::open(driver.vendor, library);
    child::capture_log();
    // The first exercise creates objects that remain, such as the default stream.
    exercise::run(driver, &simulator, None, false);
    child::take_log();
    let before = ResourceSnapshot::now(&simulator);
    simulator.heal();
    let mut record = exercise::run(driver, &simulator, None, false);
    // Their handles belong to the caller.
    record.returned.clear();
    let exported = missing_symbols::exported_functions(driver.vendor, library).expect("a library");
    let calls = exported.into_iter().map(|name| (name.clone(), simulator.calls(&name))).collect();
    let after = ResourceSnapshot::settled(&simulator, |now| *now == before);
    let outcome = Outcome {
        errors: record.errors.iter().map(|(section, error)| Shown::of(section, error)).collect(),
        facts: record.facts,
        wrong: record.wrong.into_iter().chain(child::take_log().iter().map(ToString::to_string)).collect(),
        left: (after != before).then(|| format!("{after:?}, and there was {before:?}")),
        calls,
    };
    println!("{}", serde_json::to_string(&outcome).expect("a line"));
}

/// The process that only loads.
pub(crate) fn load(driver: &str) {
    let error = Driver::named(driver).vendor.load().err().map(|error| Shown::of("load", &error));
    println!("{}", serde_json::to_string(&error).expect("a line"));
}

/// The command that starts the process.
pub(crate) fn command(driver: &Driver, library: &Path) -> Result<Command, Failed> {
    let mut command = this_program()?;
    command.arg(SHOW).arg(driver.name).arg(library);
    command.env(driver.vendor.variable(), library).envs(driver.environment.iter().copied());
    Ok(command)
}

pub(crate) fn outcome(driver: &Driver, library: &Path) -> Result<Outcome, Failed> {
    said(&mut command(driver, library)?)
}

/// The error of loading a file as the driver; `None` if it loads.
pub(crate) fn loading(driver: &Driver, library: &Path) -> Result<Option<Shown>, Failed> {
    let mut command = this_program()?;
    said(command.arg(LOAD).arg(driver.name).env(driver.vendor.variable(), library))
}

/// The output of a process that must succeed.
fn said<T: DeserializeOwned>(command: &mut Command) -> Result<T, Failed> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_str(&text)?)
}

/// The functions that the backend looks up. Fails unless the exercise calls each, or a list has the reason.
pub(crate) fn functions(driver: &Driver, library: &Path) -> Result<Vec<String>, Failed> {
    use crate::exceptions::never_called;
    let spared = |name: &str| driver.spared.iter().find(|(spared, _)| *spared == name).map(|(_, reason)| *reason);
    let looked_up = missing_symbols::looked_up_functions(driver.vendor, library, &mut command(driver, library)?)?;
    let calls = outcome(driver, library)?.calls;
    let called = |name: &str| calls.get(name).is_some_and(|calls| *calls > 0);
    let mut functions = Vec::new();
    for name in looked_up {
        match (called(&name), never_called(&name).or_else(|| spared(&name))) {
            (true, None) => functions.push(name),
            (false, Some(_)) => {}
            (true, Some(reason)) => return Err(format!("{name} is called, and listed as: {reason}").into()),
            (false, None) => return Err(format!("{name} is looked up, and the exercise never calls it").into()),
        }
    }
    let more = calls.keys().find(|name| called(name) && !functions.contains(name));
    match more {
        Some(name) => Err(format!("{name} is called, and was not seen to be looked up").into()),
        None => Ok(functions),
    }
}

/// The library of a driver, without its hidden functions. `copies` keeps the copy.
pub(crate) fn library(driver: &Driver, built: &Path, copies: &mut Vec<PartialLibrary>) -> Result<PathBuf, Failed> {
    if driver.without.is_empty() {
        return Ok(built.to_owned());
    }
    let mut copy = PartialLibrary::of(built)?;
    driver.without.iter().try_for_each(|function| copy.hide(function))?;
    let path = copy.path().to_owned();
    copies.push(copy);
    Ok(path)
}
