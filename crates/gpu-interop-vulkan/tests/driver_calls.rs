//! In which order objects end: some functions of the driver are replaced by ones that take notes.

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
    /// The driver's own functions.
    static REAL: RefCell<Option<ash::DeviceFnV1_0>> = const { RefCell::new(None) };
    /// The ends of objects on this thread, in order.
    static ENDS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

fn real<R>(call: impl FnOnce(&ash::DeviceFnV1_0) -> R) -> R {
    REAL.with_borrow(|real| call(real.as_ref().expect("set by `observed`")))
}

fn end(what: &'static str) {
    ENDS.with_borrow_mut(|ends| ends.push(what));
}

unsafe extern "system" fn destroy_buffer(
    device: vk::Device,
    buffer: vk::Buffer,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    end("buffer");
    // SAFETY: the caller's call, passed on.
    real(|real| unsafe { (real.destroy_buffer)(device, buffer, allocator) });
}

unsafe extern "system" fn destroy_image(
    device: vk::Device,
    image: vk::Image,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    end("image");
    // SAFETY: the caller's call, passed on.
    real(|real| unsafe { (real.destroy_image)(device, image, allocator) });
}

unsafe extern "system" fn free_memory(
    device: vk::Device,
    memory: vk::DeviceMemory,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    end("memory");
    // SAFETY: the caller's call, passed on.
    real(|real| unsafe { (real.free_memory)(device, memory, allocator) });
}

unsafe extern "system" fn bind_buffer(_: vk::Device, _: vk::Buffer, _: vk::DeviceMemory, _: u64) -> vk::Result {
    vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
}

unsafe extern "system" fn bind_image(_: vk::Device, _: vk::Image, _: vk::DeviceMemory, _: u64) -> vk::Result {
    vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
}

/// The context's device, with some functions replaced. Works on the thread that it was made on.
fn observed(context: &HeadlessContext, replace: impl FnOnce(&mut ash::DeviceFnV1_0)) -> VulkanInterop {
    let interop = context.interop();
    let device = interop.device();
    let mut functions = device.fp_v1_0().clone();
    REAL.set(Some(functions.clone()));
    replace(&mut functions);
    let (v1_1, v1_2, v1_3) = (device.fp_v1_1().clone(), device.fp_v1_2().clone(), device.fp_v1_3().clone());
    let device = ash::Device::from_parts_1_3(device.handle(), functions, v1_1, v1_2, v1_3);
    // SAFETY: instance and devices are the context's own, which the tests keep to their end.
    unsafe { VulkanInterop::new(interop.instance(), interop.physical_device(), &device) }.expect("the same device")
}

#[test]
fn an_object_goes_before_its_memory_even_if_the_two_were_never_bound() {
    let Some(context) = vulkan() else { return };
    let device = observed(&context, |functions| {
        functions.destroy_buffer = destroy_buffer;
        functions.destroy_image = destroy_image;
        functions.free_memory = free_memory;
        functions.bind_buffer_memory = bind_buffer;
        functions.bind_image_memory = bind_image;
    });
    let error = ExportableBuffer::new(&device, &BufferOptions::new(4096, USAGE)).expect_err("not bound");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(ENDS.take(), ["buffer", "memory"]);
    let image = ImageSpec::new(vk::ImageViewType::TYPE_2D, [16, 8, 1], vk::Format::R8G8B8A8_UNORM, IMAGE_USAGE);
    let error = ExportableImage::new(&device, &ImageOptions::new(image)).expect_err("not bound");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(ENDS.take(), ["image", "memory"]);
}
