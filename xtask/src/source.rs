//! Checks of the form of Rust files.

use std::fs;

use crate::run::{Outcome, run};

/// The maximum number of lines of a Rust file.
const MOST: usize = 500;

/// Fails if a Rust file known to git has more than [`MOST`] lines.
pub(crate) fn lengths() -> Outcome {
    let files = run("git ls-files --cached --others --exclude-standard *.rs").text()?;
    let (mut total, mut long) = (0, Vec::new());
    for file in files.lines() {
        let lines = fs::read_to_string(file).unwrap_or_default().lines().count();
        total += lines;
        if lines > MOST {
            long.push(format!("{file}: {lines} lines"));
        }
    }
    println!("{total} lines of Rust in {} files", files.lines().count());
    if long.is_empty() { Ok(()) } else { Err(format!("files of more than {MOST} lines:\n{}", long.join("\n"))) }
}
