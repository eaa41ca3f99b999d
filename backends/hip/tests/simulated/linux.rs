//! Reports of the backend on each generation of the runtime: kinds of errors, their texts, capabilities and data.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use std::time::Duration;

use gpu_interop_core::{Backend, Device, MemoryHandle, WaitCondition};
use gpu_interop_hip::HipBackend;
use gpu_interop_test_support::probe::{self, Probe, SIZE, assert_line, file, memory_request, say};
use gpu_interop_test_support::{CompiledLibrary, PartialLibrary, build, source, tests};

const VARIABLE: &str = "GPU_INTEROP_HIP_LIBRARY";
const SIMULATOR: &str = "gpu-interop-sim-hip";
const FILE: &str = "libgpu_interop_sim_hip.so";

const HIP_5_2: &str = "50221153";
const HIP_5_5: &str = "50530201";
const HIP_5_7: &str = "50731921";
const HIP_6_4: &str = "60443484";
const HIP_7_1: &str = "70125424";
const HIP_8: &str = "80012345";

const EXTERNAL: [&str; 3] = ["hipImportExternalMemory", "hipDestroyExternalMemory", "hipExternalMemoryGetMappedBuffer"];

/// Variable of processes that only open the device, because their library does no work.
const OPENS_ONLY: &str = "PROBE_OPENS_ONLY";

pub(crate) fn main() {
    let tests = tests![
        every_generation_works_and_is_reported_as_simulated,
        the_shim_reports_the_device_kind_of_its_driver,
        semaphores_and_images_are_rejected_before_the_runtime_is_called,
        images_are_supported_where_the_runtime_has_the_functions,
        an_unknown_runtime_is_used_if_its_structs_are_known,
        a_runtime_with_unknown_structs_is_rejected,
        the_current_device_of_the_thread_is_restored,
        a_rejected_import_returns_the_descriptor_whatever_the_code,
        codes_of_initialisation_have_the_right_kind,
        a_device_that_does_not_respond_hides_no_other,
        a_runtime_that_does_not_report_its_version_is_named,
        a_rejected_wait_says_which_memory_it_needs,
        missing_functions_are_reported_by_symbol_and_version,
        files_that_are_no_runtime_are_named,
        success_with_a_null_handle_is_a_failure,
    ];
    probe::main(report, tests);
}

fn report() {
    let Some(device) = probe::probe(HipBackend::load()) else { return };
    if std::env::var_os(OPENS_ONLY).is_none() {
        data(&device);
        mappings(&device);
        devices();
        descriptors(&device);
    }
}

/// Fills, copies and words, in imported memory.
fn data(device: &Device) {
    // SAFETY: simulated memory has no dedicated allocations, and no runtime checks the flag.
    let import = unsafe { memory_request(MemoryHandle::OpaqueFd(file())).dedicated(true) };
    let imported = device.import_memory(import).map_err(|failure| failure.into_parts().0);
    let Some(memory) = say("dedicated", imported) else { return };
    let buffer = memory.map_buffer(0..SIZE).expect("maps");
    let stream = device.create_stream().expect("a stream");
    let mut bytes = vec![0_u8; 4096];
    stream.fill_u32(buffer.slice(..2048).expect("a slice"), 0x0403_0201).expect("fills");
    stream.read(&buffer, &mut bytes).expect("copies");
    println!("data|{}", bytes[..2048].chunks(4).all(|word| word == [1, 2, 3, 4]) && bytes[2048..] == [0; 2048]);
    let word = buffer.slice(8..16).expect("a slice");
    say("write", stream.write_value_u64(word, 7));
    if say("wait", stream.wait_value_u64(word, 7, WaitCondition::Equal)).is_none() {
        return;
    }
    stream.synchronize().expect("the word is 7");
    let other = device.create_stream().expect("a stream");
    stream.wait_value_u64(word, 8, WaitCondition::Equal).expect("waits");
    // The first query after new work proves nothing.
    let busy = [(); 2].map(|()| {
        std::thread::sleep(Duration::from_millis(20));
        !stream.is_idle().expect("a query")
    });
    println!("waits for another value|{}", busy[1]);
    other.write_value_u64(word, 8).expect("writes");
    say("wait for another value", stream.synchronize());
}

