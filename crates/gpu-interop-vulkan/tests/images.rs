//! Images shared between two devices: every texel of every level and layer, in both directions.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use std::time::Duration;

use ash::vk;
use ash::vk::ImageViewType as View;
use common::{IMAGE_USAGE, USAGE, assert_same, assert_texels, contents, is_shared, texels, upload_all, vulkan};
use gpu_interop_core::{ArrayShape, ArrayUsage, ChannelType};
use gpu_interop_vulkan::{
    ExportableImage, HeadlessContext, ImageImportOptions, ImageOptions, ImageSpec, ImportedImage, MemoryPlacement,
    OwnedBuffer, TexelFormat,
};

/// Odd extents, so that rows, levels and layers have no power of two in common.
fn shapes(format: vk::Format) -> Vec<ImageSpec> {
    let image = |view, extent| ImageSpec::new(view, extent, format, IMAGE_USAGE);
    let shapes = [
        image(View::TYPE_1D, [37, 1, 1]),
        image(View::TYPE_1D_ARRAY, [37, 1, 1]).layers(5),
        image(View::TYPE_2D, [37, 21, 1]),
        image(View::TYPE_2D_ARRAY, [37, 21, 1]).layers(5),
        image(View::TYPE_3D, [37, 21, 9]),
        image(View::CUBE, [19, 19, 1]),
        image(View::CUBE_ARRAY, [19, 19, 1]).layers(12),
    ];
    let with_all_levels = |image: ImageSpec| image.levels(image.shape().expect("a shape").max_levels());
    shapes.into_iter().flat_map(|image| [image, image.levels(2), with_all_levels(image)]).collect()
}

fn import(context: &HeadlessContext, exported: &ExportableImage, memory: MemoryPlacement) -> ImportedImage {
    let request = exported.import_request().expect("export");
    assert_eq!(request.is_dedicated(), exported.image().is_dedicated());
    assert_eq!(request.size(), exported.image().allocation_size());
    let options =
        ImageImportOptions::new(*exported.image().spec()).memory(memory).memory_type(exported.image().memory_type());
    ImportedImage::new(context.interop(), request, &options).expect("import")
}

fn both_directions(first: &HeadlessContext, second: &HeadlessContext, options: &ImageOptions) {
    let exported = ExportableImage::new(first.interop(), options).expect("create");
    assert!(exported.image().is_dedicated() || !options.dedicated);
    assert_eq!(exported.image().spec(), &options.image);
    let imported = import(second, &exported, options.memory);
    let (from, to) = (exported.image(), imported.image());
    first.initialize_image(from).expect("initialize");
    upload_all(first, from, 0x1111);
    assert_texels(first, from, 0x1111, "where it was written");
    first.release_image(from).expect("release");
    second.acquire_image(to).expect("acquire");
    assert_texels(second, to, 0x1111, "forth");
    upload_all(second, to, 0x2222);
    second.release_image(to).expect("release");
    first.acquire_image(from).expect("acquire");
    assert_texels(first, from, 0x2222, "back");
}

#[test]
fn every_shape_and_level_is_shared() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let mut shared = 0;
    for image in shapes(vk::Format::R8G8B8A8_UNORM) {
        for dedicated in [false, true] {
            let options = ImageOptions::new(image).dedicated(dedicated);
            if is_shared(&first, &options) {
                both_directions(&first, &second, &options);
                shared += 1;
            }
        }
    }
    println!("{shared} of 42 images are shared");
    assert!(shared >= 6, "at least the two-dimensional ones");
}

#[test]
fn every_format_is_shared() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let mut shared = 0;
    for format in TexelFormat::vulkan_formats() {
        for image in [
            ImageSpec::new(View::TYPE_2D, [37, 21, 1], format, IMAGE_USAGE).levels(3),
            ImageSpec::new(View::TYPE_2D_ARRAY, [16, 16, 1], format, IMAGE_USAGE).layers(3),
        ] {
            let options = ImageOptions::new(image);
            if is_shared(&first, &options) {
                both_directions(&first, &second, &options);
                shared += 1;
            }
        }
    }
    println!("{shared} of 102 images are shared");
    assert!(shared >= 60, "Vulkan requires about this many sampled formats");
}

