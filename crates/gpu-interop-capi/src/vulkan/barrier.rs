//! Barriers that transfer ownership between Vulkan and the other side.

use std::ffi::c_void;

use gpu_interop::Result;
use gpu_interop::vulkan::OwnershipTransfer;
use gpu_interop::vulkan::ash::vk::{self, Handle as _};

use super::not_null;
use crate::call::call;
use crate::handle::{gpi_vulkan, gpi_vulkan_image};
use crate::object;
use crate::pointer;
use crate::status::gpi_status;

/// Vulkan's side of a transfer of ownership: the queue family and Vulkan's accesses.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_vulkan_transfer {
    /// The family of the queue that the command buffer is submitted to.
    pub queue_family: u32,
    /// `VkPipelineStageFlags` of the accesses before a release, or after an acquire. 0, with `access` of 0: all commands and
    /// all memory accesses, always correct and rarely slower.
    pub stages: u32,
    /// `VkAccessFlags` of the accesses before a release, or after an acquire. A release needs its writes only; reads may be
    /// named too, and add nothing.
    pub access: u32,
}

impl From<gpi_vulkan_transfer> for OwnershipTransfer {
    fn from(transfer: gpi_vulkan_transfer) -> Self {
        let all = Self::all(transfer.queue_family);
        if (transfer.stages, transfer.access) == (0, 0) {
            return all;
        }
        let stages = vk::PipelineStageFlags::from_raw(transfer.stages);
        Self { stages, access: vk::AccessFlags::from_raw(transfer.access), ..all }
    }
}

/// The command buffer and the transfer of a call.
///
/// # Safety
/// The requirement on pointers.
unsafe fn commands(
    operation: &'static str,
    commands: *mut c_void,
    transfer: *const gpi_vulkan_transfer,
) -> Result<(vk::CommandBuffer, OwnershipTransfer)> {
    // SAFETY: the caller's promise.
    let transfer = unsafe { pointer::read(operation, "transfer", transfer) }?;
    let commands = vk::CommandBuffer::from_raw(not_null(operation, "vk_command_buffer", commands)?);
    Ok((commands, transfer.into()))
}

fn nonzero(operation: &'static str, raw: u64) -> Result<u64> {
    match raw {
        0 => Err(gpu_interop::Error::invalid(operation, "the buffer or image is null")),
        _ => Ok(raw),
    }
}

/// Records the release of a whole `VkBuffer` to the other side: after Vulkan's last access, before the other side's first one.
/// Submit it with a signal that the other side waits for.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle, or a transfer that names no queue family or no stage; nothing is
/// recorded then.
///
/// # Safety
/// `vk_command_buffer` is of this device, recording, outside a render pass, and submitted to a queue of the transfer's family,
/// which owns the buffer. The buffer has sharing mode EXCLUSIVE and lives until the commands have completed. No other thread
/// records into the command buffer or its pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_record_buffer_release(
    vulkan: gpi_vulkan,
    vk_command_buffer: *mut c_void,
    vk_buffer: u64,
    transfer: *const gpi_vulkan_transfer,
) -> gpi_status {
    call("gpi_vulkan_record_buffer_release", |operation| {
        // SAFETY: the caller's promise.
        let (commands, from) = unsafe { commands(operation, vk_command_buffer, transfer) }?;
        let buffer = vk::Buffer::from_raw(nonzero(operation, vk_buffer)?);
        // SAFETY: the caller's promises.
        unsafe { object::get(operation, vulkan)?.record_buffer_release(commands, buffer, from) }
    })
}

/// Records the acquire of a whole `VkBuffer` from the other side: after the other side's last access, before Vulkan's first one.
/// Submit it with a wait for the other side's signal.
///
/// Errors: as `gpi_vulkan_record_buffer_release`.
///
/// # Safety
/// As for `gpi_vulkan_record_buffer_release`, except that the other side owns the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_record_buffer_acquire(
    vulkan: gpi_vulkan,
    vk_command_buffer: *mut c_void,
    vk_buffer: u64,
    transfer: *const gpi_vulkan_transfer,
) -> gpi_status {
    call("gpi_vulkan_record_buffer_acquire", |operation| {
        // SAFETY: the caller's promise.
        let (commands, to) = unsafe { commands(operation, vk_command_buffer, transfer) }?;
        let buffer = vk::Buffer::from_raw(nonzero(operation, vk_buffer)?);
        // SAFETY: the caller's promises.
        unsafe { object::get(operation, vulkan)?.record_buffer_acquire(commands, buffer, to) }
    })
}

/// Records the release of a whole colour image, which is in the `VkImageLayout` `layout`, to the other side, and its transition
/// to `VK_IMAGE_LAYOUT_GENERAL`.
///
/// Errors: as `gpi_vulkan_record_buffer_release`; also for a `layout` of `UNDEFINED`.
///
/// # Safety
/// As for `gpi_vulkan_record_buffer_release`; all of the image is in `layout` when the commands execute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_record_image_release(
    vulkan: gpi_vulkan,
    vk_command_buffer: *mut c_void,
    vk_image: u64,
    transfer: *const gpi_vulkan_transfer,
    layout: i32,
) -> gpi_status {
    call("gpi_vulkan_record_image_release", |operation| {
        // SAFETY: the caller's promise.
        let (commands, from) = unsafe { commands(operation, vk_command_buffer, transfer) }?;
        let image = vk::Image::from_raw(nonzero(operation, vk_image)?);
        let layout = vk::ImageLayout::from_raw(layout);
        // SAFETY: the caller's promises.
        unsafe { object::get(operation, vulkan)?.record_image_release(commands, image, from, layout) }
    })
}

/// Records the acquire of a whole colour image from the other side, and its transition from `VK_IMAGE_LAYOUT_GENERAL` to the
/// `VkImageLayout` `layout`.
///
/// Errors: as `gpi_vulkan_record_image_release`.
///
/// # Safety
/// As for `gpi_vulkan_record_buffer_acquire`; the other side leaves the image in GENERAL, as APIs without layouts do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_record_image_acquire(
    vulkan: gpi_vulkan,
    vk_command_buffer: *mut c_void,
    vk_image: u64,
    transfer: *const gpi_vulkan_transfer,
    layout: i32,
) -> gpi_status {
    call("gpi_vulkan_record_image_acquire", |operation| {
        // SAFETY: the caller's promise.
        let (commands, to) = unsafe { commands(operation, vk_command_buffer, transfer) }?;
        let image = vk::Image::from_raw(nonzero(operation, vk_image)?);
        let layout = vk::ImageLayout::from_raw(layout);
        // SAFETY: the caller's promises.
        unsafe { object::get(operation, vulkan)?.record_image_acquire(commands, image, to, layout) }
    })
}

/// Records the first use of a new image, or a reuse that discards its contents: the transition of all of it from UNDEFINED to
/// `VK_IMAGE_LAYOUT_GENERAL`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle.
///
/// # Safety
/// `vk_command_buffer` as for `gpi_vulkan_record_buffer_release`; the image is not destroyed, and not used otherwise, until the
/// commands have completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_vulkan_record_image_initialize(
    image: gpi_vulkan_image,
    vk_command_buffer: *mut c_void,
) -> gpi_status {
    call("gpi_vulkan_record_image_initialize", |operation| {
        let commands = not_null(operation, "vk_command_buffer", vk_command_buffer)?;
        let image = object::get(operation, image)?;
        // SAFETY: the caller's promises.
        unsafe { image.image().record_initialize(vk::CommandBuffer::from_raw(commands)) };
        Ok(())
    })
}
