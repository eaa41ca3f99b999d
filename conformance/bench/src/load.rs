//! Measures loading the driver and opening the first device, each time in a new process.

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

/// Hidden subcommand that calls [`load_once`] with its argument.
pub const LOAD_SUBCOMMAND: &str = "bench-load";

/// A request to load once, sent to a new process.
#[derive(Debug, Serialize, Deserialize)]
struct LoadRequest {
    side: LoadVariant,
    backend: String,
    /// The driver's file, for drivers that the dynamic linker does not find.
    driver: Option<String>,
}

/// The code that loads the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum LoadVariant {
    /// The driver's own functions: `dlopen`, every symbol, `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`.
    Raw,
    /// This library: loads the backend and opens its first device.
    Library,
}

/// Processes per variant. The driver's own loading time varies by a tenth.
const RUNS: usize = 15;
const LIMIT: Limit = Limit::AtMost(1.05);
/// Timeout of one process.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Loads once in this process, which must be new. Returns the duration in nanoseconds.
///
/// # Errors
/// Errors for an invalid request, or of opening the driver or its device.
pub fn load_once(suite: &Suite, request: &str) -> Verdict<f64> {
    let request: LoadRequest = serde_json::from_str(request).map_err(|error| Stop::failed(error.to_string()))?;
    let under_test = suite.backend(&request.backend)?;
    let start = Instant::now();
    let taken = match request.side {
        LoadVariant::Raw => {
            let named = set_variable(CUDA_LIBRARY_VARIABLE);
            let file = named.unwrap_or_else(|| OsString::from("libcuda.so.1"));
            let _device = match (RawCuda::open(&file, 0), &request.driver) {
                (Err(Stop { kind: StopKind::Skipped, .. }), Some(driver)) => RawCuda::open(driver.as_ref(), 0)?,
                (opened, _) => opened?,
            };
            start.elapsed()
        }
        LoadVariant::Library => {
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
    let mut variants = vec![Variant::of_one("library", || load(LoadVariant::Library))];
    if recorder.side("every raw variant", &machine.raw).is_some() {
        variants.push(Variant::of_one("raw", || load(LoadVariant::Raw)));
    }
    let comparisons = [Comparison::new(0, "library", "raw").limit(LIMIT)];
    recorder.measure(name, Effort::exactly(RUNS), &[TIME], &mut variants, &comparisons)
}
