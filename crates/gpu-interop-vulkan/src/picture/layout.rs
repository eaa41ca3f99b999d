//! Checks of a picture's planes against each other and against their dma-bufs. They need no device.

use gpu_interop_core::format::{DmaBufObject, DmaBufPicture, DrmModifier};
use gpu_interop_core::{Error, Result};

use super::format::PictureFormat;

/// The most memory planes of an image in Vulkan.
const MOST_PLANES: usize = 4;

/// Checks of the description alone.
pub(super) fn check_description(
    operation: &'static str,
    picture: &DmaBufPicture,
    format: &PictureFormat,
) -> Result<()> {
    if picture.modifier == DrmModifier::INVALID {
        let message = "the layout of the texels is unknown (modifier INVALID, an implicit layout); have the producer allocate with \
                       a modifier that the device lists (VulkanInterop::picture_modifiers), or state LINEAR if it has linear \
                       rows";
        return Err(Error::unsupported(operation, message));
    }
    if picture.extent.contains(&0) {
        return Err(Error::invalid(operation, "width and height must be at least 1"));
    }
    if let Some(video) = format.video.filter(|video| !video.divides(picture.extent)) {
        let [x, y] = video.subsampling(1);
        let message = format!(
            "a multi-planar image of this format has a width that is a multiple of {x} and a height that is a multiple of {y}; \
             import each plane as a picture of its own (DmaBufPicture::into_planes)"
        );
        return Err(Error::invalid(operation, message));
    }
    let count = picture.planes.len();
    if !(1..=MOST_PLANES).contains(&count) {
        let message = format!("a picture has 1 to {MOST_PLANES} memory planes");
        return Err(Error::invalid(operation, message).with_context("planes", count));
    }
    Ok(())
}

/// `true` if the pitch is that of rows of texels, and the planes of the format are the first memory planes: linear memory, and
/// the tilings of Intel, AMD and NVIDIA. Others have columns or blocks, which only their drivers know.
fn has_rows(modifier: DrmModifier) -> bool {
    modifier.0 >> 56 <= 0x03
}

/// Bytes of a plane in its dma-buf.
struct Extent {
    object: usize,
    start: u64,
    end: u64,
    pitch: u64,
    row: u64,
}

impl Extent {
    fn overlaps(&self, other: &Self) -> bool {
        if self.object != other.object || self.end <= other.start || other.end <= self.start {
            return false;
        }
        if self.start > other.start {
            return other.overlaps(self);
        }
        // Planes may be side by side in rows of one pitch.
        let alternate = self.pitch == other.pitch && self.pitch > 0 && {
            let distance = (other.start - self.start) % self.pitch;
            distance >= self.row && self.pitch - distance >= other.row
        };
        !alternate
    }
}

