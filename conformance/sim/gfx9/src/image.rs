//! Image descriptors, and the elements that instructions reach through them.

use crate::format::Format;
use crate::tiling::{AddressConfig, Layout, Shape};
use crate::wave::Wave;
use crate::{Result, unknown};

/// Type of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Line,
    Plane,
    Volume,
    Cube,
}

/// The eight words that describe an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Descriptor {
    base: u64,
    pub(crate) format: Format,
    pub(crate) kind: Kind,
    /// Which component of an element each result is: 0, 1, or a component from 4 on.
    selects: [u8; 4],
    /// The component of a border colour that each component of an element gets.
    border: [u8; 4],
    /// Width, height and depth of level 0.
    size: [u32; 3],
    /// The first and the last level, and layer, that may be accessed.
    pub(crate) levels: [u32; 2],
    pub(crate) layers: [u32; 2],
    layout: Layout,
}

/// The orders of a border colour's components.
const BORDERS: [[u8; 4]; 6] = [[0, 1, 2, 3], [0, 3, 1, 2], [3, 2, 1, 0], [3, 0, 1, 2], [2, 1, 0, 3], [1, 0, 3, 2]];

impl Descriptor {
    /// `None`: the words are all 0, and describe an image without elements.
    pub(crate) fn new(words: [u32; 8], config: AddressConfig) -> Result<Option<Self>> {
        if words == [0; 8] {
            return Ok(None);
        }
        let bits = |word: usize, low: u32, count: u32| words[word] >> low & ((1 << count) - 1);
        let kind = match bits(3, 28, 4) {
            8 | 12 => Kind::Line,
            9 | 13 => Kind::Plane,
            10 => Kind::Volume,
            11 => Kind::Cube,
            14 | 15 => return Err(unknown("an image with several samples")),
            _ => return Err(unknown("the type of an image descriptor")),
        };
        match () {
            () if bits(6, 21, 1) != 0 => return Err(unknown("a compressed image: disable DCC and HTILE")),
            () if bits(1, 8, 12) != 0 => return Err(unknown("the least level of an image descriptor")),
            () if bits(5, 13, 4) != 0 => return Err(unknown("the array pitch of an image descriptor")),
            () => {}
        }
        let format = Format::of_image(bits(1, 20, 6), bits(1, 26, 4));
        let bytes = format.size()?;
        if !bytes.is_power_of_two() {
            return Err(unknown("an image with elements of 12 bytes"));
        }
        let volume = kind == Kind::Volume;
        let last = bits(4, 0, 13);
        let size = [bits(2, 0, 14) + 1, bits(2, 14, 14) + 1, if volume { last + 1 } else { 1 }];
        let shape = Shape {
            mode: bits(3, 20, 5),
            volume,
            element: bytes.ilog2(),
            size,
            levels: bits(5, 28, 4) + 1,
            pitch: bits(4, 13, 16) + 1,
        };
        let border = BORDERS.get(bits(4, 29, 3) as usize).ok_or(unknown("the order of the border colour"))?;
        Ok(Some(Self {
            base: (u64::from(bits(1, 0, 8)) << 32 | u64::from(words[0])) << 8,
            format,
            kind,
            selects: std::array::from_fn(|place| bits(3, 3 * place as u32, 3) as u8),
            border: *border,
            size,
            levels: [bits(3, 12, 4), bits(3, 16, 4)],
            layers: if volume { [0, 0] } else { [bits(5, 0, 13), last] },
            layout: Layout::new(shape, config)?,
        }))
    }

    pub(crate) fn read(wave: &Wave, register: u16, config: AddressConfig) -> Result<Option<Self>> {
        let mut words = [0; 8];
        for (word, number) in words.iter_mut().zip(register..) {
            *word = wave.scalar(number, 0)?;
        }
        Self::new(words, config)
    }

    /// Coordinates without that of the layer.
    pub(crate) fn dimensions(&self) -> usize {
        match self.kind {
            Kind::Line => 1,
            Kind::Plane | Kind::Cube => 2,
            Kind::Volume => 3,
        }
    }

    /// Number of layers that may be accessed.
    pub(crate) fn layer_count(&self) -> u32 {
        (self.layers[1] + 1).saturating_sub(self.layers[0])
    }

    /// Width, height and depth of a level.
    pub(crate) fn size(&self, level: u32) -> [u32; 3] {
        self.size.map(|size| size.checked_shr(level).unwrap_or(0).max(1))
    }

    /// The address of an element of a level, counted from the first level that may be accessed. The third coordinate is
    /// the slice of a volume, or the layer counted from the first one. `None`: there is no such element.
    pub(crate) fn address(&self, place: [u32; 3], level: u32) -> Option<u64> {
        let level = level.checked_add(self.levels[0]).filter(|level| *level <= self.levels[1])?;
        let [width, height, depth] = self.size(level);
        let [x, y, z] = place;
        let (first, count) = if self.kind == Kind::Volume { (0, depth) } else { (self.layers[0], self.layer_count()) };
        let inside = x < width && y < height && z < count;
        inside.then(|| self.layout.address(self.base, [x, y, z + first], level))
    }

