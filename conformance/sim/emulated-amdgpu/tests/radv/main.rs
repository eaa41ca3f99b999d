//! Tests of Mesa's own Vulkan driver for AMD GPUs, RADV, on this emulated kernel driver.
//!
//! RADV's manifest is searched in the folders of the Vulkan loader; `GPU_INTEROP_SIM_AMDGPU_TEST_RADV` names another
//! one. Without RADV the tests are skipped, which the output states. `GPU_INTEROP_SIM_AMDGPU_TEST_RUNTIME` names a folder
//! that `ci/amd-runtimes.sh` has set up: the tests run on its RADV and HIP.
//!
//! Each test runs in a separate process, with the emulation preloaded and RADV as the only driver: this binary, or one of
//! the programs of [`clients`]. Those that are not here are skipped; with `GPU_INTEROP_REQUIRE_C`, a missing example is a
//! failure.

#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(unused))]

use std::time::Duration;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod child;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod clients;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod modifiers;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod pictures;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod producer;
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
mod sync_files;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod syncobjs;
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
    let Some(manifest) = manifest() else {
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
        trial.with_ignored_flag(*name == SLOW || name.contains("hip_") && !hip)
    });
    // Other programs are those of this system, with its own libraries.
    let clients = clients::CLIENTS.iter().filter(|_| child::runtime_folder().is_none()).map(|client| {
        let manifest = manifest.clone();
        let missing = client.missing();
        if let Some(remedy) = missing.as_ref().filter(|_| !arguments.list) {
            eprintln!("SKIPPED: {} is not here: {remedy}", client.name);
        }
        let trial = Trial::test(format!("client_{}", client.name), move || Ok(run_client(client, &manifest)?));
        trial.with_ignored_flag(missing.is_some() || client.hip && !hip)
    });
    let trials = trials.chain(clients);
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Beginning of the names of tests with the trap handler of some kernels.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const TRAP_HANDLER: &str = "trap_handler_";

/// The test that takes long.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const SLOW: &str = "pictures_500_sizes";

/// The test with answers of a kernel that lacks calls of syncobjs.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const OLD_KERNEL: &str = "syncobjs_old_kernel";

/// RADV's manifest: that of the runtime's folder, or the system's.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn manifest() -> Option<std::path::PathBuf> {
    match child::runtime_folder().filter(|_| std::env::var_os(shared::RADV).is_none()) {
        Some(folder) => Some(folder.join("vulkan/radeon_icd.json")),
        None => shared::radv(),
    }
}

/// The longest time of a test.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a test's process, which must succeed and leave no message of the emulation but the expected ones.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn run(test: &str, manifest: &std::path::Path) -> Result<(), String> {
    use std::os::unix::process::ExitStatusExt as _;

    let mut command = child::this_program();
    command.args([CHILD, test]);
    let gpus = if test.ends_with("two_gpus") { "gfx906,gfx906" } else { "gfx906" };
    if test.starts_with(TRAP_HANDLER) {
        command.env("GPU_INTEROP_SIM_AMDGPU_TRAP_HANDLER", "high");
    }
    if test == OLD_KERNEL {
        let faults = "ioctl-drm-syncobj-eventfd,ioctl-drm-syncobj-query,ioctl-drm-syncobj-timeline-wait:1:ENODEV";
        command.env("GPU_INTEROP_SIM_AMDGPU_FAULTS", faults);
    }
    let limit = if test == SLOW { Duration::from_secs(3600) } else { LIMIT };
    let (status, text) = emulated(command, gpus, manifest, limit)?;
    let draws = text.contains("draws are not emulated");
    let quiet = !text.contains("[emulated-amdgpu");
    let good = match test {
        "draw" => status.success() && draws,
        OLD_KERNEL => status.success() && text.matches("fault on demand").count() == 3,
        // RADV 25.0 crashes when it cannot map its first object.
        "trap_handler_hip_first" if child::runtime_folder().is_some() => status.signal() == Some(libc::SIGSEGV),
        _ => status.success() && quiet,
    };
    match good {
        true => Ok(()),
        false => Err(format!("{status}: {text}")),
    }
}

/// Runs another program, which must succeed without a message of the emulation.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn run_client(client: &clients::Client, manifest: &std::path::Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    client.run(folder.path(), |command| {
        let (status, text) = emulated(command, client.gpus, manifest, LIMIT)?;
        match status.success() && !text.contains("[emulated-amdgpu") {
            true => Ok(text),
            false => Err(format!("{status}: {text}")),
        }
    })
}

/// Runs a command on emulated GPUs. Returns its status and its output.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn emulated(
    mut command: std::process::Command,
    gpus: &str,
    manifest: &std::path::Path,
    limit: Duration,
) -> Result<(std::process::ExitStatus, String), String> {
    shared::use_driver(&mut command, manifest);
    shared::emulate(&mut command, gpus)?;
    let ended = shared::output(command, limit).map_err(|error| error.to_string())?;
    Ok((ended.status, String::from_utf8_lossy(&[&ended.stdout[..], &ended.stderr[..]].concat()).into_owned()))
}
