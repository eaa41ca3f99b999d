//! Contexts for tests, which fail on validation errors, and test data.

#![allow(dead_code, clippy::expect_used, clippy::panic)]

mod layer;

use std::ops::Deref;

use ash::vk;
use gpu_interop_core::{ErrorKind, MemoryHandleKind, Result};
use gpu_interop_vulkan::{
    ExportableImage, HeadlessContext, HeadlessOptions, ImageOptions, ImageSpec, OwnedBuffer, OwnedImage, ValidationLog,
};
use layer::alone_with_the_layer;

/// Usage of every buffer in these tests.
pub(crate) const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::STORAGE_BUFFER.as_raw(),
);

/// A context whose validation errors fail the test at its end, including errors about its destruction.
pub(crate) struct Checked {
    context: Option<HeadlessContext>,
    log: Option<ValidationLog>,
}

impl Deref for Checked {
    type Target = HeadlessContext;

    fn deref(&self) -> &HeadlessContext {
        self.context.as_ref().expect("present until the drop")
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        drop(self.context.take());
        if let Some(log) = self.log.take().filter(|_| !std::thread::panicking()) {
            assert_eq!(log.errors(), Vec::<String>::new(), "validation errors");
        }
    }
}

/// Creates a context, with validation if the layer is installed; `None`, with a printed reason, without Vulkan.
pub(crate) fn vulkan() -> Option<Checked> {
    vulkan_with(HeadlessOptions::default())
}

/// As [`vulkan`], with other options.
pub(crate) fn vulkan_with(options: HeadlessOptions) -> Option<Checked> {
    let context = if layer_is_missing(&options) { unvalidated(options) } else { validated(options) }?;
    Some(Checked { log: context.validation_log(), context: Some(context) })
}

/// Creates a context with validation for a test that checks the errors itself; `None` if Vulkan or the layer is
/// missing.
pub(crate) fn validated(options: HeadlessOptions) -> Option<HeadlessContext> {
    if layer_is_missing(&options) {
        println!("skipped: this tests the validation layer");
        return None;
    }
    or_skip(HeadlessContext::new(&options.validation(true)))
}

fn layer_is_missing(options: &HeadlessOptions) -> bool {
    alone_with_the_layer();
    let Err(error) = HeadlessContext::new(&options.clone().validation(true)) else { return false };
    let missing = error.kind() == ErrorKind::Unsupported && error.message().contains("vulkan-validationlayers");
    if missing {
        println!("without validation: {error}");
    }
    missing
}

/// Creates a context without validation; `None` without Vulkan.
pub(crate) fn unvalidated(options: HeadlessOptions) -> Option<HeadlessContext> {
    or_skip(HeadlessContext::new(&options))
}

/// Skips the test only if Vulkan is missing; other failures panic.
fn or_skip(context: Result<HeadlessContext>) -> Option<HeadlessContext> {
    match context {
        Ok(context) => Some(context),
        Err(error) if matches!(error.kind(), ErrorKind::DriverNotFound | ErrorKind::NoDevice) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("Vulkan is installed but fails: {error}"),
    }
}

/// A pattern in which every word differs from its neighbours and from other seeds.
pub(crate) fn pattern(seed: u32, bytes: u64) -> Vec<u8> {
    let words = u32::try_from(bytes.div_ceil(4)).expect("a small pattern");
    let mut data: Vec<u8> =
        (0..words).flat_map(|index| (index ^ seed).wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    data.truncate(usize::try_from(bytes).expect("a small pattern"));
    data
}

/// Downloads a buffer.
pub(crate) fn contents(context: &HeadlessContext, buffer: &OwnedBuffer) -> Vec<u8> {
    let mut data = vec![0; usize::try_from(buffer.size()).expect("a small buffer")];
    context.download(buffer, 0, &mut data).expect("download");
    data
}

/// Compares bytes; fails with the first one that differs.
pub(crate) fn assert_same(found: &[u8], expected: &[u8], name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}: length");
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(at) = differs {
        panic!("{name}: byte {at} is {:#x}, expected {:#x}", found[at], expected[at]);
    }
}

/// Checks that a command failed with an invalid argument and these words.
#[track_caller]
pub(crate) fn rejected(outcome: Result<()>, words: &str) {
    let error = outcome.expect_err(words);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains(words), "{error} should contain: {words}");
}

/// Usage of every image in these tests.
pub(crate) const IMAGE_USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw()
        | vk::ImageUsageFlags::TRANSFER_DST.as_raw()
        | vk::ImageUsageFlags::SAMPLED.as_raw(),
);

/// Every layer of every level, with its size in bytes.
pub(crate) fn subresources(image: &ImageSpec) -> Vec<(u32, u32, u64)> {
    (0..image.levels)
        .flat_map(|level| (0..image.layers).map(move |layer| (level, layer)))
        .map(|(level, layer)| (level, layer, image.level_size(level).expect("a small image")))
        .collect()
}

/// The texels of one layer of one level, different for each.
pub(crate) fn texels(seed: u32, (level, layer, size): (u32, u32, u64)) -> Vec<u8> {
    pattern(seed ^ (level << 16) ^ (layer << 24), size)
}

/// Writes all of an image.
pub(crate) fn upload_all(context: &HeadlessContext, image: &OwnedImage, seed: u32) {
    for part in subresources(image.spec()) {
        context.upload_image(image, part.0, part.1, &texels(seed, part)).expect("upload");
    }
}

/// Downloads all of an image and checks every byte.
pub(crate) fn assert_texels(context: &HeadlessContext, image: &OwnedImage, seed: u32, name: &str) {
    for part in subresources(image.spec()) {
        let expected = texels(seed, part);
        let mut found = vec![0; expected.len()];
        context.download_image(image, part.0, part.1, &mut found).expect("download");
        let name = format!("{name}: level {}, layer {} of {:?}", part.0, part.1, image.spec());
        assert_same(&found, &expected, &name);
    }
}

/// Reports whether the device exports and imports such an image as an opaque fd. Checks that it rejects the image
/// otherwise.
pub(crate) fn is_shared(context: &HeadlessContext, options: &ImageOptions) -> bool {
    let features = context.interop().image_features(MemoryHandleKind::OpaqueFd, &options.image.query());
    let shared = features.is_ok_and(|features| features.exportable && features.importable);
    let error = match ExportableImage::new(context.interop(), options) {
        Ok(_) => {
            assert!(shared, "the device reports no support: {:?}", options.image);
            return true;
        }
        // Also for limits that the features do not include: the numbers of levels and layers.
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    println!("not shared by this device: {:?}", options.image);
    false
}
