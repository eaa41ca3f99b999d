//! The fault campaign: every driver function that a backend calls fails in every possible way, while the whole public
//! API is used. The library must never crash, hang, leak, lose a handle, or fail without naming the failed call.
//!
//! The drivers are simulators. This program is the tests and, with arguments of its own, the processes in which faults
//! are injected, so that a crash is the result of one fault.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod campaign;
mod checks;
mod child;
mod codes;
mod driver;
mod exceptions;
mod exercise;
mod fault;
mod library_search;
mod log_events;
mod missing_symbols;
mod not_a_driver;
mod outcome;
mod remaining_objects;
mod report;
mod sabotage;
mod simulator;
mod snapshot;
mod symbol;
mod tests;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [campaign::CHILD, task] => child::main(&serde_json::from_str(task).expect("a task")),
        [outcome::SHOW, driver, library] => outcome::main(driver, library.as_ref()),
        [outcome::LOAD, driver] => outcome::load(driver),
        [library_search::FIND] => library_search::main(None),
        [library_search::FIND, before] => library_search::main(Some(before.as_ref())),
        _ => return libtest_mimic::run(&Arguments::from_args(), tests::all()).exit_code(),
    }
    ExitCode::SUCCESS
}
