//! Malformed requests for images: rejected before the driver is called, because some drivers crash; valid ones work.

use gpu_interop::{
    ArrayFormat, ArrayShape, ArrayUsage, ChannelType, ExternalMemory, Feature, FilterMode, MipmappedArrayDesc,
    PitchedTexels, ReadMode, TextureDesc,
};

use super::expect_invalid;
use crate::context::Context;
use crate::exporter::{ExportedImage, ImageSpec};
use crate::image::{SharedImage, plain_format};
use crate::outcome::Verdict;
use crate::request;
use crate::scenario::scenarios;

scenarios! {
    all need [MappedMipmappedArray, exporter Images];
    "image_misuse.levels", Any, "Mappings with 0, 20 or too many levels are rejected; the right number works.", levels;
    "image_misuse.extents", Any, "Extents of 0, and extents beyond the memory, are rejected; the right one works.", extents,
        mirrors("OpenCL-CTS: test_consistency_external_image");
    "image_misuse.offsets", Any, "Offsets at, near and past the end of the memory are rejected; the right one works.",
        offsets, mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Negative_Parameters");
    "image_misuse.no_such_level", Any, "Missing levels are rejected, as a region, surface or texture.", no_such_level;
    "image_misuse.surface", Any, "A surface of an image that was not mapped for surfaces is rejected.", surface,
        needs [Surfaces];
    "image_misuse.texture", Any, "Textures that do not fit the format are rejected.", texture, needs [Textures];
    "image_misuse.copies", Any, "Copies of the wrong size, outside the image or onto themselves are rejected.", copies;
}

const SHAPE: ArrayShape = ArrayShape::D2 { width: 67, height: 45 };
const LEVELS: u32 = 3;

fn spec() -> Verdict<ImageSpec> {
    Ok(ImageSpec { levels: LEVELS, ..ImageSpec::new(SHAPE, plain_format(ChannelType::Uint8, 4)?) })
}

/// An exported image, its import, and its description. The import does not know its image, so that only the description
/// itself can be rejected.
fn imported(context: &Context) -> Verdict<(Box<dyn ExportedImage>, ExternalMemory, MipmappedArrayDesc)> {
    let exported = context.exporter()?.image(spec()?)?;
    let memory = context.device().import_memory(request::without_image(exported.import_request()?))?;
    let desc = exported.array_desc()?;
    Ok((exported, memory, desc))
}

/// Checks that each wrong description is rejected, then maps the right one and checks every byte.
fn rejects_then_maps(context: &Context, wrong: impl Fn(MipmappedArrayDesc, u64) -> Vec<MipmappedArrayDesc>) -> Verdict {
    let (exported, memory, desc) = imported(context)?;
    for wrong in wrong(desc, memory.size()) {
        expect_invalid(memory.map_mipmapped_array(&wrong), &format!("{wrong:?} in {} bytes", memory.size()))?;
    }
    let array = memory.map_mipmapped_array(&desc)?;
    SharedImage { exported, array }.goes_both_ways(context)
}

fn levels(context: &Context) -> Verdict {
    let most = SHAPE.max_levels();
    rejects_then_maps(context, |desc, _| {
        // The order that crashed NVIDIA's driver: too many levels, then none.
        [20, 0, most + 1, 0, 20, u32::MAX].map(|levels| desc.with_levels(levels)).into()
    })
}

fn extents(context: &Context) -> Verdict {
    use ArrayShape as S;
    rejects_then_maps(context, |desc, size| {
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
        shapes.map(|shape| desc.with_shape(shape).with_levels(1)).into()
    })
}

fn offsets(context: &Context) -> Verdict {
    rejects_then_maps(context, |desc, size| {
        [size, size - 1, size + 1, size - 67 * 45 * 4 + 1, size * 1024, u64::MAX]
            .map(|offset| desc.with_offset(offset))
            .into()
    })
}

fn no_such_level(context: &Context) -> Verdict {
    let image = SharedImage::new(context, ImageSpec { usage: ArrayUsage::SURFACE_LOAD_STORE, ..spec()? })?;
    let can = |feature| context.device().capabilities().feature(feature).is_supported();
    for level in [LEVELS, LEVELS + 1, 20, u32::MAX] {
        expect_invalid(image.array.level(level), &format!("level {level}"))?;
        if can(Feature::Surfaces) {
            expect_invalid(image.array.surface(level), &format!("a surface of level {level}"))?;
        }
        if can(Feature::Textures) {
            let texture = image.array.texture_of_level(level, &TextureDesc::new());
            expect_invalid(texture, &format!("a texture of level {level}"))?;
        }
    }
    image.goes_both_ways(context)
}

