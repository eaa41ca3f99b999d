//! Order of destruction: some driver functions are replaced by mocks that record their calls.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use std::cell::RefCell;

use ash::vk;
use common::{IMAGE_USAGE, USAGE, vulkan};
use gpu_interop_core::ErrorKind;
use gpu_interop_vulkan::{
    BufferOptions, ExportableBuffer, ExportableImage, HeadlessContext, ImageOptions, ImageSpec, VulkanInterop,
};

thread_local! {
    /// The driver's functions.
    static REAL: RefCell<Option<ash::DeviceFnV1_0>> = const { RefCell::new(None) };
    /// The destroyed objects of this thread, in order.
    static DESTROYED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

fn real<R>(call: impl FnOnce(&ash::DeviceFnV1_0) -> R) -> R {
    REAL.with_borrow(|real| call(real.as_ref().expect("set by `with_mocks`")))
}

fn record_destroyed(object: &'static str) {
    DESTROYED.with_borrow_mut(|destroyed| destroyed.push(object));
}

unsafe extern "system" fn destroy_buffer(
    device: vk::Device,
    buffer: vk::Buffer,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    record_destroyed("buffer");
    // SAFETY: forwards the caller's call.
    real(|real| unsafe { (real.destroy_buffer)(device, buffer, allocator) });
}

unsafe extern "system" fn destroy_image(
    device: vk::Device,
    image: vk::Image,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    record_destroyed("image");
    // SAFETY: forwards the caller's call.
    real(|real| unsafe { (real.destroy_image)(device, image, allocator) });
}

unsafe extern "system" fn free_memory(
    device: vk::Device,
    memory: vk::DeviceMemory,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    record_destroyed("memory");
    // SAFETY: forwards the caller's call.
    real(|real| unsafe { (real.free_memory)(device, memory, allocator) });
}

unsafe extern "system" fn bind_buffer(_: vk::Device, _: vk::Buffer, _: vk::DeviceMemory, _: u64) -> vk::Result {
    vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
}

unsafe extern "system" fn bind_image(_: vk::Device, _: vk::Image, _: vk::DeviceMemory, _: u64) -> vk::Result {
    vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
}

/// The context's device with some functions replaced. Valid on the calling thread.
fn with_mocks(context: &HeadlessContext, replace: impl FnOnce(&mut ash::DeviceFnV1_0)) -> VulkanInterop {
    let interop = context.interop();
    let device = interop.device();
    let mut functions = device.fp_v1_0().clone();
    REAL.set(Some(functions.clone()));
    replace(&mut functions);
    let (v1_1, v1_2, v1_3) = (device.fp_v1_1().clone(), device.fp_v1_2().clone(), device.fp_v1_3().clone());
    let device = ash::Device::from_parts_1_3(device.handle(), functions, v1_1, v1_2, v1_3);
    // SAFETY: instance and device belong to the context, which the tests keep to their end.
    unsafe { VulkanInterop::new(interop.instance(), interop.physical_device(), &device) }.expect("the same device")
}

#[test]
fn objects_are_destroyed_before_their_memory_after_a_failed_bind() {
    let Some(context) = vulkan() else { return };
    let device = with_mocks(&context, |functions| {
        functions.destroy_buffer = destroy_buffer;
        functions.destroy_image = destroy_image;
        functions.free_memory = free_memory;
        functions.bind_buffer_memory = bind_buffer;
        functions.bind_image_memory = bind_image;
    });
    let error = ExportableBuffer::new(&device, &BufferOptions::new(4096, USAGE)).expect_err("not bound");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(DESTROYED.take(), ["buffer", "memory"]);
    let image = ImageSpec::new(vk::ImageViewType::TYPE_2D, [16, 8, 1], vk::Format::R8G8B8A8_UNORM, IMAGE_USAGE);
    let error = ExportableImage::new(&device, &ImageOptions::new(image)).expect_err("not bound");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(DESTROYED.take(), ["image", "memory"]);
}
