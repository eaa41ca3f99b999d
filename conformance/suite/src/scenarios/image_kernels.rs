//! Kernels that read and write images through surfaces and textures.

use gpu_interop::vulkan::{ChannelOrder, ColorEncoding, TexelFormat};
use gpu_interop::{ArrayShape as S, ArrayUsage, ChannelType as T, ReadMode, TextureDesc};

use crate::context::Context;
use crate::exporter::ImageSpec;
use crate::image::{ImageKernels, SharedImage, make_finite, plain_format};
use crate::outcome::Verdict;
use crate::pattern::compare;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [MappedMipmappedArray, exporter Images, Kernels];
    "image_kernel.surface_1d", Any, "Kernels read and write images of one dimension, and arrays of them.",
        |context| surface_shapes(context, &[S::D1 { width: 67 }, S::D1Layered { width: 67, layers: 5 }]), needs [Surfaces];
    "image_kernel.surface_2d", Any, "Kernels read and write an image of two dimensions.",
        |context| surface_shapes(context, &[FLAT]), needs [Surfaces],
        mirrors("hip-tests: hipVulkanImageDataVerification_Positive_SurfaceWrite_VulkanRead, \
             hipVulkanImageDataVerification_Positive_VulkanWrite_SurfaceRead");
    "image_kernel.surface_3d", Any, "Kernels read and write an image of three dimensions.",
        |context| surface_shapes(context, &[S::D3 { width: 37, height: 21, depth: 9 }]), needs [Surfaces];
    "image_kernel.surface_layered", Any, "Kernels read and write an array of images of two dimensions.",
        |context| surface_shapes(context, &[S::D2Layered { width: 37, height: 21, layers: 5 }]), needs [Surfaces];
    "image_kernel.surface_cube", Any, "Kernels read and write the faces of a cube, and of an array of cubes.",
        |context| surface_shapes(context, &[S::Cube { width: 35 }, S::CubeLayered { width: 19, cubes: 2 }]),
        needs [Surfaces];
    "image_kernel.surface_texel_sizes", Any, "Kernels read and write texels of 1, 2, 4, 8 and 16 bytes.",
        surface_texel_sizes, needs [Surfaces];
    "image_kernel.surface_of_sampled", Any, "Kernels write an image that the exporter itself only samples.",
        surface_of_sampled, needs [Surfaces];
    "image_kernel.texture_integers", Any, "Textures return integer channels unchanged, sign-extended.",
        |context| plain_textures(context, &INTEGERS, ReadMode::Element), needs [Textures];
    "image_kernel.texture_floats", Any, "Textures return 16-bit and 32-bit floats exactly.",
        |context| plain_textures(context, &FLOATS, ReadMode::Element), needs [Textures];
    "image_kernel.texture_normalized", Any,
        "Textures return normalised channels of 8 and 16 bits, and integers read so, to within 1/2^20.",
        |context| plain_textures(context, &NORMALIZED, ReadMode::NormalizedFloat), needs [Textures],
        mirrors("intel/llvm: vulkan_interop/sampled_images");
    "image_kernel.texture_packed", Any, "Textures return the channels of 10, 10, 10 and 2 bits, red first.",
        |context| plain_textures(context, &[(T::Unorm1010102, 4)], ReadMode::NormalizedFloat), needs [Textures];
    "image_kernel.texture_srgb", Any, "Textures decode sRGB to within half a code, and leave alpha linear.", texture_srgb,
        needs [Textures];
    "image_kernel.texture_levels", Any, "A texture of all levels returns the texels of each.", texture_levels,
        needs [Textures], mirrors("intel/llvm: vulkan_interop/mipmaps");
    "image_kernel.bgra_order", Any, "The first channel of a BGRA image is blue, in its bytes and in textures.", bgra_order,
        needs [Textures];
}