/// Prints the devices and opens each.
fn devices() {
    let backend = HipBackend::load().expect("it was loaded");
    for (ordinal, device) in backend.devices().expect("a list").iter().enumerate() {
        println!("device {ordinal}|{device}");
        println!("comparable {ordinal}|{:?}", device.compare(device));
        // Opening a device allocates memory on it. The simulator takes work on this device for work in a wrong place.
        if std::env::var("GPU_INTEROP_SIM_CURRENT").is_ok_and(|current| current == ordinal.to_string()) {
            continue;
        }
        say(&format!("open {ordinal}"), Device::open(&backend, ordinal));
    }
    say("open 2", Device::open(&backend, 2));
}

/// Maps an import several times, twice at the same address, and closes the mappings one after the other.
fn mappings(device: &Device) {
    let imported = device.import_memory(memory_request(MemoryHandle::OpaqueFd(file())));
    let Ok(memory) = imported else { return };
    let ranges = [(0, 4096), (1024, 64), (1024, 2048)];
    let [all, part, again] = ranges.map(|(offset, size)| memory.map_buffer(offset..offset + size).expect("maps"));
    let offsets = [&part, &again].map(|mapped| mapped.as_raw().get() - all.as_raw().get());
    println!("offsets|{offsets:?}");
    drop(memory);
    let stream = device.create_stream().expect("a stream");
    for (mapped, value) in [(all, 1), (part, 2), (again, 3)] {
        stream.fill(&mapped, value).expect("fills");
        let mut bytes = vec![0; 64];
        stream.read(mapped.slice(..64).expect("a slice"), &mut bytes).expect("copies");
        assert_eq!(bytes, [value; 64]);
        say(&format!("close {value}"), mapped.close());
    }
}

/// Prints the number of file descriptors leaked by successful and failed imports.
fn descriptors(device: &Device) {
    let open = || std::fs::read_dir("/proc/self/fd").expect("a list").count();
    let before = open();
    for _ in 0..10 {
        drop(device.import_memory(memory_request(MemoryHandle::OpaqueFd(file()))));
        drop(device.import_memory(memory_request(MemoryHandle::DmaBufFd(file()))));
    }
    println!("left open|{}", open() - before);
}

/// Probe with a runtime of HIP 7.1 and two devices.
fn hip() -> Probe {
    let probe = Probe::simulator(VARIABLE, SIMULATOR)
        .env("GPU_INTEROP_SIM_VERSION", HIP_7_1)
        .env("GPU_INTEROP_SIM_DEVICES", "2");
    probe
        .env("GPU_INTEROP_SIM_NAME", "the GPU under test")
        .env("GPU_INTEROP_SIM_PCI", "1:c3:0")
        .env("GPU_INTEROP_SIM_ARCH", "gfx90a:sramecc+:xnack-")
}

fn every_generation_works_and_is_reported_as_simulated() {
    let versions = [(HIP_7_1, "7.1"), (HIP_6_4, "6.4"), (HIP_5_7, "5.7"), (HIP_5_5, "5.5"), (HIP_5_2, "5.2")];
    for (version, name) in versions {
        // HIP 5.2 reports no support for waits for words.
        let text = hip().env("GPU_INTEROP_SIM_VERSION", version).env("GPU_INTEROP_SIM_ATTRIBUTES", "10013:1").run();
        for what in ["load", "open", "import memory", "map", "stream", "dedicated", "write", "wait"] {
            assert_line(&text, &format!("{what}|"), &["ok"]);
        }
        assert_line(&text, &format!("driver|HIP {name}"), &[]);
        assert_line(&text, "simulated|", &["true"]);
        assert_line(&text, "data|", &["true"]);
        assert_line(&text, "left open|", &["|0"]);
        assert_line(&text, "offsets|", &["[1024, 1024]"]);
        for mapped in 1..=3 {
            assert_line(&text, &format!("close {mapped}|"), &["ok"]);
        }
        // No UUID: HIP's UUID differs from that of other APIs.
        assert_line(&text, "identity|", &["|the GPU under test, pci 0001:c3:00.0"]);
        assert_line(&text, "architecture|", &["gfx90a:sramecc+:xnack-"]);
        assert_line(&text, "waits for another value|", &["true"]);
        assert_line(&text, "wait for another value|", &["ok"]);
    }
}

