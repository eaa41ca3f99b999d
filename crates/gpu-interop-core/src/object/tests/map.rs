//! Mappings: ranges, images and levels.

use super::exported::memory_request;
use proptest::prelude::*;

use super::recorder::{Call, Recorder, gpu};
use super::{SIZE, assert_error, assert_invalid, import, mapped, opaque, open, open_on};
use crate::array::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, MipmappedArrayDesc};
use crate::error::ErrorKind;

const BUFFER: &str = "ExternalMemory::map_buffer";
const ARRAY: &str = "ExternalMemory::map_mipmapped_array";

fn rgba8(shape: ArrayShape) -> MipmappedArrayDesc {
    MipmappedArrayDesc::new(shape, ArrayFormat::new(ChannelType::Uint8, 4).expect("four channels"))
}

const SQUARE: ArrayShape = ArrayShape::D2 { width: 64, height: 64 };

#[test]
fn ranges_outside_the_memory_are_rejected() {
    let (recorder, device) = open();
    let memory = import(&device);
    let table: [(u64, u64, &str); 9] = [
        (0, 0, "the range is empty"),
        (SIZE, 0, "the range is empty"),
        (0, SIZE + 1, "past the end"),
        (1, SIZE, "past the end"),
        (SIZE, 1, "past the end"),
        (SIZE - 1, 2, "past the end"),
        (u64::MAX, 1, "the range is empty"),
        (1, u64::MAX, "the range is empty"),
        (u64::MAX, u64::MAX, "the range is empty"),
    ];
    for (offset, length, why) in table {
        let end = offset.wrapping_add(length);
        let (from, to) = (format!("start: {offset}"), format!("end: {end}"));
        let words = [why, &from, &to, "size: 65536 bytes"];
        assert_invalid(&recorder, BUFFER, &words, || memory.map_buffer(offset..end));
    }
}

#[test]
fn ranges_up_to_the_end_are_mapped_as_given() {
    let (recorder, device) = open();
    let memory = import(&device);
    for (offset, size) in [(0, 1), (0, SIZE), (SIZE - 1, 1), (4096, 8192), (1, SIZE - 1)] {
        recorder.forget_calls();
        let buffer = memory.map_buffer(offset..offset + size).expect("inside");
        assert_eq!(recorder.calls(), [Call::MapBuffer { memory: memory.as_raw(), offset, size }]);
        assert_eq!((buffer.offset(), buffer.size()), (offset, size));
    }
    // Overlapping mappings of one import are separate objects.
    let (first, second) = (memory.map_buffer(..).expect("map"), memory.map_buffer(1..2).expect("map"));
    assert_ne!(first.as_raw(), second.as_raw());
}

/// Values around a bound, and arbitrary ones.
fn near(bound: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        0..8_u64,
        (0..8_u64).prop_map(move |d| bound.saturating_sub(4).saturating_add(d)),
        (0..8_u64).prop_map(|d| u64::MAX - d),
        any::<u64>(),
    ]
}

fn offset_length_size() -> impl Strategy<Value = (u64, u64, u64)> {
    // Up to 2^57: larger imports are rejected.
    prop_oneof![1..16_u64, any::<u64>().prop_map(|size| (size >> 7).max(1))].prop_flat_map(|size| {
        (near(size), Just(size))
            .prop_flat_map(|(offset, size)| (Just(offset), near(size.saturating_sub(offset)), Just(size)))
    })
}

proptest! {
    /// Exactly the ranges inside reach the backend, unchanged, by 128-bit arithmetic.
    #[test]
    fn exactly_the_ranges_inside_reach_the_backend((offset, length, size) in offset_length_size()) {
        let (recorder, device) = open();
        let memory = device.import_memory(opaque(size)).expect("import");
        recorder.forget_calls();
        let inside = length > 0 && u128::from(offset) + u128::from(length) <= u128::from(size);
        let mapped = memory.map_buffer(offset..offset.wrapping_add(length));
        let expected = Call::MapBuffer { memory: memory.as_raw(), offset, size: length };
        prop_assert_eq!(recorder.calls(), if inside { vec![expected] } else { vec![] });
        match mapped {
            Ok(buffer) => prop_assert_eq!((buffer.offset(), buffer.size()), (offset, length)),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::InvalidArgument),
        }
    }

    /// A slice of a slice has the sum of the offsets, or is rejected.
    #[test]
    fn slices_of_slices_add_up(start in 0..20_u64, end in 0..20_u64, inner_start in 0..20_u64, inner_end in 0..20_u64) {
        let (_recorder, device) = open();
        let buffer = import(&device).map_buffer(8..24).expect("map");
        let valid = start < end && end <= 16;
        let outer = buffer.slice(start..end);
        prop_assert_eq!(outer.is_ok(), valid);
        if let Ok(outer) = outer {
            let inner = outer.slice(inner_start..inner_end);
            prop_assert_eq!(inner.is_ok(), inner_start < inner_end && inner_end <= end - start);
            if let Ok(inner) = inner {
                prop_assert_eq!(inner.as_raw().get(), buffer.as_raw().get() + start + inner_start);
                prop_assert_eq!(inner.size(), inner_end - inner_start);
            }
        }
    }
}

