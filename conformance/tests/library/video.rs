//! Pictures with several planes, in both directions between Vulkan and the device, every byte.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic)]

mod common;

use common::open;
use gpu_interop::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop::host::HostBackend;
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{ExportableVideo, HeadlessContext, MemoryPlacement, PlaneStorage, VideoOptions, VideoSpec};
use gpu_interop::{Device, ErrorKind, MappedPlanes, MemoryHandle, MemoryHandleKind, PlaneLayout, Stream, VideoFormat};
use gpu_interop_test_support::Random;

const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

/// Random sizes of each format.
const SIZES: u32 = 500;

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.word().to_le_bytes()[..chunk.len()]);
    }
    bytes
}

/// From 1 to `most`.
fn up_to(random: &mut Random, most: u32) -> u32 {
    1 + random.below(most)
}

/// Random texels of every plane.
fn random_picture(random: &mut Random, spec: &VideoSpec) -> Vec<Vec<u8>> {
    (0..spec.format.planes()).map(|plane| bytes(random, plane_size(spec, plane))).collect()
}

fn plane_size(spec: &VideoSpec, plane: usize) -> usize {
    let [width, height] = spec.format.plane_extent(plane, spec.extent);
    (width * height * spec.format.texel(plane).texel_size()) as usize
}

fn read(planes: &MappedPlanes, stream: &Stream) -> Vec<Vec<u8>> {
    (0..planes.len())
        .map(|plane| {
            let size = planes.layout(plane).expect("a plane").size().expect("small");
            let mut found = vec![0; usize::try_from(size).expect("small")];
            planes.read(stream, plane, &mut found).expect("read");
            found
        })
        .collect()
}

/// Fails with the first byte that differs.
fn assert_same(found: &[Vec<u8>], expected: &[Vec<u8>], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: planes");
    for (plane, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}: size of plane {plane}");
        if found == expected {
            continue;
        }
        let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{what}: first byte of plane {plane} that differs");
    }
}

/// Creates a picture that the device's side owns.
fn released(context: &HeadlessContext, options: &VideoOptions) -> gpu_interop::Result<ExportableVideo> {
    let video = ExportableVideo::new(context.interop(), options)?;
    context.run(|recording| {
        recording.initialize_video(&video)?;
        recording.release_video(&video)
    })?;
    Ok(video)
}

/// Vulkan writes, the device reads and writes, Vulkan reads.
fn goes_both_ways(
    context: &HeadlessContext,
    video: &ExportableVideo,
    planes: &MappedPlanes,
    stream: &Stream,
    random: &mut Random,
) {
    let what = format!("{:?}", video.spec());
    let (sent, returned) = (random_picture(random, video.spec()), random_picture(random, video.spec()));
    context.acquire_video(video).expect("acquire");
    context.upload_video(video, &sent).expect("upload");
    context.release_video(video).expect("release");
    assert_same(&read(planes, stream), &sent, &format!("{what}, on the device"));
    for (plane, data) in returned.iter().enumerate() {
        planes.write(stream, plane, data).expect("write");
    }
    context.acquire_video(video).expect("acquire");
    let mut found = sent.clone();
    context.download_video(video, &mut found).expect("download");
    context.release_video(video).expect("release");
    assert_same(&found, &returned, &format!("{what}, in Vulkan"));
}

fn random_sizes_of(format: VideoFormat, seed: u64) {
    let Some((context, device)) = open(false) else { return };
    let stream = device.create_stream().expect("stream");
    let mut random = Random(seed);
    for _ in 0..SIZES {
        let spec = VideoSpec::new(format, [up_to(&mut random, 150), up_to(&mut random, 40)], USAGE);
        let video = released(&context, &VideoOptions::new(spec)).expect("a picture");
        let planes = video.map(&device).expect("planes");
        goes_both_ways(&context, &video, &planes, &stream, &mut random);
    }
}

