//! Kernels that access images.

use gpu_interop::{
    ArrayFormat, ArrayShape, Kernel, KernelArg, LaunchConfig, MappedBuffer, ReadMode, Stream, Surface, Texture,
};
use gpu_interop_kernels::{SURFACE_FILL, SURFACE_VERIFY, SurfaceShape, TEXTURE_READ, TEXTURE_READ_LEVEL, TexelType};

use super::{Fetched, SharedImage};
use crate::context::Context;
use crate::ensure;
use crate::ensure_eq;
use crate::exporter::ImageSpec;
use crate::outcome::{Stop, Verdict};
use crate::pattern::Pattern;

/// The loaded kernels, their stream, and memory for their results.
pub(crate) struct ImageKernels<'a> {
    context: &'a Context,
    pub(crate) stream: Stream,
    fill: Kernel,
    verify: Kernel,
    read: Kernel,
    read_level: Kernel,
    counter: MappedBuffer,
}

impl<'a> ImageKernels<'a> {
    pub(crate) fn load(context: &'a Context) -> Verdict<Self> {
        let module = context.kernels()?;
        Ok(Self {
            context,
            stream: context.device().create_stream()?,
            fill: module.kernel(SURFACE_FILL.name)?,
            verify: module.kernel(SURFACE_VERIFY.name)?,
            read: module.kernel(TEXTURE_READ.name)?,
            read_level: module.kernel(TEXTURE_READ_LEVEL.name)?,
            counter: context.import(&*context.buffer(4096)?)?,
        })
    }

    /// Fills one level through a surface, and blocks until completion.
    pub(crate) fn fill(&self, image: &SharedImage, level: u32, pattern: Pattern) -> Verdict {
        let surface = image.array.surface(level)?;
        self.fill_surface(&surface, image.spec(), level, pattern)
    }

    /// Fills a surface of one level of such an image, and blocks until completion.
    pub(crate) fn fill_surface(&self, surface: &Surface, spec: &ImageSpec, level: u32, pattern: Pattern) -> Verdict {
        let (mut args, texels) = surface_args(surface, spec, level)?;
        args.push(KernelArg::U32(pattern.level(level).seed()));
        // SAFETY: the arguments are those of `surface_fill`, and the surface outlives the synchronisation.
        unsafe { self.stream.launch(&self.fill, &LaunchConfig::linear(texels), &args) }?;
        Ok(self.stream.synchronize()?)
    }

    /// Counts the texels of one level that differ from the pattern, read through a surface.
    pub(crate) fn mismatches(&self, image: &SharedImage, level: u32, pattern: Pattern) -> Verdict<u32> {
        let surface = image.array.surface(level)?;
        let (mut args, texels) = surface_args(&surface, image.spec(), level)?;
        args.extend([KernelArg::U32(pattern.level(level).seed()), KernelArg::Ptr(self.counter.as_raw())]);
        let word = self.counter.slice(..4)?;
        self.stream.fill_u32(word, 0)?;
        // SAFETY: the arguments are those of `surface_verify`; the surface and the counter outlive the synchronisation.
        unsafe { self.stream.launch(&self.verify, &LaunchConfig::linear(texels), &args) }?;
        let mut found = [0; 4];
        self.stream.read(word, &mut found)?;
        Ok(u32::from_ne_bytes(found))
    }

    /// Fetches every texel of one level of a two-dimensional image and compares it with the value of its bytes.
    ///
    /// The texture covers only that level, or, with `of_all_levels`, the whole image.
    pub(crate) fn verify_fetches(
        &self,
        image: &SharedImage,
        texture: &Texture,
        level: u32,
        of_all_levels: bool,
        data: &[u8],
    ) -> Verdict {
        let format = image.spec().format.array;
        let read = texture.desc().read;
        let [width, height, _] = image.spec().layer_extent(level);
        let texel_type = match (format.channel().is_integer() && read == ReadMode::Element, format.channel()) {
            (true, channel) if channel.is_signed() => TexelType::Sint,
            (true, _) => TexelType::Uint,
            (false, _) => TexelType::Float,
        };
        let target = self.context.import(&*self.context.buffer(width * height * 16)?)?;
        // Initial value, which is not a texel.
        self.stream.fill(&target, 0xee)?;
        let mut args = vec![
            texture.as_arg(),
            KernelArg::Ptr(target.as_raw()),
            KernelArg::U32(narrow(width)?),
            KernelArg::U32(narrow(height)?),
            KernelArg::U32(texel_type.argument()),
        ];
        let kernel = if of_all_levels {
            args.push(KernelArg::U32(level));
            &self.read_level
        } else {
            &self.read
        };
        // SAFETY: the arguments are those of the kernel, and the texture and the target, which has 16 bytes for each
        // texel, outlive the synchronisation.
        unsafe { self.stream.launch(kernel, &LaunchConfig::linear(width * height), &args) }?;
        let found = self.context.read(&self.stream, &target)?;
        compare_fetches(format, read, usize::try_from(width)?, data, &found)
            .map_err(|stop| stop.during(format_args!("level {level} of {format}")))
    }
}

