//! Each comparison, on each side, in each level and layer, detects a single wrong byte.

use std::sync::{Arc, Mutex};

use gpu_interop::{ArrayShape, MemoryImport};

use super::*;
use crate::backend_under_test::BackendUnderTest;
use crate::exporter::RowLayout;

/// Position of a wrong byte: level, layer, and offset in the layer.
type Place = (u32, u32, usize);

/// An image in host memory.
#[derive(Clone)]
struct Fake {
    spec: ImageSpec,
    layers: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Position at which reads return a wrong byte.
    wrong: Option<Place>,
    /// True if writes have no effect.
    deaf: bool,
}

impl Fake {
    fn new(shape: ArrayShape, levels: u32) -> Self {
        let format = plain_format(ChannelType::Uint8, 4).expect("a format");
        let spec = ImageSpec { levels, ..ImageSpec::new(shape, format) };
        let layers =
            spec.subresources().map(|(level, _)| vec![0; usize::try_from(spec.layer_size(level)).expect("small")]);
        let layers = Arc::new(Mutex::new(layers.collect()));
        Self { spec, layers, wrong: None, deaf: false }
    }

    fn at(&self, level: u32, layer: u32) -> usize {
        self.spec.subresources().position(|place| place == (level, layer)).expect("a layer")
    }

    /// The first, a middle and the last byte of each layer of each level.
    fn places(&self) -> Vec<Place> {
        let in_layer = |(level, layer): (u32, u32)| {
            let size = usize::try_from(self.spec.layer_size(level)).expect("small");
            [0, size / 2, size - 1].map(|byte| (level, layer, byte))
        };
        self.spec.subresources().flat_map(in_layer).collect()
    }

    /// All layers of a level, in the order of a device's reads.
    fn level(&self, level: u32) -> Verdict<Vec<u8>> {
        let image: &dyn ExportedImage = self;
        image.read_level(level)
    }
}

impl ExportedImage for Fake {
    fn spec(&self) -> &ImageSpec {
        &self.spec
    }

    fn import_request(&self) -> Verdict<MemoryImport> {
        Err(Stop::unsupported("a fake".into()))
    }

    fn array_desc(&self) -> Verdict<MipmappedArrayDesc> {
        Err(Stop::unsupported("a fake".into()))
    }

    /// Rows with padding of 3 bytes, slices with padding of 5, one layer after another.
    fn row_layout(&self, level: u32, layer: u32) -> Verdict<RowLayout> {
        let [_, rows, slices] = self.spec.layer_extent(level);
        let row_size = self.spec.row_size(level);
        let slice_pitch = (row_size + 3) * rows + 5;
        let before = u64::from(level) * 100_000 + u64::from(layer) * 10_000;
        Ok(RowLayout { offset: before, row_pitch: row_size + 3, slice_pitch, row_size, rows, slices })
    }

    fn write(&self, level: u32, layer: u32, data: &[u8]) -> Verdict {
        if !self.deaf {
            self.layers.lock().expect("no panic")[self.at(level, layer)].copy_from_slice(data);
        }
        Ok(())
    }

    fn read(&self, level: u32, layer: u32, data: &mut [u8]) -> Verdict {
        data.copy_from_slice(&self.layers.lock().expect("no panic")[self.at(level, layer)]);
        if let Some((_, _, byte)) = self.wrong.filter(|wrong| (wrong.0, wrong.1) == (level, layer)) {
            data[byte] ^= 1;
        }
        Ok(())
    }

    fn clear(&self, _color: [f32; 4]) -> Verdict {
        Ok(())
    }
}

fn images() -> Vec<Fake> {
    vec![
        Fake::new(ArrayShape::D1 { width: 9 }, 1),
        Fake::new(ArrayShape::D2 { width: 9, height: 7 }, 4),
        Fake::new(ArrayShape::D2Layered { width: 9, height: 7, layers: 3 }, 3),
        Fake::new(ArrayShape::D3 { width: 9, height: 7, depth: 5 }, 3),
        Fake::new(ArrayShape::Cube { width: 8 }, 2),
    ]
}

#[test]
fn a_wrong_byte_of_any_level_and_layer_is_found() {
    let pattern = Pattern::new(7);
    for image in images() {
        let exported: &dyn ExportedImage = &image;
        exported.write_all(pattern).expect("writes");
        exported.verify_all(pattern, "sound").expect("what was written");
        for place in image.places() {
            let broken = Fake { wrong: Some(place), ..image.clone() };
            let exported: &dyn ExportedImage = &broken;
            let found = exported.verify_all(pattern, "broken").expect_err("a wrong byte").to_string();
            let level = format!("exporter's side, level {} of", place.0);
            assert!(found.contains("1 of ") && found.contains(&level), "{place:?}: {found}");
            // As on the device's side.
            let found = verify_levels(&image.spec, pattern, "read", |level| broken.level(level));
            assert!(found.is_err(), "{place:?} of {}", image.spec);
            for level in 0..image.spec.levels {
                let found = exported.verify_level(level, pattern, "one level");
                assert_eq!(found.is_err(), level == place.0, "{place:?}, level {level}: {found:?}");
            }
        }
    }
}

