//! Commands, submissions and fences.

use std::ffi::{CStr, c_void};

use ash::vk::{self, Handle};

use super::macros::{formatted, formatted_all, functions};
use super::state::{new_handle, record, settings, submission};
use crate::format::elements;
use crate::results;

type Commands = vk::CommandBuffer;
type Device = vk::Device;

functions! {
    create {
        PFN_vkCreateCommandPool vkCreateCommandPool(CommandPoolCreateInfo) -> CommandPool 0x9;
        PFN_vkCreateFence vkCreateFence(FenceCreateInfo) -> Fence 0xf;
    }
    destroy {
        PFN_vkDestroyCommandPool vkDestroyCommandPool(CommandPool);
        PFN_vkDestroyFence vkDestroyFence(Fence);
    }

    PFN_vkResetCommandPool vkResetCommandPool(
        device: Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags,
    ) -> vk::Result {
        record("vkResetCommandPool", format!("{:#x}, flags {:#x}", pool.as_raw(), flags.as_raw()));
        vk::Result::SUCCESS
    }
    PFN_vkAllocateCommandBuffers vkAllocateCommandBuffers(
        device: Device, info: *const vk::CommandBufferAllocateInfo<'_>, to: *mut Commands,
    ) -> vk::Result {
        record("vkAllocateCommandBuffers", formatted!(info));
        new_handle(0xc, to)
    }
    PFN_vkBeginCommandBuffer vkBeginCommandBuffer(
        commands: Commands, info: *const vk::CommandBufferBeginInfo<'_>,
    ) -> vk::Result {
        record("vkBeginCommandBuffer", format!("{:#x}, {}", commands.as_raw(), formatted!(info)));
        vk::Result::SUCCESS
    }
    PFN_vkEndCommandBuffer vkEndCommandBuffer(commands: Commands) -> vk::Result {
        record("vkEndCommandBuffer", format!("{:#x}", commands.as_raw()));
        vk::Result::SUCCESS
    }
    PFN_vkResetFences vkResetFences(device: Device, count: u32, fences: *const vk::Fence) -> vk::Result {
        // SAFETY: the library passes an array of `count` elements.
        let fences: Vec<u64> = unsafe { elements(fences, count) }.iter().map(|fence| fence.as_raw()).collect();
        record("vkResetFences", format!("{fences:x?}"));
        vk::Result::SUCCESS
    }
    PFN_vkGetFenceStatus vkGetFenceStatus(device: Device, fence: vk::Fence) -> vk::Result {
        let status = settings().fence;
        if status != vk::Result::SUCCESS {
            record("vkGetFenceStatus", format!("{:#x}", fence.as_raw()));
        }
        status
    }
    PFN_vkWaitForFences vkWaitForFences(
        device: Device, count: u32, fences: *const vk::Fence, all: vk::Bool32, timeout: u64,
    ) -> vk::Result {
        // SAFETY: the library passes an array of `count` elements.
        let fences: Vec<u64> = unsafe { elements(fences, count) }.iter().map(|fence| fence.as_raw()).collect();
        record("vkWaitForFences", format!("{fences:x?}, all {all}, {timeout} ns"));
        settings().fence
    }
    PFN_vkQueueSubmit vkQueueSubmit(
        queue: vk::Queue, count: u32, infos: *const vk::SubmitInfo<'_>, fence: vk::Fence,
    ) -> vk::Result {
        let arguments = format!("{:#x}, {}, fence {:#x}", queue.as_raw(), formatted_all!(infos, count), fence.as_raw());
        record("vkQueueSubmit", arguments);
        submission();
        settings().submit
    }

    PFN_vkCmdPipelineBarrier vkCmdPipelineBarrier(
        commands: Commands,
        before: vk::PipelineStageFlags,
        after: vk::PipelineStageFlags,
        flags: vk::DependencyFlags,
        memory_count: u32,
        memory: *const vk::MemoryBarrier<'_>,
        buffer_count: u32,
        buffers: *const vk::BufferMemoryBarrier<'_>,
        image_count: u32,
        images: *const vk::ImageMemoryBarrier<'_>,
    ) -> () {
        let (before, after, flags) = (before.as_raw(), after.as_raw(), flags.as_raw());
        let memory = formatted_all!(memory, memory_count);
        let (buffers, images) = (formatted_all!(buffers, buffer_count), formatted_all!(images, image_count));
        let arguments = format!("stages {before:#x} to {after:#x}, flags {flags:#x}, [{memory}] [{buffers}] [{images}]");
        record("vkCmdPipelineBarrier", arguments);
    }
    PFN_vkCmdFillBuffer vkCmdFillBuffer(commands: Commands, buffer: vk::Buffer, offset: u64, size: u64, word: u32) -> () {
        record("vkCmdFillBuffer", format!("{:#x}, offset {offset}, size {size}, word {word:#x}", buffer.as_raw()));
    }
    PFN_vkCmdCopyBuffer vkCmdCopyBuffer(
        commands: Commands, from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const vk::BufferCopy,
    ) -> () {
        // SAFETY: the library passes an array of `count` elements.
        let regions = unsafe { elements(regions, count) };
        let text: Vec<_> = regions.iter().map(|region| (region.src_offset, region.dst_offset, region.size)).collect();
        record("vkCmdCopyBuffer", format!("{:#x} to {:#x}, {text:?}", from.as_raw(), to.as_raw()));
    }
    PFN_vkCmdCopyBufferToImage vkCmdCopyBufferToImage(
        commands: Commands,
        from: vk::Buffer,
        to: vk::Image,
        layout: vk::ImageLayout,
        count: u32,
        regions: *const vk::BufferImageCopy,
    ) -> () {
        // SAFETY: the library passes an array of `count` elements.
        let regions = results::regions(unsafe { elements(regions, count) });
        let arguments = format!("{:#x} to {:#x} in {}, {regions}", from.as_raw(), to.as_raw(), layout.as_raw());
        record("vkCmdCopyBufferToImage", arguments);
    }
    PFN_vkCmdCopyImageToBuffer vkCmdCopyImageToBuffer(
        commands: Commands,
        from: vk::Image,
        layout: vk::ImageLayout,
        to: vk::Buffer,
        count: u32,
        regions: *const vk::BufferImageCopy,
    ) -> () {
        // SAFETY: the library passes an array of `count` elements.
        let regions = results::regions(unsafe { elements(regions, count) });
        let arguments = format!("{:#x} in {} to {:#x}, {regions}", from.as_raw(), layout.as_raw(), to.as_raw());
        record("vkCmdCopyImageToBuffer", arguments);
    }
}
