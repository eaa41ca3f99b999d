//! An image shared by the exporter and the device, and its expected contents.

mod fetch;
mod kernels;
mod texels;

use gpu_interop::vulkan::{ChannelOrder, ColorEncoding, TexelFormat};
use gpu_interop::{ArrayFormat, ChannelType, MappedMipmappedArray, MipmappedArrayDesc, Stream};

use crate::context::Context;
use crate::exporter::{ExportedImage, ImageSpec};
use crate::outcome::{Stop, StopKind, Verdict};
use crate::pattern::Pattern;
use crate::{ensure, ensure_eq};
pub(crate) use fetch::{Fetched, make_finite};
pub(crate) use kernels::ImageKernels;
pub(crate) use texels::Texels;

/// A format in the order red, green, blue, alpha, with linear encoding.
pub(crate) fn plain_format(channel: ChannelType, channels: u8) -> Verdict<TexelFormat> {
    let array = ArrayFormat::new(channel, channels)?;
    Ok(TexelFormat { array, order: ChannelOrder::Rgba, encoding: ColorEncoding::Linear })
}

// The contents of an image after `pattern` was written: level `n` has the bytes of `pattern.level(n)`, layer after
// layer, so that no two ranges are equal.
impl dyn ExportedImage {
    /// Writes every level and layer from the exporter's side.
    pub(crate) fn write_all(&self, pattern: Pattern) -> Verdict {
        let spec = self.spec();
        for (level, layer) in spec.subresources() {
            let size = spec.layer_size(level);
            let data = pattern.level(level).bytes(u64::from(layer) * size, usize::try_from(size)?);
            self.write(level, layer, &data)?;
        }
        Ok(())
    }

    /// Checks every byte from the exporter's side.
    pub(crate) fn verify_all(&self, pattern: Pattern, what: &str) -> Verdict {
        let what = format!("{what}, exporter's side");
        verify_levels(self.spec(), pattern, &what, |level| self.read_level(level))
    }

    /// Checks every byte of one level from the exporter's side.
    pub(crate) fn verify_level(&self, level: u32, pattern: Pattern, what: &str) -> Verdict {
        verify_level(self.spec(), level, pattern, &format!("{what}, exporter's side"), &self.read_level(level)?)
    }

    /// The offset of each row of a linear image in the memory and in its level's pattern, and the level.
    pub(crate) fn rows(&self) -> Verdict<Vec<(u64, u64, u32)>> {
        let spec = self.spec();
        let mut rows = Vec::new();
        for (level, layer) in spec.subresources() {
            let layout = self.row_layout(level, layer)?;
            ensure!(layout.row_pitch >= layout.row_size || layout.rows == 1, "rows that overlap: {layout:?}");
            let before = u64::from(layer) * spec.layer_size(level);
            rows.extend(layout.places().map(|(place, at)| (place, before + at, level)));
        }
        Ok(rows)
    }

    /// Reads all layers of one level from the exporter's side.
    pub(crate) fn read_level(&self, level: u32) -> Verdict<Vec<u8>> {
        let spec = self.spec();
        let mut found = vec![0; usize::try_from(spec.level_size(level))?];
        // A layer is never empty.
        for (layer, texels) in (0..).zip(found.chunks_exact_mut(usize::try_from(spec.layer_size(level))?)) {
            self.read(level, layer, texels)?;
        }
        Ok(found)
    }
}

/// Checks every byte of every level of an image that `pattern` was written to. `read` gives all layers of a level.
fn verify_levels(
    spec: &ImageSpec,
    pattern: Pattern,
    what: &str,
    mut read: impl FnMut(u32) -> Verdict<Vec<u8>>,
) -> Verdict {
    (0..spec.levels).try_for_each(|level| verify_level(spec, level, pattern, what, &read(level)?))
}

/// Checks every byte of one level, all layers of which are in `found`.
fn verify_level(spec: &ImageSpec, level: u32, pattern: Pattern, what: &str, found: &[u8]) -> Verdict {
    ensure_eq!(found.len() as u64, spec.level_size(level), "{what}: bytes of level {level} of {spec}");
    pattern.level(level).verify(0, found, format_args!("{what}, level {level} of {spec}"))
}

/// An image of the exporter, imported and mapped by the device under test.
pub(crate) struct SharedImage {
    pub(crate) exported: Box<dyn ExportedImage>,
    pub(crate) array: MappedMipmappedArray,
}

impl SharedImage {
    /// Creates an image of the exporter and imports it. Unsupported if either side has no such images.
    pub(crate) fn new(context: &Context, spec: ImageSpec) -> Verdict<Self> {
        let exported = context.exporter()?.image(spec)?;
        let desc = exported.array_desc()?;
        ensure_eq!(
            (desc.shape, desc.format, desc.levels, desc.usage),
            (spec.shape, spec.format.array, spec.levels, spec.usage),
            "the exporter's description of its image"
        );
        Self::mapped_as(context, exported, &desc)
    }

