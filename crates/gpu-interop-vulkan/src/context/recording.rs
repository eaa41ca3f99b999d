//! Recording of commands by a context.

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::submission::Flight;
use crate::buffer::OwnedBuffer;
use crate::interop::VulkanInterop;
use crate::ownership::OwnershipTransfer;
use crate::tracking::Command;

/// Commands being recorded for one submission. The objects that they use are kept alive until they have run.
///
/// Each command sees the writes of the ones before it, in this and in earlier submissions to the same context.
#[derive(Debug)]
pub struct Recording<'a> {
    pub(super) interop: &'a VulkanInterop,
    pub(super) queue_family: u32,
    pub(super) flight: &'a mut Flight,
}

impl<'a> Recording<'a> {
    pub(super) fn new(interop: &'a VulkanInterop, queue_family: u32, flight: &'a mut Flight) -> Self {
        Self { interop, queue_family, flight }
    }

    /// The command buffer, in the recording state, for the caller's own commands. The caller must keep their objects
    /// alive, or pass them to [`keep`](Self::keep).
    #[must_use]
    pub fn as_raw(&self) -> vk::CommandBuffer {
        self.flight.commands
    }

    /// Keeps a buffer alive until the commands have run.
    pub fn keep(&mut self, buffer: &OwnedBuffer) {
        self.flight.keep(buffer);
    }

    /// Fills `size` bytes starting at byte `offset` with a word. Records `vkCmdFillBuffer`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if offset or size are not multiples
    /// of 4, the range is empty or exceeds the buffer, the buffer lacks `TRANSFER_DST` or is of another device, or the
    /// other API owns it: it was imported or released, and not acquired since.
    #[doc(alias = "vkCmdFillBuffer")]
    pub fn fill(&mut self, buffer: &OwnedBuffer, offset: u64, size: u64, word: u32) -> Result<()> {
        const OPERATION: &str = "Recording::fill";
        self.check(OPERATION, buffer, vk::BufferUsageFlags::TRANSFER_DST, offset, size)?;
        if !(offset.is_multiple_of(4) && size.is_multiple_of(4)) {
            return Err(Error::invalid(OPERATION, "offset and size must be multiples of 4 bytes")
                .with_context("offset", offset)
                .with_context("size", size));
        }
        self.use_buffer(OPERATION, buffer)?;
        self.order();
        // SAFETY: recording, outside a render pass; the buffer is live, kept, of this device and usable as a
        // destination; the range is inside it and aligned.
        unsafe { self.interop.device().cmd_fill_buffer(self.as_raw(), buffer.as_raw(), offset, size, word) };
        Ok(())
    }

    /// Copies `size` bytes. Records `vkCmdCopyBuffer`. If both buffers are bound to the same memory, as an export and
    /// its import are, and the ranges overlap there, the result is undefined.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if a range is empty or exceeds its
    /// buffer, the ranges overlap in one buffer, or a buffer lacks `TRANSFER_SRC` or `TRANSFER_DST`, is of another
    /// device, or is owned by the other API: it was imported or released, and not acquired since.
    #[doc(alias = "vkCmdCopyBuffer")]
    pub fn copy(
        &mut self,
        src: &OwnedBuffer,
        src_offset: u64,
        dst: &OwnedBuffer,
        dst_offset: u64,
        size: u64,
    ) -> Result<()> {
        const OPERATION: &str = "Recording::copy";
        self.check(OPERATION, src, vk::BufferUsageFlags::TRANSFER_SRC, src_offset, size)?;
        self.check(OPERATION, dst, vk::BufferUsageFlags::TRANSFER_DST, dst_offset, size)?;
        if src.as_raw() == dst.as_raw() && src_offset.abs_diff(dst_offset) < size {
            return Err(Error::invalid(OPERATION, "the ranges overlap")
                .with_context("from", src_offset)
                .with_context("to", dst_offset)
                .with_context("size", size));
        }
        self.use_buffer(OPERATION, src)?;
        self.use_buffer(OPERATION, dst)?;
        self.order();
        let region = vk::BufferCopy { src_offset, dst_offset, size };
        // SAFETY: recording, outside a render pass; both buffers are live, kept, of this device and created for this
        // use; the ranges are inside and do not overlap.
        unsafe { self.interop.device().cmd_copy_buffer(self.as_raw(), src.as_raw(), dst.as_raw(), &[region]) };
        Ok(())
    }

