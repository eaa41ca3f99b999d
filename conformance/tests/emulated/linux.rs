//! Tests on systems where AMD's kernel driver can be emulated: the suite above the emulated driver, and failures of
//! that driver. Each failure ends with correct data, or with an error that names the failure.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::{CaseReport, Report};
use gpu_interop_test_support::{build, this_program};
use libtest_mimic::{Completion, Failed, Trial};

/// Debian's folder of the runtime.
const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";
const RUNTIME: &str = "libamdhip64.so.5";
/// Beginning of a run's first line.
const EMULATED: &str = "EMULATED: AMD's HIP runtime 5.";

type Test = fn() -> Result<(), Failed>;

pub(crate) fn tests() -> Vec<Trial> {
    let tests: [(&str, Test); 7] = [
        ("emulated_memory_and_imports_pass", memory_and_imports),
        ("emulated_opengl_without_draws_passes", opengl),
        ("emulated_reports_say_so", reports),
        ("emulated_doctor_says_so", doctor),
        ("emulated_runtime_in_a_folder", runtime_in_a_folder),
        ("emulated_simulator_stays_simulated", simulator),
        ("emulated_skipped_waits_are_noticed", skipped_waits_are_noticed),
    ];
    let failures = of_the_kernel();
    let failures = failures.map(|(name, test)| Trial::ignorable_test(name, move || with_runtime(test)));
    let others = tests.map(|(name, test)| Trial::ignorable_test(name, move || with_runtime(test)));
    let missing = Trial::test("emulated_what_is_missing_is_said", missing);
    failures.chain(others).chain([missing]).collect()
}

/// Runs a test if the runtime is installed.
fn with_runtime(test: impl FnOnce() -> Result<(), Failed>) -> Result<Completion, Failed> {
    if Path::new(SYSTEM).join(RUNTIME).is_file() {
        return test().map(|()| Completion::Completed);
    }
    let missing = "AMD's runtime is not installed (Debian 12: libamdhip64-5)";
    if std::env::var_os("CI").is_some() { Err(missing.into()) } else { Ok(Completion::ignored_with(missing)) }
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(Report, String), Failed> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json");
    let json = json.to_str().ok_or("a path that is text")?;
    let (output, text) = emulated(&[&["run", "--retries", "0", "--json", json], arguments].concat(), variables)?;
    let report = fs::read_to_string(json).unwrap_or_default();
    let report = serde_json::from_str(&report).map_err(|error| format!("{error}: {}\n{text}", output.status))?;
    Ok((report, text))
}

/// All scenarios that this runtime supports pass, with real Vulkan memory and every byte verified.
fn memory_and_imports() -> Result<(), Failed> {
    let filter = "{memory,import}.*";
    let (report, text) =
        run(&["--emulate", "amd", "--exporter", "vulkan", "--require", "vulkan", "--filter", filter], &[])?;
    check(text.starts_with(EMULATED), text.clone())?;
    let fine = |outcome| matches!(outcome, Outcome::Passed | Outcome::Unsupported | Outcome::ExpectedFailure);
    for case in &report.results {
        check(fine(case.outcome), format!("{case:?}\n{text}"))?;
    }
    for (group, least) in [("memory.", 10), ("import.", 8)] {
        let passed = |case: &&_| is_passed(case, group);
        let count = report.results.iter().filter(passed).count();
        check(count >= least, format!("{count} of {group}* passed\n{text}"))?;
    }
    Ok(())
}

/// OpenGL and HIP share memory of Vulkan, on a GPU with a graphics queue. The other scenarios of OpenGL draw, or find a
/// defect of its driver.
fn opengl() -> Result<(), Failed> {
    let filter = "gl.{bad_input,buffer,identity}";
    let arguments = ["--emulate", "amd", "--exporter", "vulkan", "--require", "vulkan", "--filter", filter];
    let (report, text) = run(&arguments, &[("GPU_INTEROP_SIM_AMDGPU_DEVICES", "gfx906")])?;
    let passed = report.results.iter().filter(|case| is_passed(case, "gl.")).count();
    check(passed == 3, format!("{passed} of 3 passed\n{text}"))
}

fn is_passed(case: &gpu_interop_conformance_cli::CaseReport, group: &str) -> bool {
    case.outcome == Outcome::Passed && case.id.starts_with(group)
}