#[test]
fn every_usage_is_shared() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    use vk::ImageUsageFlags as Usage;
    for (usage, expected) in [
        (Usage::STORAGE, ArrayUsage::SURFACE_LOAD_STORE),
        (Usage::COLOR_ATTACHMENT, ArrayUsage::COLOR_ATTACHMENT),
        (Usage::COLOR_ATTACHMENT | Usage::INPUT_ATTACHMENT, ArrayUsage::COLOR_ATTACHMENT),
        (Usage::STORAGE | Usage::COLOR_ATTACHMENT, ArrayUsage::SURFACE_LOAD_STORE | ArrayUsage::COLOR_ATTACHMENT),
    ] {
        let image = ImageSpec::new(View::TYPE_2D, [37, 21, 1], vk::Format::R8G8B8A8_UNORM, IMAGE_USAGE | usage);
        let options = ImageOptions::new(image);
        assert!(is_shared(&first, &options), "{usage:?}");
        both_directions(&first, &second, &options);
        let exported = ExportableImage::new(first.interop(), &options).expect("create");
        assert_eq!(exported.array_desc().expect("optimal tiling").usage, expected);
    }
}

#[test]
fn array_desc_matches_the_image() {
    let Some(context) = vulkan() else { return };
    let image = ImageSpec::new(View::CUBE_ARRAY, [32, 32, 1], vk::Format::R16G16_SFLOAT, IMAGE_USAGE);
    let options = ImageOptions::new(image.layers(12).levels(4));
    if !is_shared(&context, &options) {
        return;
    }
    let exported = ExportableImage::new(context.interop(), &options).expect("create");
    let desc = exported.array_desc().expect("optimal tiling");
    assert_eq!(desc.shape, ArrayShape::CubeLayered { width: 32, cubes: 2 });
    assert_eq!((desc.format.channel(), desc.format.channels()), (ChannelType::Float16, 2));
    assert_eq!((desc.offset, desc.levels, desc.usage), (0, 4, ArrayUsage::empty()));
    let request = exported.import_request().expect("export");
    desc.validate(request.size()).expect("it fits its own memory");
    assert_eq!(request.image(), Some(&desc));
    if exported.image().is_dedicated() {
        return;
    }
    let behind = ExportableImage::new(context.interop(), &options.offset(5000)).expect("create");
    let moved = behind.array_desc().expect("optimal tiling");
    assert!(moved.offset >= 5000 && moved.offset == behind.image().offset(), "{moved:?}");
    assert_eq!(moved.with_offset(0), desc);
    let request = behind.import_request().expect("export");
    moved.validate(request.size()).expect("it fits its own memory");
    assert_eq!(request.image(), Some(&moved));
}

/// One submission writes and releases, another acquires and reads; only the host's wait orders them.
#[test]
fn commands_of_one_recording_see_earlier_writes() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let image = ImageSpec::new(View::TYPE_2D, [64, 64, 1], vk::Format::R32_UINT, IMAGE_USAGE).levels(2);
    let exported = ExportableImage::new(first.interop(), &ImageOptions::new(image)).expect("create");
    let imported = import(&second, &exported, MemoryPlacement::DeviceLocal);
    let buffer = |context: &HeadlessContext| {
        OwnedBuffer::new(context.interop(), 32 << 10, USAGE, MemoryPlacement::DeviceLocal).expect("buffer")
    };
    let (source, target) = (buffer(&first), buffer(&second));
    let data = texels(9, (0, 0, 64 * 64 * 4));
    first.upload(&source, 1024, &data).expect("upload");
    let work = first
        .submit(&[], &[], |recording| {
            recording.initialize_image(exported.image())?;
            recording.copy_to_image(&source, 1024, exported.image(), 0, 0)?;
            recording.copy_to_image(&source, 1024, exported.image(), 1, 0)?;
            recording.release_image(exported.image())
        })
        .expect("submit");
    work.wait(Duration::from_secs(30)).expect("the writes end");
    second.fill(&target, 0, 32 << 10, u32::MAX).expect("fill");
    second
        .run(|recording| {
            recording.acquire_image(imported.image())?;
            recording.copy_from_image(imported.image(), 1, 0, &target, 16)?;
            recording.copy_from_image(imported.image(), 0, 0, &target, 8 << 10)
        })
        .expect("run");
    // Level 1 has the first quarter of the data, tightly packed.
    let mut expected = vec![0xff; 32 << 10];
    expected[16..16 + 4096].copy_from_slice(&data[..4096]);
    expected[8 << 10..24 << 10].copy_from_slice(&data);
    assert_same(&contents(&second, &target), &expected, "both levels");
}

