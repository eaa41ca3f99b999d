//! NvSciBuf and NvSciSync on the simulators of both and of NVIDIA's driver.

use gpu_interop_conformance::Outcome;
use libtest_mimic::{Failed, Trial};

use crate::cuda::NO_NVSCI;
use crate::run::{Ran, Run, check, nightly, scenarios_of};
use crate::work;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("nvsci_suite", suite),
        Trial::test("nvsci_is_unsupported_without_its_libraries", without_libraries),
        Trial::test("nvsci_is_unsupported_on_other_systems", not_embedded),
        Trial::test("nvsci_faults_are_reported", faults),
        Trial::test("nvsci_null_results_are_reported", null_results),
        Trial::test("nvsci_of_an_older_version", old),
        Trial::test("nvsci_of_a_wrong_version_is_refused", incompatible),
        Trial::test("nvsci_behaves_otherwise_where_it_may", variants),
        Trial::test("nvsci_with_caches_that_need_flushing", flush),
        nightly("nvsci_leaks_are_caught", leaks),
        Trial::test("nvsci_waits_that_do_nothing_are_caught", skipped_waits),
        Trial::test("nvsci_conflict_lists_are_freed_unread", conflict_lists),
        Trial::test("nvsci_calls_that_take_long_change_nothing", latency),
    ]
}

/// All except the one with 10,000 cycles, which takes longer than the others together.
const QUICK: &str = "nvsci.[!1]*";

/// Without Vulkan, which no scenario here uses, and which every run would open.
fn nvsci() -> Run {
    Run::nvsci().arg("--exporter").arg("native")
}

fn suite() -> Result<(), Failed> {
    let report = work::run("nvsci", || nvsci().filter("nvsci.*"), |run| run)?;
    report.at_least(&[("nvsci.", scenarios_of("nvsci"))])?;
    report.passed()
}

/// Every scenario of the group is unsupported, for this reason. One of another group makes the run valid.
fn unsupported(run: Run, reason: &str) -> Result<(), Failed> {
    let report = run.exporter("native").filter("{nvsci.*,memory.fill}").run()?;
    for case in &report.results {
        let text = case.reason.as_deref().unwrap_or_default();
        let unsupported = case.outcome == Outcome::Unsupported && text.contains(reason);
        check(unsupported == (case.id != "memory.fill"), format!("{case:?}"))?;
    }
    check(report.results.len() == scenarios_of("nvsci") + 1, report.text())?;
    report.nothing_alive()
}

fn without_libraries() -> Result<(), Failed> {
    let none = "/nonexistent/libnvsci.so";
    unsupported(Run::nvsci().env("GPU_INTEROP_NVSCIBUF_LIBRARY", none), "libnvscibuf.so")?;
    unsupported(Run::nvsci().env("GPU_INTEROP_NVSCISYNC_LIBRARY", none), "libnvscisync.so")?;
    unsupported(Run::cuda(), NO_NVSCI)
}

fn not_embedded() -> Result<(), Failed> {
    unsupported(
        Run::nvsci().env("GPU_INTEROP_SIM_ATTRIBUTES", "18:0"),
        "NvSci objects exist on NVIDIA's embedded systems only",
    )
}

/// One scenario, which must fail for this reason, without leaks.
fn fails(scenario: &str, fault: &str, reason: &str) -> Result<(), Failed> {
    let report = nvsci().filter(scenario).env("GPU_INTEROP_SIM_FAIL", fault).run()?;
    failed(&report, &format!("{scenario} {fault}"), reason)?;
    report.nothing_alive()
}

fn failed(report: &Ran, what: &str, reason: &str) -> Result<(), Failed> {
    let [case] = report.results.as_slice() else { return Err(format!("{what}: {}", report.text()).into()) };
    let text = case.reason.as_deref().unwrap_or_default();
    check(case.outcome == Outcome::Failed && text.contains(reason), format!("{what}: {case:?}"))
}