/// The text, the JSON, the JUnit file, the page, and merged reports.
fn reports() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (json, junit, html) = (path("report.json"), path("report.xml"), path("report.html"));
    let files = ["--json", &json, "--junit", &junit, "--html", &html];
    let (output, text) =
        emulated(&[&["run", "--emulate", "amd", "--quiet", "--filter", "identity.stable"], &files[..]].concat(), &[])?;
    check(output.status.success() && text.starts_with(EMULATED), text)?;
    let report: Report = serde_json::from_str(&fs::read_to_string(&json)?)?;
    let emulated = report.emulated.as_ref().ok_or("the report does not say it")?;
    check(emulated.runtime.as_ref().is_some_and(|version| version.starts_with("5.")), format!("{emulated:?}"))?;
    check(emulated.release.as_ref().is_some_and(|release| release.starts_with("5.")), format!("{emulated:?}"))?;
    check(!emulated.kernel_driver.is_empty() && !report.backend.simulated, format!("{report:?}"))?;
    check(report.backend.name == "hip" && report.results.len() == 1, format!("{report:?}"))?;
    for file in [&junit, &html] {
        let text = fs::read_to_string(file)?;
        check(text.contains("EMULATED"), text)?;
    }
    let merged = suite(folder.path(), &["merge", &json])?.output()?;
    let text = String::from_utf8_lossy(&merged.stdout).into_owned();
    check(merged.status.success() && text.contains("hip EMULATED, "), text)
}

fn doctor() -> Result<(), Failed> {
    let (output, text) = emulated(&["doctor", "--emulate", "amd"], &[])?;
    check(output.status.success(), text.clone())?;
    let mut lines = text.lines();
    let above = |line: &str| line.starts_with(EMULATED);
    check(lines.any(above), text.clone())?;
    check(lines.next().is_some_and(|line| line.starts_with("backend   hip: HIP 5.")), text.clone())?;
    check(text.matches("EMULATED").count() == 1, format!("the host backend is not emulated: {text}"))
}

/// A runtime in a folder: a copy of the program finds its libraries there, and the environment of other programs is not
/// changed.
fn runtime_in_a_folder() -> Result<(), Failed> {
    let root = tempfile::tempdir()?;
    let folder = root.path().join("5.9.8");
    for part in ["amd", "lib", "libc"] {
        fs::create_dir_all(folder.join(part))?;
    }
    for name in [RUNTIME, "libhsa-runtime64.so.1", "libhsakmt.so.1", "libamd_comgr.so.2"] {
        let real = Path::new(SYSTEM).join(name).canonicalize()?;
        symlink(real, folder.join("amd").join(name))?;
    }
    fs::write(folder.join("manifest"), "libamdhip64-5 5.9.8-1 00\nlibc6 2.0-1 00\n")?;
    let root = root.path().to_str().ok_or("a path that is text")?;
    // This scenario starts another program.
    let filter = "process.handles_not_inherited";
    let (report, text) =
        run(&["--emulate", "amd:5.9", "--emulate-root", root, "--exporter", "vulkan", "--filter", filter], &[])?;
    check(text.starts_with("EMULATED: AMD's HIP runtime 5.9.8 "), text.clone())?;
    let library = report.backend.library.unwrap_or_default();
    check(library.starts_with(&folder), library.display().to_string())?;
    check(report.results.iter().all(|case| case.outcome == Outcome::Passed), text)?;
    let copies = fs::read_dir(folder.join("programs"))?.count();
    check(copies == 1, format!("{copies} copies"))
}

/// A simulator needs no kernel driver: a preloaded one does not mark its runs as AMD's.
fn simulator() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json");
    let mut command =
        suite(folder.path(), &["run", "--backend", "hip", "--exporter", "native", "--filter", "identity.stable"])?;
    command.arg("--json").arg(&json).env("LD_PRELOAD", driver()?);
    command.env("GPU_INTEROP_HIP_LIBRARY", build("gpu-interop-sim-hip")?);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    check(output.status.success() && text.starts_with("SIMULATED: "), format!("{output:?}"))?;
    check(!text.contains("EMULATED"), text)?;
    let report: Report = serde_json::from_str(&fs::read_to_string(&json)?)?;
    check(report.emulated.is_none() && report.backend.simulated, format!("{report:?}"))
}

