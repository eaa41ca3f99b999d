//! Example: a renderer with its own Vulkan instance, device, images and memory, and three frames in flight.
//!
//! Vulkan renders moving bars to its image and copies them to its exported buffer, a stream of the compute device
//! mirrors them at the horizon, and Vulkan copies the result to host-visible memory. Each pixel of each frame is
//! verified. The last frame is written as a PNG and compared with `pictures/ash_renderer.png`. Here are the frames, in
//! `app.rs` the application's Vulkan. Arguments: seconds of 60 frames (default 5), and the PNG's file (default in the
//! temporary folder).

#![allow(clippy::cast_possible_truncation, reason = "the numbers of a small picture")]

mod app;
#[path = "../pictures/mod.rs"]
mod pictures;

use std::time::{Duration, Instant};

use gpu_interop::MappedBuffer;
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{MemoryPlacement, OwnedBuffer, OwnershipTransfer, VulkanInterop, shared_timeline};

use app::{App, COLOUR, Result, USAGE};

const WIDTH: u32 = 256;
const HEIGHT: u32 = 192;
const ROW: u64 = WIDTH as u64 * 4;
const SIZE: u64 = ROW * HEIGHT as u64;
const SKY: [u8; 4] = [24, 32, 72, 255];
const GENERAL: vk::ImageLayout = vk::ImageLayout::GENERAL;
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory of a frame in flight on both sides, and the commands before and after those of compute.
struct Frame {
    buffer: vk::Buffer,
    mapped: MappedBuffer,
    seen: OwnedBuffer,
    commands: Vec<vk::CommandBuffer>,
}

/// A bar above the horizon, and its colour.
fn bar(frame: u32, index: u8) -> (vk::Rect2D, [u8; 4]) {
    let height = 8 + (frame * 3 + u32::from(index) * 19) % 60;
    let offset = vk::Offset2D { x: i32::from(index) * 32 + 4, y: (HEIGHT / 2 - height) as i32 };
    let extent = vk::Extent2D { width: 24, height };
    (vk::Rect2D { offset, extent }, [60 + index * 24, 200 - index * 20, 160, 255])
}

/// The frame as the host computes it.
fn expected(frame: u32) -> Vec<u8> {
    let (row_size, size) = (ROW as usize, SIZE as usize);
    let mut texels = SKY.repeat(size / 4);
    for (vk::Rect2D { offset, extent }, colour) in (0..8).map(|index| bar(frame, index)) {
        for row in texels.chunks_exact_mut(row_size).skip(offset.y as usize).take(extent.height as usize) {
            row[offset.x as usize * 4..][..24 * 4].copy_from_slice(&colour.repeat(24));
        }
    }
    (0..size / 2).step_by(row_size).for_each(|row| texels.copy_within(row..row + row_size, size - row - row_size));
    texels
}

