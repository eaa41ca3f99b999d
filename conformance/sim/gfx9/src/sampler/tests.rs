//! Elements and weights of samplers.

use super::*;
use crate::image::tests::plane;
use crate::tiling::AddressConfig;

const LINEAR: [u32; 4] = [0o222, 15 << 20, 5 << 20, 0];

fn image(kind: u32, last_layer: u32) -> Descriptor {
    let mut words = plane(0, 8, 8);
    words[3] = words[3] & 0x0fff_ffff | kind << 28;
    words[4] |= last_layer;
    Descriptor::new(words, AddressConfig::default()).unwrap().unwrap()
}

fn taps(words: [u32; 4], image: &Descriptor, place: [f32; 3], layer: f32) -> Vec<(Option<[u32; 3]>, f32)> {
    let sampler = Sampler::new(words).unwrap();
    let coordinate = Coordinate { place, layer, offset: [0; 3] };
    let taps = sampler.taps(image, &coordinate, 0.0, false).unwrap();
    taps.into_iter().map(|tap| (tap.place, tap.weight)).collect()
}

#[test]
fn coordinates_are_rounded_or_cut_off() {
    let image = image(9, 0);
    let near = 2.999 / 8.0;
    assert_eq!(taps([0o222, 15 << 20, 0, 0], &image, [near; 3], 0.0), [(Some([3, 3, 0]), 1.0)]);
    assert_eq!(taps([0o222 | 1 << 27, 15 << 20, 0, 0], &image, [near; 3], 0.0), [(Some([2, 2, 0]), 1.0)]);
    // The sampler's coordinates count elements.
    assert_eq!(taps([0o222 | 1 << 15, 15 << 20, 0, 0], &image, [5.5; 3], 0.0), [(Some([5, 5, 0]), 1.0)]);
}

#[test]
fn the_nearest_layer_counts() {
    let image = image(13, 2);
    for (layer, expected) in [(-5.0, 0), (0.4, 0), (0.6, 1), (1.5, 2), (2.4, 2), (9.0, 2), (f32::NAN, 0)] {
        assert_eq!(taps([0o222, 15 << 20, 0, 0], &image, [0.0; 3], layer)[0].0, Some([0, 0, expected]), "{layer}");
    }
}

#[test]
fn slices_of_a_volume_are_weighted_too() {
    let image = image(10, 7);
    let found = taps(LINEAR, &image, [0.25, 0.25, 0.25], 0.0);
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|(_, weight)| *weight == 0.125));
    // The filter of slices differs: the nearest one.
    let found = taps([0o222, 15 << 20, 5 << 20 | 1 << 24, 0], &image, [0.25, 0.25, 0.25], 0.0);
    assert_eq!(found.iter().map(|(place, _)| place.unwrap()[2]).collect::<Vec<_>>(), [2; 4]);
}

#[test]
fn filters_cross_the_edges_of_a_cube() {
    let image = image(11, 11);
    // The left edge of positive x, in the second cube: beside it is positive z.
    let found = taps(LINEAR, &image, [1.0, 1.0 + 1.5 / 8.0, 0.0], 8.0);
    assert_eq!(found, [(Some([7, 1, 10]), 0.5), (Some([0, 1, 6]), 0.5)]);
    // A corner: three elements remain.
    let found = taps(LINEAR, &image, [1.0, 1.0, 0.0], 0.0);
    assert_eq!(found.len(), 3);
    assert!((found.iter().map(|(_, weight)| weight).sum::<f32>() - 1.0).abs() < 1e-6);
    // Without crossing.
    let found = taps([LINEAR[0] | 1 << 28, LINEAR[1], LINEAR[2], 0], &image, [1.0, 1.0 + 1.5 / 8.0, 0.0], 0.0);
    assert_eq!(found, [(Some([0, 1, 0]), 0.5), (Some([0, 1, 0]), 0.5)]);
}

#[test]
fn the_level_has_limits_and_a_bias() {
    let mut words = plane(0, 8, 8);
    (words[3], words[4], words[5]) = (words[3] | 1 << 12 | 3 << 16, 14 << 13, 3 << 28);
    let image = Descriptor::new(words, AddressConfig::default()).unwrap().unwrap();
    let level = |words: [u32; 4], level| {
        let taps = Sampler::new(words).unwrap().taps(&image, &Coordinate::default(), level, false).unwrap();
        taps.into_iter().map(|tap| (tap.level, tap.weight)).collect::<Vec<_>>()
    };
    let nearest =
        |least: u32, most: u32, bias: i32| [0o222, least | most << 12, bias.cast_unsigned() & 0x3fff | 1 << 26, 0];
    assert_eq!(level(nearest(0, 0xf00, 0), 1.4), [(1, 1.0)]);
    assert_eq!(level(nearest(0, 0xf00, 0), 9.0), [(2, 1.0)]);
    assert_eq!(level(nearest(0x100, 0xf00, 0), -4.0), [(1, 1.0)]);
    assert_eq!(level(nearest(0, 0x80, 0), 2.0), [(1, 1.0)]);
    assert_eq!(level(nearest(0, 0xf00, -0x100), 1.6), [(1, 1.0)]);
    assert_eq!(level([0o222, 0xf00 << 12, 2 << 26, 0], 0.25), [(0, 0.75), (1, 0.25)]);
    assert_eq!(level([0o222, 0xf00 << 12, 0, 0], 2.0), [(0, 1.0)]);
}

#[test]
fn samplers_that_are_not_emulated_are_errors() {
    for words in [[1 << 29, 0, 0, 0], [1 << 20, 0, 0, 0], [0, 0, 0, 1 << 12], [0, 0, 3 << 26, 0]] {
        assert!(Sampler::new(words).is_err(), "{words:x?}");
    }
    let sampler = Sampler::new([1 << 9, 0, 2 << 20, 0]).unwrap();
    assert!(sampler.taps(&image(9, 0), &Coordinate::default(), 0.0, true).is_err());
    assert!(sampler.taps(&image(9, 0), &Coordinate::default(), 0.0, false).is_ok());
}
