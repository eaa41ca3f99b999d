//! Wall-clock and processor time.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The start of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    processor: Duration,
    start: Instant,
}

/// Time since the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elapsed {
    pub(super) time: Duration,
    /// Processor time of this process, all threads.
    pub(super) processor: Duration,
}

impl Clock {
    pub(super) fn start() -> Self {
        // A system call, so it is outside the measured time.
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
    // Neither is negative; nanoseconds are below one second.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of the threads named "gpu-interop bridge", from the scheduler. The
/// kernel keeps 15 letters of a name.
pub(super) fn bridges_time() -> Duration {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let folders = tasks.filter_map(Result::ok).map(|task| task.path());
    let bridges = folders.filter(|folder| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.starts_with("gpu-interop bri"))
    });
    let time = |folder: PathBuf| {
        let text = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    };
    bridges.filter_map(time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_time_and_computing_a_processor() {
        const LONG: Duration = Duration::from_millis(30);
        // Other tests run at the same time, so only a lower limit is certain.
        let clock = Clock::start();
        while clock.elapsed().processor < LONG {
            std::hint::spin_loop();
        }
        std::thread::sleep(LONG);
        let elapsed = clock.elapsed();
        assert!(elapsed.time >= LONG && elapsed.processor >= LONG, "{elapsed:?}");
    }
}
