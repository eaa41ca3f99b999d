//! What is told when the process ends, to the file that `SIM_REPORT` names.

use std::fs::OpenOptions;
use std::io::Write as _;

use crate::settings;

/// Has `tell` called at the end of the process, if there is a file to tell it to.
pub fn at_exit(tell: extern "C" fn()) {
    if settings::text("SIM_REPORT").is_some() {
        // SAFETY: a simulator is never unloaded, so the function is there at the end.
        unsafe { libc::atexit(tell) };
    }
}

/// Adds a line, which `line` makes of this process's name: its number, and the first argument, which tells processes of one
/// program apart.
pub fn add(line: impl FnOnce(&str) -> String) {
    let Some(path) = settings::text("SIM_REPORT") else { return };
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        let process = format!("process {} ({})", std::process::id(), std::env::args().nth(1).unwrap_or_default());
        let _ = file.write_all(format!("{}\n", line(&process)).as_bytes());
    }
}
