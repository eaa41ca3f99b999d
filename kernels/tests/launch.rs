//! Conversions enqueued on a stream of the host backend, and the planes that are rejected before.

#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::sync::atomic::{AtomicU8, Ordering};

use gpu_interop_core::{
    Device, DevicePtr, ErrorKind, ExportableMemory, MappedPlanes, MemoryImport, PlaneLayout, Result, VideoFormat,
};
use gpu_interop_host::HostBackend;
use gpu_interop_kernels::convert::{
    Conversion, Converter, Layout, Matrix, Plane, Range, RgbOrder, RgbPicture, Siting, YuvFormat, YuvPicture, cpu,
    plane_sizes,
};
use gpu_interop_kernels::write_pattern;

const CONVERSION: Conversion = Conversion { matrix: Matrix::Bt2020, range: Range::Limited, siting: Siting::Center };
const EXTENT: [u32; 2] = [35, 7];
const PITCHES: [u32; 3] = [80, 84, 148];

fn open() -> Device {
    Device::open(&HostBackend::new(), 0).expect("the host")
}

/// Memory of a size with the pattern.
fn memory(device: &Device, size: u64, seed: u32) -> (ExportableMemory, Vec<u8>) {
    let memory = device.allocate_exportable(size).expect("memory");
    let mut bytes = vec![0; usize::try_from(memory.size()).expect("a size")];
    write_pattern(seed, 0, &mut bytes);
    device.create_stream().expect("a stream").write(&memory, &bytes).expect("written");
    (memory, bytes)
}

/// Both directions, with luma and chroma in one allocation and RGBA at an address of the application.
#[test]
fn conversions_write_the_bytes_of_the_cpu_versions() {
    let device = open();
    let (stream, converter) = (device.create_stream().expect("a stream"), Converter::load(&device).expect("kernels"));
    for (yuv, rgb) in [(YuvFormat::Nv12, RgbOrder::Bgra), (YuvFormat::P010, RgbOrder::Rgba)] {
        let layout = Layout { extent: EXTENT, yuv, rgb, pitches: PITCHES };
        let numbers = CONVERSION.yuv_to_rgba_numbers(&layout);
        let [luma, chroma, rgba] = plane_sizes(&numbers).expect("a size");
        // The chroma plane begins at a multiple of its element after luma.
        let start = luma.next_multiple_of(4);
        let (samples, sample_bytes) = memory(&device, start + chroma, 1);
        let (texels, texel_bytes) = memory(&device, rgba, 2);
        let pitch = |index: usize| u64::from(PITCHES[index]);
        let picture = YuvPicture {
            format: yuv,
            luma: Plane::new(samples.slice(..luma).expect("luma"), pitch(0)),
            chroma: Plane::new(samples.slice(start..start + chroma).expect("chroma"), pitch(1)),
        };
        // SAFETY: memory that outlives the stream's work, below.
        let rows = unsafe { Plane::from_raw(texels.as_raw(), rgba, pitch(2)) };
        let rgb = RgbPicture { order: rgb, texels: rows };
        let contents = || {
            let mut found = [sample_bytes.clone(), texel_bytes.clone()];
            stream.read(&samples, &mut found[0]).expect("read");
            stream.read(&texels, &mut found[1]).expect("read");
            found
        };
        let atomic = |bytes: &[u8]| bytes.iter().copied().map(AtomicU8::new).collect::<Vec<_>>();
        let expected = [atomic(&sample_bytes), atomic(&texel_bytes)];
        let [start, luma, chroma, rgba] =
            [start, luma, chroma, rgba].map(|size| usize::try_from(size).expect("a size"));
        let planes = [&expected[0][..luma], &expected[0][start..start + chroma], &expected[1][..rgba]];
        let expected = || {
            [0, 1].map(|index| -> Vec<u8> {
                expected[index].iter().map(|byte: &AtomicU8| byte.load(Ordering::Relaxed)).collect()
            })
        };

        converter.yuv_to_rgba(&stream, &CONVERSION, EXTENT, &picture, &rgb).expect("enqueued");
        cpu::yuv_to_rgba(planes, &numbers);
        assert!(contents() == expected(), "{yuv:?} to RGBA");
        converter.rgba_to_yuv(&stream, &CONVERSION, EXTENT, &rgb, &picture).expect("enqueued");
        cpu::rgba_to_yuv(planes, &CONVERSION.rgba_to_yuv_numbers(&layout));
        assert!(contents() == expected(), "RGBA to {yuv:?}");
    }
}

