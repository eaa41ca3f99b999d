//! Images in imported memory.

use gpu_interop::{
    ArrayFormat, ArrayShape, ArrayUsage, ChannelType, ExternalMemory, Feature, MappedMipmappedArray,
    MipmappedArrayDesc, Result, TextureDesc,
};

use super::bench::{Bench, memory_request};
use crate::simulator::Sort;

fn desc() -> MipmappedArrayDesc {
    let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("a format");
    let shape = ArrayShape::D2 { width: 8, height: 4 };
    MipmappedArrayDesc::new(shape, format).with_levels(2).with_usage(ArrayUsage::SURFACE_LOAD_STORE)
}

/// An image in the simulator's own memory, which has a known layout.
fn image(bench: &Bench<'_>) -> Result<(ExternalMemory, MappedMipmappedArray)> {
    let memory = bench.device.allocate_exportable(1 << 16)?;
    let imported = bench.import(memory_request(memory.export()?, memory.size()))?;
    let image = imported.map_mipmapped_array(&desc())?;
    Ok((imported, image))
}

/// Whether the device supports images.
fn has_images(bench: &Bench<'_>) -> Result<bool> {
    let (memory, _) = bench.memory()?;
    Ok(bench.has(Feature::MappedMipmappedArray, || memory.map_mipmapped_array(&desc())))
}

/// Copies of images in each direction, with the data.
pub(super) fn images(bench: &Bench<'_>) -> Result<()> {
    if !has_images(bench)? {
        return Ok(());
    }
    let (memory, image) = image(bench)?;
    let (other_memory, other) = self::image(bench)?;
    let stream = bench.device.create_stream()?;
    let texels: Vec<u8> = (0..128).collect();
    let level = image.level(0)?;
    stream.write_array(level, &texels)?;
    stream.copy_array(other.level(0)?, level)?;
    let (buffer, _) = bench.buffer()?;
    stream.copy_from_array(buffer.slice(..128)?, other.level(0)?)?;
    stream.copy_to_array(image.level(1)?, buffer.slice(..32)?)?;
    let (mut whole, mut small) = ([0; 128], [0; 32]);
    stream.read_array(other.level(0)?, &mut whole)?;
    stream.read_array(image.level(1)?, &mut small)?;
    bench.check(whole[..] == texels[..] && small[..] == texels[..32], "copies of images have another result");
    bench.closed(Sort::Arrays, image.close());
    bench.closed(Sort::Imports, memory.close());
    drop((other_memory, other));
    Ok(())
}

/// Surfaces and textures.
pub(super) fn surfaces_and_textures(bench: &Bench<'_>) -> Result<()> {
    if !has_images(bench)? {
        return Ok(());
    }
    let (memory, image) = image(bench)?;
    let (surface, dropped) = (image.surface(0)?, image.surface(1)?);
    let desc = TextureDesc::new();
    let texture = image.texture_of_level(0, &desc)?;
    let all = image.texture(&desc.with_normalized_coordinates(true))?;
    bench.check(surface.as_raw() != dropped.as_raw() && texture.as_raw() != all.as_raw(), "two objects are one");
    drop(memory);
    // They keep the image alive.
    bench.closed(Sort::Arrays, image.close());
    bench.closed(Sort::Surfaces, surface.close());
    bench.closed(Sort::Textures, texture.close());
    drop((dropped, all));
    Ok(())
}
