//! Hidden subcommands with which the command starts itself.

use std::num::NonZeroU32;

use clap::{Args, Subcommand};
use gpu_interop_conformance::{
    ExporterName, SUBCOMMAND, Scenario, Seeds, Suite, Verdict, discover, execution, process,
};

use crate::evidence::{self, GpuArgs};
use crate::report::Environment;
use crate::runner::process as worker;
#[cfg(unix)]
use gpu_interop_conformance_bench::{LOAD_SUBCOMMAND, load_once};

/// The task of a process that the command starts.
#[derive(Debug, Subcommand)]
pub(crate) enum Subprocess {
    /// Runs scenarios in this process.
    #[command(hide = true)]
    Child(ChildArgs),
    /// Discovers the machine.
    #[command(hide = true)]
    Discover(DiscoverArgs),
    /// Reads the state of a GPU.
    #[command(hide = true)]
    GpuState(GpuArgs),
    /// Loads the backend, or its driver alone, and reports the duration.
    #[cfg(unix)]
    #[command(hide = true, name = LOAD_SUBCOMMAND)]
    BenchLoad {
        /// The request, as JSON.
        request: String,
    },
    /// Serves a request of the suite: a peer of a scenario, for example.
    #[command(hide = true, name = SUBCOMMAND)]
    Suite {
        /// The request, as JSON.
        request: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ChildArgs {
    #[arg(long)]
    backend: String,
    #[arg(long)]
    exporter: Option<ExporterName>,
    #[arg(long)]
    device: usize,
    #[arg(long)]
    scenario: Vec<String>,
    #[arg(long)]
    seed: u32,
    #[arg(long)]
    repeat: NonZeroU32,
    /// Record driver calls in the file received over the socket.
    #[arg(long)]
    calls: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiscoverArgs {
    #[arg(long)]
    backend: String,
    #[arg(long)]
    device: usize,
    #[arg(long)]
    exporter: Vec<ExporterName>,
}

impl Subprocess {
    /// `true` if it records driver calls.
    pub(crate) fn records_calls(&self) -> bool {
        matches!(self, Self::Child(args) if args.calls)
    }

    /// Runs the task and sends its result to the parent process.
    pub(crate) fn run(&self, suite: &Suite) -> Verdict {
        process::die_with_parent()?;
        match self {
            Self::Child(args) => run_child(suite, args),
            Self::Discover(args) => run_discover(suite, args),
            Self::GpuState(args) => evidence::examine(args),
            #[cfg(unix)]
            Self::BenchLoad { request } => process::answer(&load_once(suite, request)),
            Self::Suite { request } => suite.serve(request),
        }
    }
}

/// Runs scenarios and sends their verdicts to the parent. A failed scenario is not an error here.
fn run_child(suite: &Suite, args: &ChildArgs) -> Verdict {
    let backend = suite.backend(&args.backend)?;
    let scenarios: Vec<&Scenario> = args.scenario.iter().map(|id| suite.scenario(id)).collect::<Verdict<_>>()?;
    let seeds = Seeds { first: args.seed, count: args.repeat };
    if args.calls {
        worker::record_calls()?;
    }
    let answer = |ran| worker::answer(&ran);
    execution::run_group(backend, &scenarios, args.exporter, args.device, seeds, answer)
}

fn run_discover(suite: &Suite, args: &DiscoverArgs) -> Verdict {
    let found = discover(suite.backend(&args.backend)?, args.device, &args.exporter);
    process::answer(&found.map(Environment::found))
}
