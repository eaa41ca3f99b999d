//! Faults of NVIDIA's driver: its kernel module, libraries, device files, containers, the fabric manager, MPS, and modes.

use std::path::{Path, PathBuf};

use gpu_interop_conformance::Version;

use super::{Fault, Severity};
use crate::evidence::{Gpu, Monitor};
use crate::examined::System;

/// NVIDIA's Vulkan driver.
pub(super) const NVIDIA_VULKAN: &str = "libGLX_nvidia.so.0";
const CUDA: &str = "libcuda.so.1";
/// The container toolkit's capabilities if `NVIDIA_DRIVER_CAPABILITIES` is not set, or empty.
const DEFAULT_CAPABILITIES: &str = "utility,compute";

/// All faults.
pub(super) fn faults(system: &System) -> Vec<Fault> {
    let cuda = system.library(CUDA);
    let mut faults = Vec::new();
    faults.extend(cuda.as_ref().and_then(|library| stub(system, library)));
    faults.extend(cuda.as_ref().and_then(|library| version(system, library)));
    faults.extend(not_loaded(system, cuda.as_ref()));
    faults.extend(device_files(system));
    faults.extend(no_gpu_passed(system));
    faults.extend(without_graphics(system));
    faults
}

/// The version of the loaded kernel module.
pub(super) fn module(system: &System) -> Option<String> {
    let version = system.text("/sys/module/nvidia/version").map(|text| text.trim().to_owned());
    version.or_else(|| {
        let text = system.text("/proc/driver/nvidia/version")?;
        let line = text.lines().next()?;
        line.split_whitespace().find(|word| word.contains('.') && Version::text_in(word).is_some()).map(Into::into)
    })
}

/// The file of `libcuda.so.1`, without links.
fn file(system: &System, library: &Path) -> PathBuf {
    system.canonical(library).unwrap_or_else(|| library.to_owned())
}

fn has_component(path: &Path, name: &str) -> bool {
    path.components().any(|component| component.as_os_str().to_string_lossy().starts_with(name))
}

fn is_stub(system: &System, library: &Path) -> bool {
    has_component(library, "stubs") || has_component(&file(system, library), "stubs")
}

/// A toolkit's library without a driver, found before the driver's.
fn stub(system: &System, library: &Path) -> Option<Fault> {
    if !is_stub(system, library) {
        return None;
    }
    let real = system.libraries(CUDA).into_iter().find(|path| !is_stub(system, path));
    let real = real.map_or("no other was found".into(), |path| format!("the driver's is {}", path.display()));
    Some(Fault::error(
        "cuda_stub",
        format!("{CUDA} is the toolkit's stub {}, which links but does nothing; {real}", library.display()),
        "remove the folder `stubs` from LD_LIBRARY_PATH and /etc/ld.so.conf.d",
    ))
}

/// A library of another version than the kernel module.
fn version(system: &System, library: &Path) -> Option<Fault> {
    let module = module(system)?;
    let file = file(system, library);
    let name = file.file_name()?.to_string_lossy().into_owned();
    let text = name.strip_prefix("libcuda.so.").filter(|text| text.contains('.'))?;
    let (user, kernel) = (Version::of_driver(text)?, Version::of_driver(&module)?);
    if user == kernel {
        return None;
    }
    let is_older = user < kernel;
    // The forward-compatibility package is newer on purpose.
    if !is_older && has_component(library, "compat") {
        return None;
    }
    let order = if is_older { "older" } else { "newer" };
    let remedy = if has_component(library, "compat") {
        "remove the compatibility package (cuda-compat) from the library path: the driver is newer"
    } else if system.container().is_some() {
        "let the container toolkit mount the host's libraries: remove the driver's packages from the image"
    } else if is_older {
        "install the libraries of the kernel module's version, or the module of theirs, and reboot"
    } else {
        "reboot, so that the kernel loads the installed module"
    };
    let id = if is_older { "driver_older_than_module" } else { "driver_newer_than_module" };
    let cause = format!("{} is version {text}, {order} than NVIDIA's kernel module {module}", library.display());
    Some(Fault::error(id, cause, remedy))
}

/// An NVIDIA GPU whose kernel module is not loaded, or without CUDA's library.
fn not_loaded(system: &System, cuda: Option<&PathBuf>) -> Option<Fault> {
    let is_loaded = module(system).is_some();
    if is_loaded && cuda.is_none() {
        let remedy = if system.container().is_some() {
            "start the container with NVIDIA_DRIVER_CAPABILITIES=all and NVIDIA's container toolkit"
        } else {
            "install it (Debian: libcuda1)"
        };
        let cause = format!("NVIDIA's kernel module is loaded, but {CUDA} is not installed");
        return Some(Fault::error("cuda_library_missing", cause, remedy));
    }
    let library = cuda.filter(|_| !is_loaded && !is_wsl(system))?;
    let is_gpu = |device: &PathBuf| {
        let has = |name: &str, start: &str| system.text(device.join(name)).is_some_and(|text| text.starts_with(start));
        has("vendor", "0x10de") && has("class", "0x03")
    };
    let gpu = system.entries("/sys/bus/pci/devices").into_iter().find(is_gpu)?;
    let address = gpu.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let nouveau = system.exists("/sys/module/nouveau");
    let other = if nouveau { "; nouveau is loaded instead" } else { "" };
    let cause =
        format!("{} is installed for the GPU {address}, but no kernel module is loaded{other}", library.display());
    let remedy = "run `modprobe nvidia` and read `dmesg`: the module may not be built for this kernel, or be unsigned";
    Some(Fault::error("nvidia_module_not_loaded", cause, remedy))
}

