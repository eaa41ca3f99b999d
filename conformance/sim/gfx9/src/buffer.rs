//! Buffer descriptors, and the addresses of accesses through them.

use crate::Result;
use crate::decode::{Fields, flag};
use crate::format::Format;
use crate::wave::Wave;

/// The four words that describe a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) base: u64,
    stride: u32,
    /// Bytes, or elements if there is a stride.
    records: u32,
    /// Lanes' elements lie beside each other.
    swizzle: bool,
    index_stride: u32,
    /// The lane's number is added to the index.
    add_lane: bool,
    pub(crate) format: Format,
    /// Which component of the element each result is: 0, 1, or a component from 4 on.
    pub(crate) selects: [u8; 4],
}

impl Descriptor {
    pub(crate) fn new(words: [u32; 4]) -> Self {
        let [low, high, records, flags] = words;
        let bits = |low: u32, count: u32| flags >> low & ((1 << count) - 1);
        let add_lane = bits(23, 1) != 0;
        // With the lane's number, the place of the data format extends the stride.
        let wide_stride = if add_lane { bits(15, 4) << 14 } else { 0 };
        Self {
            base: u64::from(high & 0xffff) << 32 | u64::from(low),
            stride: high >> 16 & 0x3fff | wide_stride,
            records,
            swizzle: high >> 31 != 0,
            index_stride: 8 << bits(21, 2),
            add_lane,
            format: Format::of_buffer(bits(15, 4), bits(12, 3)),
            selects: std::array::from_fn(|place| bits(3 * place as u32, 3) as u8),
        }
    }

    pub(crate) fn read(wave: &Wave, register: u16) -> Result<Self> {
        let mut words = [0; 4];
        for (word, number) in words.iter_mut().zip(register..) {
            *word = wave.scalar(number, 0)?;
        }
        Ok(Self::new(words))
    }

    /// Bytes from an offset on that scalar loads may read: none beyond the end.
    pub(crate) fn contains(&self, offset: u64, size: u64) -> bool {
        let bytes =
            if self.stride == 0 { self.records.into() } else { u64::from(self.records) * u64::from(self.stride) };
        offset + size <= bytes
    }
}

/// Bytes of the parts of a swizzled buffer's elements that lie beside those of other elements. GFX9 has no field for it.
const ELEMENT: u64 = 4;

/// The offset and the index of a lane's access, and the range of the buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) address: u64,
    /// The access is within the buffer.
    pub(crate) inside: bool,
}

/// Where the lanes of an instruction access a buffer, `size` bytes each.
pub(crate) fn place(
    wave: &Wave,
    fields: &Fields,
    descriptor: &Descriptor,
    scalar_offset: u32,
    lane: usize,
    size: u32,
) -> Result<Place> {
    let first = usize::from(fields.sources[0]);
    let indexed = fields.bits & flag::BUFFER_IDXEN != 0;
    let vector = |used: bool, number: usize| if used { Ok(wave.vector(number)?[lane]) } else { Ok(0) };
    let mut index = vector(indexed, first)?;
    let offset = vector(fields.bits & flag::BUFFER_OFFEN != 0, first + usize::from(indexed))?;
    if descriptor.add_lane {
        index = index.wrapping_add(lane as u32);
    }
    let offset = u64::from(offset) + fields.offset.cast_unsigned() as u64;
    // Records are bytes unless both the descriptor and the instruction have an index.
    let inside = if descriptor.stride == 0 || !indexed {
        offset + u64::from(size) + u64::from(scalar_offset) <= descriptor.records.into()
    } else {
        index < descriptor.records
    };
    let stride = u64::from(descriptor.stride);
    let within = if descriptor.swizzle {
        let (index_stride, element) = (u64::from(descriptor.index_stride), ELEMENT);
        let (index, lane) = (u64::from(index) / index_stride, u64::from(index) % index_stride);
        let (row, rest) = (offset / element, offset % element);
        (index * stride + row * element) * index_stride + lane * element + rest
    } else {
        u64::from(index) * stride + offset
    };
    Ok(Place { address: descriptor.base + u64::from(scalar_offset) + within, inside })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_fall_into_their_parts() {
        let found = Descriptor::new([
            0x1000,
            0x8010_0002,
            7,
            4 | 5 << 3 | 6 << 6 | 7 << 9 | 4 << 12 | 14 << 15 | 1 << 19 | 3 << 21,
        ]);
        assert_eq!((found.base, found.stride, found.records), (0x2_0000_1000, 16, 7));
        assert_eq!((found.swizzle, found.index_stride, found.add_lane), (true, 64, false));
        assert_eq!(found.selects, [4, 5, 6, 7]);
        assert!(found.contains(100, 12) && !found.contains(100, 13));
    }
}
