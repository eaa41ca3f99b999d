//! The steps of `cargo xtask ci`.
//!
//! The tests and the runs of the suite share one build of the workspace with the profile `dev`, and the lints and the
//! documentation another one of metadata only. Steps in the background, and `python`, need builds of their own. Steps
//! that take long and rarely fail, or need an optimised build of the suite, are in `slow.rs`.

use std::path::PathBuf;

use crate::run::{Outcome, Run, cargo, has, run};
use crate::session::{Session, Step, build, changed, lint};
use crate::{aliases, files, links, package, python, slow};

/// Steps that build: they run beside the others, which mostly wait. Where nothing is built, both take about equally long.
/// The steps that need metadata only, but for `clippy`, are the last of the others, because Cargo builds one of them at a
/// time.
pub(crate) const BACKGROUND: &[&str] = &["clippy", "instructions"];

/// Steps that run beside the others once those in the background have ended, which is early where everything is built.
pub(crate) const LATER: &[&str] = &["amd", "bundle"];

macro_rules! steps {
    ($($name:literal, $what:literal, $run:expr;)*) => { &[$(Step { name: $name, what: $what, run: $run }),*] };
}
pub(crate) use steps;

pub(crate) static STEPS: &[Step] = steps![
    "format", "formatting of Rust", |_| cargo("fmt --all --check").check();
    "files", "shell scripts, workflows and manifests of ci/", files::check;
    "kernels", "prebuilt kernels are those of their source", kernels;
    "lengths", "no Rust file is too long", |_| files::lengths();
    "clippy", "lints of the whole workspace", clippy;
    "tests", "all tests (README's command)", tests;
    "examples", "examples that run on the CPU", examples;
    "conformance", "the suite on the host backend, with Vulkan on the CPU; and on a third party's backend", conformance;
    "no-vulkan", "the suite on a machine without Vulkan", no_vulkan;
    "amd", "the suite on AMD's runtime 5.2.3 over an emulated kernel driver", amd;
    "bundle", "the bundle that vendors run", bundle;
    "instructions", "instructions that the safe objects add to signals, waits and imports", instructions;
    "python", "the Python module: wheel, types, tests on the CPU and on the simulator of CUDA", python::check;
    "features", "lints with each feature of gpu-interop alone", features;
    "docs", "documentation, its links and its names of driver functions", docs;
    "package", "packages of the published crates compile alone", package::check;
    "tree", "no step leaves files behind", tree;
];

fn kernels(session: &Session) -> Outcome {
    let scripts = ["kernels/build.sh", "crates/gpu-interop-wgpu/examples/kernels/build.sh"];
    scripts.into_iter().try_for_each(|script| run(script).arg("--check").check())?;
    if has("clang-19") && has("ld.lld-19") {
        scripts.into_iter().try_for_each(|script| run(script).arg("--verify").check())
    } else {
        session.leave_out("building the kernels again", "the packages clang-19 and lld-19")
    }
}

fn clippy(session: &Session) -> Outcome {
    // With the feature of the command that its bundle lacks.
    lint(session, "clippy --workspace --all-targets --features gpu-interop-conformance-cli/wgpu")
        .args(["--", "-D", "warnings"])
        .check()
}

fn features(session: &Session) -> Outcome {
    ["", "cuda", "cudarc", "d3d", "gl", "hip", "host", "nvsci", "serde", "vulkan"].into_iter().try_for_each(|feature| {
        lint(session, "clippy --package gpu-interop --all-targets --no-default-features --features")
            .arg(feature)
            .args(["--", "-D", "warnings"])
            .check()
    })
}

fn docs(session: &Session) -> Outcome {
    aliases::check(&session.root)?;
    links::roots()?;
    let document = || lint(session, "doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").check();
    document()?;
    let pages = session.target.join("lints/doc");
    // Pages of items that no longer exist remain, with their links.
    links::check(&pages).or_else(|_| {
        std::fs::remove_dir_all(&pages).map_err(|error| format!("{}: {error}", pages.display()))?;
        document()?;
        links::check(&pages)
    })
}

fn tests(session: &Session) -> Outcome {
    build()?;
    let mut tests = cargo("test --workspace --no-fail-fast").env("GPU_INTEROP_SIMULATORS", session.debug(""));
    if has("apt-get") {
        // .ci/run installs Mesa's driver of OpenGL: its tests must find it.
        tests = tests.env("GPU_INTEROP_REQUIRE_GL", "1");
        // And the compilers and tools of the programs in C.
        tests = tests.env("GPU_INTEROP_REQUIRE_C", "1");
        // And Vulkan's driver for the CPU, for the tests with cudarc.
        tests = tests.env("GPU_INTEROP_REQUIRE_CUDARC", "1");
        // And LLVM's disassembler, for the decoder of AMD's instructions.
        tests = tests.env("GPU_INTEROP_REQUIRE_LLVM_MC", "1");
    }
    match swiftshader(session) {
        Some(library) => tests = tests.env("SWIFTSHADER_LIBRARY", library),
        None => {
            session.leave_out("tests with SwiftShader", "the package chromium-common, and apt-get to download it")?
        }
    }
    tests.check_and_list(is_failed_test)
}

/// `true` for the lines of `cargo test` about a test that failed or a process that crashed.
fn is_failed_test(line: &str) -> bool {
    let failed = line.starts_with("test ") && line.ends_with("... FAILED");
    failed || line.contains(" panicked at ") || line.contains("process didn't exit successfully")
}

