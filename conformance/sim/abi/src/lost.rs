//! Device loss: a rule of [`settings`](crate::settings) makes every call fail from some point on, as after an error
//! that a real driver does not recover from. Work enqueued before then touches no memory any more, if the simulator
//! runs the work itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

static LOST: AtomicBool = AtomicBool::new(false);
/// Held during accesses to memory.
static TOUCHING: RwLock<()> = RwLock::new(());

/// `true` if the device is lost.
pub fn is_lost() -> bool {
    LOST.load(Ordering::SeqCst)
}

/// Loses the device. When this returns, no work touches memory.
pub(crate) fn lose() {
    if !LOST.swap(true, Ordering::SeqCst) {
        drop(TOUCHING.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Restores the device.
pub(crate) fn find() {
    LOST.store(false, Ordering::SeqCst);
}

/// Runs work that touches memory, unless the device is lost.
pub fn touch(work: impl FnOnce()) {
    let touching = TOUCHING.read().unwrap_or_else(PoisonError::into_inner);
    if !is_lost() {
        work();
    }
    drop(touching);
}
