//! Images are initialised, released and acquired in an order that makes sense; every other one is refused before the
//! driver: the validation layer listens.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use common::{IMAGE_USAGE, USAGE, assert_same, assert_texels, contents, texels, upload_all, vulkan};
use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_vulkan::{
    ExportableImage, HeadlessContext, ImageImportOptions, ImageOptions, ImageSpec, ImportedImage, MemoryPlacement,
    OwnedBuffer, OwnedImage, OwnershipTransfer,
};

/// Bytes of an image.
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

fn refused(outcome: Result<()>, words: &str) {
    let error = outcome.expect_err(words);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains(words), "{error} should say: {words}");
}

fn download(context: &HeadlessContext, image: &OwnedImage) -> Result<()> {
    context.download_image(image, 0, 0, &mut [0; LENGTH])
}

#[test]
fn a_fresh_image_cannot_be_acquired() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let image = exported.image();
    refused(context.acquire_image(image), "never released");
    refused(download(&context, image), "initialise it first");
    refused(context.release_image(image), "initialise it first");
    context.initialize_image(image).expect("initialize");
    refused(context.acquire_image(image), "this device's already");
    upload_all(&context, image, 1);
    assert_texels(&context, image, 1, "after what was refused");
}

#[test]
fn a_released_image_is_the_other_sides_until_it_is_acquired() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let image = exported.image();
    context.initialize_image(image).expect("initialize");
    upload_all(&context, image, 1);
    context.release_image(image).expect("release");
    refused(context.release_image(image), "acquire it before it is released again");
    refused(download(&context, image), "acquire it first");
    refused(context.upload_image(image, 0, 0, &[0; LENGTH]), "acquire it first");
    refused(context.initialize_image(image), "acquire it first");
    context.acquire_image(image).expect("acquire");
    refused(context.acquire_image(image), "this device's already");
    assert_texels(&context, image, 1, "after what was refused");
}

#[test]
fn the_importer_can_be_the_first_to_write() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let exported = create(&first);
    let imported = import(&second, &exported);
    let (from, to) = (exported.image(), imported.image());
    for outcome in [second.initialize_image(to), second.release_image(to), download(&second, to)] {
        refused(outcome, "acquire it");
    }
    first.initialize_image(from).expect("initialize");
    first.release_image(from).expect("release");
    second.acquire_image(to).expect("acquire");
    upload_all(&second, to, 7);
    second.release_image(to).expect("release");
    refused(download(&second, to), "acquire it first");
    first.acquire_image(from).expect("acquire");
    assert_texels(&first, from, 7, "written by the importer");
}

#[test]
fn one_recording_can_hold_every_step() {
    let Some(context) = vulkan() else { return };
    let (exported, other) = (create(&context), create(&context));
    let (image, other) = (exported.image(), other.image());
    let buffer = OwnedBuffer::new(context.interop(), 2 * SIZE, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let data = texels(3, (0, 0, SIZE));
    context.upload(&buffer, 0, &data).expect("upload");
    context
        .run(|recording| {
            recording.initialize_image(image)?;
            // Each image has a state of its own.
            refused(recording.release_image(other), "initialise it first");
            recording.initialize_image(other)?;
            recording.release_image(other)?;
            refused(recording.acquire_image(image), "this device's already");
            recording.copy_to_image(&buffer, 0, image, 0, 0)?;
            recording.release_image(image)?;
            refused(recording.release_image(image), "released again");
            refused(recording.copy_from_image(image, 0, 0, &buffer, SIZE), "acquire it first");
            refused(recording.initialize_image(image), "acquire it first");
            recording.acquire_image(image)?;
            recording.copy_from_image(image, 0, 0, &buffer, SIZE)
        })
        .expect("run");
    assert_same(&contents(&context, &buffer)[LENGTH..], &data, "through the image");
    // What the recording left each of them in.
    download(&context, image).expect("acquired");
    refused(download(&context, other), "acquire it first");
    context.acquire_image(other).expect("acquire");
}

#[test]
fn only_what_was_submitted_counts() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let image = exported.image();
    let stop = || Err(Error::invalid("test", "stopped on purpose"));
    let aborted = context.run(|recording| {
        recording.initialize_image(image)?;
        recording.release_image(image)?;
        stop()
    });
    refused(aborted, "stopped on purpose");
    refused(context.acquire_image(image), "never released");
    context.initialize_image(image).expect("initialize");
    upload_all(&context, image, 1);
    let aborted = context.run(|recording| {
        recording.release_image(image)?;
        stop()
    });
    refused(aborted, "stopped on purpose");
    assert_texels(&context, image, 1, "still this device's");

    // Other work takes the image away between a recording and its submission.
    let late = context.run(|recording| {
        recording.initialize_image(image)?;
        context.release_image(image)
    });
    refused(late, "record them again");
    refused(download(&context, image), "acquire it first");
    context.acquire_image(image).expect("acquire");
    assert_texels(&context, image, 1, "the late commands never ran");
}

#[test]
fn an_application_can_move_an_image_itself_and_say_so() {
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
        // SAFETY: recording, outside a render pass, on the context's queue; the image is of its device and kept.
        unsafe { image.record_initialize(commands) };
        Ok(())
    })
    .expect("run");
    refused(download(&context, image), "initialise it first");
    // SAFETY: the commands above have run.
    unsafe { image.assume_initialized() };
    upload_all(&context, image, 4);
    // SAFETY: as above; the image is this device's own and in the layout `GENERAL`.
    own(&|commands| unsafe { image.record_release(commands, all, vk::ImageLayout::GENERAL) }).expect("run");
    refused(context.acquire_image(image), "this device's already");
    // SAFETY: the commands above have run.
    unsafe { image.assume_released() };
    // SAFETY: as above; the image was released, and nobody has imported it.
    own(&|commands| unsafe { image.record_acquire(commands, all, vk::ImageLayout::GENERAL) }).expect("run");
    refused(download(&context, image), "acquire it first");
    // SAFETY: the commands above have run.
    unsafe { image.assume_initialized() };
    assert_texels(&context, image, 4, "after commands of the application's own");
}
