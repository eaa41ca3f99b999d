//! The rows of measured misbehaviour, with a library that misbehaves in the same way in the driver's place: both halves
//! run, and the report shows them beside each other.
//!
//! This program is two things. With the suite's own arguments it is the suite, whose CUDA backend has the host backend's
//! semaphores to import; without them it is the tests, which start it as the suite.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use gpu_interop::Backend;
use gpu_interop::cuda::CudaBackend;
use gpu_interop_conformance::{BackendUnderTest, Observation, Outcome, Suite, host_semaphore};
use gpu_interop_conformance_cli::Report;
use gpu_interop_test_support::this_program;
use gpu_interop_test_support::{CompiledLibrary, source};
use libtest_mimic::{Arguments, Failed, Trial};

const SOURCE: &str = "stand_in_cuda.c";

fn main() -> ExitCode {
    if gpu_interop_conformance_cli::is_called() {
        let cuda = BackendUnderTest::new("cuda", || Ok(Arc::new(CudaBackend::load()?) as Arc<dyn Backend>));
        return gpu_interop_conformance_cli::main(
            &Suite::standard().with_backend(cuda.with_semaphores(host_semaphore)),
        );
    }
    let tests = vec![
        Trial::test("each_row_shows_the_driver_beside_the_library", rows),
        Trial::test("verbose_output_shows_the_rows_and_the_rest_does_not", verbose),
        Trial::test("the_other_process_loads_the_drivers_own_file", no_library),
        Trial::test("doctor_says_what_an_old_driver_lacks", old_driver),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// What the stand-in does, as the real driver did, and what the library must do: part of the call, of what the driver
/// alone did, and of what the library did.
const ROWS: &[(&str, &str, &str)] = &[
    ("that the driver itself exported", "accepted", "data right at both ends"),
    ("from the number -1", "CUDA_ERROR_UNKNOWN (999)", "invalid argument"),
    ("from the number 9999", "CUDA_ERROR_UNKNOWN (999)", "invalid argument"),
    ("import /dev/null as memory", "UNKNOWN (999); the driver closed the descriptor", "came back open"),
    ("import / as a semaphore", "UNKNOWN (999); the driver closed the descriptor", "came back open"),
    ("then close it", "closed another file's descriptor", "as many are open as before"),
    ("a size of 0", "INVALID_VALUE (1); the descriptor was left open", "invalid argument: the size is 0"),
    ("unknown flag", "INVALID_VALUE (1); the descriptor was left open", "cannot be said"),
    ("unknown kind", "INVALID_VALUE (1); the descriptor was left open", "cannot be said"),
    ("as a Win32 handle", "NOT_SUPPORTED (801); the descriptor was left open", "unsupported: "),
    ("1,024 times its size", "accepted; the driver closed the descriptor", "invalid argument"),
    ("2^64 - 1", "accepted; the driver closed the descriptor", "address space"),
    ("half its size", "accepted; the driver closed the descriptor", "nothing beyond it can be mapped"),
    ("wrong dedicated flag", "accepted; the driver closed the descriptor", "the data is right"),
    ("from offset 4", "accepted, at an address that is 4 modulo 256", "these bytes and no others"),
    ("map a size of 0", "INVALID_VALUE (1)", "invalid argument: the length is 0"),
    ("map from the end", "INVALID_VALUE (1)", "invalid argument: the range goes past the end"),
    ("map with a flag", "INVALID_VALUE (1)", "cannot be said"),
    ("with 20 levels", "INVALID_VALUE (1)", "invalid argument: the number of mip levels"),
    ("with 0 levels", "killed by signal 6 (SIGABRT)", "invalid argument: the number of mip levels"),
    ("while it is mapped", "destruction: accepted; a fill of the mapping: accepted", "the right data"),
    ("destroy memory twice", "killed by signal 11 (SIGSEGV)", "cannot be said"),
    ("import memory as a semaphore", "accepted; the driver closed the descriptor", "accepted, and ended without harm"),
    ("import a semaphore as memory", "accepted; the driver closed the descriptor", "accepted, and ended without harm"),
    ("a timeline as a binary", "accepted; the driver closed the descriptor", "accepted, and ended without harm"),
    ("a binary semaphore as a timeline", "accepted; the driver closed the descriptor", "accepted, and ended"),
    ("with 10, then with 5", "the counter went backwards", "invalid argument: a timeline only grows"),
    ("signal no semaphore", "INVALID_VALUE (1)", "invalid argument: the batch is empty"),
    ("wait for no semaphore", "INVALID_VALUE (1)", "invalid argument: the batch is empty"),
    ("signal with NULL parameters", "INVALID_VALUE (1)", "cannot be said"),
    ("wait with NULL parameters", "INVALID_VALUE (1)", "cannot be said"),
    ("wait for a NULL semaphore", "killed by signal 11 (SIGSEGV)", "cannot be said"),
    ("signal a NULL semaphore", "killed by signal 11 (SIGSEGV)", "cannot be said"),
    ("export a dma-buf", "no dma-buf", "unsupported: "),
];

fn rows() -> Result<(), Failed> {
    let library = CompiledLibrary::compile(&source(SOURCE), &[]);
    let json = tempfile::NamedTempFile::new()?;
    let output = suite(&library.library(), &["run", "--backend", "cuda", "--exporter", "native", "--filter"])
        .args(["misbehaviour.*", "--json"])
        .arg(json.path())
        .output()?;
    let report: Report = serde_json::from_str(&std::fs::read_to_string(json.path())?)?;
    for case in &report.results {
        check(case.outcome == Outcome::Passed, format!("{case:?}"))?;
        check(!case.observed.is_empty(), format!("nothing was observed: {case:?}"))?;
    }
    check(output.status.success() && report.backend.simulated, format!("{output:?}"))?;
    let observed: Vec<&Observation> = report.results.iter().flat_map(|case| &case.observed).collect();
    for (call, raw, library) in ROWS {
        let found: Vec<_> = observed.iter().filter(|row| row.call.contains(call) && row.raw.contains(raw)).collect();
        check(found.len() == 1, format!("`{call}`: `{raw}` is there {} times: {observed:#?}", found.len()))?;
        check(found[0].library.contains(library), format!("`{library}` is not in: {:?}", found[0]))?;
    }
    // Also what is in no list, so that the list stays whole.
    let listed = |row: &Observation| ROWS.iter().any(|(call, ..)| row.call.contains(call));
    let known = ["import /dev/null as a semaphore", "import / as memory"];
    let unknown: Vec<_> = observed.iter().filter(|row| !listed(row) && !known.contains(&&*row.call)).collect();
    check(unknown.is_empty(), format!("{unknown:#?}"))
}

fn verbose() -> Result<(), Failed> {
    let library = CompiledLibrary::compile(&source(SOURCE), &[]);
    let run = |arguments: &[&str]| -> Result<String, Failed> {
        let output = suite(&library.library(), &["run", "--backend", "cuda", "--filter", "misbehaviour.descriptors"])
            .args(arguments)
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (plain, verbose) = (run(&[])?, run(&["--verbose"])?);
    let row = "the driver alone: CUDA_ERROR_UNKNOWN (999); the driver closed the descriptor";
    check(verbose.contains(row) && verbose.contains("the library:      invalid argument"), verbose)?;
    check(!plain.contains("the driver alone"), plain)
}

/// Another library than the one that was loaded would say nothing about it.
fn no_library() -> Result<(), Failed> {
    let output =
        this_program()?.args(["raw-cuda", "/nonexistent/libcuda.so.1"]).stdin(std::process::Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    check(!output.status.success() && text.contains("/nonexistent/libcuda.so.1"), text)
}

fn old_driver() -> Result<(), Failed> {
    let switches = ["-DDRIVER_VERSION=9020", "-DWITHOUT_EXTERNAL", "-DWITHOUT_VIRTUAL_MEMORY"];
    let old = CompiledLibrary::compile(&source(SOURCE), &switches);
    let output = suite(&old.library(), &["doctor"]).env("GPU_INTEROP_TIMELINE", "bridge").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let reason = "unsupported: the driver (CUDA 9.2) has no cuImportExternalMemory, which came with CUDA 10.0";
    check(output.status.success() && text.contains(reason), format!("{}: {text}", output.status))?;
    let follows = |line: &str| line.trim_start().starts_with("timelines ") && line.contains("unsupported");
    check(text.contains("GPU_INTEROP_TIMELINE=bridge") && text.lines().any(follows), format!("timelines: {text}"))?;
    check(text.contains("SIMULATED"), text)?;
    // A driver that fails is not usable, which for the run that asks for it is the end.
    let mut failing = suite(&old.library(), &["run", "--backend", "cuda"]);
    let output = failing.env("STAND_IN_INIT", "100").output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(2) && text.contains("cuInit: no device"), text)
}

fn suite(library: &Path, arguments: &[&str]) -> Command {
    let mut command = this_program().expect("this program");
    command.args(arguments).env("GPU_INTEROP_CUDA_LIBRARY", library);
    command
}

fn check(holds: bool, message: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into().into()) }
}
