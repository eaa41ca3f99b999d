//! Shared buffers are released and acquired in an order that makes sense; every other one is refused before the driver: the
//! validation layer listens.

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

fn refused(outcome: Result<()>, operation: &str, words: &str) {
    let error = outcome.expect_err(words);
    assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, operation), "{error}");
    assert!(error.message().contains(words) && error.message().contains("buffer"), "{error} should say: {words}");
}

fn download(context: &HeadlessContext, buffer: &OwnedBuffer) -> Result<()> {
    context.download(buffer, 0, &mut [0; 4096])
}

#[test]
fn a_forgotten_release_is_noticed_at_the_acquisition() {
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let buffer = exported.buffer();
    refused(context.acquire(buffer), "Recording::acquire", "release it before the other side uses it");
    context.upload(buffer, 0, &pattern(1, SIZE)).expect("upload");
    refused(context.acquire(buffer), "Recording::acquire", "release it before the other side uses it");
    // Hand-overs acquire first.
    let other = own(&context);
    let copy = BufferCopy { src: &other, src_offset: 0, dst: buffer, dst_offset: 0, size: SIZE };
    refused(context.send(&[copy], &[], &[]).map(drop), "Recording::acquire", "this device's already");
    let copy = BufferCopy { src: buffer, src_offset: 0, dst: &other, dst_offset: 0, size: SIZE };
    refused(context.receive(&[copy], &[], &[]).map(drop), "Recording::acquire", "this device's already");
    assert_same(&contents(&context, buffer), &pattern(1, SIZE), "after what was refused");
}

#[test]
fn a_forgotten_acquisition_is_noticed_by_every_use() {
    let Some(context) = vulkan() else { return };
    let (exported, mine) = (create(&context), own(&context));
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
    // All of it: Vulkan would allow that without an acquisition, which cannot be told from one that was forgotten.
    refused(context.fill(buffer, 0, SIZE, 1), "Recording::fill", first);
    refused(context.copy(buffer, 0, &mine, 0, SIZE), "Recording::copy", first);
    refused(context.copy(&mine, 0, buffer, 0, SIZE), "Recording::copy", first);
    refused(context.upload(buffer, 0, &[1]), "Recording::copy", first);
    refused(download(&context, buffer), "Recording::copy", first);
    let to_image = context.run(|recording| recording.copy_to_image(buffer, 0, image, 0, 0));
    refused(to_image, "Recording::copy_to_image", first);
    let from_image = context.run(|recording| recording.copy_from_image(image, 0, 0, buffer, 0));
    refused(from_image, "Recording::copy_from_image", first);
    refused(context.release(buffer), "Recording::release", "acquire it before it is released again");
    context.acquire(buffer).expect("acquire");
    refused(context.acquire(buffer), "Recording::acquire", "this device's already");
    assert_same(&contents(&context, buffer), &pattern(1, SIZE), "after what was refused");
}

#[test]
fn an_imported_buffer_is_the_other_sides_at_first() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let exported = create(&first);
    let imported = import(&second, &exported);
    let (from, to) = (exported.buffer(), imported.buffer());
    refused(second.release(to), "Recording::release", "the other side already");
    refused(second.upload(to, 0, &pattern(7, SIZE)), "Recording::copy", "acquire it first");
    // The importer is the first to write.
    first.release(from).expect("release");
    second.acquire(to).expect("acquire");
    second.upload(to, 0, &pattern(7, SIZE)).expect("upload");
    second.release(to).expect("release");
    refused(download(&second, to), "Recording::copy", "acquire it first");
    first.acquire(from).expect("acquire");
    assert_same(&contents(&first, from), &pattern(7, SIZE), "written by the importer");
}

#[test]
fn what_is_not_shared_has_no_other_side() {
    let Some(context) = vulkan() else { return };
    let mine = own(&context);
    for (outcome, operation) in
        [(context.release(&mine), "Recording::release"), (context.acquire(&mine), "Recording::acquire")]
    {
        refused(outcome, operation, "ExportableBuffer::new");
    }
    context.upload(&mine, 0, &pattern(2, SIZE)).expect("upload");
    assert_same(&contents(&context, &mine), &pattern(2, SIZE), "after what was refused");
}

#[test]
fn one_recording_can_hold_every_step() {
    let Some(context) = vulkan() else { return };
    let (exported, other, mine) = (create(&context), create(&context), own(&context));
    let (buffer, other) = (exported.buffer(), other.buffer());
    context
        .run(|recording| {
            recording.fill(buffer, 0, SIZE, 5)?;
            recording.release(buffer)?;
            refused(recording.release(buffer), "Recording::release", "released again");
            refused(recording.copy(buffer, 0, &mine, 0, SIZE), "Recording::copy", "acquire it first");
            // Each buffer has a state of its own.
            recording.fill(other, 0, SIZE, 6)?;
            refused(recording.acquire(other), "Recording::acquire", "this device's already");
            recording.release(other)?;
            recording.acquire(buffer)?;
            recording.copy(buffer, 0, &mine, 0, SIZE)
        })
        .expect("run");
    assert_same(&contents(&context, &mine), &5_u32.to_le_bytes().repeat(1024), "through the buffer");
    // What the recording left each of them in.
    download(&context, buffer).expect("acquired");
    refused(download(&context, other), "Recording::copy", "acquire it first");
    context.acquire(other).expect("acquire");
    assert_same(&contents(&context, other), &6_u32.to_le_bytes().repeat(1024), "the other");
}

#[test]
fn only_what_was_submitted_counts() {
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

    // Other work takes the buffer away between a recording and its submission.
    let late = context.run(|recording| {
        recording.fill(buffer, 0, SIZE, 0)?;
        context.release(buffer)
    });
    refused(late, "HeadlessContext::submit", "record them again");
    refused(download(&context, buffer), "Recording::copy", "acquire it first");
    context.acquire(buffer).expect("acquire");
    assert_same(&contents(&context, buffer), &pattern(1, SIZE), "the late commands never ran");
}

#[test]
fn an_application_can_move_a_buffer_itself_and_say_so() {
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
    // SAFETY: recording, outside a render pass, on the context's queue; the buffer is of its device, its own, and kept.
    own(&|commands| unsafe { buffer.record_release(commands, all) }).expect("run");
    refused(context.acquire(buffer), "Recording::acquire", "this device's already");
    // SAFETY: the commands above have run.
    unsafe { buffer.assume_released() };
    refused(download(&context, buffer), "Recording::copy", "acquire it first");
    // SAFETY: as above; the buffer was released, and nobody has imported it.
    own(&|commands| unsafe { buffer.record_acquire(commands, all) }).expect("run");
    refused(context.release(buffer), "Recording::release", "the other side already");
    // SAFETY: the commands above have run.
    unsafe { buffer.assume_acquired() };
    assert_same(&contents(&context, buffer), &pattern(4, SIZE), "after commands of the application's own");
    context.release(buffer).expect("release");
    context.acquire(buffer).expect("acquire");
}
