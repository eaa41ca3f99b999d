//! Pictures that one device exports as dma-bufs and another one imports with their explicit layout, on the devices of this
//! machine; and imports that must fail without a lost descriptor where they have no modifiers.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used)]

mod common;

use std::os::fd::{AsFd, AsRawFd};

use ash::vk;
use common::{assert_same, pattern, vulkan, vulkan_with};
use gpu_interop_core::ErrorKind;
use gpu_interop_core::VideoFormat;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_vulkan::{
    ExportableVideo, HeadlessContext, HeadlessOptions, ImportedPicture, MemoryPlacement, ModifierSupport, OwnedBuffer,
    PictureOptions, Producer, VideoOptions, VideoSpec,
};

const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);
const EXTENT: [u32; 2] = [150, 90];

fn import(
    context: &HeadlessContext,
    picture: DmaBufPicture,
) -> Result<ImportedPicture, (gpu_interop_core::Error, DmaBufPicture)> {
    let options = PictureOptions::new(USAGE).producer(Producer::SameDriver);
    // SAFETY: the picture is exported by this test, or its descriptors are rejected.
    unsafe { ImportedPicture::new(context.interop(), picture, &options) }
        .map_err(gpu_interop_core::ImportError::into_parts)
}

/// Copies a plane to the host.
fn download(
    context: &HeadlessContext,
    picture: &ImportedPicture,
    plane: usize,
    [width, height]: [u32; 2],
    size: u64,
) -> Vec<u8> {
    let usage = vk::BufferUsageFlags::TRANSFER_DST;
    let staging = OwnedBuffer::new(context.interop(), size, usage, MemoryPlacement::HostVisible).expect("a buffer");
    let region = [vk::BufferImageCopy::default()
        .image_subresource(vk::ImageSubresourceLayers {
            aspect_mask: picture.plane_aspect(plane).expect("a plane"),
            layer_count: 1,
            ..Default::default()
        })
        .image_extent(vk::Extent3D { width, height, depth: 1 })];
    let copy = |commands: &mut gpu_interop_vulkan::Recording<'_>| {
        commands.keep(&staging);
        commands.keep_image(picture.image());
        let (image, general) = (picture.image().as_raw(), vk::ImageLayout::GENERAL);
        let device = context.interop().device();
        // SAFETY: recording; image and buffer are live, kept, and have these sizes; this device owns the image.
        unsafe { device.cmd_copy_image_to_buffer(commands.as_raw(), image, general, staging.as_raw(), &region) };
        Ok(())
    };
    context.run(copy).expect("a copy");
    let mut bytes = vec![0; usize::try_from(size).expect("small")];
    staging.read(0, &mut bytes).expect("mapped");
    bytes
}

/// The picture of each modifier, exported by one device, read by the other. `false` if the exporter lacks it.
fn shared(from: &HeadlessContext, to: &HeadlessContext, format: VideoFormat, support: ModifierSupport) -> bool {
    let options = VideoOptions::new(VideoSpec::new(format, EXTENT, USAGE));
    let exported = match ExportableVideo::with_modifiers(from.interop(), &options, &[support.modifier]) {
        Ok(exported) => exported,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            return false;
        }
    };
    let plane_size = |plane| {
        let [width, height] = format.plane_extent(plane, EXTENT).map(u64::from);
        width * height * u64::from(format.texel(plane).texel_size())
    };
    let texels: Vec<_> = (7..).zip(0..format.planes()).map(|(seed, plane)| pattern(seed, plane_size(plane))).collect();
    from.initialize_video(&exported).expect("initialised");
    from.upload_video(&exported, &texels).expect("uploaded");
    from.release_video(&exported).expect("released");
    let picture = exported.dma_buf_picture().expect("dma-bufs");
    // Mesa before 23 reports such layouts of all memory planes but the first.
    if picture.planes.iter().skip(1).any(|plane| plane.offset == 0) {
        println!("skipped: {format}, {}: the driver reports no offset of chroma", support.modifier);
        return false;
    }
    let imported = import(to, picture).map_err(|(error, _)| error).expect("an import");
    to.acquire_image(imported.image()).expect("acquired");
    for (plane, texels) in texels.iter().enumerate() {
        let found = download(to, &imported, plane, format.plane_extent(plane, EXTENT), plane_size(plane));
        assert_same(&found, texels, &format!("{format}, {}, plane {plane}", support.modifier));
    }
    to.release_image(imported.image()).expect("released");
    true
}

#[test]
fn exported_pictures_are_imported_with_each_modifier() {
    // Emulated graphics queues copy no images.
    let options = || HeadlessOptions::default().computing(true);
    let (Some(first), Some(second)) = (vulkan_with(options()), vulkan_with(options())) else { return };
    let [first, second]: [&HeadlessContext; 2] = [&first, &second];
    let (first, second) = (first.computing().unwrap_or(first), second.computing().unwrap_or(second));
    let mut count = 0;
    for format in [VideoFormat::Nv12, VideoFormat::Yuv420] {
        let code = format.drm().expect("a code");
        match second.interop().picture_modifiers(code, USAGE) {
            Ok(modifiers) => {
                println!("{format}: {modifiers:?}");
                count += modifiers.into_iter().filter(|found| shared(first, second, format, *found)).count();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                assert!(error.message().contains("VK_EXT_image_drm_format_modifier"), "{error}");
                println!("skipped: {error}");
            }
        }
    }
    println!("{count} pictures were shared");
}

/// Memory that no driver has exported: an error, and the same descriptors, whatever the driver says.
#[test]
fn pictures_in_other_memory_come_back_open() {
    let Some(context) = vulkan() else { return };
    let file = rustix::fs::memfd_create("picture", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&file, 64 << 10).expect("ftruncate");
    for modifier in [DrmModifier::LINEAR, DrmModifier::INVALID, DrmModifier(0x0200_0000_0000_0901)] {
        for (offset, pitch) in [(1 << 16, 256), (0, 1), (u64::MAX, 256)] {
            let plane = DmaBufPlane::new(file.try_clone().expect("a duplicate"), offset, pitch);
            let number = plane.fd.as_raw_fd();
            let picture = DmaBufPicture::new(DrmFourcc::from_code("XR24"), modifier, [64, 32], vec![plane]);
            let (error, picture) = import(&context, picture).expect_err("not a picture");
            assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Unsupported), "{error}");
            assert_eq!(picture.planes[0].fd.as_raw_fd(), number);
            assert_eq!(classify_fd(picture.planes[0].fd.as_fd()), FdKind::Memory);
        }
    }
}