    /// Releases the buffer to the other API; see [`OwnershipTransfer`]. Records `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is of another device,
    /// is not shared, or is already owned by the other API.
    #[doc(alias = "vkCmdPipelineBarrier")]
    pub fn release(&mut self, buffer: &OwnedBuffer) -> Result<()> {
        self.move_buffer("Recording::release", buffer, Command::Release)?;
        // SAFETY: recording, outside a render pass; the buffer is live, kept and of this device. This family owns it:
        // either no other family has a queue of the device, or the caller of `HeadlessContext::on_queue` guarantees it.
        unsafe { buffer.record_release(self.as_raw(), OwnershipTransfer::all(self.queue_family)) }
    }

    /// Acquires the buffer from the other API, which has released it; see [`OwnershipTransfer`]. Records
    /// `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the buffer is of another device,
    /// is not shared, or is already owned by this device: it was exported and never released, or acquired and not
    /// released since.
    #[doc(alias = "vkCmdPipelineBarrier")]
    pub fn acquire(&mut self, buffer: &OwnedBuffer) -> Result<()> {
        self.move_buffer("Recording::acquire", buffer, Command::Acquire)?;
        // SAFETY: recording, outside a render pass; the buffer is live, kept and of this device, and the queue of this
        // family. The other API owns the buffer: it was imported or released.
        unsafe { buffer.record_acquire(self.as_raw(), OwnershipTransfer::all(self.queue_family)) }
    }

    /// Makes all earlier writes visible to the host. Recorded last.
    pub(super) fn make_visible_to_host(&mut self) {
        self.barrier(vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ | vk::AccessFlags::HOST_WRITE);
    }

    /// Orders the next copy or fill after all earlier commands.
    pub(super) fn order(&mut self) {
        self.barrier(
            vk::PipelineStageFlags::TRANSFER,
            vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE,
        );
    }

    fn barrier(&mut self, stages: vk::PipelineStageFlags, access: vk::AccessFlags) {
        let barrier =
            vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::MEMORY_WRITE).dst_access_mask(access);
        // SAFETY: recording, outside a render pass; the stages and accesses exist on every kind of queue.
        unsafe {
            self.interop.device().cmd_pipeline_barrier(
                self.as_raw(),
                vk::PipelineStageFlags::ALL_COMMANDS,
                stages,
                vk::DependencyFlags::empty(),
                &[barrier],
                &[],
                &[],
            );
        }
    }

    /// Keeps a buffer of this device alive that the next command reads or writes. Fails if the other API owns it.
    pub(super) fn use_buffer(&mut self, operation: &'static str, buffer: &OwnedBuffer) -> Result<()> {
        if let Some(ownership) = buffer.ownership() {
            self.flight.uses(operation, ownership, Command::Use)?;
        }
        self.keep(buffer);
        Ok(())
    }

    /// Keeps a buffer alive whose owner the next command changes. Fails unless it is of this device, shared, and in a
    /// valid state for the command.
    fn move_buffer(&mut self, operation: &'static str, buffer: &OwnedBuffer, command: Command) -> Result<()> {
        self.check_device(operation, buffer)?;
        let Some(ownership) = buffer.ownership() else {
            return Err(Error::invalid(
                operation,
                "the buffer is not shared, so it has no other owner; create it with ExportableBuffer::new or \
                 ImportedBuffer::new",
            ));
        };
        self.flight.uses(operation, ownership, command)?;
        self.keep(buffer);
        Ok(())
    }

    fn check_device(&self, operation: &'static str, buffer: &OwnedBuffer) -> Result<()> {
        if buffer.interop().is_same_device(self.interop) {
            return Ok(());
        }
        Err(Error::invalid(operation, "the buffer belongs to another device"))
    }

    pub(super) fn check(
        &self,
        operation: &'static str,
        buffer: &OwnedBuffer,
        usage: vk::BufferUsageFlags,
        offset: u64,
        size: u64,
    ) -> Result<()> {
        self.check_device(operation, buffer)?;
        let inside = size > 0 && offset.checked_add(size).is_some_and(|end| end <= buffer.size());
        if !inside {
            return Err(Error::invalid(operation, "the range is empty or goes past the end of the buffer")
                .with_context("offset", offset)
                .with_context("length", size)
                .with_context("size", format_args!("{} bytes", buffer.size())));
        }
        if !buffer.usage().contains(usage) {
            return Err(Error::invalid(operation, format!("the buffer was not created for {usage:?}")));
        }
        Ok(())
    }
}
