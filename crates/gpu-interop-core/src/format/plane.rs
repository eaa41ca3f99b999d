//! Layout of one plane.

use crate::array::ArrayFormat;
use crate::error::{Error, Result};

/// Layout of a plane in linear memory: rows of texels at a constant distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PlaneLayout {
    /// Offset of the first texel in the memory, bytes.
    pub offset: u64,
    /// Distance between the starts of consecutive rows, bytes.
    pub pitch: u64,
    /// Width and height, texels of this plane.
    pub extent: [u32; 2],
    /// Format of a texel.
    pub texel: ArrayFormat,
}

impl PlaneLayout {
    /// Describes a plane: offset and pitch in bytes, extent in texels of this plane. Nothing is checked; see
    /// [`check`](Self::check).
    #[must_use]
    pub const fn new(offset: u64, pitch: u64, extent: [u32; 2], texel: ArrayFormat) -> Self {
        Self { offset, pitch, extent, texel }
    }

    /// Size of a row without padding, bytes. At most 2^36, because a texel has at most 16 bytes.
    #[must_use]
    pub fn row_size(&self) -> u64 {
        u64::from(self.extent[0]) * u64::from(self.texel.texel_size())
    }

    /// Size of the texels without padding, bytes; `None` on overflow.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.row_size().checked_mul(self.extent[1].into())
    }

    /// Offset of the byte behind the last row's last texel; `None` on overflow or for a height of 0.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        let rows = u64::from(self.extent[1]).checked_sub(1)?;
        self.pitch.checked_mul(rows)?.checked_add(self.row_size())?.checked_add(self.offset)
    }

    /// Offset of a row in the memory, bytes; `None` if the plane lacks the row, or on overflow.
    #[must_use]
    pub fn row(&self, row: u32) -> Option<u64> {
        if row >= self.extent[1] {
            return None;
        }
        self.pitch.checked_mul(row.into())?.checked_add(self.offset)
    }

    /// Checks that every texel is inside memory of `memory_size` bytes and that rows do not overlap. `operation` is reported
    /// in the error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an extent of 0, a pitch below the size of a
    /// row, or an end past the memory or 64 bits.
    pub fn check(&self, operation: &'static str, memory_size: u64) -> Result<()> {
        let invalid = |message: &str| {
            Err(Error::invalid(operation, message)
                .with_context("offset", self.offset)
                .with_context("pitch", format_args!("{} bytes", self.pitch))
                .with_context("extent", format_args!("{} x {}", self.extent[0], self.extent[1]))
                .with_context("texel", self.texel)
                .with_context("memory", format_args!("{memory_size} bytes")))
        };
        if self.extent.contains(&0) {
            return invalid("width and height of a plane must be at least 1");
        }
        // The pitch of a single row is never used.
        if self.pitch < self.row_size() && self.extent[1] > 1 {
            return invalid("the pitch is smaller than a row, so that rows overlap; pass bytes, not texels");
        }
        if self.end().is_none_or(|end| end > memory_size) {
            return invalid("the plane goes past the end of the memory");
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ChannelType, ErrorKind};

    fn plane(offset: u64, pitch: u64, extent: [u32; 2]) -> PlaneLayout {
        PlaneLayout::new(offset, pitch, extent, ArrayFormat::of_table(ChannelType::Unorm16, 2))
    }

    proptest! {
        /// An accepted plane has all of its rows inside the memory, one behind the other.
        #[test]
        fn accepted_planes_are_inside(offset: u64, pitch: u64, width: u32, height: u32, size: u64) {
            let plane = plane(offset, pitch, [width, height]);
            match plane.check("op", size) {
                Ok(()) => {
                    for row in [0, height / 2, height - 1] {
                        let start = plane.row(row).expect("a row");
                        prop_assert!(start >= offset && start + plane.row_size() <= size);
                    }
                    prop_assert_eq!(plane.row(height), None);
                }
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::InvalidArgument),
            }
        }

        /// Small planes are accepted exactly if a computation in 128 bits fits.
        #[test]
        fn small_planes_are_accepted_exactly(
            offset in 0_u64..300, pitch in 0_u64..80, width in 0_u32..20, height in 0_u32..20, size in 0_u64..2000,
        ) {
            let row = u128::from(width) * 4;
            let end = u128::from(offset) + u128::from(pitch) * u128::from(height.saturating_sub(1)) + row;
            let fits = width > 0 && height > 0 && end <= size.into() && (height == 1 || u128::from(pitch) >= row);
            prop_assert_eq!(plane(offset, pitch, [width, height]).check("op", size).is_ok(), fits);
        }
    }

    #[test]
    fn ends_that_overflow_are_rejected() {
        for plane in [plane(u64::MAX, 8, [2, 2]), plane(0, u64::MAX, [2, 3]), plane(0, 1 << 33, [u32::MAX, u32::MAX])] {
            assert_eq!(plane.check("op", u64::MAX).expect_err("rejected").kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(plane(4, 8, [2, 3]).end(), Some(28));
        assert_eq!((plane(4, 8, [2, 0]).end(), plane(4, 8, [2, 3]).row(2)), (None, Some(20)));
    }
}
