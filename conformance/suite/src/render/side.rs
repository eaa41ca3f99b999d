//! The device's side of an operation's object: its ways of writing and reading.

use std::time::Duration;

use gpu_interop::vulkan::OwnedImage;
use gpu_interop::{
    ArrayShape, ArrayUsage, Feature, KernelArg, LaunchConfig, MappedBuffer, Module, ReadMode, Stream, TextureDesc,
};
use gpu_interop_kernels::{FILL_PATTERN, VERIFY_PATTERN};

use super::Content;
use super::operation::Kind;
use super::shaders::Channels;
use crate::context::Context;
use crate::exporter::{ExportedImage, ImageSpec, Tiling};
use crate::image::{ImageKernels, SharedImage};
use crate::outcome::{Stop, Verdict};
use crate::pattern::compare;
use crate::{ensure, ensure_eq};

/// How long the work of a kernel is delayed.
const LATE: Duration = Duration::from_millis(2);

/// A way in which the device reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Copies to and from the host.
    Copy,
    /// A kernel with a surface, which sees bytes.
    Surface,
    /// A kernel with a texture, which sees channels.
    Texture,
    /// A kernel with a pointer.
    Pointer,
}

/// An image as the device sees it.
pub(super) struct Side<'a> {
    mapped: Mapped,
    /// `None` if the device has no kernels for images.
    kernels: Option<ImageKernels<'a>>,
}

enum Mapped {
    Array(SharedImage),
    /// A linear image, and its memory.
    Rows(Box<dyn ExportedImage>, MappedBuffer),
}

impl<'a> Side<'a> {
    /// Creates an image of the exporter and maps it.
    pub(super) fn new(context: &'a Context, spec: ImageSpec) -> Verdict<Self> {
        let exported = context.exporter()?.image(spec)?;
        if spec.tiling == Tiling::Linear {
            let mapped = context.device().import_memory(exported.import_request()?)?.map_buffer(..)?;
            return Ok(Self { mapped: Mapped::Rows(exported, mapped), kernels: None });
        }
        if let Some(reason) = context.unmet(crate::need::need!(MappedMipmappedArray)) {
            return Err(Stop::unsupported(reason));
        }
        let kernels = ImageKernels::load(context).ok();
        let mut desc = exported.array_desc()?;
        if kernels.is_some() {
            // Kernels use surfaces also of images in which the exporter stores nothing.
            desc.usage |= ArrayUsage::SURFACE_LOAD_STORE;
        }
        Ok(Self { mapped: Mapped::Array(SharedImage::mapped_as(context, exported, &desc)?), kernels })
    }

    fn exported(&self) -> &dyn ExportedImage {
        match &self.mapped {
            Mapped::Array(image) => &*image.exported,
            Mapped::Rows(exported, _) => &**exported,
        }
    }

    pub(super) fn spec(&self) -> &ImageSpec {
        self.exported().spec()
    }

    pub(super) fn image(&self) -> Verdict<&OwnedImage> {
        self.exported().vulkan().ok_or_else(|| Stop::unsupported("the exporter is not Vulkan".into()))
    }

    /// `true` if the texels of a pattern are its bytes.
    fn is_raw(&self) -> bool {
        let array = self.spec().format.array;
        Channels::of(self.spec()) != Channels::Float
            || matches!(array.channel(), gpu_interop::ChannelType::Unorm8 | gpu_interop::ChannelType::Unorm16)
    }

    /// The ways in which the device reads what an operation of this kind leaves, or writes what it reads.
    pub(super) fn ways(&self, kind: Kind) -> Vec<Access> {
        let mut ways = vec![Access::Copy];
        if self.kernels.is_none() {
            return ways;
        }
        // Kernels with surfaces know patterns only.
        if self.is_raw() && kind != Kind::Changes {
            ways.push(Access::Surface);
        }
        if kind != Kind::Reads && matches!(self.spec().shape, ArrayShape::D2 { .. }) {
            ways.push(Access::Texture);
        }
        ways
    }

    /// Writes every level. `content` is what the texels are made of.
    pub(super) fn write(&self, stream: &Stream, way: Access, content: Content, levels: &[Vec<u8>]) -> Verdict {
        for (level, texels) in (0..).zip(levels) {
            match (&self.mapped, way, &self.kernels) {
                (Mapped::Array(image), Access::Copy, _) => stream.write_array(image.array.level(level)?, texels)?,
                (Mapped::Array(image), Access::Surface, Some(kernels)) => {
                    kernels.fill(image, level, content.pattern()?)?
                }
                (Mapped::Rows(exported, mapped), Access::Copy, _) => {
                    let size = usize::try_from(exported.spec().row_size(level))?;
                    for (place, at, _) in exported.rows()?.into_iter().filter(|row| row.2 == level) {
                        let at = usize::try_from(at)?;
                        let row = texels.get(at..at + size).ok_or_else(|| Stop::failed("no such row".into()))?;
                        stream.write(mapped.slice(place..place + size as u64)?, row)?;
                    }
                }
                _ => return Err(Stop::failed(format!("the suite does not write by {way:?}"))),
            }
        }
        Ok(())
    }

