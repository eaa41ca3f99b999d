//! Requests for images that are wrong: refused before the driver, which has crashed on some, and the right ones work.

use gpu_interop::{
    ArrayFormat, ArrayShape, ArrayUsage, ChannelType, ErrorKind, ExternalMemory, Feature, FilterMode,
    MipmappedArrayDesc, PitchedTexels, ReadMode, TextureDesc,
};

use super::expect_error;
use crate::context::Context;
use crate::ensure;
use crate::exporter::{ExportedImage, ImageSpec};
use crate::image::{SharedImage, plain_format};
use crate::outcome::Verdict;
use crate::request;
use crate::scenario::scenarios;

scenarios! {
    all need [MappedMipmappedArray, exporter Images];
    "image_misuse.levels", Any, "0, 20 and more levels than there can be are refused; the right number works.", levels;
    "image_misuse.extents", Any, "Extents of 0, and such as the memory cannot hold, are refused; the right one works.",
        extents, mirrors("OpenCL-CTS: test_consistency_external_image");
    "image_misuse.offsets", Any, "Offsets at, near and past the end of the memory are refused; the right one works.",
        offsets, mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Negative_Parameters");
    "image_misuse.no_such_level", Any, "Levels that an image lacks are refused, as a region, surface or texture.",
        no_such_level;
    "image_misuse.surface", Any, "A surface of an image that was not mapped for surfaces is refused.", surface,
        needs [Surfaces];
    "image_misuse.texture", Any, "Textures that do not fit the format are refused.", texture, needs [Textures];
    "image_misuse.copies", Any, "Copies of the wrong size, outside of the image or onto themselves are refused.",
        copies;
}

const SHAPE: ArrayShape = ArrayShape::D2 { width: 67, height: 45 };
const LEVELS: u32 = 3;

fn spec() -> Verdict<ImageSpec> {
    Ok(ImageSpec { levels: LEVELS, ..ImageSpec::new(SHAPE, plain_format(ChannelType::Uint8, 4)?) })
}

/// Fails unless this is an invalid argument that the driver was not asked about.
fn refused<T>(result: gpu_interop::Result<T>, what: &str) -> Verdict {
    let error = expect_error(result, ErrorKind::InvalidArgument, what)?;
    ensure!(error.code().is_none(), "the driver was asked about {what}: {error}");
    Ok(())
}

/// An exported image, its import, and what to map. The import is not told what it holds, so that nothing but the description
/// itself can be found wrong.
fn imported(context: &Context) -> Verdict<(Box<dyn ExportedImage>, ExternalMemory, MipmappedArrayDesc)> {
    let exported = context.exporter()?.image(spec()?)?;
    let memory = context.device().import_memory(request::without_image(exported.import_request()?))?;
    let desc = exported.array_desc()?;
    Ok((exported, memory, desc))
}

/// Maps each wrong description, and after all of them the right one, and checks every byte through it.
fn refused_and_then_right(
    context: &Context,
    wrong: impl Fn(MipmappedArrayDesc, u64) -> Vec<MipmappedArrayDesc>,
) -> Verdict {
    let (exported, memory, desc) = imported(context)?;
    for wrong in wrong(desc, memory.size()) {
        refused(memory.map_mipmapped_array(&wrong), &format!("{wrong:?} in {} bytes", memory.size()))?;
    }
    let array = memory.map_mipmapped_array(&desc)?;
    SharedImage { exported, array }.goes_both_ways(context)
}

fn levels(context: &Context) -> Verdict {
    let most = SHAPE.max_levels();
    refused_and_then_right(context, |desc, _| {
        // The order in which NVIDIA's driver has died: too many levels, then none.
        [20, 0, most + 1, 0, 20, u32::MAX].map(|levels| MipmappedArrayDesc { levels, ..desc }).into()
    })
}

fn extents(context: &Context) -> Verdict {
    use ArrayShape as S;
    refused_and_then_right(context, |desc, size| {
        let shapes = [
            S::D1 { width: 0 },
            S::D1Layered { width: 67, layers: 0 },
            S::D2 { width: 0, height: 45 },
            S::D2 { width: 67, height: 0 },
            S::D2 { width: 0, height: 0 },
            S::D2Layered { width: 67, height: 45, layers: 0 },
            S::D3 { width: 67, height: 45, depth: 0 },
            S::Cube { width: 0 },
            S::CubeLayered { width: 67, cubes: 0 },
            // One texel too many, and more than any memory.
            S::D2 { width: size / 4 + 1, height: 1 },
            S::D2 { width: 67 << 20, height: 45 << 20 },
            S::D2 { width: u64::MAX, height: u64::MAX },
            S::D2Layered { width: 67, height: 45, layers: size },
            S::CubeLayered { width: 67, cubes: u64::MAX },
            S::D3 { width: 1 << 32, height: 1 << 32, depth: 1 << 32 },
        ];
        shapes.map(|shape| MipmappedArrayDesc { shape, levels: 1, ..desc }).into()
    })
}

fn offsets(context: &Context) -> Verdict {
    refused_and_then_right(context, |desc, size| {
        [size, size - 1, size + 1, size - 67 * 45 * 4 + 1, size * 1024, u64::MAX]
            .map(|offset| MipmappedArrayDesc { offset, ..desc })
            .into()
    })
}

