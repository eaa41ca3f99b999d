//! Images and commands that must be rejected with a typed error before they reach the driver. The validation layer
//! checks that.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use ash::vk::ImageViewType as View;
use common::{Checked, IMAGE_USAGE, USAGE, assert_texels, rejected, upload_all, vulkan};
use gpu_interop_core::{ErrorKind, MemoryHandleKind};
use gpu_interop_vulkan::{ExportableImage, ImageOptions, ImageSpec, MemoryPlacement, OwnedBuffer};

const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;

fn with(format: vk::Format, usage: vk::ImageUsageFlags) -> ImageSpec {
    ImageSpec::new(View::TYPE_2D, [16, 8, 1], format, usage)
}

fn flat() -> ImageSpec {
    with(FORMAT, IMAGE_USAGE)
}

fn create(context: &Checked, image: ImageSpec) -> ExportableImage {
    ExportableImage::new(context.interop(), &ImageOptions::new(image)).expect("create")
}

#[test]
fn invalid_images_are_rejected() {
    let Some(context) = vulkan() else { return };
    use ErrorKind::{InvalidArgument, Unsupported};
    let image = |view, extent| ImageSpec::new(view, extent, FORMAT, IMAGE_USAGE);
    let cases = [
        (flat().levels(0), InvalidArgument, "from 1 to 5"),
        (flat().levels(6), InvalidArgument, "from 1 to 5"),
        (flat().levels(u32::MAX), InvalidArgument, "from 1 to 5"),
        (flat().layers(0), InvalidArgument, "at least 1"),
        (image(View::TYPE_2D, [0, 8, 1]), InvalidArgument, "at least 1"),
        (image(View::TYPE_2D, [16, 8, 0]), InvalidArgument, "at least 1"),
        (image(View::TYPE_1D, [16, 8, 1]), InvalidArgument, "height of 1"),
        (image(View::CUBE, [16, 8, 1]), InvalidArgument, "square"),
        (image(View::CUBE, [16, 16, 1]).layers(12), InvalidArgument, "six layers"),
        (image(View::CUBE_ARRAY, [16, 16, 1]).layers(8), InvalidArgument, "six layers"),
        (with(FORMAT, vk::ImageUsageFlags::empty()), InvalidArgument, "no usage"),
        (image(View::TYPE_2D, [u32::MAX, 8, 1]), Unsupported, "large an extent"),
        (image(View::TYPE_2D_ARRAY, [16, 8, 1]).layers(u32::MAX), Unsupported, "many layers"),
        (with(vk::Format::R8G8B8_UNORM, IMAGE_USAGE), Unsupported, "not 3"),
        (with(vk::Format::D32_SFLOAT, IMAGE_USAGE), Unsupported, "depth"),
        (with(vk::Format::BC7_SRGB_BLOCK, IMAGE_USAGE), Unsupported, "compressed"),
        (with(FORMAT, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT), Unsupported, "only"),
        (flat().tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT), Unsupported, "OPTIMAL or LINEAR"),
    ];
    for (image, kind, words) in cases {
        let error = ExportableImage::new(context.interop(), &ImageOptions::new(image)).expect_err("rejected");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error} should contain: {words}");
    }
}

#[test]
fn image_creation_agrees_with_the_query() {
    let Some(context) = vulkan() else { return };
    for kind in MemoryHandleKind::ALL {
        let options = ImageOptions::new(flat()).handle(*kind);
        let created = ExportableImage::new(context.interop(), &options);
        match context.interop().image_features(*kind, &flat().query()) {
            Ok(features) if features.exportable => {
                let image = created.expect("the device reports support");
                assert_eq!(image.handle_kind(), *kind);
                assert!(image.image().is_dedicated() || !features.dedicated_only);
            }
            _ => {
                assert_eq!(created.expect_err("the device reports no support").kind(), ErrorKind::Unsupported, "{kind}")
            }
        }
    }
}

