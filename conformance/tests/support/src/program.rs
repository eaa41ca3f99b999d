//! A test program that starts itself: as the suite, or as a process that loads a driver.

use std::process::Command;

/// What chooses devices, libraries, a backend or a strategy for a whole machine, as schedulers do. Simulators
/// obey it, as drivers do.
const CHOICES: [&str; 10] = [
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

/// This program, to be started with what the test chooses and nothing that the machine does.
///
/// # Errors
/// If the system does not say which program this is.
pub fn this_program() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let of_a_simulator = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.as_encoded_bytes().starts_with(b"GPU_INTEROP_SIM_"));
    for name in CHOICES.into_iter().map(Into::into).chain(of_a_simulator) {
        command.env_remove(name);
    }
    Ok(command)
}