/// The shim treats a driver without the marker as NVIDIA's.
fn the_shim_reports_the_device_kind_of_its_driver() {
    let driver = build("gpu-interop-sim-cuda").expect("a simulator");
    let mut unmarked = PartialLibrary::of(&driver).expect("a copy");
    unmarked.hide("gpu_interop_simulated").expect("the mark");
    for (driver, kind) in [(driver.as_path(), "Cpu"), (unmarked.path(), "Gpu")] {
        let shim = Probe::simulator(VARIABLE, "gpu-interop-hip-on-cuda");
        let text = shim.env("GPU_INTEROP_SIM_CUDA_LIBRARY", driver).env(OPENS_ONLY, "1").run();
        assert_line(&text, "simulated|", &["true"]);
        assert_line(&text, "kind|", &[kind]);
    }
}

fn semaphores_and_images_are_rejected_before_the_runtime_is_called() {
    let text = hip().env("GPU_INTEROP_SIM_SEMAPHORES", "abort").run();
    assert_line(&text, "semaphore|", &["unsupported: HIP has external semaphores on Windows only"]);
    assert_line(&text, "import semaphore|Unsupported|", &["on Windows only", "the GPU under test"]);
    for feature in ["mapped mipmapped array", "surfaces", "textures"] {
        assert_line(&text, &format!("feature|{feature}|"), &["unsupported: this HIP maps no images"]);
    }
}

fn images_are_supported_where_the_runtime_has_the_functions() {
    let mock = CompiledLibrary::compile(&source("recorder.c"), &["-DHIP"]);
    let calls = tempfile::NamedTempFile::new().expect("a file");
    let probe = Probe::new(VARIABLE, mock.library()).without(["hipCreateSurfaceObject", "hipTexObjectCreate"]);
    let text = probe.env("RECORDER_LOG", calls.path()).env(OPENS_ONLY, "1").run();
    assert_line(&text, "feature|mapped mipmapped array|native", &[]);
    for feature in ["surfaces", "textures"] {
        assert_line(&text, &format!("feature|{feature}|"), &["unsupported: this HIP maps no images"]);
    }
}

fn an_unknown_runtime_is_used_if_its_structs_are_known() {
    let text = hip().env("GPU_INTEROP_SIM_VERSION", HIP_8).run();
    assert_line(&text, "data|", &["true"]);
}

fn a_runtime_with_unknown_structs_is_rejected() {
    // As if the architecture were elsewhere in the struct.
    let moved = hip().env("GPU_INTEROP_SIM_VERSION", HIP_8).env("GPU_INTEROP_SIM_ARCH", "moved").run();
    let renamed = hip().env("GPU_INTEROP_SIM_VERSION", HIP_8).without(["hipGetDevicePropertiesR0600"]).run();
    for text in [moved, renamed] {
        assert_line(
            &text,
            "load|Unsupported|",
            &["structs of this version of HIP differ", "older HIP", "HIP 8.0", FILE],
        );
    }
}

fn the_current_device_of_the_thread_is_restored() {
    // The simulator aborts if a call finds another device current, or if the previous call did not restore the device.
    let text = hip().env("GPU_INTEROP_SIM_CURRENT", "1").run();
    assert_line(&text, "data|", &["true"]);
    assert_line(&text, "left open|", &["|0"]);
}

fn a_rejected_import_returns_the_descriptor_whatever_the_code() {
    for (code, kind, part) in [
        ("2", "ImportRejected", "hipErrorOutOfMemory (2)"),
        ("1", "ImportRejected", "hipErrorInvalidValue (1)"),
        ("999", "ImportRejected", "hipErrorUnknown (999)"),
        ("54321", "ImportRejected", "code 54321"),
        ("4294967295", "ImportRejected", "code 4294967295"),
        ("801", "Unsupported", "hipErrorNotSupported (801)"),
    ] {
        let text = hip().fail(&format!("hipImportExternalMemory:*:{code}")).run();
        assert_line(&text, &format!("import memory|{kind}|"), &[part, "hipImportExternalMemory"]);
        assert!(!text.contains("driver's text: out of memory"), "{text}");
        assert_line(&text, "came back|", &["true"]);
        assert_line(&text, "left open|", &["|0"]);
    }
}