#[test]
fn invalid_commands_on_images_are_rejected() {
    let (Some(context), Some(other)) = (vulkan(), vulkan()) else { return };
    let image = create(&context, flat().levels(2));
    let image = image.image();
    let level = vec![0; 16 * 8 * 4];
    let buffer = OwnedBuffer::new(context.interop(), 4096, USAGE, MemoryPlacement::DeviceLocal).expect("buffer");
    rejected(context.upload_image(image, 0, 0, &level), "no layout yet");
    rejected(context.download_image(image, 0, 0, &mut level.clone()), "no layout yet");
    rejected(context.release_image(image), "no layout yet");
    // A recording that is not submitted initialises nothing.
    let aborted = context.run(|recording| {
        recording.initialize_image(image)?;
        Err(gpu_interop_core::Error::invalid("test", "stopped on purpose"))
    });
    rejected(aborted, "stopped on purpose");
    rejected(context.upload_image(image, 0, 0, &level), "no layout yet");

    context.initialize_image(image).expect("initialize");
    upload_all(&context, image, 1);
    rejected(context.upload_image(image, 2, 0, &level), "no such mip level");
    rejected(context.upload_image(image, 0, 1, &level), "no such mip level or layer");
    rejected(context.upload_image(image, 0, 0, &level[1..]), "not have the size");
    rejected(context.upload_image(image, 1, 0, &level), "not have the size");
    rejected(context.download_image(image, 0, 0, &mut []), "not have the size");
    let copy = |offset, level| context.run(|recording| recording.copy_to_image(&buffer, offset, image, level, 0));
    rejected(copy(2, 0), "multiple of 4");
    rejected(copy(4096 - 508, 0), "past the end");
    rejected(copy(u64::MAX - 3, 0), "past the end");
    copy(4096 - 128, 1).expect("the last bytes of the buffer");
    upload_all(&context, image, 1);
    rejected(other.initialize_image(image), "another device");
    rejected(other.acquire_image(image), "another device");
    rejected(other.release_image(image), "another device");
    rejected(other.upload_image(image, 0, 0, &level), "another device");

    let wide = create(&context, ImageSpec::new(View::TYPE_2D, [4, 4, 1], vk::Format::R32G32B32A32_UINT, IMAGE_USAGE));
    context.initialize_image(wide.image()).expect("initialize");
    let copy = |offset| context.run(|recording| recording.copy_from_image(wide.image(), 0, 0, &buffer, offset));
    rejected(copy(8), "of the texel's size");
    copy(16).expect("aligned to the texel");

    let sampled = create(&context, with(FORMAT, vk::ImageUsageFlags::SAMPLED));
    context.initialize_image(sampled.image()).expect("initialize");
    rejected(context.upload_image(sampled.image(), 0, 0, &level), "TRANSFER_DST");
    rejected(context.download_image(sampled.image(), 0, 0, &mut level.clone()), "TRANSFER_SRC");
    assert_texels(&context, image, 1, "rejected commands copy nothing");
}

