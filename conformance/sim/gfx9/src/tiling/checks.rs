//! Checks of the places of elements.

use std::collections::HashSet;

use super::*;

use hashes::HASHES;

mod hashes;

/// All swizzle modes other than the linear one.
const MODES: [u32; 23] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27];

/// The pitch that a driver computes for an image: that of its only level, or the extent of its levels.
fn with_pitch(shape: Shape, config: AddressConfig) -> Shape {
    let Shape { mode, volume, element, size: [width, height, _], levels, .. } = shape;
    let pitch = if mode == 0 {
        let heights = (0..levels).map(|level| halved(height, level)).sum();
        if levels == 1 { width.next_multiple_of(256 >> element) } else { heights }
    } else {
        let Ok(equation) = Equation::new(Mode::new(mode).unwrap(), volume, element, config) else { return shape };
        let layout = Layout::new(Shape { pitch: 0, ..shape }, config);
        // The first level of those that share a block.
        let ends = |level: u32| layout.as_ref().is_ok_and(|layout| layout.level(&equation, level).tail != 0);
        let last = (0..levels).find(|level| ends(*level)).unwrap_or(levels - 1);
        let [x, y] = [0, 1].map(|axis| shape.size[axis].div_ceil(1 << equation.size[axis]));
        let z = if equation.size[2] == 0 { 0 } else { shape.size[2].div_ceil(1 << equation.size[2]) };
        let (axis, blocks) = if x < y && y >= z { (0, x) } else { (1, y) };
        let next = blocks.div_ceil(2);
        let next = if next == 1 && last > 2 { 2 } else { next };
        match levels {
            1 => x << equation.size[0],
            _ if last == 0 => 1 << equation.size[1],
            _ => (blocks + next) << equation.size[axis],
        }
    };
    Shape { pitch, ..shape }
}

/// Calls a function with each element of all levels, slices, rows and columns, in this order.
fn visit(layout: &Layout, base: u64, mut function: impl FnMut(u64)) {
    let Shape { volume, size, levels, .. } = layout.shape;
    for level in 0..levels {
        let [width, height, depth] = size.map(|size| (size >> level).max(1));
        let depth = if volume { depth } else { size[2] };
        for z in 0..depth {
            for y in 0..height {
                for x in 0..width {
                    function(layout.address(base, [x, y, z], level));
                }
            }
        }
    }
}

/// A hash of the addresses of all elements.
fn hash(layout: &Layout, base: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    visit(layout, base, |address| {
        hash = (hash ^ address).wrapping_mul(0x100_0000_01b3);
        hash ^= hash >> 29;
    });
    hash
}

/// The images of the table below: whether it is a volume, its size, levels, and the low bits of its base address.
const IMAGES: [(bool, [u32; 3], u32, u64); 8] = [
    (false, [200, 75, 3], 1, 0),
    (false, [70, 150, 2], 1, 5),
    (false, [300, 130, 2], 9, 0),
    (false, [40, 290, 1], 9, 11),
    (true, [70, 45, 20], 1, 3),
    (true, [60, 40, 33], 6, 0),
    (true, [20, 70, 30], 7, 9),
    (true, [18, 30, 90], 7, 0),
];

fn image(mode: u32, element: u32, place: usize) -> (Shape, u64) {
    let (volume, size, levels, low) = IMAGES[place];
    let shape = Shape { mode, volume, element, size, levels, pitch: 0 };
    (with_pitch(shape, AddressConfig::default()), if mode < 16 { 0 } else { low << 8 })
}

#[test]
fn elements_lie_where_the_hardware_has_them() {
    let mut rows = HASHES.iter();
    for mode in [0].into_iter().chain(MODES) {
        for place in 0..IMAGES.len() {
            let layouts: [_; 5] = std::array::from_fn(|element| {
                let (shape, base) = image(mode, element as u32, place);
                Layout::new(shape, AddressConfig::default()).ok().map(|layout| (layout, base))
            });
            if layouts.iter().all(Option::is_none) {
                continue;
            }
            let found = layouts.map(|layout| layout.map_or(0, |(layout, base)| hash(&layout, base) as u32));
            assert_eq!(rows.next(), Some(&(mode, place, found)), "mode {mode}, image {place}");
        }
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn offsets_fill_a_block() {
    for mode in MODES {
        for (volume, element) in [false, true].into_iter().flat_map(|volume| (0..5).map(move |size| (volume, size))) {
            for config in [AddressConfig::default(), AddressConfig(0x2400_0042), AddressConfig(0x2410_4041)] {
                let Ok(equation) = Equation::new(Mode::new(mode).unwrap(), volume, element, config) else { continue };
                let count = equation.size.iter().sum::<u32>();
                assert_eq!(count + element, equation.block);
                // A block in the middle of the image, in which the higher bits take part.
                let [width, height, depth] = equation.size.map(|bits| 1 << bits);
                let mut seen = vec![false; 1 << count];
                for z in 0..depth {
                    for y in 0..height {
                        for x in 0..width {
                            let offset = equation.offset([x + 5 * width, y + 3 * height, z + 6 * depth]);
                            assert_eq!(offset & ((1 << element) - 1), 0);
                            assert!(!std::mem::replace(&mut seen[(offset >> element) as usize], true));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn levels_and_slices_do_not_overlap() {
    for mode in [0].into_iter().chain(MODES) {
        for place in 0..IMAGES.len() {
            let (shape, base) = image(mode, 2, place);
            let Ok(layout) = Layout::new(shape, AddressConfig::default()) else { continue };
            let mut seen = HashSet::new();
            visit(&layout, base, |address| assert!(seen.insert(address), "{shape:?}: {address:#x}"));
        }
    }
}

#[test]
fn modes_that_the_hardware_lacks_are_errors() {
    let layout = |mode, volume, element, levels| {
        let shape = Shape { mode, volume, element, size: [64, 64, 64], levels, pitch: 64 };
        Layout::new(shape, AddressConfig::default()).is_ok()
    };
    for mode in [12, 15, 28, 31] {
        assert!(!layout(mode, false, 2, 1), "{mode}");
    }
    assert!(layout(9, true, 2, 1) && layout(10, true, 2, 1) && !layout(11, true, 2, 1) && !layout(1, true, 2, 1));
    assert!(layout(8, false, 3, 1) && !layout(8, false, 4, 1) && layout(8, true, 4, 1));
    assert!(layout(2, false, 2, 1) && !layout(2, false, 2, 2));
    assert!(layout(9, true, 2, 3) && !layout(10, true, 2, 3));
}

#[test]
fn low_bits_of_the_address_choose_the_first_pipe() {
    let place = |mode, base| {
        let shape = Shape { mode, volume: false, element: 2, size: [256, 256, 1], levels: 1, pitch: 256 };
        Layout::new(shape, AddressConfig::default()).unwrap().address(base, [0, 0, 0], 0)
    };
    assert_eq!(place(26, 0x12_0000 | 0x3500), 0x12_3500);
    assert_eq!(place(10, 0x12_3500), 0x12_3500);
    let shape = Shape { mode: 26, volume: false, element: 2, size: [256, 256, 1], levels: 1, pitch: 256 };
    let layout = Layout::new(shape, AddressConfig::default()).unwrap();
    let [plain, changed] = [0, 0x3500].map(|low| layout.address(0x12_0000 | low, [100, 77, 0], 0));
    assert_eq!(plain ^ changed, 0x3500);
}
