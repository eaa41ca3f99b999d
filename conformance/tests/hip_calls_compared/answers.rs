//! The recorded results of AMD's runtimes: a file per version, with a line of JSON per script.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::language::Script;
use super::runtime::{DIED_OR_NOT, Version};

/// The results of scripts, by name.
pub(crate) type Answers = BTreeMap<String, Vec<String>>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    script: String,
    answers: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    pub(crate) script: String,
    pub(crate) versions: Vec<String>,
    /// The simulator's results.
    pub(crate) simulator: Vec<String>,
    /// The reason, for readers of the file.
    pub(crate) reason: String,
}

/// Functions that only one of the two has: scripts that call them are not compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Absent {
    functions: Vec<String>,
    versions: Vec<String>,
    pub(crate) reason: String,
}

/// All of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Differences {
    #[serde(default)]
    pub(crate) difference: Vec<Difference>,
    #[serde(default)]
    pub(crate) absent: Vec<Absent>,
}

impl Differences {
    /// The expected results of the simulator that differ.
    pub(crate) fn of(&self, script: &Script, version: Version) -> Option<&Difference> {
        let of_it = |it: &&Difference| it.script == script.name && it.versions.iter().any(|name| name == version.name);
        self.difference.iter().find(of_it)
    }

    /// `true` if a script calls a function that only one of the two has.
    pub(crate) fn cannot_compare(&self, script: &Script, version: Version) -> bool {
        let calls = |function: &String| script.steps.iter().any(|step| step.contains(&format!("{function}(")));
        let of_it = |absent: &Absent| {
            absent.versions.iter().any(|name| name == version.name) && absent.functions.iter().any(calls)
        };
        self.absent.iter().any(of_it)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/hip_calls_compared")
}

fn file(version: Version) -> PathBuf {
    folder().join("answers").join(format!("{}.jsonl", version.name))
}

pub(crate) fn recorded(version: Version) -> Result<Answers, String> {
    let file = file(version);
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let line = |line: &str| serde_json::from_str::<Line>(line).map(|line| (line.script, line.answers));
    text.lines().map(line).collect::<Result<_, _>>().map_err(|error| format!("{}: {error}", file.display()))
}

pub(crate) fn record(version: Version, answers: Answers) -> Result<(), String> {
    let line = |(script, answers)| serde_json::to_string(&Line { script, answers });
    let lines: Vec<String> =
        answers.into_iter().map(line).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    std::fs::write(file(version), lines.join("\n") + "\n").map_err(|error| error.to_string())
}

/// The accepted differences between the simulator and the runtimes.
pub(crate) fn differences() -> Result<Differences, String> {
    let text = std::fs::read_to_string(folder().join("differences.toml")).map_err(|error| error.to_string())?;
    toml::from_str(&text).map_err(|error| error.to_string())
}

/// `true` if results are equivalent. The signal that ends a process is ignored: a simulator that detects an error
/// aborts, where the runtime dereferences an invalid pointer. A process that crashes in the work of a stream may do so
/// before or after the call that enqueued the work has returned.
pub(crate) fn alike(one: &[String], other: &[String]) -> bool {
    fn dies(answers: &[String]) -> Option<&[String]> {
        answers.split_last().filter(|(last, _)| last.starts_with(DIED_OR_NOT[1])).map(|(_, before)| before)
    }
    match (dies(one), dies(other)) {
        (Some(one), Some(other)) => {
            let [short, long] = if one.len() < other.len() { [one, other] } else { [other, one] };
            long.starts_with(short) && long.len() - short.len() <= 1
        }
        _ => one == other,
    }
}
