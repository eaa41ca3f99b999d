//! Reports of the backend on each driver: kinds of errors, their texts, and capabilities.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use gpu_interop_core::{MemoryHandleKind, SemaphoreHandleKind};
use gpu_interop_cuda::CudaBackend;
use gpu_interop_test_support::probe::{self, Probe, assert_line};
use gpu_interop_test_support::tests;

const VARIABLE: &str = "GPU_INTEROP_CUDA_LIBRARY";
const FILE: &str = "libgpu_interop_sim_cuda.so";

/// Functions introduced by CUDA 10.0.
const EXTERNAL: [&str; 10] = [
    "cuImportExternalMemory",
    "cuDestroyExternalMemory",
    "cuExternalMemoryGetMappedBuffer",
    "cuExternalMemoryGetMappedMipmappedArray",
    "cuMipmappedArrayGetLevel",
    "cuMipmappedArrayDestroy",
    "cuImportExternalSemaphore",
    "cuDestroyExternalSemaphore",
    "cuSignalExternalSemaphoresAsync",
    "cuWaitExternalSemaphoresAsync",
];

/// Functions introduced by CUDA 10.2.
const VIRTUAL_MEMORY: [&str; 10] = [
    "cuMemGetAllocationGranularity",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemImportFromShareableHandle",
    "cuMemExportToShareableHandle",
];

/// Functions introduced by CUDA 11.7.
const WORDS: &str = "cuStreamWaitValue32_v2";

pub(crate) fn main() {
    let tests = tests![
        a_complete_driver_works_and_is_reported_as_simulated,
        an_old_driver_is_reported_by_symbol_and_version,
        a_symbol_missing_from_a_new_driver_is_an_incomplete_installation,
        a_driver_without_a_required_symbol_does_not_load,
        files_other_than_drivers_are_named,
        codes_of_initialisation_have_the_right_kind,
        a_stub_that_fails_every_call_is_named,
        features_of_embedded_systems_are_unsupported_with_the_actual_reason,
        success_with_a_null_handle_is_a_failure,
    ];
    probe::main(report, tests);
}

fn report() {
    let Some(device) = probe::probe(CudaBackend::load()) else { return };
    for kind in [MemoryHandleKind::NvSciBuf, MemoryHandleKind::DmaBufFd] {
        println!("{kind:?}|{}", device.capabilities().memory(kind));
    }
    println!("NvSciSync|{}", device.capabilities().semaphore(SemaphoreHandleKind::NvSciSync));
}

fn cuda() -> Probe {
    Probe::simulator(VARIABLE, "gpu-interop-sim-cuda").env("GPU_INTEROP_SIM_NAME", "the GPU under test")
}

fn a_complete_driver_works_and_is_reported_as_simulated() {
    let text = cuda().run();
    for what in ["load", "open", "import memory", "map", "import semaphore", "allocate", "stream"] {
        assert_line(&text, &format!("{what}|"), &["ok"]);
    }
    assert_line(&text, "simulated|", &["true"]);
}

fn an_old_driver_is_reported_by_symbol_and_version() {
    let missing = EXTERNAL.into_iter().chain(VIRTUAL_MEMORY).chain([WORDS]);
    let text = cuda().without(missing).env("GPU_INTEROP_SIM_VERSION", "9020").run();
    // Features of older versions still work.
    assert_line(&text, "load|ok", &[]);
    assert_line(&text, "stream|ok", &[]);
    let memory = "the driver (CUDA 9.2) has no cuImportExternalMemory, which came with CUDA 10.0";
    assert_line(&text, "import memory|DriverTooOld|", &[memory, "install a newer driver", "the GPU under test"]);
    assert_line(&text, "memory|unsupported", &[memory]);
    assert_line(&text, "came back|", &["true"]);
    let semaphore = "the driver (CUDA 9.2) has no cuImportExternalSemaphore, which came with CUDA 10.0";
    assert_line(&text, "import semaphore|DriverTooOld|", &[semaphore]);
    let create = "the driver (CUDA 9.2) has no cuMemCreate, which came with CUDA 10.2";
    assert_line(&text, "allocate|DriverTooOld|", &[create]);
    assert_line(&text, "feature|exportable memory|", &["unsupported: ", create]);
    let wait = "has no cuStreamWaitValue32_v2, which came with CUDA 11.7";
    assert_line(&text, "feature|stream memory operations, 32 bit|", &[wait]);
}

fn a_symbol_missing_from_a_new_driver_is_an_incomplete_installation() {
    let text = cuda().without(EXTERNAL).run();
    let missing = "the driver (CUDA 13.0) has no cuImportExternalMemory, although it came with CUDA 10.0";
    assert_line(&text, "import memory|SymbolMissing|", &[missing]);
    assert_line(&text, "memory|unsupported", &[missing]);
    assert_line(&text, "allocate|", &["ok"]);
}

