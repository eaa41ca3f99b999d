//! Measured misbehaviour: direct driver calls and the library's results, both in the report.

use std::process::{Command, Stdio};

use gpu_interop_conformance::{Observation, SUBCOMMAND};
use gpu_interop_test_support::{PartialLibrary, build, this_program};
use libtest_mimic::{Failed, Trial};

use crate::run::{GPU_INTEROP_SIM_CUDA, Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("each_row_shows_the_driver_and_the_library", rows),
        Trial::test("verbose_output_shows_the_rows_and_the_rest_does_not", verbose),
        Trial::test("the_other_process_loads_the_drivers_own_file", no_library),
        Trial::test("doctor_reports_functions_that_an_old_driver_lacks", old_driver),
    ]
}

/// Parts of the call, of the driver's result, and of the library's, for each row. The results are those of driver 580.
const ROWS: &[(&str, &str, &str)] = &[
    ("that the driver itself exported", "accepted", "data right at both ends"),
    ("from the number -1", "CUDA_ERROR_UNKNOWN (999)", "invalid argument"),
    ("from the number 9999", "CUDA_ERROR_UNKNOWN (999)", "invalid argument"),
    ("import /dev/null as memory", "UNKNOWN (999); the driver closed the descriptor", "came back open"),
    ("import / as a semaphore", "UNKNOWN (999); the driver closed the descriptor", "came back open"),
    ("then close it", "closed another file's descriptor", "as many are open as before"),
    ("a size of 0", "INVALID_VALUE (1); the descriptor was left open", "invalid argument: the size is 0"),
    ("unknown flag", "INVALID_VALUE (1); the descriptor was left open", "has no type"),
    ("unknown kind", "INVALID_VALUE (1); the descriptor was left open", "has no type"),
    ("as a Win32 handle", "NOT_SUPPORTED (801); the descriptor was left open", "unsupported: "),
    ("1,024 times its size", "accepted; the driver closed the descriptor", "invalid argument"),
    ("2^64 - 1", "accepted; the driver closed the descriptor", "address space"),
    ("half its size", "accepted; the driver closed the descriptor", "nothing beyond it can be mapped"),
    ("wrong dedicated flag", "accepted; the driver closed the descriptor", "the data is right"),
    ("from offset 4", "accepted, at an address that is 4 modulo 256", "these bytes and no others"),
    ("map a size of 0", "INVALID_VALUE (1)", "invalid argument: the range is empty"),
    ("map from the end", "INVALID_VALUE (1)", "invalid argument: the range goes past the end"),
    ("map with a flag", "INVALID_VALUE (1)", "has no type"),
    ("with 20 levels", "INVALID_VALUE (1)", "invalid argument: the number of mip levels"),
    ("with 0 levels", "killed by signal 6 (SIGABRT)", "invalid argument: the number of mip levels"),
    ("while it is mapped", "destruction: accepted; a fill of the mapping: accepted", "the right data"),
    ("destroy memory twice", "killed by signal 11 (SIGSEGV)", "has no type"),
    ("import memory as a semaphore", "accepted; the driver closed the descriptor", "accepted, and ended without harm"),
    ("import a semaphore as memory", "accepted; the driver closed the descriptor", "accepted, and ended without harm"),
    ("a timeline as a binary", "accepted; the driver closed the descriptor", "accepted, and ended without harm"),
    ("a binary semaphore as a timeline", "accepted; the driver closed the descriptor", "accepted, and ended"),
    ("with 10, then with 5", "the counter went backwards", "invalid argument: a timeline only grows"),
    ("signal no semaphore", "INVALID_VALUE (1)", "invalid argument: the batch is empty"),
    ("wait for no semaphore", "INVALID_VALUE (1)", "invalid argument: the batch is empty"),
    ("signal with NULL parameters", "INVALID_VALUE (1)", "has no type"),
    ("wait with NULL parameters", "INVALID_VALUE (1)", "has no type"),
    ("wait for a NULL semaphore", "killed by signal 11 (SIGSEGV)", "has no type"),
    ("signal a NULL semaphore", "killed by signal 11 (SIGSEGV)", "has no type"),
    ("export a dma-buf", "no dma-buf", "unsupported: "),
];

