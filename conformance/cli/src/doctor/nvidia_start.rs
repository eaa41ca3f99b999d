//! What keeps NVIDIA's driver from starting although it is installed: the fabric manager, MPS, and modes of the GPUs.

use std::path::{Path, PathBuf};

use super::fault::{Fault, Severity};
use super::nvidia::module;
use crate::evidence::{Gpu, Monitor};
use crate::examined::System;

/// The GPUs of NVIDIA's kernel driver, by their PCI addresses.
const GPUS: &str = "/proc/driver/nvidia/gpus";
const FABRIC_MANAGER: &str = "nv-fabricmanager";
const MPS_CONTROL: &str = "nvidia-cuda-mps-control";
const MPS_VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// The folder of MPS if the variable is not set.
const MPS_FOLDER: &str = "/tmp/nvidia-mps";

/// All faults that files and variables show.
pub(super) fn faults(system: &System) -> Vec<Fault> {
    fabric_manager(system).into_iter().chain(mps(system)).collect()
}

/// The files of NVIDIA's GPUs.
pub(super) fn gpus(system: &System) -> Vec<PathBuf> {
    system.entries(GPUS)
}

/// NVSwitches without their fabric manager.
fn fabric_manager(system: &System) -> Option<Fault> {
    let is_switch = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix("nvidia-nvswitch").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let files = system.entries("/dev").into_iter().filter(is_switch);
    let switches = system.entries("/proc/driver/nvidia-nvswitch/devices").len().max(files.count());
    if switches == 0 || runs(system, FABRIC_MANAGER) != Some(false) {
        return None;
    }
    let version = module(system).map(|version| format!(", of version {version},")).unwrap_or_default();
    Some(Fault::error(
        "fabric_manager_not_running",
        format!("the machine has {switches} NVSwitches, but {FABRIC_MANAGER} does not run: cuInit fails until it does"),
        format!("install nvidia-fabricmanager{version} and run `systemctl enable --now nvidia-fabricmanager`"),
    ))
}

/// The multi-process service.
fn mps(system: &System) -> Option<Fault> {
    let named = system.set_variable(MPS_VARIABLE);
    let folder = Path::new(named.unwrap_or(MPS_FOLDER));
    if !system.exists(folder.join("control")) {
        let cause = format!("{MPS_VARIABLE}={}: no MPS control daemon has its pipe there", named?);
        let remedy = format!("unset {MPS_VARIABLE}, or start the daemon with it: `{MPS_CONTROL} -d`");
        return Some(Fault::warning("mps_unreachable", cause, remedy));
    }
    let folder = folder.display();
    if runs(system, MPS_CONTROL)? {
        let cause = format!("MPS is active in {folder}: processes share a server, and one's GPU error ends them all");
        let remedy = format!("to run without it: `echo quit | {MPS_CONTROL}`");
        return Some(Fault::note("mps", cause, remedy));
    }
    Some(Fault::error(
        "mps_daemon_gone",
        format!("{folder} has the pipe of an MPS control daemon, but {MPS_CONTROL} does not run: cuInit can fail"),
        format!("start it with `{MPS_CONTROL} -d`, as the user whom the pipe belongs to"),
    ))
}

/// The modes of all GPUs, which the management library reports.
pub(super) fn modes(system: &System) -> Vec<Fault> {
    let address = |path: PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = |address: String| Some((Monitor::at(&address).read()?, address));
    gpus(system).into_iter().map(address).filter_map(read).flat_map(|(gpu, at)| of_modes(system, &gpu, &at)).collect()
}

/// Corrects faults that a working driver of CUDA refutes: what keeps `cuInit` from succeeding is none, and there is a device.
pub(super) fn refute(faults: &mut Vec<Fault>) {
    faults.retain(|fault| !matches!(fault.id, "fabric_manager_not_running" | "mps_daemon_gone"));
    for fault in faults.iter_mut().filter(|fault| fault.id == "mig_without_instance") {
        fault.severity = Severity::Warning;
    }
}

fn of_modes(system: &System, gpu: &Gpu, address: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(mode) = gpu.compute_mode.as_deref().filter(|mode| *mode != "default") {
        let (cause, remedy) = (
            format!("the GPU {address} is in the compute mode {mode}"),
            format!("run `nvidia-smi --id={address} --compute-mode=DEFAULT` as root"),
        );
        faults.push(match mode {
            "prohibited" => Fault::error("compute_mode", format!("{cause}: no process may use it"), remedy),
            _ => Fault::warning("compute_mode", format!("{cause}: while one uses it, cuInit fails in others"), remedy),
        });
    }
    if gpu.mig == Some(true) && !has_instances(system, minor(system, address).as_deref()) {
        faults.push(Fault::error(
            "mig_without_instance",
            format!("MIG is enabled on the GPU {address}, but it has no instance: CUDA has no device of it"),
            format!("create one with `nvidia-smi mig -cgi PROFILE -C`, or run `nvidia-smi --id={address} --multi-instance-gpu=0`"),
        ));
    }
    faults
}

