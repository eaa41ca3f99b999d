//! Test programs that start themselves again: as the suite, or as a process that loads a driver.

use std::process::Command;

/// Variables by which schedulers and users select devices, libraries, a backend or a strategy for a whole machine.
/// Simulators follow them like drivers.
const MACHINE_VARIABLES: [&str; 10] = [
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "GPU_INTEROP_BACKEND",
    "GPU_INTEROP_D3D_LIBRARY",
    "GPU_INTEROP_NVSCIBUF_LIBRARY",
    "GPU_INTEROP_NVSCISYNC_LIBRARY",
    "GPU_INTEROP_TIMELINE",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
];

/// Returns a command that starts this program without the machine's selections.
///
/// # Errors
/// If the path of this program is unavailable.
pub fn this_program() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let simulator_variables = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.as_encoded_bytes().starts_with(b"GPU_INTEROP_SIM_"));
    for name in MACHINE_VARIABLES.into_iter().map(Into::into).chain(simulator_variables) {
        command.env_remove(name);
    }
    Ok(command)
}
