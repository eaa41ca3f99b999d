//! Pictures on their way from Vulkan to the device, every byte.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::open;
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    ExportableImage, ExportableVideo, FeedFences, FeedSource, HeadlessContext, ImageImportOptions, ImageOptions,
    ImageSpec, ImportedImage, OwnedImage, OwnedSemaphore, PictureFeed, PictureFeedOptions, PictureWay, PlaneStorage,
    SemaphoreOp, VideoOptions, VideoSpec,
};
use gpu_interop::{Device, Error, ErrorKind, MappedPlanes, Stream, VideoFormat};
use gpu_interop_test_support::Random;

const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);
const PATIENCE: Duration = Duration::from_secs(10);

fn bytes(random: &mut Random, length: u64) -> Vec<u8> {
    (0..length).map(|_| random.word().to_le_bytes()[1]).collect()
}

fn image(
    context: &HeadlessContext,
    format: vk::Format,
    [width, height]: [u32; 2],
    tiling: vk::ImageTiling,
) -> ExportableImage {
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, [width, height, 1], format, USAGE).tiling(tiling);
    let image = ExportableImage::new(context.interop(), &ImageOptions::new(spec)).expect("an image");
    context.initialize_image(image.image()).expect("initialised");
    image
}

/// Every plane, without padding.
fn read(stream: &Stream, planes: &MappedPlanes) -> Result<Vec<Vec<u8>>, Error> {
    let plane = |plane| {
        let mut found = vec![0; planes.layout(plane)?.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0)];
        planes.read(stream, plane, &mut found)?;
        Ok(found)
    };
    (0..planes.len()).map(plane).collect()
}

fn same(found: &[Vec<u8>], expected: &[Vec<u8>], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: planes");
    for (plane, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}: size of plane {plane}");
        let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{what}: first byte of plane {plane} that differs");
    }
}

/// A frame whose every byte is read.
fn passed(
    (context, feed, stream): (&HeadlessContext, &PictureFeed, &Stream),
    source: &FeedSource,
    fences: &FeedFences<'_>,
) -> Vec<Vec<u8>> {
    feed.to_compute(context, source, fences, stream, read).expect("a frame")
}

