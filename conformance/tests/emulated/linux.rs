//! Tests on systems where AMD's kernel driver can be emulated.

mod failures;
mod suite;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::Report;
use gpu_interop_test_support::build;
use libtest_mimic::{Completion, Failed, Trial};

use self::suite::{check, driver, emulated, suite};

/// Debian's folder of the runtime.
const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";
const RUNTIME: &str = "libamdhip64.so.5";
/// Beginning of a run's first line.
const EMULATED: &str = "EMULATED: AMD's HIP runtime 5.";

type Test = fn() -> Result<(), Failed>;

pub(crate) fn tests() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("emulated_memory_and_imports_pass", memory_and_imports),
        ("emulated_reports_say_so", reports),
        ("emulated_doctor_says_so", doctor),
        ("emulated_runtime_in_a_folder", runtime_in_a_folder),
        ("emulated_simulator_stays_simulated", simulator),
        ("emulated_skipped_waits_are_noticed", failures::skipped_waits_are_noticed),
    ];
    let failures = failures::of_the_kernel();
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

fn run(arguments: &[&str]) -> Result<(Report, String), Failed> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json");
    let json = json.to_str().ok_or("a path that is text")?;
    let (output, text) = emulated(&[&["run", "--retries", "0", "--json", json], arguments].concat(), &[])?;
    let report = fs::read_to_string(json).unwrap_or_default();
    let report = serde_json::from_str(&report).map_err(|error| format!("{error}: {}\n{text}", output.status))?;
    Ok((report, text))
}

/// All scenarios that this runtime supports pass, with real Vulkan memory and every byte verified.
fn memory_and_imports() -> Result<(), Failed> {
    let filter = "{memory,import}.*";
    let (report, text) = run(&["--emulate", "amd", "--exporter", "vulkan", "--require", "vulkan", "--filter", filter])?;
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
        run(&["--emulate", "amd:5.9", "--emulate-root", root, "--exporter", "vulkan", "--filter", filter])?;
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
