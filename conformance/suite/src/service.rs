//! Requests to another process of the same program.
//!
//! A scenario that needs a second process starts its own program again, with the hidden subcommand [`SUBCOMMAND`] and
//! one argument. The program passes that argument to [`Suite::serve`](crate::Suite::serve), first in `main`.

#[cfg(unix)]
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::discovery::Discovery;
use crate::exporter::ExporterName;
use crate::outcome::Verdict;
use crate::process;
use crate::system::set_variable;

/// The hidden subcommand of such a process.
pub const SUBCOMMAND: &str = "suite-process";
/// The number of hardware queues that CUDA's streams share, 8 by default. A wait on one stream blocks the other streams of
/// its queue.
pub const CONNECTIONS_VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// The time limit of a discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// The task of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The second process of a scenario.
    Peer {
        role: String,
        backend: String,
        exporter: Option<ExporterName>,
        seed: u32,
        device: usize,
        signals_by_host: bool,
    },
    /// Discovers a backend and its devices, without exporters.
    Discover { backend: String, device: usize },
    /// Calls CUDA's driver, loaded from this file, without the library.
    #[cfg(unix)]
    RawCuda { library: PathBuf, device: i32 },
}

impl Request {
    pub(crate) fn arguments(&self) -> Verdict<[String; 2]> {
        let text = serde_json::to_string(self)?;
        Ok([SUBCOMMAND.into(), text])
    }
}

/// Discovers a backend in a process with these environment variables.
pub(crate) fn discover(backend: &str, device: usize, environment: &[(&str, &str)]) -> Verdict<Discovery> {
    let arguments = Request::Discover { backend: backend.into(), device }.arguments()?;
    let environment = [environment, one_queue().as_slice()].concat();
    process::ask(&format!("looking at backend {backend}"), &arguments, &environment, DISCOVERY_LIMIT)
}

/// The setting for a process whose streams need not run beside each other: one hardware queue of CUDA instead of 8, with
/// which a process takes 0.12 s longer to start and exit (H100). `None` if a number is set.
pub(crate) fn one_queue() -> Option<(&'static str, &'static str)> {
    set_variable(CONNECTIONS_VARIABLE).is_none().then_some((CONNECTIONS_VARIABLE, "1"))
}