/// A missing part is an error that explains how to get it, and nothing runs.
fn missing() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let nowhere = folder.path().join("none");
    let nowhere = nowhere.to_str().ok_or("a path that is text")?;
    let not_a_library = folder.path().join("library.so");
    fs::write(&not_a_library, "no library")?;
    let not_a_library = not_a_library.to_str().ok_or("a path that is text")?;
    for (arguments, library, parts) in [
        (["--emulate", "amd:6.9.9"], not_a_library, ["--emulate amd:6.9.9: AMD's runtime is not here", "6.9.9"]),
        (["--emulate", "amd:6.9.9"], not_a_library, ["ci/amd-runtimes.sh", "libamdhip64-6"]),
        (["--emulate", "amd"], nowhere, ["there is no such file", "GPU_INTEROP_EMULATED_AMDGPU="]),
    ] {
        let mut command = suite(folder.path(), &["run", "--emulate-root", nowhere])?;
        let output = command.args(arguments).env("GPU_INTEROP_EMULATED_AMDGPU", library).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        check(output.status.code() == Some(2), format!("{arguments:?}: {output:?}"))?;
        check(parts.iter().all(|part| text.contains(part)), format!("{parts:?}: {text}"))?;
    }
    Ok(())
}

fn check(holds: bool, message: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into().into()) }
}

/// The emulated kernel driver.
fn driver() -> Result<PathBuf, Failed> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || match std::env::var_os("GPU_INTEROP_EMULATED_AMDGPU") {
        Some(file) => Ok(file.into()),
        None => build("gpu-interop-emulated-amdgpu"),
    };
    Ok(BUILT.get_or_init(build).clone()?)
}

