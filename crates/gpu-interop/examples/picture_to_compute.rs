//! Example: pictures of a producer, passed to the compute device.
//!
//! The producer is a second Vulkan device. It exports each picture as dma-bufs, once for each DRM modifier, as a compositor or
//! a decoder does. Linear pictures are shared where the compute device imports them; a queue copies all others. Without DRM
//! modifiers, the pictures are images of one device. Every byte is compared. Argument: the number of frames of each picture
//! (default 10).

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    ExportableImage, FeedFences, FeedSource, HeadlessContext, HeadlessOptions, ImageOptions, ImageSpec, PictureFeed,
    PictureFeedOptions, QueueKind,
};
use gpu_interop::{Device, Stream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;
const EXTENT: [u32; 2] = [320, 180];
const SIZE: usize = 320 * 180 * 4;
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

fn main() -> Result<()> {
    let frames = std::env::args().nth(1).map_or(Ok(10), |frames| frames.parse::<u8>())?;
    let open = || {
        // Nothing is drawn, and some GPUs have no graphics queue.
        let with = |kind| HeadlessContext::new(&HeadlessOptions::default().queue(kind));
        with(QueueKind::ComputeOnly).or_else(|_| with(QueueKind::General))
    };
    let (producer, vulkan) = (open()?, open()?);
    let device = gpu_interop::device_for(vulkan.identity())?;
    let options = PictureFeedOptions::new(FORMAT, EXTENT);
    let feed = PictureFeed::new(&device, &options)?;
    let consumer = Consumer { vulkan: &vulkan, stream: device.create_stream()?, feed: &feed, frames };

    let modifiers = modifiers(&producer, &vulkan);
    if modifiers.is_empty() {
        let image = ExportableImage::new(vulkan.interop(), &image_options())?;
        vulkan.initialize_image(image.image())?;
        let source = feed.source(&vulkan, image.image())?;
        consumer.run("no modifiers", &source, |texels| Ok(vulkan.upload_image(image.image(), 0, 0, texels)?))?;
    }
    #[cfg(unix)]
    for modifier in modifiers {
        with_dma_bufs(&producer, &consumer, modifier)?;
    }
    println!("{} frames of each picture, with {}", frames, Device::identity(&device));
    Ok(())
}

/// The device's side.
struct Consumer<'a> {
    vulkan: &'a HeadlessContext,
    stream: Stream,
    feed: &'a PictureFeed,
    frames: u8,
}

impl Consumer<'_> {
    /// Passes frames that `produce` has written, and compares every byte.
    fn run(&self, name: &str, source: &FeedSource, produce: impl Fn(&[u8]) -> Result<()>) -> Result<()> {
        println!("{name}: {} ({}), {} bytes copied a frame", source.way(), source.reason(), source.copied_bytes());
        for frame in 0..self.frames {
            let sent: Vec<u8> = (0..=250).cycle().take(SIZE).map(|at: u8| at ^ frame).collect();
            produce(&sent)?;
            // The producer has finished. Otherwise the fences have its semaphores, or are `FeedFences::implicit()`.
            let fences = FeedFences::default();
            let found = self.feed.to_compute(self.vulkan, source, &fences, &self.stream, |stream, planes| {
                // An application launches kernels here.
                let mut found = vec![0; SIZE];
                planes.read(stream, 0, &mut found)?;
                Ok(found)
            })?;
            assert!(found == sent, "{name}: frame {frame} differs");
        }
        Ok(())
    }
}

fn image_options() -> ImageOptions {
    let [width, height] = EXTENT;
    ImageOptions::new(ImageSpec::new(vk::ImageViewType::TYPE_2D, [width, height, 1], FORMAT, USAGE))
}

/// The modifiers with which both sides share pictures.
#[cfg(unix)]
fn modifiers(producer: &HeadlessContext, vulkan: &HeadlessContext) -> Vec<gpu_interop::format::DrmModifier> {
    let code = gpu_interop::format::DrmFourcc::from_code("AB24");
    let exported = producer.interop().drm_modifiers(FORMAT).unwrap_or_default();
    let imported = vulkan.interop().picture_modifiers(code, USAGE).unwrap_or_default();
    imported.into_iter().map(|support| support.modifier).filter(|modifier| exported.contains(modifier)).collect()
}

#[cfg(not(unix))]
fn modifiers(_: &HeadlessContext, _: &HeadlessContext) -> Vec<()> {
    Vec::new()
}

#[cfg(unix)]
fn with_dma_bufs(
    producer: &HeadlessContext,
    consumer: &Consumer<'_>,
    modifier: gpu_interop::format::DrmModifier,
) -> Result<()> {
    use gpu_interop::vulkan::{ImportedPicture, PictureOptions, Producer};

    let image = match ExportableImage::with_modifiers(producer.interop(), &image_options(), &[modifier]) {
        Err(error) if error.kind() == gpu_interop::ErrorKind::Unsupported => return Ok(()),
        image => image?,
    };
    producer.initialize_image(image.image())?;
    producer.release_image(image.image())?;
    let options = PictureOptions::new(USAGE).producer(Producer::SameDriver);
    // SAFETY: the producer describes its own memory.
    let picture = unsafe { ImportedPicture::new(consumer.vulkan.interop(), image.dma_buf_picture()?, &options) };
    let picture = picture.map_err(|failure| failure.into_parts().0)?;
    let source = consumer.feed.source(consumer.vulkan, &picture)?;
    consumer.run(&modifier.to_string(), &source, |texels| {
        producer.acquire_image(image.image())?;
        producer.upload_image(image.image(), 0, 0, texels)?;
        Ok(producer.release_image(image.image())?)
    })
}