/// Device files that are missing or not accessible.
fn device_files(system: &System) -> Vec<Fault> {
    if module(system).is_none() || is_wsl(system) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let is_in_container = system.container().is_some();
    for name in ["/dev/nvidiactl", "/dev/nvidia-uvm"] {
        let path = Path::new(name);
        if !system.exists(path) {
            let remedy = if is_in_container {
                "start the container with `--gpus all`, or with NVIDIA's CDI devices"
            } else {
                "run `nvidia-modprobe -u -c 0` as root"
            };
            let cause = format!("NVIDIA's kernel module is loaded, but {name} does not exist");
            faults.push(Fault::error("nvidia_device_file_missing", cause, remedy));
        } else if let Some(error) = system.not_openable(path) {
            let group = system.group(path).unwrap_or_default();
            faults.push(Fault::error(
                "nvidia_device_file_access",
                format!("{name} cannot be opened: {error}; it belongs to the group {group}"),
                format!("add the user to the group {group}, or correct NVreg_DeviceFileMode"),
            ));
        }
    }
    faults
}

/// A container that was started without a GPU.
fn no_gpu_passed(system: &System) -> Option<Fault> {
    let value = system.variable("NVIDIA_VISIBLE_DEVICES").filter(|value| matches!(*value, "" | "void" | "none"))?;
    system.container()?;
    (!system.exists("/dev/nvidiactl") && module(system).is_some()).then(|| {
        Fault::error(
            "container_without_gpu",
            format!("NVIDIA_VISIBLE_DEVICES={value}: the container toolkit passes no GPU to this container"),
            "start the container with `--gpus all`, or NVIDIA_VISIBLE_DEVICES=all",
        )
    })
}

/// A container with CUDA, but without NVIDIA's graphics libraries.
pub(super) fn without_graphics(system: &System) -> Option<Fault> {
    let kind = system.container()?;
    system.library(CUDA)?;
    let is_nvidia = system.exists("/dev/nvidiactl") || system.variable("NVIDIA_VISIBLE_DEVICES").is_some();
    if !is_nvidia || system.library(NVIDIA_VULKAN).is_some() {
        return None;
    }
    let set = system.set_variable("NVIDIA_DRIVER_CAPABILITIES").unwrap_or(DEFAULT_CAPABILITIES);
    let has_graphics = set.split(',').any(|part| matches!(part.trim(), "all" | "graphics"));
    let (cause, remedy) = if has_graphics {
        (
            format!("NVIDIA_DRIVER_CAPABILITIES={set}, but {NVIDIA_VULKAN} is not in this {kind} container"),
            "install the graphics part of NVIDIA's driver on the host (Ubuntu: libnvidia-gl-VERSION), and restart the \
             container",
        )
    } else {
        (
            format!(
                "this {kind} container has CUDA but not Vulkan: NVIDIA_DRIVER_CAPABILITIES is {set}, without graphics"
            ),
            "start the container with `-e NVIDIA_DRIVER_CAPABILITIES=all`",
        )
    };
    Some(Fault::error("container_without_graphics", cause, remedy))
}

/// `true` in the Windows Subsystem for Linux.
fn is_wsl(system: &System) -> bool {
    let release = system.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.to_lowercase().contains("microsoft")
}

/// Faults and limits of the Windows Subsystem for Linux.
pub(super) fn wsl(system: &System) -> Vec<Fault> {
    if !is_wsl(system) {
        return Vec::new();
    }
    if !system.exists("/dev/dxg") {
        return vec![Fault::error(
            "wsl_without_gpu",
            "this is WSL without /dev/dxg: Windows passes no GPU".into(),
            "update Windows' GPU driver, run `wsl --update`, and use WSL 2",
        )];
    }
    if let Some(library) = system.library(CUDA).filter(|path| !path.starts_with("/usr/lib/wsl")) {
        return vec![Fault::error(
            "wsl_linux_driver",
            format!("this is WSL, and {} is a Linux driver, which hides that of Windows", library.display()),
            "remove NVIDIA's Linux driver packages: WSL uses /usr/lib/wsl/lib/libcuda.so.1",
        )];
    }
    vec![Fault::note(
        "wsl",
        "this is WSL: its Vulkan drivers export no memory that CUDA imports".into(),
        "use `--exporter native`, or run the suite on Windows or Linux itself",
    )]
}

/// The GPUs of NVIDIA's kernel driver, by their PCI addresses.
const GPUS: &str = "/proc/driver/nvidia/gpus";
const FABRIC_MANAGER: &str = "nv-fabricmanager";
const MPS_CONTROL: &str = "nvidia-cuda-mps-control";
const MPS_VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// The folder of MPS if the variable is not set.
const MPS_FOLDER: &str = "/tmp/nvidia-mps";

/// All faults that files and variables show.
pub(super) fn start_faults(system: &System) -> Vec<Fault> {
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

/// Corrects faults that a working driver of CUDA refutes: `cuInit` succeeds, and there is a device.
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

/// A field of the kernel driver's information about a GPU.
pub(super) fn field(system: &System, gpu: &Path, name: &str) -> Option<String> {
    let text = system.text(gpu.join("information"))?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// The minor number of the GPU at a PCI address.
fn minor(system: &System, address: &str) -> Option<String> {
    field(system, &Path::new(GPUS).join(address), "Device Minor:")
}

/// `true` if an instance of this name may exist: `MIG-UUID`, or `MIG-GPU-UUID/3/0`. Of the former only the management
/// library can tell the GPU.
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

/// `true` if a process of this name runs. `None` if none is seen and processes of others are hidden: in a container, a namespace
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
