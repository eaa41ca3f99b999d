//! `conformance doctor` names the cause of planted faults of a machine, and finds none on a sound one.

mod nvidia;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use gpu_interop_test_support::{CompiledLibrary, source};
use serde_json::Value;

use super::{Tested, text};

const LIB: &str = "usr/lib/x86_64-linux-gnu";
const ICD: &str = "usr/share/vulkan/icd.d";
const GPU: &str = "proc/driver/nvidia/gpus/0000:01:00.0/information";
const UUID: &str = "Model: NVIDIA H200\nGPU UUID: GPU-11111111-2222-3333-4444-555555555555\nDevice Minor: \t 3\n";
const AMD: &str = "sys/class/kfd/kfd/topology/nodes/1/properties";

/// A fault: files with their contents, variables, and the fault's name.
struct Plant {
    files: &'static [(&'static str, &'static str)],
    removed: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// A file that only its owner may open.
    closed: Option<&'static str>,
    id: &'static str,
}

const NOTHING: Plant = Plant { files: &[], removed: &[], variables: &[], closed: None, id: "" };

/// A machine with an NVIDIA and an AMD GPU, without a fault.
const SOUND: [(&str, &str); 19] = [
    ("proc/sys/kernel/osrelease", "6.6.14-amd64\n"),
    ("proc/2/comm", "kthreadd\n"),
    ("etc/group", "root:x:0:\nrender:x:106:\n"),
    ("usr/lib/x86_64-linux-gnu/libvulkan.so.1", ""),
    ("usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", ""),
    ("usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.0", ""),
    ("usr/lib/x86_64-linux-gnu/libX11.so.6", ""),
    ("usr/lib/x86_64-linux-gnu/libXext.so.6", ""),
    ("usr/lib/x86_64-linux-gnu/libvulkan_radeon.so", ""),
    ("usr/share/vulkan/icd.d/nvidia_icd.json", r#"{"ICD": {"library_path": "libGLX_nvidia.so.0"}}"#),
    ("usr/share/vulkan/icd.d/radeon_icd.json", r#"{"ICD": {"library_path": "libvulkan_radeon.so"}}"#),
    ("sys/module/nvidia/version", "580.159.04\n"),
    ("sys/module/amdgpu/refcnt", "1"),
    (AMD, "simd_count 416\n"),
    (GPU, UUID),
    ("dev/nvidiactl", ""),
    ("dev/nvidia-uvm", ""),
    ("dev/kfd", ""),
    ("dev/dri/renderD128", ""),
];

const PLANTS: [Plant; 37] = [
    Plant {
        files: &[(".dockerenv", "")],
        removed: &["usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.0"],
        variables: &[("NVIDIA_DRIVER_CAPABILITIES", "compute,utility")],
        id: "container_without_graphics",
        ..NOTHING
    },
    Plant { removed: &["usr/lib/x86_64-linux-gnu/libXext.so.6"], id: "nvidia_needs_x11", ..NOTHING },
    Plant { removed: &["usr/lib/x86_64-linux-gnu/libvulkan_radeon.so"], id: "icd_library_missing", ..NOTHING },
    Plant { removed: &["usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.0"], id: "icd_library_missing", ..NOTHING },
    Plant { files: &[("usr/share/vulkan/icd.d/bad.json", "{")], id: "icd_unreadable", ..NOTHING },
    Plant {
        files: &[
            ("etc/vulkan/icd.d/amd_icd64.json", r#"{"ICD": {"library_path": "/opt/amdvlk/amdvlk64.so"}}"#),
            ("opt/amdvlk/amdvlk64.so", ""),
        ],
        id: "two_icds_of_one_gpu",
        ..NOTHING
    },
    Plant {
        files: &[("etc/vulkan/icd.d/nvidia_icd.json", r#"{"ICD": {"library_path": "libGLX_nvidia.so.0"}}"#)],
        id: "icd_twice",
        ..NOTHING
    },
    Plant { closed: Some("dev/kfd"), id: "kfd_access", ..NOTHING },
    Plant { closed: Some("dev/dri/renderD128"), id: "dri_access", ..NOTHING },
    Plant { files: &[("sys/class/kfd/kfd/dev", "")], removed: &["dev/kfd"], id: "kfd_missing", ..NOTHING },
    Plant { files: &[("sys/class/drm/renderD129/device/vendor", "0x1002\n")], id: "dri_missing", ..NOTHING },
    Plant { variables: &[("CUDA_VISIBLE_DEVICES", "1")], id: "devices_hidden", ..NOTHING },
    Plant { variables: &[("CUDA_VISIBLE_DEVICES", "0,0")], id: "devices_hidden", ..NOTHING },
    Plant { variables: &[("HIP_VISIBLE_DEVICES", "-1")], id: "devices_hidden", ..NOTHING },
    Plant {
        files: &[("usr/local/cuda/lib64/stubs/libcuda.so.1", "")],
        variables: &[("LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs")],
        id: "cuda_stub",
        ..NOTHING
    },
    Plant {
        files: &[("opt/rocm-6.4.3/lib/libamdhip64.so.6", ""), ("usr/lib/x86_64-linux-gnu/libamdhip64.so.5", "")],
        id: "two_hip_runtimes",
        ..NOTHING
    },
    Plant {
        files: &[
            ("venv/lib/python3.12/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7", ""),
            ("usr/lib/x86_64-linux-gnu/libamdhip64.so.5", ""),
        ],
        variables: &[("VIRTUAL_ENV", "/venv")],
        id: "two_hip_runtimes",
        ..NOTHING
    },
    Plant { files: &[("proc/sys/kernel/osrelease", "6.6.13-200.fc39.x86_64\n")], id: "kernel_trap_handler", ..NOTHING },
    Plant { files: &[("proc/sys/kernel/osrelease", "6.7.0-zen1\n")], id: "kernel_trap_handler", ..NOTHING },
    Plant { files: &[("sys/module/nvidia/version", "585.10\n")], id: "driver_older_than_module", ..NOTHING },
    Plant {
        files: &[("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n"), ("dev/dxg", "")],
        removed: &["dev/nvidiactl", "dev/nvidia-uvm"],
        id: "wsl_linux_driver",
        ..NOTHING
    },
    Plant { variables: &[("VK_DRIVER_FILES", "/none")], id: "vulkan_drivers_hidden", ..NOTHING },
    Plant { variables: &[("VK_ICD_FILENAMES", "/none.json")], id: "vulkan_drivers_hidden", ..NOTHING },
    // The loader differs from what reads other variables.
    Plant { variables: &[("VK_DRIVER_FILES", "")], id: "vulkan_drivers_hidden", ..NOTHING },
    Plant {
        variables: &[("VK_DRIVER_FILES", ""), ("VK_ICD_FILENAMES", RADEON)],
        id: "vulkan_drivers_hidden",
        ..NOTHING
    },
    Plant { variables: &[("VK_LOADER_DRIVERS_DISABLE", "*")], id: "vulkan_drivers_hidden", ..NOTHING },
    Plant { variables: &[("VK_LOADER_DRIVERS_DISABLE", "Nvidia*,*RADEON*")], id: "vulkan_drivers_hidden", ..NOTHING },
    Plant { variables: &[("VK_LOADER_DRIVERS_SELECT", "radeon")], id: "vulkan_drivers_hidden", ..NOTHING },
    Plant { files: &[("dev/nvidia-nvswitch0", "")], id: "fabric_manager_not_running", ..NOTHING },
    Plant {
        files: &[("proc/driver/nvidia-nvswitch/devices/0000:05:00.0", ""), ("proc/7/comm", "nvidia-persiste\n")],
        id: "fabric_manager_not_running",
        ..NOTHING
    },
    Plant { files: &[("tmp/nvidia-mps/control", "")], id: "mps_daemon_gone", ..NOTHING },
    Plant { files: &[("tmp/nvidia-mps/control", ""), ("proc/78/comm", "nvidia-cuda-mps\n")], id: "mps", ..NOTHING },
    Plant { variables: &[("CUDA_MPS_PIPE_DIRECTORY", "/nowhere")], id: "mps_unreachable", ..NOTHING },
    Plant {
        variables: &[("CUDA_VISIBLE_DEVICES", "MIG-11111111-2222-3333-4444-555555555555")],
        id: "devices_hidden",
        ..NOTHING
    },
    Plant {
        files: INSTANCE,
        variables: &[("CUDA_VISIBLE_DEVICES", "MIG-GPU-11111111-2222-3333-4444-555555555555/2/0")],
        id: "devices_hidden",
        ..NOTHING
    },
    Plant {
        files: INSTANCE,
        variables: &[("CUDA_VISIBLE_DEVICES", "MIG-GPU-99999999-2222-3333-4444-555555555555/1/0")],
        id: "devices_hidden",
        ..NOTHING
    },
    Plant { variables: &[("CUDA_VISIBLE_DEVICES", "")], id: "devices_hidden", ..NOTHING },
];

const RADEON: &str = "/usr/share/vulkan/icd.d/radeon_icd.json";
/// An instance of the GPU.
const INSTANCE: &[(&str, &str)] = &[("proc/driver/nvidia/capabilities/gpu3/mig/gi1/ci0/access", "")];

/// Files of services whose processes may be hidden.
const UNSEEN: &[(&str, &str)] =
    &[("dev/nvidia-nvswitch0", ""), ("tmp/nvidia-mps/control", ""), ("mps/control", ""), ("proc/77/comm", "sh\n")];

/// Settings and processes of a sound machine.
const SOUND_TOO: [Plant; 13] = [
    NOTHING,
    Plant {
        variables: &[("VK_LOADER_DRIVERS_DISABLE", ""), ("VK_LOADER_DRIVERS_SELECT", ""), ("HIP_VISIBLE_DEVICES", "")],
        ..NOTHING
    },
    Plant { variables: &[("VK_DRIVER_FILES", RADEON)], ..NOTHING },
    Plant { variables: &[("VK_LOADER_DRIVERS_DISABLE", "nvidia*")], ..NOTHING },
    Plant {
        variables: &[("VK_LOADER_DRIVERS_DISABLE", "*"), ("VK_LOADER_DRIVERS_SELECT", "*radeon_icd.json")],
        ..NOTHING
    },
    Plant { files: &[("dev/nvidia-nvswitch0", ""), ("proc/77/comm", "nv-fabricmanage\n")], ..NOTHING },
    // Without the processes of others: in a namespace of process ids, or with the option hidepid of /proc.
    Plant { files: UNSEEN, removed: &["proc/2/comm"], ..NOTHING },
    Plant { files: UNSEEN, removed: &["proc/2/comm"], variables: &[("CUDA_MPS_PIPE_DIRECTORY", "/mps")], ..NOTHING },
    Plant { files: &[UNSEEN[0], UNSEEN[1], UNSEEN[2], ("proc/2/comm", "sh\n")], ..NOTHING },
    // Relative to the current folder, which is unknown for a folder of files.
    Plant { variables: &[("VK_DRIVER_FILES", "radeon_icd.json")], ..NOTHING },
    Plant { files: &[("dev/nvidia-nvswitchctl", "")], variables: &[("CUDA_MPS_PIPE_DIRECTORY", "")], ..NOTHING },
    Plant {
        files: INSTANCE,
        variables: &[("CUDA_VISIBLE_DEVICES", "MIG-11111111-2222-3333-4444-555555555555")],
        ..NOTHING
    },
    Plant {
        files: INSTANCE,
        variables: &[("CUDA_VISIBLE_DEVICES", "MIG-GPU-11111111-2222-3333-4444-555555555555/1/0")],
        ..NOTHING
    },
];

/// Writes the system.
fn planted(root: &Path, plant: &Plant) -> Tested {
    std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755))?;
    for (path, content) in SOUND.iter().chain(plant.files) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().ok_or("a folder")?)?;
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    }
    symlink("libcuda.so.580.159.04", root.join(LIB).join("libcuda.so.1"))?;
    for path in plant.removed {
        std::fs::remove_file(root.join(path))?;
    }
    if let Some(path) = plant.closed {
        std::fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(0o600))?;
        if is_root() {
            std::os::unix::fs::chown(root.join(path), Some(0), Some(106))?;
        } else {
            std::fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(0o000))?;
        }
    }
    assert!(root.join(ICD).is_dir());
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The exit status, and the faults.
fn diagnosis(mut command: Command, plant: &Plant) -> Tested<(Option<i32>, Vec<Value>)> {
    for name in ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"] {
        command.env_remove(name);
    }
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        command.env_remove(name);
    }
    for name in ["LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "container"] {
        command.env_remove(name);
    }
    for name in ["VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE", "CUDA_MPS_PIPE_DIRECTORY"] {
        command.env_remove(name);
    }
    for name in ["VK_ADD_DRIVER_FILES", "NVIDIA_VISIBLE_DEVICES", "KUBERNETES_SERVICE_HOST", "XDG_DATA_DIRS", "HOME"] {
        command.env_remove(name);
    }
    let output = command.envs(plant.variables.iter().copied()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let value: Value = serde_json::from_str(&said)
        .map_err(|error| format!("{}: {error}: {said}{}", plant.id, String::from_utf8_lossy(&output.stderr)))?;
    Ok((output.status.code(), value["faults"].as_array().cloned().unwrap_or_default()))
}

