//! What the backend makes of runtimes of every generation, of broken ones, and of what they answer: a small library in
//! their place.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

use gpu_interop_core::{
    ArrayFormat, ArrayShape, Backend, ChannelType, Device, Feature, MemoryHandle, MipmappedArrayDesc, WaitCondition,
};
use gpu_interop_hip::HipBackend;
use gpu_interop_test_support::probe::{self as probing, SIZE, assert_line, file, memory_request, say};
use gpu_interop_test_support::{CompiledLibrary, source, tests};

const HIP_5_2: &str = "-DRUNTIME_VERSION=50221153";
const HIP_5_7: &str = "-DRUNTIME_VERSION=50731921";
const HIP_5_5: &str = "-DRUNTIME_VERSION=50530201";
const HIP_6_4: &str = "-DRUNTIME_VERSION=60443484";
const HIP_8: &str = "-DRUNTIME_VERSION=80012345";

pub(crate) fn main() {
    let tests = tests![
        every_generation_works_and_says_what_it_is,
        a_stand_in_says_what_does_its_work,
        semaphores_and_images_are_refused_before_the_runtime_is_called,
        images_are_there_where_the_runtime_has_the_functions,
        levels_end_before_their_image,
        copies_of_images_are_not_recorded,
        a_runtime_whose_structs_are_not_known_is_not_used,
        the_threads_current_device_is_what_it_was,
        a_refused_import_gives_the_descriptor_back_whatever_the_code,
        what_initialisation_answers_becomes_the_right_kind,
        a_device_that_does_not_answer_hides_no_other,
        a_runtime_that_does_not_tell_its_version_is_named,
        a_wait_that_the_runtime_refuses_says_what_it_may_wait_for,
        what_a_runtime_lacks_is_told_by_symbol_and_version,
        libraries_that_are_no_runtime_are_named,
        success_with_a_null_handle_is_a_failure,
    ];
    probing::main(probe, tests);
}

fn probe() {
    let Some(device) = probing::probe(HipBackend::load()) else { return };
    // With null handles there is nothing that the rest could work with.
    if std::env::var_os("STAND_IN_NULL").is_none() {
        data(&device);
        mappings(&device);
        images(&device);
        devices();
        descriptors(&device);
    }
}

/// Fills, copies and words, in imported memory.
fn data(device: &Device) {
    // SAFETY: the runtime in AMD's place ignores the flag.
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
    say("wait", stream.wait_value_u64(word, 7, WaitCondition::Equal));
    say("wait for something else", stream.wait_value_u64(word, 8, WaitCondition::Equal));
}

/// What the devices are, and whether the second can be opened.
fn devices() {
    let backend = HipBackend::load().expect("it was loaded");
    for (ordinal, device) in backend.devices().expect("a list").iter().enumerate() {
        println!("device {ordinal}|{device}");
        println!("comparable {ordinal}|{:?}", device.compare(device));
        say(&format!("open {ordinal}"), Device::open(&backend, ordinal));
    }
    say("open 2", Device::open(&backend, 2));
}

/// Several mappings of an import, one of them twice, which end one after the other.
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

/// An image of which one level is used twice, and copied.
fn images(device: &Device) {
    if !device.capabilities().feature(Feature::MappedMipmappedArray).is_supported() {
        return;
    }
    let imported = device.import_memory(memory_request(MemoryHandle::OpaqueFd(file())));
    let memory = imported.expect("imports");
    let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("a format");
    let desc =
        MipmappedArrayDesc { levels: 2, ..MipmappedArrayDesc::new(ArrayShape::D2 { width: 8, height: 8 }, format) };
    let image = memory.map_mipmapped_array(&desc).expect("maps");
    let level = |number| image.level(number).expect("a level").as_raw();
    println!("levels|{}", level(0) == level(0) && level(0) != level(1));
    let buffer = device.import_memory(memory_request(MemoryHandle::OpaqueFd(file()))).expect("imports");
    let mapped = buffer.map_buffer(0..256).expect("maps");
    let stream = device.create_stream().expect("a stream");
    say("copy of an image", stream.copy_from_array(&mapped, image.level(0).expect("a level")));
    drop(stream);
    say("close image", image.close());
}

/// How many descriptors a success and a failure leave behind.
fn descriptors(device: &Device) {
    let open = || std::fs::read_dir("/proc/self/fd").expect("a list").count();
    let before = open();
    for _ in 0..10 {
        drop(device.import_memory(memory_request(MemoryHandle::OpaqueFd(file()))));
        drop(device.import_memory(memory_request(MemoryHandle::DmaBufFd(file()))));
    }
    println!("left open|{}", open() - before);
}

