//! Buffers that stay allocated until a timeline reaches a value.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gpu_interop_core::sync::{lock, unpoisoned};
use gpu_interop_core::{ErrorKind, Result};

use crate::buffer::OwnedBuffer;
use crate::interop::VulkanInterop;
use crate::patience::{InUse, drop_in_use};
use crate::semaphore::OwnedSemaphore;

#[derive(Debug, Default)]
pub(super) struct Deferred {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    list: Vec<Entry>,
    /// The list is collected once it has this many entries, so that n calls take O(n) steps.
    due: usize,
}

#[derive(Debug)]
struct Entry {
    /// Only kept. Fields drop in this order.
    _buffer: OwnedBuffer,
    semaphore: OwnedSemaphore,
    value: u64,
}

impl Entry {
    /// `true` if the value has been reached, or never will be because the device is lost and runs no work.
    fn is_done(&self) -> bool {
        match self.semaphore.value() {
            Ok(value) => value >= self.value,
            Err(error) => error.kind() == ErrorKind::DeviceLost,
        }
    }
}

impl Deferred {
    /// Keeps a buffer until a timeline reaches a value.
    pub(super) fn keep(&self, buffer: &OwnedBuffer, semaphore: &OwnedSemaphore, value: u64) {
        const FEW: usize = 64;
        let due = {
            let mut entries = self.lock();
            entries.list.push(Entry { _buffer: buffer.clone(), semaphore: semaphore.clone(), value });
            entries.list.len() > entries.due.max(FEW)
        };
        if due {
            self.collect();
            let mut entries = self.lock();
            entries.due = 2 * entries.list.len();
        }
    }

    /// Drops the buffers whose values have been reached.
    pub(super) fn collect(&self) {
        let entries = std::mem::take(&mut self.lock().list);
        let (done, mut pending): (Vec<_>, Vec<_>) = entries.into_iter().partition(Entry::is_done);
        {
            let mut entries = self.lock();
            pending.append(&mut entries.list);
            entries.list = pending;
        }
        // Without the lock: an owner of a semaphore is code of the application.
        drop(done);
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // The list is valid after every step, so a poisoned lock is usable.
        lock(&self.entries)
    }
}

impl InUse for Entry {
    const LEAKED: &str = "a timeline never reached its value; a buffer of a heap is leaked";

    fn interop(&self) -> &VulkanInterop {
        self.semaphore.interop()
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        self.semaphore.wait(self.value, timeout)
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        drop_in_use(std::mem::take(&mut unpoisoned(self.entries.get_mut()).list));
    }
}
