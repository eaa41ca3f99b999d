//! Order of releases and acquires of shared buffers: commands out of order are rejected before they reach the driver.
//! The validation layer checks the rest.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use common::{USAGE, assert_same, contents, pattern, vulkan};
use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_vulkan::{
    BufferCopy, BufferImportOptions, BufferOptions, ExportableBuffer, ExportableImage, HeadlessContext, ImageOptions,
    ImageSpec, ImportedBuffer, MemoryPlacement, OwnedBuffer, OwnershipTransfer,
};

const SIZE: u64 = 4096;

fn create(context: &HeadlessContext) -> ExportableBuffer {
    ExportableBuffer::new(context.interop(), &BufferOptions::new(SIZE, USAGE)).expect("create")
}

fn import(context: &HeadlessContext, exported: &ExportableBuffer) -> ImportedBuffer {
    let request = exported.import_request().expect("export");
    let options = BufferImportOptions::new(SIZE, USAGE).memory_type(exported.buffer().memory_type());
    ImportedBuffer::new(context.interop(), request, &options).expect("import")
}

fn own(context: &HeadlessContext) -> OwnedBuffer {
    OwnedBuffer::new(context.interop(), SIZE, USAGE, MemoryPlacement::DeviceLocal).expect("buffer")
}

fn rejected(outcome: Result<()>, operation: &str, words: &str) {
    let error = outcome.expect_err(words);
    assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, operation), "{error}");
    assert!(error.message().contains(words) && error.message().contains("buffer"), "{error} should contain: {words}");
}

fn download(context: &HeadlessContext, buffer: &OwnedBuffer) -> Result<()> {
    context.download(buffer, 0, &mut [0; 4096])
}

#[test]
fn missing_release_is_detected_at_the_acquire() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let buffer = exported.buffer();
    rejected(context.acquire(buffer), "Recording::acquire", "release it before the other API uses it");
    context.upload(buffer, 0, &pattern(1, SIZE)).expect("upload");
    rejected(context.acquire(buffer), "Recording::acquire", "release it before the other API uses it");
    // `send` and `receive` acquire first.
    let other = own(&context);
    let copy = BufferCopy { src: &other, src_offset: 0, dst: buffer, dst_offset: 0, size: SIZE };
    rejected(context.send(&[copy], &[], &[]).map(drop), "Recording::acquire", "already belongs to this device");
    let copy = BufferCopy { src: buffer, src_offset: 0, dst: &other, dst_offset: 0, size: SIZE };
    rejected(context.receive(&[copy], &[], &[]).map(drop), "Recording::acquire", "already belongs to this device");
    assert_same(&contents(&context, buffer), &pattern(1, SIZE), "after rejected commands");
}

#[test]
fn missing_acquire_is_detected_at_every_use() {
    let Some(context) = vulkan() else { return };
    let (exported, unshared) = (create(&context), own(&context));
    let buffer = exported.buffer();
    let spec = ImageSpec::new(
        vk::ImageViewType::TYPE_2D,
        [16, 8, 1],
        vk::Format::R8G8B8A8_UNORM,
        vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST,
    );
    let image = ExportableImage::new(context.interop(), &ImageOptions::new(spec)).expect("create");
    let image = image.image();
    context.initialize_image(image).expect("initialize");
    context.upload(buffer, 0, &pattern(1, SIZE)).expect("upload");
    context.release(buffer).expect("release");
    let first = "acquire it first";
    // Even for the whole buffer: Vulkan does not require an acquire before a full overwrite, but a missing acquire
    // looks the same.
    rejected(context.fill(buffer, 0, SIZE, 1), "Recording::fill", first);
    rejected(context.copy(buffer, 0, &unshared, 0, SIZE), "Recording::copy", first);
    rejected(context.copy(&unshared, 0, buffer, 0, SIZE), "Recording::copy", first);
    rejected(context.upload(buffer, 0, &[1]), "Recording::copy", first);
    rejected(download(&context, buffer), "Recording::copy", first);
    let to_image = context.run(|recording| recording.copy_to_image(buffer, 0, image, 0, 0));
    rejected(to_image, "Recording::copy_to_image", first);
    let from_image = context.run(|recording| recording.copy_from_image(image, 0, 0, buffer, 0));
    rejected(from_image, "Recording::copy_from_image", first);
    rejected(context.release(buffer), "Recording::release", "acquire it before releasing it again");
    context.acquire(buffer).expect("acquire");
    rejected(context.acquire(buffer), "Recording::acquire", "already belongs to this device");
    assert_same(&contents(&context, buffer), &pattern(1, SIZE), "after rejected commands");
}

