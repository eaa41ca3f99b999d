//! Example: a kernel of the crate `cudarc` on an image that Vulkan exported, ordered by two timelines.
//!
//! Vulkan draws a scrolling pattern to its image, with optimal tiling. cudarc owns the context, the stream and the
//! kernel, which reads and writes the image through a surface: it inverts the colours under a moving lens. Each texel
//! of each frame is verified. The last frame is written as a PNG and compared with `pictures/cudarc_postprocess.png`.
//! Needs an NVIDIA GPU. Arguments: seconds of 60 frames (default 5), and the PNG's file (default in the temporary
//! folder).

#![allow(clippy::cast_possible_truncation, reason = "the numbers of a small picture")]

use std::time::{Duration, Instant};

use gpu_interop::ArrayUsage;
use gpu_interop::cudarc::cudarc::driver::{CudaFunction, LaunchConfig, PushKernelArg};
use gpu_interop::cudarc::cudarc::nvrtc::Ptx;
use gpu_interop::cudarc::{SharedStream, context_for};
use gpu_interop::vulkan::ash::vk::{BufferUsageFlags, Format, ImageUsageFlags, ImageViewType};
use gpu_interop::vulkan::{
    ExportableImage, HeadlessContext, HeadlessOptions, ImageOptions, ImageSpec, MemoryPlacement, OwnedBuffer,
    SemaphoreOp, shared_timeline,
};

#[path = "pictures/mod.rs"]
mod pictures;

const WIDTH: u32 = 256;
const HEIGHT: u32 = 192;
const ROW: u64 = WIDTH as u64 * 4;
const SIZE: u64 = ROW * HEIGHT as u64;
/// Frames until the pattern repeats, which is a row further in each.
const PERIOD: u32 = 60;
const RADIUS: i32 = 56;
const PATIENCE: Duration = Duration::from_secs(10);

/// Inverts red, green and blue of the texels whose distance from a point has a smaller square.
const KERNEL: &str = "
.version 6.0
.target sm_70
.address_size 64
.visible .entry lens(.param .u64 image, .param .u32 width, .param .u32 lens_x, .param .u32 lens_y, .param .u32 square)
{
    .reg .pred %outside;
    .reg .b32 %block, %threads, %x, %y, %width, %place, %far, %from_x, %from_y, %square, %texel;
    .reg .b64 %image;
    ld.param.u64 %image, [image];
    ld.param.u32 %width, [width];
    ld.param.u32 %from_x, [lens_x];
    ld.param.u32 %from_y, [lens_y];
    ld.param.u32 %square, [square];
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %x, %tid.x;
    mad.lo.u32 %x, %block, %threads, %x;
    mov.u32 %y, %ctaid.y;
    setp.ge.u32 %outside, %x, %width;
    @%outside ret;
    sub.s32 %from_x, %x, %from_x;
    sub.s32 %from_y, %y, %from_y;
    mul.lo.s32 %far, %from_x, %from_x;
    mad.lo.s32 %far, %from_y, %from_y, %far;
    setp.ge.s32 %outside, %far, %square;
    @%outside ret;
    shl.b32 %place, %x, 2;
    suld.b.2d.b32.zero %texel, [%image, {%place, %y}];
    xor.b32 %texel, %texel, 16777215;
    sust.b.2d.b32.zero [%image, {%place, %y}], %texel;
    ret;
}
";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The centre of the lens.
fn lens(frame: u32) -> [i32; 2] {
    let step = i32::try_from(frame % PERIOD).unwrap_or(0);
    [48 + step * 2, 64 + step]
}

/// The rows of all frames.
fn pattern() -> Vec<u8> {
    let texel = |row: u32, x: u32| {
        let tile = if (row / 12 + x / 16).is_multiple_of(2) { 200 } else { 40 };
        [x as u8, tile, (row * 255 / (HEIGHT + PERIOD)) as u8, 255]
    };
    (0..HEIGHT + PERIOD).flat_map(|row| (0..WIDTH).flat_map(move |x| texel(row, x))).collect()
}

/// The frame as the host computes it.
fn expected(pattern: &[u8], frame: u32) -> Vec<u8> {
    let start = ((frame % PERIOD) as u64 * ROW) as usize;
    let mut texels = pattern[start..][..SIZE as usize].to_vec();
    let [lens_x, lens_y] = lens(frame);
    for (index, texel) in (0..).zip(texels.chunks_exact_mut(4)) {
        let (x, y) = (index % WIDTH as i32 - lens_x, index / WIDTH as i32 - lens_y);
        if x * x + y * y < RADIUS * RADIUS {
            texel[..3].iter_mut().for_each(|channel| *channel ^= 255);
        }
    }
    texels
}

