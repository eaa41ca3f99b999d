//! A process that shows what one exercise comes to, without faults: on a whole library, or on one that lacks something.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_interop::{Error, ErrorKind};
use libtest_mimic::Failed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::driver::Driver;
use crate::exercise;
use crate::holdings::Holdings;
use crate::notice;
use crate::symbol;
use gpu_interop_test_support::{PartialLibrary, this_program};

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

/// What the process says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) errors: Vec<Shown>,
    pub(crate) facts: BTreeMap<String, String>,
    /// Promises that were not kept, and what was reported.
    pub(crate) wrong: Vec<String>,
    /// What is left, if something is.
    pub(crate) left: Option<String>,
    /// How often each function that the library exports was called.
    pub(crate) calls: BTreeMap<String, u64>,
}

/// The process.
pub(crate) fn main(driver: &str, library: &Path) {
    let driver = Driver::named(driver);
    let control = Control::open(driver.vendor, library);
    notice::listen();
    // The first one makes what stays: the default stream, for one.
    exercise::run(driver, &control, None);
    notice::take();
    let before = Holdings::now(&control);
    control.heal();
    let mut record = exercise::run(driver, &control, None);
    // Their handles are the caller's.
    record.returned.clear();
    let exported = symbol::exported(driver.vendor, library).expect("a library");
    let calls = exported.into_iter().map(|name| (name.clone(), control.calls(&name))).collect();
    let after = Holdings::settled(&control, |now| *now == before);
    let outcome = Outcome {
        errors: record.errors.iter().map(|(section, error)| Shown::of(section, error)).collect(),
        facts: record.facts,
        wrong: record.wrong.into_iter().chain(notice::take().iter().map(ToString::to_string)).collect(),
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

/// What an exercise comes to on this library.
pub(crate) fn outcome(driver: &Driver, library: &Path) -> Result<Outcome, Failed> {
    said(&mut command(driver, library)?)
}

/// The error of loading what may be no library; none if it loads.
pub(crate) fn loading(driver: &Driver, library: &Path) -> Result<Option<Shown>, Failed> {
    let mut command = this_program()?;
    said(command.arg(LOAD).arg(driver.name).env(driver.vendor.variable(), library))
}

/// What a process says that must end well.
fn said<T: DeserializeOwned>(command: &mut Command) -> Result<T, Failed> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_str(&text)?)
}

/// The functions that the backend looks up, checked: each is called by the exercise, or listed with the reason.
pub(crate) fn functions(driver: &Driver, library: &Path) -> Result<Vec<String>, Failed> {
    use crate::listed::never_called;
    let spared = |name: &str| driver.spared.iter().find(|(spared, _)| *spared == name).map(|(_, reason)| *reason);
    let looked_up = symbol::looked_up(driver.vendor, library, &mut command(driver, library)?)?;
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

/// The library of a driver, without what it should be without. `copies` keeps the copy.
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