fn probe_with(switches: &[&str], variables: &[(&str, &str)]) -> String {
    const SOURCE: &str = "stand_in_hip.c";
    probing::probe_with(
        "GPU_INTEROP_HIP_LIBRARY",
        &CompiledLibrary::compile(&source(SOURCE), switches).library(),
        variables,
    )
}

fn every_generation_works_and_says_what_it_is() {
    for switches in [&[][..], &[HIP_6_4], &[HIP_5_7], &[HIP_5_5], &[HIP_5_2]] {
        let text = probe_with(switches, &[]);
        for what in ["load", "open", "import memory", "map", "stream", "dedicated", "write", "wait"] {
            assert_line(&text, &format!("{what}|"), &["ok"]);
        }
        assert_line(&text, "simulated|", &["true"]);
        assert_line(&text, "data|", &["true"]);
        assert_line(&text, "left open|", &["|0"]);
        assert_line(&text, "offsets|", &["[1024, 1024]"]);
        for mapped in 1..=3 {
            assert_line(&text, &format!("close {mapped}|"), &["ok"]);
        }
        // No UUID: HIP's means nothing to others.
        assert_line(&text, "identity|", &["|stand-in AMD GPU, pci 0001:c3:00.0"]);
        assert_line(&text, "architecture|", &["gfx90a:sramecc+:xnack-"]);
        assert_line(&text, "wait for something else|Driver|", &["hipStreamWaitValue64"]);
    }
}

fn a_stand_in_says_what_does_its_work() {
    for (switch, kind) in [("-DSTAND_IN_ON=1", "Cpu"), ("-DSTAND_IN_ON=2", "Gpu")] {
        let text = probe_with(&[switch], &[]);
        assert_line(&text, "simulated|", &["true"]);
        assert_line(&text, "kind|", &[kind]);
    }
}

fn semaphores_and_images_are_refused_before_the_runtime_is_called() {
    // It would abort the process.
    let text = probe_with(&[], &[]);
    assert_line(&text, "semaphore|", &["unsupported: HIP has external semaphores on Windows only"]);
    assert_line(&text, "import semaphore|Unsupported|", &["on Windows only", "stand-in AMD GPU"]);
    for feature in ["mapped mipmapped array", "surfaces", "textures"] {
        assert_line(&text, &format!("feature|{feature}|"), &["unsupported: this HIP maps no images"]);
    }
}

fn images_are_there_where_the_runtime_has_the_functions() {
    let text = probe_with(&["-DWITH_IMAGES"], &[]);
    assert_line(&text, "feature|mapped mipmapped array|native", &[]);
    // Of those there are no functions.
    assert_line(&text, "feature|surfaces|", &["unsupported: this HIP maps no images"]);
}

fn levels_end_before_their_image() {
    // The stand-in aborts if they do not.
    let text = probe_with(&["-DWITH_IMAGES"], &[]);
    assert_line(&text, "levels|", &["true"]);
    assert_line(&text, "close image|", &["ok"]);
}

fn copies_of_images_are_not_recorded() {
    let text = probe_with(&["-DWITH_IMAGES"], &[]);
    assert_line(&text, "copy of an image|", &["ok"]);
    let text = probe_with(&["-DWITH_IMAGES"], &[("STAND_IN_RECORDS", "1")]);
    assert_line(&text, "copy of an image|Unsupported|", &["hipDrvMemcpy3DAsync", "does not record copies of images"]);
}

fn a_runtime_whose_structs_are_not_known_is_not_used() {
    let text = probe_with(&[HIP_8], &[]);
    assert_line(&text, "load|Unsupported|", &["not known", "older HIP", "HIP 8.0", "libstand_in_hip.so"]);
}

fn the_threads_current_device_is_what_it_was() {
    // The stand-in aborts if a call finds another device current than the one before found.
    let text = probe_with(&[], &[("STAND_IN_CURRENT", "1")]);
    assert_line(&text, "data|", &["true"]);
    assert_line(&text, "left open|", &["|0"]);
}

fn a_refused_import_gives_the_descriptor_back_whatever_the_code() {
    for (code, kind, part) in [
        ("2", "ImportRejected", "hipErrorOutOfMemory (2)"),
        ("1", "ImportRejected", "hipErrorInvalidValue (1)"),
        ("999", "ImportRejected", "hipErrorUnknown (999)"),
        ("54321", "ImportRejected", "code 54321"),
        ("4294967295", "ImportRejected", "code 4294967295"),
        ("801", "Unsupported", "hipErrorNotSupported (801)"),
    ] {
        let text = probe_with(&[], &[("STAND_IN_IMPORT", code)]);
        assert_line(&text, &format!("import memory|{kind}|"), &[part, "hipImportExternalMemory"]);
        assert!(!text.contains("driver's text: out of memory"), "{text}");
        assert_line(&text, "came back|", &["true"]);
        assert_line(&text, "left open|", &["|0"]);
    }
}