/// Compares the fetched values, four words per texel, with those of the texels' bytes in `data`.
fn compare_fetches(format: ArrayFormat, read: ReadMode, width: usize, data: &[u8], found: &[u8]) -> Verdict {
    let size = format.texel_size() as usize;
    ensure_eq!(data.len() / size, found.len() / 16, "texels to compare");
    for (number, (texel, fetched)) in data.chunks_exact(size).zip(found.chunks_exact(16)).enumerate() {
        let expected = Fetched::expected(format, read, texel)?;
        for (channel, (expected, bytes)) in expected.into_iter().zip(fetched.chunks_exact(4)).enumerate() {
            let bits = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            ensure!(
                expected.is_met_by(bits),
                "channel {channel} of texel ({}, {}), which has the bytes {texel:x?}: expected {expected:x?}, fetched \
                     {bits:#x} ({:?} as a float)",
                number % width,
                number / width,
                f32::from_bits(bits)
            );
        }
    }
    Ok(())
}

/// The first arguments of both surface kernels, and the number of texels.
fn surface_args(surface: &Surface, spec: &ImageSpec, level: u32) -> Verdict<(Vec<KernelArg<'static>>, u64)> {
    let shape = match spec.shape {
        ArrayShape::D1 { .. } => SurfaceShape::D1,
        ArrayShape::D1Layered { .. } => SurfaceShape::D1Layered,
        ArrayShape::D2 { .. } => SurfaceShape::D2,
        ArrayShape::D3 { .. } => SurfaceShape::D3,
        // Kernels access the faces of cubes as layers.
        ArrayShape::D2Layered { .. } | ArrayShape::Cube { .. } | ArrayShape::CubeLayered { .. } => {
            SurfaceShape::D2Layered
        }
        other => return Err(Stop::failed(format!("the kernels do not support surfaces of the shape {other:?}"))),
    };
    let extent = spec.shape.level_extent(level);
    let mut args = vec![surface.as_arg(), KernelArg::U32(shape.argument())];
    for texels in extent {
        args.push(KernelArg::U32(narrow(texels)?));
    }
    args.push(KernelArg::U32(spec.format.array.texel_size()));
    Ok((args, extent.iter().product()))
}

fn narrow(n: u64) -> Verdict<u32> {
    u32::try_from(n).map_err(|error| Stop::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use gpu_interop::ChannelType;

    use super::*;

    /// A single wrong word is detected in the first, a middle and the last texel, in each channel of the format.
    #[test]
    fn one_wrong_channel_of_one_texel_is_found() {
        const TEXELS: usize = 35;
        for (channel, channels, read) in [
            (ChannelType::Uint8, 1_u8, ReadMode::Element),
            (ChannelType::Uint16, 2, ReadMode::Element),
            (ChannelType::Sint32, 4, ReadMode::Element),
            (ChannelType::Unorm8, 4, ReadMode::NormalizedFloat),
        ] {
            let format = ArrayFormat::new(channel, channels).expect("a format");
            let data = Pattern::new(5).bytes(0, TEXELS * format.texel_size() as usize);
            let words = data.chunks_exact(format.texel_size() as usize).flat_map(|texel| {
                let mut words = [0xeeee_eeee_u32; 4];
                for (word, expected) in words.iter_mut().zip(Fetched::expected(format, read, texel).expect("a texel")) {
                    *word = match expected {
                        Fetched::Bits(bits) => bits,
                        #[allow(clippy::cast_possible_truncation, reason = "rounds")]
                        Fetched::Near(value) => (value as f32).to_bits(),
                        Fetched::SrgbCode(_) => unreachable!("no sRGB"),
                    };
                }
                words
            });
            let right: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
            let compare = |found: &[u8]| compare_fetches(format, read, 7, &data, found);
            assert_eq!(compare(&right), Ok(()), "{format}");
            for texel in [0, 17, TEXELS - 1] {
                for channel in 0..usize::from(channels) {
                    let mut wrong = right.clone();
                    // A high byte, so that a float differs strongly.
                    wrong[texel * 16 + channel * 4 + 3] ^= 0x40;
                    let found = compare(&wrong).expect_err("a wrong channel").to_string();
                    let place = format!("channel {channel} of texel ({}, {})", texel % 7, texel / 7);
                    assert!(found.contains(&place), "{format}: {found}");
                }
            }
            assert!(compare(&right[16..]).is_err() && compare(&right[..16 * (TEXELS - 1)]).is_err(), "too few texels");
        }
    }
}
