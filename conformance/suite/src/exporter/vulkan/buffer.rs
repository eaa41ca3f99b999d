//! Buffers of Vulkan, and staging memory for copies of few bytes.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use gpu_interop::sync::lock;
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{ExportableBuffer, HeadlessContext, MemoryPlacement, OwnedBuffer, Recording, Submission};
use gpu_interop::{ErrorKind, MemoryImport};

use super::operation;
use crate::exporter::{BufferAccess, Exchange, ExportedBuffer, Placement, Point};
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};

/// A Vulkan buffer, in its own or in imported memory.
pub(super) struct VulkanAccess {
    /// The queue for hand-overs to and from the importer's streams.
    pub(super) context: HeadlessContext,
    pub(super) buffer: OwnedBuffer,
    pub(super) placement: Placement,
    /// `true` if the importer's side owns it (`VK_QUEUE_FAMILY_EXTERNAL`).
    pub(super) released: Mutex<bool>,
    pub(super) spare: Arc<Spare>,
    /// Of [`queue`](Self::queue).
    pub(super) staging: Arc<Staging>,
}

impl VulkanAccess {
    /// Acquires the buffer from the importer's side, calls `transfer`, and releases it again. Also for accesses of the
    /// host: only the submission makes its writes visible to devices, and only the acquire makes the importer's writes
    /// visible to it. Without them NVIDIA's driver shows stale data.
    ///
    /// Uses the device's transfer-only queue, if any: the importer uses the graphics and compute engine, and a switch
    /// of its context takes longer than most copies here.
    fn owned(&self, transfer: impl FnOnce(&HeadlessContext) -> gpu_interop::Result<()>) -> Verdict {
        let context = self.queue();
        let mut released = self.released()?;
        if *released {
            context.acquire(&self.buffer)?;
        }
        *released = false;
        transfer(context)?;
        context.release(&self.buffer)?;
        *released = true;
        Ok(())
    }

    /// As [`owned`](Self::owned), in one submission, with commands between the acquire and the release.
    fn owned_in_one_submission(
        &self,
        context: &HeadlessContext,
        record: impl FnOnce(&mut Recording<'_>) -> gpu_interop::Result<()>,
        released: &mut bool,
    ) -> gpu_interop::Result<()> {
        context.run(|recording| {
            if *released {
                recording.acquire(&self.buffer)?;
            }
            record(recording)?;
            recording.release(&self.buffer)
        })?;
        *released = true;
        Ok(())
    }

    /// Releases a new buffer to the importer's side, which may write it first.
    fn hand_over(&self) -> Verdict {
        let mut released = self.released()?;
        if !*released {
            self.queue().release(&self.buffer)?;
            *released = true;
        }
        Ok(())
    }

    /// One submission: waits, acquires, copies to and from staging memory, releases, signals.
    fn exchange(
        &self,
        context: &HeadlessContext,
        wait: Point<'_>,
        data: &[u8],
        signal: Point<'_>,
    ) -> Verdict<Box<dyn Exchange>> {
        let mut released = self.released()?;
        let size = data.len() as u64;
        let staging = self.spare.take(context, 2 * size)?;
        staging.write(size, data)?;
        let submission = context.submit(&[operation(wait)?], &[operation(signal)?], |recording| {
            if *released {
                recording.acquire(&self.buffer)?;
            }
            recording.copy(&self.buffer, 0, &staging, 0, size)?;
            recording.copy(&staging, size, &self.buffer, 0, size)?;
            recording.release(&self.buffer)
        })?;
        *released = true;
        Ok(Box::new(Submitted { submission, staging, spare: self.spare.clone(), size: data.len() }))
    }

    /// `true` for copies of few bytes to or from memory that the host does not map.
    fn is_staged(&self, length: usize) -> bool {
        self.placement == Placement::DeviceLocal && (1..=Staging::SIZE).contains(&length)
    }

    fn queue(&self) -> &HeadlessContext {
        self.context.copying().unwrap_or(&self.context)
    }

    fn released(&self) -> Verdict<MutexGuard<'_, bool>> {
        self.released.lock().map_err(|_| Stop::failed("another transfer panicked".into()))
    }
}