/// `conformance doctor` for a folder, as a user without privileges.
fn of_folder(root: &Path) -> Tested<Command> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    if is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_conformance")]);
    }
    command.args(["doctor", "--json", "--root", text(root)?]);
    Ok(command)
}

/// The same in a mount namespace, in which the folder is the root: the command with its libraries is copied there.
fn in_namespace(root: &Path) -> Tested<Command> {
    let program = env!("CARGO_BIN_EXE_conformance");
    let libraries = Command::new("ldd").arg(program).output()?;
    for word in String::from_utf8(libraries.stdout)?.split_whitespace().filter(|word| word.starts_with('/')) {
        let place = root.join(&word[1..]);
        std::fs::create_dir_all(place.parent().ok_or("a folder")?)?;
        std::fs::copy(word, place)?;
    }
    let place = root.join("conformance");
    if std::fs::hard_link(program, &place).is_err() {
        std::fs::copy(program, &place)?;
    }
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !is_root() {
        command.arg("--map-root-user");
    }
    command.arg("--root").arg(root).arg("--wd").arg(Path::new("/").join(ICD)).args([
        "/conformance",
        "doctor",
        "--json",
    ]);
    Ok(command)
}

/// The faults are those of the plant, with its severity in the exit status.
fn check(plant: &Plant, (status, faults): (Option<i32>, Vec<Value>)) {
    let ids: Vec<&str> = faults.iter().filter_map(|fault| fault["id"].as_str()).collect();
    let expected: Vec<&str> = Some(plant.id).filter(|id| !id.is_empty()).into_iter().collect();
    assert_eq!(ids, expected, "{faults:#?}");
    let is_error = faults.iter().any(|fault| fault["severity"] == "error");
    assert_eq!(status, Some(i32::from(is_error)), "{faults:#?}");
    for fault in &faults {
        let remedy = fault["remedy"].as_str().unwrap_or_default();
        assert!(!remedy.is_empty() && !remedy.contains('\n'), "{fault}");
    }
}

