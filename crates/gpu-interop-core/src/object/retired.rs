//! Objects that were dropped and are not freed yet.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use smallvec::SmallVec;

use super::resource::{Parent, Resource};
use super::slots::PassedMarkers;
use crate::backend::RawEvent;

/// What a retired object waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    /// An event recorded after the last use, owned by the entry.
    Event { event: RawEvent, slot: usize },
    /// The stream in this slot being idle, where no event could be recorded; the graph in it being gone.
    Idle(usize),
}

#[derive(Debug)]
pub(super) struct Retired {
    pub(super) resource: Resource,
    pub(super) waits: SmallVec<[Wait; 2]>,
    /// What streams waited for when it could have gone first, and freeing would have blocked.
    pub(super) blocked_by: Option<PendingWaits>,
}

/// Streams that wait for something outside, for which a free would wait, too: also those of other devices that are the same
/// hardware. Each by the number of its device and its slot, with how many of its markers had passed.
pub(super) type PendingWaits = SmallVec<[((u64, usize), PassedMarkers); 2]>;

/// Objects that were dropped and not yet freed.
#[derive(Debug, Default)]
pub(super) struct RetiredObjects {
    /// Objects that wait, in the order of their drops.
    pub(super) entries: Vec<Retired>,
    /// The number of dropped objects in each container, until they are freed; those that a thread is freeing count.
    children: BTreeMap<Parent, usize>,
    /// How many threads are looking at what waits, which is not in `retired` then, or free something.
    pub(super) at_work: usize,
}

impl RetiredObjects {
    pub(super) fn add(&mut self, resource: &Resource) {
        for container in resource.parents().into_iter().flatten() {
            *self.children.entry(container).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, resource: &Resource) {
        for container in resource.parents().into_iter().flatten() {
            if let Entry::Occupied(mut count) = self.children.entry(container) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// Notes that a thread is done with its work, and has freed these. Whether something may go now that was kept for one of
    /// them.
    pub(super) fn finish(&mut self, freed: &[Resource]) -> bool {
        self.at_work -= 1;
        let lived_in = |container| freed.iter().any(|resource| resource.parents().contains(&Some(container)));
        let may_go =
            |entry: &Retired| entry.resource.container().is_some_and(lived_in) && !self.has_children(&entry.resource);
        self.entries.iter().any(|entry| entry.waits.is_empty() && entry.blocked_by.is_none() && may_go(entry))
    }

    /// Whether something that lives in `resource` is not gone.
    pub(super) fn has_children(&self, resource: &Resource) -> bool {
        resource.container().is_some_and(|container| self.children.contains_key(&container))
    }
}
