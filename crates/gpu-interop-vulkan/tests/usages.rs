//! Usages, flags, tilings and formats that must not reach the driver. The validation layer reports those that do.

#![allow(clippy::expect_used)]

mod common;

use ash::vk;
use common::vulkan;
use gpu_interop_core::{ErrorKind, MemoryHandleKind};
use gpu_interop_vulkan::{
    BufferOptions, ExportableBuffer, ExportableImage, ImageOptions, ImageQuery, ImageSpec, MemoryPlacement, OwnedBuffer,
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
    let flags = [vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE, vk::ImageCreateFlags::from_raw(1 << 30)];
    let tilings = [vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT, vk::ImageTiling::from_raw(7)];
    let query = spec.query();
    let bad_flags = flags.map(|flags| (spec.flags(flags), ImageQuery { flags, ..query }));
    let bad_tilings = tilings.map(|tiling| (spec.tiling(tiling), ImageQuery { tiling, ..query }));
    let format = vk::Format::from_raw(190);
    let mut unknown = spec;
    unknown.format = format;
    for (spec, query) in bad_flags.into_iter().chain(bad_tilings).chain([(unknown, ImageQuery { format, ..query })]) {
        let image = ExportableImage::new(context.interop(), &ImageOptions::new(spec)).map(drop);
        let queried = context.interop().image_features(MemoryHandleKind::OpaqueFd, &query).map(drop);
        for outcome in [image, queried] {
            assert_eq!(outcome.expect_err("rejected").kind(), ErrorKind::Unsupported, "{spec:?}");
        }
    }
}