/// Enqueues cudarc's kernel on a surface of the image.
///
/// # Safety
/// The surface is of `WIDTH` x `HEIGHT` texels of 4 bytes, and is destroyed after the kernel has completed.
unsafe fn launch(stream: &SharedStream, kernel: &CudaFunction, surface: u64, frame: u32) -> Result<()> {
    let [lens_x, lens_y] = lens(frame);
    let (width, square) = (WIDTH, RADIUS * RADIUS);
    let mut launch = stream.cudarc().launch_builder(kernel);
    launch.arg(&surface).arg(&width).arg(&lens_x).arg(&lens_y).arg(&square);
    let config = LaunchConfig { grid_dim: (WIDTH.div_ceil(64), HEIGHT, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the arguments are those of the kernel, which accesses texels of the surface only.
    unsafe { launch.launch(config) }?;
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let frames = arguments.next().map_or(Ok(5), |seconds| seconds.parse::<u32>())?.max(1) * PERIOD;
    let file = arguments.next().map_or_else(|| std::env::temp_dir().join("cudarc_postprocess.png"), Into::into);

    // Vulkan's side: the image, what is drawn, and what the host sees.
    let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
    let usage = ImageUsageFlags::TRANSFER_SRC | ImageUsageFlags::TRANSFER_DST | ImageUsageFlags::STORAGE;
    let spec = ImageSpec::new(ImageViewType::TYPE_2D, [WIDTH, HEIGHT, 1], Format::R8G8B8A8_UNORM, usage);
    let exported = ExportableImage::new(vulkan.interop(), &ImageOptions::new(spec))?;
    let image = exported.image();
    let host = |size, usage| OwnedBuffer::new(vulkan.interop(), size, usage, MemoryPlacement::HostVisible);
    let pattern = pattern();
    let rows = host(pattern.len() as u64, BufferUsageFlags::TRANSFER_SRC)?;
    rows.write(0, &pattern)?;
    let seen = host(SIZE, BufferUsageFlags::TRANSFER_DST)?;
    vulkan.initialize_image(image)?;

    // cudarc's side: its context on Vulkan's GPU, a stream, a kernel. Without a driver this is an error, not a panic.
    let (device, context) = context_for(vulkan.identity())?;
    let kernel = context.load_module(Ptx::from_src(KERNEL))?.load_function("lens")?;
    // SAFETY: this program captures no graphs.
    let stream = unsafe { SharedStream::new(&device, context.new_stream()?) }?;

    // Vulkan's image as a surface, and a timeline for each direction.
    let desc = exported.array_desc()?;
    let desc = desc.with_usage(desc.usage | ArrayUsage::SURFACE_LOAD_STORE);
    let array = device.import_memory(exported.import_request()?)?.map_mipmapped_array(&desc)?;
    let surface = array.surface(0)?;
    let (drawn, draws) = shared_timeline(vulkan.interop(), &device, 0)?;
    let (computed, computes) = shared_timeline(vulkan.interop(), &device, 0)?;

    let mut texels = vec![0; SIZE as usize];
    let mut frame = |number: u32| -> Result<()> {
        let (value, scrolled) = (u64::from(number), u64::from(number % PERIOD) * ROW);
        vulkan.submit(&[], &[SemaphoreOp { semaphore: &drawn, value }], |commands| {
            commands.copy_to_image(&rows, scrolled, image, 0, 0)?;
            commands.release_image(image)
        })?;
        stream.wait_timeline(&draws, value)?;
        // SAFETY: the surface is of such an image; `main` waits for the stream before it destroys it.
        unsafe { launch(&stream, &kernel, surface.as_raw().get() as u64, number) }?;
        stream.signal_timeline(&computes, value)?;
        let composed = vulkan.submit(&[SemaphoreOp { semaphore: &computed, value }], &[], |commands| {
            commands.acquire_image(image)?;
            commands.copy_from_image(image, 0, 0, &seen, 0)
        })?;
        composed.wait(PATIENCE)?;
        seen.read(0, &mut texels)?;
        if texels == expected(&pattern, number) { Ok(()) } else { Err(format!("frame {number} is wrong").into()) }
    };
    let start = Instant::now();
    let result = (1..=frames).try_for_each(&mut frame);
    stream.synchronize()?;
    result?;
    let (each, shown) = (start.elapsed() / frames, file.display());
    pictures::write_and_compare(&file, include_bytes!("pictures/cudarc_postprocess.png"), [WIDTH, HEIGHT], &texels)?;
    println!("{frames} frames by strategy {}, {each:?} each, with {}: {shown}", draws.strategy(), device.identity());
    Ok(())
}
