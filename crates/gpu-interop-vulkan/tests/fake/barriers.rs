//! Ownership transfers. Queue family, access and stage are numbers that differ from every default.
//!
//! By the specification, both barriers of a transfer name the same two families and, for an image, the same two
//! layouts; a release has only a source access, an acquire only a destination access.

use ash::vk::{self, Handle};
use gpu_interop_core::ErrorKind;
use gpu_interop_vulkan::{
    BufferOptions, ExportableBuffer, ExportableImage, ImageOptions, ImageSpec, OwnershipTransfer,
};

use crate::assert_calls;
use crate::driver::{self, FAMILY, Settings, calls, start};

/// `VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT`, `VK_ACCESS_SHADER_WRITE_BIT`.
const SHADER: OwnershipTransfer = OwnershipTransfer {
    queue_family: 5,
    stages: vk::PipelineStageFlags::from_raw(0x800),
    access: vk::AccessFlags::from_raw(0x40),
};

fn buffer() -> ExportableBuffer {
    let interop = start(Settings::default());
    let options = BufferOptions::new(64, vk::BufferUsageFlags::TRANSFER_DST);
    let buffer = ExportableBuffer::new(&interop, &options).expect("a buffer");
    calls();
    buffer
}

fn image() -> ExportableImage {
    let interop = start(Settings::default());
    let usage = vk::ImageUsageFlags::TRANSFER_DST;
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, [16, 8, 1], vk::Format::R8_UNORM, usage);
    let image = ExportableImage::new(&interop, &ImageOptions::new(spec)).expect("an image");
    calls();
    image
}

#[test]
fn buffers_are_released_and_acquired() {
    let exported = buffer();
    let commands = vk::CommandBuffer::from_raw(0xc9);
    let (buffer, interop) = (exported.buffer(), exported.buffer().interop());
    let expected = [
        // To VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, VK_QUEUE_FAMILY_EXTERNAL.
        "vkCmdPipelineBarrier stages 0x800 to 0x2000, flags 0x0, [] [44{access 0x40 to 0x0, family 0x5 to 0xfffffffe, \
         buffer 0xb1, offset 0, size 0xffffffffffffffff}] []",
        // From VK_PIPELINE_STAGE_ALL_COMMANDS_BIT.
        "vkCmdPipelineBarrier stages 0x10000 to 0x800, flags 0x0, [] [44{access 0x0 to 0x40, family 0xfffffffe to 0x5, \
         buffer 0xb1, offset 0, size 0xffffffffffffffff}] []",
    ];
    // SAFETY: the fake driver only records the calls.
    unsafe {
        buffer.record_release(commands, SHADER).expect("recorded");
        buffer.record_acquire(commands, SHADER).expect("recorded");
    }
    assert_calls(&expected);
    // SAFETY: as above.
    unsafe {
        interop.record_buffer_release(commands, buffer.as_raw(), SHADER).expect("recorded");
        interop.record_buffer_acquire(commands, buffer.as_raw(), SHADER).expect("recorded");
    }
    assert_calls(&expected);
}

#[test]
fn images_are_initialised_released_and_acquired() {
    let exported = image();
    let commands = vk::CommandBuffer::from_raw(0xc9);
    // VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL.
    let layout = vk::ImageLayout::from_raw(5);
    let (image, interop) = (exported.image(), exported.image().interop());
    let expected = [
        // VK_ACCESS_MEMORY_WRITE_BIT, then VK_ACCESS_MEMORY_READ_BIT too; VK_QUEUE_FAMILY_IGNORED; from
        // VK_IMAGE_LAYOUT_UNDEFINED to VK_IMAGE_LAYOUT_GENERAL; all levels and layers of VK_IMAGE_ASPECT_COLOR_BIT.
        "vkCmdPipelineBarrier stages 0x10000 to 0x10000, flags 0x0, [] [] [45{access 0x10000 to 0x18000, layout 0 to 1, \
         family 0xffffffff to 0xffffffff, image 0xa1, aspect 0x1, levels 0 0xffffffff, layers 0 0xffffffff}]",
        "vkCmdPipelineBarrier stages 0x800 to 0x2000, flags 0x0, [] [] [45{access 0x40 to 0x0, layout 5 to 1, family 0x5 \
         to 0xfffffffe, image 0xa1, aspect 0x1, levels 0 0xffffffff, layers 0 0xffffffff}]",
        "vkCmdPipelineBarrier stages 0x10000 to 0x800, flags 0x0, [] [] [45{access 0x0 to 0x40, layout 1 to 5, family \
         0xfffffffe to 0x5, image 0xa1, aspect 0x1, levels 0 0xffffffff, layers 0 0xffffffff}]",
    ];
    // SAFETY: the fake driver only records the calls.
    unsafe {
        image.record_initialize(commands);
        image.record_release(commands, SHADER, layout).expect("recorded");
        image.record_acquire(commands, SHADER, layout).expect("recorded");
    }
    assert_calls(&expected);
    // SAFETY: as above.
    let undefined = unsafe {
        interop.record_image_release(commands, image.as_raw(), SHADER, layout).expect("recorded");
        interop.record_image_acquire(commands, image.as_raw(), SHADER, layout).expect("recorded");
        interop.record_image_release(commands, image.as_raw(), SHADER, vk::ImageLayout::UNDEFINED)
    };
    assert_eq!(undefined.expect_err("discards the contents").kind(), ErrorKind::InvalidArgument);
    assert_calls(&expected[1..]);
}

