//! Variables that hide devices.

use std::process::Command;

/// Their names. Machines without a GPU are often set up so.
const NAMES: [&str; 4] = ["CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Starts `command` without them: what is emulated or simulated is not hidden.
pub(crate) fn remove_from(command: &mut Command) {
    for name in NAMES {
        command.env_remove(name);
    }
}
