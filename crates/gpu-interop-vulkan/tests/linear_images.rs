//! Images with linear tiling: texels are at the offsets of the layout, through a buffer and through the host.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use ash::vk::ImageViewType as View;
use common::vulkan;
use common::{IMAGE_USAGE, USAGE, assert_same, assert_texels, contents, is_shared, subresources, texels, upload_all};
use gpu_interop_core::{DeviceKind, ErrorKind};
use gpu_interop_vulkan::{
    BufferImportOptions, ExportableImage, ImageImportOptions, ImageOptions, ImageSpec, ImportedBuffer, ImportedImage,
    MemoryPlacement, OwnedImage,
};

/// Every kind of linear image in Vulkan; only two-dimensional ones with one level and one layer are mandatory.
fn images() -> Vec<ImageSpec> {
    let image =
        |view, extent, format| ImageSpec::new(view, extent, format, IMAGE_USAGE).tiling(vk::ImageTiling::LINEAR);
    vec![
        image(View::TYPE_2D, [37, 21, 1], vk::Format::R8G8B8A8_UNORM),
        image(View::TYPE_2D, [37, 21, 1], vk::Format::R8_UNORM),
        image(View::TYPE_2D, [5, 3, 1], vk::Format::R32G32B32A32_SFLOAT),
        image(View::TYPE_2D, [37, 21, 1], vk::Format::R16_SFLOAT).levels(6),
        image(View::TYPE_2D_ARRAY, [37, 21, 1], vk::Format::R8G8B8A8_UNORM).layers(3).levels(2),
        image(View::TYPE_3D, [37, 21, 9], vk::Format::R8G8_UNORM).levels(2),
        image(View::TYPE_1D, [37, 1, 1], vk::Format::R8G8B8A8_UNORM),
        image(View::TYPE_1D_ARRAY, [37, 1, 1], vk::Format::R8_UINT).layers(4),
    ]
}

/// The rows of one layer of one level: offset in memory, and byte range in the tightly packed texels.
fn rows(image: &OwnedImage, (level, layer, _): (u32, u32, u64)) -> Vec<(usize, std::ops::Range<usize>)> {
    let extent = image.spec().level_extent(level);
    let layout = image.subresource_layout(level, layer).expect("linear tiling");
    let length = u64::from(extent.width * image.format().array.texel_size());
    assert!(layout.row_pitch >= length, "{layout:?}");
    assert_eq!(layout.depth_pitch.is_some(), image.spec().view == View::TYPE_3D);
    assert_eq!(layout.array_pitch.is_some(), image.spec().layers > 1);
    assert!(layout.offset + layout.size <= image.allocation_size(), "{layout:?}");
    let index = |n: u64| usize::try_from(n).expect("a small image");
    (0..extent.depth)
        .flat_map(|slice| (0..extent.height).map(move |row| (slice, row)))
        .zip(0_u64..)
        .map(|((slice, row), nth)| {
            let start = layout.row_offset(row, slice);
            assert!(start + length <= image.allocation_size(), "{layout:?}");
            (index(start), index(nth * length)..index((nth + 1) * length))
        })
        .collect()
}

/// Checks every texel at its offset in the memory.
fn assert_rows(memory: &[u8], image: &OwnedImage, seed: u32) {
    for part in subresources(image.spec()) {
        let expected = texels(seed, part);
        for (at, range) in rows(image, part) {
            let row = format!("the row at byte {at}, level {}, layer {} of {:?}", part.0, part.1, image.spec());
            assert_same(&memory[at..at + range.len()], &expected[range], &row);
        }
    }
}

/// Writes every texel at its offset in the memory.
fn write_rows(memory: &mut [u8], image: &OwnedImage, seed: u32) {
    for part in subresources(image.spec()) {
        let data = texels(seed, part);
        for (at, range) in rows(image, part) {
            memory[at..at + range.len()].copy_from_slice(&data[range]);
        }
    }
}

