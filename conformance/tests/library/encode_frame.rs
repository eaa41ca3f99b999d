//! The example `encode_frame`: with ffmpeg on the CPU and on the simulators, with a fake of NVIDIA's encoder library on the
//! simulator of CUDA, and without any encoder.
//!
//! Without Vulkan's driver for the CPU, the simulator, ffmpeg, the header of NVIDIA's encoder or the built example, a test
//! prints `skipped:` and the reason. With `GPU_INTEROP_REQUIRE_C`, a missing example, program or header is a failure.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use gpu_interop::DeviceKind;
use gpu_interop::vulkan::HeadlessContext;
use gpu_interop_test_support::{CompiledLibrary, build, code_and_text, source};

/// Exit status without an encoder.
const WITHOUT_ENCODER: i32 = 77;
/// Of Debian's package libffmpeg-nvenc-dev.
const HEADER: &str = "/usr/include/ffnvcodec/nvEncodeAPI.h";

/// The example; `None`, after the reason, if it, Vulkan's driver for the CPU or ffmpeg is missing.
fn example() -> Option<Command> {
    let devices = HeadlessContext::devices().unwrap_or_default();
    let cpu = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu).and_then(|device| device.uuid);
    let Some(uuid) = cpu else {
        println!("skipped: Vulkan has no driver for the CPU");
        return None;
    };
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        assert!(env::var_os("GPU_INTEROP_REQUIRE_C").is_none(), "GPU_INTEROP_REQUIRE_C is set; install ffmpeg");
        println!("skipped: needs the package ffmpeg");
        return None;
    }
    let mut command = gpu_interop_test_support::example("encode_frame", "")?;
    command.env("GPU_INTEROP_SIM_UUID", uuid.to_string());
    Some(command)
}

/// The first NAL units' types of an H.264 stream: 7 is the sequence's parameters, 8 the picture's, 5 a key frame.
fn has_key_frame(file: &Path) -> bool {
    let bytes = fs::read(file).expect("the encoded picture");
    let kinds: Vec<u8> = bytes.windows(4).filter(|four| four[..3] == [0, 0, 1]).map(|four| four[3] & 31).collect();
    kinds.starts_with(&[7, 8]) && kinds.contains(&5)
}

#[test]
fn ffmpeg_encodes_the_conversion_of_every_backend() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("frame.h264");
    for (backend, device, variable, package) in [
        ("host", "host CPU", "", ""),
        ("cuda", "(sim-cuda)", "GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda"),
        ("hip", "(sim-hip)", "GPU_INTEROP_HIP_LIBRARY", "gpu-interop-sim-hip"),
    ] {
        for (option, result) in [(None, ": 0 differ after decoding, inf dB"), (Some("--lossy"), " dB: ")] {
            let Some(mut command) = example() else { return };
            if !package.is_empty() {
                match build(package) {
                    Ok(library) => command.env(variable, library),
                    Err(error) => return println!("skipped: {error}"),
                };
            }
            command
                .env("GPU_INTEROP_BACKEND", backend)
                .args(["--encoder", "ffmpeg", "--output"])
                .arg(&output)
                .args(option);
            let (code, text) = code_and_text(command);
            assert_eq!(code, Some(0), "{backend}: {text}");
            assert!(text.contains(device) && text.contains("libx264") && text.contains(result), "{backend}: {text}");
            assert!(has_key_frame(&output), "{backend}");
            fs::remove_file(&output).expect("removed");
        }
    }
}

/// A program in the place of ffmpeg that decodes another picture.
#[test]
fn a_different_picture_is_found() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("ffmpeg");
    // A filter of the decoder's output, and whether the encoding is lossy.
    for (filter, option, error) in [
        ("printf '\\001'; tail -c +2", None, "a lossless picture differs"),
        ("printf '\\001'; cat", None, "345601 decoded bytes instead of 345600"),
        ("tail -c +2", None, "345599 decoded bytes instead of 345600"),
        ("tr '\\200-\\237' '\\240-\\277'", Some("--lossy"), "the ratio is below 40 dB"),
    ] {
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *libx264*) exec ffmpeg \"$@\";; esac\nffmpeg \"$@\" | {{ {filter}; }}\n"
        );
        fs::write(&program, script).expect("a script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        let Some(mut command) = example() else { return };
        command.env("GPU_INTEROP_BACKEND", "host").args(["--encoder", "ffmpeg", "--output"]);
        command.arg(folder.path().join("frame.h264")).arg("--ffmpeg").arg(&program).args(option);
        let (code, text) = code_and_text(command);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(error), "{text}");
    }
}

