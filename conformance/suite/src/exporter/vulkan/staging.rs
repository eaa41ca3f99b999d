//! Staging memory for copies of few bytes.

use std::sync::{Mutex, TryLockError};

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{HeadlessContext, MemoryPlacement, OwnedBuffer};

use crate::outcome::Verdict;

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

    /// Calls `copy` with memory that no other thread uses meanwhile.
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
