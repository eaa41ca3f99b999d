//! Usages, flags, tilings and formats that must not reach the driver. The validation layer reports those that do.

#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use common::vulkan;
use gpu_interop_core::{ErrorKind, MemoryHandleKind};
use gpu_interop_vulkan::{
    BufferOptions, ExportableBuffer, ExportableImage, ImageOptions, ImageSpec, MemoryPlacement, OwnedBuffer,
};

/// Not known to the device, of video, of acceleration structures, of descriptor buffers, and unknown bits.
#[test]
fn usages_of_buffers_that_the_device_lacks_are_rejected() {
    let Some(context) = vulkan() else { return };
    let interop = context.interop();
    let bits = [0x2000, 0x8000, 0x10_0000, 0x8_0000, 0x20_0000, 0x8000_0000, 0xffff_ffff];
    for usage in bits.map(vk::BufferUsageFlags::from_raw) {
        let exportable = ExportableBuffer::new(interop, &BufferOptions::new(64, usage)).map(drop);
        let owned = OwnedBuffer::new(interop, 64, usage, MemoryPlacement::DeviceLocal).map(drop);
        let queried = interop.buffer_features(MemoryHandleKind::OpaqueFd, usage).map(drop);
        for outcome in [exportable, owned, queried] {
            assert_eq!(outcome.expect_err("rejected").kind(), ErrorKind::Unsupported, "{usage:?}");
        }
    }
}

/// A context's device has the feature if the hardware does.
#[test]
fn buffers_with_an_address_have_the_feature() {
    let Some(context) = vulkan() else { return };
    let usage = common::USAGE | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
    match ExportableBuffer::new(context.interop(), &BufferOptions::new(64, usage)) {
        Ok(exported) => {
            let info = vk::BufferDeviceAddressInfo::default().buffer(exported.buffer().as_raw());
            // SAFETY: the buffer is live, bound, and was created for the usage.
            assert_ne!(unsafe { context.interop().device().get_buffer_device_address(&info) }, 0);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains("bufferDeviceAddress"), "{error}");
        }
    }
}

#[test]
fn parameters_that_no_shared_image_has_are_rejected() {
    let Some(context) = vulkan() else { return };
    let usage = vk::ImageUsageFlags::TRANSFER_DST;
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, [16, 16, 1], vk::Format::R8G8B8A8_UNORM, usage);
    let mut unknown = spec;
    unknown.format = vk::Format::from_raw(190);
    let mut used = spec;
    used.usage = usage | vk::ImageUsageFlags::from_raw(1 << 31);
    // The flag is defined, so a query answers.
    let volume = spec.flags(vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE);
    let undefined = [
        spec.flags(vk::ImageCreateFlags::from_raw(1 << 30)),
        spec.tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT),
        spec.tiling(vk::ImageTiling::from_raw(7)),
        unknown,
        used,
    ];
    for spec in undefined.into_iter().chain([volume]) {
        let error = ExportableImage::new(context.interop(), &ImageOptions::new(spec)).map(drop).expect_err("rejected");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{spec:?}");
    }
    let querying =
        |spec: ImageSpec| context.interop().image_features(MemoryHandleKind::OpaqueFd, &spec.query()).map(drop);
    for spec in undefined {
        let error = querying(spec).expect_err("rejected");
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::Unsupported, "VulkanInterop::image_features"),
            "{spec:?}"
        );
    }
    if let Err(error) = querying(volume) {
        assert_eq!(error.operation(), "vkGetPhysicalDeviceImageFormatProperties2");
    }
}
