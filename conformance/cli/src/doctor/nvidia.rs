//! Faults of NVIDIA's driver: its kernel module, its libraries, its device files, containers.

use std::path::{Path, PathBuf};

use gpu_interop_conformance::Version;

use super::fault::Fault;
use crate::examined::{System, container, linker};

/// NVIDIA's Vulkan driver.
pub(super) const NVIDIA_VULKAN: &str = "libGLX_nvidia.so.0";
const CUDA: &str = "libcuda.so.1";
/// The container toolkit's capabilities if `NVIDIA_DRIVER_CAPABILITIES` is not set, or empty.
const DEFAULT_CAPABILITIES: &str = "utility,compute";

/// All faults.
pub(super) fn faults(system: &System) -> Vec<Fault> {
    let cuda = linker::find(system, CUDA);
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
    let real = linker::all(system, CUDA).into_iter().find(|path| !is_stub(system, path));
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
    } else if container(system).is_some() {
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
        let remedy = if container(system).is_some() {
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
    let is_in_container = container(system).is_some();
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
    container(system)?;
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
    let kind = container(system)?;
    linker::find(system, CUDA)?;
    let is_nvidia = system.exists("/dev/nvidiactl") || system.variable("NVIDIA_VISIBLE_DEVICES").is_some();
    if !is_nvidia || linker::find(system, NVIDIA_VULKAN).is_some() {
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
    if let Some(library) = linker::find(system, CUDA).filter(|path| !path.starts_with("/usr/lib/wsl")) {
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
