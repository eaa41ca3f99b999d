//! The CUDA backend on the simulator of NVIDIA's driver, also on another device than the first.

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::Merged;
use libtest_mimic::{Failed, Trial};

use crate::run::{Run, check, reports_faults};
use crate::work;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("cuda_native", native),
        Trial::test("cuda_signals_stay_behind_fills_without_barriers", without_barriers),
        Trial::test("cuda_two_devices", || {
            two_devices(Run::cuda().exporter("native"), &["cuda_two_devices", NATIVE], 1)
        }),
        Trial::test("cuda_devices_without_uuid", without_uuid),
        Trial::test("cuda_faults_are_reported", faults),
        Trial::test("cuda_slow_calls_change_nothing", latency),
        Trial::test("cuda_contexts_are_changed_where_a_driver_needs_that", foreign_contexts),
    ]
}

/// The device imports NvSci objects on NVIDIA's embedded systems only.
#[cfg(target_os = "linux")]
pub(crate) const NO_NVSCI: &str = "memory import, NvSciBuf object";
/// The section of the run with native memory.
const NATIVE: &str = "cuda_native";

/// Without the barrier that orders signals after fills, a host function orders them.
fn without_barriers() -> Result<(), Failed> {
    let run = Run::cuda().exporter("native").filter("timeline.{dependencies,large_values}.native");
    let report = run.env("GPU_INTEROP_SIM_FAIL", "cuStreamBatchMemOp_v2:*:801").run()?;
    report.at_least(&[("timeline.", 2)])?;
    report.passed()
}

fn native() -> Result<(), Failed> {
    let report = work::run(NATIVE, || Run::cuda().exporter("native"), Run::usual)?;
    report.at_least(&[
        // lavapipe only lacks a GPU's own semaphores.
        ("semaphore.", 20),
        ("timeline.", if cfg!(unix) { 30 } else { 26 }),
        ("stream.", 10),
        // Direct driver calls with descriptors.
        ("misbehaviour.", if cfg!(unix) { 10 } else { 0 }),
        ("property.", if cfg!(unix) { 4 } else { 3 }),
        ("import.win32_", if cfg!(windows) { 8 } else { 0 }),
        ("environment.", 2),
    ])?;
    report.sound(&[NATIVE])
}

/// Two devices of the same model, of which a process may see one, both in another order, or none. `pending` is the
/// number of scenarios with work pending on both: one, if the devices have exportable memory.
pub(crate) fn two_devices(run: Run, sections: &[&str], pending: usize) -> Result<(), Failed> {
    let report = run.filter("{identity,capability,environment,memory}.*").two_devices().run()?;
    report.at_least(&[
        ("identity.second_device", 1),
        ("identity.second_device_pending", pending),
        ("environment.", 2),
    ])?;
    report.sound(sections)
}

/// A driver that returns zeros for the UUID: its device is identified by its PCI address.
fn without_uuid() -> Result<(), Failed> {
    let run =
        Run::cuda().exporter("native").filter("{identity,environment}.*").env("GPU_INTEROP_SIM_UUID", &"0".repeat(32));
    let report = run.run()?;
    check(report.device.uuid.is_none() && report.device.pci.is_some(), format!("{:?}", report.device))?;
    report.at_least(&[("identity.", 7)])?;
    report.sound(&[NATIVE])
}

/// The function that imports CUDA's own memory: the driver's own one on Linux.
pub(crate) const NATIVE_IMPORT: &str =
    if cfg!(unix) { "cuMemImportFromShareableHandle" } else { "cuImportExternalMemory" };
/// The function that first maps such an import, and its call number: the allocation itself is mapped before.
pub(crate) const NATIVE_MAP: &str = if cfg!(unix) { "cuMemMap:2" } else { "cuExternalMemoryGetMappedBuffer:1" };

