//! Loading the driver and opening the first device, each time in a new process.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use gpu_interop::Device;
use gpu_interop_conformance::system::set_variable;
use gpu_interop_conformance::{Stop, StopKind, Suite, Verdict, process};
use serde::{Deserialize, Serialize};

use super::machine::{CUDA_LIBRARY_VARIABLE, Machine};
use super::record::{Comparison, Recorder, TIME};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::sys::RawCuda;

/// The command's hidden subcommand that loads once. Its argument is the argument of [`load_once`].
pub const LOAD_SUBCOMMAND: &str = "bench-load";

/// One load, in a process of its own.
#[derive(Debug, Serialize, Deserialize)]
struct LoadRequest {
    side: Side,
    backend: String,
    /// The driver's file, if the dynamic linker does not find it.
    driver: Option<String>,
}

/// The loading side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    /// `dlopen`, every symbol, `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`.
    Raw,
    /// The backend, and its first device.
    Library,
}

/// Starts of each side. The driver's own duration varies by a tenth.
const RUNS: usize = 15;
const LIMIT: Limit = Limit::AtMost(1.05);
/// Timeout of one process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Loads once in this new process, and returns the duration in nanoseconds.
///
/// # Errors
/// If the request is invalid, or the driver or its device cannot be opened.
pub fn load_once(suite: &Suite, request: &str) -> Verdict<f64> {
    let request: LoadRequest = serde_json::from_str(request).map_err(|error| Stop::failed(error.to_string()))?;
    let under_test = suite.backend(&request.backend)?;
    let start = Instant::now();
    let taken = match request.side {
        Side::Raw => {
            let named = set_variable(CUDA_LIBRARY_VARIABLE);
            let file = named.unwrap_or_else(|| OsString::from("libcuda.so.1"));
            let _device = match (RawCuda::open(&file, 0), &request.driver) {
                (Err(Stop { kind: StopKind::Skipped, .. }), Some(driver)) => RawCuda::open(driver.as_ref(), 0)?,
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
    let load = |side| {
        let (backend, driver) =
            (machine.under_test.name().to_owned(), machine.backend.info().library.as_deref().and_then(Path::to_str));
        let request = serde_json::to_string(&LoadRequest { side, backend, driver: driver.map(Into::into) });
        let request = request.map_err(|error| Stop::failed(error.to_string()))?;
        process::ask::<f64>("loading the backend", &[LOAD_SUBCOMMAND.into(), request], &[], TIMEOUT)
    };
    let mut variants = vec![Variant::of_one("library", || load(Side::Library))];
    if recorder.side("every raw variant", &machine.raw).is_some() {
        variants.push(Variant::of_one("raw", || load(Side::Raw)));
    }
    let comparisons = [Comparison::new(0, "library", "raw").limit(LIMIT)];
    recorder.measure(name, Effort::exactly(RUNS), &[TIME], &mut variants, &comparisons)
}
