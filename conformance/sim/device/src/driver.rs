//! The driver's initialisation.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{code, live};

/// Number of the process that initialised the driver first; 0 for none.
static INITIALISED: AtomicU32 = AtomicU32::new(0);

/// Marks the driver as initialised.
///
/// # Errors
/// [`code::NOT_INITIALIZED`] in a process that was forked from the one that initialised it, as measured with NVIDIA's driver.
pub fn initialise() -> Result<(), u32> {
    let (this, none) = (std::process::id(), 0);
    let first =
        INITIALISED.compare_exchange(none, this, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|first| first);
    if first != none && first != this {
        return Err(code::NOT_INITIALIZED);
    }
    live::report_at_exit();
    Ok(())
}

/// `true` if this process has initialised the driver.
#[must_use]
pub fn is_initialised() -> bool {
    INITIALISED.load(Ordering::SeqCst) == std::process::id()
}
