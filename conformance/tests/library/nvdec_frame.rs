//! The example `nvdec_frame` on the simulator of CUDA, with a fake of NVIDIA's decoder library that "decodes" random
//! pictures, and without any decoder.
//!
//! Without Vulkan's driver for the CPU, the simulator, or the built example, the test prints `skipped:` and the reason.
//! With `GPU_INTEROP_REQUIRE_C`, a missing example is a failure.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_interop::DeviceKind;
use gpu_interop::vulkan::HeadlessContext;
use gpu_interop_test_support::{CompiledLibrary, build, code_and_text, source};
use sha2::{Digest, Sha256};

const FRAMES: usize = 5;
/// Bytes of a picture of the fake.
const SIZE: usize = 320 * 192 * 3 / 2;
/// Exit status without a decoder.
const WITHOUT_DECODER: i32 = 77;

/// The example; `None`, after the reason, if it is not built.
fn example() -> Option<Command> {
    gpu_interop_test_support::example("nvdec_frame", "--features cudarc")
}

/// Random pictures (xorshift).
fn pictures() -> Vec<u8> {
    let mut state = 11_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..FRAMES * SIZE / 8).flat_map(|_| next()).collect()
}

/// Writes the hashes of pictures as ffmpeg's `framehash` does.
fn write_hashes(file: &Path, pictures: &[u8]) {
    let lines = pictures.chunks(SIZE).enumerate().map(|(nth, picture)| {
        let hash: String = Sha256::digest(picture).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("0, {nth}, {nth}, 1, {SIZE}, {hash}\n")
    });
    fs::write(file, format!("#hash: SHA256\n{}", lines.collect::<String>())).expect("hashes");
}

#[test]
fn a_missing_library_is_named_with_the_next_step() {
    let Some(mut command) = example() else { return };
    command.args(["--library", "/nonexistent/libnvcuvid.so.1"]);
    let (code, text) = code_and_text(command);
    assert_eq!(code, Some(WITHOUT_DECODER));
    assert!(text.contains("/nonexistent/libnvcuvid.so.1: cannot open"), "{text}");
    assert!(text.contains("driver capability `video`") && text.contains("libnvcuvid1"), "{text}");
}

#[test]
fn each_picture_of_the_decoder_arrives_in_vulkan() {
    let Some(_) = example() else { return };
    let devices = HeadlessContext::devices().unwrap_or_default();
    let cpu = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu).and_then(|device| device.uuid);
    let Some(uuid) = cpu else { return println!("skipped: Vulkan has no driver for the CPU") };
    let simulator = match build("gpu-interop-sim-cuda") {
        Ok(library) => library,
        Err(error) => return println!("skipped: {error}"),
    };
    let decoder = CompiledLibrary::compile(&source("nvcuvid.c"), &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    // Where cudarc looks for the driver.
    fs::copy(simulator, file("libcuda.so.1")).expect("the simulator");
    let pictures = pictures();
    fs::write(file("frames"), &pictures).expect("pictures");
    fs::write(file("clip"), [0; 64]).expect("a clip");
    write_hashes(&file("hashes"), &pictures);
    let run_with = |hashes: &str, linear: bool, has_engine: bool| {
        let mut command = example().expect("built, as above");
        command.env("LD_LIBRARY_PATH", folder.path()).env("GPU_INTEROP_SIM_UUID", uuid.to_string());
        if has_engine {
            command.env("FAKE_NVCUVID_FRAMES", file("frames"));
        }
        command.arg("--library").arg(decoder.library()).arg("--clip").arg(file("clip"));
        command.arg("--hashes").arg(file(hashes)).arg("--picture").arg(file("last.png"));
        command.args(linear.then_some("--linear"));
        code_and_text(command)
    };

    for (linear, tiling) in [(false, "optimal tiling"), (true, "linear tiling")] {
        let (code, text) = run_with("hashes", linear, true);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("5 of 5 frames equal the software decoder's") && text.contains(tiling), "{text}");
        assert!(text.contains("1 created, 5 decoded, 5 mapped, 5 unmapped"), "{text}");
        assert!(fs::read(file("last.png")).expect("a picture").starts_with(b"\x89PNG"));
        fs::remove_file(file("last.png")).expect("removed");
    }

    // Controls: the last byte of another picture differs, a picture too many, and one too few.
    let mut other = pictures.clone();
    other[3 * SIZE - 1] ^= 1;
    let longer: Vec<u8> = pictures.iter().chain(&pictures[..SIZE]).copied().collect();
    for (name, wrong, count) in [
        ("other", &other[..], "4 of 5 frames"),
        ("more", &longer, "5 of 6 frames"),
        ("fewer", &pictures[SIZE..], "0 of 5 frames"),
        ("none", &[], "0 of 5 frames"),
    ] {
        write_hashes(&file(name), wrong);
        let (code, text) = run_with(name, false, true);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(count), "{name}: {text}");
    }

    let (code, text) = run_with("hashes", false, false);
    assert_eq!(code, Some(WITHOUT_DECODER), "{text}");
    assert!(text.contains("no video engine decodes H.264"), "{text}");
}
