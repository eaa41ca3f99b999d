//! What the backend makes of drivers that are too old, not whole, or not drivers: small libraries in their place.
//!
//! The file of the driver is named by an environment variable, so each one is loaded by a process of its own: this
//! program again, which then prints what it saw.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use std::path::Path;

use gpu_interop_core::{MemoryHandleKind, SemaphoreHandleKind};
use gpu_interop_cuda::CudaBackend;
use gpu_interop_test_support::probe::{self as probing, assert_line};
use gpu_interop_test_support::{CompiledLibrary, source, tests};

const SOURCE: &str = "stand_in_cuda.c";

pub(crate) fn main() {
    let tests = tests![
        a_complete_stand_in_works_and_says_what_it_is,
        an_old_driver_is_told_by_symbol_and_version,
        a_symbol_missing_from_a_new_driver_is_told_apart_from_age,
        a_driver_without_a_required_symbol_does_not_load,
        libraries_that_are_no_driver_are_named,
        what_initialisation_answers_becomes_the_right_kind,
        a_stub_that_answers_the_same_to_everything_is_named,
        what_an_embedded_system_has_is_missing_for_the_right_reason,
        success_with_a_null_handle_is_a_failure,
    ];
    probing::main(probe, tests);
}

/// Prints one line a thing tried: what it was, the kind of the error, and its text.
fn probe() {
    let Some(device) = probing::probe(CudaBackend::load()) else { return };
    for kind in [MemoryHandleKind::NvSciBuf, MemoryHandleKind::DmaBufFd] {
        println!("{kind:?}|{}", device.capabilities().memory(kind));
    }
    println!("NvSciSync|{}", device.capabilities().semaphore(SemaphoreHandleKind::NvSciSync));
}

/// What [`probe`] prints in a process with this library and these variables.
fn probe_with(library: &Path, variables: &[(&str, &str)]) -> String {
    probing::probe_with("GPU_INTEROP_CUDA_LIBRARY", library, variables)
}

fn a_complete_stand_in_works_and_says_what_it_is() {
    let text = probe_with(&CompiledLibrary::compile(&source(SOURCE), &[]).library(), &[]);
    for what in ["load", "open", "import memory", "map", "import semaphore", "allocate", "stream"] {
        assert_line(&text, &format!("{what}|"), &["ok"]);
    }
    assert_line(&text, "simulated|", &["true"]);
}

