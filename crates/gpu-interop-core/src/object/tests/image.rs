//! Copies of images, surfaces and textures.

use super::recorder::{Call, Recorder, Side, gpu};
use super::{assert_invalid, import, mapped, open, open_on};
use crate::array::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, MipmappedArrayDesc};
use crate::kernel::KernelArg;
use crate::object::{Device, MappedMipmappedArray, PitchedTexels};
use crate::texture::{FilterMode, ReadMode, TextureDesc};

/// 16 x 8 texels of 4 bytes, 3 layers, 4 levels.
fn layered(device: &Device) -> MappedMipmappedArray {
    let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("four channels");
    let shape = ArrayShape::D2Layered { width: 16, height: 8, layers: 3 };
    let desc = MipmappedArrayDesc {
        levels: 4,
        usage: ArrayUsage::SURFACE_LOAD_STORE,
        ..MipmappedArrayDesc::new(shape, format)
    };
    import(device).map_mipmapped_array(&desc).expect("map")
}

fn of_format(device: &Device, channel: ChannelType) -> MappedMipmappedArray {
    let format = ArrayFormat::new(channel, 1).expect("one channel");
    import(device).map_mipmapped_array(&MipmappedArrayDesc::new(ArrayShape::D1 { width: 16 }, format)).expect("map")
}

#[test]
fn regions_have_the_size_of_their_level() {
    let (_recorder, device) = open();
    let array = layered(&device);
    let sizes: Vec<_> = (0..4).map(|level| array.level(level).expect("level").size()).collect();
    assert_eq!(sizes, [16 * 8 * 3 * 4, 8 * 4 * 3 * 4, 4 * 2 * 3 * 4, 2 * 3 * 4]);
    let level = array.level(1).expect("level");
    let part = level.region([2, 1, 1], [5, 3, 2]).expect("inside").region([1, 0, 1], [4, 2, 1]).expect("inside");
    assert_eq!((part.offset(), part.extent(), part.size()), ([3, 1, 2], [4, 2, 1], 32));
}

#[test]
fn regions_outside_the_level_are_rejected() {
    let (recorder, device) = open();
    let array = layered(&device);
    let level = array.level(0).expect("level");
    let table = [
        ([0, 0, 0], [0, 1, 1]),
        ([0, 0, 0], [17, 1, 1]),
        ([16, 0, 0], [1, 1, 1]),
        ([0, 7, 0], [1, 2, 1]),
        ([0, 0, 3], [1, 1, 1]),
        ([u64::MAX, 0, 0], [1, 1, 1]),
        ([1, 0, 0], [u64::MAX, 1, 1]),
    ];
    for (offset, extent) in table {
        let words = ["not inside", "[16, 8, 3]"];
        assert_invalid(&recorder, "ArrayRegion::region", &words, || level.region(offset, extent));
    }
}

#[test]
fn copies_reach_the_backend_in_bytes_rows_and_slices() {
    let (recorder, device) = open();
    let (array, buffer, stream) = (layered(&device), mapped(&device), device.create_stream().expect("stream"));
    let level = array.level(1).expect("level");
    let (raw, stream_raw, ptr) = (level.as_raw(), stream.as_raw(), buffer.as_raw());
    let part = level.region([2, 1, 1], [5, 3, 2]).expect("inside");
    let image = Side::Array { raw, offset: [8, 1, 1] };
    let extent = [20, 3, 2];
    let tight = Side::Linear { ptr, row_pitch: 20, rows: 3 };
    let pitched = Side::Linear { ptr, row_pitch: 64, rows: 5 };
    recorder.forget_calls();
    stream.copy_from_array(buffer.slice(..120).expect("slice"), part).expect("copy");
    stream.copy_to_array(part, buffer.slice(..120).expect("slice")).expect("copy");
    let texels = PitchedTexels::new(buffer.slice(..(5 + 2) * 64 + 20).expect("slice"), 64, 5);
    stream.copy_from_array(texels, part).expect("copy");
    stream.copy_to_array(part, texels).expect("copy");
    let call = |dst, src| Call::CopyArray { stream: stream_raw, dst, src, extent };
    assert_eq!(recorder.calls(), [call(tight, image), call(image, tight), call(pitched, image), call(image, pitched)]);
    recorder.forget_calls();
    let row = level.region([0, 3, 2], [5, 1, 1]).expect("inside");
    let far_apart = PitchedTexels::new(buffer.slice(..20).expect("slice"), u64::MAX, u64::MAX);
    stream.copy_to_array(row, far_apart).expect("one row has no pitch");
    let expected = Call::CopyArray {
        stream: stream_raw,
        dst: Side::Array { raw, offset: [0, 3, 2] },
        src: Side::Linear { ptr, row_pitch: 20, rows: 1 },
        extent: [20, 1, 1],
    };
    assert_eq!(recorder.calls(), [expected]);
    recorder.forget_calls();
    let mut bytes = [0; 120];
    stream.read_array(part, &mut bytes).expect("read");
    assert!(bytes.iter().zip(0..).all(|(byte, index)| *byte == index), "{bytes:?}");
    stream.write_array(part, &bytes).expect("write");
    let host = Side::Host { row_pitch: 20, rows: 3 };
    let synchronized = Call::SynchronizeStream(stream_raw);
    assert_eq!(recorder.calls(), [call(host, image), synchronized.clone(), call(image, host), synchronized]);
}