#[test]
fn planes_that_do_not_fit_are_rejected_by_name() {
    const SIZE: u64 = 16 * 64;
    let device = open();
    let (stream, converter) = (device.create_stream().expect("a stream"), Converter::load(&device).expect("kernels"));
    let memories = [1, 2, 3].map(|seed| memory(&device, SIZE, seed).0);
    // 16 x 16 texels: pitches of 32 (P010), 32 and 64 bytes.
    let convert = |extent: [u32; 2], pitches: [u64; 3], sizes: [u64; 3], offsets: [u64; 3]| -> [Result<()>; 2] {
        let plane = |index: usize| {
            let start = DevicePtr::new(memories[index].as_raw().get() + offsets[index]);
            // SAFETY: within the memory, or the plane is rejected.
            unsafe { Plane::from_raw(start, sizes[index], pitches[index]) }
        };
        let yuv = YuvPicture { format: YuvFormat::P010, luma: plane(0), chroma: plane(1) };
        let rgb = RgbPicture { order: RgbOrder::Rgba, texels: plane(2) };
        let results = [
            converter.yuv_to_rgba(&stream, &CONVERSION, extent, &yuv, &rgb),
            converter.rgba_to_yuv(&stream, &CONVERSION, extent, &rgb, &yuv),
        ];
        stream.synchronize().expect("idle");
        results
    };
    let (pitches, sizes) = ([32, 32, 64], [16 * 32, 8 * 32, 16 * 64]);
    for result in convert([16; 2], pitches, sizes, [0; 3]) {
        result.expect("planes of exactly the size");
    }
    let with = |mut values: [u64; 3], index: usize, value| {
        values[index] = value;
        values
    };
    let names = ["luma", "chroma", "rgba"];
    let elements = [2, 4, 4];
    let rejected = |results: [Result<()>; 2], wanted: &str| {
        for result in results {
            let error = result.expect_err(wanted);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains(wanted), "{wanted}: {error}");
        }
    };
    for index in 0..3 {
        let plane = |what: &str| format!("{what}{}", names[index]);
        let element = elements[index];
        let small = convert([16; 2], with(pitches, index, pitches[index] - element), sizes, [0; 3]);
        rejected(small, &plane("size of a row, and fit in 32 bits [plane: "));
        let huge = convert([16; 2], with(pitches, index, 1 << 32), sizes, [0; 3]);
        rejected(huge, &plane("size of a row, and fit in 32 bits [plane: "));
        let odd = convert([16; 2], with(pitches, index, pitches[index] + element / 2), sizes, [0; 3]);
        rejected(odd, &plane("multiples of the size of an element [plane: "));
        let odd = convert([16; 2], pitches, sizes, with([0; 3], index, element / 2));
        rejected(odd, &plane("multiples of the size of an element [plane: "));
        let short = convert([16; 2], pitches, with(sizes, index, sizes[index] - 1), [0; 3]);
        rejected(
            short,
            &plane("the rows end after the memory; pass a larger range, or a smaller size or pitch [plane: "),
        );
    }
    for extent in [[0, 16], [16, 0], [65_537, 1], [1, 65_537]] {
        rejected(convert(extent, [1 << 20; 3], [u64::MAX; 3], [0; 3]), "the width and the height must be 1 to 65,536");
    }
}

/// Planes of a picture as a producer describes it, in memory of one size.
fn planes_of(device: &Device, format: VideoFormat) -> MappedPlanes {
    let memory = device.allocate_exportable(1 << 16).expect("memory");
    // SAFETY: memory of this device and size.
    let request = unsafe { MemoryImport::new(memory.export().expect("a handle"), memory.size()).native(true) };
    let layout = |plane| PlaneLayout::new(0, 256, format.plane_extent(plane, [64, 32]), format.texel(plane));
    let planes = (0..format.planes()).map(|plane| (0, layout(plane))).collect();
    MappedPlanes::import(device, vec![request], planes).expect("planes")
}

#[test]
fn planes_of_another_format_are_rejected() {
    use VideoFormat::{Nv12, Nv16, P010, Yuv420};
    let device = open();
    for (format, of) in [(YuvFormat::Nv12, Nv12), (YuvFormat::P010, P010)] {
        YuvPicture::of_planes(format, &planes_of(&device, of)).expect("planes of the format");
    }
    for (format, of) in
        [(YuvFormat::Nv12, P010), (YuvFormat::P010, Nv12), (YuvFormat::Nv12, Nv16), (YuvFormat::Nv12, Yuv420)]
    {
        let error = YuvPicture::of_planes(format, &planes_of(&device, of)).expect_err(of.name());
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("not those of the format"), "{error}");
    }
}

/// An application checks its memory against these sizes.
#[test]
fn sizes_beyond_64_bits_do_not_wrap() {
    let [luma, _, rgba] = plane_sizes(&[u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, 1]).expect("a size");
    assert_eq!((luma, rgba), ((u64::from(u32::MAX) - 1) * u64::from(u32::MAX) + u64::from(u32::MAX), u64::MAX));
}
