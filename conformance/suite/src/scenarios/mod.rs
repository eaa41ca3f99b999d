//! The scenarios, one file or folder per group.

mod capture;
mod convert;
#[cfg(windows)]
mod d3d;
mod environment;
mod frame_ring;
#[cfg(unix)]
mod gl;
#[cfg(unix)]
mod gl_order;
mod graph;
mod graph_semaphores;
mod groups;
mod handle_reuse;
mod heap;
mod identity;
mod image_copies;
mod image_formats;
mod image_kernels;
mod image_lifetime;
mod image_linear;
mod image_misuse;
mod image_shapes;
#[cfg(unix)]
mod import_fd;
mod import_request;
#[cfg(windows)]
mod import_win32;
mod late_binding;
mod leaks;
mod lifetime;
mod lifetime_orders;
mod map;
mod memory;
#[cfg(unix)]
mod misbehaviour;
mod not_covered;
#[cfg(target_os = "linux")]
mod nvsci;
mod other_context;
mod peers;
mod present;
mod process;
mod property;
mod reset;
mod reverse;
mod semaphore_lives;
mod semaphore_misuse;
mod semaphore_order;
mod semaphore_process;
mod size;
mod stream;
mod threads;
mod timeline;
mod video;

use std::fmt;
use std::time::{Duration, Instant};

use gpu_interop::{ErrorKind, ImportError, Stream};

pub(crate) use groups::{GROUPS, Group, roles, standard};
pub(crate) use not_covered::NOT_COVERED;

use crate::outcome::{PROMPT, Stop, Verdict, checked_bytes};

/// The error of a call that must fail with one of `kinds`, and the returned request.
fn rejected<T, R: std::fmt::Debug>(
    result: Result<T, ImportError<R>>,
    kinds: &[ErrorKind],
    what: &str,
) -> Verdict<(gpu_interop::Error, R)> {
    match result {
        Ok(_) => Err(Stop::failed(format!("{what} was accepted"))),
        Err(failure) => {
            expect_kind(failure.error(), kinds, what)?;
            Ok(failure.into_parts())
        }
    }
}

/// As [`rejected`], for an error of the library's own: the driver must not have been called.
fn rejected_before_driver<T, R: std::fmt::Debug>(
    result: Result<T, ImportError<R>>,
    kinds: &[ErrorKind],
    what: &str,
) -> Verdict<(gpu_interop::Error, R)> {
    let (error, request) = rejected(result, kinds, what)?;
    crate::ensure!(error.code().is_none(), "the driver was called for {what}: {error}");
    Ok((error, request))
}

/// The error of a call that must fail with this kind.
fn expect_error<T>(result: gpu_interop::Result<T>, kind: ErrorKind, what: &str) -> Verdict<gpu_interop::Error> {
    match result {
        Ok(_) => Err(Stop::failed(format!("{what} was accepted"))),
        Err(error) => {
            expect_kind(&error, &[kind], what)?;
            Ok(error)
        }
    }
}

/// The error of a call that must fail as an invalid argument, without a driver call.
fn expect_invalid<T>(result: gpu_interop::Result<T>, what: &str) -> Verdict<gpu_interop::Error> {
    let error = expect_error(result, ErrorKind::InvalidArgument, what)?;
    crate::ensure!(error.code().is_none(), "the driver was called for {what}: {error}");
    Ok(error)
}

fn expect_kind(error: &gpu_interop::Error, kinds: &[ErrorKind], what: &str) -> Verdict {
    checked_bytes(0, &[what.as_bytes()]);
    if kinds.contains(&error.kind()) {
        return Ok(());
    }
    Err(Stop::failed(format!("{what}: expected an error of kind {kinds:?}, got {:?}: {error}", error.kind()))
        .with_error(error))
}

/// A short time to watch a stream, for many checks in a row.
const BRIEF: Duration = Duration::from_millis(5);
/// The number of queries of a watched stream, even if each takes long.
const QUERIES: u32 = 5;

/// Fails if a stream becomes idle within `watch`, although it must wait.
///
/// One query proves nothing: at the first one after new work, AMD's runtime enqueues a marker, and returns "not ready"
/// until the marker has passed, even if the work has completed.
fn keeps_waiting(stream: &Stream, watch: Duration, what: impl fmt::Display) -> Verdict {
    let start = Instant::now();
    for query in 1.. {
        crate::ensure!(!stream.is_idle()?, "{what}");
        if query >= QUERIES && start.elapsed() >= watch {
            break;
        }
        std::thread::sleep(watch / (QUERIES - 1));
    }
    Ok(())
}

/// Fails unless `wait` times out, not before `limit` and not much later.
fn times_out(
    limit: Duration,
    what: &str,
    wait: impl FnOnce() -> gpu_interop::Result<()>,
) -> Verdict<gpu_interop::Error> {
    let start = Instant::now();
    let error = expect_error(wait(), ErrorKind::Timeout, what)?;
    let taken = start.elapsed();
    crate::ensure!(taken >= limit && taken < limit + PROMPT, "{what} timed out after {taken:?}, not {limit:?}");
    Ok(error)
}
