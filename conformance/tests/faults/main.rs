//! The fault campaign: every function of a driver that a backend calls, failing in every way that it can, while the
//! whole public API is used. What is looked for is what the library must never do: crash, hang, leak, lose a handle, or
//! fail without saying what failed.
//!
//! The drivers are the simulators. This program is two things: the tests, and, with arguments
//! of its own, the processes that meet the faults, so that a crash is one fault's result.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod campaign;
mod child;
mod code;
mod control;
mod driver;
mod exercise;
mod fault;
mod holdings;
mod judge;
mod kept;
mod listed;
mod majors;
mod missing;
mod not_a_driver;
mod notice;
mod report;
mod sabotage;
mod show;
mod symbol;
mod tests;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [campaign::CHILD, task] => child::main(&serde_json::from_str(task).expect("a task")),
        [show::SHOW, driver, library] => show::main(driver, library.as_ref()),
        [show::LOAD, driver] => show::load(driver),
        [majors::FIND] => majors::main(None),
        [majors::FIND, before] => majors::main(Some(before.as_ref())),
        _ => return libtest_mimic::run(&Arguments::from_args(), tests::all()).exit_code(),
    }
    ExitCode::SUCCESS
}
