//! Faults of AMD's driver: device files, and several runtimes.

use std::path::{Path, PathBuf};

use super::Fault;
use crate::examined::System;

const KFD: &str = "/dev/kfd";
/// The names of AMD's HIP runtime, the newest first.
const RUNTIMES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// All faults.
pub(super) fn faults(system: &System) -> Vec<Fault> {
    let mut faults = Vec::new();
    faults.extend(kfd(system));
    faults.extend(render_nodes(system));
    faults.extend(runtimes(system));
    faults.extend(trap_handler(system));
    faults
}

/// Kernels that map the trap handler of a process at 0x800000000000. RADV, Mesa's Vulkan driver, maps its first program or
/// command buffer there, and shares page tables with HIP 5.7 and later.
fn trap_handler(system: &System) -> Option<Fault> {
    if !system.exists("/sys/module/amdgpu") {
        return None;
    }
    let release = system.text("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).map(str::parse::<u32>);
    let numbers = [numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?];
    let has_it = ([6, 6, 1]..=[6, 6, 13]).contains(&numbers) || ([6, 7, 0]..=[6, 7, 1]).contains(&numbers);
    has_it.then(|| {
        let cause = format!(
            "Linux {release} maps its trap handler where RADV maps its first program: HIP and Vulkan cannot be used in one \
             process (hipInit fails with code 100 or 101, or RADV crashes)"
        );
        let remedy = "update the kernel to 6.6.14, 6.7.2 or newer, or use HIP and Vulkan in two processes";
        Fault::warning("kernel_trap_handler", cause, remedy)
    })
}

/// The compute device of AMD's kernel driver.
fn kfd(system: &System) -> Option<Fault> {
    let path = Path::new(KFD);
    if system.exists(path) {
        let error = system.not_openable(path)?;
        return Some(not_accessible(system, "kfd_access", path, &error));
    }
    if !system.exists("/sys/class/kfd") || !system.exists("/sys/module/amdgpu") {
        return None;
    }
    let remedy = if system.container().is_some() {
        "start the container with `--device /dev/kfd --device /dev/dri`"
    } else {
        "run `modprobe amdgpu` and read `dmesg`"
    };
    let cause = "AMD's kernel driver amdgpu is loaded, but /dev/kfd does not exist".into();
    Some(Fault::error("kfd_missing", cause, remedy))
}

/// The render nodes of all GPUs.
fn render_nodes(system: &System) -> Vec<Fault> {
    let is_node = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD"));
    let nodes: Vec<PathBuf> = system.entries("/dev/dri").into_iter().filter(is_node).collect();
    let inaccessible = nodes.iter().filter_map(|node| {
        let error = system.not_openable(node)?;
        Some(not_accessible(system, "dri_access", node, &error))
    });
    let mut faults: Vec<Fault> = inaccessible.collect();
    for known in system.entries("/sys/class/drm").into_iter().filter(is_node) {
        let name = known.file_name().unwrap_or_default();
        let vendor = system.text(known.join("device/vendor")).unwrap_or_default();
        // NVIDIA's drivers work without a render node.
        if vendor.starts_with("0x10de") || nodes.iter().any(|node| node.file_name() == Some(name)) {
            continue;
        }
        let remedy = if system.container().is_some() {
            "start the container with `--device /dev/dri`"
        } else {
            "run `udevadm trigger`, and check that udev is running"
        };
        let cause = format!("the kernel has the GPU {}, but /dev/dri/{0} does not exist", name.to_string_lossy());
        faults.push(Fault::error("dri_missing", cause, remedy));
    }
    faults
}

/// A device file that this user cannot open.
fn not_accessible(system: &System, id: &'static str, path: &Path, error: &std::io::Error) -> Fault {
    let group = system.group(path).unwrap_or_default();
    let remedy = if system.container().is_some() {
        format!(
            "start the container with `--group-add {group}`, the group's number on the host, and `--device {}`",
            path.display()
        )
    } else {
        format!("add the user to the group {group}: `usermod -aG {group} USER`, and log in again")
    };
    let cause = format!("{} cannot be opened: {error}; it belongs to the group {group}", path.display());
    Fault::error(id, cause, remedy)
}

/// Several HIP runtimes.
fn runtimes(system: &System) -> Option<Fault> {
    let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
    let roots = ["ROCM_PATH", "HIP_PATH"].into_iter().flat_map(|name| system.list(name));
    let installed = system
        .entries("/opt")
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rocm")));
    // ROCm's wheels for Python.
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().flat_map(|name| system.list(name));
    let wheels = environments
        .flat_map(|root| system.entries(root.join("lib")))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")))
        .map(|python| python.join("site-packages/_rocm_sdk_core"));
    let folders: Vec<PathBuf> =
        roots.chain(wheels).chain(installed).flat_map(|root| [root.join("lib"), root.join("lib64")]).collect();
    for name in RUNTIMES {
        let paths = system.libraries(name).into_iter().chain(folders.iter().map(|folder| folder.join(name)));
        for path in paths {
            let Some(file) = system.canonical(&path) else { continue };
            if !found.iter().any(|(_, known)| *known == file) {
                found.push((path, file));
            }
        }
    }
    let [(first, _), (_, _), ..] = found.as_slice() else { return None };
    let all: Vec<String> = found.iter().map(|(path, _)| path.display().to_string()).collect();
    Some(Fault::warning(
        "two_hip_runtimes",
        format!(
            "{} HIP runtimes are in reach: {}; libraries of one process may load different ones",
            found.len(),
            all.join(", ")
        ),
        format!("uninstall all but one, or set GPU_INTEROP_HIP_LIBRARY={}", first.display()),
    ))
}