fn rows() -> Result<(), Failed> {
    let report = Run::cuda().exporter("native").filter("misbehaviour.*").run()?;
    report.as_recorded(&["cuda_native"])?;
    for case in &report.results {
        check(!case.observed.is_empty(), format!("nothing was observed: {case:?}"))?;
    }
    let observed: Vec<&Observation> = report.results.iter().flat_map(|case| &case.observed).collect();
    for (call, raw, library) in ROWS {
        let found: Vec<_> = observed.iter().filter(|row| row.call.contains(call) && row.raw.contains(raw)).collect();
        check(found.len() == 1, format!("`{call}`: `{raw}` is there {} times: {observed:#?}", found.len()))?;
        check(found[0].library.contains(library), format!("`{library}` is not in: {:?}", found[0]))?;
    }
    // Every other row is in a list, so that the list stays complete.
    let listed = |row: &Observation| ROWS.iter().any(|(call, ..)| row.call.contains(call));
    let known = ["import /dev/null as a semaphore", "import / as memory"];
    let unknown: Vec<_> = observed.iter().filter(|row| !listed(row) && !known.contains(&&*row.call)).collect();
    check(unknown.is_empty(), format!("{unknown:#?}"))
}

fn verbose() -> Result<(), Failed> {
    let run = || Run::cuda().filter("misbehaviour.descriptors");
    let (plain, verbose) = (run().run()?, run().arg("--verbose").run()?);
    let (plain, verbose) = (plain.text(), verbose.text());
    let row = "the driver alone: CUDA_ERROR_UNKNOWN (999); the driver closed the descriptor";
    check(verbose.contains(row) && verbose.contains("the library:      invalid argument"), verbose)?;
    check(!plain.contains("the driver alone"), plain)
}

/// Another library than the loaded one would prove nothing.
fn no_library() -> Result<(), Failed> {
    let request = r#"{"RawCuda":{"library":"/nonexistent/libcuda.so.1","device":0}}"#;
    let output = this_program()?.args([SUBCOMMAND, request]).stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    check(!output.status.success() && text.contains("/nonexistent/libcuda.so.1: "), text)
}

/// Functions newer than CUDA 9.2.
const YOUNGER: [&str; 7] = [
    "cuImportExternalMemory",
    "cuImportExternalSemaphore",
    "cuLaunchHostFunc",
    "cuStreamWaitValue32_v2",
    "cuStreamWaitValue64_v2",
    "cuStreamWriteValue32_v2",
    "cuStreamWriteValue64_v2",
];

fn old_driver() -> Result<(), Failed> {
    let mut old = PartialLibrary::of(&build(GPU_INTEROP_SIM_CUDA)?)?;
    YOUNGER.iter().try_for_each(|function| old.hide(function))?;
    let suite = |arguments: &[&str]| -> Result<Command, Failed> {
        let mut command = this_program()?;
        command.args(arguments).env("GPU_INTEROP_CUDA_LIBRARY", old.path()).env("GPU_INTEROP_SIM_VERSION", "9020");
        Ok(command)
    };
    let output = suite(&["doctor"])?.env("GPU_INTEROP_TIMELINE", "bridge").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let reason = "unsupported: the driver (CUDA 9.2) has no cuImportExternalMemory, which came with CUDA 10.0";
    check(output.status.success() && text.contains(reason), format!("{}: {text}", output.status))?;
    let follows = |line: &str| line.trim_start().starts_with("timelines ") && line.contains("unsupported");
    check(text.contains("GPU_INTEROP_TIMELINE=bridge") && text.lines().any(follows), format!("timelines: {text}"))?;
    check(text.contains("SIMULATED"), text)?;
    // A failing driver is not usable, and a run that requires it ends.
    let output = suite(&["run", "--backend", "cuda"])?.env("GPU_INTEROP_SIM_FAIL", "cuInit:*:100").output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(2) && text.contains("cuInit: "), text)
}
