//! Each thread's capture mode: the captures that restrict its calls (`CUstreamCaptureMode`, `hipStreamCaptureMode`).

use std::cell::Cell;

/// Restricted by the captures of all threads.
pub const GLOBAL: u32 = 0;
/// Restricted by its own captures.
pub const THREAD_LOCAL: u32 = 1;
/// Not restricted.
pub const RELAXED: u32 = 2;

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// The calling thread's mode.
#[must_use]
pub fn now() -> u32 {
    MODE.get()
}

/// Sets the calling thread's mode and returns the previous one.
pub fn exchange(mode: u32) -> u32 {
    MODE.replace(mode)
}
