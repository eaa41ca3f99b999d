//! Vulkan objects of a submission, kept for reuse: creating them takes longer than the submission.

use std::sync::{Arc, Mutex};

use ash::vk;
use gpu_interop_core::Result;

use crate::error::Checked;
use crate::interop::VulkanInterop;
use gpu_interop_core::sync::lock;

/// Number of objects kept. More are in use only while that many submissions are pending.
const MOST: usize = 16;

/// A command buffer and a fence. The command buffer has its own pool, because two command buffers of one pool could be
/// recorded only under a lock.
#[derive(Debug)]
pub(super) struct Parts {
    pool: vk::CommandPool,
    pub(super) fence: vk::Fence,
    pub(super) commands: vk::CommandBuffer,
}

/// Unused parts of one queue family.
#[derive(Debug)]
pub(super) struct Spare {
    interop: VulkanInterop,
    queue_family: u32,
    parts: Mutex<Vec<Parts>>,
}

impl Spare {
    pub(super) fn new(interop: VulkanInterop, queue_family: u32) -> Arc<Self> {
        Arc::new(Self { interop, queue_family, parts: Mutex::default() })
    }

    pub(super) fn interop(&self) -> &VulkanInterop {
        &self.interop
    }

    /// Takes parts, with the command buffer in the initial state and the fence unsignalled.
    pub(super) fn take(&self) -> Result<Parts> {
        let spare = lock(&self.parts).pop();
        match spare {
            Some(parts) => Ok(parts),
            None => self.make(),
        }
    }

    /// Returns parts for reuse.
    ///
    /// # Safety
    /// The parts came from [`Spare::take`] of this object, and no pending work uses them.
    pub(super) unsafe fn put(&self, parts: Parts) {
        let device = self.interop.device();
        // SAFETY: both are live and this object's; nothing pending uses them, by the caller's promise.
        let reset = unsafe {
            device
                .reset_command_pool(parts.pool, vk::CommandPoolResetFlags::empty())
                .and_then(|()| device.reset_fences(&[parts.fence]))
        };
        let mut spare = lock(&self.parts);
        if reset.is_ok() && spare.len() < MOST {
            spare.push(parts);
        } else {
            self.destroy(&parts);
        }
    }

    fn make(&self) -> Result<Parts> {
        let device = self.interop.device();
        let mut parts =
            Parts { pool: vk::CommandPool::null(), fence: vk::Fence::null(), commands: vk::CommandBuffer::null() };
        let pool_info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::TRANSIENT)
            .queue_family_index(self.queue_family);
        // SAFETY: the device is live: the interop holds its owner. The device was created with this family.
        parts.pool = unsafe { device.create_command_pool(&pool_info, None) }.checked("vkCreateCommandPool")?;
        let made = self.fill(&mut parts);
        if made.is_err() {
            self.destroy(&parts);
        }
        made.map(|()| parts)
    }

    fn fill(&self, parts: &mut Parts) -> Result<()> {
        let device = self.interop.device();
        // SAFETY: the device is live.
        parts.fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }.checked("vkCreateFence")?;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(parts.pool).command_buffer_count(1);
        // SAFETY: the pool is new, and no other code has it.
        let commands = unsafe { device.allocate_command_buffers(&info) }.checked("vkAllocateCommandBuffers")?;
        parts.commands = commands.first().copied().unwrap_or_default();
        Ok(())
    }

    fn destroy(&self, parts: &Parts) {
        let device = self.interop.device();
        // SAFETY: both are null or this object's own, and nothing pending uses them.
        unsafe {
            device.destroy_fence(parts.fence, None);
            device.destroy_command_pool(parts.pool, None);
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if self.interop.is_forked() {
            return;
        }
        let parts = std::mem::take(&mut *lock(&self.parts));
        parts.iter().for_each(|parts| self.destroy(parts));
    }
}
