//! Overhead of the safe objects over direct backend calls: 1,000,000 signals each way, with heap allocations counted.
//!
//! Direct calls and calls through the safe objects alternate in short rounds on the same semaphore and stream, under
//! the same machine load, and are compared round by round. Exits with status 1 if the safe objects allocate, or if in
//! each of five attempts the lower end of the median ratio's 95 % interval exceeds 1.05.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use gpu_interop_core::backend::RawSignal;
use gpu_interop_core::{Device, Error, SignalParams};
use gpu_interop_host::{HostBackend, HostSemaphore};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every method forwards to the system allocator, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIGNALS: u64 = 1_000_000;
const ROUND: u64 = 500;
const LIMIT: f64 = 1.05;
/// Number of attempts, because other load can disturb single ones.
const ATTEMPTS: u32 = 5;

fn main() -> ExitCode {
    for _ in 0..ATTEMPTS {
        match run() {
            Ok(true) => return ExitCode::SUCCESS,
            Ok(false) => {}
            Err(error) => {
                eprintln!("{error}");
                break;
            }
        }
    }
    ExitCode::FAILURE
}

fn run() -> Result<bool, Error> {
    let device = Device::open(&HostBackend::new(), 0)?;
    let stream = device.create_stream()?;
    let exported = HostSemaphore::timeline(0)?;
    let timeline = device.import_semaphore(exported.import_request()?)?;
    let (raw_device, raw_stream, raw_semaphore) = (device.as_raw().clone(), stream.as_raw(), timeline.as_raw());
    let mut value = 0;
    let (mut direct, mut safe) = (Vec::new(), Vec::new());
    let mut allocated = 0;
    // The first round warms up the queue.
    for round in 0..=(2 * SIGNALS / ROUND) {
        let through_objects = round % 2 == 0;
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let start = Instant::now();
        for _ in 0..ROUND {
            value += 1;
            if through_objects {
                stream.signal(&[timeline.signal_value(value)])?;
            } else {
                let signal = RawSignal { semaphore: raw_semaphore, params: SignalParams::Value(value) };
                // SAFETY: semaphore and stream are live and of this device.
                unsafe { raw_device.signal_semaphores(raw_stream, &[signal]) }?;
            }
        }
        let taken = start.elapsed().as_secs_f64() * 1e9 / ROUND as f64;
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        stream.synchronize()?;
        assert_eq!(exported.value(), value, "every signal arrived");
        if round > 0 {
            if through_objects {
                safe.push(taken);
                allocated += allocations;
            } else {
                direct.push(taken);
            }
        }
    }
    let mut ratios: Vec<f64> = safe.iter().zip(&direct).map(|(safe, direct)| safe / direct).collect();
    let [(_, direct), (_, safe), (low, ratio)] = [&mut direct, &mut safe, &mut ratios].map(|samples| median(samples));
    println!("signals through the safe objects  {SIGNALS}");
    println!("heap allocations in them          {allocated}");
    println!("direct, median                    {direct:.1} ns a signal");
    println!("safe objects, median              {safe:.1} ns a signal");
    println!("ratio, median                     {ratio:.3}, not below {low:.3} (limit {LIMIT})");
    Ok(allocated == 0 && low <= LIMIT)
}

/// Returns the median and the lower end of its 95 % confidence interval, from the ranks.
fn median(samples: &mut [f64]) -> (f64, f64) {
    samples.sort_unstable_by(f64::total_cmp);
    let middle = samples.len() / 2;
    (samples[middle.saturating_sub(1 + samples.len().isqrt())], samples[middle])
}