    /// Checks every texel. `content` is what the texels are made of.
    pub(super) fn verify(&self, stream: &Stream, way: Access, content: Content, levels: &[Vec<u8>]) -> Verdict {
        let spec = self.spec();
        for (level, texels) in (0..).zip(levels) {
            let what = format!("the device's {way:?} of level {level}");
            match (&self.mapped, way, &self.kernels) {
                (Mapped::Array(image), Access::Copy, _) => compare(&image.device_reads(stream, level)?, texels, &what)?,
                // Kernels with surfaces know patterns only.
                (Mapped::Array(_), Access::Surface, Some(_)) if matches!(content, Content::Compressible(_)) => {}
                (Mapped::Array(image), Access::Surface, Some(kernels)) => {
                    let pattern = content.pattern()?;
                    stream.synchronize()?;
                    ensure_eq!(kernels.mismatches(image, level, pattern)?, 0, "texels that differ: {what}");
                }
                (Mapped::Array(image), Access::Texture, Some(kernels)) => {
                    stream.synchronize()?;
                    let read = match Channels::of(spec) {
                        Channels::Float if spec.format.array.channel().is_integer() => ReadMode::NormalizedFloat,
                        _ => ReadMode::Element,
                    };
                    let texture = image.array.texture_of_level(level, &TextureDesc::new().with_read(read))?;
                    kernels.verify_fetches(image, &texture, level, false, texels)?;
                }
                (Mapped::Rows(exported, mapped), Access::Copy, _) => {
                    let mut all = vec![0; usize::try_from(mapped.size())?];
                    stream.read(mapped, &mut all)?;
                    let size = usize::try_from(exported.spec().row_size(level))?;
                    for (place, at, _) in exported.rows()?.into_iter().filter(|row| row.2 == level) {
                        let (place, at) = (usize::try_from(place)?, usize::try_from(at)?);
                        let rows = all.get(place..place + size).zip(texels.get(at..at + size));
                        let (found, row) = rows.ok_or_else(|| Stop::failed("no such row".into()))?;
                        compare(found, row, format_args!("{what}, the row at byte {place}"))?;
                    }
                }
                _ => return Err(Stop::failed(format!("the suite does not read by {way:?}"))),
            }
        }
        Ok(())
    }
}

/// A buffer as the device sees it.
pub(super) struct BufferSide<'a> {
    context: &'a Context,
    mapped: MappedBuffer,
    /// `None` if the device runs no kernels.
    kernels: Option<(Module, MappedBuffer)>,
}

impl<'a> BufferSide<'a> {
    pub(super) fn new(context: &'a Context, mapped: MappedBuffer) -> Verdict<Self> {
        let kernels = match context.kernels() {
            Ok(module) => Some((module, context.import(&*context.buffer(4096)?)?)),
            Err(_) => None,
        };
        Ok(Self { context, mapped, kernels })
    }

    /// As for images. `is_given`: the words that the operation reads are not a pattern.
    pub(super) fn ways(&self, kind: Kind, is_given: bool) -> Vec<Access> {
        match &self.kernels {
            Some(_) if kind != Kind::Changes && !is_given => vec![Access::Copy, Access::Pointer],
            _ => vec![Access::Copy],
        }
    }

    fn count(&self) -> u64 {
        self.mapped.size() / 4
    }

    pub(super) fn write(&self, stream: &Stream, way: Access, content: Content, bytes: &[u8]) -> Verdict {
        match (way, &self.kernels) {
            (Access::Copy, _) => Ok(stream.write(&self.mapped, bytes)?),
            (Access::Pointer, Some((module, _))) => {
                let args = [
                    KernelArg::Ptr(self.mapped.as_raw()),
                    KernelArg::U64(self.count()),
                    KernelArg::U32(content.pattern()?.seed()),
                ];
                let kernel = module.kernel(FILL_PATTERN.name)?;
                if self.context.has(Feature::HostFunctions) {
                    // Late, so that an exporter that does not wait is noticed.
                    stream.launch_host_function(|| std::thread::sleep(LATE))?;
                }
                // SAFETY: the arguments are those of `fill_pattern`, and the buffer outlives the synchronisation that
                // follows each round.
                unsafe { stream.launch(&kernel, &LaunchConfig::linear(self.count()), &args) }?;
                Ok(())
            }
            _ => Err(Stop::failed(format!("the suite does not write buffers by {way:?}"))),
        }
    }

    pub(super) fn verify(&self, stream: &Stream, way: Access, content: Content, bytes: &[u8]) -> Verdict {
        match (way, &self.kernels) {
            (Access::Copy, _) => {
                compare(&self.context.read(stream, &self.mapped)?, bytes, "the device's copy of the buffer")
            }
            (Access::Pointer, Some((module, counter))) => {
                let word = counter.slice(..4)?;
                stream.fill_u32(word, 0)?;
                let args = [
                    KernelArg::Ptr(self.mapped.as_raw()),
                    KernelArg::U64(self.count()),
                    KernelArg::U32(content.pattern()?.seed()),
                    KernelArg::Ptr(counter.as_raw()),
                ];
                let kernel = module.kernel(VERIFY_PATTERN.name)?;
                // SAFETY: the arguments are those of `verify_pattern`, and both buffers outlive the read below.
                unsafe { stream.launch(&kernel, &LaunchConfig::linear(self.count()), &args) }?;
                let mut found = [0; 4];
                stream.read(word, &mut found)?;
                let found = u32::from_ne_bytes(found);
                ensure!(found == 0, "a kernel found {found} words of the buffer that differ");
                Ok(())
            }
            _ => Err(Stop::failed(format!("the suite does not read buffers by {way:?}"))),
        }
    }
}
