//! Handing buffers to another API and taking them back.

use ash::vk;
use gpu_interop_core::{Error, Result};

use crate::buffer::OwnedBuffer;

/// One side of an ownership transfer between Vulkan and another API: which queue family, and which accesses on it.
///
/// A buffer of sharing mode `EXCLUSIVE` (all of this crate's are) belongs to one queue family, or to
/// `VK_QUEUE_FAMILY_EXTERNAL`: all queues outside of this `VkInstance`. In the specification's terms:
///
/// * **Release** after the last Vulkan access and before the other side's first one, if the other side is to see what
///   Vulkan wrote.
/// * **Acquire** before the first Vulkan access after the other side's last one, if Vulkan is to see what the other
///   side wrote. Before an access that overwrites everything it may be left out; the old contents are undefined then.
/// * An importer acquires before it reads what the exporter wrote, even the first time, and the exporter releases
///   before that.
///
/// A release or an acquire orders memory, not time: the other side must also wait, for a semaphore that the
/// releasing submission signals or for its fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnershipTransfer {
    /// The family of the queue that the command buffer goes to.
    pub queue_family: u32,
    /// The stages of the accesses before the release, or after the acquire.
    pub stages: vk::PipelineStageFlags,
    /// The accesses themselves: writes before a release, any after an acquire.
    pub access: vk::AccessFlags,
}

impl OwnershipTransfer {
    /// All memory accesses of all commands on a queue of this family: always correct, seldom slower.
    #[must_use]
    pub fn all(queue_family: u32) -> Self {
        Self {
            queue_family,
            stages: vk::PipelineStageFlags::ALL_COMMANDS,
            access: vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE,
        }
    }

    fn check(&self, operation: &'static str) -> Result<()> {
        if matches!(self.queue_family, vk::QUEUE_FAMILY_EXTERNAL | vk::QUEUE_FAMILY_IGNORED) {
            return Err(Error::invalid(operation, "the queue family must be the one of the queue submitted to"));
        }
        if self.stages.is_empty() {
            return Err(Error::invalid(operation, "the transfer names no pipeline stage"));
        }
        Ok(())
    }
}

impl OwnedBuffer {
    /// Records the release of the whole buffer to `VK_QUEUE_FAMILY_EXTERNAL`: a buffer memory barrier of
    /// `vkCmdPipelineBarrier`. What `from.access` wrote is available to the acquiring side.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if `from` names no real queue
    /// family or no stage; nothing is recorded then.
    ///
    /// # Safety
    /// `commands` must be of this buffer's device, in the recording state and outside a render pass, go to a queue of
    /// `from.queue_family`, which owns the buffer, and finish while a clone of this buffer lives. Nobody else may
    /// record into it or its pool at the same time.
    pub unsafe fn record_release(&self, commands: vk::CommandBuffer, from: OwnershipTransfer) -> Result<()> {
        from.check("OwnedBuffer::record_release")?;
        let barrier = self
            .whole()
            .src_queue_family_index(from.queue_family)
            .dst_queue_family_index(vk::QUEUE_FAMILY_EXTERNAL)
            .src_access_mask(from.access);
        // SAFETY: the caller's promises; the buffer is live and owned by the source family.
        unsafe { self.record(commands, from.stages, vk::PipelineStageFlags::BOTTOM_OF_PIPE, barrier) };
        Ok(())
    }

    /// Records the acquisition of the whole buffer from `VK_QUEUE_FAMILY_EXTERNAL`: a buffer memory barrier of
    /// `vkCmdPipelineBarrier`. What the releasing side wrote is visible to `to.access` in later commands.
    ///
    /// # Errors
    /// As [`record_release`](Self::record_release).
    ///
    /// # Safety
    /// As [`record_release`](Self::record_release), except that the other side owns the buffer and has released it by
    /// the time the commands run.
    pub unsafe fn record_acquire(&self, commands: vk::CommandBuffer, to: OwnershipTransfer) -> Result<()> {
        to.check("OwnedBuffer::record_acquire")?;
        let barrier = self
            .whole()
            .src_queue_family_index(vk::QUEUE_FAMILY_EXTERNAL)
            .dst_queue_family_index(to.queue_family)
            .dst_access_mask(to.access);
        // SAFETY: the caller's promises; the buffer is live.
        unsafe { self.record(commands, vk::PipelineStageFlags::TOP_OF_PIPE, to.stages, barrier) };
        Ok(())
    }

    fn whole(&self) -> vk::BufferMemoryBarrier<'static> {
        vk::BufferMemoryBarrier::default().buffer(self.as_raw()).offset(0).size(vk::WHOLE_SIZE)
    }

    /// # Safety
    /// As [`Self::record_release`].
    unsafe fn record(
        &self,
        commands: vk::CommandBuffer,
        before: vk::PipelineStageFlags,
        after: vk::PipelineStageFlags,
        barrier: vk::BufferMemoryBarrier<'_>,
    ) {
        // SAFETY: the caller's promises.
        unsafe {
            self.interop().device().cmd_pipeline_barrier(
                commands,
                before,
                after,
                vk::DependencyFlags::empty(),
                &[],
                &[barrier],
                &[],
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn a_transfer_names_a_real_family_and_a_stage() {
        assert!(OwnershipTransfer::all(0).check("op").is_ok());
        for family in [vk::QUEUE_FAMILY_EXTERNAL, vk::QUEUE_FAMILY_IGNORED] {
            let error = OwnershipTransfer::all(family).check("op").expect_err("no family");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        let nothing = OwnershipTransfer { stages: vk::PipelineStageFlags::empty(), ..OwnershipTransfer::all(0) };
        assert!(nothing.check("op").is_err());
    }
}
