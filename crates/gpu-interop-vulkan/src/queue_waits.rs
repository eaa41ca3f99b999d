//! Waits of queues for values of timelines, as far as they went through this crate.
//!
//! Neither a submission nor a presentation may wait for a binary semaphore before all signals on which its signal depends
//! have been submitted (VUID-vkQueueSubmit-pWaitSemaphores-03238). The signal depends on all work before it on its queue. A
//! host's signal, such as that of a bridge, counts once it has executed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;

use crate::semaphore::{OwnedSemaphore, WeakSemaphore};

#[derive(Debug, Default)]
pub(crate) struct QueueWaits(Mutex<Vec<Wait>>);

/// The greatest value of a timeline that a queue waits for.
#[derive(Debug)]
struct Wait {
    queue: vk::Queue,
    semaphore: WeakSemaphore,
    value: u64,
}

impl QueueWaits {
    fn lock(&self) -> MutexGuard<'_, Vec<Wait>> {
        // The list is valid after every step, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a submitted wait. The signals of a shared timeline are unknown; the application orders them.
    pub(crate) fn add(&self, queue: vk::Queue, semaphore: &OwnedSemaphore, value: u64) {
        if !semaphore.is_timeline() || semaphore.is_shared() {
            return;
        }
        let mut waits = self.lock();
        if let Some(wait) = waits.iter_mut().find(|wait| wait.queue == queue && wait.semaphore.is(semaphore)) {
            wait.value = wait.value.max(value);
            return;
        }
        // Work that has not completed keeps its semaphores.
        waits.retain(|wait| wait.semaphore.is_alive());
        waits.push(Wait { queue, semaphore: semaphore.downgrade(), value });
    }

    /// The first value without a submitted signal, of those that a submission to `queue` depends on which waits for `waits`.
    pub(crate) fn unsubmitted<'a>(
        &self,
        queue: vk::Queue,
        waits: impl IntoIterator<Item = (&'a OwnedSemaphore, u64)>,
    ) -> Option<(OwnedSemaphore, u64)> {
        let mut open: Vec<_> = waits.into_iter().map(|(semaphore, value)| (semaphore.clone(), value)).collect();
        let (mut queues, mut next) = (vec![queue], 0);
        loop {
            while let Some(queue) = queues.get(next) {
                let waits = self.lock();
                let of_queue = waits.iter().filter(|wait| wait.queue == *queue);
                open.extend(of_queue.filter_map(|wait| Some((wait.semaphore.upgrade()?, wait.value))));
                next += 1;
            }
            let (semaphore, value) = open.pop()?;
            // A lost device has no value, and executes nothing.
            let is_known = semaphore.is_timeline() && !semaphore.is_shared();
            if !is_known || semaphore.value().map_or(true, |reached| reached >= value) {
                continue;
            }
            match semaphore.signalling_queue(value) {
                None => return Some((semaphore, value)),
                Some(queue) if !queues.contains(&queue) => queues.push(queue),
                Some(_) => {}
            }
        }
    }
}