fn an_old_driver_is_told_by_symbol_and_version() {
    let switches = ["-DDRIVER_VERSION=9020", "-DWITHOUT_EXTERNAL", "-DWITHOUT_VIRTUAL_MEMORY"];
    let text = probe_with(&CompiledLibrary::compile(&source(SOURCE), &switches).library(), &[]);
    // It can do what it can do.
    assert_line(&text, "load|ok", &[]);
    assert_line(&text, "stream|ok", &[]);
    let memory = "the driver (CUDA 9.2) has no cuImportExternalMemory, which came with CUDA 10.0";
    assert_line(&text, "import memory|DriverTooOld|", &[memory, "install a newer driver", "stand-in GPU"]);
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

fn a_symbol_missing_from_a_new_driver_is_told_apart_from_age() {
    let text = probe_with(&CompiledLibrary::compile(&source(SOURCE), &["-DWITHOUT_EXTERNAL"]).library(), &[]);
    let missing = "the driver (CUDA 13.0) has no cuImportExternalMemory, although it came with CUDA 10.0";
    assert_line(&text, "import memory|SymbolMissing|", &[missing]);
    assert_line(&text, "memory|unsupported", &[missing]);
    assert_line(&text, "allocate|", &["ok"]);
}

fn a_driver_without_a_required_symbol_does_not_load() {
    let library = CompiledLibrary::compile(&source(SOURCE), &["-DWITHOUT_MEMSET"]);
    let text = probe_with(&library.library(), &[]);
    let parts = ["no cuMemsetD32Async", "CUDA 13.0", "since CUDA 7.0", "libstand_in_cuda.so"];
    assert_line(&text, "load|SymbolMissing|", &parts);
    let old = CompiledLibrary::compile(&source(SOURCE), &["-DWITHOUT_MEMSET", "-DDRIVER_VERSION=3020"]);
    let text = probe_with(&old.library(), &[]);
    assert_line(
        &text,
        "load|DriverTooOld|",
        &["the driver (CUDA 3.2) has no cuMemsetD32Async", "install a newer driver"],
    );
}

fn libraries_that_are_no_driver_are_named() {
    let text = probe_with(Path::new("libc.so.6"), &[]);
    assert_line(&text, "load|SymbolMissing|", &["the library has no cuInit; it is no CUDA driver", "libc.so.6"]);
    let text = probe_with(Path::new("/nonexistent/libcuda.so.1"), &[]);
    assert_line(&text, "load|DriverNotFound|", &["tried: /nonexistent/libcuda.so.1: ", "No such file"]);
    let folder = tempfile::tempdir().expect("a folder");
    let text_file = folder.path().join("libcuda.so.1");
    std::fs::write(&text_file, "not a library").expect("a file");
    let text = probe_with(&text_file, &[]);
    assert_line(&text, "load|DriverNotFound|", &[&text_file.to_string_lossy(), "file too short"]);
}

fn what_initialisation_answers_becomes_the_right_kind() {
    let library = CompiledLibrary::compile(&source(SOURCE), &[]);
    for (code, kind, parts) in [
        ("100", "NoDevice", ["CUDA_ERROR_NO_DEVICE (100)", "CUDA_VISIBLE_DEVICES"]),
        ("34", "DriverNotFound", ["CUDA_ERROR_STUB_LIBRARY (34)", "stub"]),
        // Codes that no header knows, the greatest of them among them, stay numbers.
        ("12345", "Driver", ["code 12345", "CUDA 13.0"]),
        ("4294967295", "Driver", ["code 4294967295", "libstand_in_cuda.so"]),
        ("2", "OutOfMemory", ["CUDA_ERROR_OUT_OF_MEMORY (2)", "cuInit"]),
        ("803", "DriverTooOld", ["code 803", "do not fit together"]),
    ] {
        let text = probe_with(&library.library(), &[("STAND_IN_INIT", code)]);
        assert_line(&text, &format!("load|{kind}|"), &parts);
    }
}

/// As the toolkit's stub does.
fn a_stub_that_answers_the_same_to_everything_is_named() {
    let library = CompiledLibrary::compile(&source(SOURCE), &[]);
    let text = probe_with(&library.library(), &[("STAND_IN_VERSION", "34"), ("STAND_IN_INIT", "34")]);
    let parts = [
        "cuDriverGetVersion",
        "CUDA_ERROR_STUB_LIBRARY (34)",
        "driver: CUDA, whose version it does not tell",
        "library: ",
        "libstand_in_cuda.so",
        "LD_LIBRARY_PATH",
    ];
    assert_line(&text, "load|DriverNotFound|", &parts);
}

fn what_an_embedded_system_has_is_missing_for_the_right_reason() {
    let library = CompiledLibrary::compile(&source(SOURCE), &[]);
    let starts = ["NvSciBuf|", "DmaBufFd|", "NvSciSync|"];
    for (code, part) in [
        ("0", "embedded systems"),
        // No answer is not the answer that it is none.
        ("999", "the driver answered CUDA_ERROR_UNKNOWN (999)"),
        ("1", "the driver (CUDA 13.0) does not know"),
    ] {
        let text = probe_with(&library.library(), &[("STAND_IN_INTEGRATED", code)]);
        starts.iter().for_each(|start| assert_line(&text, start, &["unsupported", part]));
    }
}

fn success_with_a_null_handle_is_a_failure() {
    let library = CompiledLibrary::compile(&source(SOURCE), &[]);
    let text = |function| probe_with(&library.library(), &[("STAND_IN_NULL", function)]);
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
