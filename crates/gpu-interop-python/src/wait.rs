//! Waits that release the GIL and honour Ctrl-C.

use std::time::{Duration, Instant};

use gpu_interop::{Error, ErrorKind, Result};
use pyo3::prelude::*;

use crate::error::{Raise, exception};

/// Longest time until a signal of the process, such as Ctrl-C, is handled.
const SLICE: Duration = Duration::from_millis(50);

/// A timeout of Python: seconds, or `None` to wait without a bound.
pub(crate) fn timeout(operation: &'static str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let invalid = || {
        Error::invalid(operation, "the timeout must be a number of seconds that is not negative, or None")
            .with_context("timeout", seconds.unwrap_or_default())
    };
    seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| exception(&invalid()))).transpose()
}

/// Calls `wait` without the GIL, for slices of time, until it returns something else than `ErrorKind::Timeout`, the
/// timeout has elapsed, or a signal handler of Python raises.
pub(crate) fn sliced(
    py: Python<'_>,
    timeout: Option<Duration>,
    wait: impl Fn(Duration) -> Result<()> + Send + Sync,
    expired: impl FnOnce() -> Error,
) -> PyResult<()> {
    let start = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        match py.detach(|| wait(slice)) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                py.check_signals()?;
                if let (Some(left), Some(timeout)) = (left, timeout)
                    && left <= slice
                {
                    return Err(exception(&expired().with_context("timeout", format_args!("{timeout:?}"))));
                }
            }
            waited => return waited.raised(),
        }
    }
}
