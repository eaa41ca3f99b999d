//! Outcomes of a run of the suite other than `passed`, in a committed file: a section for each run, a line for each
//! reason.
//!
//! `id@exporter` names a case, `group.*@exporter` all cases of a group. `*` names every case with the reason, for runs
//! that were never recorded. A section has only what differs from the sections that a run is compared with after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Other outcomes are failures, or depend on the machine: they are never recorded.
const RECORDED: [&str; 3] = ["passed", "unsupported", "expected_failure"];

/// Limits of a machine's Vulkan and OpenGL drivers.
const LIMITS: [&str; 8] = [
    "the device does not export this kind of semaphore",
    "the exporter has no timelines that can be exported",
    "timelines of this exporter cannot be sent to another process",
    // Mesa's CPU OpenGL driver ignores offsets, and has no semaphores.
    "Mesa's llvmpipe ignores the offset",
    "the OpenGL context lacks GL_EXT_semaphore",
    // Buffers of lavapipe have less than 4 GiB.
    "vkCreateBuffer: out of memory",
    // Headless surfaces: Mesa 22's drivers have none.
    "Vulkan has no instance extension VK_EXT_headless_surface",
    // Multi-planar formats: lavapipe 22 has none.
    "the first: vkGetPhysicalDeviceImageFormatProperties2",
];

const BEGINNING: &str = "\
# Outcomes of runs of the suite other than `passed`: the run, the outcome, the reason, the cases. `cargo xtask record`
# writes this file. Read each changed line: a case that is added here no longer passes.

";

/// The names of cases by outcome and reason.
type Section = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;
type Sections = BTreeMap<String, Section>;

/// A case of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// `id@exporter`, or `id` without an exporter.
    pub name: String,
    pub outcome: String,
    pub reason: String,
}

impl Case {
    /// `true` if another version of the machine's Vulkan or OpenGL driver may end in another way. The machine need not
    /// have OpenGL, unless `GPU_INTEROP_REQUIRE_GL` is set.
    fn depends_on_the_machine(&self) -> bool {
        match &*self.outcome {
            "unsupported" => self.name.ends_with("@vulkan") && LIMITS.iter().any(|limit| self.reason.contains(limit)),
            // Wine does not count the handles of a process, and the system's Direct3D has none of the simulated
            // devices.
            "skipped" if cfg!(windows) => {
                self.name.starts_with("process.handles_not_inherited") || self.name.starts_with("d3d.")
            }
            "skipped" => self.name.starts_with("gl.") && std::env::var_os("GPU_INTEROP_REQUIRE_GL").is_none(),
            _ => false,
        }
    }

    /// The reason without values, the device, and the details of an expected failure.
    fn key(&self) -> &str {
        let end = self.reason.find(" [").or_else(|| match &*self.outcome {
            "expected_failure" => self.reason.find(" ("),
            _ => None,
        });
        if self.outcome == "passed" { "" } else { &self.reason[..end.unwrap_or(self.reason.len())] }
    }
}

/// The cases that the suite has: their names, with one exporter.
#[derive(Debug)]
pub struct Known(BTreeSet<String>);

impl Known {
    /// `scenarios`: ids, and whether a scenario runs with an exporter.
    pub fn new<'a>(scenarios: impl IntoIterator<Item = (&'a str, bool)>, exporters: &[&str]) -> Self {
        let names = |(id, exports): (&str, bool)| match exports {
            true => exporters.iter().map(|exporter| format!("{id}@{exporter}")).collect(),
            false => vec![id.to_owned()],
        };
        Self(scenarios.into_iter().flat_map(names).collect())
    }

    /// The cases that an entry of the file names.
    fn named(&self, entry: &str) -> BTreeSet<String> {
        self.0.iter().filter(|name| *name == entry || in_group(name, entry)).cloned().collect()
    }

    /// Names of whole groups in place of the names of all their cases.
    fn shortened(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let short = |name: &String| {
            let (id, exporter) = split(name);
            let group = id.split('.').next().unwrap_or_default();
            let group = exporter.map_or_else(|| format!("{group}.*"), |exporter| format!("{group}.*@{exporter}"));
            let whole = self.named(&group);
            if whole.len() > 1 && whole.is_subset(names) { group } else { name.clone() }
        };
        names.iter().map(short).collect()
    }
}

/// The id and the exporter of a case.
fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once('@').map_or((name, None), |(id, exporter)| (id, Some(exporter)))
}

/// `true` if `group`, as in `group.*@exporter`, has the case.
fn in_group(name: &str, group: &str) -> bool {
    let ((id, exporter), (start, of)) = (split(name), split(group));
    let starts = start.strip_suffix('*').is_some_and(|start| start.ends_with('.') && id.starts_with(start));
    starts && exporter == of
}

