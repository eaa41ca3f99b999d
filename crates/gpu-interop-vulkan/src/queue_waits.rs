//! Waits of queues for values of timelines, as far as they went through this crate.
//!
//! A wait for a binary semaphore must not be submitted before all signals on which that semaphore's signal depends
//! (VUID-vkQueueSubmit-pWaitSemaphores-03238). The signal depends on the waits of its submission and of those before it on
//! its queue. A host's signal, such as that of a bridge, counts once it has executed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use ash::vk;
use gpu_interop_core::Result;
use gpu_interop_core::sync::lock;

/// A timeline whose signals this crate knows.
pub(crate) trait Awaited: fmt::Debug + Send + Sync {
    /// `true` if the value is reached, or never will be because the device is lost.
    fn is_reached(self: Arc<Self>, value: u64) -> bool;

    /// A submission that signals `value` or a greater one.
    fn signalled_by(&self, value: u64) -> Option<Place>;

    /// Blocks until the value is reached.
    fn wait(self: Arc<Self>, value: u64, timeout: Duration) -> Result<()>;
}

/// A submission to a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    queue: vk::Queue,
    /// Greater than those of the queue's earlier submissions.
    number: u64,
}

/// A list of this length is not searched.
const SHORT: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct QueueWaits(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// The number of the last submission.
    last: u64,
    list: Vec<Wait>,
    /// A longer list is searched for reached values, beyond [`SHORT`].
    limit: usize,
}

/// A submission's wait for a value.
#[derive(Debug)]
struct Wait {
    place: Place,
    /// Work that has not completed keeps its semaphores.
    timeline: Weak<dyn Awaited>,
    value: u64,
}

impl QueueWaits {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        // The list is valid after every step, so a poisoned lock is usable.
        lock(&self.0)
    }

    /// Records the waits of a submission that was made.
    pub(crate) fn submitted(
        &self,
        queue: vk::Queue,
        submitted: impl IntoIterator<Item = (Arc<dyn Awaited>, u64)>,
    ) -> Place {
        // Dropped without the lock: an owner of a semaphore is code of the application.
        let mut seen = Vec::new();
        let mut waits = self.lock();
        waits.last += 1;
        let place = Place { queue, number: waits.last };
        for (timeline, value) in submitted {
            waits.list.push(Wait { place, timeline: Arc::downgrade(&timeline), value });
            seen.push(timeline);
        }
        if waits.list.len() > waits.limit.max(SHORT) {
            waits.list.retain(|wait| {
                let Some(timeline) = wait.timeline.upgrade() else { return false };
                seen.push(timeline.clone());
                !timeline.is_reached(wait.value)
            });
            waits.limit = 2 * waits.list.len();
        }
        drop(waits);
        place
    }

    /// The first value without a submitted signal, of those that these submissions depend on.
    pub(crate) fn unsubmitted(&self, mut places: Vec<Place>) -> Option<(Arc<dyn Awaited>, u64)> {
        let (mut open, mut next) = (Vec::new(), 0);
        loop {
            while let Some(place) = places.get(next) {
                let waits = self.lock();
                let before = |wait: &&Wait| wait.place.queue == place.queue && wait.place.number <= place.number;
                let before = waits.list.iter().filter(before);
                open.extend(before.filter_map(|wait| Some((wait.timeline.upgrade()?, wait.value))));
                next += 1;
            }
            let (timeline, value) = open.pop()?;
            if timeline.clone().is_reached(value) {
                continue;
            }
            let Some(place) = timeline.signalled_by(value) else { return Some((timeline, value)) };
            if !places.iter().any(|known| known.queue == place.queue && known.number >= place.number) {
                places.push(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::Handle;

    use super::*;

    /// A timeline of the application, whose other owner drops it while its value is queried.
    #[derive(Debug)]
    struct Lent {
        is_reached: bool,
        other_owner: Mutex<Option<Arc<Self>>>,
        waits: Arc<QueueWaits>,
        dropped: Arc<Mutex<Vec<bool>>>,
    }

    impl Drop for Lent {
        fn drop(&mut self) {
            let is_unlocked = self.waits.0.try_lock().is_ok();
            self.dropped.lock().expect("no panic").push(is_unlocked);
        }
    }

    impl Awaited for Lent {
        fn is_reached(self: Arc<Self>, _: u64) -> bool {
            drop(self.other_owner.lock().expect("no panic").take());
            self.is_reached
        }

        fn signalled_by(&self, _: u64) -> Option<Place> {
            None
        }

        fn wait(self: Arc<Self>, _: u64, _: Duration) -> Result<()> {
            Ok(())
        }
    }

    fn lent(waits: &Arc<QueueWaits>, dropped: &Arc<Mutex<Vec<bool>>>, is_reached: bool) -> Arc<dyn Awaited> {
        let (waits, dropped, other_owner) = (waits.clone(), dropped.clone(), Mutex::default());
        let timeline = Arc::new(Lent { is_reached, other_owner, waits, dropped });
        *timeline.other_owner.lock().expect("no panic") = Some(timeline.clone());
        timeline
    }

    #[test]
    fn reached_values_are_forgotten_and_owners_dropped_without_the_lock() {
        let (waits, dropped, queue) = (Arc::<QueueWaits>::default(), Arc::default(), vk::Queue::from_raw(1));
        let first = waits.submitted(queue, [(lent(&waits, &dropped, false), 1)]);
        for value in 0..1000 {
            waits.submitted(queue, [(lent(&waits, &dropped, true), value)]);
            assert!(waits.lock().list.len() <= 2 * SHORT, "value {value}");
        }
        // The first list that was searched has dropped the timeline, which has no other owner.
        assert!(waits.unsubmitted(vec![first]).is_none());
        waits.submitted(queue, (0..=2 * SHORT).map(|_| (lent(&waits, &dropped, true), 0)));
        let dropped = dropped.lock().expect("no panic");
        assert!(dropped.len() > 1000 && dropped.iter().all(|is_unlocked| *is_unlocked), "{}", dropped.len());
    }
}
