//! Instructions of waves in a second, on one thread.

use rustix::time::{ClockId, clock_gettime};

use super::compile::Compiled;
use super::program::{Grid, Program, finish};
use super::space::Space;

/// Processor time of this thread: other programs do not count.
fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Kernels of `speed.c`, iterations, and the least speed in a build with `--release`, in million instructions a second.
const KERNELS: [(&str, u32, f64); 4] =
    [("arithmetic", 100_000, 20.0), ("copy", 100_000, 15.0), ("fill", 300_000, 20.0), ("fused", 100_000, 20.0)];

/// Runs each kernel three times, prints the best speed and compares it with the least.
pub(super) fn measure() {
    let compiled = Compiled::new(include_str!("kernels/speed.c"), &[]);
    for (name, iterations, least) in KERNELS {
        let mut best = (0.0_f64, 0);
        for _ in 0..3 {
            let mut space = Space::default();
            let program = Program::load(&mut space, &compiled.code_object);
            let memory = vec![1; 65536];
            let (input, output) = (space.map(&memory, false), space.map(&memory, true));
            let mut arguments = [input.to_le_bytes(), output.to_le_bytes()].concat();
            arguments.extend(iterations.to_le_bytes());
            let mut dispatch = program.dispatch(&mut space, name, Grid::line(64, 64), &arguments);
            let start = seconds();
            let instructions = finish(&mut dispatch, &space).expect("no stop");
            let speed = instructions as f64 / (seconds() - start) / 1e6;
            if speed > best.0 {
                best = (speed, instructions);
            }
        }
        println!("{name}: {:.1} million instructions of waves a second ({} executed)", best.0, best.1);
        assert!(cfg!(debug_assertions) || best.0 >= least, "{name}: {:.1} is less than {least}", best.0);
    }
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!("load of the machine: {load}");
    }
}
