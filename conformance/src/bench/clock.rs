//! Time, and time of processors.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment to measure from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    processor: Duration,
    start: Instant,
}

/// What has gone by since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elapsed {
    pub(super) time: Duration,
    /// What this process computed meanwhile, on all threads.
    pub(super) processor: Duration,
}

impl Clock {
    pub(super) fn start() -> Self {
        // Asking for it is a system call, so it stays outside of the time.
        let processor = processor_time();
        Self { processor, start: Instant::now() }
    }

    pub(super) fn elapsed(&self) -> Elapsed {
        let time = self.start.elapsed();
        Elapsed { time, processor: processor_time().saturating_sub(self.processor) }
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Neither is negative, nor more than a second of nanoseconds.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_time_and_computing_a_processor() {
        const LONG: Duration = Duration::from_millis(30);
        // Other tests compute meanwhile, so that only a lower limit is certain.
        let clock = Clock::start();
        while clock.elapsed().processor < LONG {
            std::hint::spin_loop();
        }
        std::thread::sleep(LONG);
        let elapsed = clock.elapsed();
        assert!(elapsed.time >= LONG && elapsed.processor >= LONG, "{elapsed:?}");
    }
}
