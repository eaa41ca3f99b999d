//! Frames on the host: reading, shrinking, comparing, and PNG files.

use std::fs::File;
use std::io::{BufWriter, Cursor};
use std::path::Path;

use gpu_interop_wgpu::wgpu;

use super::setup::{Result, square, wait};

/// Width and height of expected pictures, texels.
pub(super) const SIDE: u32 = 256;
/// Width and height at which pictures are compared: averages of 4 x 4 texels do not show where a rasteriser rounds.
const COMPARED: u32 = 64;

/// The target of all frames, which can be read.
pub(super) struct Readback {
    pub(super) texture: wgpu::Texture,
    buffer: wgpu::Buffer,
}

impl Readback {
    pub(super) fn new(device: &wgpu::Device, format: wgpu::TextureFormat, size: u32) -> Self {
        let usage = wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC;
        let texture = device.create_texture(&square(size, format, usage));
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: u64::from(size) * u64::from(size) * 4,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        Self { texture, buffer }
    }

    /// Reads the target as RGB.
    pub(super) fn read(&self, device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Vec<u8>> {
        let size = self.texture.size();
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let layout = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(size.width * 4),
            rows_per_image: Some(size.height),
        };
        let to = wgpu::TexelCopyBufferInfo { buffer: &self.buffer, layout };
        encoder.copy_texture_to_buffer(self.texture.as_image_copy(), to, size);
        queue.submit([encoder.finish()]);
        self.buffer.map_async(wgpu::MapMode::Read, .., drop);
        wait(device, None)?;
        let texels = self.buffer.get_mapped_range(..)?.to_vec();
        self.buffer.unmap();
        let order = if self.texture.format() == wgpu::TextureFormat::Bgra8Unorm { [2, 1, 0] } else { [0, 1, 2] };
        Ok(texels.chunks_exact(4).flat_map(|texel| order.map(|channel| texel[channel])).collect())
    }
}

/// Averages blocks of texels of a square RGB picture.
pub(super) fn shrink(picture: &[u8], from: u32, to: u32) -> Vec<u8> {
    let (from, to) = (from as usize, to as usize);
    let block = from / to;
    let average = |x: usize, y: usize, channel: usize| {
        let texel = |index: usize| {
            let (row, column) = (y * block + index / block, x * block + index % block);
            u32::from(picture[(row * from + column) * 3 + channel])
        };
        let count = block * block;
        u8::try_from((0..count).map(texel).sum::<u32>() / u32::try_from(count).unwrap_or(1)).unwrap_or(255)
    };
    (0..to * to * 3).map(|index| average(index / 3 % to, index / 3 / to, index % 3)).collect()
}

/// The mean absolute difference between an RGB picture and the content of a PNG file, both 256 x 256, after averaging
/// blocks of 4 x 4 texels.
pub(super) fn compare(picture: &[u8], file: &[u8]) -> Result<f64> {
    let mut reader = png::Decoder::new(Cursor::new(file)).read_info()?;
    let mut expected = vec![0; reader.output_buffer_size().ok_or("the picture is too large")?];
    let info = reader.next_frame(&mut expected)?;
    if (info.width, info.height, info.color_type) != (SIDE, SIDE, png::ColorType::Rgb) {
        return Err("the expected picture is not RGB of 256 x 256 texels".into());
    }
    let [found, expected] = [picture, &expected].map(|picture| shrink(picture, SIDE, COMPARED));
    let sum: u32 = found.iter().zip(&expected).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
    Ok(f64::from(sum) / f64::from(COMPARED * COMPARED * 3))
}

/// Writes a square RGB picture.
pub(super) fn write(path: &Path, size: u32, picture: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), size, size);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(picture)?;
    Ok(())
}