/// `VK_SHARING_MODE_CONCURRENT`: `VK_QUEUE_FAMILY_IGNORED` to and from `VK_QUEUE_FAMILY_EXTERNAL`. This crate creates no such
/// objects.
#[test]
fn concurrent_objects_of_the_application_have_no_family() {
    let concurrent = OwnershipTransfer { queue_family: vk::QUEUE_FAMILY_IGNORED, ..SHADER };
    let (commands, layout) = (vk::CommandBuffer::from_raw(0xc9), vk::ImageLayout::GENERAL);
    let exported = image();
    let (image, interop) = (exported.image(), exported.image().interop());
    let buffer = vk::Buffer::from_raw(0xb7);
    // SAFETY: the fake driver only records the calls.
    unsafe {
        interop.record_buffer_release(commands, buffer, concurrent).expect("recorded");
        interop.record_buffer_acquire(commands, buffer, concurrent).expect("recorded");
        interop.record_image_release(commands, image.as_raw(), concurrent, layout).expect("recorded");
        interop.record_image_acquire(commands, image.as_raw(), concurrent, layout).expect("recorded");
    }
    let families = calls().into_iter().map(|call| {
        let (_, rest) = call.split_once("family ").expect("families");
        rest.split(',').next().map(str::to_owned)
    });
    let (release, acquire) = ("0xffffffff to 0xfffffffe".to_owned(), "0xfffffffe to 0xffffffff".to_owned());
    let expected = [release.clone(), acquire.clone(), release, acquire].map(Some);
    assert_eq!(families.collect::<Vec<_>>(), expected);
    // SAFETY: as above.
    let own = unsafe {
        [image.record_release(commands, concurrent, layout), image.record_acquire(commands, concurrent, layout)]
    };
    for outcome in own {
        let error = outcome.expect_err("exclusive");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("EXCLUSIVE"), "{error}");
    }
    assert_calls(&[]);
}

/// Barriers of a context: its own family, every access and stage.
#[test]
fn contexts_transfer_with_their_own_family() {
    let exported = buffer();
    let context = driver::context(exported.buffer().interop());
    context.release(exported.buffer()).expect("released");
    context.acquire(exported.buffer()).expect("acquired");
    let found: Vec<String> = calls().into_iter().filter(|call| call.contains("[44{")).collect();
    assert_eq!(FAMILY, 7);
    assert_eq!(
        found,
        [
            "vkCmdPipelineBarrier stages 0x10000 to 0x2000, flags 0x0, [] [44{access 0x18000 to 0x0, family 0x7 to \
             0xfffffffe, buffer 0xb1, offset 0, size 0xffffffffffffffff}] []",
            "vkCmdPipelineBarrier stages 0x10000 to 0x10000, flags 0x0, [] [44{access 0x0 to 0x18000, family 0xfffffffe to \
             0x7, buffer 0xb1, offset 0, size 0xffffffffffffffff}] []",
        ]
    );
    let exported = image();
    let context = driver::context(exported.image().interop());
    context.initialize_image(exported.image()).expect("initialised");
    context.release_image(exported.image()).expect("released");
    context.acquire_image(exported.image()).expect("acquired");
    let found: Vec<String> = calls().into_iter().filter(|call| call.contains("[45{")).collect();
    let range = "image 0xa1, aspect 0x1, levels 0 0xffffffff, layers 0 0xffffffff}]";
    let barrier = |stages, access, families| {
        format!(
            "vkCmdPipelineBarrier stages {stages}, flags 0x0, [] [] [45{{access {access}, family {families}, {range}"
        )
    };
    let expected = [
        barrier("0x10000 to 0x10000", "0x10000 to 0x18000, layout 0 to 1", "0xffffffff to 0xffffffff"),
        barrier("0x10000 to 0x2000", "0x18000 to 0x0, layout 1 to 1", "0x7 to 0xfffffffe"),
        barrier("0x10000 to 0x10000", "0x0 to 0x18000, layout 1 to 1", "0xfffffffe to 0x7"),
    ];
    assert_eq!(found, expected);
}