/// Compares the cases of a run with the first of `sections` that names each, or writes the first section if
/// `GPU_INTEROP_RECORD` is set.
///
/// # Errors
/// If a case has another outcome or reason, in any case if it failed; or if the file names cases that do not exist.
pub fn as_recorded(file: &Path, sections: &[&str], cases: &[Case], known: &Known) -> Result<(), String> {
    static FILE: Mutex<()> = Mutex::new(());
    let _one = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut all: Sections = toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let cases: Vec<&Case> = cases.iter().filter(|case| !case.depends_on_the_machine()).collect();
    let compared = compare(&all, sections, &cases, known);
    let never_recorded =
        all.get(sections[0]).is_some_and(|section| names(section).any(|(.., names)| names.contains("*")));
    if !recording() || (compared.is_ok() && !never_recorded) {
        return compared.map_err(|unlike| format!("{} [{}]: {unlike}", file.display(), sections[0]));
    }
    let section = record(&all, sections, &cases, known)?;
    if section.is_empty() {
        all.remove(sections[0]);
    } else {
        all.insert(sections[0].to_owned(), section);
    }
    let text = toml::to_string_pretty(&all).map_err(|error| error.to_string())?;
    committed(file, &format!("{BEGINNING}{text}"))
}

/// The outcome, the reason and the names of each entry.
fn names(section: &Section) -> impl Iterator<Item = (&str, &str, &BTreeSet<String>)> {
    section
        .iter()
        .flat_map(|(outcome, reasons)| reasons.iter().map(move |(reason, names)| (&**outcome, &**reason, names)))
}

/// The outcome and reason of the entry that names this case, alone or with its group.
fn entry<'a>(section: &'a Section, name: &str) -> Option<(&'a str, &'a str)> {
    let exact = names(section).find(|(.., names)| names.contains(name));
    let found = exact.or_else(|| names(section).find(|(.., names)| names.iter().any(|entry| in_group(name, entry))));
    found.map(|(outcome, reason, _)| (outcome, reason))
}

/// `true` if the case ended as the sections say; a case that no section names must pass.
fn agrees(sections: &[&Section], case: &Case) -> bool {
    if !RECORDED.contains(&&*case.outcome) {
        return false;
    }
    let as_entry = |(outcome, reason): (&str, &str)| case.outcome == outcome && case.reason.contains(reason);
    let named = sections.iter().find_map(|section| entry(section, &case.name));
    named.map_or(case.outcome == "passed", as_entry)
        || sections
            .iter()
            .flat_map(|section| names(section))
            .any(|(outcome, reason, names)| names.contains("*") && as_entry((outcome, reason)))
}

fn compare(all: &Sections, sections: &[&str], cases: &[&Case], known: &Known) -> Result<(), String> {
    let used: Vec<&Section> = sections.iter().filter_map(|name| all.get(*name)).collect();
    let mut unlike: Vec<String> = Vec::new();
    for case in cases.iter().filter(|case| !agrees(&used, case)) {
        let expected = used.iter().find_map(|section| entry(section, &case.name)).unwrap_or(("passed", ""));
        unlike.push(format!(
            "{}: {}: {}; expected: {}: {}",
            case.name, case.outcome, case.reason, expected.0, expected.1
        ));
    }
    let own = all.get(sections[0]).into_iter().flat_map(names).flat_map(|(.., names)| names);
    let stale = own.filter(|entry| *entry != "*" && known.named(entry).is_empty());
    unlike.extend(stale.map(|entry| format!("{entry}: there is no such case")));
    if unlike.is_empty() {
        Ok(())
    } else {
        Err(format!("not as recorded, which `cargo xtask record` renews:\n{}", unlike.join("\n")))
    }
}

/// The first section, renewed. Cases that did not run stay as they are.
fn record(all: &Sections, sections: &[&str], cases: &[&Case], known: &Known) -> Result<Section, String> {
    let failed: Vec<String> =
        cases.iter().filter(|case| !RECORDED.contains(&&*case.outcome)).map(|case| format!("{case:?}")).collect();
    if !failed.is_empty() {
        return Err(format!("never recorded:\n{}", failed.join("\n")));
    }
    let ran: BTreeSet<&str> = cases.iter().map(|case| &*case.name).collect();
    let mut section = Section::new();
    for (outcome, reason, names) in all.get(sections[0]).into_iter().flat_map(names) {
        let kept = names.iter().flat_map(|entry| known.named(entry)).filter(|name| !ran.contains(&**name));
        section.entry(outcome.to_owned()).or_default().entry(reason.to_owned()).or_default().extend(kept);
    }
    let others: Vec<&Section> = sections[1..].iter().filter_map(|name| all.get(*name)).collect();
    for case in cases.iter().filter(|case| !agrees(&others, case)) {
        let names = section.entry(case.outcome.clone()).or_default().entry(case.key().to_owned()).or_default();
        names.insert(case.name.clone());
    }
    for (outcome, reasons) in &mut section {
        // A failed case is always named.
        if outcome == "unsupported" {
            reasons.values_mut().for_each(|names| *names = known.shortened(names));
        }
        reasons.retain(|_, names| !names.is_empty());
    }
    section.retain(|_, reasons| !reasons.is_empty());
    Ok(section)
}

