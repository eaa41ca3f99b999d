//! Calls in a process that was forked after the first use of the driver.

#![cfg(target_os = "linux")]

use std::time::Duration;

use ash::vk::{self, Handle};
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop_core::{
    ErrorKind, ExporterTimeline, MemoryHandle, MemoryHandleKind, Result, SemaphoreHandle, SemaphoreHandleKind,
    VideoFormat,
};
use gpu_interop_test_support::request::{memory_request, semaphore_request};
use gpu_interop_vulkan::{
    BufferImportOptions, BufferOptions, DrmDevice, ExportableBuffer, ExportableImage, ExportableSemaphore,
    ExportableVideo, HeadlessContext, HeadlessOptions, ImageImportOptions, ImageOptions, ImageSpec, ImportedBuffer,
    ImportedImage, ImportedPicture, ImportedSemaphore, MemoryPlacement, OwnedBuffer, OwnedSemaphore, PictureOptions,
    PlaneStorage, RawMemory, SyncFileSemaphore, VideoOptions, VideoSpec, VulkanInterop,
};

use crate::driver::{Settings, calls, context, file, start, try_start};

fn import_picture(interop: &VulkanInterop, usage: vk::ImageUsageFlags) -> Result<()> {
    let plane = || DmaBufPlane::new(file(8192), 0, 64);
    let picture =
        DmaBufPicture::new(DrmFourcc::from_code("NV12"), DrmModifier::LINEAR, [16, 8], vec![plane(), plane()]);
    // SAFETY: the fake driver only records the calls.
    let imported = unsafe { ImportedPicture::new(interop, picture, &PictureOptions::new(usage)) };
    imported.map(drop).map_err(|failure| failure.into_parts().0)
}

