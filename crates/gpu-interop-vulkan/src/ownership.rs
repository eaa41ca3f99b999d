//! Ownership transfers of buffers and images between Vulkan and other APIs.

use ash::vk;
use gpu_interop_core::{Error, Result};

use crate::buffer::OwnedBuffer;
use crate::image::OwnedImage;
use crate::interop::VulkanInterop;

/// Vulkan's side of an ownership transfer to or from another API: queue family, stages and accesses.
///
/// A buffer or image with sharing mode `EXCLUSIVE` (this crate creates no other) belongs to one queue family, or to
/// `VK_QUEUE_FAMILY_EXTERNAL`: all queues outside of this `VkInstance` of the same device and driver. An `ImportedPicture` (Unix)
/// belongs to `VK_QUEUE_FAMILY_FOREIGN_EXT` instead, if another device or driver produces it. In the specification's terms:
///
/// * **Release** after the last Vulkan access and before the other API's first one, if the other API is to see Vulkan's
///   writes.
/// * **Acquire** before the first Vulkan access after the other API's last one, if Vulkan is to see the other API's
///   writes. Vulkan does not require it before an access that overwrites all of a buffer; the old contents are then
///   undefined. [`HeadlessContext`](crate::HeadlessContext) requires it even then.
/// * For data that the exporter wrote before the import: the exporter releases before the import's first read, and an
///   importer with Vulkan acquires.
///
/// A release or an acquire orders memory, not execution: the other side must also wait, for a semaphore that the
/// releasing submission signals or for its fence.
#[doc(alias("vkCmdPipelineBarrier", "VkBufferMemoryBarrier", "VkImageMemoryBarrier", "VK_QUEUE_FAMILY_EXTERNAL"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnershipTransfer {
    /// The family of the queue that the command buffer is submitted to; `VK_QUEUE_FAMILY_IGNORED` for a buffer or image of
    /// the application with sharing mode `CONCURRENT`.
    pub queue_family: u32,
    /// The stages of the accesses before the release, or after the acquire.
    pub stages: vk::PipelineStageFlags,
    /// The accesses: writes before a release, any accesses after an acquire.
    pub access: vk::AccessFlags,
}

impl OwnershipTransfer {
    /// All memory accesses of all commands on a queue of this family: always correct, rarely slower.
    #[must_use]
    pub fn all(queue_family: u32) -> Self {
        Self {
            queue_family,
            stages: vk::PipelineStageFlags::ALL_COMMANDS,
            access: vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE,
        }
    }

    /// The barrier that releases to `VK_QUEUE_FAMILY_EXTERNAL`.
    fn release(self, operation: &'static str, sharing: Sharing) -> Result<Barrier> {
        self.release_to(operation, sharing, vk::QUEUE_FAMILY_EXTERNAL)
    }

    fn release_to(self, operation: &'static str, sharing: Sharing, other: u32) -> Result<Barrier> {
        self.check(operation, sharing)?;
        Ok(Barrier {
            stages: [self.stages, vk::PipelineStageFlags::BOTTOM_OF_PIPE],
            families: [self.queue_family, other],
            access: [self.access, vk::AccessFlags::empty()],
        })
    }

    /// The barrier that acquires from `VK_QUEUE_FAMILY_EXTERNAL`.
    fn acquire(self, operation: &'static str, sharing: Sharing) -> Result<Barrier> {
        self.acquire_from(operation, sharing, vk::QUEUE_FAMILY_EXTERNAL)
    }

    fn acquire_from(self, operation: &'static str, sharing: Sharing, other: u32) -> Result<Barrier> {
        self.check(operation, sharing)?;
        Ok(Barrier {
            stages: [vk::PipelineStageFlags::ALL_COMMANDS, self.stages],
            families: [other, self.queue_family],
            access: [vk::AccessFlags::empty(), self.access],
        })
    }