#[test]
fn copies_between_images_compare_texels() {
    let (recorder, device) = open();
    let (one, other, stream) = (layered(&device), layered(&device), device.create_stream().expect("stream"));
    let (src, dst) = (one.level(1).expect("level"), other.level(1).expect("level"));
    recorder.forget_calls();
    stream.copy_array(dst, src).expect("copy");
    let side = |raw| Side::Array { raw, offset: [0; 3] };
    let expected = Call::CopyArray {
        stream: stream.as_raw(),
        dst: side(dst.as_raw()),
        src: side(src.as_raw()),
        extent: [32, 4, 3],
    };
    assert_eq!(recorder.calls(), [expected]);
    let copy = "Stream::copy_array";
    let level = one.level(0).expect("level");
    assert_invalid(&recorder, copy, &["differ", "[16, 8, 3]", "[8, 4, 3]"], || stream.copy_array(level, src));
    assert_invalid(&recorder, copy, &["overlap"], || stream.copy_array(src, src));
    let part = |offset| src.region(offset, [4, 2, 1]).expect("inside");
    assert_invalid(&recorder, copy, &["overlap"], || stream.copy_array(part([0, 0, 0]), part([3, 1, 0])));
    stream.copy_array(part([0, 0, 0]), part([4, 0, 0])).expect("side by side");
    stream.copy_array(part([0, 0, 0]), part([0, 0, 1])).expect("another layer");
    let words = of_format(&device, ChannelType::Uint8);
    let (bytes, row) = (words.level(0).expect("level"), level.region([0; 3], [16, 1, 1]).expect("inside"));
    assert_invalid(&recorder, copy, &["differ", "of 1 bytes", "of 4 bytes"], || stream.copy_array(bytes, row));
}

#[test]
fn linear_memory_of_another_size_is_rejected() {
    let (recorder, device) = open();
    let (array, buffer, stream) = (layered(&device), mapped(&device), device.create_stream().expect("stream"));
    let level = array.level(1).expect("level");
    let slice = |size| buffer.slice(..size).expect("slice");
    let (from, to) = ("Stream::copy_from_array", "Stream::copy_to_array");
    for size in [1, 383, 385] {
        let words = ["not have the size", &format!("{size} bytes"), "32 bytes x 4 rows x 3 slices"];
        assert_invalid(&recorder, from, &words, || stream.copy_from_array(slice(size), level));
        assert_invalid(&recorder, to, &words, || stream.copy_to_array(level, slice(size)));
    }
    let end = (2 * 5 + 3) * 64 + 32;
    let table = [
        (31, 4, 65536, "is smaller than that of the region"),
        (64, 3, 65536, "is smaller than that of the region"),
        (64, 5, end - 1, "not have the size"),
        (u64::MAX, 4, 65536, "not have the size"),
        (64, u64::MAX, 65536, "not have the size"),
    ];
    for (row_pitch, rows, size, why) in table {
        let texels = PitchedTexels::new(slice(size), row_pitch, rows);
        assert_invalid(&recorder, from, &[why], || stream.copy_from_array(texels, level));
        assert_invalid(&recorder, to, &[why], || stream.copy_to_array(level, texels));
    }
    stream.copy_to_array(level, PitchedTexels::new(slice(end), 64, 5)).expect("just fits");
    let words = ["not have the size", "383 bytes", "384 bytes"];
    assert_invalid(&recorder, "Stream::read_array", &words, || stream.read_array(level, &mut [0; 383]));
    assert_invalid(&recorder, "Stream::write_array", &words, || stream.write_array(level, &[0; 383]));
}

#[test]
fn images_of_another_device_are_rejected() {
    let (recorder, device) = open();
    let (_other, stranger) = open_on(Recorder::new(gpu(2)));
    let (ours, theirs) = (layered(&device), layered(&stranger));
    let (ours, theirs) = (ours.level(0).expect("level"), theirs.level(0).expect("level"));
    let (buffer, strange_buffer) = (mapped(&device), mapped(&stranger));
    let stream = device.create_stream().expect("stream");
    let slice = |buffer: &'static str| [buffer, "another device"];
    let size = ours.size();
    let (mine, strange) = (buffer.slice(..size).expect("slice"), strange_buffer.slice(..size).expect("slice"));
    let mut bytes = vec![0; usize::try_from(size).expect("small")];
    let (image, memory) = (slice("image"), slice("memory"));
    assert_invalid(&recorder, "Stream::copy_array", &image, || stream.copy_array(ours, theirs));
    assert_invalid(&recorder, "Stream::copy_array", &image, || stream.copy_array(theirs, ours));
    assert_invalid(&recorder, "Stream::copy_from_array", &image, || stream.copy_from_array(mine, theirs));
    assert_invalid(&recorder, "Stream::copy_from_array", &memory, || stream.copy_from_array(strange, ours));
    assert_invalid(&recorder, "Stream::copy_to_array", &image, || stream.copy_to_array(theirs, mine));
    assert_invalid(&recorder, "Stream::copy_to_array", &memory, || stream.copy_to_array(ours, strange));
    assert_invalid(&recorder, "Stream::write_array", &image, || stream.write_array(theirs, &bytes));
    assert_invalid(&recorder, "Stream::read_array", &image, || stream.read_array(theirs, &mut bytes));
}