#[test]
fn missing_encoders_are_named_with_the_next_step() {
    let run = |arguments: &[&str]| {
        let mut command = example()?;
        command.env("GPU_INTEROP_BACKEND", "host").args(arguments);
        let (code, text) = code_and_text(command);
        assert_eq!(code, Some(WITHOUT_ENCODER), "{text}");
        Some(text)
    };
    let library = "/nonexistent/libnvidia-encode.so.1";
    let Some(text) = run(&["--encoder", "nvenc", "--library", library]) else { return };
    assert!(text.contains(&format!("{library}: cannot open")), "{text}");
    assert!(text.contains("driver capability `video`") && text.contains("libnvidia-encode1"), "{text}");
    let text = run(&["--encoder", "ffmpeg", "--ffmpeg", "/nonexistent/ffmpeg"]).expect("built, as above");
    assert!(text.contains("/nonexistent/ffmpeg is not found; install ffmpeg"), "{text}");
}

#[test]
fn the_engine_encodes_device_memory() {
    if !fs::read_to_string(HEADER).is_ok_and(|text| text.contains("NVENCAPI_MAJOR_VERSION 11")) {
        let required = env::var_os("GPU_INTEROP_REQUIRE_C").is_some() && !Path::new(HEADER).exists();
        assert!(!required, "GPU_INTEROP_REQUIRE_C is set; install libffmpeg-nvenc-dev");
        return println!("skipped: needs the package libffmpeg-nvenc-dev of Debian 12");
    }
    let simulator = match build("gpu-interop-sim-cuda") {
        Ok(library) => library,
        Err(error) => return println!("skipped: {error}"),
    };
    let fake = CompiledLibrary::compile(&source("nvenc.c"), &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("frame.h264");
    // Where the fake looks for the driver.
    fs::copy(simulator, folder.path().join("libcuda.so.1")).expect("the simulator");
    let run = |kind: &str, backend: &str, arguments: &[&str]| {
        let mut command = example()?;
        command.env("LD_LIBRARY_PATH", folder.path()).env("GPU_INTEROP_BACKEND", backend);
        command.env("FAKE_NVENC", kind).env("FAKE_NVENC_FILE", folder.path().join("fake.h264"));
        command.arg("--output").arg(&output).arg("--library").arg(fake.library()).args(arguments);
        Some(code_and_text(command))
    };

    for arguments in [&[][..], &["--encoder", "nvenc"]] {
        let Some((code, text)) = run("", "cuda", arguments) else { return };
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("NVENC encoded") && text.contains("1 encoded, 0 left"), "{text}");
        // The fake's file, byte for byte.
        assert!(has_key_frame(&output) && fs::read(&output).ok() == fs::read(folder.path().join("fake.h264")).ok());
        fs::remove_file(&output).expect("removed");
    }
    for (kind, backend, reason) in [
        ("none", "cuda", "no video engine encodes H.264 here: NVENCSTATUS 2"),
        ("hevc", "cuda", "no video engine encodes H.264 here: other codecs only"),
        ("old", "cuda", "supports version 10.0 of its interface; install a driver from 470 on"),
        ("", "host", "works with devices of the CUDA backend, and this is host"),
    ] {
        let (code, text) = run(kind, backend, &["--encoder", "nvenc"]).expect("built, as above");
        assert!(code == Some(WITHOUT_ENCODER) && text.contains(reason) && !output.exists(), "{text}");
        // Another encoder takes its place, unless the engine was asked for.
        let (code, text) = run(kind, backend, &[]).expect("built, as above");
        assert!(code == Some(0) && text.contains(reason) && text.contains("libx264 encoded"), "{text}");
        fs::remove_file(&output).expect("removed");
    }
}
