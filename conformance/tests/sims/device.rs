//! The suite on another device than the first.

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::Merged;
use libtest_mimic::{Failed, Trial};

use crate::cuda::NATIVE_IMPORT;
use crate::run::{Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("the_device_under_test_is_the_one_that_was_named", named),
        Trial::test("other_processes_use_the_named_device", other_processes),
        Trial::test("a_device_that_is_not_there_is_refused", missing),
        Trial::test("every_device_has_a_report_of_its_own", all),
    ]
}

fn on(device: &str) -> Run {
    Run::cuda().env("GPU_INTEROP_SIM_DEVICES", "2").arg("--device").arg(device)
}

fn named() -> Result<(), Failed> {
    for device in ["0", "1"] {
        let run = on(device).exporter("native").filter("memory.fill").arg("--verbose");
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
    let run = on("1").exporter("native").filter("{process,misbehaviour}.*");
    let report = run.run()?;
    report.at_least(&[("process.", 3), ("misbehaviour.", if cfg!(unix) { 11 } else { 0 })])?;
    report.as_recorded(&["cuda_native"])
}

/// All devices in one file each of JSON and JUnit XML. The simulated driver crashes on an import of its own memory that
/// is not marked as native.
fn all() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (json, junit) = (folder.path().join("report.json"), folder.path().join("report.xml"));
    let filter = if cfg!(unix) {
        "{identity.second_device@native,misbehaviour.native_memory}"
    } else {
        "identity.second_device@native"
    };
    let run = on("all").exporter("native").filter(filter).arg("--junit").arg(&junit.display().to_string());
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

fn missing() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let output = on("2").command(&folder.path().join("report.json"))?.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(2), format!("{}: {text}", output.status))?;
    check(
        text.contains("no device has this ordinal; the driver reports 2 devices") && text.contains("ordinal: 2"),
        text,
    )
}
