//! What the tests on real user-space drivers share: the library under test, and processes with a time limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime};

/// The library under test, in the folder of the profile. Cargo does not build it for these tests.
pub(crate) fn library() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let profile = own.parent().and_then(Path::parent).ok_or("no folder of the build")?;
    let library = profile.join("libgpu_interop_emulated_amdgpu.so");
    let build = "cargo build -p gpu-interop-emulated-amdgpu, with --release if the tests have it";
    let Ok(built) = modified(&library) else {
        return Err(format!("{} does not exist; build it: {build}", library.display()));
    };
    match newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        Some(changed) if changed > built => {
            Err(format!("{} is older than its source; build it again: {build}", library.display()))
        }
        _ => Ok(library),
    }
}

fn modified(path: &Path) -> std::io::Result<SystemTime> {
    std::fs::metadata(path)?.modified()
}

/// Time of the last change of a file below a folder.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter_map(|path| if path.is_dir() { newest(&path) } else { modified(&path).ok() }).max()
}

/// Runs a command, and kills it when it takes too long.
pub(crate) fn output(mut command: Command, limit: Duration) -> std::io::Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let process = rustix::process::Pid::from_child(&child);
    let (ended, wait) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // The process was not waited for yet, so its number is still valid.
            _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output();
    drop(ended);
    _ = guard.join();
    output
}