/// One test for each format, so that they run in parallel.
macro_rules! random_sizes {
    ($($name:ident: $format:ident, $seed:literal;)*) => {
        $(
            #[test]
            fn $name() {
                random_sizes_of(VideoFormat::$format, $seed);
            }
        )*

        /// No format lacks its test.
        #[test]
        fn every_format_is_tested() {
            let tested = [$(VideoFormat::$format),*];
            assert!(VideoFormat::all().all(|format| tested.contains(&format)));
        }
    };
}

random_sizes! {
    random_sizes_of_nv12: Nv12, 1;
    random_sizes_of_nv16: Nv16, 2;
    random_sizes_of_p010: P010, 3;
    random_sizes_of_p012: P012, 4;
    random_sizes_of_p016: P016, 5;
    random_sizes_of_p210: P210, 6;
    random_sizes_of_p212: P212, 7;
    random_sizes_of_p216: P216, 8;
    random_sizes_of_yuv420: Yuv420, 9;
    random_sizes_of_yuv422: Yuv422, 10;
    random_sizes_of_yuv444: Yuv444, 11;
    random_sizes_of_yuv420_10: Yuv420Bits10, 12;
    random_sizes_of_yuv422_10: Yuv422Bits10, 13;
    random_sizes_of_yuv444_10: Yuv444Bits10, 14;
    random_sizes_of_yuv420_12: Yuv420Bits12, 15;
    random_sizes_of_yuv422_12: Yuv422Bits12, 16;
    random_sizes_of_yuv444_12: Yuv444Bits12, 17;
    random_sizes_of_yuv420_16: Yuv420Bits16, 18;
    random_sizes_of_yuv422_16: Yuv422Bits16, 19;
    random_sizes_of_yuv444_16: Yuv444Bits16, 20;
}

/// Every format with every storage that the driver has, in both placements, with validation.
#[test]
fn every_storage_goes_both_ways() {
    let Some((context, device)) = open(true) else { return };
    let stream = device.create_stream().expect("stream");
    let mut random = Random(77);
    let mut shared = [0; 3];
    for format in VideoFormat::all() {
        for (index, storage) in
            [PlaneStorage::Separate, PlaneStorage::Joint, PlaneStorage::Disjoint].into_iter().enumerate()
        {
            for memory in [MemoryPlacement::DeviceLocal, MemoryPlacement::HostVisible] {
                let spec = VideoSpec::new(format, [66, 34], USAGE).storage(storage);
                let video = match released(&context, &VideoOptions::new(spec).memory(memory)) {
                    Ok(video) => video,
                    Err(error) => {
                        assert!(storage != PlaneStorage::Separate, "{error}");
                        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                        continue;
                    }
                };
                let images = if storage == PlaneStorage::Separate { format.planes() } else { 1 };
                let memories = if storage == PlaneStorage::Joint { 1 } else { format.planes() };
                assert_eq!((video.image_count(), video.memory_count()), (images, memories));
                let planes = video.map(&device).expect("planes");
                for _ in 0..2 {
                    goes_both_ways(&context, &video, &planes, &stream, &mut random);
                }
                shared[index] += 1;
            }
        }
    }
    println!("shared: {shared:?} as separate, joint and disjoint images");
    assert_eq!(shared[0], 2 * VideoFormat::all().len());
    assert_eq!(context.validation_errors(), Vec::<String>::new());
}