#[test]
fn planted_faults_are_named() -> Tested {
    for plant in PLANTS.iter().chain(&SOUND_TOO) {
        let folder = tempfile::tempdir()?;
        planted(folder.path(), plant)?;
        check(plant, diagnosis(of_folder(folder.path())?, plant)?);
    }
    Ok(())
}

#[test]
fn planted_faults_are_named_in_mount_namespaces() -> Tested {
    let allowed = Command::new("unshare").args(["--mount", "--map-root-user", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        eprintln!("this system permits no namespaces: not tested");
        return Ok(());
    }
    // A file's owner may always open it in the namespace.
    for plant in PLANTS.iter().filter(|plant| plant.closed.is_none()).chain(&SOUND_TOO) {
        let folder = tempfile::tempdir()?;
        planted(folder.path(), plant)?;
        check(plant, diagnosis(in_namespace(folder.path())?, plant)?);
    }
    Ok(())
}

#[test]
fn the_group_and_the_file_are_named() -> Tested {
    let plant = Plant { closed: Some("dev/kfd"), id: "kfd_access", ..NOTHING };
    let folder = tempfile::tempdir()?;
    planted(folder.path(), &plant)?;
    let (_, faults) = diagnosis(of_folder(folder.path())?, &plant)?;
    let cause = faults[0]["cause"].as_str().unwrap_or_default();
    assert!(cause.starts_with("/dev/kfd cannot be opened: "), "{cause}");
    if is_root() {
        assert!(faults[0]["remedy"].as_str().unwrap_or_default().contains("usermod -aG render"), "{faults:#?}");
    }
    Ok(())
}

/// An absent one leaves no driver.
#[test]
fn relative_manifests_are_those_of_the_current_folder() -> Tested {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("x.json"), r#"{"ICD": {"library_path": "libc.so.6"}}"#)?;
    for (variables, is_hidden) in [
        (&[("VK_DRIVER_FILES", "x.json")], false),
        (&[("VK_DRIVER_FILES", "./x.json:y.json")], false),
        (&[("VK_DRIVER_FILES", "y.json")], true),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
        command.args(["doctor", "--json"]).current_dir(folder.path());
        let (_, faults) = diagnosis(command, &Plant { variables, ..NOTHING })?;
        let found = faults.iter().any(|fault| fault["id"] == "vulkan_drivers_hidden");
        assert_eq!(found, is_hidden, "{variables:?}: {faults:#?}");
    }
    Ok(())
}

/// Two modes of a GPU that only the management library knows. The GPU is one of a folder that covers `/proc/driver`.
#[test]
fn modes_of_a_gpu_are_read_from_its_management_library() -> Tested {
    let script = "mount --bind \"$1\" /proc/driver && exec \"$2\" doctor --json";
    let probe = tempfile::tempdir()?;
    let mut allowed = Command::new("unshare");
    allowed.args(["--mount", "--map-root-user", "mount", "--bind", text(probe.path())?, "/proc/driver"]);
    if !allowed.output().is_ok_and(|output| output.status.success()) {
        eprintln!("this system permits no namespaces: not tested");
        return Ok(());
    }
    for (defines, ids) in [
        (["-DCOMPUTE_MODE=0", "-DMIG=0"], [].as_slice()),
        (["-DCOMPUTE_MODE=3", "-DMIG=0"], &["compute_mode"]),
        (["-DCOMPUTE_MODE=2", "-DMIG=1"], &["compute_mode", "mig_without_instance"]),
    ] {
        let folder = tempfile::tempdir()?;
        let gpu = folder.path().join("nvidia/gpus/0000:1b:00.0");
        std::fs::create_dir_all(&gpu)?;
        std::fs::write(gpu.join("information"), UUID)?;
        let fake = CompiledLibrary::compile(&source("nvml.c"), &defines);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]).arg(folder.path());
        command.arg(env!("CARGO_BIN_EXE_conformance")).env("GPU_INTEROP_NVML_LIBRARY", fake.library());
        let (_, faults) = diagnosis(command, &NOTHING)?;
        // This machine may have others.
        let found: Vec<&str> = faults.iter().filter_map(|fault| fault["id"].as_str()).collect();
        let found: Vec<&str> =
            found.into_iter().filter(|id| ["compute_mode", "mig_without_instance"].contains(id)).collect();
        assert_eq!(found, ids, "{faults:#?}");
    }
    Ok(())
}

