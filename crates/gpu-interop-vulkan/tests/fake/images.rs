//! Images and their memory.

use ash::vk;
use gpu_interop_core::MemoryHandle;
use gpu_interop_test_support::request::dedicated_request;
use gpu_interop_vulkan::{ExportableImage, ImageImportOptions, ImageOptions, ImageSpec, ImportedImage};

use crate::assert_calls;
use crate::driver::{Settings, calls, file, lend, start};

/// `VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_SAMPLED_BIT`.
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(0x6);

fn flat() -> ImageSpec {
    ImageSpec::new(vk::ImageViewType::TYPE_2D, [16, 8, 1], vk::Format::R8G8B8A8_UNORM, USAGE)
}

#[test]
fn exportable_images() {
    let interop = start(Settings::default());
    let image = ExportableImage::new(&interop, &ImageOptions::new(flat().levels(3)).offset(100)).expect("an image");
    image.export().expect("a descriptor");
    drop(image);
    assert_calls(&[
        // VK_FORMAT_R8G8B8A8_UNORM, VK_IMAGE_TYPE_2D, VK_IMAGE_TILING_OPTIMAL.
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 37, type 1, tiling 0, usage 0x6, flags 0x0} \
         1000071000{type 0x1}",
        "vkCreateImage 14{flags 0x0, type 1, format 37, extent 16 8 1, levels 3, layers 1, samples 0x1, tiling 0, usage \
         0x6, sharing 0, families 0, layout 0} 1000072001{types 0x1}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1}",
        "vkAllocateMemory 5{size 12288, memory type 1} 1000072002{types 0x1}",
        "vkBindImageMemory 0xa1, 0xd1, 4096",
        "vkGetMemoryFdKHR 1000074002{memory 0xd1, type 0x1}",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
    ]);
}

#[test]
fn views_map_to_image_types_and_flags() {
    use vk::ImageViewType as View;
    // VkImageType, VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT.
    for (view, extent, layers, expected) in [
        (View::TYPE_1D, [16, 1, 1], 1, "flags 0x0, type 0, format 37, extent 16 1 1, levels 1, layers 1,"),
        (View::TYPE_1D_ARRAY, [16, 1, 1], 3, "flags 0x0, type 0, format 37, extent 16 1 1, levels 1, layers 3,"),
        (View::TYPE_2D, [16, 8, 1], 1, "flags 0x0, type 1, format 37, extent 16 8 1, levels 1, layers 1,"),
        (View::TYPE_2D_ARRAY, [16, 8, 1], 3, "flags 0x0, type 1, format 37, extent 16 8 1, levels 1, layers 3,"),
        (View::TYPE_3D, [16, 8, 4], 1, "flags 0x0, type 2, format 37, extent 16 8 4, levels 1, layers 1,"),
        (View::CUBE, [8, 8, 1], 6, "flags 0x10, type 1, format 37, extent 8 8 1, levels 1, layers 6,"),
        (View::CUBE_ARRAY, [8, 8, 1], 12, "flags 0x10, type 1, format 37, extent 8 8 1, levels 1, layers 12,"),
    ] {
        let interop = start(Settings::default());
        let spec = ImageSpec::new(view, extent, vk::Format::R8G8B8A8_UNORM, USAGE).layers(layers);
        drop(ExportableImage::new(&interop, &ImageOptions::new(spec)).expect("an image"));
        let found = calls();
        assert!(found[1].starts_with(&format!("vkCreateImage 14{{{expected}")), "{}", found[1]);
        let [flags, ty] = [0, 1].map(|part| expected.split(", ").nth(part).expect("a part"));
        let query = format!("1000059004{{format 37, {ty}, tiling 0, usage 0x6, {flags}}}");
        assert!(found[0].contains(&query), "{} should contain {query}", found[0]);
    }
}

#[test]
fn linear_images_in_host_memory() {
    let interop = start(Settings::default());
    let options = ImageOptions::new(flat().tiling(vk::ImageTiling::LINEAR));
    let image = ExportableImage::new(&interop, &options.memory(gpu_interop_vulkan::MemoryPlacement::HostVisible));
    let image = image.expect("an image");
    image.image().subresource_layout(0, 0).expect("a layout");
    let found = calls();
    assert!(found[0].contains("tiling 1"), "{}", found[0]);
    assert!(found[1].contains("tiling 1"), "{}", found[1]);
    assert_eq!(
        found[3..],
        [
            "vkAllocateMemory 5{size 8192, memory type 3} 1000072002{types 0x1}",
            "vkMapMemory 0xd1, offset 0, size 0xffffffffffffffff, flags 0x0",
            "vkBindImageMemory 0xa1, 0xd1, 0",
            // VK_IMAGE_ASPECT_COLOR_BIT.
            "vkGetImageSubresourceLayout 0xa1, aspect 0x1, level 0, layer 0",
        ]
    );
}

#[test]
fn dedicated_allocations_name_their_image() {
    let interop = start(Settings::default());
    drop(ExportableImage::new(&interop, &ImageOptions::new(flat()).dedicated(true)).expect("an image"));
    let expected =
        "vkAllocateMemory 5{size 8192, memory type 1} 1000072002{types 0x1} 1000127001{image 0xa1, buffer 0x0}";
    assert_eq!(calls()[3], expected);
}

#[test]
fn imported_images() {
    let interop = start(Settings::default());
    let fd = file(8192);
    lend(&fd);
    let request = dedicated_request(MemoryHandle::OpaqueFd(fd), 8192, true);
    drop(ImportedImage::new(&interop, request, &ImageImportOptions::new(flat())).expect("imported"));
    assert_calls(&[
        "vkGetPhysicalDeviceImageFormatProperties2 1000059004{format 37, type 1, tiling 0, usage 0x6, flags 0x0} \
         1000071000{type 0x1}",
        "vkCreateImage 14{flags 0x0, type 1, format 37, extent 16 8 1, levels 1, layers 1, samples 0x1, tiling 0, usage \
         0x6, sharing 0, families 0, layout 0} 1000072001{types 0x1}",
        "vkGetImageMemoryRequirements2 1000146001{image 0xa1}",
        "vkAllocateMemory 5{size 8192, memory type 1} 1000074000{type 0x1, a duplicate of the file, closed on exec} \
         1000127001{image 0xa1, buffer 0x0}",
        "vkBindImageMemory 0xa1, 0xd1, 0",
        "vkDestroyImage 0xa1",
        "vkFreeMemory 0xd1",
    ]);
}
