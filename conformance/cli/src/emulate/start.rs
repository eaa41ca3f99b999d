//! Starts this program again, emulated.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gpu_interop_conformance::system::set_variable;
use gpu_interop_conformance::{Stop, Verdict};

use super::emulation::{Emulation, Session};
use super::{detect, driver, program, runtime, vulkan};
use crate::hidden_devices;

/// Marks the emulated process; its value is the folder of its temporary files.
const SESSION: &str = "GPU_INTEROP_EMULATE_SESSION";
/// The library that the backend loads.
const LIBRARY: &str = "GPU_INTEROP_HIP_LIBRARY";
const PRELOAD: &str = "LD_PRELOAD";
/// The GPUs that the driver emulates; a value set by the user is kept.
const DEVICES: &str = "GPU_INTEROP_SIM_AMDGPU_DEVICES";
/// Two GPUs, for scenarios with several devices. HIP 5.2 does not support stream waits for words on the smaller gfx906,
/// and therefore no timelines.
const TWO_GPUS: &str = "gfx908,gfx908";

/// Replaces this process by the emulated one. In the emulated process, returns the object that cleans up at its end.
///
/// # Errors
/// If a part is missing, or the emulated driver was not loaded.
pub(super) fn enter(emulation: &Emulation, root: Option<&Path>) -> Verdict<Session> {
    if let Some(folder) = std::env::var_os(SESSION) {
        let session = Session { folder: folder.into() };
        return match detect::kernel_driver() {
            Some(_) => Ok(session),
            None => Err(Stop::failed(format!(
                "{emulation}: the emulated kernel driver was not loaded; what the dynamic loader says above is why, or \
                 the file is none"
            ))),
        };
    }
    let this = std::env::current_exe()?;
    let file = driver::find(set_variable(driver::VARIABLE).as_deref(), &this)?;
    let runtime = runtime::find(emulation, root, &this)?;
    let start = match &runtime.folder {
        Some(folder) => program::copy_for(folder, &this)?,
        None => this,
    };
    let folder = tempfile::Builder::new().prefix("gpu-interop-emulate-").tempdir()?;
    let mut command = Command::new(start);
    command.args(std::env::args_os().skip(1)).env(SESSION, folder.path()).env(LIBRARY, &runtime.library);
    command.env(PRELOAD, vulkan::joined(file.as_os_str(), std::env::var_os(PRELOAD)));
    command.envs(vulkan::variables(&file, folder.path(), |name| std::env::var_os(name))?);
    if set_variable(DEVICES).is_none() {
        command.env(DEVICES, TWO_GPUS);
    }
    hidden_devices::remove_from(&mut command);
    // Returns only on failure. The other process removes the folder.
    let kept = folder.keep();
    let error = command.exec();
    drop(Session { folder: kept });
    Err(Stop::failed(format!("{emulation}: cannot start {}: {error}", command.get_program().display())))
}