fn a_driver_without_a_required_symbol_does_not_load() {
    let incomplete = || cuda().without(["cuMemsetD32Async"]);
    let parts = ["no cuMemsetD32Async", "CUDA 13.0", "since CUDA 7.0", FILE];
    assert_line(&incomplete().run(), "load|SymbolMissing|", &parts);
    let old = incomplete().env("GPU_INTEROP_SIM_VERSION", "3020").run();
    let parts = ["the driver (CUDA 3.2) has no cuMemsetD32Async", "install a newer driver"];
    assert_line(&old, "load|DriverTooOld|", &parts);
}

fn files_other_than_drivers_are_named() {
    let text = Probe::new(VARIABLE, "libc.so.6").run();
    assert_line(&text, "load|SymbolMissing|", &["the library has no cuInit, so it is no CUDA driver", "libc.so.6"]);
    let text = Probe::new(VARIABLE, "/nonexistent/libcuda.so.1").run();
    assert_line(&text, "load|DriverNotFound|", &["tried: /nonexistent/libcuda.so.1: ", "No such file"]);
    let folder = tempfile::tempdir().expect("a folder");
    let text_file = folder.path().join("libcuda.so.1");
    std::fs::write(&text_file, "not a library").expect("a file");
    let text = Probe::new(VARIABLE, &text_file).run();
    assert_line(&text, "load|DriverNotFound|", &[&text_file.to_string_lossy(), "file too short"]);
}

fn codes_of_initialisation_have_the_right_kind() {
    for (code, kind, parts) in [
        ("100", "NoDevice", ["CUDA_ERROR_NO_DEVICE (100)", "CUDA_VISIBLE_DEVICES"]),
        ("34", "DriverNotFound", ["CUDA_ERROR_STUB_LIBRARY (34)", "stub"]),
        // Undefined codes are reported as numbers, up to the maximum.
        ("12345", "Driver", ["code 12345", "CUDA 13.0"]),
        ("4294967295", "Driver", ["code 4294967295", FILE]),
        ("2", "OutOfMemory", ["CUDA_ERROR_OUT_OF_MEMORY (2)", "cuInit"]),
        ("803", "DriverTooOld", ["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "have different versions"]),
        ("804", "DriverTooOld", ["804", "have different versions"]),
        ("3", "System", ["(3)", "`spawn`"]),
        ("35", "DriverTooOld", ["code 35", "install a newer driver"]),
        ("46", "Driver", ["(46)", "nvidia-smi -c DEFAULT"]),
        ("101", "Driver", ["(101)", "CUDA_VISIBLE_DEVICES"]),
        ("216", "Driver", ["216", "exclusive"]),
        ("802", "Driver", ["802", "nvidia-fabricmanager"]),
        ("805", "Driver", ["805", "nvidia-cuda-mps-control -d"]),
        ("807", "Driver", ["807", "MPS"]),
        ("999", "Driver", ["(999)", "nvidia-modprobe -u"]),
    ] {
        let text = cuda().fail(&format!("cuInit:*:{code}")).run();
        assert_line(&text, &format!("load|{kind}|"), &parts);
    }
    for (code, part) in [("46", "nvidia-smi -c DEFAULT"), ("216", "exclusive"), ("802", "nvidia-fabricmanager")] {
        let text = cuda().fail(&format!("cuDevicePrimaryCtxRetain:*:{code}")).run();
        assert_line(&text, "open|Driver|", &[code, part]);
    }
}

/// The toolkit's stub library fails every call.
fn a_stub_that_fails_every_call_is_named() {
    let text = cuda().fail("cuDriverGetVersion:*:34,cuInit:*:34").run();
    let parts = [
        "cuDriverGetVersion",
        "CUDA_ERROR_STUB_LIBRARY (34)",
        "driver: CUDA, which does not report its version",
        "library: ",
        FILE,
        "LD_LIBRARY_PATH",
    ];
    assert_line(&text, "load|DriverNotFound|", &parts);
}

fn features_of_embedded_systems_are_unsupported_with_the_actual_reason() {
    let starts = ["NvSciBuf|", "DmaBufFd|", "NvSciSync|"];
    for (integrated, part) in [
        ("18:0", "embedded systems"),
        // The reason of a failed query is the failure.
        ("18:!999", "the driver returned CUDA_ERROR_UNKNOWN (999)"),
        ("18:!1", "the driver (CUDA 13.0) has no attribute for"),
    ] {
        let text = cuda().env("GPU_INTEROP_SIM_ATTRIBUTES", integrated).run();
        starts.iter().for_each(|start| assert_line(&text, start, &["unsupported", part]));
    }
}

fn success_with_a_null_handle_is_a_failure() {
    let text = |function| cuda().fail(&format!("{function}:*:null")).run();
    for (function, what) in [
        ("cuDevicePrimaryCtxRetain", "open"),
        ("cuImportExternalMemory", "import memory"),
        ("cuExternalMemoryGetMappedBuffer", "map"),
        ("cuImportExternalSemaphore", "import semaphore"),
        ("cuStreamCreate", "stream"),
    ] {
        assert_line(&text(function), &format!("{what}|Driver|"), &[function, "null handle"]);
    }
    assert_line(&text("cuImportExternalMemory"), "came back|", &["true"]);
}