/// A driver that is found and does not start. The driver's code is in the cause.
#[test]
fn a_driver_that_does_not_start_is_a_fault() -> Tested {
    for (variable, package, fault, code) in [
        ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda", "cuInit:1:802", Some("802")),
        ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda", "cuInit:1:46", Some("46")),
        ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda", "cuInit:1:805", Some("805")),
        ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda", "cuDevicePrimaryCtxRetain:1+:46", Some("46")),
        ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda", "cuDevicePrimaryCtxRetain:1+:216", Some("216")),
        ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda", "cuDevicePrimaryCtxRetain:1+:2", None),
        ("GPU_INTEROP_HIP_LIBRARY", "gpu-interop-sim-hip", "hipInit:1:999", Some("999")),
        ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda", "", None),
    ] {
        let library = gpu_interop_test_support::build(package)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
        command.args(["doctor", "--json"]).env(variable, library).env("GPU_INTEROP_SIM_FAIL", fault);
        let (status, faults) = diagnosis(command, &NOTHING)?;
        let found = faults.iter().find(|fault| fault["id"] == "driver_does_not_start");
        let cause = found.and_then(|fault| fault["cause"].as_str());
        assert_eq!(cause.is_some(), code.is_some(), "{fault}: {faults:#?}");
        if let (Some(cause), Some(code), Some(found)) = (cause, code, found) {
            assert!(cause.contains(code) && status == Some(1), "{cause}");
            assert!(found["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{found}");
        }
    }
    Ok(())
}