fn no_such_level(context: &Context) -> Verdict {
    let image = SharedImage::new(context, ImageSpec { usage: ArrayUsage::SURFACE_LOAD_STORE, ..spec()? })?;
    let can = |feature| context.device().capabilities().feature(feature).is_supported();
    for level in [LEVELS, LEVELS + 1, 20, u32::MAX] {
        refused(image.array.level(level), &format!("level {level}"))?;
        if can(Feature::Surfaces) {
            refused(image.array.surface(level), &format!("a surface of level {level}"))?;
        }
        if can(Feature::Textures) {
            let texture = image.array.texture_of_level(level, &TextureDesc::new());
            refused(texture, &format!("a texture of level {level}"))?;
        }
    }
    image.goes_both_ways(context)
}

fn surface(context: &Context) -> Verdict {
    let image = SharedImage::new(context, spec()?)?;
    for level in 0..LEVELS {
        refused(image.array.surface(level), "a surface of an image that was mapped for none")?;
    }
    image.goes_both_ways(context)?;
    let image = SharedImage::new(context, ImageSpec { usage: ArrayUsage::SURFACE_LOAD_STORE, ..spec()? })?;
    for level in 0..LEVELS {
        image.array.surface(level)?.close()?;
    }
    image.goes_both_ways(context)
}

fn texture(context: &Context) -> Verdict {
    let plain = TextureDesc::new();
    let image = SharedImage::new(context, spec()?)?;
    refused(image.array.texture(&plain), "a texture of all levels without normalized coordinates")?;
    refused(image.array.texture_of_level(0, &plain.with_filter(FilterMode::Linear)), "a mix of integers")?;
    let normalized = plain.with_normalized_coordinates(true);
    image.array.texture(&normalized)?.close()?;
    let wide = SharedImage::new(context, ImageSpec { format: plain_format(ChannelType::Uint32, 1)?, ..spec()? })?;
    for read in [ReadMode::NormalizedFloat, ReadMode::Srgb] {
        refused(wide.array.texture_of_level(0, &plain.with_read(read)), "a normalized read of 32 bits")?;
    }
    let signed = SharedImage::new(context, ImageSpec { format: plain_format(ChannelType::Sint8, 4)?, ..spec()? })?;
    refused(signed.array.texture_of_level(0, &plain.with_read(ReadMode::Srgb)), "signed sRGB")?;
    image.goes_both_ways(context)
}

fn copies(context: &Context) -> Verdict {
    const TEXELS: u64 = 67 * 45;
    let image = SharedImage::new(context, spec()?)?;
    let narrow = SharedImage::new(context, ImageSpec { format: plain_format(ChannelType::Uint8, 2)?, ..spec()? })?;
    let buffer = context.buffer(TEXELS * 4 + 4)?;
    let mapped = context.import(&*buffer)?;
    let stream = context.device().create_stream()?;
    image.exported.write_all(context.pattern())?;
    let level = image.array.level(0)?;

    let whole = level.extent();
    let boxes = [
        ([0, 0, 0], [0, 45, 1]),
        ([0, 0, 0], [67, 0, 1]),
        ([0, 0, 0], [67, 45, 0]),
        ([1, 0, 0], whole),
        ([0, 45, 0], [1, 1, 1]),
        ([0, 0, 1], [1, 1, 1]),
        ([u64::MAX, 0, 0], [2, 1, 1]),
        ([0, 0, 0], [67, 45, 2]),
    ];
    for (origin, extent) in boxes {
        refused(level.region(origin, extent), &format!("a box of {extent:?} texels at {origin:?}"))?;
    }
    for bytes in [0, 1, 67 * 45 * 4 - 1, 67 * 45 * 4 + 1] {
        let mut host = vec![0; bytes];
        refused(stream.read_array(level, &mut host), &format!("a read into {bytes} bytes"))?;
        refused(stream.write_array(level, &host), &format!("a write of {bytes} bytes"))?;
    }
    refused(stream.copy_from_array(&mapped, level), "a copy to more linear memory than there are texels")?;
    refused(stream.copy_to_array(level, mapped.slice(..TEXELS * 4 - 1)?), "a copy of too little linear memory")?;
    for (pitch, rows) in [(67 * 4 - 1, 45), (67 * 4, 44), (67 * 4 + 1, 45), (u64::MAX, 45), (0, 0)] {
        let linear = PitchedTexels::new(&mapped, pitch, rows);
        refused(stream.copy_to_array(level, linear), &format!("{rows} rows with a pitch of {pitch} bytes"))?;
        refused(stream.copy_from_array(linear, level), &format!("{rows} rows with a pitch of {pitch} bytes"))?;
    }
    refused(stream.copy_array(level, level), "a copy of a level onto itself")?;
    let part = |x| level.region([x, 0, 0], [10, 10, 1]);
    refused(stream.copy_array(part(0)?, part(9)?), "a copy of a box onto a part of itself")?;
    refused(stream.copy_array(level, image.array.level(1)?), "a copy between levels of different extents")?;
    refused(stream.copy_array(level, narrow.array.level(0)?), "a copy between texels of different sizes")?;

    // None of it was done, and what is right still works.
    stream.synchronize()?;
    image.exported.verify_all(context.pattern(), "after what was refused")?;
    stream.copy_array(part(0)?, part(10)?)?;
    stream.copy_from_array(mapped.slice(..TEXELS * 4)?, level)?;
    stream.copy_to_array(level, mapped.slice(..TEXELS * 4)?)?;
    stream.synchronize()?;
    image.goes_both_ways(context)?;
    refused(ArrayFormat::new(ChannelType::Uint8, 3), "a format of three channels")
}
