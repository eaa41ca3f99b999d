//! Loading the driver and opening the first device, each time in a new process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use gpu_interop::Device;
use gpu_interop_conformance::system::set_variable;
use gpu_interop_conformance::{Stop, StopKind, Suite, Verdict, process};

use super::machine::Machine;
use super::record::{Comparison, Recorder, TIME};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::sys::RawCuda;

/// The hidden subcommand that loads once.
pub(crate) const SUBCOMMAND: &str = "bench-load";

/// The loading side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// dlopen, every symbol, cuInit, cuDeviceGet, cuDevicePrimaryCtxRetain.
    Raw,
    /// The backend, and its first device.
    Library,
}

/// Starts of each side. The driver's own duration varies by a tenth.
const RUNS: usize = 15;
const LIMIT: Limit = Limit::AtMost(1.05);
/// Timeout of one process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Options of one load.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[arg(long)]
    side: Side,
    #[arg(long)]
    backend: String,
    /// The driver's file, if the dynamic linker does not find it.
    #[arg(long)]
    driver: Option<PathBuf>,
}

/// Loads once in this new process, and returns the duration in nanoseconds.
pub(crate) fn once(suite: &Suite, args: &LoadArgs) -> Verdict<f64> {
    let under_test = suite.backend(&args.backend)?;
    let start = Instant::now();
    let taken = match args.side {
        Side::Raw => {
            let named = set_variable(super::CUDA_LIBRARY_VARIABLE);
            let file = named.unwrap_or_else(|| OsString::from("libcuda.so.1"));
            let _device = match (RawCuda::open(&file, 0), &args.driver) {
                (Err(Stop { kind: StopKind::Skipped, .. }), Some(driver)) => RawCuda::open(driver.as_os_str(), 0)?,
                (opened, _) => opened?,
            };
            start.elapsed()
        }
        Side::Library => {
            let backend = under_test.load()?;
            let _device = Device::open(&*backend, 0)?;
            start.elapsed()
        }
    };
    Ok(taken.as_secs_f64() * 1e9)
}

pub(super) fn run(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let backend = machine.under_test.name();
    let load = |side: &str| {
        let mut arguments: Vec<String> = [SUBCOMMAND, "--side", side, "--backend", backend].map(String::from).into();
        if let Some(driver) = machine.backend.info().library.as_deref().and_then(Path::to_str) {
            arguments.extend(["--driver".into(), driver.into()]);
        }
        process::ask::<f64>("loading the backend", &arguments, &[], TIMEOUT)
    };
    let mut variants = vec![Variant::of_one("library", || load("library"))];
    if recorder.side("every raw variant", &machine.raw).is_some() {
        variants.push(Variant::of_one("raw", || load("raw")));
    }
    let comparisons = [Comparison::new(0, "library", "raw").limit(LIMIT)];
    recorder.measure(name, Effort::exactly(RUNS), &[TIME], &mut variants, &comparisons)
}
