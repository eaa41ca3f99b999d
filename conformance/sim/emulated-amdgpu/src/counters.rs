//! Counters for the report.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Counts by name.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<&'static str, BTreeMap<String, u64>>>);

impl Counters {
    /// Adds one to a name's count within a group.
    pub(crate) fn add(&self, group: &'static str, name: &str) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = groups.entry(group).or_default();
        match names.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = names.insert(name.to_owned(), 1),
        }
    }

    /// The counts of a group.
    pub(crate) fn group(&self, group: &str) -> BTreeMap<String, u64> {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.get(group).cloned().unwrap_or_default()
    }

    /// The sum of a group's counts.
    pub(crate) fn total(&self, group: &str) -> u64 {
        self.group(group).values().sum()
    }
}