/// A Vulkan driver for the CPU that exports binary semaphores, which lavapipe does not. It is one file of a package
/// that would install a browser, so the package is only unpacked.
fn swiftshader(session: &Session) -> Option<PathBuf> {
    let folder = session.target.join("swiftshader");
    let library = folder.join("usr/lib/chromium/libvk_swiftshader.so");
    if !library.is_file() && std::fs::create_dir_all(&folder).is_ok() && has("apt-get") {
        // The package is unpacked as a whole, or not at all.
        let unpack =
            "rm -rf usr new *.deb && apt-get download -qq chromium-common && dpkg -x *.deb new && mv new/usr usr";
        // The network may fail for a moment.
        for _ in 0..3 {
            if run("bash -c").arg(unpack).within(&folder).succeeds() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_secs(10));
        }
    }
    library.is_file().then_some(library)
}

fn examples(session: &Session) -> Outcome {
    for example in [
        "fill",
        "ping_pong",
        "frames_in_flight",
        "own_device",
        "ash_renderer",
        "picture_to_compute",
        "wgpu_compute",
        "wgpu_picture",
    ] {
        run("env").arg(session.debug("examples").join(example)).check()?;
    }
    // Each compares its last frame with a picture.
    for (example, options) in [
        ("wgpu_filter", "--headless --size 256 --frames 10"),
        ("wgpu_filter", "--headless --size 512 --frames 3"),
        ("wgpu_particles", "--headless --size 256 --frames 30"),
        ("wgpu_particles_pass", "--headless --size 256 --frames 30"),
    ] {
        run("env").arg(session.debug("examples").join(example)).args(options.split(' ')).check()?;
    }
    if !has("Xvfb") {
        return session.leave_out("examples in a window", "the package xvfb");
    }
    for example in ["wgpu_filter", "wgpu_particles"] {
        let picture = session.target.join(format!("{example}.png"));
        let window = run("ci/window.py").arg(session.debug("examples").join(example)).arg(picture);
        window.args(["--size", "256"]).check()?;
    }
    Ok(())
}

fn conformance(session: &Session) -> Outcome {
    build()?;
    // Most scenarios wait.
    suite(session, "--require host,vulkan,native --jobs 2").check()?;
    // Another project's backend.
    run("env").arg(session.debug("third-party")).args(slow::SUITE.split(' ')).check()
}

/// A run of the suite's command, built with the profile `dev`.
fn suite(session: &Session, options: &str) -> Run {
    run("env").arg(session.debug("conformance")).args(["run", "--quiet", "--retries", "0"]).args(options.split(' '))
}

fn no_vulkan(session: &Session) -> Outcome {
    let libraries = run("/sbin/ldconfig -p").text()?;
    let line = libraries.lines().find(|line| line.contains("libvulkan.so.1 "));
    let Some((_, loader)) = line.and_then(|line| line.split_once("=> ")) else {
        return session.leave_out("the suite without Vulkan", "the package libvulkan1, to hide it");
    };
    if !run("unshare --mount true").succeeds() {
        return session.leave_out("the suite without Vulkan", "the right to hide Vulkan's loader: unshare --mount");
    }
    // With the scenarios that need Vulkan, which are skipped, and those of memory, which pass.
    let hidden = run("unshare --mount bash -c").arg("mount --bind /dev/null \"$0\" && exec \"$@\"").arg(loader);
    let output =
        hidden.arg(session.debug("conformance")).args(["run", "--quiet", "--filter", "{memory,semaphore}.*"]).text()?;
    println!("{output}");
    let said = output.lines().any(|line| line.contains("skipped: ") && line.contains("install"));
    if said { Ok(()) } else { Err("the summary does not say what to install".into()) }
}

fn amd(session: &Session) -> Outcome {
    let version = run("dpkg-query --show --showformat ${Version} libamdhip64-5").text().unwrap_or_default();
    if !version.starts_with("5.2.3-") {
        return session.leave_out("AMD's runtime 5.2.3", "the package libamdhip64-5");
    }
    build()?;
    suite(session, "--emulate amd:5.2.3 --require hip,vulkan").check()
}

fn bundle(session: &Session) -> Outcome {
    build()?;
    run("ci/test.sh").arg(session.debug("")).check()
}

fn instructions(session: &Session) -> Outcome {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) || !has("valgrind") {
        return session.leave_out("the count of instructions", "the package valgrind, on x86-64");
    }
    cargo("bench --package gpu-interop-host --bench instructions").check()
}

fn tree(session: &Session) -> Outcome {
    match changed() {
        None => session.leave_out("looking for files that tests left behind", "git"),
        Some(now) if now == session.changed_before => Ok(()),
        Some(now) => Err(format!("before:\n{}\nleft behind:\n{now}", session.changed_before)),
    }
}

#[cfg(test)]
mod tests {
    use super::is_failed_test;

    #[test]
    fn failed_tests_and_crashes_are_found() {
        let output = "test passes ... ok\n\
            test fails ... FAILED\n\
            thread 'fails' (1) panicked at crates/a/tests/b.rs:4:5:\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            error: test failed, to rerun pass `-p a --test b`\n  \
            process didn't exit successfully: `/b` (signal: 11, SIGSEGV: invalid memory reference)";
        let found: Vec<usize> =
            output.lines().enumerate().filter(|(_, line)| is_failed_test(line)).map(|(n, _)| n).collect();
        assert_eq!(found, [1, 2, 5]);
    }
}
