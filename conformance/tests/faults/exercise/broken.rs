//! Sections that break the process, for the negative controls.

use std::time::Duration;

use gpu_interop::Result;

use super::bench::{Bench, Section};
use crate::sabotage::Sabotage;

/// A section added to the exercise.
pub(super) fn section(sabotage: Sabotage) -> Option<Section> {
    match sabotage {
        Sabotage::Forget => Some(forget),
        Sabotage::Abort => Some(|_| std::process::abort()),
        Sabotage::Segfault => Some(segfault),
        Sabotage::LeaveCurrent => Some(|bench| {
            bench.leave_current();
            Ok(())
        }),
        Sabotage::Panic => Some(|_| panic!("on purpose")),
        Sabotage::Hang => Some(|_| {
            std::thread::sleep(Duration::from_secs(3600));
            Ok(())
        }),
        _ => None,
    }
}

fn forget(bench: &Bench<'_>) -> Result<()> {
    // The creation may fail.
    if let Ok(event) = bench.device.create_event() {
        std::mem::forget(event);
    }
    Ok(())
}

fn segfault(_: &Bench<'_>) -> Result<()> {
    use rustix::process::{Signal, getpid, kill_process};
    // The handler of Rust's runtime does not treat the first signal as an invalid pointer, and leaves the next to the
    // system.
    loop {
        kill_process(getpid(), Signal::SEGV).expect("a signal");
    }
}
