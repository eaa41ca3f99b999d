//! Order of initialisation, releases and acquires of images: commands out of order are rejected before they reach the
//! driver. The validation layer checks the rest.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use common::{IMAGE_USAGE, USAGE, assert_same, assert_texels, contents, rejected, texels, upload_all, vulkan};
use gpu_interop_core::{Error, Result};
use gpu_interop_vulkan::{
    ExportableImage, HeadlessContext, ImageImportOptions, ImageOptions, ImageSpec, ImportedImage, MemoryPlacement,
    OwnedBuffer, OwnedImage, OwnershipTransfer,
};

/// Size of an image, bytes.
const SIZE: u64 = 16 * 8 * 4;
const LENGTH: usize = 16 * 8 * 4;

fn create(context: &HeadlessContext) -> ExportableImage {
    let image = ImageSpec::new(vk::ImageViewType::TYPE_2D, [16, 8, 1], vk::Format::R8G8B8A8_UNORM, IMAGE_USAGE);
    ExportableImage::new(context.interop(), &ImageOptions::new(image)).expect("create")
}

fn import(context: &HeadlessContext, exported: &ExportableImage) -> ImportedImage {
    let request = exported.import_request().expect("export");
    let options = ImageImportOptions::new(*exported.image().spec()).memory_type(exported.image().memory_type());
    ImportedImage::new(context.interop(), request, &options).expect("import")
}

fn download(context: &HeadlessContext, image: &OwnedImage) -> Result<()> {
    context.download_image(image, 0, 0, &mut [0; LENGTH])
}

#[test]
fn new_images_cannot_be_acquired() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let image = exported.image();
    rejected(context.acquire_image(image), "never released");
    rejected(download(&context, image), "initialise it first");
    rejected(context.release_image(image), "initialise it first");
    context.initialize_image(image).expect("initialize");
    rejected(context.acquire_image(image), "already belongs to this device");
    upload_all(&context, image, 1);
    assert_texels(&context, image, 1, "after rejected commands");
}

#[test]
fn released_images_must_be_acquired_first() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let image = exported.image();
    context.initialize_image(image).expect("initialize");
    upload_all(&context, image, 1);
    context.release_image(image).expect("release");
    rejected(context.release_image(image), "acquire it before releasing it again");
    rejected(download(&context, image), "acquire it first");
    rejected(context.upload_image(image, 0, 0, &[0; LENGTH]), "acquire it first");
    rejected(context.initialize_image(image), "acquire it first");
    context.acquire_image(image).expect("acquire");
    rejected(context.acquire_image(image), "already belongs to this device");
    assert_texels(&context, image, 1, "after rejected commands");
}

#[test]
fn importers_can_write_first() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let exported = create(&first);
    let imported = import(&second, &exported);
    let (from, to) = (exported.image(), imported.image());
    for outcome in [second.initialize_image(to), second.release_image(to), download(&second, to)] {
        rejected(outcome, "acquire it");
    }
    first.initialize_image(from).expect("initialize");
    first.release_image(from).expect("release");
    second.acquire_image(to).expect("acquire");
    upload_all(&second, to, 7);
    second.release_image(to).expect("release");
    rejected(download(&second, to), "acquire it first");
    first.acquire_image(from).expect("acquire");
    assert_texels(&first, from, 7, "written by the importer");
}

#[test]
fn one_recording_can_contain_every_step() {
    let Some(context) = vulkan() else { return };
    let (exported, other) = (create(&context), create(&context));
    let (image, other) = (exported.image(), other.image());
    let buffer = OwnedBuffer::new(context.interop(), 2 * SIZE, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let data = texels(3, (0, 0, SIZE));
    context.upload(&buffer, 0, &data).expect("upload");
    context
        .run(|recording| {
            recording.initialize_image(image)?;
            // Each image has its own state.
            rejected(recording.release_image(other), "initialise it first");
            recording.initialize_image(other)?;
            recording.release_image(other)?;
            rejected(recording.acquire_image(image), "already belongs to this device");
            recording.copy_to_image(&buffer, 0, image, 0, 0)?;
            recording.release_image(image)?;
            rejected(recording.release_image(image), "releasing it again");
            rejected(recording.copy_from_image(image, 0, 0, &buffer, SIZE), "acquire it first");
            rejected(recording.initialize_image(image), "acquire it first");
            recording.acquire_image(image)?;
            recording.copy_from_image(image, 0, 0, &buffer, SIZE)
        })
        .expect("run");
    assert_same(&contents(&context, &buffer)[LENGTH..], &data, "through the image");
    // The states after the recording.
    download(&context, image).expect("acquired");
    rejected(download(&context, other), "acquire it first");
    context.acquire_image(other).expect("acquire");
}

#[test]
fn only_submitted_commands_change_the_state() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let image = exported.image();
    let stop = || Err(Error::invalid("test", "stopped on purpose"));
    let aborted = context.run(|recording| {
        recording.initialize_image(image)?;
        recording.release_image(image)?;
        stop()
    });
    rejected(aborted, "stopped on purpose");
    rejected(context.acquire_image(image), "never released");
    context.initialize_image(image).expect("initialize");
    upload_all(&context, image, 1);
    let aborted = context.run(|recording| {
        recording.release_image(image)?;
        stop()
    });
    rejected(aborted, "stopped on purpose");
    assert_texels(&context, image, 1, "still this device's");

    // Other work releases the image between the recording and its submission.
    let late = context.run(|recording| {
        recording.initialize_image(image)?;
        context.release_image(image)
    });
    rejected(late, "record them again");
    rejected(download(&context, image), "acquire it first");
    context.acquire_image(image).expect("acquire");
    assert_texels(&context, image, 1, "the late commands never ran");
}

#[test]
fn applications_can_transfer_and_declare_the_state() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let image = exported.image();
    let all = OwnershipTransfer::all(context.queue_family());
    let own = |commands: &dyn Fn(vk::CommandBuffer) -> Result<()>| {
        context.run(|recording| {
            recording.keep_image(image);
            commands(recording.as_raw())
        })
    };
    own(&|commands| {
        // SAFETY: recording, outside a render pass, on the context's queue; the image belongs to the context's device
        // and is kept alive.
        unsafe { image.record_initialize(commands) };
        Ok(())
    })
    .expect("run");
    rejected(download(&context, image), "initialise it first");
    // SAFETY: the commands above have completed.
    unsafe { image.assume_initialized() };
    upload_all(&context, image, 4);
    // SAFETY: as above; this device owns the image, which is in the layout `GENERAL`.
    own(&|commands| unsafe { image.record_release(commands, all, vk::ImageLayout::GENERAL) }).expect("run");
    rejected(context.acquire_image(image), "already belongs to this device");
    // SAFETY: the commands above have completed.
    unsafe { image.assume_released() };
    // SAFETY: as above; the image was released, and was not imported elsewhere.
    own(&|commands| unsafe { image.record_acquire(commands, all, vk::ImageLayout::GENERAL) }).expect("run");
    rejected(download(&context, image), "acquire it first");
    // SAFETY: the commands above have completed.
    unsafe { image.assume_initialized() };
    assert_texels(&context, image, 4, "after commands of the application's own");
}
