//! Waits of queues for values of timelines, as far as they went through this crate.
//!
//! Neither a submission nor a presentation may wait for a binary semaphore before all signals on which its signal depends
//! have been submitted (VUID-vkQueueSubmit-pWaitSemaphores-03238). The signal depends on all work before it on its queue. A
//! host's signal, such as that of a bridge, counts once it has executed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ash::vk;
use gpu_interop_core::Result;

/// A timeline whose signals this crate knows.
pub(crate) trait Awaited: fmt::Debug + Send + Sync {
    /// `true` if the value is reached, or never will be because the device is lost.
    fn is_reached(self: Arc<Self>, value: u64) -> bool;

    /// A queue with a submitted signal of `value` or a greater one.
    fn signalling_queue(&self, value: u64) -> Option<vk::Queue>;

    /// Blocks until the value is reached.
    fn wait(self: Arc<Self>, value: u64, timeout: Duration) -> Result<()>;
}

#[derive(Debug, Default)]
pub(crate) struct QueueWaits(Mutex<Vec<Wait>>);

/// The greatest value of a timeline that a queue waits for.
#[derive(Debug)]
struct Wait {
    queue: vk::Queue,
    /// Work that has not completed keeps its semaphores.
    timeline: Weak<dyn Awaited>,
    value: u64,
}

impl QueueWaits {
    fn lock(&self) -> MutexGuard<'_, Vec<Wait>> {
        // The list is valid after every step, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a submitted wait.
    pub(crate) fn add(&self, queue: vk::Queue, timeline: &Arc<dyn Awaited>, value: u64) {
        let mut waits = self.lock();
        let is_same =
            |wait: &&mut Wait| wait.queue == queue && std::ptr::addr_eq(wait.timeline.as_ptr(), &raw const **timeline);
        if let Some(wait) = waits.iter_mut().find(is_same) {
            wait.value = wait.value.max(value);
            return;
        }
        waits.retain(|wait| wait.timeline.strong_count() > 0);
        waits.push(Wait { queue, timeline: Arc::downgrade(timeline), value });
    }

    /// The first value without a submitted signal, of those that a submission to `queue` depends on which waits for `waits`.
    pub(crate) fn unsubmitted(
        &self,
        queue: vk::Queue,
        waits: impl IntoIterator<Item = (Arc<dyn Awaited>, u64)>,
    ) -> Option<(Arc<dyn Awaited>, u64)> {
        let mut open: Vec<_> = waits.into_iter().collect();
        let (mut queues, mut next) = (vec![queue], 0);
        loop {
            while let Some(queue) = queues.get(next) {
                let waits = self.lock();
                let of_queue = waits.iter().filter(|wait| wait.queue == *queue);
                open.extend(of_queue.filter_map(|wait| Some((wait.timeline.upgrade()?, wait.value))));
                next += 1;
            }
            let (timeline, value) = open.pop()?;
            if timeline.clone().is_reached(value) {
                continue;
            }
            match timeline.signalling_queue(value) {
                None => return Some((timeline, value)),
                Some(queue) if !queues.contains(&queue) => queues.push(queue),
                Some(_) => {}
            }
        }
    }
}