fn codes_of_initialisation_have_the_right_kind() {
    for (code, kind, part) in [
        ("100", "NoDevice", "hipErrorNoDevice (100)"),
        ("101", "NoDevice", "hipErrorInvalidDevice (101)"),
        ("35", "DriverTooOld", "hipErrorInsufficientDriver (35)"),
        ("2", "OutOfMemory", "hipErrorOutOfMemory (2)"),
        ("12345", "Driver", "code 12345"),
    ] {
        let text = hip().fail(&format!("hipInit:*:{code}")).run();
        assert_line(&text, &format!("load|{kind}|"), &[part, "HIP 7.1", FILE]);
    }
}

fn a_device_that_does_not_respond_hides_no_other() {
    let text = hip().env("GPU_INTEROP_SIM_FAILED_DEVICES", "1:!719").run();
    // The first does all that it does.
    assert_line(&text, "data|", &["true"]);
    assert_line(&text, "device 0|the GPU under test, pci 0001:c3:00.0", &[]);
    assert_line(&text, "open 0|ok", &[]);
    assert_line(&text, "device 1|a device that cannot be queried (", &["hipDeviceGetName", "(719)"]);
    assert_line(&text, "comparable 1|Unknown", &[]);
    assert_line(&text, "open 1|DeviceLost|", &["hipDeviceGetName", "(719)"]);
    assert_line(&text, "open 2|NoDevice|", &["the driver reports 2 devices", "ordinal: 2"]);
    let sound = hip().run();
    assert_line(&sound, "device 1|the GPU under test, pci 0001:c4:00.0", &[]);
    assert_line(&sound, "open 1|ok", &[]);
}

fn a_runtime_that_does_not_report_its_version_is_named() {
    let text = hip().fail("hipRuntimeGetVersion:*:999").run();
    let parts = ["hipRuntimeGetVersion", "hipErrorUnknown (999)", "library: ", FILE];
    assert_line(&text, "load|Driver|", &parts);
}

fn a_rejected_wait_says_which_memory_it_needs() {
    let text = hip().fail("hipStreamWaitValue64:*:1").run();
    assert_line(&text, "wait|Driver|", &["hipStreamWaitValue64", "hipErrorInvalidValue (1)", "signal memory"]);
    let text = hip().fail("hipStreamWaitValue64:*:999").run();
    let line = text.lines().find(|line| line.starts_with("wait|Driver|")).expect("a line");
    assert!(!line.contains("signal memory"), "{line}");
}

fn missing_functions_are_reported_by_symbol_and_version() {
    let old = hip().env("GPU_INTEROP_SIM_VERSION", HIP_5_2).without(EXTERNAL.into_iter().chain(["hipLaunchHostFunc"]));
    let text = old.env(OPENS_ONLY, "1").run();
    assert_line(&text, "stream|", &["ok"]);
    let missing = "the driver (HIP 5.2) has no hipImportExternalMemory, although it came with HIP 4.3";
    assert_line(&text, "import memory|SymbolMissing|", &[missing]);
    let too_old = "the driver (HIP 5.2) has no hipLaunchHostFunc, which came with HIP 5.3";
    assert_line(&text, "feature|host functions|", &[too_old]);
    let text = hip().without(["hipMemsetD32Async"]).run();
    assert_line(&text, "load|SymbolMissing|", &["no hipMemsetD32Async", "HIP 7.1", "since HIP 4.2"]);
}

fn files_that_are_no_runtime_are_named() {
    let text = |library| Probe::new(VARIABLE, library).run();
    assert_line(&text("libc.so.6"), "load|SymbolMissing|", &["no hipInit, so it is no HIP driver", "libc.so.6"]);
    let absent = "/nonexistent/libamdhip64.so.7";
    assert_line(&text(absent), "load|DriverNotFound|", &[absent, "No such file", VARIABLE]);
}

fn success_with_a_null_handle_is_a_failure() {
    for (function, what) in [
        ("hipImportExternalMemory", "import memory"),
        ("hipExternalMemoryGetMappedBuffer", "map"),
        ("hipStreamCreateWithFlags", "stream"),
    ] {
        let text = hip().fail(&format!("{function}:*:null")).env(OPENS_ONLY, "1").run();
        assert_line(&text, &format!("{what}|Driver|"), &[function, "null handle"]);
    }
}