/// Checks that each plane is inside its dma-buf, has rows of whole texels that do not overlap, and overlaps no other plane.
/// Planes beyond those of the format, of compression, have a size that only the driver knows.
pub(super) fn check_planes(
    operation: &'static str,
    picture: &DmaBufPicture,
    format: &PictureFormat,
    objects: &[DmaBufObject],
) -> Result<()> {
    let mut extents: Vec<Extent> = Vec::new();
    for (index, (plane, object)) in picture.planes.iter().zip(objects).enumerate() {
        let describe = |error: Error| error.with_context("plane", index);
        let invalid = |message: String| {
            let error = Error::invalid(operation, message);
            describe(error.with_context("offset", plane.offset).with_context("pitch", plane.pitch))
                .with_context("dma-buf", format_args!("{} bytes", object.size))
        };
        if plane.offset >= object.size {
            return Err(invalid(
                "the plane starts past the end of its dma-buf; pass bytes from the dma-buf's start".into(),
            ));
        }
        let mut extent =
            Extent { object: object.index, start: plane.offset, end: plane.offset + 1, pitch: plane.pitch, row: 1 };
        if index < format.planes() && has_rows(picture.modifier) {
            let layout = format.layout(index, picture.extent, plane.offset, plane.pitch);
            let texel = u64::from(layout.texel.texel_size());
            if plane.pitch < layout.row_size() {
                let needed = layout.row_size();
                return Err(invalid(format!(
                    "the pitch is smaller than a row of {needed} bytes; pass bytes, not texels"
                )));
            }
            if !plane.pitch.is_multiple_of(texel) || !plane.offset.is_multiple_of(texel) {
                return Err(invalid(format!("offset and pitch must be multiples of the texel's {texel} bytes")));
            }
            layout.check(operation, object.size).map_err(describe)?;
            // `check` has computed the end.
            extent.end = layout.end().unwrap_or(u64::MAX);
            extent.row = layout.row_size();
        }
        if let Some(other) = extents.iter().position(|other| other.overlaps(&extent)) {
            return Err(invalid(format!("the plane overlaps plane {other} of the same dma-buf")));
        }
        extents.push(extent);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;
    use gpu_interop_core::format::{DmaBufPlane, DrmFourcc};
    use rustix::fs::MemfdFlags;

    use super::*;

    /// A modifier of Intel's, of AMD's and of Broadcom's.
    const TILED: [DrmModifier; 3] =
        [DrmModifier(0x0100_0000_0000_0002), DrmModifier(0x0200_0000_0000_0901), DrmModifier(0x0700_0000_0000_0004)];

    /// A plane: index and size of the dma-buf, offset, pitch.
    type Plane = (usize, u64, u64, u64);

    fn check(code: &str, modifier: DrmModifier, extent: [u32; 2], planes: &[Plane]) -> Result<()> {
        let count = planes.iter().map(|plane| plane.0 + 1).max().unwrap_or(0);
        let files: Vec<_> = (0..count)
            .map(|index| {
                let file = rustix::fs::memfd_create("picture", MemfdFlags::CLOEXEC).expect("memfd");
                let size = planes.iter().find(|plane| plane.0 == index).map_or(0, |plane| plane.1);
                rustix::fs::ftruncate(&file, size).expect("ftruncate");
                file
            })
            .collect();
        let described = planes
            .iter()
            .map(|(file, _, offset, pitch)| DmaBufPlane::new(files[*file].try_clone().expect("dup"), *offset, *pitch));
        let picture = DmaBufPicture::new(DrmFourcc::from_code(code), modifier, extent, described.collect());
        let format = PictureFormat::new("op", picture.format, None).expect("known");
        check_description("op", &picture, &format)?;
        check_planes("op", &picture, &format, &picture.objects()?)
    }

    #[track_caller]
    fn rejected(outcome: Result<()>, plane: Option<usize>, words: &str) {
        let error = outcome.expect_err(words);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(words), "{error} should contain: {words}");
        let named = error.context().iter().find(|(key, _)| *key == "plane").map(|(_, plane)| plane.clone());
        assert_eq!(named, plane.map(|plane| plane.to_string()), "{error}");
    }

    #[test]
    fn pictures_of_producers_are_accepted() {
        for (code, extent, planes) in [
            ("XR24", [5, 3], &[(0, 64, 4, 20)][..]),
            ("R8  ", [5, 1], &[(0, 8, 3, 5)]),
            ("NV12", [64, 32], &[(0, 3072, 0, 64), (0, 3072, 2048, 64)]),
            // Chroma before luma, and each in a dma-buf of its own.
            ("NV12", [64, 32], &[(0, 3072, 1024, 64), (0, 3072, 0, 64)]),
            ("P010", [64, 32], &[(0, 4096, 0, 128), (1, 2048, 0, 128)]),
            // Blue and red side by side, in the same dma-buf.
            ("YU12", [64, 32], &[(0, 2048, 0, 64), (1, 1024, 0, 64), (1, 1024, 32, 64)]),
        ] {
            check(code, DrmModifier::LINEAR, extent, planes).expect(code);
        }
        // Compression, of a size that only the driver knows; columns of Broadcom's.
        check("XR24", TILED[1], [64, 64], &[(0, 20480, 0, 256), (0, 20480, 16384, 0)]).expect("compressed");
        check("NV12", TILED[2], [256, 64], &[(0, 24576, 0, 128), (0, 24576, 16384, 128)]).expect("columns");
    }

    #[test]
    fn planes_outside_of_their_dma_bufs_are_rejected() {
        let nv12 = |modifier, luma, chroma| check("NV12", modifier, [64, 32], &[luma, chroma]);
        for modifier in [DrmModifier::LINEAR, TILED[0], TILED[1]] {
            let luma = (0, 3072, 0, 64);
            rejected(nv12(modifier, luma, (0, 3072, 2050, 64)), Some(1), "past the end");
            rejected(nv12(modifier, luma, (0, 3072, 3072, 64)), Some(1), "starts past the end");
            rejected(nv12(modifier, luma, (0, 3072, 2048, 62)), Some(1), "smaller than a row of 64 bytes");
            rejected(nv12(modifier, luma, (0, 3072, 2048, 65)), Some(1), "multiples of the texel's 2 bytes");
            rejected(nv12(modifier, luma, (1, 3072, 1, 64)), Some(1), "multiples of the texel's 2 bytes");
            rejected(nv12(modifier, (0, 3072, 0, u64::MAX), (0, 3072, 2048, 64)), Some(0), "past the end");
            rejected(nv12(modifier, luma, (0, 3072, u64::MAX - 1, 64)), Some(1), "starts past the end");
            rejected(nv12(modifier, luma, (0, 3072, 1024, 64)), Some(1), "overlaps plane 0");
            rejected(nv12(modifier, (0, 3072, 2048 - 64, 64), (0, 3072, 0, 64)), Some(0), "past the end");
        }
        rejected(nv12(TILED[2], (0, 3072, 0, 64), (0, 3072, 0, 64)), Some(1), "overlaps plane 0");
        // Side by side, but one texel too near.
        let side_by_side = |red| [(0, 2048, 0, 64), (1, 1024, 0, 64), (1, 1024, red, 64)];
        rejected(check("YU12", DrmModifier::LINEAR, [64, 32], &side_by_side(31)), Some(2), "overlaps plane 1");
        rejected(check("YU12", DrmModifier::LINEAR, [64, 32], &side_by_side(33)), Some(2), "past the end");
        // Compression inside of the texels.
        rejected(check("XR24", TILED[1], [64, 64], &[(0, 20480, 0, 256), (0, 20480, 8192, 0)]), Some(1), "overlaps");
    }

    #[test]
    fn descriptions_without_a_picture_are_rejected() {
        let planes = [(0, 3072, 0, 64), (0, 3072, 2048, 64)];
        for (extent, words) in
            [([0, 32], "at least 1"), ([64, 0], "at least 1"), ([63, 32], "multiple of 2"), ([64, 31], "into_planes")]
        {
            rejected(check("NV12", DrmModifier::LINEAR, extent, &planes), None, words);
        }
        rejected(check("NV12", DrmModifier::LINEAR, [64, 32], &[]), None, "1 to 4 memory planes");
        rejected(check("R8  ", DrmModifier::LINEAR, [1, 1], &[(0, 8, 0, 1); 5]), None, "1 to 4 memory planes");
        let error = check("NV12", DrmModifier::INVALID, [64, 32], &planes).expect_err("implicit");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("picture_modifiers"), "{error}");
    }
}