/// Formats whose channels textures return unchanged.
const INTEGERS: [(T, u8); 8] = [
    (T::Uint8, 4),
    (T::Uint8, 1),
    (T::Uint16, 2),
    (T::Uint32, 4),
    (T::Uint32, 1),
    (T::Sint8, 4),
    (T::Sint16, 2),
    (T::Sint32, 4),
];
const FLOATS: [(T, u8); 6] =
    [(T::Float32, 1), (T::Float32, 2), (T::Float32, 4), (T::Float16, 1), (T::Float16, 2), (T::Float16, 4)];
/// Formats that textures return as floats up to 1.
const NORMALIZED: [(T, u8); 10] = [
    (T::Unorm8, 1),
    (T::Unorm8, 2),
    (T::Unorm8, 4),
    (T::Unorm16, 4),
    (T::Snorm8, 4),
    (T::Snorm16, 2),
    (T::Uint8, 4),
    (T::Sint8, 2),
    (T::Uint16, 2),
    (T::Sint16, 4),
];

const FLAT: S = S::D2 { width: 67, height: 45 };

/// Checks the writes of a kernel to each level, then its reads, with no and with one wrong bit.
fn surfaces(context: &Context, kernels: &ImageKernels<'_>, spec: ImageSpec) -> Verdict {
    let image = SharedImage::new(context, ImageSpec { usage: ArrayUsage::SURFACE_LOAD_STORE, ..spec })?;
    let (filled, written) = (context.pattern(), context.pattern().other());
    for level in 0..spec.levels {
        kernels.fill(&image, level, filled)?;
    }
    image.exported.verify_all(filled, "the kernel's data")?;
    image.exported.write_all(written)?;
    for level in 0..spec.levels {
        ensure_eq!(kernels.mismatches(&image, level, written)?, 0, "texels of level {level} of {spec} that differ");
        // One bit of the last texel of the last layer.
        let layer = spec.layers() - 1;
        let size = spec.layer_size(level);
        let mut data = written.level(level).bytes(u64::from(layer) * size, usize::try_from(size)?);
        if let Some(last) = data.last_mut() {
            *last ^= 0x10;
        }
        image.exported.write(level, layer, &data)?;
        ensure_eq!(kernels.mismatches(&image, level, written)?, 1, "planted texels in level {level} of {spec}");
    }
    Ok(())
}

fn surface_shapes(context: &Context, shapes: &[S]) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    for shape in shapes {
        let spec = ImageSpec::new(*shape, plain_format(T::Uint32, 1)?);
        surfaces(context, &kernels, ImageSpec { levels: shape.max_levels(), ..spec })?;
    }
    Ok(())
}

fn surface_texel_sizes(context: &Context) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    for (channel, channels, size) in
        [(T::Uint8, 1, 1), (T::Uint8, 2, 2), (T::Unorm8, 4, 4), (T::Float16, 4, 8), (T::Uint32, 4, 16)]
    {
        let format = plain_format(channel, channels)?;
        ensure_eq!(format.array.texel_size(), size, "bytes of a texel of {}", format.array);
        surfaces(context, &kernels, ImageSpec { levels: 3, ..ImageSpec::new(FLAT, format) })?;
    }
    Ok(())
}

fn surface_of_sampled(context: &Context) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    let spec = ImageSpec { levels: 3, ..ImageSpec::new(FLAT, plain_format(T::Unorm8, 4)?) };
    let exported = context.exporter()?.image(spec)?;
    let mut desc = exported.array_desc()?;
    ensure!(desc.usage.is_empty(), "the exporter does more than sample: {:?}", desc.usage);
    desc.usage = ArrayUsage::SURFACE_LOAD_STORE;
    let image = SharedImage::mapped_as(context, exported, &desc)?;
    for pattern in [context.pattern(), context.pattern().other()] {
        for level in 0..spec.levels {
            kernels.fill(&image, level, pattern)?;
        }
        image.exported.verify_all(pattern, "the kernel's data")?;
    }
    Ok(())
}