impl BufferAccess for VulkanAccess {
    fn size(&self) -> u64 {
        self.buffer.size()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        if self.is_staged(data.len()) {
            let (context, mut released) = (self.queue(), self.released()?);
            return self.staging.with(context, |staging| {
                staging.write(0, data)?;
                let copy =
                    |recording: &mut Recording<'_>| recording.copy(staging, 0, &self.buffer, offset, data.len() as u64);
                self.owned_in_one_submission(context, copy, &mut released)
            });
        }
        self.owned(|context| match self.placement {
            Placement::HostVisible => self.buffer.write(offset, data),
            Placement::DeviceLocal => context.upload(&self.buffer, offset, data),
        })
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict {
        if self.is_staged(data.len()) {
            let (context, mut released) = (self.queue(), self.released()?);
            return self.staging.with(context, |staging| {
                let copy =
                    |recording: &mut Recording<'_>| recording.copy(&self.buffer, offset, staging, 0, data.len() as u64);
                self.owned_in_one_submission(context, copy, &mut released)?;
                staging.read(0, data)
            });
        }
        self.owned(|context| match self.placement {
            Placement::HostVisible => self.buffer.read(offset, data),
            Placement::DeviceLocal => context.download(&self.buffer, offset, data),
        })
    }
}

pub(super) struct VulkanBuffer {
    pub(super) access: VulkanAccess,
    pub(super) exported: ExportableBuffer,
}

impl BufferAccess for VulkanBuffer {
    fn size(&self) -> u64 {
        self.access.size()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        self.access.write(offset, data)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict {
        self.access.read(offset, data)
    }
}

impl ExportedBuffer for VulkanBuffer {
    fn import_request(&self) -> Verdict<MemoryImport> {
        self.access.hand_over()?;
        Ok(self.exported.import_request()?)
    }

    fn exchange(&self, wait: Point<'_>, data: &[u8], signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        self.access.exchange(&self.access.context, wait, data, signal)
    }

    fn exchange_by_copying(&self, wait: Point<'_>, data: &[u8], signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        self.access.exchange(self.access.queue(), wait, data, signal)
    }
}

/// Unused staging memory: allocating it takes longer than an exchange.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<OwnedBuffer>>);

impl Spare {
    fn take(&self, context: &HeadlessContext, size: u64) -> Verdict<OwnedBuffer> {
        let spare = lock(&self.0).pop();
        match spare.filter(|buffer| buffer.size() >= size) {
            Some(buffer) => Ok(buffer),
            None => Ok(OwnedBuffer::new(context.interop(), size, USAGE, MemoryPlacement::HostVisible)?),
        }
    }

    fn put(&self, buffer: OwnedBuffer) {
        lock(&self.0).push(buffer);
    }
}

struct Submitted {
    submission: Submission,
    staging: OwnedBuffer,
    spare: Arc<Spare>,
    size: usize,
}

impl Exchange for Submitted {
    fn finish(self: Box<Self>) -> Verdict<Vec<u8>> {
        self.submission.wait(WAIT_TIMEOUT).map_err(|error| match error.kind() {
            ErrorKind::Timeout => Stop::failed("the exporter's queue timed out waiting for the device".into()),
            _ => error.into(),
        })?;
        let mut found = vec![0; self.size];
        self.staging.read(0, &mut found)?;
        self.spare.put(self.staging);
        Ok(found)
    }
}

/// The usage of the suite's buffers.
pub(super) const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// Host-visible memory that is kept for copies on one queue: to allocate it takes longer than to copy few bytes.
pub(super) struct Staging(Mutex<OwnedBuffer>);

impl Staging {
    /// The maximum number of bytes.
    pub(super) const SIZE: usize = 256 << 10;

    /// Allocates the memory, so that scenarios which count resources find it before and after.
    pub(super) fn new(context: &HeadlessContext) -> Verdict<Self> {
        Ok(Self(Mutex::new(allocate(context)?)))
    }

    /// Calls `copy` with memory that no other thread uses during the call.
    pub(super) fn with(
        &self,
        context: &HeadlessContext,
        copy: impl FnOnce(&OwnedBuffer) -> gpu_interop::Result<()>,
    ) -> Verdict {
        match self.0.try_lock() {
            Ok(staging) => Ok(copy(&staging)?),
            // After a panic its scenario has failed, and each copy writes the memory first.
            Err(TryLockError::Poisoned(staging)) => Ok(copy(staging.get_ref())?),
            Err(TryLockError::WouldBlock) => Ok(copy(&allocate(context)?)?),
        }
    }
}

fn allocate(context: &HeadlessContext) -> Verdict<OwnedBuffer> {
    Ok(OwnedBuffer::new(context.interop(), Staging::SIZE as u64, USAGE, MemoryPlacement::HostVisible)?)
}
