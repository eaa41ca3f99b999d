//! Requests to another process of the same program.
//!
//! A scenario that needs a second process starts its own program again, with the hidden subcommand [`SUBCOMMAND`] and one
//! argument. The program hands that argument to [`Suite::serve`], first thing in `main`.

#[cfg(unix)]
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::discovery::{self, Discovery};
use crate::exporter::ExporterName;
use crate::outcome::{Stop, Verdict};
#[cfg(unix)]
use crate::raw_cuda;
use crate::suite::Suite;
use crate::{peer, process};

/// The hidden subcommand of such a process.
pub const SUBCOMMAND: &str = "suite-process";
/// The time limit of a discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// The task of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The other process of a scenario.
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
    /// Calls CUDA's driver, which is this file, without the library.
    #[cfg(unix)]
    RawCuda { library: PathBuf, device: i32 },
}

impl Request {
    /// The arguments of the process.
    pub(crate) fn arguments(&self) -> Verdict<[String; 2]> {
        let text = serde_json::to_string(self)?;
        Ok([SUBCOMMAND.into(), text])
    }
}

/// Discovers a backend in a process with these environment variables.
pub(crate) fn discover(backend: &str, device: usize, environment: &[(&str, &str)]) -> Verdict<Discovery> {
    let arguments = Request::Discover { backend: backend.into(), device }.arguments()?;
    process::ask(&format!("looking at backend {backend}"), &arguments, environment, DISCOVERY_LIMIT)
}

impl Suite {
    /// Handles a request of another process of the suite. This process ends with that one.
    ///
    /// # Errors
    /// If the request is of another version of the suite, or fails.
    pub fn serve(&self, request: &str) -> Verdict {
        process::die_with_parent()?;
        let request =
            serde_json::from_str(request).map_err(|error| Stop::Failed(format!("no request of the suite: {error}")))?;
        match request {
            Request::Peer { role, backend, exporter, seed, device, signals_by_host } => {
                let (role, backend) = (self.role(&role)?, self.backend(&backend)?.clone());
                peer::run(role, Context::open_for(backend, exporter, device, seed, signals_by_host)?)
            }
            Request::Discover { backend, device } => {
                process::answer(&discovery::discover(self.backend(&backend)?, device, &[]))
            }
            #[cfg(unix)]
            Request::RawCuda { library, device } => raw_cuda::serve(&library, device),
        }
    }
}