#[test]
fn errors_of_slices_name_range_and_size() {
    let (recorder, device) = open();
    let buffer = mapped(&device);
    let slice = "BufferSlice::slice";
    assert_invalid(&recorder, slice, &["empty", "start: 5", "end: 5", "65536 bytes"], || buffer.slice(5..5));
    assert_invalid(&recorder, slice, &["past the end", "end: 65537", "65536 bytes"], || buffer.slice(5..65537));
    assert_invalid(&recorder, slice, &["overflows"], || buffer.slice(5..=u64::MAX));
    let exportable = device.allocate_exportable(4096).expect("allocate");
    assert_invalid(&recorder, slice, &["past the end", "4096 bytes"], || exportable.slice(..4097));
}

#[test]
fn impossible_images_are_rejected() {
    let (recorder, device) = open();
    let memory = import(&device);
    let square = rgba8(SQUARE);
    let unknown = ArrayUsage::from_bits_retain(0x8000_0001);
    let table: [(MipmappedArrayDesc, &[&str]); 16] = [
        (MipmappedArrayDesc { levels: 0, ..square }, &["from 1 to 7", "levels: 0", "2D, 64 x"]),
        (MipmappedArrayDesc { levels: 8, ..square }, &["from 1 to 7", "levels: 8"]),
        (MipmappedArrayDesc { levels: u32::MAX, ..square }, &["from 1 to 7", "levels: 4294967295"]),
        (rgba8(ArrayShape::D1 { width: 0 }), &["at least 1", "1D, 0"]),
        (rgba8(ArrayShape::D1Layered { width: 1, layers: 0 }), &["at least 1", "0 layers"]),
        (rgba8(ArrayShape::D2 { width: 4, height: 0 }), &["at least 1", "4 x 0"]),
        (rgba8(ArrayShape::D2Layered { width: 4, height: 4, layers: 0 }), &["at least 1", "0 layers"]),
        (rgba8(ArrayShape::D3 { width: 4, height: 4, depth: 0 }), &["at least 1", "4 x 4 x 0"]),
        (rgba8(ArrayShape::Cube { width: 0 }), &["at least 1", "cube, 0 x 0"]),
        (MipmappedArrayDesc { usage: unknown, ..square }, &["unknown bits", "0x80000001"]),
        (
            MipmappedArrayDesc {
                usage: ArrayUsage::TEXTURE_GATHER,
                ..rgba8(ArrayShape::D2Layered { width: 4, height: 4, layers: 1 })
            },
            &["texture gather", "1 layers"],
        ),
        (MipmappedArrayDesc { offset: SIZE, ..square }, &["past the end", "offset: 65536", "memory size: 65536"]),
        (MipmappedArrayDesc { offset: u64::MAX, ..square }, &["offset: 18446744073709551615", "memory size: 65536"]),
        (MipmappedArrayDesc { offset: SIZE - 1, ..square }, &["exceed the memory after the offset", "offset: 65535"]),
        (
            rgba8(ArrayShape::D2 { width: 129, height: 128 }),
            &["exceed the memory after the offset", "129 x 128", "65536"],
        ),
        (rgba8(ArrayShape::D3 { width: u64::MAX, height: 3, depth: 3 }), &["exceed the memory after the offset"]),
    ];
    for (desc, words) in table {
        assert_invalid(&recorder, ARRAY, words, || memory.map_mipmapped_array(&desc));
    }
}

#[test]
fn images_reach_the_backend_as_described() {
    let (recorder, device) = open();
    let memory = import(&device);
    recorder.forget_calls();
    let desc = MipmappedArrayDesc { offset: 4096, levels: 7, usage: ArrayUsage::all(), ..rgba8(SQUARE) };
    let array = memory.map_mipmapped_array(&desc).expect("map");
    assert_eq!(array.desc(), &desc);
    for level in 0..7 {
        array.level(level).expect("a level");
    }
    let raw = array.as_raw();
    let mut expected = vec![Call::MapMipmappedArray { memory: memory.as_raw(), desc }];
    expected.extend((0..7).map(|level| Call::MipmappedArrayLevel { array: raw, level }));
    assert_eq!(recorder.calls(), expected);
    for level in [7, u32::MAX] {
        let words = ["the mip level does not exist", &format!("level: {level}"), "levels: 7"];
        assert_invalid(&recorder, "MappedMipmappedArray::level", &words, || array.level(level));
    }
    array.close().expect("close");
    assert_eq!(recorder.calls().last(), Some(&Call::FreeMipmappedArray(raw)));
}

