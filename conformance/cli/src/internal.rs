//! The subcommands that the suite starts itself with: no help shows them.

use std::num::NonZeroU32;

use clap::{Args, Subcommand};
use gpu_interop_conformance::{
    ExporterName, SUBCOMMAND, Scenario, Seeds, Suite, Verdict, discover, execution, process,
};

#[cfg(unix)]
use crate::bench::load::{self, LoadArgs};
use crate::report::Environment;
use crate::runner::group;

/// What another process of the suite asks for.
#[derive(Debug, Subcommand)]
pub(crate) enum Internal {
    /// Runs scenarios in this process.
    #[command(hide = true)]
    Child(ChildArgs),
    /// Looks at the machine.
    #[command(hide = true)]
    Discover(DiscoverArgs),
    /// Loads the backend, or its driver alone, and answers how long that took.
    #[cfg(unix)]
    #[command(hide = true, name = load::SUBCOMMAND)]
    BenchLoad(LoadArgs),
    /// Serves a process of the suite.
    #[command(hide = true, name = SUBCOMMAND)]
    Suite {
        /// What that one asks for.
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
    /// Record driver calls, in the file that comes over the socket.
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

impl Internal {
    /// Whether it records driver calls.
    pub(crate) fn records_calls(&self) -> bool {
        matches!(self, Self::Child(args) if args.calls)
    }

    /// Does it. Whoever started this process reads the answer.
    pub(crate) fn run(&self, suite: &Suite) -> Verdict {
        process::die_with_parent()?;
        match self {
            Self::Child(args) => run_child(suite, args),
            Self::Discover(args) => run_discover(suite, args),
            #[cfg(unix)]
            Self::BenchLoad(args) => process::answer(&load::once(suite, args)),
            Self::Suite { request } => suite.serve(request),
        }
    }
}

/// Several scenarios, their verdicts to the parent. Ends well also if scenarios failed.
fn run_child(suite: &Suite, args: &ChildArgs) -> Verdict {
    let backend = suite.backend(&args.backend)?;
    let scenarios: Vec<&Scenario> = args.scenario.iter().map(|id| suite.scenario(id)).collect::<Verdict<_>>()?;
    let seeds = Seeds { first: args.seed, count: args.repeat };
    if args.calls {
        group::record_calls()?;
    }
    execution::run_group(backend, &scenarios, args.exporter, args.device, seeds, |ran| group::answer(&ran))
}

fn run_discover(suite: &Suite, args: &DiscoverArgs) -> Verdict {
    let found = discover(suite.backend(&args.backend)?, args.device, &args.exporter);
    process::answer(&found.map(Environment::found))
}
