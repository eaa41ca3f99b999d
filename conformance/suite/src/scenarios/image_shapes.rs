//! Images of every shape with all their mip levels, and of every use.

use gpu_interop::{ArrayShape, ArrayUsage, ChannelType};

use crate::context::Context;
use crate::exporter::ImageSpec;
use crate::image::{SharedImage, length, plain_format};
use crate::outcome::Verdict;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [MappedMipmappedArray, exporter Images];
    "image_shape.1d", Any, "An image of one dimension goes both ways, every level.", one,
        mirrors("OpenCL-CTS: test_consistency_external_for_1dimage; intel/llvm: vulkan_interop/image_interop_read_1d");
    "image_shape.1d_layered", Any, "An array of images of one dimension goes both ways, every level and layer.",
        one_layered;
    "image_shape.2d", Any, "An image of two dimensions goes both ways, every level.", two,
        mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Positive_Read_Write, \
             hipVulkanImageDataVerification_Positive_RoundTrip");
    "image_shape.2d_layered", Any, "An array of images of two dimensions goes both ways, every level and layer.",
        two_layered, mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Array_Layered");
    "image_shape.3d", Any, "An image of three dimensions goes both ways, every level and slice.", three,
        mirrors("OpenCL-CTS: test_consistency_external_for_3dimage; intel/llvm: vulkan_interop/image_interop_read_3d");
    "image_shape.cube", Any, "A cube goes both ways, every level and face.", cube,
        mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Array_Cubemap");
    "image_shape.cube_layered", Any, "An array of cubes goes both ways, every level and face.", cube_layered;
    "image_shape.some_levels", Any, "Images with layers go both ways with every number of levels, not only one or all.",
        some_levels;
    "image_shape.one_texel", Any, "Images of a single texel go both ways.", one_texel;
    "image_shape.at_offset", Any,
        "Images that do not begin with their memory go both ways, every level, and what lies before them stays.",
        at_offset;
    "image_shape.4k", Any, "A frame of 3840 x 2160 texels goes both ways.", four_k, within(60);
    "image_usage.color_attachment", Any, "An image that the exporter may render to goes both ways.", color_attachment;
    "image_usage.storage", Any, "An image that shaders of the exporter may write goes both ways.", storage;
    "image_usage.all", Any, "An image that the exporter may render to and write goes both ways.", all_uses;
    "image_usage.dedicated", Any, "Images with a dedicated allocation go both ways, and the import is told.", dedicated;
}

fn spec(shape: ArrayShape) -> Verdict<ImageSpec> {
    Ok(ImageSpec::new(shape, plain_format(ChannelType::Unorm8, 4)?))
}

/// Every level there can be, down to a single texel.
fn all_levels(context: &Context, shape: ArrayShape) -> Verdict {
    let image = SharedImage::new(context, ImageSpec { levels: shape.max_levels(), ..spec(shape)? })?;
    let last = shape.max_levels() - 1;
    for level in [0, last] {
        ensure_eq!(image.array.level(level)?.extent(), shape.level_extent(level), "the extent of level {level}");
    }
    ensure_eq!(image.spec().layer_extent(last), [1, 1, 1], "the extent of the last level");
    image.goes_both_ways(context)
}

fn one(context: &Context) -> Verdict {
    all_levels(context, ArrayShape::D1 { width: 67 })
}

fn one_layered(context: &Context) -> Verdict {
    all_levels(context, ArrayShape::D1Layered { width: 67, layers: 5 })
}

fn two(context: &Context) -> Verdict {
    all_levels(context, ArrayShape::D2 { width: 67, height: 45 })
}

fn two_layered(context: &Context) -> Verdict {
    all_levels(context, ArrayShape::D2Layered { width: 37, height: 21, layers: 5 })
}

fn three(context: &Context) -> Verdict {
    all_levels(context, ArrayShape::D3 { width: 37, height: 21, depth: 9 })
}

fn cube(context: &Context) -> Verdict {
    all_levels(context, ArrayShape::Cube { width: 35 })
}

fn cube_layered(context: &Context) -> Verdict {
    all_levels(context, ArrayShape::CubeLayered { width: 19, cubes: 2 })
}

/// Where a layer begins depends on the number of levels, and two drivers of one vendor have different opinions on it.
fn some_levels(context: &Context) -> Verdict {
    for shape in [
        ArrayShape::D1Layered { width: 67, layers: 3 },
        ArrayShape::D2Layered { width: 37, height: 21, layers: 3 },
        ArrayShape::Cube { width: 35 },
        ArrayShape::CubeLayered { width: 19, cubes: 2 },
        ArrayShape::D3 { width: 37, height: 21, depth: 9 },
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
    all_levels(context, ArrayShape::D2 { width: 1, height: 1 })?;
    all_levels(context, ArrayShape::D2Layered { width: 1, height: 1, layers: 2 })?;
    all_levels(context, ArrayShape::D3 { width: 1, height: 1, depth: 1 })
}

fn at_offset(context: &Context) -> Verdict {
    const BEFORE: u64 = 100_000;
    let stream = context.device().create_stream()?;
    for shape in [
        ArrayShape::D2 { width: 67, height: 45 },
        ArrayShape::D2Layered { width: 37, height: 21, layers: 5 },
        ArrayShape::D3 { width: 37, height: 21, depth: 9 },
    ] {
        let image = SharedImage::new(context, ImageSpec { offset: BEFORE, levels: 3, ..spec(shape)? })?;
        let offset = image.array.desc().offset;
        ensure!(offset >= BEFORE, "the exporter says that the image begins at {offset}");
        let memory = context.device().import_memory(image.exported.import_request()?)?;
        let (before, pattern) = (memory.map_buffer(0..offset)?, context.pattern().level(9));
        stream.write(&before, &pattern.bytes(0, length(offset)?))?;
        image.goes_both_ways(context)?;
        let what = format!("what lies before {}", image.spec());
        pattern.verify(0, &context.read(&stream, &before)?, &what)?;
    }
    Ok(())
}

fn four_k(context: &Context) -> Verdict {
    SharedImage::new(context, spec(ArrayShape::D2 { width: 3840, height: 2160 })?)?.goes_both_ways(context)
}

fn used_as(context: &Context, usage: ArrayUsage) -> Verdict {
    let shape = ArrayShape::D2 { width: 67, height: 45 };
    for levels in [1, shape.max_levels()] {
        let image = SharedImage::new(context, ImageSpec { usage, levels, ..spec(shape)? })?;
        ensure_eq!(image.array.desc().usage, usage, "the use that the array was mapped with");
        image.goes_both_ways(context)?;
    }
    Ok(())
}

fn color_attachment(context: &Context) -> Verdict {
    used_as(context, ArrayUsage::COLOR_ATTACHMENT)
}

fn storage(context: &Context) -> Verdict {
    used_as(context, ArrayUsage::SURFACE_LOAD_STORE)
}

fn all_uses(context: &Context) -> Verdict {
    used_as(context, ArrayUsage::SURFACE_LOAD_STORE | ArrayUsage::COLOR_ATTACHMENT)
}

fn dedicated(context: &Context) -> Verdict {
    for shape in [
        ArrayShape::D2 { width: 67, height: 45 },
        ArrayShape::D2Layered { width: 37, height: 21, layers: 5 },
        ArrayShape::D3 { width: 37, height: 21, depth: 9 },
    ] {
        let image = SharedImage::new(context, ImageSpec { dedicated: true, levels: 3, ..spec(shape)? })?;
        ensure!(image.exported.import_request()?.is_dedicated(), "the request does not say that it is dedicated");
        image.goes_both_ways(context)?;
    }
    Ok(())
}
