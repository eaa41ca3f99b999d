//! The value of `--filter`.

use globset::{Glob, GlobMatcher};
use gpu_interop_conformance::{Stop, Verdict};

/// Parses a pattern.
///
/// # Errors
/// If the pattern is invalid.
pub(crate) fn glob(text: &str) -> Verdict<GlobMatcher> {
    let glob = Glob::new(text).map_err(|error| Stop::failed(format!("--filter: {error}")))?;
    Ok(glob.compile_matcher())
}