    fn check(self, operation: &'static str, sharing: Sharing) -> Result<()> {
        let message = match (self.queue_family, sharing) {
            (vk::QUEUE_FAMILY_EXTERNAL | vk::QUEUE_FAMILY_FOREIGN_EXT, _) => {
                Some("the queue family must be the family of the submission's queue")
            }
            (vk::QUEUE_FAMILY_IGNORED, Sharing::Exclusive) => {
                Some("the sharing mode is EXCLUSIVE, so the queue family must be the family of the submission's queue")
            }
            _ => None,
        };
        if let Some(message) = message {
            return Err(Error::invalid(operation, message).with_context("queue family", self.queue_family));
        }
        if self.stages.is_empty() {
            return Err(Error::invalid(operation, "the transfer has no pipeline stage; set at least one"));
        }
        Ok(())
    }
}

/// Sharing mode of an object of the transfer.
#[derive(Debug, Clone, Copy)]
enum Sharing {
    /// Of objects that this crate created.
    Exclusive,
    /// Of objects of the application, which knows it.
    Unknown,
}

/// Parameters of a barrier on a whole object, each as `[source, destination]`.
struct Barrier {
    stages: [vk::PipelineStageFlags; 2],
    families: [u32; 2],
    access: [vk::AccessFlags; 2],
}

impl OwnedBuffer {
    /// Records the release of the whole buffer to `VK_QUEUE_FAMILY_EXTERNAL`: a buffer memory barrier of
    /// `vkCmdPipelineBarrier`. Writes of `from.access` become available to the acquiring side.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if `from` names no real queue
    /// family or no stage; nothing is recorded then.
    ///
    /// # Safety
    /// `commands` must belong to this buffer's device, be in the recording state and outside a render pass, be
    /// submitted to a queue of `from.queue_family`, which owns the buffer, and complete while a clone of this buffer
    /// lives. No other thread may record into it or its pool at the same time.
    pub unsafe fn record_release(&self, commands: vk::CommandBuffer, from: OwnershipTransfer) -> Result<()> {
        let barrier = from.release("OwnedBuffer::record_release", Sharing::Exclusive)?;
        // SAFETY: the caller's promises; the buffer is live and owned by the source family.
        unsafe { record_buffer(self.interop(), commands, self.as_raw(), barrier) };
        Ok(())
    }

    /// Records the acquire of the whole buffer from `VK_QUEUE_FAMILY_EXTERNAL`: a buffer memory barrier of
    /// `vkCmdPipelineBarrier`. The other side's writes become visible to `to.access` in later commands. The barrier
    /// executes after every semaphore wait of its submission, whatever stage the wait names.
    ///
    /// # Errors
    /// As [`record_release`](Self::record_release).
    ///
    /// # Safety
    /// As [`record_release`](Self::record_release), except that the other side owns the buffer and releases it before
    /// the commands execute.
    pub unsafe fn record_acquire(&self, commands: vk::CommandBuffer, to: OwnershipTransfer) -> Result<()> {
        let barrier = to.acquire("OwnedBuffer::record_acquire", Sharing::Exclusive)?;
        // SAFETY: the caller's promises; the buffer is live.
        unsafe { record_buffer(self.interop(), commands, self.as_raw(), barrier) };
        Ok(())
    }
}

impl OwnedImage {
    /// Records the first use of a new image by its exporter, or a reuse that discards the contents: the transition of
    /// all of it from `VK_IMAGE_LAYOUT_UNDEFINED` to `GENERAL`, an image memory barrier of `vkCmdPipelineBarrier`. The
    /// contents are undefined afterwards. The barrier orders earlier and later commands on the queue.
    ///
    /// # Safety
    /// `commands` must belong to this image's device, be in the recording state and outside a render pass, and complete
    /// while a clone of this image lives. No other thread may record into it or its pool at the same time, and nothing
    /// may use the image until the commands have completed.
    pub unsafe fn record_initialize(&self, commands: vk::CommandBuffer) {
        let barrier = Barrier {
            stages: [vk::PipelineStageFlags::ALL_COMMANDS; 2],
            families: [vk::QUEUE_FAMILY_IGNORED; 2],
            // The transition is a write, ordered after the queue's earlier writes to an image that was used before.
            access: [vk::AccessFlags::MEMORY_WRITE, vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE],
        };
        // SAFETY: the caller's promises; the image is live.
        unsafe {
            record_image(
                self.interop(),
                commands,
                self.as_raw(),
                barrier,
                [vk::ImageLayout::UNDEFINED, vk::ImageLayout::GENERAL],
            )
        };
    }