/// Each call that needs the driver.
#[test]
fn calls_in_a_forked_process_call_no_driver() {
    type Call<'a> = (&'a str, Box<dyn Fn() -> Result<()> + 'a>);

    let interop = start(Settings { modifiers: true, ..Settings::default() });
    let context = context(&interop);
    let usage = vk::BufferUsageFlags::TRANSFER_DST;
    let exportable = ExportableBuffer::new(&interop, &BufferOptions::new(64, usage)).expect("a buffer");
    let spec =
        ImageSpec::new(vk::ImageViewType::TYPE_2D, [4, 4, 1], vk::Format::R8_UNORM, vk::ImageUsageFlags::SAMPLED);
    let image =
        ExportableImage::new(&interop, &ImageOptions::new(spec.tiling(vk::ImageTiling::LINEAR))).expect("an image");
    let timeline = ExportableSemaphore::timeline(&interop, 0).expect("a semaphore");
    let submission = context.submit(&[], &[], |_| Ok(())).expect("submitted");
    let (kind, fd) = (MemoryHandleKind::OpaqueFd, SemaphoreHandleKind::OpaqueFd);
    let raw = RawMemory::new(vk::DeviceMemory::from_raw(0xd9), 64);
    let picture = VideoOptions::new(VideoSpec::new(VideoFormat::Nv12, [16, 8], vk::ImageUsageFlags::SAMPLED));
    let joint = VideoOptions::new(picture.video.storage(PlaneStorage::Joint));
    let usage_of_picture = vk::ImageUsageFlags::SAMPLED;
    let calls_of_the_driver: Vec<Call<'_>> = vec![
        ("HeadlessContext::new", Box::new(|| HeadlessContext::new(&HeadlessOptions::default()).map(drop))),
        ("HeadlessContext::devices", Box::new(|| HeadlessContext::devices().map(drop))),
        ("VulkanInterop::new", Box::new(|| try_start(Settings::default()).map(drop))),
        ("submit", Box::new(|| context.submit(&[], &[], |_| Ok(())).map(drop))),
        ("Submission::wait", Box::new(|| submission.wait(Duration::ZERO))),
        ("buffer_features", Box::new(|| interop.buffer_features(kind, usage).map(drop))),
        ("image_features", Box::new(|| interop.image_features(kind, &spec.query()).map(drop))),
        ("semaphore_features", Box::new(|| interop.semaphore_features(fd).map(drop))),
        ("drm_modifiers", Box::new(|| interop.drm_modifiers(vk::Format::R8_UNORM).map(drop))),
        (
            "picture_modifiers",
            Box::new(|| interop.picture_modifiers(DrmFourcc::from_code("NV12"), usage_of_picture).map(drop)),
        ),
        ("ImportedPicture", Box::new(|| import_picture(&interop, usage_of_picture))),
        ("sync_file_features", Box::new(|| interop.sync_file_features().map(drop))),
        ("DrmDevice::of", Box::new(|| DrmDevice::of(&interop).map(drop))),
        ("SyncFileSemaphore", Box::new(|| SyncFileSemaphore::new(&interop).map(drop))),
        (
            "from_sync_file",
            Box::new(|| {
                let outcome = ImportedSemaphore::from_sync_file(&interop, None);
                outcome.map(drop).map_err(|failure| failure.into_parts().0)
            }),
        ),
        ("OwnedBuffer", Box::new(|| OwnedBuffer::new(&interop, 64, usage, MemoryPlacement::DeviceLocal).map(drop))),
        ("ExportableBuffer", Box::new(|| ExportableBuffer::new(&interop, &BufferOptions::new(64, usage)).map(drop))),
        ("ExportableImage", Box::new(|| ExportableImage::new(&interop, &ImageOptions::new(spec)).map(drop))),
        ("separate planes", Box::new(|| ExportableVideo::new(&interop, &picture).map(drop))),
        ("joint planes", Box::new(|| ExportableVideo::new(&interop, &joint).map(drop))),
        ("OwnedSemaphore::binary", Box::new(|| OwnedSemaphore::binary(&interop).map(drop))),
        ("OwnedSemaphore::timeline", Box::new(|| OwnedSemaphore::timeline(&interop, 0).map(drop))),
        ("ExportableSemaphore::binary", Box::new(|| ExportableSemaphore::binary(&interop).map(drop))),
        (
            "ImportedSemaphore",
            Box::new(|| {
                let request = semaphore_request(SemaphoreHandle::OpaqueFd(file(64)));
                ImportedSemaphore::new(&interop, request).map(drop).map_err(Into::into)
            }),
        ),
        (
            "ImportedBuffer",
            Box::new(|| {
                let request = memory_request(MemoryHandle::OpaqueFd(file(8192)), 8192);
                ImportedBuffer::new(&interop, request, &BufferImportOptions::new(64, usage))
                    .map(drop)
                    .map_err(Into::into)
            }),
        ),
        (
            "ImportedImage",
            Box::new(|| {
                let request = memory_request(MemoryHandle::OpaqueFd(file(8192)), 8192);
                ImportedImage::new(&interop, request, &ImageImportOptions::new(spec)).map(drop).map_err(Into::into)
            }),
        ),
        ("value", Box::new(|| timeline.semaphore().value().map(drop))),
        ("signal", Box::new(|| timeline.semaphore().signal(1))),
        ("wait", Box::new(|| timeline.semaphore().wait(0, Duration::ZERO))),
        ("waiter", Box::new(|| timeline.waiter().map(drop))),
        ("export of a semaphore", Box::new(|| timeline.export().map(drop))),
        ("export of a buffer", Box::new(|| exportable.export().map(drop))),
        ("export of an image", Box::new(|| image.import_request().map(drop))),
        ("subresource_layout", Box::new(|| image.image().subresource_layout(0, 0).map(drop))),
        // SAFETY: the fake driver accepts the memory and the semaphore.
        ("export_memory", Box::new(|| unsafe { interop.export_memory(&raw) }.map(drop))),
        (
            "export_semaphore",
            Box::new(|| {
                // SAFETY: as above.
                unsafe { interop.export_semaphore(vk::Semaphore::from_raw(0xe9), fd) }.map(drop)
            }),
        ),
    ];
    calls();
    // SAFETY: the child only makes the calls, which must not reach a driver, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = calls_of_the_driver.iter().all(|(name, call)| {
            let outcome = call();
            let right = outcome.as_ref().is_err_and(|error| {
                error.kind() == ErrorKind::System && error.message().contains("before this process was forked")
            });
            if !right {
                eprintln!("{name}: {outcome:?}");
            }
            right
        });
        let code = i32::from(!right || submission.is_finished() || !calls().is_empty());
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just created.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "a call reached the driver or returned another error");
    drop(calls_of_the_driver);
}
