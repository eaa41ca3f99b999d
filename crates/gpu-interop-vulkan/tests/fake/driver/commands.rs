//! Commands, submissions and fences.

use std::ffi::{CStr, c_void};

use ash::vk::{self, Handle};

use super::macros::{functions, shown, shown_all};
use super::{give, note};
use crate::answers;
use crate::show::elements;

type Commands = vk::CommandBuffer;
type Device = vk::Device;
type Allocator<'a> = *const vk::AllocationCallbacks<'a>;

functions! {
    PFN_vkCreateCommandPool vkCreateCommandPool(
        device: Device, info: *const vk::CommandPoolCreateInfo<'_>, allocator: Allocator<'_>, to: *mut vk::CommandPool,
    ) -> vk::Result {
        note("vkCreateCommandPool", shown!(info));
        give(0x9, to)
    }
    PFN_vkDestroyCommandPool vkDestroyCommandPool(device: Device, pool: vk::CommandPool, allocator: Allocator<'_>) -> () {
        note("vkDestroyCommandPool", format!("{:#x}", pool.as_raw()));
    }
    PFN_vkResetCommandPool vkResetCommandPool(
        device: Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags,
    ) -> vk::Result {
        note("vkResetCommandPool", format!("{:#x}, flags {:#x}", pool.as_raw(), flags.as_raw()));
        vk::Result::SUCCESS
    }
    PFN_vkAllocateCommandBuffers vkAllocateCommandBuffers(
        device: Device, info: *const vk::CommandBufferAllocateInfo<'_>, to: *mut Commands,
    ) -> vk::Result {
        note("vkAllocateCommandBuffers", shown!(info));
        give(0xc, to)
    }
    PFN_vkBeginCommandBuffer vkBeginCommandBuffer(
        commands: Commands, info: *const vk::CommandBufferBeginInfo<'_>,
    ) -> vk::Result {
        note("vkBeginCommandBuffer", format!("{:#x}, {}", commands.as_raw(), shown!(info)));
        vk::Result::SUCCESS
    }
    PFN_vkEndCommandBuffer vkEndCommandBuffer(commands: Commands) -> vk::Result {
        note("vkEndCommandBuffer", format!("{:#x}", commands.as_raw()));
        vk::Result::SUCCESS
    }
    PFN_vkCreateFence vkCreateFence(
        device: Device, info: *const vk::FenceCreateInfo<'_>, allocator: Allocator<'_>, to: *mut vk::Fence,
    ) -> vk::Result {
        note("vkCreateFence", shown!(info));
        give(0xf, to)
    }
    PFN_vkDestroyFence vkDestroyFence(device: Device, fence: vk::Fence, allocator: Allocator<'_>) -> () {
        note("vkDestroyFence", format!("{:#x}", fence.as_raw()));
    }
    PFN_vkResetFences vkResetFences(device: Device, count: u32, fences: *const vk::Fence) -> vk::Result {
        // SAFETY: the library's array.
        let fences: Vec<u64> = unsafe { elements(fences, count) }.iter().map(|fence| fence.as_raw()).collect();
        note("vkResetFences", format!("{fences:x?}"));
        vk::Result::SUCCESS
    }
    PFN_vkGetFenceStatus vkGetFenceStatus(device: Device, fence: vk::Fence) -> vk::Result {
        vk::Result::SUCCESS
    }
    PFN_vkWaitForFences vkWaitForFences(
        device: Device, count: u32, fences: *const vk::Fence, all: vk::Bool32, timeout: u64,
    ) -> vk::Result {
        // SAFETY: the library's array.
        let fences: Vec<u64> = unsafe { elements(fences, count) }.iter().map(|fence| fence.as_raw()).collect();
        note("vkWaitForFences", format!("{fences:x?}, all {all}, {timeout} ns"));
        vk::Result::SUCCESS
    }
    PFN_vkQueueSubmit vkQueueSubmit(
        queue: vk::Queue, count: u32, infos: *const vk::SubmitInfo<'_>, fence: vk::Fence,
    ) -> vk::Result {
        let with = format!("{:#x}, {}, fence {:#x}", queue.as_raw(), shown_all!(infos, count), fence.as_raw());
        note("vkQueueSubmit", with);
        vk::Result::SUCCESS
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
        let memory = shown_all!(memory, memory_count);
        let (buffers, images) = (shown_all!(buffers, buffer_count), shown_all!(images, image_count));
        let with = format!("stages {before:#x} to {after:#x}, flags {flags:#x}, [{memory}] [{buffers}] [{images}]");
        note("vkCmdPipelineBarrier", with);
    }
    PFN_vkCmdFillBuffer vkCmdFillBuffer(commands: Commands, buffer: vk::Buffer, offset: u64, size: u64, word: u32) -> () {
        note("vkCmdFillBuffer", format!("{:#x}, offset {offset}, size {size}, word {word:#x}", buffer.as_raw()));
    }
    PFN_vkCmdCopyBuffer vkCmdCopyBuffer(
        commands: Commands, from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const vk::BufferCopy,
    ) -> () {
        // SAFETY: the library's array.
        let regions = unsafe { elements(regions, count) };
        let text: Vec<_> = regions.iter().map(|region| (region.src_offset, region.dst_offset, region.size)).collect();
        note("vkCmdCopyBuffer", format!("{:#x} to {:#x}, {text:?}", from.as_raw(), to.as_raw()));
    }
    PFN_vkCmdCopyBufferToImage vkCmdCopyBufferToImage(
        commands: Commands,
        from: vk::Buffer,
        to: vk::Image,
        layout: vk::ImageLayout,
        count: u32,
        regions: *const vk::BufferImageCopy,
    ) -> () {
        // SAFETY: the library's array.
        let regions = answers::regions(unsafe { elements(regions, count) });
        let with = format!("{:#x} to {:#x} in {}, {regions}", from.as_raw(), to.as_raw(), layout.as_raw());
        note("vkCmdCopyBufferToImage", with);
    }
    PFN_vkCmdCopyImageToBuffer vkCmdCopyImageToBuffer(
        commands: Commands,
        from: vk::Image,
        layout: vk::ImageLayout,
        to: vk::Buffer,
        count: u32,
        regions: *const vk::BufferImageCopy,
    ) -> () {
        // SAFETY: the library's array.
        let regions = answers::regions(unsafe { elements(regions, count) });
        let with = format!("{:#x} in {} to {:#x}, {regions}", from.as_raw(), layout.as_raw(), to.as_raw());
        note("vkCmdCopyImageToBuffer", with);
    }
}
