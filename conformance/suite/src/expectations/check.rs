//! Required fields of entries.

use super::entry::{Entry, File, wrong};
use crate::outcome::Verdict;

const NO_SOURCE: &str =
    "says where it is known from: `link`, a page or an issue, or `measured`, on what and when it was seen";

/// Fails if an entry has no reason, a failure no source, or a flake no rate.
pub(super) fn entries(name: &str, file: &File) -> Verdict {
    let File { unsupported, expected_failure, flaky } = file;
    let fail = |entry: &Entry, message: &str| Err(wrong(name, &format!("{message}: `{}`", entry.scenario.text())));
    for entry in unsupported.iter().chain(expected_failure).chain(flaky) {
        if entry.reason.trim().is_empty() {
            return fail(entry, "every expectation needs a reason");
        }
    }
    if let Some(entry) = expected_failure.iter().find(|entry| !has_source(entry)) {
        return fail(entry, &format!("an expected failure {NO_SOURCE}"));
    }
    if let Some(entry) = flaky.iter().find(|entry| !has_source(entry)) {
        return fail(entry, &format!("a flaky case {NO_SOURCE}"));
    }
    let is_share = |rate: f64| rate > 0.0 && rate < 1.0;
    if let Some(entry) = flaky.iter().find(|entry| !entry.rate.is_some_and(is_share)) {
        return fail(entry, "a flaky case needs `rate`, the share of runs that fail, more than 0 and less than 1");
    }
    if let Some(entry) = unsupported.iter().chain(expected_failure).find(|entry| entry.rate.is_some()) {
        return fail(entry, "only a `[[flaky]]` entry has a `rate`");
    }
    Ok(())
}

fn has_source(entry: &Entry) -> bool {
    [&entry.link, &entry.measured].into_iter().flatten().any(|text| !text.trim().is_empty())
}