/// The suite fails if the driver fails, with the driver's code, and without leaks.
fn faults() -> Result<(), Failed> {
    let import = |answer: &str| format!("{NATIVE_IMPORT}:1:{answer}");
    let [unknown, address, other, null] = ["999", "700", "54321", "null"].map(import);
    let maps = format!("{NATIVE_MAP}:1");
    let no_address = if cfg!(unix) { "cuMemAddressReserve:2:null" } else { "cuExternalMemoryGetMappedBuffer:1:null" };
    let faults = [
        (&*unknown, "CUDA_ERROR_UNKNOWN (999)"),
        (&*address, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        (&*other, "code 54321"),
        (&*null, "null handle"),
        (&*maps, "CUDA_ERROR_INVALID_VALUE (1)"),
        (no_address, "null handle"),
        ("cuMemcpyDtoHAsync_v2:1:719", "CUDA_ERROR_LAUNCH_FAILED (719)"),
        ("cuStreamCreate:2:2", "CUDA_ERROR_OUT_OF_MEMORY (2)"),
        ("cuMemCreate:1:2", "CUDA_ERROR_OUT_OF_MEMORY (2)"),
    ];
    reports_faults(Run::cuda, &faults)
}

/// A foreign context is current, which the driver ignores for signals and waits, or refuses.
fn foreign_contexts() -> Result<(), Failed> {
    // In debug builds without ping-pong: 10,000 turns of calls that other scenarios make, too.
    let scenarios = if cfg!(debug_assertions) { "{semaphore.*,timeline.[!p]*}" } else { "{semaphore,timeline}.*" };
    for context in ["foreign", "needed"] {
        let run = Run::cuda().exporter("native").filter(scenarios);
        let report = run.env("GPU_INTEROP_SIM_CONTEXT", context).run()?;
        report.at_least(&[("semaphore.", 20), ("timeline.", if cfg!(unix) { 30 } else { 26 })])?;
        report.sound(&[NATIVE])?;
    }
    Ok(())
}

/// No result depends on the duration of a call.
fn latency() -> Result<(), Failed> {
    let slow = "cuMemcpyHtoDAsync_v2:2000,cuStreamSynchronize:2000,cuImportExternalMemory:2000";
    let report =
        Run::cuda().exporter("native").filter("{memory,stream}.*").env("GPU_INTEROP_SIM_LATENCY", slow).run()?;
    report.at_least(&[("stream.", 10)])?;
    report.sound(&[NATIVE])
}

pub(crate) fn device_tests() -> Vec<Trial> {
    vec![
        Trial::test("the_device_under_test_is_the_one_that_was_named", named_device),
        Trial::test("other_processes_use_the_named_device", other_processes),
        Trial::test("a_device_that_is_not_there_is_refused", missing_device),
        Trial::test("every_device_has_a_report_of_its_own", all_devices),
        Trial::test("all_devices_run_side_by_side", side_by_side),
    ]
}

fn on_device(device: &str) -> Run {
    Run::cuda().env("GPU_INTEROP_SIM_DEVICES", "2").arg("--device").arg(device)
}

fn named_device() -> Result<(), Failed> {
    for device in ["0", "1"] {
        let run = on_device(device).exporter("native").filter("memory.fill").arg("--verbose");
        let report = run.env("GPU_INTEROP_SIM_FAIL", &format!("{NATIVE_IMPORT}:1:999")).run()?;
        let calls = report.results.iter().filter_map(|case| case.calls.as_ref()).flat_map(|calls| &calls.newest);
        let retained: Vec<&str> = calls
            .filter(|call| call.function == "cuDevicePrimaryCtxRetain")
            .filter_map(|call| call.arguments.rsplit(", ").next())
            .collect();
        // The first matching device is the device under test; the exporter's is the first with the same identity.
        check(retained.first() == Some(&device), format!("{device}: {retained:?}"))?;
    }
    Ok(())
}

fn other_processes() -> Result<(), Failed> {
    let run = on_device("1").exporter("native").filter("{process,misbehaviour}.*");
    let report = run.run()?;
    report.at_least(&[("process.", 3), ("misbehaviour.", if cfg!(unix) { 11 } else { 0 })])?;
    report.as_recorded(&["cuda_native"])
}

/// All devices in one file each of JSON and JUnit XML. The simulated driver crashes on an import of its own memory that
/// is not marked as native.
fn all_devices() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (json, junit) = (folder.path().join("report.json"), folder.path().join("report.xml"));
    let filter = if cfg!(unix) {
        "{identity.second_device@native,misbehaviour.native_memory}"
    } else {
        "identity.second_device@native"
    };
    let run = on_device("all").exporter("native").filter(filter).arg("--junit").arg(&junit.display().to_string());
    let output = run.command(&json)?.output()?;
    check(output.status.success(), String::from_utf8_lossy(&output.stdout))?;
    let merged: Merged = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let addresses: Vec<_> = merged.reports.iter().map(|sourced| sourced.report.device.pci).collect();
    check(addresses.len() == 2 && addresses[0] != addresses[1], format!("{addresses:?}"))?;
    for (number, sourced) in merged.reports.iter().enumerate() {
        check(sourced.source == format!("device {number}"), &sourced.source)?;
        let passed = sourced.report.results.iter().filter(|case| case.outcome == Outcome::Passed).count();
        check(passed == if cfg!(unix) { 2 } else { 1 }, format!("{:?}", sourced.report.results))?;
        let text = std::fs::read_to_string(&junit)?;
        check(text.contains(&format!("cuda.device {number}.identity")), text)?;
    }
    Ok(())
}

/// The second device begins before the first has ended its only case, which takes 2 s.
fn side_by_side() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (json, journal) = (folder.path().join("report.json"), folder.path().join("journal.jsonl"));
    let run = on_device("all").exporter("native").filter("lifetime.drop_everything_with_work_pending");
    let output = run.arg("--journal").arg(&journal.display().to_string()).command(&json)?.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    check(output.status.success(), &said)?;
    for device in ["device 0: passed", "device 1: passed"] {
        check(said.contains(device), &said)?;
    }
    let journal = std::fs::read_to_string(&journal)?;
    let line = |start: &str| journal.lines().position(|line| line.starts_with(start));
    let (began, ended) = (line("{\"run\":{\"device\":1,"), line("{\"case\":{\"device\":0,"));
    check(began.is_some() && began < ended, journal)
}

fn missing_device() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let output = on_device("2").command(&folder.path().join("report.json"))?.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(2), format!("{}: {text}", output.status))?;
    check(
        text.contains("no device has this ordinal; the driver reports 2 devices") && text.contains("ordinal: 2"),
        text,
    )
}
