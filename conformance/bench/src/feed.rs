//! Pictures per second of 3840x2160 that a `PictureFeed` copies from images of optimal tiling to the device's planes.
//!
//! `rgba8` is an image that another Vulkan device exports, `nv12` an image for each plane. On the transfer-only queue, or,
//! where the device has none, on the other, without a limit. The variants:
//! * `feed`: three frames in flight; the stream waits for each, and the next copy for the stream. Every byte of the last one
//!   is verified;
//! * `queue`: the same copies, to buffers that are not shared, in submissions without semaphores.

use std::time::{Duration, Instant};

use gpu_interop::vulkan::{
    ExportableImage, ExportableVideo, FeedFences, FeedSource, HeadlessContext, ImageImportOptions, ImageOptions,
    ImageSpec, ImportedImage, MemoryPlacement, OwnedBuffer, PictureFeed, PictureFeedOptions, Recording, VideoOptions,
    VideoSpec, ash::vk,
};
use gpu_interop::{ImportError, PlaneLayout, VideoFormat};
use gpu_interop_conformance::{Pattern, Verdict, ensure};

use super::machine::{Machine, TRANSFER, WAIT_TIMEOUT, too_much};
use super::record::{Comparison, Quantity, Recorder};
use super::report::Limit;
use super::rounds::{Effort, Variant};

const SIZE: [u32; 2] = [3840, 2160];
const DEPTH: usize = 3;
const RATE: Quantity = Quantity { suffix: "", unit: "frames/s" };
const ENOUGH: Limit = Limit::AtLeast(0.9);
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

pub(super) fn rgba8(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;
    let producer = machine.graphics_queue()?;
    let context = machine.transfer_queue().unwrap_or(producer);
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, [SIZE[0], SIZE[1], 1], FORMAT, USAGE);
    let exported = ExportableImage::new(producer.interop(), &ImageOptions::new(spec)).map_err(too_much)?;
    let feed = feed(machine, FORMAT)?;
    let data = data(feed.planes())?;
    producer.initialize_image(exported.image())?;
    data.iter().try_for_each(|plane| producer.upload_image(exported.image(), 0, 0, plane))?;
    producer.release_image(exported.image())?;
    let request = exported.import_request()?;
    let imported = ImportedImage::new(context.interop(), request, &ImageImportOptions::new(spec));
    let imported = imported.map_err(ImportError::into_parts).map_err(|(error, _)| error)?;
    let source = feed.source(context, imported.image())?;
    let copy = |commands: &mut Recording<'_>, targets: &[OwnedBuffer]| {
        commands.acquire_image(imported.image())?;
        targets.iter().try_for_each(|target| commands.copy_from_image(imported.image(), 0, 0, target, 0))?;
        commands.release_image(imported.image())
    };
    run(machine, recorder, name, context, &Pictures { feed, source, data }, copy)
}

pub(super) fn nv12(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    const FORMAT: VideoFormat = VideoFormat::Nv12;
    let context = machine.transfer_queue().or_else(|_| machine.graphics_queue())?;
    let options = VideoOptions::new(VideoSpec::new(FORMAT, SIZE, USAGE));
    let video = ExportableVideo::new(context.interop(), &options).map_err(too_much)?;
    let feed = feed(machine, vk::Format::from_raw(FORMAT.vulkan_number()))?;
    let data = data(feed.planes())?;
    context.initialize_video(&video)?;
    context.upload_video(&video, &data)?;
    let source = feed.source(context, &video)?;
    let copy = |commands: &mut Recording<'_>, targets: &[OwnedBuffer]| {
        let mut each = targets.iter().enumerate();
        each.try_for_each(|(plane, target)| commands.copy_from_plane(&video, plane, target, 0))
    };
    run(machine, recorder, name, context, &Pictures { feed, source, data }, copy)
}

struct Pictures {
    feed: PictureFeed,
    source: FeedSource,
    /// Every plane, without padding.
    data: Vec<Vec<u8>>,
}

fn feed(machine: &Machine, format: vk::Format) -> Verdict<PictureFeed> {
    let options = PictureFeedOptions::new(format, SIZE).frames(DEPTH).timeout(WAIT_TIMEOUT);
    PictureFeed::new(&machine.device, &options).map_err(too_much)
}

fn data(planes: &[PlaneLayout]) -> Verdict<Vec<Vec<u8>>> {
    let sizes = planes.iter().map(|plane| plane.size().unwrap_or(0));
    (1..).zip(sizes).map(|(seed, size)| Ok(Pattern::new(seed).bytes(0, usize::try_from(size)?))).collect()
}

fn run(
    machine: &Machine,
    recorder: &mut Recorder,
    name: &str,
    context: &HeadlessContext,
    pictures: &Pictures,
    copy: impl Fn(&mut Recording<'_>, &[OwnedBuffer]) -> gpu_interop::Result<()>,
) -> Verdict {
    let stream = &machine.stream;
    // One picture on a CPU takes as long as all on a GPU.
    let count: u32 = if machine.is_gpu() { 60 } else { 4 };
    let Pictures { feed, source, data } = pictures;
    let target = |plane: &Vec<u8>| {
        OwnedBuffer::new(context.interop(), plane.len() as u64, TRANSFER, MemoryPlacement::DeviceLocal)
            .map_err(too_much)
    };
    let slots = (0..DEPTH).map(|_| data.iter().map(target).collect()).collect::<Verdict<Vec<Vec<_>>>>()?;
    // NVIDIA's copy engine has two rates, of which one is a fifth lower, for every variant: the faster of two batches counts.
    let rate = |run: &dyn Fn() -> Verdict| -> Verdict<f64> {
        let batch = |_| {
            let start = Instant::now();
            run()?;
            Ok(f64::from(count) / start.elapsed().as_secs_f64())
        };
        [(), ()].into_iter().map(batch).try_fold(0.0, |best, rate: Verdict<f64>| Ok(rate?.max(best)))
    };
    let none = FeedFences::default();
    let mut variants = [
        Variant::of_one("feed", || {
            rate(&|| {
                (0..count).try_for_each(|_| feed.to_compute(context, source, &none, stream, |_, _| Ok(())))?;
                Ok(stream.synchronize()?)
            })
        }),
        Variant::of_one("queue", || {
            rate(&|| {
                let mut last = None;
                for targets in slots.iter().cycle().take(count as usize) {
                    last = Some(context.submit(&[], &[], |commands| copy(commands, targets))?);
                }
                last.map_or(Ok(()), |last| Ok(last.wait(WAIT_TIMEOUT)?))
            })
        }),
    ];
    let is_judged = machine.is_judged() && machine.transfer_queue().is_ok();
    let comparison = Comparison { limit: is_judged.then_some(ENOUGH), ..Comparison::new(0, "feed", "queue") };
    let effort = Effort { least: 5, most: 100, ..Effort::within(Duration::from_secs(2)) };
    recorder.measure(name, effort, &[RATE], &mut variants, &[comparison])?;
    feed.to_compute(context, source, &none, stream, |stream, planes| {
        let mut found = data.clone();
        let mut each = found.iter_mut().enumerate();
        each.try_for_each(|(plane, found)| planes.read(stream, plane, found))?;
        Ok(found)
    })
    .map_err(Into::into)
    .and_then(|found| {
        let differing = found.iter().zip(data).filter(|(found, data)| found != data).count();
        ensure!(differing == 0, "{differing} planes differ from the picture");
        Ok(())
    })
}