#[test]
fn imported_buffers_must_be_acquired_first() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let exported = create(&first);
    let imported = import(&second, &exported);
    let (from, to) = (exported.buffer(), imported.buffer());
    rejected(second.release(to), "Recording::release", "already belongs to the other API");
    rejected(second.upload(to, 0, &pattern(7, SIZE)), "Recording::copy", "acquire it first");
    // The importer writes first.
    first.release(from).expect("release");
    second.acquire(to).expect("acquire");
    second.upload(to, 0, &pattern(7, SIZE)).expect("upload");
    second.release(to).expect("release");
    rejected(download(&second, to), "Recording::copy", "acquire it first");
    first.acquire(from).expect("acquire");
    assert_same(&contents(&first, from), &pattern(7, SIZE), "written by the importer");
}

#[test]
fn unshared_buffers_cannot_change_owner() {
    let Some(context) = vulkan() else { return };
    let unshared = own(&context);
    for (outcome, operation) in
        [(context.release(&unshared), "Recording::release"), (context.acquire(&unshared), "Recording::acquire")]
    {
        rejected(outcome, operation, "ExportableBuffer::new");
    }
    context.upload(&unshared, 0, &pattern(2, SIZE)).expect("upload");
    assert_same(&contents(&context, &unshared), &pattern(2, SIZE), "after rejected commands");
}

#[test]
fn one_recording_can_contain_every_step() {
    let Some(context) = vulkan() else { return };
    let (exported, other, unshared) = (create(&context), create(&context), own(&context));
    let (buffer, other) = (exported.buffer(), other.buffer());
    context
        .run(|recording| {
            recording.fill(buffer, 0, SIZE, 5)?;
            recording.release(buffer)?;
            rejected(recording.release(buffer), "Recording::release", "releasing it again");
            rejected(recording.copy(buffer, 0, &unshared, 0, SIZE), "Recording::copy", "acquire it first");
            // Each buffer has its own state.
            recording.fill(other, 0, SIZE, 6)?;
            rejected(recording.acquire(other), "Recording::acquire", "already belongs to this device");
            recording.release(other)?;
            recording.acquire(buffer)?;
            recording.copy(buffer, 0, &unshared, 0, SIZE)
        })
        .expect("run");
    assert_same(&contents(&context, &unshared), &5_u32.to_le_bytes().repeat(1024), "through the buffer");
    // The states after the recording.
    download(&context, buffer).expect("acquired");
    rejected(download(&context, other), "Recording::copy", "acquire it first");
    context.acquire(other).expect("acquire");
    assert_same(&contents(&context, other), &6_u32.to_le_bytes().repeat(1024), "the other");
}

#[test]
fn only_submitted_commands_change_the_state() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let buffer = exported.buffer();
    context.upload(buffer, 0, &pattern(1, SIZE)).expect("upload");
    let aborted = context.run(|recording| {
        recording.release(buffer)?;
        Err(Error::invalid("test", "stopped on purpose"))
    });
    assert_eq!(aborted.expect_err("stopped").operation(), "test");
    assert_same(&contents(&context, buffer), &pattern(1, SIZE), "still this device's");

    // Other work releases the buffer between the recording and its submission.
    let late = context.run(|recording| {
        recording.fill(buffer, 0, SIZE, 0)?;
        context.release(buffer)
    });
    rejected(late, "HeadlessContext::submit", "record them again");
    rejected(download(&context, buffer), "Recording::copy", "acquire it first");
    context.acquire(buffer).expect("acquire");
    assert_same(&contents(&context, buffer), &pattern(1, SIZE), "the late commands never ran");
}

#[test]
fn applications_can_transfer_and_declare_the_state() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let buffer = exported.buffer();
    let all = OwnershipTransfer::all(context.queue_family());
    let own = |commands: &dyn Fn(vk::CommandBuffer) -> Result<()>| {
        context.run(|recording| {
            recording.keep(buffer);
            commands(recording.as_raw())
        })
    };
    context.upload(buffer, 0, &pattern(4, SIZE)).expect("upload");
    // SAFETY: recording, outside a render pass, on the context's queue; the buffer belongs to the context's device and
    // family, and is kept alive.
    own(&|commands| unsafe { buffer.record_release(commands, all) }).expect("run");
    rejected(context.acquire(buffer), "Recording::acquire", "already belongs to this device");
    // SAFETY: the commands above have completed.
    unsafe { buffer.assume_released() };
    rejected(download(&context, buffer), "Recording::copy", "acquire it first");
    // SAFETY: as above; the buffer was released, and was not imported elsewhere.
    own(&|commands| unsafe { buffer.record_acquire(commands, all) }).expect("run");
    rejected(context.release(buffer), "Recording::release", "already belongs to the other API");
    // SAFETY: the commands above have completed.
    unsafe { buffer.assume_acquired() };
    assert_same(&contents(&context, buffer), &pattern(4, SIZE), "after commands of the application's own");
    context.release(buffer).expect("release");
    context.acquire(buffer).expect("acquire");
}