/// Writes each level by the exporter and fetches all of it from a texture of that level.
fn textures(context: &Context, kernels: &ImageKernels<'_>, format: TexelFormat, read: ReadMode) -> Verdict {
    let spec = ImageSpec { levels: 3, ..ImageSpec::new(FLAT, format) };
    let image = SharedImage::new(context, spec)?;
    for level in 0..spec.levels {
        let mut data = context.pattern().level(level).bytes(0, usize::try_from(spec.level_size(level))?);
        make_finite(format.array.channel(), &mut data)?;
        image.exported.write(level, 0, &data)?;
        let texture = image.array.texture_of_level(level, &TextureDesc::new().with_read(read))?;
        kernels.verify_fetches(&image, &texture, level, false, &data)?;
    }
    Ok(())
}

fn plain_textures(context: &Context, formats: &[(T, u8)], read: ReadMode) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    for (channel, channels) in formats {
        textures(context, &kernels, plain_format(*channel, *channels)?, read)?;
    }
    Ok(())
}

fn texture_srgb(context: &Context) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    let linear = plain_format(T::Unorm8, 4)?;
    textures(context, &kernels, TexelFormat { encoding: ColorEncoding::Srgb, ..linear }, ReadMode::Srgb)?;
    // Integers can be read as sRGB, too.
    textures(context, &kernels, plain_format(T::Uint8, 4)?, ReadMode::Srgb)
}

fn texture_levels(context: &Context) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    for (channel, channels) in [(T::Uint8, 4), (T::Sint16, 2), (T::Float32, 1)] {
        let format = plain_format(channel, channels)?;
        let spec = ImageSpec { levels: FLAT.max_levels(), ..ImageSpec::new(FLAT, format) };
        let image = SharedImage::new(context, spec)?;
        let texture = image.array.texture(&TextureDesc::new().with_normalized_coordinates(true))?;
        // All levels first, so that a fetch from the wrong level does not find the expected texels.
        let mut levels = Vec::new();
        for level in 0..spec.levels {
            let mut data = context.pattern().level(level).bytes(0, usize::try_from(spec.level_size(level))?);
            make_finite(channel, &mut data)?;
            image.exported.write(level, 0, &data)?;
            levels.push(data);
        }
        for (level, data) in (0..).zip(&levels) {
            kernels.verify_fetches(&image, &texture, level, true, data)?;
        }
    }
    Ok(())
}

fn bgra_order(context: &Context) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    let rgba = plain_format(T::Unorm8, 4)?;
    let [red, green, blue] = [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]];
    let cases = [
        (ChannelOrder::Bgra, red, [0, 0, 255, 255]),
        (ChannelOrder::Bgra, green, [0, 255, 0, 255]),
        (ChannelOrder::Bgra, blue, [255, 0, 0, 0]),
        (ChannelOrder::Rgba, red, [255, 0, 0, 255]),
        (ChannelOrder::Rgba, blue, [0, 0, 255, 0]),
    ];
    for (order, color, texel) in cases {
        let spec = ImageSpec { levels: 2, ..ImageSpec::new(FLAT, TexelFormat { order, ..rgba }) };
        let image = SharedImage::new(context, spec)?;
        // The exporter's own driver decides the order of the bytes.
        image.exported.clear(color)?;
        for level in 0..spec.levels {
            let expected = texel.repeat(usize::try_from(spec.level_size(level) / 4)?);
            let what = format!("level {level}, {order:?}, cleared to {color:?}");
            compare(&image.device_reads(&kernels.stream, level)?, &expected, &what)?;
            let desc = TextureDesc::new().with_read(ReadMode::NormalizedFloat);
            let texture = image.array.texture_of_level(level, &desc)?;
            kernels.verify_fetches(&image, &texture, level, false, &expected)?;
        }
    }
    Ok(())
}
