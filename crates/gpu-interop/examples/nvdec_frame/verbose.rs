//! Diagnostics of `--verbose`.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Prints a line to the standard error.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    if VERBOSE.load(Ordering::Relaxed) {
        eprintln!("nvdec_frame: {text}");
    }
}