/// Controls: a wrong pitch, swapped chroma and a wrong offset show other texels.
#[test]
fn wrong_layouts_show_other_texels() {
    let Some((context, device)) = open(false) else { return };
    let stream = device.create_stream().expect("stream");
    let mut random = Random(5);
    for format in [VideoFormat::Yuv420, VideoFormat::Yuv444Bits10] {
        let spec = VideoSpec::new(format, [64, 32], USAGE);
        let video = released(&context, &VideoOptions::new(spec)).expect("a picture");
        let sent = random_picture(&mut random, &spec);
        context.acquire_video(&video).expect("acquire");
        context.upload_video(&video, &sent).expect("upload");
        context.release_video(&video).expect("release");
        let map = |change: &dyn Fn(usize, PlaneLayout) -> (usize, PlaneLayout)| {
            let requests = (0..3).map(|memory| video.import_request(memory).expect("export")).collect();
            let layouts = (0..3).map(|plane| change(plane, video.plane_layout(plane).expect("a layout"))).collect();
            MappedPlanes::import(&device, requests, layouts).expect("planes")
        };
        let planes = map(&|plane, layout| (plane, layout));
        assert_same(&read(&planes, &stream), &sent, "right");
        let fewer_rows = |layout: PlaneLayout, skipped: u64, longer: u64| {
            let extent = [layout.extent[0], layout.extent[1] - 1];
            let offset = layout.offset + layout.pitch * skipped;
            PlaneLayout::new(offset, layout.pitch + longer, extent, layout.texel)
        };
        let differ = |planes: &MappedPlanes| -> Vec<bool> {
            let found = read(planes, &stream);
            found.iter().zip(&sent).map(|(found, sent)| found[..] != sent[..found.len()]).collect()
        };
        let but_the_last = map(&|plane, layout| (plane, fewer_rows(layout, 0, 0)));
        assert_eq!(differ(&but_the_last), [false; 3], "all rows but the last");
        let pitch = map(&|plane, layout| (plane, fewer_rows(layout, 0, 1)));
        assert_eq!(differ(&pitch), [true; 3], "a pitch of a byte more");
        let late = map(&|plane, layout| (plane, fewer_rows(layout, 1, 0)));
        assert_eq!(differ(&late), [true; 3], "a row too late");
        let swapped = map(&|plane, layout| ([0, 2, 1][plane], layout));
        assert_eq!(differ(&swapped), [false, true, true], "swapped chroma");
    }
}

#[test]
fn misuse_is_rejected() {
    let Some((context, device)) = open(true) else { return };
    let rejected = |outcome: gpu_interop::Result<()>, kind, words: &str| {
        let error = outcome.expect_err(words);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error} should contain: {words}");
    };
    use ErrorKind::{InvalidArgument, Unsupported};
    let new = |spec| ExportableVideo::new(context.interop(), &VideoOptions::new(spec)).map(drop);
    let nv12 = VideoSpec::new(VideoFormat::Nv12, [16, 8], USAGE);
    rejected(new(VideoSpec::new(VideoFormat::Nv12, [0, 8], USAGE)), InvalidArgument, "at least 1");
    rejected(
        new(VideoSpec::new(VideoFormat::Nv12, [16, 8], vk::ImageUsageFlags::empty())),
        InvalidArgument,
        "no usage",
    );
    rejected(new(nv12.tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT)), Unsupported, "tiling");
    let odd = VideoSpec::new(VideoFormat::Nv12, [15, 8], USAGE);
    for storage in [PlaneStorage::Joint, PlaneStorage::Disjoint] {
        rejected(new(odd.storage(storage)), InvalidArgument, "multiple of 2");
    }
    let huge = VideoSpec::new(VideoFormat::Yuv444Bits16, [u32::MAX, u32::MAX], USAGE);
    rejected(new(huge), Unsupported, "large an extent");

    let video = ExportableVideo::new(context.interop(), &VideoOptions::new(nv12)).expect("a picture");
    let texels = [vec![1; 128], vec![2; 64]];
    rejected(context.upload_video(&video, &texels), InvalidArgument, "initialise it first");
    context.initialize_video(&video).expect("initialize");
    context.upload_video(&video, &texels).expect("upload");
    rejected(context.upload_video(&video, &texels[..1]), InvalidArgument, "one slice for each plane");
    let short = [vec![1; 128], vec![2; 63]];
    rejected(context.upload_video(&video, &short), InvalidArgument, "size of the plane");
    rejected(video.plane_layout(2).map(drop), InvalidArgument, "no such plane");
    rejected(video.import_request(2).map(drop), InvalidArgument, "no such allocation");
    rejected(video.plane_array(0).map(drop), Unsupported, "pitched memory");
    context.release_video(&video).expect("release");
    rejected(context.upload_video(&video, &texels), InvalidArgument, "acquire it first");
    let planes = video.map(&device).expect("planes");
    let stream = device.create_stream().expect("stream");
    rejected(planes.read(&stream, 1, &mut [0; 63]), InvalidArgument, "size of the plane");
    rejected(planes.row(1, 4).map(drop), InvalidArgument, "no such row");
    let optimal = ExportableVideo::new(context.interop(), &VideoOptions::new(nv12.tiling(vk::ImageTiling::OPTIMAL)));
    let optimal = optimal.expect("a picture");
    rejected(optimal.plane_layout(0).map(drop), Unsupported, "map_arrays");
    let desc = optimal.plane_array(1).expect("an array");
    assert_eq!((desc.format.channels(), desc.shape.level_extent(0)), (2, [8, 4, 1]));
    assert_eq!(context.validation_errors(), Vec::<String>::new());
}

