//! Each thread's capture mode: what recordings of graphs it heeds (`CUstreamCaptureMode`, `hipStreamCaptureMode`).

use std::cell::Cell;

/// Heeds the recordings of every thread.
pub const GLOBAL: u32 = 0;
/// Heeds its own.
pub const THREAD_LOCAL: u32 = 1;
/// Heeds none.
pub const RELAXED: u32 = 2;

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// The calling thread's mode.
pub fn now() -> u32 {
    MODE.get()
}

/// Gives the calling thread another mode: the one before.
pub fn exchange(mode: u32) -> u32 {
    MODE.replace(mode)
}