/// `true` if tests write such files instead of comparing them: `GPU_INTEROP_RECORD` is set.
pub fn recording() -> bool {
    std::env::var_os("GPU_INTEROP_RECORD").is_some()
}

/// Compares a committed file with `text`, or writes it if `GPU_INTEROP_RECORD` is set.
///
/// # Errors
/// If the file differs, with the lines that do, or cannot be read or written.
pub fn committed(path: &Path, text: &str) -> Result<(), String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    if recording() {
        return std::fs::write(path, text).map_err(named);
    }
    // Git may write line ends of Windows.
    let file = std::fs::read_to_string(path).map_err(named)?.replace("\r\n", "\n");
    if file == text {
        return Ok(());
    }
    let only = |sign, text: &str, other: &str| -> String {
        let lines = text.lines().filter(|line| other.lines().all(|there| there != *line));
        lines.take(20).map(|line| format!("\n{sign} {line}")).collect()
    };
    let lines = only('-', &file, text) + &only('+', text, &file);
    Err(format!("{} is out of date; `cargo xtask record` writes it:{lines}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, outcome: &str, reason: &str) -> Case {
        Case { name: name.into(), outcome: outcome.into(), reason: reason.into() }
    }

    fn refs(cases: &[Case]) -> Vec<&Case> {
        cases.iter().collect()
    }

    fn known() -> Known {
        Known::new([("a.1", true), ("a.2", true), ("b.1", true), ("b.2", false)], &["native"])
    }

    /// The file after a recorded run.
    fn recorded(cases: &[Case]) -> Sections {
        let section = record(&Sections::new(), &["run"], &refs(cases), &known()).expect("recorded");
        [("run".to_owned(), section)].into()
    }

    fn unlike(all: &Sections, cases: &[Case]) -> String {
        compare(all, &["run"], &refs(cases), &known()).expect_err("another outcome")
    }

    #[test]
    fn a_recorded_run_is_as_recorded_and_every_change_is_not() {
        let all_lack =
            [case("a.1@native", "unsupported", "no x [id: 7]"), case("a.2@native", "unsupported", "no x [id: 8]")];
        let one_lacks = [all_lack[0].clone(), case("a.2@native", "passed", "")];
        for run in [&all_lack, &one_lacks] {
            let all = recorded(run);
            compare(&all, &["run"], &refs(run), &known()).expect("as recorded");
            assert!(unlike(&all, &[case("a.1@native", "passed", "")]).contains("expected: unsupported: no x"));
            assert!(unlike(&all, &[case("a.1@native", "unsupported", "no y")]).contains("no y"));
            assert!(unlike(&all, &[case("b.1@native", "unsupported", "no x")]).contains("expected: passed"));
        }
        assert!(unlike(&recorded(&one_lacks), &all_lack).contains("a.2@native: unsupported"));
        assert_eq!(recorded(&all_lack)["run"]["unsupported"]["no x"], ["a.*@native".to_owned()].into());
    }

    #[test]
    fn a_failure_is_never_recorded() {
        for outcome in ["failed", "crashed", "timed_out", "unexpected_pass", "flaky", "skipped"] {
            let failed = [case("a.1@native", outcome, "no x")];
            assert!(record(&Sections::new(), &["run"], &refs(&failed), &known()).is_err(), "{outcome}");
            // Also if the file were edited.
            let edited = toml::from_str(&format!("[run.{outcome}]\n'no x' = ['a.1@native', '*']")).expect("valid");
            assert!(unlike(&edited, &failed).contains(outcome), "{outcome}");
        }
    }

    #[test]
    fn cases_that_did_not_run_stay_and_unknown_ones_go() {
        let text = "[run.unsupported]\n'no x' = ['a.*@native', 'b.2', 'c.1']";
        let all = toml::from_str(text).expect("valid");
        assert!(unlike(&all, &[]).contains("c.1: there is no such case"));
        let section = record(&all, &["run"], &[&case("a.1@native", "passed", "")], &known()).expect("recorded");
        assert_eq!(section["unsupported"]["no x"], ["a.2@native".to_owned(), "b.2".to_owned()].into());
    }

    #[test]
    fn a_section_has_what_differs_from_the_next_one() {
        let all = toml::from_str("[base.unsupported]\n'no x' = ['a.*@native']\n'no y' = ['b.2']").expect("valid");
        let run = [
            case("a.1@native", "unsupported", "no x"),
            case("b.1@native", "expected_failure", "known (7 bytes)"),
            case("b.2", "passed", ""),
        ];
        let section = record(&all, &["run", "base"], &refs(&run), &known()).expect("recorded");
        let expected: Section =
            toml::from_str("[expected_failure]\nknown = ['b.1@native']\n[passed]\n'' = ['b.2']").expect("valid");
        assert_eq!(section, expected);
        let all = [("base".to_owned(), all["base"].clone()), ("run".to_owned(), section)].into();
        compare(&all, &["run", "base"], &refs(&run), &known()).expect("as recorded");
    }
}
