use super::*;

fn rgba8() -> ArrayFormat {
    ArrayFormat::new(ChannelType::Uint8, 4).expect("four channels")
}

#[test]
fn three_channels_are_rejected_also_from_json() {
    for channels in [0, 3, 5, 255] {
        assert!(ArrayFormat::new(ChannelType::Uint8, channels).is_err(), "{channels}");
    }
    assert!(serde_json::from_str::<ArrayFormat>(r#"{"channel":"uint8","channels":3}"#).is_err());
    assert!(serde_json::from_str::<ArrayFormat>(r#"{"channel":"uint8","channels":2}"#).is_ok());
}

#[test]
fn texels_of_a_packed_type_have_four_channels_and_four_bytes() {
    for channels in [1, 2] {
        assert!(ArrayFormat::new(ChannelType::Unorm1010102, channels).is_err(), "{channels}");
    }
    let packed = ArrayFormat::new(ChannelType::Unorm1010102, 4).expect("four channels");
    assert_eq!((packed.channels(), packed.texel_size()), (4, 4));
    assert_eq!(rgba8().texel_size(), 4);
    assert_eq!(ArrayFormat::new(ChannelType::Float16, 2).expect("two channels").texel_size(), 4);
    assert_eq!(ArrayFormat::new(ChannelType::Sint32, 4).expect("four channels").texel_size(), 16);
}

#[test]
fn levels_are_bounded_by_the_largest_dimension() {
    let desc = |levels| MipmappedArrayDesc {
        levels,
        ..MipmappedArrayDesc::new(ArrayShape::D2 { width: 256, height: 128 }, rgba8())
    };
    for levels in 1..=9 {
        desc(levels).validate(1 << 20).expect("a legal number of levels");
    }
    for levels in [0, 10, 20, u32::MAX] {
        assert!(desc(levels).validate(1 << 20).is_err(), "{levels}");
    }
    // Layers do not shrink from level to level.
    assert_eq!(ArrayShape::D1Layered { width: 1, layers: 64 }.max_levels(), 1);
}

#[test]
fn layout_levels_are_between_the_levels_and_the_maximum() {
    let shape = ArrayShape::D2Layered { width: 64, height: 32, layers: 2 };
    let desc =
        |layout_levels| MipmappedArrayDesc { levels: 3, layout_levels, ..MipmappedArrayDesc::new(shape, rgba8()) };
    for (layout_levels, driver_levels) in [(None, 3), (Some(3), 3), (Some(7), 7)] {
        desc(layout_levels).validate(1 << 20).expect("a legal layout");
        assert_eq!(desc(layout_levels).driver_levels(), driver_levels);
    }
    for layout_levels in [0, 2, 8, u32::MAX] {
        assert!(desc(Some(layout_levels)).validate(1 << 20).is_err(), "{layout_levels}");
    }
}

#[test]
fn levels_halve_all_dimensions_but_layers() {
    let extents = |shape: ArrayShape| [0, 1, 3, 64].map(|level| shape.level_extent(level));
    assert_eq!(extents(ArrayShape::D1 { width: 5 }), [[5, 1, 1], [2, 1, 1], [1, 1, 1], [1, 1, 1]]);
    assert_eq!(extents(ArrayShape::D1Layered { width: 16, layers: 3 }), [[16, 1, 3], [8, 1, 3], [2, 1, 3], [1, 1, 3]]);
    assert_eq!(
        extents(ArrayShape::D2Layered { width: 16, height: 4, layers: 3 }),
        [[16, 4, 3], [8, 2, 3], [2, 1, 3], [1, 1, 3]]
    );
    assert_eq!(
        extents(ArrayShape::D3 { width: 16, height: 4, depth: 32 }),
        [[16, 4, 32], [8, 2, 16], [2, 1, 4], [1, 1, 1]]
    );
    assert_eq!(
        extents(ArrayShape::CubeLayered { width: 8, cubes: 2 }),
        [[8, 8, 12], [4, 4, 12], [1, 1, 12], [1, 1, 12]]
    );
}

#[test]
fn zero_dimensions_and_overflow_are_rejected() {
    let validate = |shape| MipmappedArrayDesc::new(shape, rgba8()).validate(1 << 30);
    assert!(validate(ArrayShape::D2 { width: 0, height: 1 }).is_err());
    assert!(validate(ArrayShape::D2 { width: 1, height: 0 }).is_err());
    assert!(validate(ArrayShape::CubeLayered { width: 4, cubes: 0 }).is_err());
    assert!(validate(ArrayShape::D3 { width: u64::MAX, height: u64::MAX, depth: 2 }).is_err());
    assert!(validate(ArrayShape::D3 { width: 64, height: 64, depth: 64 }).is_ok());
}

#[test]
fn all_levels_must_fit() {
    let desc = MipmappedArrayDesc {
        levels: 3,
        ..MipmappedArrayDesc::new(ArrayShape::D2Layered { width: 16, height: 16, layers: 2 }, rgba8())
    };
    let size = 2 * 4 * (16 * 16 + 8 * 8 + 4 * 4);
    assert!(desc.validate(size).is_ok());
    assert!(desc.validate(size - 1).is_err());
    assert!(desc.validate(2 * 4 * 16 * 16).is_err(), "level 0 alone fits");
}

#[test]
fn an_array_must_fit_behind_its_offset() {
    let at = |offset| MipmappedArrayDesc {
        offset,
        ..MipmappedArrayDesc::new(ArrayShape::D2 { width: 16, height: 16 }, rgba8())
    };
    assert!(at(1024).validate(2048).is_ok());
    assert!(at(1025).validate(2048).is_err());
    assert!(at(2048).validate(2048).is_err());
    assert!(at(u64::MAX).validate(u64::MAX).is_err());
}
