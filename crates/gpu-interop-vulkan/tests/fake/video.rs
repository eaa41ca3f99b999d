//! Pictures with several planes, and their memory.

use ash::vk;
use gpu_interop_core::format::{DrmFourcc, DrmModifier};
use gpu_interop_core::{ErrorKind, MemoryHandleKind, VideoFormat};
use gpu_interop_vulkan::{ExportableVideo, PlaneStorage, VideoOptions, VideoSpec};

use crate::assert_calls;
use crate::driver::{Settings, calls, start};

/// `VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT`.
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(0x3);

fn options(format: VideoFormat, storage: PlaneStorage) -> VideoOptions {
    VideoOptions::new(VideoSpec::new(format, [16, 8], USAGE).storage(storage))
}

#[test]
fn separate_planes() {
    let interop = start(Settings::default());
    let video = ExportableVideo::new(&interop, &options(VideoFormat::P010, PlaneStorage::Separate)).expect("a picture");
    assert_eq!((video.memory_count(), video.memory_of(1)), (2, 1));
    video.export(1).expect("a descriptor");
    drop(video);
    assert_calls(&[
        // VK_FORMAT_R16_UNORM, VK_IMAGE_TILING_LINEAR.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 70, type 1, tiling 1, usage 0x3, flags 0x0} \
         1000071000{type 0x1}",
        "vkCreateImage 14{flags 0x0, type 1, format 70, extent 16 8 1, levels 1, layers 1, samples 0x1, tiling 1, usage \
         0x3, sharing 0, families 0, layout 0} 1000072001{types 0x1}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1}",
        "vkBindImageMemory 0xa1, 0xd1, 0",
        // VK_FORMAT_R16G16_UNORM.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 77, type 1, tiling 1, usage 0x3, flags 0x0} \
         1000071000{type 0x1}",
        "vkCreateImage 14{flags 0x0, type 1, format 77, extent 8 4 1, levels 1, layers 1, samples 0x1, tiling 1, usage \
         0x3, sharing 0, families 0, layout 0} 1000072001{types 0x1}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa2}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1}",
        "vkBindImageMemory 0xa2, 0xd2, 0",
        "vkGetMemoryFdKHR 1000074002{memory 0xd2, type 0x1}",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
        "vkDestroyImage 0xa2",
        "vkFreeMemory 0xd2",
    ]);
}

#[test]
fn planes_of_one_image() {
    let interop = start(Settings::default());
    let video = ExportableVideo::new(&interop, &options(VideoFormat::Nv12, PlaneStorage::Joint)).expect("a picture");
    assert_eq!((video.memory_count(), video.memory_of(1)), (1, 0));
    video.plane_layout(1).expect("a layout");
    drop(video);
    assert_calls(&[
        // VK_FORMAT_G8_B8R8_2PLANE_420_UNORM.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 1000156003, type 1, tiling 1, usage 0x3, flags 0x0} \
         1000071000{type 0x1}",
        "vkCreateImage 14{flags 0x0, type 1, format 1000156003, extent 16 8 1, levels 1, layers 1, samples 0x1, tiling 1, \
         usage 0x3, sharing 0, families 0, layout 0} 1000072001{types 0x1}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1}",
        "vkBindImageMemory 0xa1, 0xd1, 0",
        // VK_IMAGE_ASPECT_PLANE_1_BIT.
        "vkGetImageSubresourceLayout 0xa1, aspect 0x20, level 0, layer 0",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
    ]);
}

#[test]
fn planes_of_a_disjoint_image() {
    let interop = start(Settings::default());
    let options = options(VideoFormat::Yuv444, PlaneStorage::Disjoint);
    let video = ExportableVideo::new(&interop, &options).expect("a picture");
    assert_eq!((video.memory_count(), video.memory_of(2), video.image_count()), (3, 2, 1));
    video.export(2).expect("a descriptor");
    drop(video);
    assert_calls(&[
        // VK_FORMAT_G8_B8_R8_3PLANE_444_UNORM, VK_IMAGE_CREATE_DISJOINT_BIT | VK_IMAGE_CREATE_ALIAS_BIT.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 1000156006, type 1, tiling 1, usage 0x3, flags \
         0x600} 1000071000{type 0x1}",
        "vkGetPhysicalDeviceFormatProperties format 1000156006",
        "vkCreateImage 14{flags 0x600, type 1, format 1000156006, extent 16 8 1, levels 1, layers 1, samples 0x1, tiling 1, \
         usage 0x3, sharing 0, families 0, layout 0} 1000072001{types 0x1}",
        // VK_IMAGE_ASPECT_PLANE_0_BIT to VK_IMAGE_ASPECT_PLANE_2_BIT.
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1} 1000156003{plane 0x10}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1} 1000156003{plane 0x20}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1} 1000156003{plane 0x40}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1}",
        "vkBindImageMemory2 1000157001{image 0xa1, memory 0xd1, offset 0} 1000156002{plane 0x10}, \
         1000157001{image 0xa1, memory 0xd2, offset 0} 1000156002{plane 0x20}, \
         1000157001{image 0xa1, memory 0xd3, offset 0} 1000156002{plane 0x40}",
        "vkGetMemoryFdKHR 1000074002{memory 0xd3, type 0x1}",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
        "vkFreeMemory 0xd2",
        "vkFreeMemory 0xd3",
    ]);
}