/// `true` if the GPU of this minor number has an instance; if `None`, any GPU. As the kernel driver lists them.
fn has_instances(system: &System, minor: Option<&str>) -> bool {
    let is_meant = |gpu: &&PathBuf| minor.is_none_or(|minor| gpu.ends_with(format!("gpu{minor}")));
    system.entries("/proc/driver/nvidia/capabilities").iter().filter(is_meant).any(|gpu| {
        let instances = system.entries(gpu.join("mig"));
        instances
            .iter()
            .any(|instance| instance.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gi")))
    })
}

/// A field of what the kernel driver says of a GPU.
pub(super) fn field(system: &System, gpu: &Path, name: &str) -> Option<String> {
    let text = system.text(gpu.join("information"))?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// The minor number of the GPU at a PCI address.
fn minor(system: &System, address: &str) -> Option<String> {
    field(system, &Path::new(GPUS).join(address), "Device Minor:")
}

/// `true` if an instance of this name may exist: `MIG-UUID`, or `MIG-GPU-UUID/3/0`. Of the former only the management
/// library knows the GPU.
pub(super) fn may_be_instance(system: &System, name: &str) -> bool {
    let Some(rest) = name.strip_prefix("MIG-") else { return false };
    let Some((uuid, numbers)) = rest.split_once('/').filter(|(uuid, _)| uuid.starts_with("GPU-")) else {
        return has_instances(system, None);
    };
    let Some((gi, ci)) = numbers.split_once('/') else { return false };
    let is_meant =
        |gpu: &PathBuf| field(system, gpu, "GPU UUID:").is_some_and(|known| known.eq_ignore_ascii_case(uuid));
    let minor = gpus(system).into_iter().find(is_meant).and_then(|gpu| field(system, &gpu, "Device Minor:"));
    minor.is_some_and(|minor| system.exists(format!("/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gi}/ci{ci}")))
}

/// Whether a process of this name runs; `None` if it is not seen and processes of others are hidden: in a container, a namespace
/// of process ids, or by the option `hidepid` of `/proc`. Where all are visible, 2 is the kernel's `kthreadd`.
fn runs(system: &System, name: &str) -> Option<bool> {
    // The kernel keeps 15 bytes of a name.
    let kept = name.get(..15).unwrap_or(name);
    let is_process = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().chars().all(|digit| digit.is_ascii_digit()))
    };
    let named = |process: PathBuf| system.text(process.join("comm")).is_some_and(|found| found.trim_end() == kept);
    let is_seen = system.entries("/proc").into_iter().filter(is_process).any(named);
    let sees_all = system.text("/proc/2/comm").is_some_and(|name| name.trim_end() == "kthreadd");
    (is_seen || sees_all).then_some(is_seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_keep_processes_off_a_gpu_are_faults() {
        let folder = tempfile::tempdir().expect("a folder");
        let system = System::new(Some(folder.path()));
        let of = |compute_mode: Option<&str>, mig| {
            let gpu = Gpu { compute_mode: compute_mode.map(Into::into), mig, ..Gpu::default() };
            let faults = of_modes(&system, &gpu, "0000:1b:00.0");
            faults.iter().map(|fault| format!("{fault}").split(':').next().map(ToOwned::to_owned)).collect::<Vec<_>>()
        };
        let found = |text: &str| vec![Some(text.to_owned())];
        assert_eq!((of(None, None), of(Some("default"), Some(false))), (Vec::new(), Vec::new()));
        assert_eq!(of(Some("exclusive process"), None), found("warning   compute_mode"));
        assert_eq!(of(Some("prohibited"), None), found("error     compute_mode"));
        assert_eq!(of(None, Some(true)), found("error     mig_without_instance"));
        let made = |path: &str| std::fs::create_dir_all(folder.path().join(path)).expect("made");
        made("proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0");
        assert_eq!(of(None, Some(true)), Vec::new());
        // The instance is one of another GPU.
        made("proc/driver/nvidia/gpus/0000:1b:00.0");
        let information = folder.path().join("proc/driver/nvidia/gpus/0000:1b:00.0/information");
        std::fs::write(&information, "Device Minor: \t 1\n").expect("written");
        made("proc/driver/nvidia/capabilities/gpu1/mig");
        assert_eq!(of(None, Some(true)), found("error     mig_without_instance"));
        std::fs::write(&information, "Device Minor: \t 0\n").expect("written");
        assert_eq!(of(None, Some(true)), Vec::new());
    }

    #[test]
    fn a_working_driver_refutes_what_would_keep_it_from_starting() {
        let ids = ["fabric_manager_not_running", "mig_without_instance", "mps_daemon_gone", "kfd_missing"];
        let mut faults: Vec<_> = ids.into_iter().map(|id| Fault::error(id, String::new(), "")).collect();
        refute(&mut faults);
        let left: Vec<_> = faults.iter().map(|fault| (fault.id, fault.severity)).collect();
        assert_eq!(left, [("mig_without_instance", Severity::Warning), ("kfd_missing", Severity::Error)]);
    }
}
