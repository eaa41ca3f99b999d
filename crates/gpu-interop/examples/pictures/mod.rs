//! PNG files of the examples' last frames.

use std::error::Error;
use std::io::{BufWriter, Cursor};
use std::path::Path;

/// Writes an RGBA8 picture, then compares it with the committed one. Pass a new example any PNG first, look at the file
/// that it writes, and commit that.
pub(crate) fn write_and_compare(
    file: &Path,
    committed: &[u8],
    size: [u32; 2],
    texels: &[u8],
) -> Result<(), Box<dyn Error>> {
    let mut encoder = png::Encoder::new(BufWriter::new(std::fs::File::create(file)?), size[0], size[1]);
    encoder.set_color(png::ColorType::Rgba);
    encoder.write_header()?.write_image_data(texels)?;
    let mut reader = png::Decoder::new(Cursor::new(committed)).read_info()?;
    let mut expected = vec![0; reader.output_buffer_size().ok_or("a picture that large")?];
    reader.next_frame(&mut expected)?;
    let is_same = [reader.info().width, reader.info().height] == size && expected == texels;
    if is_same { Ok(()) } else { Err(format!("{} differs from the committed picture", file.display()).into()) }
}
