//! Buffers of a heap.

use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gpu_interop_core::sync::{lock, unpoisoned};
use gpu_interop_core::{BufferSlice, DevicePtr, Error, ErrorKind, MappedRange, Result, SemaphorePayload};

use crate::buffer::OwnedBuffer;
use crate::interop::VulkanInterop;
use crate::pending::{InUse, drop_in_use};
use crate::semaphore::OwnedSemaphore;

/// A buffer of a [`SharedHeap`](crate::SharedHeap), for Vulkan and a compute device at once: a `VkBuffer`, and the
/// range of the device's mapping that it occupies. May outlive its heap.
///
/// This device owns a new buffer: release it ([`Recording::release`](crate::Recording::release)) before the compute
/// device uses it, even if the latter writes it first. Its contents are undefined, usually those of an earlier buffer.
///
/// # Freeing
/// Once this object is dropped, its memory is used for another buffer when all of these have ended:
///
/// * work of the compute device's streams that uses the buffer, and graphs that do;
/// * clones of [`buffer`](Self::buffer), also those that submissions of a
///   [`HeadlessContext`](crate::HeadlessContext) keep;
/// * work that the application submits itself, for which it calls [`free_after`](Self::free_after) or drops this object
///   only after its completion.
///
/// This calls no function of the compute driver that waits. Buffers of a heap are therefore not retained while a stream
/// waits, and any number of them may be dropped during the wait (front page of [`gpu_interop_core`], *Freeing*).
#[derive(Debug)]
pub struct SharedHeapBuffer {
    buffer: OwnedBuffer,
    mapped: MappedRange,
    deferred: Arc<Deferred>,
}

impl SharedHeapBuffer {
    pub(super) fn new(buffer: OwnedBuffer, mapped: MappedRange, deferred: Arc<Deferred>) -> Self {
        Self { buffer, mapped, deferred }
    }

    /// Vulkan's side.
    #[must_use]
    pub fn buffer(&self) -> &OwnedBuffer {
        &self.buffer
    }

    /// The compute device's side, an operand of its streams and kernels.
    #[must_use]
    pub fn mapped(&self) -> &MappedRange {
        &self.mapped
    }

    /// Device address of the first byte on the compute device, valid while `self` lives.
    #[must_use]
    pub fn device_ptr(&self) -> DevicePtr {
        self.mapped.as_raw()
    }

    /// Size of the buffer, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.buffer.size()
    }

    /// Returns a range of the compute device's side, bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the range is empty or past the
    /// end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        self.mapped.slice(range)
    }

    /// Keeps Vulkan's side allocated until a timeline of the device is at least `value`, also after this object is
    /// dropped. For work that the application submits itself and that signals the timeline with this value or a greater
    /// one. Does not block. May be called several times; all of the values must be reached.
    ///
    /// Dropping the last object of the heap waits up to a second for these values. A buffer whose value is not reached
    /// by then is leaked with its device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore or one of
    /// another device; nothing is deferred then.
    pub fn free_after(&self, semaphore: &OwnedSemaphore, value: u64) -> Result<()> {
        const OPERATION: &str = "SharedHeapBuffer::free_after";
        let interop = self.buffer.interop();
        if semaphore.payload() != SemaphorePayload::Timeline {
            let message = "the semaphore has no value; use a timeline semaphore";
            return Err(Error::invalid(OPERATION, message).with_device(interop.identity()));
        }
        if !semaphore.interop().is_same_device(interop) {
            let message = "the semaphore belongs to another device than the buffer";
            return Err(Error::invalid(OPERATION, message).with_device(interop.identity()));
        }
        self.deferred.keep(&self.buffer, semaphore, value);
        Ok(())
    }
}

impl<'a> From<&'a SharedHeapBuffer> for BufferSlice<'a> {
    fn from(buffer: &'a SharedHeapBuffer) -> Self {
        Self::from(&buffer.mapped)
    }
}

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