    /// The results for the components of an element.
    pub(crate) fn selected(&self, components: [u32; 4]) -> [u32; 4] {
        self.selects.map(|select| match select {
            1 => self.format.one(),
            4..=7 => components[usize::from(select) - 4],
            _ => 0,
        })
    }

    /// The components of an element for data in the order of results.
    pub(crate) fn stored(&self, data: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|component| {
            let place = self.selects.iter().position(|select| usize::from(*select) == component + 4);
            place.map_or(0, |place| data[place])
        })
    }

    /// The components of an element that a border colour replaces.
    pub(crate) fn bordered(&self, colour: [u32; 4]) -> [u32; 4] {
        self.border.map(|component| colour[usize::from(component)])
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Words of an image of two dimensions in linear order, with 4 bytes per element.
    pub(crate) fn plane(base: u64, width: u32, height: u32) -> [u32; 8] {
        let selects = 4 | 5 << 3 | 6 << 6 | 7 << 9;
        [
            (base >> 8) as u32,
            (base >> 40) as u32 | 10 << 20,
            (width - 1) | (height - 1) << 14,
            selects | 9 << 28,
            (width.next_multiple_of(64) - 1) << 13,
            0,
            0,
            0,
        ]
    }

    fn image(words: [u32; 8]) -> Descriptor {
        Descriptor::new(words, AddressConfig::default()).unwrap().unwrap()
    }

    #[test]
    fn the_words_fall_into_their_parts() {
        let mut words = plane(0x1234_5678_9a00, 100, 60);
        words[1] |= 4 << 26;
        words[3] = 6 | 5 << 3 | 4 << 6 | 1 << 9 | 2 << 12 | 3 << 16 | 13 << 28;
        words[4] = 9 | (191 << 13) | 4 << 29;
        words[5] = 7 | 4 << 28;
        let found = image(words);
        assert_eq!((found.base, found.kind, found.selects), (0x1234_5678_9a00, Kind::Plane, [6, 5, 4, 1]));
        assert_eq!((found.levels, found.layers, found.layer_count()), ([2, 3], [7, 9], 3));
        assert_eq!((found.size(2), found.format), ([25, 15, 1], Format::of_image(10, 4)));
        assert_eq!(found.selected([10, 20, 30, 40]), [30, 20, 10, 1]);
        assert_eq!(found.stored([1, 2, 3, 4]), [3, 2, 1, 0]);
        assert_eq!(found.bordered([1, 2, 3, 4]), [3, 2, 1, 4]);
    }

    #[test]
    fn elements_outside_have_no_address() {
        let found = image(plane(0x10000, 100, 60));
        assert_eq!(found.address([99, 59, 0], 0), Some(0x10000 + (59 * 128 + 99) * 4));
        for (place, level) in [([100, 0, 0], 0), ([0, 60, 0], 0), ([0, 0, 1], 0), ([0, 0, 0], 1), ([u32::MAX; 3], 0)] {
            assert_eq!(found.address(place, level), None, "{place:?} {level}");
        }
    }

    #[test]
    fn levels_and_layers_count_from_the_first_one() {
        let mut words = plane(0, 64, 64);
        // Level 1 of 7 and layers 2 to 3, in linear order: 64 + 32 + 16 + 8 + 4 + 2 + 1 rows for each layer.
        words[3] |= 1 << 12 | 2 << 16;
        words[4] = 3 | 126 << 13;
        words[5] = 2 | 6 << 28;
        let found = image(words);
        assert_eq!(found.address([31, 31, 1], 0), Some((3 * 127 + 64 + 31) * 256 + 31 * 4));
        assert_eq!(found.address([15, 15, 0], 1), Some((2 * 127 + 96 + 15) * 256 + 15 * 4));
        assert_eq!(found.address([16, 15, 0], 1), None);
        assert_eq!(found.address([0, 0, 2], 0), None);
        assert_eq!(found.address([0, 0, 0], 2), None);
    }

    #[test]
    fn descriptors_that_are_not_emulated_are_errors() {
        assert_eq!(Descriptor::new([0; 8], AddressConfig::default()), Ok(None));
        type Change = fn(&mut [u32; 8]);
        let changes: [(Change, &str); 6] = [
            (|words| words[6] |= 1 << 21, "compressed"),
            (|words| words[3] |= 15 << 28, "samples"),
            (|words| words[3] &= 0x0fff_ffff, "type"),
            (|words| words[1] |= 1 << 8, "least level"),
            (|words| words[1] = 13 << 20 | 7 << 26, "12 bytes"),
            (|words| words[1] = 35 << 20, "data format"),
        ];
        for (change, expected) in changes {
            let mut words = plane(0, 16, 16);
            change(&mut words);
            let error = Descriptor::new(words, AddressConfig::default()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
