//! Variables that hide devices.

use std::process::Command;

/// Their names. They are often set on machines without a GPU.
const NAMES: [&str; 4] = ["CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Removes them from `command`'s environment, so that emulated and simulated devices are visible.
pub(crate) fn remove_from(command: &mut Command) {
    for name in NAMES {
        command.env_remove(name);
    }
}