    /// Records the release of the whole image to `VK_QUEUE_FAMILY_EXTERNAL`, or `VK_QUEUE_FAMILY_FOREIGN_EXT` for a picture
    /// of another device or driver, and its transition from `layout` to
    /// `VK_IMAGE_LAYOUT_GENERAL`, the layout in which other APIs access it: an image memory barrier of
    /// `vkCmdPipelineBarrier`. Writes of `from.access` become available to the acquiring side.
    ///
    /// If the other side is Vulkan, both sides must name the same transition: bring the image to `GENERAL` first, and
    /// pass `GENERAL` as `layout`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if `from` names no real queue
    /// family or no stage, or `layout` is `UNDEFINED` or `PREINITIALIZED`; nothing is recorded then.
    ///
    /// # Safety
    /// As [`OwnedBuffer::record_release`], and all of the image must be in `layout` when the commands execute.
    pub unsafe fn record_release(
        &self,
        commands: vk::CommandBuffer,
        from: OwnershipTransfer,
        layout: vk::ImageLayout,
    ) -> Result<()> {
        const OPERATION: &str = "OwnedImage::record_release";
        let barrier = from.release_to(OPERATION, Sharing::Exclusive, self.other_family())?;
        check_layout(OPERATION, layout)?;
        // SAFETY: the caller's promises; the image is live and owned by the source family.
        unsafe { record_image(self.interop(), commands, self.as_raw(), barrier, [layout, vk::ImageLayout::GENERAL]) };
        Ok(())
    }

    /// Records the acquire of the whole image from `VK_QUEUE_FAMILY_EXTERNAL`, or `VK_QUEUE_FAMILY_FOREIGN_EXT` for a picture
    /// of another device or driver, and its transition from
    /// `VK_IMAGE_LAYOUT_GENERAL` to `layout`: an image memory barrier of `vkCmdPipelineBarrier`. The other side's
    /// writes become visible to `to.access` in later commands. The barrier executes after every semaphore wait of its
    /// submission, whatever stage the wait names.
    ///
    /// If the other side is Vulkan, `layout` must be `GENERAL`; see [`record_release`](Self::record_release).
    ///
    /// # Errors
    /// As [`record_release`](Self::record_release).
    ///
    /// # Safety
    /// As [`OwnedBuffer::record_acquire`], and the other side must leave the image in `GENERAL`, as APIs without
    /// layouts do.
    pub unsafe fn record_acquire(
        &self,
        commands: vk::CommandBuffer,
        to: OwnershipTransfer,
        layout: vk::ImageLayout,
    ) -> Result<()> {
        const OPERATION: &str = "OwnedImage::record_acquire";
        let barrier = to.acquire_from(OPERATION, Sharing::Exclusive, self.other_family())?;
        check_layout(OPERATION, layout)?;
        // SAFETY: the caller's promises; the image is live.
        unsafe { record_image(self.interop(), commands, self.as_raw(), barrier, [vk::ImageLayout::GENERAL, layout]) };
        Ok(())
    }
}

