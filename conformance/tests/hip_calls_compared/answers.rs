//! The recorded answers of AMD's runtimes: a file for each version, a line of JSON for each script.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::runtime::{DIED_OR_NOT, Version};

/// What a script was answered, by its name.
pub(crate) type Answers = BTreeMap<String, Vec<String>>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    script: String,
    answers: Vec<String>,
}

/// A difference that is meant to be there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Difference {
    pub(crate) script: String,
    pub(crate) versions: Vec<String>,
    /// What the simulator answers.
    pub(crate) simulator: Vec<String>,
    /// Why: said to whoever reads the file.
    pub(crate) reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Differences {
    #[serde(default)]
    difference: Vec<Difference>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hip_calls_compared")
}

fn file(version: Version) -> PathBuf {
    folder().join("answers").join(format!("{}.jsonl", version.name))
}

/// What was recorded of a version.
pub(crate) fn recorded(version: Version) -> Result<Answers, String> {
    let file = file(version);
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let line = |line: &str| serde_json::from_str::<Line>(line).map(|line| (line.script, line.answers));
    text.lines().map(line).collect::<Result<_, _>>().map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes what a version answers.
pub(crate) fn record(version: Version, answers: Answers) -> Result<(), String> {
    let line = |(script, answers)| serde_json::to_string(&Line { script, answers });
    let lines: Vec<String> = answers.into_iter().map(line).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    std::fs::write(file(version), lines.join("\n") + "\n").map_err(|error| error.to_string())
}

/// The differences between the simulator and the runtimes that have a reason.
pub(crate) fn differences() -> Result<Vec<Difference>, String> {
    let text = std::fs::read_to_string(folder().join("differences.toml")).map_err(|error| error.to_string())?;
    toml::from_str::<Differences>(&text).map(|all| all.difference).map_err(|error| error.to_string())
}

/// Whether answers are the same. By which signal a process dies is not: a simulator that finds out ends it with another
/// than one that follows a bad pointer.
pub(crate) fn alike(one: &[String], other: &[String]) -> bool {
    let dies = |answer: &String| answer.starts_with(DIED_OR_NOT[1]);
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other || (dies(one) && dies(other)))
}
