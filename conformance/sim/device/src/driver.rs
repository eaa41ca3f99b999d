//! The driver's initialisation.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::live;

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Marks the driver as initialised.
pub fn initialise() {
    live::report_at_exit();
    INITIALISED.store(true, Ordering::SeqCst);
}

/// `true` if the driver is initialised.
#[must_use]
pub fn is_initialised() -> bool {
    INITIALISED.load(Ordering::SeqCst)
}