#[test]
fn layout_matches_the_texels_in_an_imported_buffer() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let (mut shared, mut dedicated) = (0, 0);
    for (image, offset) in images().into_iter().flat_map(|image| [(image, 0), (image, 5000)]) {
        let options = ImageOptions::new(image);
        if !is_shared(&first, &options) {
            continue;
        }
        let exported = ExportableImage::new(first.interop(), &options).expect("create");
        if exported.image().is_dedicated() {
            println!("skipped, requires a dedicated allocation, which excludes a buffer: {image:?}");
            dedicated += 1;
            continue;
        }
        let exported = ExportableImage::new(first.interop(), &options.offset(offset)).expect("create");
        assert!(exported.image().offset() >= offset, "{:?}", exported.image());
        let request = exported.import_request().expect("export");
        let import = BufferImportOptions::new(request.size(), USAGE).memory_type(exported.image().memory_type());
        let imported = ImportedBuffer::new(second.interop(), request, &import).expect("import");
        first.initialize_image(exported.image()).expect("initialize");
        upload_all(&first, exported.image(), 0x1111);
        first.release_image(exported.image()).expect("release");
        second.acquire(imported.buffer()).expect("acquire");
        let mut memory = contents(&second, imported.buffer());
        assert_rows(&memory, exported.image(), 0x1111);
        shared += 1;

        // With NVIDIA's driver such an image has dedicated memory, so no buffer can be on it.
        if first.identity().kind != DeviceKind::Cpu {
            continue;
        }
        write_rows(&mut memory, exported.image(), 0x2222);
        second.upload(imported.buffer(), 0, &memory).expect("upload");
        second.release(imported.buffer()).expect("release");
        first.acquire_image(exported.image()).expect("acquire");
        assert_texels(&first, exported.image(), 0x2222, "written through the buffer");
    }
    println!("{shared} of {} images are shared", images().len());
    assert!(shared + dedicated >= 1, "no linear image is shared");
}

#[test]
fn layout_matches_the_texels_in_host_memory() {
    let (Some(first), Some(second)) = (vulkan(), vulkan()) else { return };
    let mut shared = 0;
    for image in images() {
        let options = ImageOptions::new(image).memory(MemoryPlacement::HostVisible);
        if !is_shared(&first, &options) {
            continue;
        }
        let exported = ExportableImage::new(first.interop(), &options).expect("create");
        let request = exported.import_request().expect("export");
        let import = ImageImportOptions::new(image).memory(options.memory).memory_type(exported.image().memory_type());
        let imported = ImportedImage::new(second.interop(), request, &import).expect("import");
        assert!(exported.image().mapped_ptr().is_some() && imported.image().mapped_ptr().is_some());
        first.initialize_image(exported.image()).expect("initialize");
        upload_all(&first, exported.image(), 3);
        first.release_image(exported.image()).expect("release");
        second.acquire_image(imported.image()).expect("acquire");
        let size = usize::try_from(exported.image().allocation_size()).expect("a small image");
        let mut memory = vec![0; size];
        imported.image().read(0, &mut memory).expect("read");
        assert_rows(&memory, exported.image(), 3);

        write_rows(&mut memory, imported.image(), 4);
        imported.image().write(0, &memory).expect("write");
        assert_texels(&second, imported.image(), 4, "written by the host");
        assert_eq!(
            imported.image().read(size as u64, &mut [0]).expect_err("past the end").kind(),
            ErrorKind::InvalidArgument
        );
        shared += 1;
    }
    println!("{shared} of {} images are shared", images().len());
    assert!(shared >= 1, "no linear image is shared");
}

#[test]
fn linear_images_have_a_layout_and_optimal_ones_an_array() {
    let Some(context) = vulkan() else { return };
    let linear = images()[0];
    let new = |image| ExportableImage::new(context.interop(), &ImageOptions::new(image)).expect("create");
    let (linear, optimal) = (new(linear), new(linear.tiling(vk::ImageTiling::OPTIMAL)));
    let error = linear.array_desc().expect_err("no array");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("subresource_layout"), "{error}");
    let error = optimal.image().subresource_layout(0, 0).expect_err("no layout");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(optimal.array_desc().expect("an array").levels, 1);
    assert_eq!(linear.import_request().expect("export").image(), None);
    for (level, layer) in [(1, 0), (0, 1), (u32::MAX, 0)] {
        let error = linear.image().subresource_layout(level, layer).expect_err("no such level or layer");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let error = optimal.image().read(0, &mut [0]).expect_err("not mapped");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
