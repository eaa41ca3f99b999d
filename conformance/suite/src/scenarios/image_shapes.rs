//! Images of every shape with all mip levels, and of every usage.

use gpu_interop::{ArrayShape as S, ArrayUsage, ChannelType};

use crate::context::Context;
use crate::exporter::ImageSpec;
use crate::image::{SharedImage, plain_format};
use crate::outcome::Verdict;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [MappedMipmappedArray, exporter Images];
    "image_shape.1d", Any, "An image of one dimension goes both ways, every level.",
        |context| all_levels(context, S::D1 { width: 67 }),
        mirrors("OpenCL-CTS: test_consistency_external_for_1dimage; intel/llvm: vulkan_interop/image_interop_read_1d");
    "image_shape.1d_layered", Any, "An array of images of one dimension goes both ways, every level and layer.",
        |context| all_levels(context, S::D1Layered { width: 67, layers: 5 });
    "image_shape.2d", Any, "An image of two dimensions goes both ways, every level.",
        |context| all_levels(context, FLAT),
        mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Positive_Read_Write, \
             hipVulkanImageDataVerification_Positive_RoundTrip");
    "image_shape.2d_layered", Any, "An array of images of two dimensions goes both ways, every level and layer.",
        |context| all_levels(context, LAYERED),
        mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Array_Layered");
    "image_shape.3d", Any, "An image of three dimensions goes both ways, every level and slice.",
        |context| all_levels(context, VOLUME),
        mirrors("OpenCL-CTS: test_consistency_external_for_3dimage; intel/llvm: vulkan_interop/image_interop_read_3d");
    "image_shape.cube", Any, "A cube goes both ways, every level and face.",
        |context| all_levels(context, S::Cube { width: 35 }),
        mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Array_Cubemap");
    "image_shape.cube_layered", Any, "An array of cubes goes both ways, every level and face.",
        |context| all_levels(context, S::CubeLayered { width: 19, cubes: 2 });
    "image_shape.some_levels", Any, "Images with layers go both ways with every number of levels.", some_levels;
    "image_shape.one_texel", Any, "Images of a single texel go both ways.", one_texel;
    "image_shape.at_offset", Any,
        "Images at an offset of their memory go both ways, every level; the bytes before them stay.", at_offset;
    "image_shape.4k", Any, "A frame of 3840 x 2160 texels goes both ways.", |context| {
        SharedImage::new(context, spec(S::D2 { width: 3840, height: 2160 })?)?.goes_both_ways(context)
    }, within(60);
    "image_usage.color_attachment", Any, "An image that the exporter may render to goes both ways.",
        |context| used_as(context, ArrayUsage::COLOR_ATTACHMENT);
    "image_usage.storage", Any, "An image that shaders of the exporter may write goes both ways.",
        |context| used_as(context, ArrayUsage::SURFACE_LOAD_STORE);
    "image_usage.all", Any, "An image that the exporter may render to and write goes both ways.",
        |context| used_as(context, ArrayUsage::SURFACE_LOAD_STORE | ArrayUsage::COLOR_ATTACHMENT);
    "image_usage.dedicated", Any, "Images with a dedicated allocation go both ways, and their requests state it.", dedicated;
}

const FLAT: S = S::D2 { width: 67, height: 45 };
const LAYERED: S = S::D2Layered { width: 37, height: 21, layers: 5 };
const VOLUME: S = S::D3 { width: 37, height: 21, depth: 9 };

fn spec(shape: S) -> Verdict<ImageSpec> {
    Ok(ImageSpec::new(shape, plain_format(ChannelType::Unorm8, 4)?))
}

/// Exchanges every possible level, down to a single texel.
fn all_levels(context: &Context, shape: S) -> Verdict {
    let image = SharedImage::new(context, ImageSpec { levels: shape.max_levels(), ..spec(shape)? })?;
    let last = shape.max_levels() - 1;
    for level in [0, last] {
        ensure_eq!(image.array.level(level)?.extent(), shape.level_extent(level), "the extent of level {level}");
    }
    ensure_eq!(image.spec().layer_extent(last), [1, 1, 1], "the extent of the last level");
    image.goes_both_ways(context)
}

/// The offset of a layer depends on the number of levels, and differs between two drivers of one vendor.
fn some_levels(context: &Context) -> Verdict {
    for shape in [
        S::D1Layered { width: 67, layers: 3 },
        S::D2Layered { width: 37, height: 21, layers: 3 },
        S::Cube { width: 35 },
        S::CubeLayered { width: 19, cubes: 2 },
        VOLUME,
    ] {
        for levels in 1..=shape.max_levels() {
            let image = SharedImage::new(context, ImageSpec { levels, ..spec(shape)? })?;
            ensure!(image.array.level(levels).is_err(), "{shape:?} has a level beyond its {levels}");
            image.goes_both_ways(context)?;
        }
    }
    Ok(())
}

fn one_texel(context: &Context) -> Verdict {
    all_levels(context, S::D2 { width: 1, height: 1 })?;
    all_levels(context, S::D2Layered { width: 1, height: 1, layers: 2 })?;
    all_levels(context, S::D3 { width: 1, height: 1, depth: 1 })
}

fn at_offset(context: &Context) -> Verdict {
    const BEFORE: u64 = 100_000;
    let stream = context.stream()?;
    for shape in [FLAT, LAYERED, VOLUME] {
        let image = SharedImage::new(context, ImageSpec { offset: BEFORE, levels: 3, ..spec(shape)? })?;
        let offset = image.array.desc().offset;
        ensure!(offset >= BEFORE, "the exporter reports the image at {offset}");
        let memory = context.device().import_memory(image.exported.import_request()?)?;
        let (before, pattern) = (memory.map_buffer(0..offset)?, context.pattern().level(9));
        stream.write(&before, &pattern.bytes(0, usize::try_from(offset)?))?;
        image.goes_both_ways(context)?;
        let what = format!("the bytes before {}", image.spec());
        pattern.verify(0, &context.read(&stream, &before)?, &what)?;
    }
    Ok(())
}

fn used_as(context: &Context, usage: ArrayUsage) -> Verdict {
    for levels in [1, FLAT.max_levels()] {
        let image = SharedImage::new(context, ImageSpec { usage, levels, ..spec(FLAT)? })?;
        ensure_eq!(image.array.desc().usage, usage, "the use that the array was mapped with");
        image.goes_both_ways(context)?;
    }
    Ok(())
}

fn dedicated(context: &Context) -> Verdict {
    for shape in [FLAT, LAYERED, VOLUME] {
        let image = SharedImage::new(context, ImageSpec { dedicated: true, levels: 3, ..spec(shape)? })?;
        ensure!(image.exported.import_request()?.is_dedicated(), "the request lacks the dedicated flag");
        image.goes_both_ways(context)?;
    }
    Ok(())
}
