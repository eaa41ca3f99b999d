//! Report at the end of the process, to the file that `GPU_INTEROP_SIM_REPORT` names.

use std::fs::OpenOptions;
use std::io::Write as _;

use crate::settings;

/// Registers `tell` to run at the end of the process, if the file is set.
pub fn at_exit(tell: extern "C" fn()) {
    if settings::text("GPU_INTEROP_SIM_REPORT").is_some() {
        // SAFETY: a simulator is never unloaded, so the function exists at the end.
        unsafe { libc::atexit(tell) };
    }
}

/// Adds a line, which `line` builds from this process's name: its number and the arguments that distinguish processes
/// of one program. These are the first argument, and the name of a JSON request after it.
pub fn add(line: impl FnOnce(&str) -> String) {
    let Some(path) = settings::text("GPU_INTEROP_SIM_REPORT") else { return };
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        let mut arguments = std::env::args().skip(1);
        let first = arguments.next().unwrap_or_default();
        let request =
            arguments.next().and_then(|json| Some(format!(" {}", json.strip_prefix("{\"")?.split_once('"')?.0)));
        let process = format!("process {} ({first}{})", std::process::id(), request.unwrap_or_default());
        let _ = file.write_all(format!("{}\n", line(&process)).as_bytes());
    }
}
