//! Faults of drivers' files: what is missing or closed, and every fault that the command knows has a test.

use std::path::Path;

use super::{NOTHING, Plant, diagnosis, of_folder, planted};
use crate::Tested;

const CUDA: &str = "usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04";
const VULKAN: &str = "usr/lib/x86_64-linux-gnu/libvulkan.so.1";
const MODULE: &str = "sys/module/nvidia/version";
const ACCESS: &str = "nvidia_device_file_access";
const MISSING: &str = "nvidia_device_file_missing";
const WSL: (&str, &str) = ("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n");
const PCI: [(&str, &str); 2] =
    [("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"), ("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")];

/// Plants, and all faults of each, in their order. A plant's own name is not used.
const FILES: &[(Plant, &[&str])] = &[
    (Plant { removed: &[VULKAN], ..NOTHING }, &["vulkan_loader_missing"]),
    (Plant { removed: &[CUDA], ..NOTHING }, &["cuda_library_missing"]),
    (Plant { removed: &["dev/nvidiactl"], ..NOTHING }, &[MISSING]),
    (Plant { removed: &["dev/nvidia-uvm"], ..NOTHING }, &[MISSING]),
    (Plant { removed: &["dev/nvidiactl", "dev/nvidia-uvm"], ..NOTHING }, &[MISSING, MISSING]),
    (Plant { closed: Some("dev/nvidiactl"), ..NOTHING }, &[ACCESS]),
    (Plant { closed: Some("dev/nvidia-uvm"), ..NOTHING }, &[ACCESS]),
    (Plant { files: &[(MODULE, "580.100\n")], ..NOTHING }, &["driver_newer_than_module"]),
    // Without the module no device file is needed, and without a GPU on the bus no module.
    (Plant { removed: &[MODULE, "dev/nvidiactl"], ..NOTHING }, &[]),
    (Plant { files: &PCI, removed: &[MODULE], ..NOTHING }, &["nvidia_module_not_loaded"]),
    (
        Plant {
            files: &[(".dockerenv", "")],
            removed: &["dev/nvidiactl", "dev/nvidia-uvm"],
            variables: &[("NVIDIA_VISIBLE_DEVICES", "void")],
            ..NOTHING
        },
        &[MISSING, MISSING, "container_without_gpu"],
    ),
    (Plant { files: &[WSL], removed: &[MODULE, "dev/nvidiactl"], ..NOTHING }, &["wsl_without_gpu"]),
    (Plant { files: &[WSL, ("dev/dxg", "")], removed: &[MODULE, CUDA], ..NOTHING }, &["wsl"]),
];

#[test]
fn faults_of_files_are_named() -> Tested {
    for (plant, expected) in FILES {
        let folder = tempfile::tempdir()?;
        planted(folder.path(), plant)?;
        let (status, faults) = diagnosis(of_folder(folder.path())?, plant)?;
        let of = |key| faults.iter().filter_map(|fault| fault[key].as_str()).collect::<Vec<_>>();
        assert_eq!(of("id"), *expected, "{faults:#?}");
        assert_eq!(status, Some(i32::from(of("severity").contains(&"error"))), "{faults:#?}");
        // Each file is named in a cause of its own.
        let files = plant.removed.iter().copied().chain(plant.closed).filter(|file| file.starts_with("dev/nvidia"));
        for file in files.filter(|_| expected.iter().any(|id| id.starts_with("nvidia_device"))) {
            assert_eq!(
                of("cause").iter().filter(|cause| cause.contains(&format!("/{file} "))).count(),
                1,
                "{faults:#?}"
            );
        }
    }
    Ok(())
}

/// The names of faults in the command's source are those of plants.
#[test]
fn every_fault_is_planted() -> Tested {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/doctor");
    let planted: Vec<&str> =
        super::PLANTS.iter().map(|plant| plant.id).chain(FILES.iter().flat_map(|row| row.1).copied()).collect();
    let mut known = 0;
    for file in std::fs::read_dir(folder)? {
        let text = std::fs::read_to_string(file?.path())?;
        for call in ["Fault::error(", "Fault::warning(", "Fault::note("] {
            let calls =
                text.split(call).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
            for id in calls {
                // Not of a system's files; `a_driver_that_does_not_start_is_a_fault` and tests beside the sources have these.
                let elsewhere = ["driver_does_not_start", "compute_mode", "mig_without_instance"];
                assert!(planted.contains(&id) || elsewhere.contains(&id), "no test plants {id}");
                known += 1;
            }
        }
    }
    assert!(known > 15, "the source has other names: {known} found");
    Ok(())
}
