//! The subcommands that the suite starts itself with: no help shows them.

use std::num::NonZeroU32;
#[cfg(unix)]
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[cfg(unix)]
use crate::bench::load::{self, LoadArgs};
use crate::context::{Context, Seeds};
use crate::exporter::ExporterName;
use crate::files::to_json;
use crate::outcome::Verdict;
use crate::peer;
#[cfg(unix)]
use crate::raw_cuda;
use crate::runner::{self, child, group};
use crate::scenario::Scenario;
use crate::suite::Suite;

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
    /// Is the other process of a scenario.
    #[command(hide = true, name = peer::SUBCOMMAND)]
    Peer(PeerArgs),
    /// Calls CUDA's driver without the library.
    #[cfg(unix)]
    #[command(hide = true, name = raw_cuda::SUBCOMMAND)]
    RawCuda(RawCudaArgs),
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

#[cfg(unix)]
#[derive(Debug, Args)]
pub(crate) struct RawCudaArgs {
    /// The driver's file.
    library: PathBuf,
    /// The device's ordinal.
    #[arg(default_value_t = 0)]
    device: i32,
}

#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    #[arg(long)]
    role: String,
    #[arg(long)]
    backend: String,
    #[arg(long)]
    exporter: Option<ExporterName>,
    #[arg(long)]
    seed: u32,
    #[arg(long)]
    device: usize,
    #[arg(long)]
    signals_by_host: bool,
}

impl Internal {
    /// Whether it records driver calls.
    pub(crate) fn records_calls(&self) -> bool {
        matches!(self, Self::Child(args) if args.calls)
    }

    /// Does it. Whoever started this process reads the answer.
    pub(crate) fn run(&self, suite: &Suite) -> Verdict {
        peer::die_with_parent()?;
        match self {
            Self::Child(args) => run_child(suite, args),
            Self::Discover(args) => run_discover(suite, args),
            #[cfg(unix)]
            Self::BenchLoad(args) => runner::answer(&to_json(&load::once(suite, args))?),
            Self::Peer(args) => run_peer(suite, args),
            #[cfg(unix)]
            Self::RawCuda(args) => raw_cuda::serve(&args.library, args.device),
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
    child::run_group(backend, &scenarios, args.exporter, args.device, seeds, |ran| group::answer(&ran))
}

fn run_discover(suite: &Suite, args: &DiscoverArgs) -> Verdict {
    let environment = child::discover(suite.backend(&args.backend)?, args.device, &args.exporter, Vec::new());
    runner::answer(&to_json(&environment)?)
}

fn run_peer(suite: &Suite, args: &PeerArgs) -> Verdict {
    let role = suite.role(&args.role)?;
    let backend = suite.backend(&args.backend)?.clone();
    let context = Context::open_for(backend, args.exporter, args.device, args.seed, args.signals_by_host)?;
    peer::run(role, context)
}