/// Each function that can fail, in a scenario that calls it.
fn faults() -> Result<(), Failed> {
    let (both_ways, stream) = ("nvsci.raw_both_ways", "nvsci.signal_to_stream");
    for (scenario, fault, reason) in [
        (both_ways, "NvSciBufCheckVersionCompatibility:1:256", "could not check the versions of its dependencies"),
        (both_ways, "NvSciSyncCheckVersionCompatibility:1:256", "NvSciError_BadParameter (256)"),
        (both_ways, "NvSciBufModuleOpen:1:34", "runtime mode"),
        (both_ways, "NvSciBufModuleOpen:1:48", "NvSciBufModuleOpen: out of memory"),
        (both_ways, "NvSciSyncModuleOpen:1:50", "NvSciError_ResourceError (50)"),
        (both_ways, "NvSciBufAttrListCreate:1:48", "NvSciBufAttrListCreate: out of memory"),
        (both_ways, "NvSciBufAttrListSetAttrs:1:256", "attribute keys: 0x1, 0x2, 0x3, 0x4, 0x10000"),
        (both_ways, "NvSciBufAttrListReconcile:1:65792", "NvSciBufAttrListReconcile: reconciliation failed"),
        (
            both_ways,
            "NvSciBufAttrListReconcile:1:17",
            "reconciliation failed: the library does not support this combination",
        ),
        (both_ways, "NvSciBufAttrListReconcile:1:256", "reconciliation failed: no attribute list sets an attribute"),
        (both_ways, "NvSciBufAttrListReconcile:1:50", "NvSciError_ResourceError (50)"),
        (both_ways, "NvSciBufAttrListReconcile:1:259", "NvSciError_Overflow (259)"),
        (both_ways, "NvSciBufAttrListReconcile:1:48", "NvSciBufAttrListReconcile: out of memory"),
        (both_ways, "NvSciBufAttrListGetAttrs:1:34", "NvSciError_InvalidState (34)"),
        (both_ways, "NvSciBufAttrListGetAttrs:12:34", "NvSciError_InvalidState (34)"),
        (both_ways, "NvSciBufObjAlloc:1:48", "NvSciBufObjAlloc: out of memory"),
        (
            both_ways,
            "NvSciBufObjAlloc:2:54321",
            "NvSciBufObjAlloc: driver error: the library reported a failure [driver returned: code 54321",
        ),
        (both_ways, "NvSciBufObjGetAttrList:1:50", "NvSciBufObjGetAttrList: driver error"),
        (both_ways, "NvSciBufObjGetCpuPtr:1:256", "NvSciBufObjGetCpuPtr: driver error"),
        (both_ways, "NvSciBufObjGetConstCpuPtr:1:256", "NvSciBufObjGetConstCpuPtr: driver error"),
        (
            "nvsci.read_only_duplicate",
            "NvSciBufObjDupWithReducePerm:1:50",
            "NvSciBufObjDupWithReducePerm: driver error",
        ),
        (both_ways, "cuImportExternalMemory:1:1", "CUDA_ERROR_INVALID_VALUE (1)"),
        (stream, "NvSciSyncAttrListCreate:1:48", "NvSciSyncAttrListCreate: out of memory"),
        (stream, "cuDeviceGetNvSciSyncAttributes:1:801", "cuDeviceGetNvSciSyncAttributes: unsupported"),
        (stream, "cuDeviceGetNvSciSyncAttributes:2:1", "CUDA_ERROR_INVALID_VALUE (1)"),
        (stream, "NvSciSyncAttrListSetAttrs:1:256", "NvSciSyncAttrListSetAttrs: driver error"),
        (stream, "NvSciSyncAttrListReconcile:1:33554433", "NvSciError_UnsupportedConfig (33554433)"),
        (stream, "NvSciSyncAttrListGetAttrs:1:34", "NvSciSyncAttrListGetAttrs: driver error"),
        (stream, "NvSciSyncObjAlloc:1:49", "NvSciError_InsufficientResource (49)"),
        (stream, "cuImportExternalSemaphore:1:999", "CUDA_ERROR_UNKNOWN (999)"),
        (stream, "cuSignalExternalSemaphoresAsync:3:700", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        (stream, "cuWaitExternalSemaphoresAsync:3:700", "CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
        ("nvsci.signal_to_cpu", "NvSciSyncCpuWaitContextAlloc:1:50", "NvSciSyncCpuWaitContextAlloc: driver error"),
        ("nvsci.signal_to_cpu", "NvSciSyncFenceWait:4:50", "NvSciSyncFenceWait: driver error"),
        ("nvsci.signal_to_cpu", "NvSciSyncFenceWait:4:259", "NvSciError_Overflow (259)"),
        ("nvsci.cpu_to_stream", "NvSciSyncObjGenerateFence:1:256", "NvSciSyncObjGenerateFence: driver error"),
        ("nvsci.deterministic_fences", "NvSciSyncFenceUpdateFence:1:259", "NvSciError_Overflow (259)"),
        ("nvsci.deterministic_fences", "NvSciSyncFenceExtractFence:2:256", "NvSciSyncFenceExtractFence: driver error"),
    ] {
        fails(scenario, fault, reason)?;
    }
    Ok(())
}

/// A library that reports success without a result.
fn null_results() -> Result<(), Failed> {
    let (both_ways, stream) = ("nvsci.raw_both_ways", "nvsci.signal_to_stream");
    for (scenario, fault, reason) in [
        (both_ways, "NvSciBufModuleOpen:1:null", "null handle"),
        (both_ways, "NvSciBufAttrListCreate:1:null", "null handle"),
        (both_ways, "NvSciBufAttrListReconcile:1:null", "null handle"),
        (both_ways, "NvSciBufAttrListGetAttrs:*:null", "lacks an attribute that it must have"),
        (both_ways, "NvSciBufObjAlloc:1:null", "null handle"),
        (both_ways, "NvSciBufObjGetAttrList:1:null", "null handle"),
        (both_ways, "NvSciBufObjGetCpuPtr:1:null", "null handle"),
        (both_ways, "NvSciBufObjGetConstCpuPtr:1:null", "null handle"),
        ("nvsci.read_only_duplicate", "NvSciBufObjDupWithReducePerm:1:null", "null handle"),
        (stream, "NvSciSyncModuleOpen:1:null", "null handle"),
        (stream, "NvSciSyncAttrListCreate:1:null", "null handle"),
        (stream, "NvSciSyncAttrListReconcile:1:null", "null handle"),
        (stream, "NvSciSyncObjAlloc:1:null", "null handle"),
        ("nvsci.signal_to_cpu", "NvSciSyncCpuWaitContextAlloc:1:null", "null handle"),
    ] {
        fails(scenario, fault, reason)?;
    }
    Ok(())
}

/// Libraries of version 2.0 have no GPU caches, compression and deterministic fences. All else works.
fn old() -> Result<(), Failed> {
    let newer = ["nvsci.gpu_cache", "nvsci.gpu_compression", "nvsci.deterministic_fences"];
    for versions in ["buf_2.0,sync_2.0", "buf_2.6,sync_2.3", "buf_2.8,sync_2.5"] {
        let report = nvsci().filter(QUICK).env("GPU_INTEROP_SIM_NVSCI", versions).run()?;
        let is_old = versions == "buf_2.0,sync_2.0";
        for case in &report.results {
            let is_newer = is_old && newer.contains(&case.id.as_str());
            let expected = if is_newer { Outcome::Failed } else { Outcome::Passed };
            check(case.outcome == expected, format!("{versions}: {case:?}"))?;
        }
        check(report.results.len() == scenarios_of("nvsci") - 1, report.text())?;
        report.nothing_alive()?;
    }
    let report = nvsci().filter(newer[2]).env("GPU_INTEROP_SIM_NVSCI", "sync_2.0").run()?;
    failed(&report, "sync_2.0", "unsupported: this version of NvSciSync has no deterministic fences")
}

fn incompatible() -> Result<(), Failed> {
    let report = nvsci().filter("nvsci.attributes").env("GPU_INTEROP_SIM_NVSCI", "incompatible").run()?;
    failed(&report, "incompatible", "unsupported: the library, or one of its dependencies, is not compatible")?;
    report.nothing_alive()
}

/// Behaviour that NVIDIA's documents do not define, or that only some systems have.
fn variants() -> Result<(), Failed> {
    for variant in ["wide", "invalid_gpu_id", "imports_hold_nothing", "iso_engine,always_mapped"] {
        let report = nvsci().filter(QUICK).env("GPU_INTEROP_SIM_NVSCI", variant).run()?;
        report.at_least(&[("nvsci.", scenarios_of("nvsci") - 1)])?;
        report.passed()?;
    }
    let report = nvsci().filter("nvsci.gpu_cache").env("GPU_INTEROP_SIM_NVSCI", "discrete").run()?;
    failed(&report, "discrete", "reconciliation failed")?;
    let report = nvsci().filter("nvsci.signal_to_stream").env("GPU_INTEROP_SIM_NVSCI", "no_common_primitive").run()?;
    failed(&report, "no_common_primitive", "NvSciError_UnsupportedConfig (33554433)")?;
    report.nothing_alive()
}

fn flush() -> Result<(), Failed> {
    let report = nvsci().filter("nvsci.*").env("GPU_INTEROP_SIM_NVSCI", "iso_engine,memsync").run()?;
    // It reports that memory must be synchronised, and one scenario requires the opposite.
    let others = report.results.iter().filter(|case| case.id != "nvsci.gpu_cache");
    check(others.clone().all(|case| case.outcome == Outcome::Passed), report.text())?;
    check(others.count() == scenarios_of("nvsci") - 1, report.text())?;
    report.nothing_alive()
}

/// Leaks are detected at the end of a process, and by the descriptors of objects. `nvsci_calls` counts objects within a
/// process.
fn leaks() -> Result<(), Failed> {
    for leak in ["leak_list", "leak_fence"] {
        let report = nvsci().filter("nvsci.10000_cycles").env("GPU_INTEROP_SIM_NVSCI", leak).run()?;
        check(report.nothing_alive().is_err(), format!("{leak} went unnoticed: {}", report.text()))?;
    }
    let report = nvsci().filter("nvsci.10000_cycles").env("GPU_INTEROP_SIM_NVSCI", "leak_object").run()?;
    failed(&report, "leak_object", "")
}

/// Streams that do not wait for the first or second allocated object: the waiting side must detect it.
fn skipped_waits() -> Result<(), Failed> {
    for (scenario, object, reason) in [
        ("nvsci.signal_to_stream", 1, "the stream did not wait for the signal"),
        ("nvsci.cpu_to_stream", 1, "the stream did not wait"),
        ("nvsci.ping_pong", 1, "the second stream did not wait for the first"),
        ("nvsci.ping_pong", 2, "the first stream did not wait for the second"),
    ] {
        let report = nvsci().filter(scenario).env("GPU_INTEROP_SIM_NVSCI", &format!("skip_waits_{object}")).run()?;
        failed(&report, &format!("{scenario}, object {object}"), reason)?;
    }
    Ok(())
}

/// A conflict list is freed with any status code, if it exists. The simulator aborts a process that reads it.
fn conflict_lists() -> Result<(), Failed> {
    for behaviour in ["", "no_conflict_list"] {
        let report = nvsci().filter("nvsci.{conflict,sync_conflict}").env("GPU_INTEROP_SIM_NVSCI", behaviour).run()?;
        report.at_least(&[("nvsci.", 2)])?;
        report.passed()?;
    }
    let report = nvsci().filter("nvsci.conflict").env("GPU_INTEROP_SIM_NVSCI", "conflict_code").run()?;
    failed(&report, "conflict_code", "NvSciError_ResourceError (50)")?;
    failed(&report, "conflict_code", "the attribute lists differ in: Size")?;
    report.nothing_alive()
}

fn latency() -> Result<(), Failed> {
    let slow =
        "NvSciBufObjAlloc:2000,NvSciSyncObjAlloc:2000,cuSignalExternalSemaphoresAsync:1000,NvSciSyncFenceWait:1000";
    let run = nvsci().filter("nvsci.{raw_both_ways,signal_to_*,cpu_to_stream,ping_pong}");
    let report = run.env("GPU_INTEROP_SIM_LATENCY", slow).run()?;
    report.at_least(&[("nvsci.", 5)])?;
    report.passed()
}
