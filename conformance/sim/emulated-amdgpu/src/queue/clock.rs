//! Clocks of the driver.

use rustix::time::{ClockId, clock_gettime};

/// Frequency of the GPU's counter: 100 MHz.
pub(crate) const GPU_HERTZ: u64 = 100_000_000;

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The CPU's counter, in nanoseconds.
pub(crate) fn cpu() -> u64 {
    nanoseconds(ClockId::MonotonicRaw)
}

/// The system's counter, in nanoseconds.
pub(crate) fn system() -> u64 {
    nanoseconds(ClockId::Boottime)
}

/// The GPU's counter.
pub(crate) fn gpu() -> u64 {
    cpu() / (1_000_000_000 / GPU_HERTZ)
}
