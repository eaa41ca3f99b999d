//! `conformance site`: a static site from a folder of reports.

mod history;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use gpu_interop_conformance::{Stop, Verdict};
use gpu_interop_conformance_bench::BenchReport;
use maud::{DOCTYPE, Markup, html};

use self::history::{History, build, build_of, date};
use crate::files::{self, write_file};
use crate::output::{complain, counted, one_line, say, visible};
use crate::report::html::{bar, cell, counts, head, tally};
use crate::report::{CaseReport, Merged, NotRead, Report, Sourced, Tool, merge, shards};

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
    write("index.html", render(&machines, &collected.not_read))?;
    write("scenarios.html", history::render(&machines))?;
    for machine in &machines {
        write(&machine.file(), machine::render(machine))?;
    }
    let runs: usize = machines.iter().map(|machine| machine.runs.len() + machine.benches.len()).sum();
    let counts = format!("{}, {}", counted(machines.len(), "machine"), counted(runs, "report"));
    say!("{}: {counts}", args.output.join("index.html").display());
    Ok(())
}

/// A report and its file, relative to the folder.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub(super) file: String,
    pub(super) report: T,
}

/// The reports of a folder.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) runs: Vec<Found<Report>>,
    pub(super) benches: Vec<Found<BenchReport>>,
    pub(super) not_read: Vec<NotRead>,
}

/// Reads all JSON files in a folder and below it. Shards of one run, which are in the same folder, are joined.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn collect(folder: &Path) -> Verdict<Collected> {
    let mut paths = Vec::new();
    walk(folder, &mut paths).map_err(|error| Stop::failed(format!("{}: {error}", folder.display())))?;
    paths.sort();
    let mut folders: BTreeMap<&Path, Merged> = BTreeMap::new();
    for path in &paths {
        let merged = folders.entry(path.parent().unwrap_or(folder)).or_insert_with(Merged::empty);
        let file = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let bytes = files::read(path, files::MOST).map_err(|error| error.to_string());
        match bytes.and_then(|bytes| merge::parse_bytes(&bytes)) {
            Ok(found) => add(merged, &file, found),
            Err(reason) => merged.not_read.push(NotRead { source: file, reason }),
        }
    }
    let mut all = Collected::default();
    for mut merged in folders.into_values() {
        shards::join(&mut merged);
        all.runs.extend(merged.reports.into_iter().map(|Sourced { source, report }| Found { file: source, report }));
        all.benches.extend(merged.benches.into_iter().map(|Sourced { source, report }| Found { file: source, report }));
        all.not_read.append(&mut merged.not_read);
    }
    Ok(all)
}

/// Adds the reports of a file, which their sources name.
fn add(merged: &mut Merged, file: &str, found: Merged) {
    let named = |source| merge::within(file, source);
    merged.reports.extend(found.reports.into_iter().map(|each| Sourced { source: named(each.source), ..each }));
    merged.benches.extend(found.benches.into_iter().map(|each| Sourced { source: named(each.source), ..each }));
    merged.not_read.extend(found.not_read.into_iter().map(|each| NotRead { source: named(each.source), ..each }));
}

/// The JSON files in a folder and below it, without following links to folders.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "json") {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// The page.
fn render(machines: &[History<'_>], not_read: &[NotRead]) -> String {
    // Machines with measurements only have no groups.
    let with_runs: Vec<&History<'_>> = machines.iter().filter(|machine| !machine.runs.is_empty()).collect();
    let groups: BTreeSet<&str> = machines
        .iter()
        .filter_map(History::newest)
        .flat_map(|run| run.report.results.iter().map(CaseReport::group))
        .collect();
    let content = html! {
        section aria-labelledby="machines" {
            h2 id="machines" { "Machines" }
            div class="wide" {
                table class="sides" {
                    thead {
                        tr {
                            @for heading in ["machine", "newest results", "reports", "newest", "build"] {
                                th scope="col" { (heading) }
                            }
                        }
                    }
                    tbody { @for machine in machines { (row(machine)) } }
                }
            }
        }
        section aria-labelledby="groups" {
            h2 id="groups" { "Groups of scenarios in the newest runs" }
            div class="wide matrix" {
                table {
                    thead {
                        tr {
                            th scope="col" { "group" }
                            @for machine in &with_runs { th scope="col" { a href=(machine.file()) { (machine.name()) } } }
                        }
                    }
                    tbody {
                        @for group in groups {
                            tr {
                                th scope="row" { (group) }
                                @for machine in &with_runs {
                                    @let results = machine.newest().into_iter().flat_map(|run| &run.report.results);
                                    (cell(&tally(results.filter(|case| case.group() == group))))
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !not_read.is_empty() {
            section aria-labelledby="missing" {
                h2 id="missing" { "Missing or incomplete" }
                ul { @for missing in not_read { li { code { (missing.source) } ": " (missing.reason) } } }
            }
        }
    };
    page("gpu-interop conformance: machines", &content)
}

/// The newest results of one machine.
fn row(machine: &History<'_>) -> Markup {
    let (run, bench) = (machine.newest(), machine.benches.last());
    let (failing, unsteady) = (machine.failing().len(), machine.unsteady().len());
    let reports = [(machine.runs.len(), "run"), (machine.benches.len(), "benchmark")];
    let reports = reports.into_iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(count, noun));
    let (started, build) = match (run, bench) {
        (Some(run), _) => (run.report.started, build(&run.report)),
        (None, Some(bench)) => (bench.report.started, build_of(&bench.report.backend.driver)),
        (None, None) => (None, String::new()),
    };
    html! {
        tr class="machine" {
            th scope="row" { a href=(machine.file()) { (machine.name()) } }
            td {
                @if let Some(run) = run {
                    @let tally = tally(run.report.results.iter());
                    (bar(&tally))
                    div class="counts" { (counts(&tally)) }
                }
                @if failing + unsteady > 0 { div { (failing) " failing, " (unsteady) " unsteady" } }
                @if let Some(bench) = bench {
                    @let (kept, judged) = bench.report.kept();
                    div { (kept) " of " (counted(judged, "ratio")) " within the limit" }
                }
            }
            td data-side="reports" { (reports.collect::<Vec<_>>().join(", ")) }
            td data-side="newest" class="date" { (date(started)) }
            td data-side="build" { (build) }
        }
    }
}

const SITE_STYLE: &str = include_str!("site.css");

/// A page without network resources.
pub(super) fn page(title: &str, content: &Markup) -> String {
    let tool = Tool::this();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, &[SITE_STYLE]))
            body {
                nav { a href="index.html" { "Machines" } " " a href="scenarios.html" { "Scenarios" } }
                header { h1 { (title) } }
                main { (content) }
                footer { p { "Made by " (tool.name) " " (tool.version) "." } }
            }
        }
    };
    visible(&page.into_string()).into_owned()
}
