//! Task runner of this repository: `cargo xtask ci` runs the steps of CI, `cargo xtask slow` the nightly ones.

mod aliases;
mod background;
mod capi;
mod debian;
mod fast;
mod files;
mod links;
mod package;
mod python;
mod record;
mod run;
mod session;
mod slow;
mod windows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use run::Outcome;
use session::{Session, Step};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Runs the checks that must pass on main
    Ci(Selection),
    /// Runs slow checks and those with special requirements: sanitizers, loom, AMD's newer runtimes, mutants
    Slow(Selection),
    #[command(flatten)]
    Single(Single),
}

#[derive(Debug, Subcommand)]
enum Single {
    /// Installs the C interface on Linux: headers, libraries, pkg-config and CMake files
    Capi {
        /// Folder that gets `include` and `lib`
        #[arg(long)]
        prefix: PathBuf,
        /// Builds without optimisation
        #[arg(long)]
        debug: bool,
    },
    /// Writes the committed files that tests compare with what they find; read the changes before you commit them
    Record {
        /// Kinds of files; without one, all
        kinds: Vec<String>,
    },
    /// Builds a standard library for a target from Debian's source, and prints the folder to give to --sysroot
    StandardLibrary { target: String },
}

/// Selection of the steps to run or list.
#[derive(Args, Debug)]
struct Selection {
    /// Lists the steps without running them
    #[arg(long)]
    list: bool,
    /// Runs only this step; may be given more than once
    #[arg(long, value_name = "STEP", conflicts_with = "from")]
    only: Vec<String>,
    /// Starts with this step
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Steps to run, as with --only
    #[arg(value_name = "STEP", conflicts_with_all = ["only", "from"])]
    steps: Vec<String>,
}

impl Selection {
    /// Runs the selected steps of `steps`; `background` and `later` name those that may run beside the others.
    fn of(mut self, steps: &'static [Step], background: &[&str], later: &[&str]) -> Outcome {
        if self.list {
            for step in steps {
                println!("{:<14} {}", step.name, step.what);
            }
            return Ok(());
        }
        self.only.append(&mut self.steps);
        let unknown = self.only.iter().chain(&self.from).find(|name| steps.iter().all(|step| step.name != **name));
        if let Some(name) = unknown {
            return Err(format!("no step is named {name}; --list prints the names"));
        }
        let first = self.from.and_then(|name| steps.iter().position(|step| step.name == name)).unwrap_or(0);
        let chosen =
            steps[first..].iter().filter(|step| self.only.is_empty() || self.only.iter().any(|o| o == step.name));
        // A selection runs one step after the other, with its output as it appears.
        let background = if chosen.clone().count() == steps.len() { background } else { &[] };
        Session::new()?.run(&chosen.collect::<Vec<_>>(), background, later)
    }
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Ci(selection) => selection.of(fast::STEPS, fast::BACKGROUND, fast::LATER),
        Task::Slow(selection) => selection.of(slow::STEPS, &[], &[]),
        Task::Single(Single::Capi { prefix, debug }) => {
            Session::new().and_then(|session| capi::install(&session, &prefix, debug))
        }
        Task::Single(Single::Record { kinds }) => Session::new().and_then(|_| record::record(&kinds)),
        Task::Single(Single::StandardLibrary { target }) => Session::new()
            .and_then(|session| debian::standard_library(&session, &target))
            .map(|sysroot| println!("{}", sysroot.display())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
