//! Textures of wgpu on the dma-bufs of a picture, and semaphores of sync files.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use gpu_interop::format::{DmaBufPicture, DrmFourcc};
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    ImportedPicture, ImportedSemaphore, ModifierSupport, OwnedSemaphore, PictureOptions, Producer, SyncFileSemaphore,
};
use gpu_interop::{Error, ErrorKind, ImportError, Result};
use wgpu::hal::api::Vulkan;

use super::super::{VulkanDevice, image_usage, unstage, wgpu_texture, with_queue};
use super::changed;
use crate::format;

/// Vulkan's extensions for pictures.
const PICTURES: [&CStr; 2] = [vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME, vk::EXT_IMAGE_DRM_FORMAT_MODIFIER_NAME];

impl VulkanDevice {
    /// Fails for a device that was created without an extension that pictures need.
    fn check_pictures(&self, operation: &'static str, producer: Producer) -> Result<()> {
        let foreign = (producer == Producer::Foreign).then_some(vk::EXT_QUEUE_FAMILY_FOREIGN_NAME);
        let missing: Vec<_> = PICTURES.into_iter().chain(foreign).filter(|name| !self.has(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let lacks: Vec<_> = missing.iter().filter(|name| !self.interop.lists_extension(name)).collect();
        let message = match lacks.is_empty() {
            true => {
                "the wgpu device was created without a Vulkan extension for dma-bufs that its driver has; create it with \
                 gpu_interop_wgpu::request_device"
            }
            false if lacks.iter().all(|name| **name == vk::EXT_QUEUE_FAMILY_FOREIGN_NAME) => {
                "the Vulkan driver lacks an extension for dma-bufs of other drivers; import pictures of the same driver with \
                 ImportOptions::same_driver, and copy others through the CPU"
            }
            false => {
                "the Vulkan driver lacks an extension for dma-bufs; copy the picture through the CPU, or install a driver \
                 that has the extension"
            }
        };
        Err(Error::unsupported(operation, message)
            .with_device(self.identity())
            .with_context("missing", format_args!("{missing:?}"))
            .with_context("missing in the driver", format_args!("{lacks:?}")))
    }

    /// The modifiers with which the device imports pictures for a usage.
    pub(crate) fn picture_modifiers(
        &self,
        operation: &'static str,
        code: DrmFourcc,
        usage: wgpu::TextureUsages,
    ) -> Result<Vec<ModifierSupport>> {
        self.check_pictures(operation, Producer::SameDriver)?;
        self.interop.picture_modifiers(code, image_usage(usage))
    }

    /// Imports a picture. The caller has checked `desc` as wgpu does, and that it describes the picture.
    ///
    /// # Safety
    /// The dma-bufs contain the picture as described, and nothing changes their size while the texture lives.
    pub(crate) unsafe fn import_picture(
        &self,
        operation: &'static str,
        device: &wgpu::Device,
        picture: DmaBufPicture,
        desc: &wgpu::TextureDescriptor<'_>,
        producer: Producer,
    ) -> Result<(wgpu::Texture, ImportedPicture), ImportError<DmaBufPicture>> {
        let options = self.check_pictures(operation, producer).and_then(|()| {
            let format = format::row(operation, desc.format)?.vulkan;
            Ok(PictureOptions::new(image_usage(desc.usage)).format(format).producer(producer))
        });
        let options = match options {
            Ok(options) => options,
            Err(error) => return Err(ImportError::new(error, picture)),
        };
        // SAFETY: the guard destroys nothing.
        let Some(hal) = (unsafe { device.as_hal::<Vulkan>() }) else {
            return Err(ImportError::new(changed(operation), picture));
        };
        // SAFETY: the caller's promises; `check_pictures` has found the extension for foreign queue families.
        let imported = unsafe { ImportedPicture::new(&self.interop, picture, &options) }?;
        let image = imported.image();
        // SAFETY: the image is of this device and has the properties of `desc`: one level and layer, the size of the
        // picture, and no other view formats, as the caller has checked. It is acquired in `GENERAL` before wgpu uses it.
        let texture = unsafe { wgpu_texture(device, &hal, desc, image) };
        Ok((texture, imported))
    }

    /// A semaphore with the fence of a sync file. On failure the sync file is returned.
    pub(crate) fn sync_file_semaphore(&self, file: OwnedFd) -> Result<ImportedSemaphore, (Error, Option<OwnedFd>)> {
        ImportedSemaphore::from_sync_file(&self.interop, Some(file)).map_err(ImportError::into_parts)
    }

    /// The fence of everything that was submitted to wgpu's queue so far.
    pub(crate) fn export_sync_file(&self, operation: &'static str, queue: &wgpu::Queue) -> Result<Option<OwnedFd>> {
        let done = SyncFileSemaphore::new(&self.interop)?;
        let semaphore = done.semaphore();
        // As `VulkanDevice::signal`: staged behind the work that it announces, so any submission may take it.
        with_queue(queue, |queue| queue.add_signal_semaphore(semaphore.as_raw(), None))?;
        queue.submit([]);
        if with_queue(queue, |queue| queue.remove_signal_semaphore(semaphore.as_raw()))? {
            let message = "wgpu submits nothing any more; its device is lost or destroyed";
            return Err(Error::new(ErrorKind::DeviceLost, operation, message).with_device(self.identity()));
        }
        // SAFETY: the signal was submitted, and no wait for it.
        unsafe { semaphore.assume_signalled() };
        // SAFETY: wgpu's queue waits for submitted signals only: those of its own submissions, and those that
        // `TimelineInner::stage_wait` and `StagedWaits` waited for or found submitted.
        let exported = unsafe { done.export() };
        // The submission uses the semaphore.
        queue.on_submitted_work_done(move || drop(done));
        exported
    }
}

/// Waits of wgpu's next submission for binary semaphores. The drop removes those that no submission took, and destroys
/// the semaphores once the submissions so far have completed.
#[derive(Debug)]
pub(crate) struct StagedWaits {
    queue: wgpu::Queue,
    semaphores: Vec<ImportedSemaphore>,
}

impl StagedWaits {
    pub(crate) fn new(queue: &wgpu::Queue) -> Self {
        Self { queue: queue.clone(), semaphores: Vec::new() }
    }

    /// Makes wgpu's next submission, from any thread, and all later ones wait.
    pub(crate) fn add(&mut self, semaphore: ImportedSemaphore) -> Result<()> {
        let raw = OwnedSemaphore::as_raw(semaphore.semaphore());
        self.semaphores.push(semaphore);
        with_queue(&self.queue, |queue| {
            queue.add_wait_semaphore(raw, None, vk::PipelineStageFlags::ALL_COMMANDS);
        })
    }
}

impl Drop for StagedWaits {
    fn drop(&mut self) {
        let semaphores = std::mem::take(&mut self.semaphores);
        if semaphores.is_empty() {
            return;
        }
        semaphores.iter().for_each(|semaphore| unstage(&self.queue, semaphore.semaphore()));
        self.queue.on_submitted_work_done(move || drop(semaphores));
    }
}