fn what_initialisation_answers_becomes_the_right_kind() {
    for (code, kind, part) in [
        ("100", "NoDevice", "hipErrorNoDevice (100)"),
        ("101", "NoDevice", "hipErrorInvalidDevice (101)"),
        ("35", "DriverTooOld", "code 35"),
        ("2", "OutOfMemory", "hipErrorOutOfMemory (2)"),
        ("12345", "Driver", "code 12345"),
    ] {
        let text = probe_with(&[], &[("STAND_IN_INIT", code)]);
        assert_line(&text, &format!("load|{kind}|"), &[part, "HIP 7.1", "libstand_in_hip.so"]);
    }
}

fn a_device_that_does_not_answer_hides_no_other() {
    let text = probe_with(&[], &[("STAND_IN_SECOND", "719")]);
    // The first does all that it does.
    assert_line(&text, "data|", &["true"]);
    assert_line(&text, "device 0|stand-in AMD GPU, pci 0001:c3:00.0", &[]);
    assert_line(&text, "open 0|ok", &[]);
    assert_line(&text, "device 1|a device that does not answer (", &["hipDeviceGetName", "code 719"]);
    assert_line(&text, "comparable 1|Unknown", &[]);
    assert_line(&text, "open 1|DeviceLost|", &["hipDeviceGetName", "code 719"]);
    assert_line(&text, "open 2|NoDevice|", &["there are 2", "ordinal: 2"]);
    let sound = probe_with(&[], &[]);
    assert_line(&sound, "device 1|stand-in AMD GPU, pci 0001:c4:00.0", &[]);
    assert_line(&sound, "open 1|ok", &[]);
}

fn a_runtime_that_does_not_tell_its_version_is_named() {
    let text = probe_with(&[], &[("STAND_IN_VERSION", "999")]);
    assert_line(
        &text,
        "load|Driver|",
        &["hipRuntimeGetVersion", "hipErrorUnknown (999)", "library: ", "libstand_in_hip.so"],
    );
}

fn a_wait_that_the_runtime_refuses_says_what_it_may_wait_for() {
    let text = probe_with(&[], &[("STAND_IN_WAIT", "1")]);
    assert_line(&text, "wait|Driver|", &["hipStreamWaitValue64", "hipErrorInvalidValue (1)", "signal memory"]);
    let text = probe_with(&[], &[("STAND_IN_WAIT", "999")]);
    let line = text.lines().find(|line| line.starts_with("wait|Driver|")).expect("a line");
    assert!(!line.contains("signal memory"), "{line}");
}

fn what_a_runtime_lacks_is_told_by_symbol_and_version() {
    let text = probe_with(&[HIP_5_2, "-DWITHOUT_EXTERNAL"], &[]);
    assert_line(&text, "stream|", &["ok"]);
    let missing = "the driver (HIP 5.2) has no hipImportExternalMemory, although it came with HIP 4.3";
    assert_line(&text, "import memory|SymbolMissing|", &[missing]);
    let too_old = "the driver (HIP 5.2) has no hipLaunchHostFunc, which came with HIP 5.3";
    assert_line(&text, "feature|host functions|", &[too_old]);
    let text = probe_with(&["-DWITHOUT_MEMSET"], &[]);
    assert_line(&text, "load|SymbolMissing|", &["no hipMemsetD32Async", "HIP 7.1", "since HIP 4.2"]);
}

fn libraries_that_are_no_runtime_are_named() {
    let probe_with = |library: &str| probing::probe_with("GPU_INTEROP_HIP_LIBRARY", library.as_ref(), &[]);
    assert_line(&probe_with("libc.so.6"), "load|SymbolMissing|", &["no hipInit; it is no HIP driver", "libc.so.6"]);
    let absent = "/nonexistent/libamdhip64.so.7";
    assert_line(&probe_with(absent), "load|DriverNotFound|", &[absent, "No such file", "GPU_INTEROP_HIP_LIBRARY"]);
}

fn success_with_a_null_handle_is_a_failure() {
    for (function, what) in [
        ("hipImportExternalMemory", "import memory"),
        ("hipExternalMemoryGetMappedBuffer", "map"),
        ("hipStreamCreateWithFlags", "stream"),
    ] {
        let text = probe_with(&[], &[("STAND_IN_NULL", function)]);
        assert_line(&text, &format!("{what}|Driver|"), &[function, "null handle"]);
    }
}