/// Older layers do not see signals of the host.
fn no_validation_error(context: &HeadlessContext) {
    let errors = context.validation_errors().into_iter().filter(|error| !error.contains("-state-timeout ]"));
    assert_eq!(errors.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn images_arrive() {
    let Some((context, device)) = open(true) else { return };
    let stream = device.create_stream().expect("a stream");
    let mut random = Random(0x51ed);
    for format in [
        vk::Format::R8G8B8A8_UNORM,
        vk::Format::B8G8R8A8_SRGB,
        vk::Format::R8_UNORM,
        vk::Format::R16G16_SFLOAT,
        vk::Format::A2B10G10R10_UNORM_PACK32,
        vk::Format::R32G32B32A32_SFLOAT,
    ] {
        for tiling in [vk::ImageTiling::OPTIMAL, vk::ImageTiling::LINEAR] {
            let extent = [random.below(150) + 1, random.below(60) + 1];
            let feed = PictureFeed::new(&device, &PictureFeedOptions::new(format, extent)).expect("a feed");
            let image = image(&context, format, extent, tiling);
            let source = feed.source(&context, image.image()).expect("a source");
            let size = image.image().spec().level_size(0).expect("a size");
            assert_eq!((source.way(), source.copied_bytes()), (PictureWay::Copied, size));
            // More frames than are in flight.
            for frame in 0..8 {
                let texels = bytes(&mut random, size);
                context.upload_image(image.image(), 0, 0, &texels).expect("an upload");
                let found = passed((&context, &feed, &stream), &source, &FeedFences::default());
                same(&found, &[texels], &format!("{format:?} {tiling:?} {extent:?}, frame {frame}"));
            }
        }
    }
    no_validation_error(&context);
}

#[test]
fn planes_arrive() {
    let Some((context, device)) = open(true) else { return };
    let stream = device.create_stream().expect("a stream");
    let mut random = Random(0x77ab);
    for format in VideoFormat::all() {
        for (storage, tiling) in [
            (PlaneStorage::Separate, vk::ImageTiling::OPTIMAL),
            (PlaneStorage::Separate, vk::ImageTiling::LINEAR),
            (PlaneStorage::Joint, vk::ImageTiling::OPTIMAL),
            (PlaneStorage::Disjoint, vk::ImageTiling::OPTIMAL),
        ] {
            let extent = [random.below(70) * 2 + 2, random.below(20) * 2 + 2];
            let spec = VideoSpec::new(format, extent, USAGE).storage(storage).tiling(tiling);
            let video = match ExportableVideo::new(context.interop(), &VideoOptions::new(spec)) {
                Ok(video) => video,
                Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                Err(error) => panic!("{error}"),
            };
            context.initialize_video(&video).expect("initialised");
            let options = PictureFeedOptions::new(vk::Format::from_raw(format.vulkan_number()), extent);
            let feed = PictureFeed::new(&device, &options).expect("a feed");
            let source = feed.source(&context, &video).expect("a source");
            let what = format!("{spec:?}");
            let data: Vec<_> =
                feed.planes().iter().map(|plane| bytes(&mut random, plane.size().expect("small"))).collect();
            context.upload_video(&video, &data).expect("an upload");
            same(&passed((&context, &feed, &stream), &source, &FeedFences::default()), &data, &what);
        }
    }
    no_validation_error(&context);
}

/// The image that another device exports is acquired and released by each copy, and its frames are ordered by semaphores.
#[test]
fn images_of_another_device_arrive() {
    let Some((context, device)) = open(true) else { return };
    let Some((producer, _)) = open(true) else { return };
    let (format, extent) = (vk::Format::R8G8B8A8_UNORM, [61, 33]);
    let stream = device.create_stream().expect("a stream");
    let exported = image(&producer, format, extent, vk::ImageTiling::OPTIMAL);
    producer.release_image(exported.image()).expect("released");
    let options = ImageImportOptions::new(*exported.image().spec());
    let request = exported.import_request().expect("a request");
    let imported = ImportedImage::new(context.interop(), request, &options).expect("an import");
    let feed = PictureFeed::new(&device, &PictureFeedOptions::new(format, extent)).expect("a feed");
    let source = feed.source(&context, imported.image()).expect("a source");
    let (ready, taken) = (timeline(&context), timeline(&context));
    let mut random = Random(0x1234);
    for frame in 1..=6 {
        let texels = bytes(&mut random, 61 * 33 * 4);
        producer.acquire_image(exported.image()).expect("acquired");
        producer.upload_image(exported.image(), 0, 0, &texels).expect("an upload");
        producer.release_image(exported.image()).expect("released");
        ready.signal(frame).expect("signalled");
        let op = |semaphore| [SemaphoreOp { semaphore, value: frame }];
        let found = passed((&context, &feed, &stream), &source, &FeedFences::new(&op(&ready), &op(&taken)));
        taken.wait(frame, PATIENCE).expect("the producer may write again");
        same(&found, &[texels], &format!("frame {frame}"));
    }
    no_validation_error(&context);
}

fn timeline(context: &HeadlessContext) -> OwnedSemaphore {
    OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline")
}

/// The copy waits for the producer, and each frame in flight keeps its data although the image changes.
#[test]
fn frames_in_flight_keep_their_data() {
    let Some((context, device)) = open(false) else { return };
    let (format, extent) = (vk::Format::R32_UINT, [64, 16]);
    let stream = device.create_stream().expect("a stream");
    let image = image(&context, format, extent, vk::ImageTiling::OPTIMAL);
    let options = PictureFeedOptions::new(format, extent).frames(3);
    let feed = PictureFeed::new(&device, &options).expect("a feed");
    let source = feed.source(&context, image.image()).expect("a source");
    let results = ExportableImage::new(
        context.interop(),
        &ImageOptions::new(
            ImageSpec::new(vk::ImageViewType::TYPE_2D, [64, 64, 1], format, USAGE).tiling(vk::ImageTiling::LINEAR),
        ),
    )
    .expect("memory of the results");
    let results = device.import_memory(results.import_request().expect("a request")).expect("an import");
    let results = results.map_buffer(..).expect("a mapping");
    let go = timeline(&context);
    for frame in 0..3_u32 {
        clear(&context, image.image(), frame + 7, &go);
        feed.to_compute(&context, &source, &FeedFences::default(), &stream, |stream, planes| {
            let start = u64::from(frame) * 4096;
            stream.copy(results.slice(start..start + 4096)?, planes.slice(0)?)
        })
        .expect("a frame");
    }
    let full = feed.to_compute(&context, &source, &FeedFences::default(), &stream, |_, _| Ok(()));
    assert_eq!(full.expect_err("all frames are in flight").kind(), ErrorKind::Timeout);
    go.signal(1).expect("signalled");
    stream.synchronize_timeout(PATIENCE).expect("all frames");
    let mut found = vec![0; 3 * 4096];
    stream.read(results.slice(..3 * 4096).expect("a range"), &mut found).expect("read");
    let expected: Vec<u8> = (7..10_u32).flat_map(|word| word.to_le_bytes().repeat(1024)).collect();
    same(&[found], &[expected], "three frames");
}

/// Clears the image behind the value 1 of a timeline.
fn clear(context: &HeadlessContext, image: &OwnedImage, word: u32, go: &OwnedSemaphore) {
    let submitted = context.submit(&[SemaphoreOp { semaphore: go, value: 1 }], &[], |commands| {
        commands.keep_image(image);
        let color = vk::ClearColorValue { uint32: [word; 4] };
        let range = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            level_count: 1,
            layer_count: 1,
            ..Default::default()
        };
        let device = context.interop().device();
        // SAFETY: recording; the image is live, kept, owned by this device and in the layout `GENERAL`.
        unsafe {
            let general = vk::ImageLayout::GENERAL;
            device.cmd_clear_color_image(commands.as_raw(), image.as_raw(), general, &color, &[range]);
        }
        Ok(())
    });
    submitted.map(drop).expect("submitted");
}

#[test]
fn failed_work_leaves_the_feed_usable() {
    let Some((context, device)) = open(false) else { return };
    let (format, extent) = (vk::Format::R8_UNORM, [20, 10]);
    let stream = device.create_stream().expect("a stream");
    let image = image(&context, format, extent, vk::ImageTiling::OPTIMAL);
    let options = PictureFeedOptions::new(format, extent).frames(1);
    let feed = PictureFeed::new(&device, &options).expect("a feed");
    let source = feed.source(&context, image.image()).expect("a source");
    let failed = feed.to_compute(&context, &source, &FeedFences::default(), &stream, |_, _| {
        Err::<(), _>(Error::unsupported("a test", "this frame fails"))
    });
    assert_eq!(failed.expect_err("the error of the work").message(), "this frame fails");
    let texels: Vec<u8> = (0..200).collect();
    context.upload_image(image.image(), 0, 0, &texels).expect("an upload");
    same(&passed((&context, &feed, &stream), &source, &FeedFences::default()), &[texels], "the next frame");
}

#[test]
fn what_cannot_pass_is_refused() {
    let Some((context, device)) = open(false) else { return };
    let stream = device.create_stream().expect("a stream");
    let feed = |format, extent| PictureFeed::new(&device, &PictureFeedOptions::new(format, extent));
    let rejected = |outcome: Result<FeedSource, Error>, words: &str| {
        let error = outcome.map(|source| source.way()).expect_err(words);
        assert!(error.to_string().contains(words), "{error} should contain: {words}");
        error.kind()
    };
    assert_eq!(feed(vk::Format::D32_SFLOAT, [8, 8]).expect_err("depth").kind(), ErrorKind::Unsupported);
    assert_eq!(feed(vk::Format::R8_UNORM, [0, 8]).expect_err("empty").kind(), ErrorKind::InvalidArgument);
    let bytes = feed(vk::Format::R8_UNORM, [16, 8]).expect("a feed");
    let of = |format, extent| image(&context, format, extent, vk::ImageTiling::OPTIMAL);
    for (format, extent) in
        [(vk::Format::R8_UNORM, [16, 9]), (vk::Format::R8G8_UNORM, [16, 8]), (vk::Format::R8_UINT, [16, 8])]
    {
        let kind = rejected(bytes.source(&context, of(format, extent).image()), "16 x 8");
        assert_eq!(kind, ErrorKind::InvalidArgument, "{format:?} {extent:?}");
    }
    let spec =
        ImageSpec::new(vk::ImageViewType::TYPE_2D, [16, 8, 1], vk::Format::R8_UNORM, vk::ImageUsageFlags::TRANSFER_DST);
    let unread = ExportableImage::new(context.interop(), &ImageOptions::new(spec)).expect("an image");
    assert_eq!(rejected(bytes.source(&context, unread.image()), "TRANSFER_SRC"), ErrorKind::InvalidArgument);
    let options = PictureFeedOptions::new(vk::Format::R8_UNORM, [16, 8]).way(PictureWay::Shared);
    let shared = PictureFeed::new(&device, &options).expect("a feed");
    let known = of(vk::Format::R8_UNORM, [16, 8]);
    assert_eq!(rejected(shared.source(&context, known.image()), "dma-bufs"), ErrorKind::Unsupported);
    let source = bytes.source(&context, known.image()).expect("a source");
    let outcome = bytes.to_compute(&context, &source, &FeedFences::implicit(), &stream, |_, _| Ok(()));
    assert!(outcome.expect_err("no dma-bufs").to_string().contains("ImportedPicture"));
    // The other feed's frames have another size.
    let larger = feed(vk::Format::R8_UNORM, [64, 64]).expect("a feed");
    let other_feed = larger.to_compute(&context, &source, &FeedFences::default(), &stream, |_, _| Ok(()));
    assert!(other_feed.expect_err("a source of another feed").to_string().contains("another feed"));
    // The same texels, in another order.
    let swapped = of(vk::Format::B8G8R8A8_UNORM, [16, 8]);
    let rgba = feed(vk::Format::R8G8B8A8_SRGB, [16, 8]).expect("a feed");
    assert_eq!(rejected(rgba.source(&context, swapped.image()), "Bgra"), ErrorKind::InvalidArgument);
    rgba.source(&context, of(vk::Format::R8G8B8A8_UNORM, [16, 8]).image()).expect("another encoding");
    // Nothing was submitted: the frame is still Vulkan's.
    let never = |_: &Stream, _: &MappedPlanes| -> Result<(), Error> { panic!("called without a copy") };
    let Some((other, _)) = open(false) else { return };
    let fresh = feed(vk::Format::R8_UNORM, [16, 8]).expect("a feed");
    assert_eq!(rejected(fresh.source(&other, known.image()), "another device"), ErrorKind::InvalidArgument);
    fresh.source(&context, known.image()).expect("the failed source left nothing behind");
    let of_other = bytes.to_compute(&other, &source, &FeedFences::default(), &stream, never);
    assert_eq!(of_other.expect_err("another device").kind(), ErrorKind::InvalidArgument);
    assert_eq!(passed((&context, &bytes, &stream), &source, &FeedFences::default())[0].len(), 128);
}

/// Uses the device of the compute side only.
#[allow(dead_code, reason = "its types are checked")]
fn feeds_cross_threads(feed: PictureFeed, source: FeedSource, device: Device) -> impl Send + Sync {
    (feed, source, device)
}