fn surface(context: &Context) -> Verdict {
    let image = SharedImage::new(context, spec()?)?;
    for level in 0..LEVELS {
        expect_invalid(image.array.surface(level), "a surface of an image that was mapped for none")?;
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
    expect_invalid(image.array.texture(&plain), "a texture of all levels without normalized coordinates")?;
    expect_invalid(image.array.texture_of_level(0, &plain.with_filter(FilterMode::Linear)), "a mix of integers")?;
    let normalized = plain.with_normalized_coordinates(true);
    image.array.texture(&normalized)?.close()?;
    let wide = SharedImage::new(context, ImageSpec { format: plain_format(ChannelType::Uint32, 1)?, ..spec()? })?;
    for read in [ReadMode::NormalizedFloat, ReadMode::Srgb] {
        expect_invalid(wide.array.texture_of_level(0, &plain.with_read(read)), "a normalized read of 32 bits")?;
    }
    let signed = SharedImage::new(context, ImageSpec { format: plain_format(ChannelType::Sint8, 4)?, ..spec()? })?;
    expect_invalid(signed.array.texture_of_level(0, &plain.with_read(ReadMode::Srgb)), "signed sRGB")?;
    image.goes_both_ways(context)
}

fn copies(context: &Context) -> Verdict {
    const TEXELS: u64 = 67 * 45;
    let image = SharedImage::new(context, spec()?)?;
    let narrow = SharedImage::new(context, ImageSpec { format: plain_format(ChannelType::Uint8, 2)?, ..spec()? })?;
    let buffer = context.buffer(TEXELS * 4 + 4)?;
    let mapped = context.import(&*buffer)?;
    let stream = context.stream()?;
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
        expect_invalid(level.region(origin, extent), &format!("a box of {extent:?} texels at {origin:?}"))?;
    }
    for bytes in [0, 1, 67 * 45 * 4 - 1, 67 * 45 * 4 + 1] {
        let mut host = vec![0; bytes];
        expect_invalid(stream.read_array(level, &mut host), &format!("a read into {bytes} bytes"))?;
        expect_invalid(stream.write_array(level, &host), &format!("a write of {bytes} bytes"))?;
    }
    expect_invalid(stream.copy_from_array(&mapped, level), "a copy to more linear memory than there are texels")?;
    expect_invalid(stream.copy_to_array(level, mapped.slice(..TEXELS * 4 - 1)?), "a copy of too little linear memory")?;
    for (pitch, rows) in [(67 * 4 - 1, 45), (67 * 4, 44), (67 * 4 + 1, 45), (u64::MAX, 45), (0, 0)] {
        let linear = PitchedTexels::new(&mapped, pitch, rows);
        expect_invalid(stream.copy_to_array(level, linear), &format!("{rows} rows with a pitch of {pitch} bytes"))?;
        expect_invalid(stream.copy_from_array(linear, level), &format!("{rows} rows with a pitch of {pitch} bytes"))?;
    }
    expect_invalid(stream.copy_array(level, level), "a copy of a level onto itself")?;
    let part = |x| level.region([x, 0, 0], [10, 10, 1]);
    expect_invalid(stream.copy_array(part(0)?, part(9)?), "a copy of a box onto a part of itself")?;
    expect_invalid(stream.copy_array(level, image.array.level(1)?), "a copy between levels of different extents")?;
    expect_invalid(stream.copy_array(level, narrow.array.level(0)?), "a copy between texels of different sizes")?;

    // No rejected copy was done, and valid ones work.
    stream.synchronize()?;
    image.exported.verify_all(context.pattern(), "after the rejected copies")?;
    stream.copy_array(part(0)?, part(10)?)?;
    stream.copy_from_array(mapped.slice(..TEXELS * 4)?, level)?;
    stream.copy_to_array(level, mapped.slice(..TEXELS * 4)?)?;
    stream.synchronize()?;
    image.goes_both_ways(context)?;
    expect_invalid(ArrayFormat::new(ChannelType::Uint8, 3), "a format of three channels").map(drop)
}
