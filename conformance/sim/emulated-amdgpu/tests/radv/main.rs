//! Tests of Mesa's own Vulkan driver for AMD GPUs, RADV, on this emulated kernel driver.
//!
//! RADV's manifest is searched in the folders of the Vulkan loader; `GPU_INTEROP_SIM_AMDGPU_TEST_RADV` names another
//! one. Without RADV the tests are skipped, which the output states.
//!
//! Each test runs in a separate process: this binary, with the emulation preloaded and RADV as the only driver.

#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(unused))]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod child;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod program;
// AMD's HIP runtime in the same process.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(dead_code)]
#[path = "../runtimes/child.rs"]
mod runtime;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../shared/mod.rs"]
mod shared;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod vulkan;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}

/// The first argument of the processes that the tests start.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const CHILD: &str = "child";

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    use libtest_mimic::{Arguments, Trial};

    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(CHILD) {
        let arguments: Vec<_> = arguments.collect();
        return child::run(&arguments);
    }
    let arguments = Arguments::from_args();
    let Some(manifest) = shared::radv() else {
        if !arguments.list {
            eprintln!(
                "SKIPPED: no test ran on RADV: it is not installed (Debian: mesa-vulkan-drivers), and {} names no \
                 manifest",
                shared::RADV
            );
        }
        let nothing = Trial::test("no_radv", || Ok(())).with_ignored_flag(true);
        libtest_mimic::run(&arguments, vec![nothing]).exit();
    };
    let hip = child::hip_library().is_some();
    if !hip && !arguments.list {
        eprintln!("SKIPPED: no test ran on HIP and RADV: HIP is not installed (Debian: libamdhip64-5)");
    }
    let trials = child::TESTS.iter().map(|(name, _)| {
        let manifest = manifest.clone();
        let trial = Trial::test(*name, move || Ok(run(name, &manifest)?));
        trial.with_ignored_flag(name.starts_with("hip_") && !hip)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Runs a test's process, which must succeed and leave no message of the emulation but the expected ones.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn run(test: &str, manifest: &std::path::Path) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = std::process::Command::new(own);
    command.args([CHILD, test]);
    shared::use_driver(&mut command, manifest);
    shared::emulate(&mut command, if test.ends_with("two_gpus") { "gfx906,gfx906" } else { "gfx906" })?;
    let ended = shared::output(command, std::time::Duration::from_secs(120)).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&[&ended.stdout[..], &ended.stderr[..]].concat()).into_owned();
    let draws = text.contains("draws are not emulated");
    let quiet = !text.contains("[emulated-amdgpu");
    match ended.status.success() && if test == "draw" { draws } else { quiet } {
        true => Ok(()),
        false => Err(format!("{}: {text}", ended.status)),
    }
}