/// Vulkan forbids dedicated allocations for disjoint images.
#[test]
fn disjoint_images_are_never_dedicated() {
    let new = |settings| {
        let interop = start(settings);
        let outcome = ExportableVideo::new(&interop, &options(VideoFormat::Nv12, PlaneStorage::Disjoint)).map(drop);
        let error = outcome.expect_err("unsupported");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let found = calls();
        assert!(found.iter().all(|call| !call.starts_with("vkAllocateMemory")), "{found:#?}");
        error.message().to_owned()
    };
    assert!(new(Settings { dedicated_only: true, ..Settings::default() }).contains("PlaneStorage::Separate"));
    assert!(new(Settings { requires_dedicated: true, ..Settings::default() }).contains("PlaneStorage::Separate"));
    assert!(
        new(Settings { disjoint: false, ..Settings::default() })
            .contains("no disjoint images of this format and tiling; use PlaneStorage::Separate")
    );
    let interop = start(Settings { requires_dedicated: true, ..Settings::default() });
    drop(ExportableVideo::new(&interop, &options(VideoFormat::Nv12, PlaneStorage::Joint)).expect("a picture"));
    let allocation =
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1} 1000127001{image 0xa1, buffer 0x0}";
    assert_eq!(calls()[3], allocation);
}

/// Planes of optimal tiling are arrays if each is an image of its own, or aliases one.
#[test]
fn arrays_of_planes() {
    let interop = start(Settings::default());
    let video = |storage| {
        let options = options(VideoFormat::Nv12, storage);
        let spec = options.video.tiling(vk::ImageTiling::OPTIMAL);
        ExportableVideo::new(&interop, &VideoOptions::new(spec)).expect("a picture")
    };
    for storage in [PlaneStorage::Separate, PlaneStorage::Disjoint] {
        let video = video(storage);
        let desc = video.plane_array(1).expect("an array");
        assert_eq!((desc.offset, desc.shape.level_extent(0), desc.format.channels()), (0, [8, 4, 1], 2));
        assert_eq!(video.import_request(1).expect("a request").image(), Some(&desc));
    }
    let joint = video(PlaneStorage::Joint);
    assert_eq!(joint.plane_array(0).expect_err("unknown offset").kind(), ErrorKind::Unsupported);
    assert_eq!(joint.import_request(0).expect("a request").image(), None);
}

#[test]
fn dma_bufs_with_modifiers() {
    let interop = start(Settings { modifiers: true, ..Settings::default() });
    let (linear, tiled, other) =
        (DrmModifier::LINEAR, DrmModifier(0x0100_0000_0000_0002), DrmModifier(0x0300_0000_0060_6014));
    let options = options(VideoFormat::Nv12, PlaneStorage::Separate);
    let video = ExportableVideo::with_modifiers(&interop, &options, &[other, tiled, linear]).expect("a picture");
    let picture = video.dma_buf_picture().expect("dma-bufs");
    assert_eq!((picture.format, picture.modifier, picture.extent), (DrmFourcc::from_code("NV12"), linear, [16, 8]));
    let planes: Vec<_> = picture.planes.iter().map(|plane| (plane.offset, plane.dedicated)).collect();
    assert_eq!(planes, [(0, false), (4096, false)]);
    drop((video, picture));
    assert_calls(&[
        // VK_IMAGE_TILING_DRM_FORMAT_MODIFIER_EXT, VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 1000156003, type 1, tiling 1000158000, usage 0x3, \
         flags 0x0} 1000158002{modifier 0x0, sharing 0} 1000071000{type 0x200}",
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 1000156003, type 1, tiling 1000158000, usage 0x3, \
         flags 0x0} 1000158002{modifier 0x100000000000002, sharing 0} 1000071000{type 0x200}",
        "vkCreateImage 14{flags 0x0, type 1, format 1000156003, extent 16 8 1, levels 1, layers 1, samples 0x1, tiling \
         1000158000, usage 0x3, sharing 0, families 0, layout 0} 1000158003{modifiers [0, 100000000000002]} \
         1000072001{types 0x200}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x200}",
        "vkBindImageMemory 0xa1, 0xd1, 0",
        "vkGetImageDrmFormatModifierPropertiesEXT 0xa1",
        // VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT, VK_IMAGE_ASPECT_MEMORY_PLANE_1_BIT_EXT.
        "vkGetImageSubresourceLayout 0xa1, aspect 0x80, level 0, layer 0",
        "vkGetMemoryFdKHR 1000074002{memory 0xd1, type 0x200}",
        "vkGetImageSubresourceLayout 0xa1, aspect 0x100, level 0, layer 0",
        "vkGetMemoryFdKHR 1000074002{memory 0xd1, type 0x200}",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
    ]);
}