/// Records the rendering of a frame, and its copy to a buffer.
///
/// # Safety
/// `commands` is recording; all objects are live and of the application.
unsafe fn render(
    app: &App,
    commands: vk::CommandBuffer,
    target: (vk::Image, vk::ImageView),
    to: vk::Buffer,
    frame: u32,
) {
    let colour = |[r, g, b, a]: [u8; 4]| {
        let float32 = [r, g, b, a].map(|channel| f32::from(channel) / 255.0);
        vk::ClearValue { color: vk::ClearColorValue { float32 } }
    };
    let all = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
    let barrier = |from| {
        let barrier = vk::ImageMemoryBarrier::default().image(target.0).subresource_range(COLOUR);
        let barrier = barrier.old_layout(from).new_layout(GENERAL).src_access_mask(all).dst_access_mask(all);
        let stages = vk::PipelineStageFlags::ALL_COMMANDS;
        // SAFETY: the caller's promises.
        unsafe { app.device.cmd_pipeline_barrier(commands, stages, stages, Default::default(), &[], &[], &[barrier]) };
    };
    let area = vk::Rect2D::default().extent(vk::Extent2D { width: WIDTH, height: HEIGHT });
    let attachment = vk::RenderingAttachmentInfo::default().image_view(target.1).image_layout(GENERAL);
    let attachment = attachment.load_op(vk::AttachmentLoadOp::CLEAR).clear_value(colour(SKY));
    let attachments = [attachment.store_op(vk::AttachmentStoreOp::STORE)];
    let rendering = vk::RenderingInfo::default().render_area(area).layer_count(1).color_attachments(&attachments);
    let layers = vk::ImageSubresourceLayers::default().aspect_mask(vk::ImageAspectFlags::COLOR).layer_count(1);
    let copy = vk::BufferImageCopy::default().image_subresource(layers).image_extent(area.extent.into());
    barrier(vk::ImageLayout::UNDEFINED);
    // SAFETY: the caller's promises.
    unsafe {
        app.device.cmd_begin_rendering(commands, &rendering);
        for (rect, bar) in (0..8).map(|index| bar(frame, index)) {
            let clear =
                vk::ClearAttachment::default().aspect_mask(vk::ImageAspectFlags::COLOR).clear_value(colour(bar));
            let rect = vk::ClearRect::default().rect(rect).layer_count(1);
            app.device.cmd_clear_attachments(commands, &[clear], &[rect]);
        }
        app.device.cmd_end_rendering(commands);
        barrier(GENERAL);
        app.device.cmd_copy_image_to_buffer(commands, target.0, GENERAL, to, &[copy]);
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let frames = arguments.next().map_or(Ok(5), |seconds| seconds.parse::<u32>())?.max(1) * 60;
    let file = arguments.next().map_or_else(|| std::env::temp_dir().join("ash_renderer.png"), Into::into);
    let (app, compute) = App::new()?;
    let device = &app.device;
    // SAFETY: instance and device belong together, live as long as the owner, and have the extensions and the feature.
    let interop = unsafe { VulkanInterop::with_owner(&app.instance, app.physical, device, app.clone()) }?;
    let stream = compute.create_stream()?;
    let (rendered, renders) = shared_timeline(&interop, &compute, 0)?;
    let (computed, computes) = shared_timeline(&interop, &compute, 0)?;
    let (composed, _) = shared_timeline(&interop, &compute, 0)?;
    let pool = vk::CommandPoolCreateInfo::default().flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
    // SAFETY: the device is live, and the structures are complete.
    let pool = unsafe { device.create_command_pool(&pool, None) }?;
    // SAFETY: as `App::owns` calls it.
    app.owns(pool, |device, pool| unsafe { device.destroy_command_pool(pool, None) });
    let target = app.target([WIDTH, HEIGHT])?;
    let mut ring = Vec::new();
    for _ in 0..3 {
        let (buffer, memory) = app.buffer(SIZE)?;
        // SAFETY: the memory was allocated with this size, dedicated, and for export.
        let mapped = compute.import_memory(unsafe { interop.export_memory(&memory) }?)?.map_buffer(0..SIZE)?;
        let seen = OwnedBuffer::new(&interop, SIZE, USAGE, MemoryPlacement::HostVisible)?;
        let commands = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(2);
        // SAFETY: the pool is live.
        ring.push(Frame { buffer, mapped, seen, commands: unsafe { device.allocate_command_buffers(&commands) }? });
    }
    let transfer = OwnershipTransfer::all(0);
    let written = vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::TRANSFER_WRITE);
    let mut texels = vec![0; SIZE as usize];
    // Vulkan copies a frame to host-visible memory, once the stream has mirrored it.
    let compose = |number: u32| {
        let (Frame { buffer, seen, commands, .. }, value) = (&ring[number as usize % 3], number.into());
        // A renderer with a window signals a binary semaphore in this submission or a later one, for `vkQueuePresentKHR`, and
        // calls this before. Over a bridge the host then waits for the stream; a native timeline needs no wait.
        computes.before_present(value, PATIENCE)?;
        // SAFETY: recording; the buffers are live, and the stream has released the first one.
        app.submit(commands[1], (&computed, value), (&composed, value), || unsafe {
            interop.record_buffer_acquire(commands[1], *buffer, transfer)?;
            device.cmd_copy_buffer(commands[1], *buffer, seen.as_raw(), &[vk::BufferCopy::default().size(SIZE)]);
            let (to, to_host) = (vk::PipelineStageFlags::HOST, written.dst_access_mask(vk::AccessFlags::HOST_READ));
            device.cmd_pipeline_barrier(
                commands[1],
                vk::PipelineStageFlags::TRANSFER,
                to,
                Default::default(),
                &[to_host],
                &[],
                &[],
            );
            Ok(())
        })
    };
    let mut verify = |number: u32| -> Result<()> {
        composed.wait(number.into(), PATIENCE)?;
        ring[number as usize % 3].seen.read(0, &mut texels)?;
        if texels == expected(number) { Ok(()) } else { Err(format!("frame {number} is wrong").into()) }
    };
    let start = Instant::now();
    for number in 1..=frames + 2 {
        if number > 3 {
            verify(number - 3)?;
        }
        if number <= frames {
            let (Frame { buffer, mapped, commands, .. }, value) = (&ring[number as usize % 3], u64::from(number));
            // SAFETY: recording; the buffer is live, and Vulkan owns it.
            app.submit(commands[0], (&composed, value.saturating_sub(3)), (&rendered, value), || unsafe {
                render(&app, commands[0], target, *buffer, number);
                Ok(interop.record_buffer_release(commands[0], *buffer, transfer)?)
            })?;
            stream.wait_timeline(&renders, value)?;
            for row in (0..SIZE / 2).step_by(ROW as usize) {
                let mirrored = SIZE - row - ROW;
                stream.copy(mapped.slice(mirrored..mirrored + ROW)?, mapped.slice(row..row + ROW)?)?;
            }
            stream.signal_timeline(&computes, value)?;
        }
        // A queue that waits executes nothing behind: the next two frames are rendered first.
        if number > 2 {
            compose(number - 2)?;
        }
    }
    verify(frames)?;
    let (each, file_name) = (start.elapsed() / frames, file.display());
    pictures::write_and_compare(&file, include_bytes!("../pictures/ash_renderer.png"), [WIDTH, HEIGHT], &texels)?;
    println!(
        "{frames} frames by strategy {}, {each:?} each, with {}: {file_name}",
        renders.strategy(),
        compute.identity()
    );
    Ok(())
}