#[test]
fn an_image_is_mapped_as_its_exporter_describes_it() {
    let (recorder, device) = open();
    let layered = ArrayShape::D2Layered { width: 32, height: 32, layers: 4 };
    let image = MipmappedArrayDesc {
        offset: 4096,
        levels: 3,
        layout_levels: Some(6),
        usage: ArrayUsage::COLOR_ATTACHMENT,
        ..rgba8(layered)
    };
    // SAFETY: as in `memory_request`.
    let request = unsafe { opaque(SIZE).of_image(image) };
    assert_eq!(request.image(), Some(&image));
    let memory = device.import_memory(request).expect("import");
    assert_eq!(memory.image(), Some(&image));
    let float = ArrayFormat::new(ChannelType::Float32, 1).expect("one channel");
    let other_shape = ArrayShape::D2Layered { width: 32, height: 32, layers: 3 };
    let added = ArrayUsage::SURFACE_LOAD_STORE;
    for (desc, what) in [
        (MipmappedArrayDesc { offset: 8192, ..image }, "offset"),
        (MipmappedArrayDesc { shape: other_shape, ..image }, "shape"),
        (MipmappedArrayDesc { shape: ArrayShape::D3 { width: 32, height: 32, depth: 4 }, ..image }, "shape"),
        (MipmappedArrayDesc { format: float, ..image }, "format"),
        (MipmappedArrayDesc { levels: 2, ..image }, "number of mip levels"),
        (MipmappedArrayDesc { layout_levels: None, ..image }, "number of levels in the layout"),
        (MipmappedArrayDesc { usage: ArrayUsage::empty(), ..image }, "use as a colour attachment"),
        (MipmappedArrayDesc { usage: added, ..image }, "use as a colour attachment"),
    ] {
        let message = format!("the {what} differs from the exporter's image");
        let words = [message.as_str(), "image: 2D layered, 32 x 32, 4 layers", "description: "];
        assert_invalid(&recorder, ARRAY, &words, || memory.map_mipmapped_array(&desc));
    }
    for usage in [image.usage, image.usage | added] {
        let desc = MipmappedArrayDesc { usage, ..image };
        assert_eq!(memory.map_mipmapped_array(&desc).expect("kernel usages may differ").desc(), &desc);
    }
    // Without a declared image the caller's description is used.
    let bare = import(&device);
    assert_eq!(bare.image(), None);
    bare.map_mipmapped_array(&MipmappedArrayDesc { format: float, ..image }).expect("it fits into the memory");
}

#[test]
fn an_exportable_allocation_of_0_bytes_is_rejected() {
    let (recorder, device) = open();
    assert_invalid(&recorder, "Device::allocate_exportable", &["size is 0"], || device.allocate_exportable(0));
}

#[test]
fn exported_memory_has_the_size_that_the_driver_chose() {
    let (recorder, device) = open();
    let memory = device.allocate_exportable(100).expect("allocate");
    assert_eq!(memory.size(), 4096, "rounded up by the driver");
    // The handle outlives the memory, and another device on the same hardware imports it.
    let handle = memory.export().expect("export");
    memory.close().expect("close");
    let (_other, importer) = open_on(Recorder::new(gpu(1)));
    importer.import_memory(memory_request(handle, 4096)).expect("import");
    assert_eq!(recorder.live(), 0);
}

#[test]
fn a_failed_mapping_reports_the_driver_and_leaves_the_import_usable() {
    let (recorder, device) = open();
    let memory = import(&device);
    recorder.fail_next("MapBuffer", ErrorKind::OutOfMemory);
    let error = memory.map_buffer(..).expect_err("injected failure");
    assert_error(&error, ErrorKind::OutOfMemory, "drvInjectedFailure", &["DRV_INJECTED (-7)"]);
    recorder.fail_next("MapMipmappedArray", ErrorKind::Driver);
    let error = memory.map_mipmapped_array(&rgba8(SQUARE)).expect_err("injected failure");
    assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED (-7)"]);
    memory.map_buffer(..).expect("the second try").close().expect("close");
    memory.close().expect("close");
    assert_eq!(recorder.live(), 0);
}