/// An importer needs the flag of each allocation.
#[test]
fn dma_bufs_of_dedicated_allocations_have_the_flag() {
    let (needed, demanded) = (
        Settings { modifiers: true, requires_dedicated: true, ..Settings::default() },
        Settings { modifiers: true, dedicated_only: true, ..Settings::default() },
    );
    for settings in [needed, demanded] {
        let interop = start(settings);
        let joint = options(VideoFormat::Nv12, PlaneStorage::Joint);
        let with_modifier = ExportableVideo::with_modifiers(&interop, &joint, &[DrmModifier::LINEAR]);
        let separate = options(VideoFormat::Nv12, PlaneStorage::Separate).handle(MemoryHandleKind::DmaBufFd);
        for video in [with_modifier, ExportableVideo::new(&interop, &separate)] {
            let picture = video.and_then(|video| video.dma_buf_picture()).expect("dma-bufs");
            assert_eq!(picture.planes.iter().map(|plane| plane.dedicated).collect::<Vec<_>>(), [true; 2]);
        }
    }
    let allocations: Vec<_> = calls().into_iter().filter(|call| call.starts_with("vkAllocateMemory")).collect();
    assert_eq!(allocations.len(), 3, "one and two: {allocations:#?}");
    assert!(allocations.iter().all(|call| call.contains("1000127001{image 0xa")), "{allocations:#?}");
}

/// Compression has memory planes beside those of the format, which an importer needs.
#[test]
fn every_memory_plane_of_a_modifier_is_exported() {
    let interop = start(Settings { modifiers: true, memory_planes: 3, ..Settings::default() });
    let options = options(VideoFormat::Nv12, PlaneStorage::Separate);
    let video = ExportableVideo::with_modifiers(&interop, &options, &[DrmModifier::LINEAR]).expect("a picture");
    calls();
    let picture = video.dma_buf_picture().expect("dma-bufs");
    assert_eq!((video.planes(), picture.planes.len()), (2, 3));
    let aspects: Vec<_> = calls().into_iter().filter(|call| call.starts_with("vkGetImageSubresourceLayout")).collect();
    let expected = ["0x80", "0x100", "0x200"];
    assert_eq!(
        aspects,
        expected.map(|aspect| format!("vkGetImageSubresourceLayout 0xa1, aspect {aspect}, level 0, layer 0"))
    );
}

/// RADV of Mesa 22.3 reports every memory plane at the offset of the first one.
#[test]
fn planes_at_one_offset_are_an_error_with_a_remedy() {
    let interop = start(Settings { modifiers: true, plane_step: 0, ..Settings::default() });
    let options = options(VideoFormat::Nv12, PlaneStorage::Separate);
    let video = ExportableVideo::with_modifiers(&interop, &options, &[DrmModifier::LINEAR]).expect("a picture");
    let error = video.dma_buf_picture().expect_err("wrong offsets");
    assert_eq!(error.kind(), ErrorKind::Driver);
    assert!(error.message().contains("ExportableImage::with_modifiers ('R8  ', 'GR88')"), "{error}");
}

/// Drivers that export dma-bufs with a modifier only.
#[test]
fn linear_tiling_that_is_no_dma_buf_has_modifiers_as_the_remedy() {
    let interop = start(Settings { modifiers: true, linear_dma_bufs: false, ..Settings::default() });
    for storage in [PlaneStorage::Separate, PlaneStorage::Joint] {
        let options = options(VideoFormat::Nv12, storage).handle(MemoryHandleKind::DmaBufFd);
        let error = ExportableVideo::new(&interop, &options).map(drop).expect_err("needs a modifier");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("::with_modifiers"), "{error}");
        // Opaque handles need none.
        ExportableVideo::new(&interop, &options.handle(MemoryHandleKind::OpaqueFd)).expect("a picture");
    }
}

#[test]
fn missing_modifiers_are_named() {
    let options = options(VideoFormat::Nv12, PlaneStorage::Joint);
    let error = |settings, modifier| {
        let interop = start(settings);
        let error =
            ExportableVideo::with_modifiers(&interop, &options, &[modifier]).map(drop).expect_err("unsupported");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        error.to_string()
    };
    let tiled = DrmModifier(0x0300_0000_0060_6014);
    let unknown = error(Settings { modifiers: true, ..Settings::default() }, tiled);
    for words in ["NVIDIA_BLOCK_LINEAR_2D", "LINEAR (0x", "INTEL_Y_TILED"] {
        assert!(unknown.contains(words), "{unknown} should contain: {words}");
    }
    assert!(error(Settings::default(), tiled).contains("VK_EXT_image_drm_format_modifier"));
    let interop = start(Settings::default());
    let video = ExportableVideo::new(&interop, &options).expect("a picture");
    assert_eq!(video.dma_buf_picture().expect_err("opaque").kind(), ErrorKind::InvalidArgument);
    let linear = ExportableVideo::new(&interop, &options.handle(MemoryHandleKind::DmaBufFd)).expect("a picture");
    let picture = linear.dma_buf_picture().expect("dma-bufs");
    assert_eq!((picture.modifier, picture.planes.len()), (DrmModifier::LINEAR, 2));
}
