//! The work of each case: checked conditions, compared bytes and their checksums. A scenario that was weakened by mistake
//! passes, but does other work than the recorded one. The calls of drivers are not compared: their number depends on the
//! machine's speed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpu_interop_conformance::Work;
use gpu_interop_test_support::recording;
use libtest_mimic::Failed;

use crate::run::{Ran, Run};

/// The runs that tell which figures are always the same, to record them.
const RUNS: usize = 4;
/// The runs of a case whose figures differ: they may vary more rarely than the runs of the record show.
const AGAIN: usize = 2;
const VARIES: &str = "*";

/// The figures of each case of a run.
type Figures = BTreeMap<String, OfCase>;

/// Checks, bytes, and the sum of checksums.
type OfCase = [String; 3];

/// Runs all scenarios to record, or the usual ones, and fails unless each case that passed did the work that this section
/// of the record names. The record is of debug builds on Linux: others repeat more or less.
pub(crate) fn run(section: &str, new: impl Fn() -> Run, usual: fn(Run) -> Run) -> Result<Ran, Failed> {
    let usual = || usual(new()).run();
    if !cfg!(all(debug_assertions, target_os = "linux")) {
        return usual();
    }
    if recording() {
        let mut runs = (0..RUNS).map(|_| Ok(figures(&usual()?))).collect::<Result<Vec<_>, Failed>>()?.into_iter();
        let mut same = runs.next().unwrap_or_default();
        for (case, figures) in runs.flatten() {
            let known = same.get_mut(&case).into_iter().flatten();
            known.zip(figures).filter(|(known, figure)| *known != figure).for_each(|(known, _)| *known = VARIES.into());
        }
        for (case, [checks, ..]) in &mut same {
            // They wait for the thread of a bridge, and check what they see meanwhile.
            if case.contains(".bridge") || case.starts_with("frame_ring.") {
                *checks = VARIES.into();
            }
        }
        let report = new().run()?;
        write(section, &drivers(&report), &same)?;
        return Ok(report);
    }
    let report = usual()?;
    let (driver, recorded) = read(section)?;
    let here = drivers(&report);
    if driver != here {
        println!("{section}: the work is not compared, because it is recorded of {driver}, and not of {here}");
        return Ok(report);
    }
    let mut unlike = figures(&report);
    unlike.retain(|case, found| !is_like(recorded.get(case), found));
    for _ in 0..AGAIN {
        if unlike.is_empty() {
            return Ok(report);
        }
        let cases: Vec<&str> = unlike.keys().map(String::as_str).collect();
        let again = new().filter(&format!("{{{}}}", cases.join(","))).run()?;
        for (case, found) in figures(&again) {
            if is_like(recorded.get(&case), &found) {
                unlike.remove(&case);
            }
        }
    }
    let line = |(case, found): (&String, &OfCase)| {
        let recorded = recorded.get(case).map_or_else(|| "nothing".into(), |recorded| recorded.join(" "));
        format!("\n{section} {case}: recorded {recorded}, found {}", found.join(" "))
    };
    let lines: String = unlike.iter().map(line).collect();
    if lines.is_empty() {
        return Ok(report);
    }
    let file = file();
    Err(format!("cases did other work than {} says; `cargo xtask record sims` writes it:{lines}", file.display())
        .into())
}

fn is_like(recorded: Option<&OfCase>, found: &OfCase) -> bool {
    recorded.is_some_and(|recorded| {
        recorded.iter().zip(found).all(|(recorded, found)| recorded == found || recorded == VARIES)
    })
}

fn figures(report: &Ran) -> Figures {
    let of_work = |Work { checks, bytes, data }: Work| [checks, bytes, data].map(|figure| figure.to_string());
    report.results.iter().filter_map(|case| Some((case.name(), of_work(case.work?)))).collect()
}

/// The exporters' drivers, whose limits decide what a case does.
fn drivers(report: &Ran) -> String {
    let drivers = report.exporters.iter().filter_map(|exporter| Some(exporter.available.as_ref()?.driver.as_str()));
    drivers.collect::<Vec<_>>().join("; ")
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sims/expected/work.txt")
}

const BEGINNING: &str = "\
# The work of each case that passed: the run, first with its drivers, the case, checked conditions, compared bytes, and the
# sum of their checksums. A * differs from run to run. `cargo xtask record sims` writes this file. Read each changed line:
# fewer checks or bytes are a scenario that does less.
";

/// The lines of the file, without its beginning, in order.
fn lines() -> Result<Vec<String>, Failed> {
    let text = std::fs::read_to_string(file())?;
    Ok(text.lines().filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect())
}

/// The drivers of a section, and its figures.
fn read(section: &str) -> Result<(String, Figures), Failed> {
    let lines = lines()?;
    let rest: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(section)).collect();
    let driver = rest.iter().find_map(|rest| rest.strip_prefix(": ")).unwrap_or_default();
    let figures = |rest: &&str| {
        let mut words = rest.strip_prefix(' ')?.split(' ').map(ToOwned::to_owned);
        let case = words.next()?;
        Some((case, OfCase::try_from(words.collect::<Vec<_>>()).ok()?))
    };
    Ok((driver.to_owned(), rest.iter().filter_map(figures).collect()))
}

fn write(section: &str, drivers: &str, figures: &Figures) -> Result<(), Failed> {
    let of_others = |line: &String| !line.strip_prefix(section).is_some_and(|rest| rest.starts_with([' ', ':']));
    let mut lines: Vec<String> = lines()?.into_iter().filter(of_others).collect();
    lines.push(format!("{section}: {drivers}"));
    lines.extend(figures.iter().map(|(case, figures)| format!("{section} {case} {}", figures.join(" "))));
    lines.sort();
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    Ok(std::fs::write(file(), format!("{BEGINNING}{text}"))?)
}
