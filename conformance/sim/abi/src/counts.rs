//! Counts over all processes of a run, for faults that hit once in a run rather than once in each process.

use std::fs::OpenOptions;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::sync::LazyLock;

use crate::settings;

static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| settings::text("GPU_INTEROP_SIM_COUNTS").map(Into::into));

/// The number of this use of `name`: that over all processes if `GPU_INTEROP_SIM_COUNTS` is set, otherwise `here`.
pub(crate) fn next(name: &str, here: u64) -> u64 {
    let Some(folder) = &*FOLDER else { return here };
    let name = if name == "*" { "all" } else { name };
    let count = || {
        // An append moves this descriptor to the end of its own byte, however many processes append.
        let mut file = OpenOptions::new().append(true).create(true).open(folder.join(name))?;
        file.write_all(b".")?;
        file.stream_position()
    };
    count().unwrap_or(here)
}
