//! The software decoder's pictures, as hashes, and PNG files.

use std::error::Error;
use std::io::BufWriter;
use std::path::Path;

use sha2::{Digest, Sha256};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reads the hashes of ffmpeg's `framehash`: lines of fields, the last of which is the SHA-256 of a picture's bytes.
pub(crate) fn hashes(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}; pass --hashes", file.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.filter_map(|line| Some(line.rsplit_once(',')?.1.trim().to_owned())).collect())
}

/// The SHA-256 of bytes in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes an NV12 picture as RGB, for the eye: BT.601 with limited range, each chroma texel for four luma texels.
pub(crate) fn write_png(file: &Path, [width, height]: [u32; 2], nv12: &[u8]) -> Result<()> {
    let (columns, rows) = (usize::try_from(width)?, usize::try_from(height)?);
    let (luma, chroma) = nv12.split_at(columns * rows);
    let texels = luma.iter().enumerate().flat_map(|(nth, luma)| {
        let pair = nth / columns / 2 * columns + nth % columns / 2 * 2;
        let [y, u, v] = [*luma, chroma[pair], chroma[pair + 1]].map(f32::from);
        let (y, u, v) = (1.164 * (y - 16.0), u - 128.0, v - 128.0);
        #[allow(clippy::cast_possible_truncation, reason = "the conversion saturates")]
        let byte = |channel: f32| channel.round() as u8;
        [y + 1.596 * v, y - 0.392 * u - 0.813 * v, y + 2.017 * u].map(byte)
    });
    let mut encoder = png::Encoder::new(BufWriter::new(std::fs::File::create(file)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(&texels.collect::<Vec<_>>())?;
    Ok(())
}
