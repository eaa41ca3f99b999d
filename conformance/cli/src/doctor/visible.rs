//! Variables that hide GPUs.

use super::fault::Fault;
use super::nvidia_start;
use crate::examined::System;

const NVIDIA: &str = "NVIDIA";
/// The name of the fault.
pub(super) const HIDDEN: &str = "devices_hidden";
/// Variables that hide GPUs of AMD.
const OF_AMD: [&str; 4] = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// All faults.
pub(super) fn faults(system: &System) -> Vec<Fault> {
    let mut faults = Vec::new();
    let nvidia = nvidia(system);
    faults.extend(hidden(system, "CUDA_VISIBLE_DEVICES", NVIDIA, &nvidia));
    let amd = vec![String::new(); amd(system)];
    for name in OF_AMD {
        if name != "CUDA_VISIBLE_DEVICES" || nvidia.is_empty() {
            faults.extend(hidden(system, name, "AMD", &amd));
        }
    }
    faults
}

/// The UUIDs of NVIDIA's GPUs, as the kernel driver reports them.
fn nvidia(system: &System) -> Vec<String> {
    let gpus = nvidia_start::gpus(system).into_iter();
    gpus.map(|gpu| nvidia_start::field(system, &gpu, "GPU UUID:").unwrap_or_default()).collect()
}

/// The number of AMD's GPUs, as the kernel driver reports it.
pub(super) fn amd(system: &System) -> usize {
    let has_units = |text: String| {
        let count = text.lines().find_map(|line| line.strip_prefix("simd_count ")?.trim().parse::<u32>().ok());
        count.is_some_and(|count| count > 0)
    };
    let nodes = system.entries("/sys/class/kfd/kfd/topology/nodes").into_iter();
    nodes.filter(|node| system.text(node.join("properties")).is_some_and(has_units)).count()
}

/// A variable that hides some or all GPUs.
fn hidden(system: &System, variable: &str, vendor: &str, gpus: &[String]) -> Option<Fault> {
    // Empty, it hides all GPUs of NVIDIA; AMD's runtime takes it as not set.
    let value = system.variable(variable).filter(|value| vendor == NVIDIA || !value.is_empty())?;
    let count = gpus.len();
    // The first invalid entry ends the list.
    let is_visible = |entry: &&str| match entry.parse::<usize>() {
        Ok(number) => number < count,
        Err(_) if entry.starts_with("GPU-") => {
            let unknown = gpus.iter().any(String::is_empty);
            unknown || gpus.iter().any(|uuid| uuid.to_lowercase().starts_with(&entry.to_lowercase()))
        }
        Err(_) => nvidia_start::may_be_instance(system, entry),
    };
    let entries: Vec<&str> = value.split(',').map(str::trim).collect();
    let visible = entries.iter().take_while(|entry| is_visible(entry)).count();
    let remedy = format!("unset {variable}, or list the devices that the run needs");
    let shown = &entries[..visible];
    // Measured with driver 580.
    let twice = shown.iter().enumerate().find_map(|(place, entry)| shown[..place].contains(entry).then_some(entry));
    if let Some(entry) = twice.filter(|_| vendor == NVIDIA) {
        let cause = format!("{variable}={value} lists `{entry}` twice: cuInit fails with CUDA_ERROR_INVALID_DEVICE");
        return Some(Fault::error(HIDDEN, cause, remedy));
    }
    if count == 0 || visible >= count {
        return None;
    }
    let wrong = entries.get(visible).filter(|entry| !entry.is_empty() && **entry != "-1");
    let wrong = wrong.map(|entry| format!("; `{entry}` is none of them")).unwrap_or_default();
    let cause = format!("{variable}={value} shows {visible} of {count} GPUs of {vendor}{wrong}");
    Some(match visible {
        0 => Fault::error(HIDDEN, cause, remedy),
        _ => Fault::warning(HIDDEN, cause, remedy),
    })
}