/// Ownership transfers of buffers and images that the application created itself.
impl VulkanInterop {
    /// Records the release of a whole buffer to `VK_QUEUE_FAMILY_EXTERNAL`, as [`OwnedBuffer::record_release`].
    ///
    /// # Errors
    /// As [`OwnedBuffer::record_release`].
    ///
    /// # Safety
    /// As [`OwnedBuffer::record_release`]; the buffer must be live until the commands have completed. `from.queue_family` is
    /// `VK_QUEUE_FAMILY_IGNORED` exactly if its sharing mode is `CONCURRENT`.
    pub unsafe fn record_buffer_release(
        &self,
        commands: vk::CommandBuffer,
        buffer: vk::Buffer,
        from: OwnershipTransfer,
    ) -> Result<()> {
        let barrier = from.release("VulkanInterop::record_buffer_release", Sharing::Unknown)?;
        // SAFETY: the caller's promises.
        unsafe { record_buffer(self, commands, buffer, barrier) };
        Ok(())
    }

    /// Records the acquire of a whole buffer from `VK_QUEUE_FAMILY_EXTERNAL`, as [`OwnedBuffer::record_acquire`].
    ///
    /// # Errors
    /// As [`OwnedBuffer::record_acquire`].
    ///
    /// # Safety
    /// As [`record_buffer_release`](Self::record_buffer_release), except that the other side owns the buffer and
    /// releases it before the commands execute.
    pub unsafe fn record_buffer_acquire(
        &self,
        commands: vk::CommandBuffer,
        buffer: vk::Buffer,
        to: OwnershipTransfer,
    ) -> Result<()> {
        let barrier = to.acquire("VulkanInterop::record_buffer_acquire", Sharing::Unknown)?;
        // SAFETY: the caller's promises.
        unsafe { record_buffer(self, commands, buffer, barrier) };
        Ok(())
    }

    /// Records the release of a whole colour image to `VK_QUEUE_FAMILY_EXTERNAL` and its transition from `layout` to
    /// `VK_IMAGE_LAYOUT_GENERAL`, as [`OwnedImage::record_release`].
    ///
    /// # Errors
    /// As [`OwnedImage::record_release`].
    ///
    /// # Safety
    /// As [`OwnedImage::record_release`]; the image must be live until the commands have completed, and have a colour
    /// format. `from.queue_family` is `VK_QUEUE_FAMILY_IGNORED` exactly if its sharing mode is `CONCURRENT`.
    pub unsafe fn record_image_release(
        &self,
        commands: vk::CommandBuffer,
        image: vk::Image,
        from: OwnershipTransfer,
        layout: vk::ImageLayout,
    ) -> Result<()> {
        const OPERATION: &str = "VulkanInterop::record_image_release";
        let barrier = from.release(OPERATION, Sharing::Unknown)?;
        check_layout(OPERATION, layout)?;
        // SAFETY: the caller's promises.
        unsafe { record_image(self, commands, image, barrier, [layout, vk::ImageLayout::GENERAL]) };
        Ok(())
    }

    /// Records the acquire of a whole colour image from `VK_QUEUE_FAMILY_EXTERNAL` and its transition from
    /// `VK_IMAGE_LAYOUT_GENERAL` to `layout`, as [`OwnedImage::record_acquire`].
    ///
    /// # Errors
    /// As [`OwnedImage::record_acquire`].
    ///
    /// # Safety
    /// As [`record_image_release`](Self::record_image_release), except that the other side owns the image, leaves it in
    /// `GENERAL`, and releases it before the commands execute.
    pub unsafe fn record_image_acquire(
        &self,
        commands: vk::CommandBuffer,
        image: vk::Image,
        to: OwnershipTransfer,
        layout: vk::ImageLayout,
    ) -> Result<()> {
        const OPERATION: &str = "VulkanInterop::record_image_acquire";
        let barrier = to.acquire(OPERATION, Sharing::Unknown)?;
        check_layout(OPERATION, layout)?;
        // SAFETY: the caller's promises.
        unsafe { record_image(self, commands, image, barrier, [vk::ImageLayout::GENERAL, layout]) };
        Ok(())
    }
}

