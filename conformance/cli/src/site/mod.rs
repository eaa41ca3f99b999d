//! `conformance site`: a static site from a folder of reports.

mod collect;
mod history;
mod index;
mod machine;
mod page;
mod plot;
mod scenarios;

use std::path::PathBuf;

use clap::Args;
use gpu_interop_conformance::{Stop, Verdict};

use crate::files::write_file;
use crate::output::{complain, counted, one_line, say};
use crate::report::NotRead;

use collect::collect;
use history::History;

/// The options of `conformance site`.
#[derive(Debug, Args)]
pub(crate) struct SiteArgs {
    /// A folder with JSON reports of `run`, `bench` or `merge`, also in folders below it.
    folder: PathBuf,
    /// The folder of the site. Created if it does not exist; pages of an earlier site are replaced.
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
}

/// Writes the site.
pub(crate) fn run(args: &SiteArgs) -> Verdict {
    let collected = collect(&args.folder)?;
    for NotRead { source, reason } in &collected.not_read {
        complain(&one_line(&format!("{source}: {reason}")));
    }
    let machines = History::of(&collected);
    if machines.is_empty() {
        return Err(Stop::failed(format!("no report in {}", args.folder.display())));
    }
    std::fs::create_dir_all(&args.output)
        .map_err(|error| Stop::failed(format!("cannot create {}: {error}", args.output.display())))?;
    let write = |name: &str, page: String| write_file(&args.output.join(name), &page);
    write("index.html", index::render(&machines, &collected.not_read))?;
    write("scenarios.html", scenarios::render(&machines))?;
    for machine in &machines {
        write(&machine.file(), machine::render(machine))?;
    }
    let runs: usize = machines.iter().map(|machine| machine.runs.len() + machine.benches.len()).sum();
    let counts = format!("{}, {}", counted(machines.len(), "machine"), counted(runs, "report"));
    say!("{}: {counts}", args.output.join("index.html").display());
    Ok(())
}
