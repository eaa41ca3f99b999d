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

/// Runs each kernel of `speed.c` three times, and prints the best speed.
pub(super) fn measure() {
    let compiled = Compiled::new(include_str!("kernels/speed.c"), &[]);
    for (name, iterations) in [("arithmetic", 100_000_u32), ("copy", 100_000), ("fill", 300_000), ("fused", 100_000)] {
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
    }
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!("load of the machine: {load}");
    }
}