/// The recorder fails the test if an image is freed while a copy of it is pending.
#[test]
fn an_image_outlives_the_copies_that_use_it() {
    let (recorder, device) = open();
    let (array, other) = (layered(&device), layered(&device));
    let (buffer, stream) = (mapped(&device), device.create_stream().expect("stream"));
    recorder.hold(stream.as_raw());
    let level = array.level(3).expect("level");
    stream.copy_from_array(buffer.slice(..level.size()).expect("slice"), level).expect("copy");
    stream.copy_array(other.level(3).expect("level"), level).expect("copy");
    array.close().expect("close");
    drop(other);
    drop(buffer);
    let freed = |call: &Call| matches!(call, Call::FreeMipmappedArray(_) | Call::FreeBuffer(_));
    assert!(!recorder.calls().iter().any(freed));
    recorder.finish(stream.as_raw());
    stream.synchronize().expect("synchronize");
    assert_eq!(recorder.calls().iter().filter(|call| freed(call)).count(), 3);
}

#[test]
fn surfaces_and_textures_keep_their_image() {
    for first in 0..3 {
        let (recorder, device) = open();
        let array = layered(&device);
        let normalized = TextureDesc::new().with_normalized_coordinates(true);
        let (surface, texture) = (array.surface(2).expect("surface"), array.texture(&normalized).expect("texture"));
        assert_eq!(surface.as_arg(), KernelArg::U64(surface.as_raw().get() as u64));
        assert_eq!(texture.as_arg(), KernelArg::U64(texture.as_raw().get() as u64));
        assert_eq!(texture.desc(), &normalized);
        let (surface_call, texture_call) =
            (Call::DestroySurface(surface.as_raw()), Call::DestroyTexture(texture.as_raw()));
        let array_call = Call::FreeMipmappedArray(array.as_raw());
        let objects: Vec<Box<dyn std::any::Any>> = vec![Box::new(array), Box::new(surface), Box::new(texture)];
        super::lifetime::drop_in_order(objects, &[first, (first + 1) % 3, (first + 2) % 3]);
        let calls = recorder.calls();
        let at = |call| calls.iter().position(|made| *made == call).expect("made");
        assert!(at(surface_call) < at(array_call.clone()) && at(texture_call) < at(array_call));
        drop(device);
        assert_eq!(recorder.live(), 0);
    }
}

#[test]
fn surfaces_need_their_usage_and_their_level() {
    let (recorder, device) = open();
    let (array, sampled) = (layered(&device), of_format(&device, ChannelType::Uint8));
    let operation = "MappedMipmappedArray::surface";
    assert_invalid(&recorder, operation, &["SURFACE_LOAD_STORE"], || sampled.surface(0));
    assert_invalid(&recorder, operation, &["does not exist", "levels: 4"], || array.surface(4));
}

#[test]
fn unsupported_sampling_is_rejected() {
    let (recorder, device) = open();
    let all = "MappedMipmappedArray::texture";
    let array = layered(&device);
    assert_invalid(&recorder, all, &["normalized coordinates"], || array.texture(&TextureDesc::new()));
    let (element, float, srgb) = (ReadMode::Element, ReadMode::NormalizedFloat, ReadMode::Srgb);
    use ChannelType as C;
    let table = [
        (C::Uint8, element, FilterMode::Linear, false),
        (C::Sint32, element, FilterMode::Linear, false),
        (C::Uint32, float, FilterMode::Nearest, false),
        (C::Sint32, srgb, FilterMode::Nearest, false),
        (C::Uint16, srgb, FilterMode::Nearest, false),
        (C::Sint8, srgb, FilterMode::Nearest, false),
        (C::Float32, srgb, FilterMode::Nearest, false),
        (C::Uint8, element, FilterMode::Nearest, true),
        (C::Uint8, float, FilterMode::Linear, true),
        (C::Unorm8, srgb, FilterMode::Linear, true),
        (C::Float32, element, FilterMode::Linear, true),
        (C::Unorm16, element, FilterMode::Linear, true),
        (C::Sint16, float, FilterMode::Linear, true),
    ];
    for (channel, read, filter, works) in table {
        let array = of_format(&device, channel);
        // The level is queried first, which is a call.
        array.level(0).expect("level");
        let desc = TextureDesc::new().with_read(read).with_filter(filter).with_normalized_coordinates(true);
        if works {
            array.texture(&desc).expect("a texture");
            array.texture_of_level(0, &desc).expect("a texture");
        } else {
            assert_invalid(&recorder, all, &[&format!("{channel:?}")], || array.texture(&desc));
        }
    }
}