#[test]
fn rejected_imports_return_the_handle() {
    use gpu_interop_core::{MemoryImport, Uuid};
    use gpu_interop_vulkan::{ImageImportOptions, ImportedImage};
    use std::os::fd::AsRawFd;

    let Some(context) = vulkan() else { return };
    let exported = create(&context, flat());
    let foreign = context.identity().clone().with_uuid(Uuid::from_bytes([0xee; 16]));
    let request = || exported.import_request().expect("export");
    let larger = ImageSpec::new(View::TYPE_2D, [512, 512, 1], FORMAT, IMAGE_USAGE);
    let good = ImageImportOptions::new(flat());
    let cases = [
        (request(), ImageImportOptions::new(larger), ErrorKind::InvalidArgument),
        (request(), ImageImportOptions::new(flat().levels(9)), ErrorKind::InvalidArgument),
        (request(), ImageImportOptions::new(with(vk::Format::D16_UNORM, IMAGE_USAGE)), ErrorKind::Unsupported),
        // Images that fit the memory but differ from the exporter's.
        (
            request(),
            ImageImportOptions::new(ImageSpec::new(View::TYPE_2D, [8, 2, 1], FORMAT, IMAGE_USAGE)),
            ErrorKind::InvalidArgument,
        ),
        (request(), ImageImportOptions::new(with(vk::Format::R32_SFLOAT, IMAGE_USAGE)), ErrorKind::InvalidArgument),
        (request(), good.memory_type(31), ErrorKind::InvalidArgument),
        (request().exported_by(foreign), good, ErrorKind::DeviceMismatch),
    ];
    for (request, options, kind) in cases {
        let number = request.handle().as_fd().expect("a descriptor").as_raw_fd();
        let failure = ImportedImage::new(context.interop(), request, &options).expect_err("rejected");
        assert_eq!(failure.kind(), kind, "{}", failure.error());
        let (handle, again) = (failure.into_request().into_handle(), exported.import_request().expect("export"));
        // SAFETY: the handle refers to the same memory as that of the other request, which the exporter made.
        let request = unsafe { MemoryImport::new(handle, again.size()).dedicated(again.is_dedicated()) };
        assert_eq!(request.handle().as_fd().expect("a descriptor").as_raw_fd(), number);
        // The returned handle is still valid.
        ImportedImage::new(context.interop(), request, &good).expect("import");
    }
}

/// A dedicated allocation belongs to its image, and an imported image must start at the exporter's offset.
#[test]
fn image_memory_is_not_imported_as_a_buffer_or_at_another_offset() {
    use gpu_interop_vulkan::{BufferImportOptions, ImageImportOptions, ImportedBuffer, ImportedImage};
    let Some(context) = vulkan() else { return };
    let exported =
        ExportableImage::new(context.interop(), &ImageOptions::new(flat()).dedicated(true)).expect("an image");
    let request = exported.import_request().expect("export");
    let options = BufferImportOptions::new(request.size(), vk::BufferUsageFlags::TRANSFER_SRC);
    let failure = ImportedBuffer::new(context.interop(), request, &options).expect_err("dedicated to an image");
    assert_eq!(failure.kind(), ErrorKind::InvalidArgument, "{}", failure.error());
    let behind = ExportableImage::new(context.interop(), &ImageOptions::new(flat()).offset(1 << 16)).expect("an image");
    let request = behind.import_request().expect("export");
    let failure =
        ImportedImage::new(context.interop(), request, &ImageImportOptions::new(flat())).expect_err("another offset");
    assert!(failure.error().to_string().contains("offset"), "{}", failure.error());
}

#[test]
fn transfers_reject_layouts_without_contents() {
    use gpu_interop_vulkan::OwnershipTransfer;
    let Some(context) = vulkan() else { return };
    let image = create(&context, flat());
    let all = OwnershipTransfer::all(context.queue_family());
    context
        .run(|recording| {
            recording.initialize_image(image.image())?;
            let commands = recording.as_raw();
            for layout in [vk::ImageLayout::UNDEFINED, vk::ImageLayout::PREINITIALIZED] {
                // SAFETY: rejected, so nothing is recorded.
                let (release, acquire) = unsafe {
                    (
                        image.image().record_release(commands, all, layout),
                        image.image().record_acquire(commands, all, layout),
                    )
                };
                for outcome in [release, acquire] {
                    assert_eq!(outcome.expect_err("no such layout").kind(), ErrorKind::InvalidArgument);
                }
            }
            let not_a_family = OwnershipTransfer::all(vk::QUEUE_FAMILY_EXTERNAL);
            // SAFETY: rejected, so nothing is recorded.
            let outcome = unsafe { image.image().record_release(commands, not_a_family, vk::ImageLayout::GENERAL) };
            assert_eq!(outcome.expect_err("no such family").kind(), ErrorKind::InvalidArgument);
            Ok(())
        })
        .expect("run");
}
