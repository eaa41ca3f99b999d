//! Retired objects: dropped but not yet freed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use smallvec::SmallVec;

use super::resource::{Parent, Resource};
use super::slots::PendingWaits;
use crate::backend::RawEvent;

/// Condition for freeing a retired object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    /// An event recorded after the last use, owned by the entry.
    Event { event: RawEvent, slot: usize },
    /// The stream in this slot is idle (where no event could be recorded), or the graph in it is destroyed.
    Idle(usize),
}

#[derive(Debug)]
pub(super) struct Retired {
    pub(super) resource: Resource,
    pub(super) waits: SmallVec<[Wait; 2]>,
    /// External waits that were pending when the object could first have been freed, and on which the free would have
    /// blocked.
    pub(super) blocked_by: Option<PendingWaits>,
}

#[derive(Debug, Default)]
pub(super) struct RetiredObjects {
    /// Objects in drop order.
    pub(super) entries: Vec<Retired>,
    /// Number of dropped children of each parent, including those that a thread is freeing.
    children: BTreeMap<Parent, usize>,
    /// Number of threads that check entries, which they have taken out of `entries`, and free them.
    pub(super) active_threads: usize,
}

impl RetiredObjects {
    pub(super) fn add(&mut self, resource: &Resource) {
        for parent in resource.parents().into_iter().flatten() {
            *self.children.entry(parent).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, resource: &Resource) {
        for parent in resource.parents().into_iter().flatten() {
            if let Entry::Occupied(mut count) = self.children.entry(parent) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// Ends the work of a thread, which has freed `freed`. Returns whether a parent of a freed object may be freed now.
    pub(super) fn finish(&mut self, freed: &[Resource]) -> bool {
        self.active_threads -= 1;
        let was_parent = |parent| freed.iter().any(|resource| resource.parents().contains(&Some(parent)));
        let may_go =
            |entry: &Retired| entry.resource.as_parent().is_some_and(was_parent) && !self.has_children(&entry.resource);
        self.entries.iter().any(|entry| entry.waits.is_empty() && entry.blocked_by.is_none() && may_go(entry))
    }

    /// `true` if every retired object is freed, and every child of a deferred one.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.children.is_empty() && self.active_threads == 0
    }

    /// `true` if a child of `resource` is not freed yet.
    pub(super) fn has_children(&self, resource: &Resource) -> bool {
        resource.as_parent().is_some_and(|parent| self.children.contains_key(&parent))
    }
}