/// Synchronisation validation, if the layer has it, reports missing barriers.
#[test]
fn images_can_be_reinitialised_in_one_recording() {
    let Some(context) = vulkan() else { return };
    let image = ImageSpec::new(View::TYPE_2D, [64, 64, 1], vk::Format::R32_UINT, IMAGE_USAGE);
    let exported = ExportableImage::new(context.interop(), &ImageOptions::new(image)).expect("create");
    let image = exported.image();
    let buffer = OwnedBuffer::new(context.interop(), 48 << 10, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    let (first, second) = (texels(1, (0, 0, 16 << 10)), texels(2, (0, 0, 16 << 10)));
    context.upload(&buffer, 0, &first).expect("upload");
    context.upload(&buffer, 16 << 10, &second).expect("upload");
    context
        .run(|recording| {
            recording.initialize_image(image)?;
            recording.copy_to_image(&buffer, 0, image, 0, 0)?;
            recording.initialize_image(image)?;
            // Undefined contents, but a use of the image.
            recording.copy_from_image(image, 0, 0, &buffer, 32 << 10)?;
            recording.initialize_image(image)?;
            recording.copy_to_image(&buffer, 16 << 10, image, 0, 0)?;
            recording.copy_from_image(image, 0, 0, &buffer, 32 << 10)
        })
        .expect("run");
    assert_same(&contents(&context, &buffer)[32 << 10..], &second, "the last write");
}

#[test]
fn imported_images_outlive_the_exporter() {
    let Some(second) = vulkan() else { return };
    let imported = {
        let Some(first) = vulkan() else { return };
        let image = ImageSpec::new(View::TYPE_2D, [37, 21, 1], vk::Format::R8G8B8A8_UNORM, IMAGE_USAGE).levels(3);
        let exported = ExportableImage::new(first.interop(), &ImageOptions::new(image)).expect("create");
        first.initialize_image(exported.image()).expect("initialize");
        upload_all(&first, exported.image(), 5);
        first.release_image(exported.image()).expect("release");
        import(&second, &exported, MemoryPlacement::DeviceLocal)
    };
    second.acquire_image(imported.image()).expect("acquire");
    assert_texels(&second, imported.image(), 5, "after the exporter is gone");
}

#[test]
fn dropped_submissions_keep_images_alive() {
    use gpu_interop_vulkan::{OwnedSemaphore, SemaphoreOp};
    let Some(context) = vulkan() else { return };
    let gate = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let image = ImageSpec::new(View::TYPE_2D, [37, 21, 1], vk::Format::R8G8B8A8_UNORM, IMAGE_USAGE);
    let exported = ExportableImage::new(context.interop(), &ImageOptions::new(image)).expect("create");
    let wait = [SemaphoreOp { semaphore: &gate, value: 1 }];
    context.initialize_image(exported.image()).expect("initialize");
    let work = context.submit(&wait, &[], |recording| recording.release_image(exported.image())).expect("submit");
    drop(work);
    // The caller's last handle. Destroying the image now would be a validation error.
    drop(exported);
    gate.signal(1).expect("signal");
    context.run(|_| Ok(())).expect("the queue still works");
}