    /// Imports an image and maps it.
    pub(crate) fn mapped_as(
        context: &Context,
        exported: Box<dyn ExportedImage>,
        desc: &MipmappedArrayDesc,
    ) -> Verdict<Self> {
        let memory = context.device().import_memory(exported.import_request()?)?;
        // Unlike most features of a device, supported formats and shapes are known only after an attempt.
        Ok(Self { exported, array: memory.map_mipmapped_array(desc).map_err(Stop::attempted)? })
    }

    pub(crate) fn spec(&self) -> &ImageSpec {
        self.exported.spec()
    }

    pub(crate) fn device_writes(&self, stream: &Stream, pattern: Pattern) -> Verdict {
        for level in 0..self.spec().levels {
            let data = pattern.level(level).bytes(0, usize::try_from(self.spec().level_size(level))?);
            stream.write_array(self.array.level(level)?, &data)?;
        }
        Ok(())
    }

    /// Checks every byte by reads of the device.
    pub(crate) fn device_sees(&self, stream: &Stream, pattern: Pattern, what: &str) -> Verdict {
        let what = format!("{what}, device's side");
        verify_levels(self.spec(), pattern, &what, |level| self.device_reads(stream, level))
    }

    pub(crate) fn device_reads(&self, stream: &Stream, level: u32) -> Verdict<Vec<u8>> {
        let mut found = vec![0; usize::try_from(self.spec().level_size(level))?];
        stream.read_array(self.array.level(level)?, &mut found)?;
        Ok(found)
    }

    /// Checks that each side sees the other's writes, twice, so that stale data is detected.
    pub(crate) fn goes_both_ways(&self, context: &Context) -> Verdict {
        let device_sees = |stream: &Stream, pattern, what: &str| self.device_sees(stream, pattern, what);
        both_ways(context, &*self.exported, device_sees, |stream, pattern| self.device_writes(stream, pattern))
    }
}

/// Checks that the exporter's and the device's side of an image see each other's writes, twice, so that stale data is
/// detected.
pub(crate) fn both_ways(
    context: &Context,
    exported: &(dyn ExportedImage + 'static),
    device_sees: impl Fn(&Stream, Pattern, &str) -> Verdict,
    device_writes: impl Fn(&Stream, Pattern) -> Verdict,
) -> Verdict {
    let stream = context.device().create_stream()?;
    let mut pattern = context.pattern();
    for _ in 0..2 {
        exported.write_all(pattern)?;
        device_sees(&stream, pattern, "the exporter's data")?;
        pattern = pattern.other();
        device_writes(&stream, pattern)?;
        exported.verify_all(pattern, "the device's data")?;
        pattern = pattern.other();
    }
    Ok(())
}

/// Calls `check` for each of several variants, such as formats or shapes. Unsupported if all are unsupported, or, with
/// `all_needed`, any; otherwise unsupported variants are passed to `leave_out`, with the reason.
pub(crate) fn for_each<T: Copy + std::fmt::Debug>(
    mut leave_out: impl FnMut(String),
    variants: &[T],
    all_needed: bool,
    mut check: impl FnMut(T) -> Verdict,
) -> Verdict {
    ensure!(!variants.is_empty(), "nothing to check");
    let mut missing = Vec::new();
    for variant in variants {
        match check(*variant) {
            Err(Stop { kind: StopKind::Unsupported, reason, .. }) => missing.push((*variant, reason)),
            other => other?,
        }
    }
    let Some((_, first)) = missing.first() else { return Ok(()) };
    // An exporter without images reports it for each variant.
    let reasons = if missing.len() > 1 && missing.iter().all(|(_, reason)| reason == first) {
        first.clone()
    } else if !all_needed && missing.len() == variants.len() {
        format!("none of {} variants is supported; the first: {first}", variants.len())
    } else {
        missing.iter().map(|(variant, reason)| format!("{variant:?}: {reason}")).collect::<Vec<_>>().join("; ")
    };
    if all_needed || missing.len() == variants.len() {
        return Err(Stop::unsupported(reasons));
    }
    missing.iter().for_each(|(variant, reason)| leave_out(format!("{variant:?}: {reason}")));
    Ok(())
}

#[cfg(test)]
mod compared;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_format_is_never_a_pass_where_all_are_needed() {
        let formats = [1, 2, 4].map(|channels| plain_format(ChannelType::Uint8, channels).expect("a format"));
        let without = |missing: &'static [u8]| {
            move |format: TexelFormat| match missing.contains(&format.array.channels()) {
                true => Err(Stop::unsupported("not here".into())),
                false => Ok(()),
            }
        };
        assert_eq!(for_each(drop, &formats, true, without(&[])), Ok(()));
        assert_eq!(for_each(drop, &formats, false, without(&[1, 4])), Ok(()));
        let named = |found: Verdict| {
            found.is_err_and(|stop| stop.kind == StopKind::Unsupported && stop.reason.contains("channels: 2"))
        };
        assert!(named(for_each(drop, &formats, true, without(&[2]))));
        let all = for_each(drop, &formats, false, without(&[1, 2, 4]));
        assert_eq!(all, Err(Stop::unsupported("not here".into())), "once, not three times");
        let fails = |_| Err(Stop::failed("wrong".into()));
        assert_eq!(for_each(drop, &formats, false, fails), Err(Stop::failed("wrong".into())));
        assert!(for_each(drop, &formats[..0], false, without(&[])).is_err());
    }
}