/// A picture of one file, as a decoder passes it: its planes share an import. A file of the host backend stands for the
/// dma-buf.
#[test]
fn planes_of_a_file_are_imported() {
    let device = Device::open(&HostBackend::new(), 0).expect("the CPU");
    let stream = device.create_stream().expect("stream");
    let mut random = Random(11);
    for (format, code) in [(VideoFormat::Nv12, "NV12"), (VideoFormat::P010, "P010"), (VideoFormat::Yuv420, "YU12")] {
        let (extent, code) = ([35, 21], DrmFourcc::from_code(code));
        let layouts = format.layout(64, extent, 16, 128).expect("a layout");
        let size = layouts.iter().map(|plane| plane.end().expect("an end")).max().expect("planes");
        let memory = device.allocate_exportable(size).expect("memory");
        let picture = |modifier, late| {
            let plane = |layout: &PlaneLayout| match memory.export().expect("an export") {
                MemoryHandle::OpaqueFd(fd) => DmaBufPlane::new(fd, layout.offset + late, layout.pitch),
                other => panic!("{other:?}"),
            };
            DmaBufPicture::new(code, modifier, extent, layouts.iter().map(plane).collect())
        };
        let kind = MemoryHandleKind::OpaqueFd;
        // SAFETY: the file has the planes, and the backend imports its own kind of file.
        let planes = unsafe { picture(DrmModifier::LINEAR, 0).import_as(&device, kind) }.expect("planes");
        assert_eq!((planes.len(), planes.memories().len()), (format.planes(), 1));
        let spec = VideoSpec::new(format, extent, USAGE);
        let (first, second) = (random_picture(&mut random, &spec), random_picture(&mut random, &spec));
        for (layout, texels) in layouts.iter().zip(&first) {
            for (row, texels) in (0..).zip(texels.chunks(usize::try_from(layout.row_size()).expect("small"))) {
                let start = layout.row(row).expect("a row");
                stream
                    .write(memory.slice(start..start + texels.len() as u64).expect("a range"), texels)
                    .expect("write");
            }
        }
        assert_same(&read(&planes, &stream), &first, "the producer's picture");
        for (plane, texels) in second.iter().enumerate() {
            planes.write(&stream, plane, texels).expect("write");
        }
        assert_same(&read(&planes, &stream), &second, "the device's picture");
        // SAFETY: nothing is imported.
        let tiled = unsafe { picture(DrmModifier(0x0100_0000_0000_0002), 0).import_as(&device, kind) };
        let (error, returned) = tiled.expect_err("not linear").into_parts();
        assert_eq!((error.kind(), returned.planes.len()), (ErrorKind::Unsupported, format.planes()));
        assert!(error.to_string().contains("INTEL_Y_TILED"), "{error}");
        // SAFETY: as above.
        let late = unsafe { picture(DrmModifier::LINEAR, 1 << 20).import_as(&device, kind) };
        assert_eq!(late.expect_err("past the end").error().kind(), ErrorKind::InvalidArgument);
        // SAFETY: as above; the backend has no dma-bufs.
        let unsupported = unsafe { picture(DrmModifier::LINEAR, 0).import(&device) };
        assert_eq!(unsupported.expect_err("no dma-bufs").error().kind(), ErrorKind::Unsupported);
    }
}