/// # Safety
/// As [`OwnedBuffer::record_release`], with the owner and the family of `barrier`.
unsafe fn record_buffer(interop: &VulkanInterop, commands: vk::CommandBuffer, buffer: vk::Buffer, barrier: Barrier) {
    let buffers = [vk::BufferMemoryBarrier::default()
        .buffer(buffer)
        .offset(0)
        .size(vk::WHOLE_SIZE)
        .src_queue_family_index(barrier.families[0])
        .dst_queue_family_index(barrier.families[1])
        .src_access_mask(barrier.access[0])
        .dst_access_mask(barrier.access[1])];
    // SAFETY: the caller's promises.
    unsafe { record(interop, commands, barrier.stages, &buffers, &[]) };
}

/// # Safety
/// As [`OwnedImage::record_release`], with the owner and the family of `barrier`, and all of the image in the layout
/// `old`.
unsafe fn record_image(
    interop: &VulkanInterop,
    commands: vk::CommandBuffer,
    image: vk::Image,
    barrier: Barrier,
    [old, new]: [vk::ImageLayout; 2],
) {
    let range = vk::ImageSubresourceRange::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .level_count(vk::REMAINING_MIP_LEVELS)
        .layer_count(vk::REMAINING_ARRAY_LAYERS);
    let images = [vk::ImageMemoryBarrier::default()
        .image(image)
        .subresource_range(range)
        .old_layout(old)
        .new_layout(new)
        .src_queue_family_index(barrier.families[0])
        .dst_queue_family_index(barrier.families[1])
        .src_access_mask(barrier.access[0])
        .dst_access_mask(barrier.access[1])];
    // SAFETY: the caller's promises.
    unsafe { record(interop, commands, barrier.stages, &[], &images) };
}

fn check_layout(operation: &'static str, layout: vk::ImageLayout) -> Result<()> {
    if matches!(layout, vk::ImageLayout::UNDEFINED | vk::ImageLayout::PREINITIALIZED) {
        return Err(Error::invalid(
            operation,
            "the layout must not be UNDEFINED or PREINITIALIZED; pass the image's current layout to a release, and that of its \
             next use to an acquire",
        )
        .with_context("layout", format_args!("{layout:?}")));
    }
    Ok(())
}

/// Records barriers from the first of these stages to the second.
///
/// # Safety
/// As [`OwnedBuffer::record_release`], for each of the barriers' objects.
unsafe fn record(
    interop: &VulkanInterop,
    commands: vk::CommandBuffer,
    [before, after]: [vk::PipelineStageFlags; 2],
    buffers: &[vk::BufferMemoryBarrier<'_>],
    images: &[vk::ImageMemoryBarrier<'_>],
) {
    let flags = vk::DependencyFlags::empty();
    // SAFETY: the caller's promises.
    unsafe { interop.device().cmd_pipeline_barrier(commands, before, after, flags, &[], buffers, images) };
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn transfers_need_a_queue_family_and_a_stage() {
        let (external, ignored) = (vk::QUEUE_FAMILY_EXTERNAL, vk::QUEUE_FAMILY_IGNORED);
        assert!(OwnershipTransfer::all(0).check("op", Sharing::Exclusive).is_ok());
        assert!(OwnershipTransfer::all(ignored).check("op", Sharing::Unknown).is_ok());
        let foreign = vk::QUEUE_FAMILY_FOREIGN_EXT;
        for (family, sharing) in [
            (external, Sharing::Exclusive),
            (external, Sharing::Unknown),
            (foreign, Sharing::Unknown),
            (ignored, Sharing::Exclusive),
        ] {
            let error = OwnershipTransfer::all(family).check("op", sharing).expect_err("not a queue family");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{family:#x} {sharing:?}");
        }
        let no_stage = OwnershipTransfer { stages: vk::PipelineStageFlags::empty(), ..OwnershipTransfer::all(0) };
        assert!(no_stage.check("op", Sharing::Unknown).is_err());
    }
}
