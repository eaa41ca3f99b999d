//! The picture: what Vulkan uploads, how the compute device converts it, and what a decoder must return.

use std::error::Error;
use std::sync::atomic::{AtomicU8, Ordering};

use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{BufferOptions, ExportableBuffer, HeadlessContext, SemaphoreOp, shared_timeline};
use gpu_interop::{Device, MappedBuffer, Stream};
use gpu_interop_kernels::convert::{
    Conversion, Converter, Layout, Matrix, Plane, Range, RgbOrder, RgbPicture, Siting, YuvFormat, YuvPicture, cpu,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Width and height in texels. The height is no multiple of a macroblock's, so the encoder crops.
pub(crate) const EXTENT: [u32; 2] = [640, 360];
const LUMA: u64 = EXTENT[0] as u64 * EXTENT[1] as u64;
/// Bytes of the tightly packed NV12 picture.
pub(crate) const NV12_SIZE: u64 = LUMA * 3 / 2;
/// As players expect it of high definition.
const CONVERSION: Conversion = Conversion { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };

/// Bars of eight colours above, and slopes below.
fn texel(x: u32, y: u32) -> [u8; 4] {
    let [width, height] = EXTENT;
    let byte = |value: u32| value.to_le_bytes()[0];
    if y < height / 2 {
        let bar = x * 8 / width;
        let channel = |bit| if bar & bit == 0 { 191 } else { 16 };
        [channel(2), channel(4), channel(1), 255]
    } else {
        [byte(x * 255 / width), byte(y * 255 / height), byte((x + y) * 255 / (width + height)), 255]
    }
}

/// The tightly packed RGBA picture.
fn rgba() -> Vec<u8> {
    let [width, height] = EXTENT;
    (0..height).flat_map(|y| (0..width).flat_map(move |x| texel(x, y))).collect()
}

/// The tightly packed NV12 picture, converted on the CPU.
pub(crate) fn expected() -> Result<Vec<u8>> {
    let [width, _] = EXTENT;
    let layout =
        Layout { extent: EXTENT, yuv: YuvFormat::Nv12, rgb: RgbOrder::Rgba, pitches: [width, width, 4 * width] };
    let nv12: Vec<AtomicU8> = (0..NV12_SIZE).map(|_| AtomicU8::new(0)).collect();
    let rgba: Vec<AtomicU8> = rgba().into_iter().map(AtomicU8::new).collect();
    let (luma, chroma) = nv12.split_at(usize::try_from(LUMA)?);
    cpu::rgba_to_yuv([luma, chroma, &rgba], &CONVERSION.rgba_to_yuv_numbers(&layout));
    Ok(nv12.iter().map(|byte| byte.load(Ordering::Relaxed)).collect())
}

/// A buffer of Vulkan, and the same memory on the compute device.
fn shared(vulkan: &HeadlessContext, device: &Device, size: u64) -> Result<(ExportableBuffer, MappedBuffer)> {
    let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
    let exported = ExportableBuffer::new(vulkan.interop(), &BufferOptions::new(size, usage))?;
    let mapped = device.import_memory(exported.import_request()?)?.map_buffer(0..size)?;
    Ok((exported, mapped))
}

/// Vulkan writes the picture to its memory; the compute device waits for it and converts it, to memory of Vulkan, too.
/// Returns the tightly packed NV12 picture, complete, with its owner.
pub(crate) fn converted(
    vulkan: &HeadlessContext,
    device: &Device,
    stream: &Stream,
) -> Result<(ExportableBuffer, MappedBuffer)> {
    let [width, _] = EXTENT.map(u64::from);
    let (drawn, texels) = shared(vulkan, device, LUMA * 4)?;
    let (exported, nv12) = shared(vulkan, device, NV12_SIZE)?;
    let (semaphore, timeline) = shared_timeline(vulkan.interop(), device, 0)?;
    vulkan.upload(drawn.buffer(), 0, &rgba())?;
    vulkan.submit(&[], &[SemaphoreOp { semaphore: &semaphore, value: 1 }], |commands| {
        commands.release(drawn.buffer())?;
        // The compute device is the first to write.
        commands.release(exported.buffer())
    })?;
    stream.wait_timeline(&timeline, 1)?;
    let source = RgbPicture { order: RgbOrder::Rgba, texels: Plane::new(&texels, 4 * width) };
    let target = YuvPicture {
        format: YuvFormat::Nv12,
        luma: Plane::new(nv12.slice(..LUMA)?, width),
        chroma: Plane::new(nv12.slice(LUMA..)?, width),
    };
    Converter::load(device)?.rgba_to_yuv(stream, &CONVERSION, EXTENT, &source, &target)?;
    stream.synchronize()?;
    Ok((exported, nv12))
}

/// Compares a decoded picture: the number of different bytes, and the ratio of the peak to the noise in dB.
pub(crate) fn compare(expected: &[u8], decoded: &[u8]) -> Result<(usize, f64)> {
    if expected.len() != decoded.len() {
        return Err(format!("{} decoded bytes instead of {}", decoded.len(), expected.len()).into());
    }
    let pairs = || expected.iter().zip(decoded).map(|(one, other)| u32::from(one.abs_diff(*other)));
    let squares: u32 = pairs().map(|difference| difference * difference).sum();
    let mean = f64::from(squares) / f64::from(u32::try_from(expected.len())?);
    Ok((pairs().filter(|difference| *difference != 0).count(), 10.0 * (255.0 * 255.0 / mean).log10()))
}
