//! The hash of the command's file, computed beside the run.

use std::thread::JoinHandle;

use crate::sha256;

/// The hash of this program's file, being computed.
#[derive(Debug)]
pub(crate) struct Hash(JoinHandle<Option<String>>);

impl Hash {
    /// Starts to compute it.
    pub(crate) fn start() -> Self {
        Self(std::thread::spawn(|| sha256::of_file(&std::env::current_exe().ok()?).ok()))
    }

    /// Waits for it; `None` if the file cannot be read.
    pub(crate) fn finish(self) -> Option<String> {
        self.0.join().ok().flatten()
    }
}