#[test]
fn layers_and_levels_that_are_swapped_or_missing_are_found() {
    let pattern = Pattern::new(8);
    for image in images() {
        let exported: &dyn ExportedImage = &image;
        exported.write_all(pattern).expect("writes");
        let verify = |read: &dyn Fn(u32) -> Verdict<Vec<u8>>| verify_levels(&image.spec, pattern, "read", read);
        assert_eq!(verify(&|level| image.level(level)), Ok(()));
        for at in 0..image.spec.levels {
            let short = |level| {
                let mut bytes = image.level(level)?;
                bytes.truncate(bytes.len() - usize::from(level == at));
                Ok(bytes)
            };
            assert!(verify(&short).is_err(), "level {at} is a byte short");
            let empty = |level| if level == at { Ok(Vec::new()) } else { image.level(level) };
            assert!(verify(&empty).is_err(), "level {at} was not read");
            let size = usize::try_from(image.spec.layer_size(at)).expect("small");
            let turned = |level| {
                let mut bytes = image.level(level)?;
                if level == at {
                    bytes.rotate_left(size);
                }
                Ok(bytes)
            };
            assert_eq!(verify(&turned).is_err(), image.spec.layers() > 1, "the layers of level {at} are swapped");
        }
        // Another image's pattern, and the same level everywhere.
        assert!(verify_levels(&image.spec, pattern.other(), "read", |level| image.level(level)).is_err());
    }
}

/// A linear image is compared row by row: every byte of every level belongs to exactly one row, and rows do not
/// overlap.
#[test]
fn rows_cover_every_byte_of_every_level_once() {
    for image in images() {
        let exported: &dyn ExportedImage = &image;
        let rows = exported.rows().expect("rows");
        for level in 0..image.spec.levels {
            let mut covered = vec![0; usize::try_from(image.spec.level_size(level)).expect("small")];
            let size = usize::try_from(image.spec.row_size(level)).expect("small");
            for (_, at, _) in rows.iter().filter(|row| row.2 == level) {
                let at = usize::try_from(*at).expect("small");
                covered[at..at + size].iter_mut().for_each(|count| *count += 1);
            }
            assert!(covered.iter().all(|count| *count == 1), "level {level} of {}: {covered:?}", image.spec);
        }
        let mut places: Vec<_> =
            rows.iter().map(|(place, _, level)| *place..*place + image.spec.row_size(*level)).collect();
        places.sort_by_key(|place| place.start);
        assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "{}: {places:?}", image.spec);
    }
}

/// Each of the four accesses of an exchange in both directions is checked, in every round.
#[test]
fn an_exchange_in_both_directions_checks_both() {
    let context = Context::open(Arc::new(BackendUnderTest::host()), None, 3).expect("a context");
    let image = Fake::new(ArrayShape::D2Layered { width: 5, height: 4, layers: 2 }, 2);
    let as_device = image.clone();
    let sees = |image: &Fake, pattern| verify_levels(&image.spec, pattern, "device", |level| image.level(level));
    let writes = |image: &Fake, pattern| {
        let exported: &dyn ExportedImage = image;
        exported.write_all(pattern)
    };
    let sound = both_ways(&context, &image, |_, p, _| sees(&as_device, p), |_, p| writes(&as_device, p));
    assert_eq!(sound, Ok(()));
    let deaf = Fake { deaf: true, ..image.clone() };
    let nothing_exported = both_ways(&context, &deaf, |_, p, _| sees(&as_device, p), |_, p| writes(&as_device, p));
    assert!(nothing_exported.is_err(), "the exporter wrote nothing");
    let nothing_written = both_ways(&context, &image, |_, p, _| sees(&as_device, p), |_, _| Ok(()));
    assert!(nothing_written.is_err(), "the device wrote nothing");
    for place in image.places() {
        let broken = Fake { wrong: Some(place), ..image.clone() };
        let on_exporter = both_ways(&context, &broken, |_, p, _| sees(&as_device, p), |_, p| writes(&as_device, p));
        assert!(on_exporter.is_err(), "{place:?} is wrong on the exporter's side");
        let on_device = both_ways(&context, &image, |_, p, _| sees(&broken, p), |_, p| writes(&as_device, p));
        assert!(on_device.is_err(), "{place:?} is wrong on the device's side");
    }
    // Stale data of the first round differs from that of the second.
    let rounds = std::cell::Cell::new(0);
    let writes_once = |_: &Stream, pattern| {
        rounds.set(rounds.get() + 1);
        if rounds.get() == 1 { writes(&as_device, pattern) } else { Ok(()) }
    };
    assert!(both_ways(&context, &image, |_, p, _| sees(&as_device, p), writes_once).is_err(), "the second round");
}