/// The suite, with its temporary files in `folder`.
fn suite(folder: &Path, arguments: &[&str]) -> Result<Command, Failed> {
    let mut command = this_program()?;
    for variable in ["GPU_INTEROP_AMD_RUNTIMES", "GPU_INTEROP_HIP_LIBRARY", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    command.args(arguments).env("TMPDIR", folder);
    Ok(command)
}

/// Runs the suite on the emulated kernel driver, checks that it leaves no file, and returns its output.
fn emulated(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(Output, String), Failed> {
    let folder = tempfile::tempdir()?;
    let mut command = suite(folder.path(), arguments)?;
    // Variables that hide devices do not apply to emulated ones.
    command.env("GPU_INTEROP_EMULATED_AMDGPU", driver()?).env("HIP_VISIBLE_DEVICES", "-1");
    command.envs(variables.iter().copied());
    let output = command.output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> = fs::read_dir(folder.path())?.flatten().map(|entry| entry.path()).collect();
    check(left.is_empty(), format!("left behind: {left:?}\n{text}"))?;
    Ok((output, text))
}

/// Imports of real Vulkan memory with verified data, and two streams that depend on each other.
const CASES: &str = "{memory.round_trip,stream.events}";

/// Expected end of a run.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The runtime retries, and every case passes.
    Passed,
    /// Each case passes, or fails with an error that names the function and contains this text.
    Error(&'static str),
    /// The device cannot be used. The run reports this text, and writes no report.
    Unusable(&'static str),
    /// The runtime aborts the process. That is the result of each case, and the run continues.
    Aborted,
}

/// Error of a wait for work that the GPU does not execute.
const PENDING: &str = "Stream::synchronize_timeout: timeout: ";

/// In one of so many runs the runtime must notice every page fault. On a busy machine, its thread for events may spin
/// without asking the kernel driver: the fault is missed, and the case ends as with a queue that hangs.
const MOST_RUNS: u32 = 8;
/// In one of so many runs each case must notice that nothing waits. On a busy machine the emulated GPU may reach a
/// marker after the last query.
const MOST_RUNS_WITHOUT_WAITS: u32 = 3;

/// The faults are those of the emulated kernel driver's `faults.rs`. The numbers are of gfx908 on runtime 5.2.3 beside
/// lavapipe: RADV uses the kernel driver, too, and crashes where its own memory fails.
const FAULTS: [(&str, End); 12] = [
    ("reset:5", End::Error(PENDING)),
    ("packet-hang:4", End::Error(PENDING)),
    ("page-fault:4", End::Aborted),
    ("ioctl-acquire-vm:1:EINVAL", End::Passed),
    ("ioctl-alloc:20:ENOMEM", End::Passed),
    ("ioctl-create-event:30:ENOMEM", End::Passed),
    ("ioctl-create-queue:4:ENOMEM", End::Passed),
    ("ioctl-wait-events:4:EIO", End::Passed),
    ("ioctl-import:1:EINVAL", End::Error("hipImportExternalMemory: import rejected: ")),
    ("ioctl-import:1:ENOMEM", End::Error("hipImportExternalMemory: import rejected: ")),
    ("vram-full:5", End::Error("out of memory: ")),
    ("vram-full:1", End::Unusable("hipMalloc: out of memory: ")),
];

/// Cases that check that a stream waits, each of which must fail if none does.
const WAITING: &str = "{capture.drop_with_work_pending,capture.queries,graph.dropped_pending,\
    heap.free_while_work_is_pending,lifetime.drop_everything_with_work_pending,lifetime.drop_with_work_pending,\
    lifetime.free_while_a_stream_waits,property.objects,stream.asynchronous,stream.events,stream.timeout,\
    stream.wait_value_32,stream.wait_value_64,stream.waits_apart,timeline.dropped_pending.bridge,\
    timeline.large_values.bridge,timeline.timeout.bridge,timeline.wait_before_signal.bridge}";

/// The control of the queries that these cases make. At the first query after new work, AMD's runtime returns "not
/// ready" even if the work has completed.
fn skipped_waits_are_noticed() -> Result<(), Failed> {
    let mut missed: BTreeSet<_> = WAITING.trim_matches(['{', '}']).split(',').map(ToOwned::to_owned).collect();
    let mut text = String::new();
    for _ in 0..MOST_RUNS_WITHOUT_WAITS {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("report.json").display().to_string();
        let arguments =
            ["run", "--emulate", "amd", "--retries", "0", "--exporter", "vulkan", "--filter", WAITING, "--json", &json];
        (_, text) = emulated(&arguments, &[("GPU_INTEROP_SIM_AMDGPU_FAULTS", "skip-word-waits")])?;
        let report: Report = serde_json::from_str(&fs::read_to_string(&json)?)?;
        for case in report.results.iter().filter(|case| case.outcome == Outcome::Failed) {
            missed.remove(&case.id);
        }
        if missed.is_empty() {
            return Ok(());
        }
    }
    Err(format!("not noticed by {missed:?} in {MOST_RUNS_WITHOUT_WAITS} runs\n{text}").into())
}

/// Each fault with the test that meets it.
fn of_the_kernel() -> impl Iterator<Item = (String, impl FnOnce() -> Result<(), Failed>)> {
    FAULTS.into_iter().map(|(fault, end)| (format!("emulated_kernel_failure_{fault}"), move || meet(fault, end)))
}

fn meet(fault: &str, end: End) -> Result<(), Failed> {
    let mut text = String::new();
    for _ in 0..MOST_RUNS {
        let cases;
        (cases, text) = run_with(fault, end)?;
        let missed = |case: &CaseReport| case.outcome == Outcome::Failed;
        if !matches!(end, End::Aborted) || !cases.iter().any(missed) {
            return Ok(());
        }
    }
    Err(format!("the fault was missed in each of {MOST_RUNS} runs: {text}").into())
}

/// Runs the cases once, and returns their results and the command's output.
fn run_with(fault: &str, end: End) -> Result<(Vec<CaseReport>, String), Failed> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json").display().to_string();
    let arguments = [
        "run",
        "--emulate",
        "amd",
        "--emulate-vulkan",
        "lavapipe",
        "--retries",
        "0",
        "--exporter",
        "vulkan",
        "--isolate-each",
        "--filter",
        CASES,
        "--json",
        &json,
    ];
    let variables = [("GPU_INTEROP_SIM_AMDGPU_DEVICES", "gfx908"), ("GPU_INTEROP_SIM_AMDGPU_FAULTS", fault)];
    let (output, text) = emulated(&arguments, &variables)?;
    let report: Option<Report> = fs::read_to_string(&json).ok().and_then(|text| serde_json::from_str(&text).ok());
    let Some(report) = report else {
        let End::Unusable(reason) = end else { return Err(format!("no report\n{text}").into()) };
        check(output.status.code() == Some(2) && text.contains(reason), text.clone())?;
        return Ok((Vec::new(), text));
    };
    let cases = report.results;
    check(cases.len() == 2, text.clone())?;
    let allowed = |case: &CaseReport| {
        let reason = case.reason.as_deref().unwrap_or_default();
        match (case.outcome, end) {
            (Outcome::Passed, _) | (Outcome::Crashed, End::Aborted) => true,
            (Outcome::Failed, End::Error(part)) => reason.contains(part),
            (Outcome::Failed, End::Aborted) => reason.contains(PENDING),
            _ => false,
        }
    };
    check(cases.iter().all(allowed), text.clone())?;
    let met = cases.iter().any(|case| case.outcome != Outcome::Passed);
    check(met != matches!(end, End::Passed), format!("the fault was expected to show: {text}"))?;
    Ok((cases, text))
}
