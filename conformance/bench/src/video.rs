//! Pictures per second of 3840x2160, from Vulkan to the device's planes and back, with three in flight.
//!
//! Vulkan waits until the device has answered in the slot's previous picture, copies the answer to its own memory, copies
//! the next picture from its own memory to the planes, and signals. The device waits, copies each plane to its own memory,
//! copies its answer to each plane, and signals. The host enqueues ahead and waits only for completed pictures. On the
//! transfer-only queue, or, where the device has none, on the other, without a limit.
//!
//! The first word of each picture is its number, which the device stores; the host verifies all of them at the end, and
//! every byte of the last picture of each slot, on both sides.

use std::time::Duration;

use gpu_interop::vulkan::{
    ExportableVideo, HeadlessContext, MemoryPlacement, OwnedBuffer, Recording, VideoOptions, VideoSpec, ash::vk,
};
use gpu_interop::{BufferSlice, ExportableMemory, MappedPlanes, PlaneLayout, Stream, VideoFormat};
use gpu_interop_conformance::{Pattern, Verdict};

use super::in_flight::{FrameSlots, Pipeline, Timelines};
use super::machine::{Machine, TRANSFER, too_much};
use super::record::{Comparison, Quantity, Recorder};
use super::report::Limit;
use super::rounds::{Effort, Variant};
use super::timeline::{Exporter, LibraryCounter};

const SIZE: [u32; 2] = [3840, 2160];
const DEPTH: usize = 3;
const RATE: [Quantity; 1] = [Quantity { suffix: "", unit: "frames/s" }];
/// Pictures per second on a GPU's transfer queue, unless its own copies take longer: Vulkan moves each picture twice.
const LEAST: f64 = 2000.0;
/// The part of the rate of Vulkan's copies alone that the whole pipeline reaches.
const ENOUGH: Limit = Limit::AtLeast(0.95);

pub(super) fn nv12(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, VideoFormat::Nv12)
}

pub(super) fn p010(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    run(machine, recorder, name, VideoFormat::P010)
}

fn run(machine: &Machine, recorder: &mut Recorder, name: &str, format: VideoFormat) -> Verdict {
    let transfer = machine.transfer_queue();
    let has_transfer = transfer.is_ok();
    let context = transfer.or_else(|_| machine.graphics_queue())?;
    // One picture on a CPU takes as long as all on a GPU.
    let count = if machine.is_gpu() { 60 } else { 6 };
    let pictures = &Pictures::new(machine, context, format, count)?;
    let exporter = Exporter::Vulkan(context);
    let native = Timelines::new(|| LibraryCounter::native(machine, exporter));
    let bridge = Timelines::new(|| LibraryCounter::bridge(machine, exporter));
    let mut variants = Vec::new();
    if let Some(timelines) = recorder.side("every native variant", &native) {
        variants.push(Variant::of_one("native", || pictures.rate(timelines)));
    }
    if let Some(timelines) = recorder.side("every bridge variant", &bridge) {
        variants.push(Variant::of_one("bridge", || pictures.rate(timelines)));
    }
    variants.push(Variant::of_one("vulkan_alone", || pictures.pipeline.vulkan_rate(pictures, DEPTH)));
    let effort = Effort { least: 5, most: 100, ..Effort::within(Duration::from_secs(2)) };
    recorder.measure(name, effort, &RATE, &mut variants, &[Comparison::new(0, "native", "bridge")])?;
    if let Some(rate) = recorder.median(name, "native") {
        let alone = recorder.median(name, "vulkan_alone").unwrap_or(0.0);
        let is_limited = machine.is_gpu() && has_transfer;
        // The queue's copies alone may take longer.
        let least = (is_limited && alone >= LEAST).then_some(Limit::AtLeast(1.0));
        recorder.compare(format!("{name} (native frames/s)/{LEAST}"), rate, LEAST, least);
        let enough = is_limited.then_some(ENOUGH);
        recorder.compare(format!("{name} native/smaller of vulkan_alone and {LEAST}"), rate, alone.min(LEAST), enough);
    }
    Ok(())
}

/// A plane in the device's own memory, with the pitch of the shared one, and in Vulkan's own, tightly packed.
struct Plane {
    shared: PlaneLayout,
    /// Size of the shared plane with padding, and offset in the device's own memory, bytes.
    on_device: (u64, u64),
    /// Size and offset in Vulkan's own buffers, bytes.
    in_vulkan: (usize, u64),
}

/// A picture in flight.
struct Slot {
    video: ExportableVideo,
    planes: MappedPlanes,
    /// The device's copy of the last picture.
    taken: ExportableMemory,
    /// The last answer, in Vulkan's own memory.
    returned: OwnedBuffer,
}

struct Pictures<'a> {
    pipeline: Pipeline<'a>,
    context: &'a HeadlessContext,
    stream: &'a Stream,
    layout: Vec<Plane>,
    slots: Vec<Slot>,
    /// The next picture, in Vulkan's own memory.
    picture: OwnedBuffer,
    sent: Pattern,
    /// The device's answer.
    answer: ExportableMemory,
    answered: Pattern,
}

impl<'a> Pictures<'a> {
    fn new(machine: &'a Machine, context: &'a HeadlessContext, format: VideoFormat, count: usize) -> Verdict<Self> {
        let (device, stream) = (&machine.device, &machine.stream);
        let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
        let options = VideoOptions::new(VideoSpec::new(format, SIZE, usage));
        let videos = (0..DEPTH)
            .map(|_| ExportableVideo::new(context.interop(), &options).map_err(too_much))
            .collect::<Verdict<Vec<_>>>()?;
        let (mut layout, mut on_device, mut in_vulkan) = (Vec::new(), 0, 0);
        for plane in 0..format.planes() {
            let shared = videos[0].plane_layout(plane)?;
            let padded = shared.end().unwrap_or(0) - shared.offset;
            let size = usize::try_from(shared.size().unwrap_or(0))?;
            layout.push(Plane { shared, on_device: (padded, on_device), in_vulkan: (size, in_vulkan) });
            on_device += padded.next_multiple_of(256);
            in_vulkan += (size as u64).next_multiple_of(256);
        }
        let local =
            || OwnedBuffer::new(context.interop(), in_vulkan, TRANSFER, MemoryPlacement::DeviceLocal).map_err(too_much);
        let own = || device.allocate_exportable(on_device).map_err(too_much);
        let slot = |video: ExportableVideo| {
            context.run(|recording| {
                recording.initialize_video(&video)?;
                recording.release_video(&video)
            })?;
            Ok(Slot { planes: video.map(device)?, video, taken: own()?, returned: local()? })
        };
        let pictures = Self {
            pipeline: Pipeline::new(machine, context, count)?,
            context,
            stream,
            slots: videos.into_iter().map(slot).collect::<Verdict<_>>()?,
            layout,
            picture: local()?,
            sent: Pattern::new(0x5EED),
            answer: own()?,
            answered: Pattern::new(0xA115),
        };
        for (number, plane) in (0..).zip(&pictures.layout) {
            let data = pictures.sent.level(number).bytes(0, plane.in_vulkan.0);
            context.upload(&pictures.picture, plane.in_vulkan.1, &data)?;
            for (offset, data) in plane.rows(&pictures.answered.level(number).bytes(0, plane.in_vulkan.0)) {
                stream.write(pictures.answer.slice(offset..offset + data.len() as u64)?, data)?;
            }
        }
        Ok(pictures)
    }

    /// Pictures per second. Fails unless every byte of the last ones arrived on both sides.
    fn rate(&self, timelines: &Timelines) -> Verdict<f64> {
        let rate = self.pipeline.rate(self, DEPTH, timelines)?;
        self.check()?;
        Ok(rate)
    }

    /// Fails unless every byte of the last pictures arrived on both sides.
    fn check(&self) -> Verdict {
        for slot in &self.slots {
            self.context.run(|recording| {
                recording.acquire_video(&slot.video)?;
                let mut planes = self.layout.iter().enumerate();
                planes.try_for_each(|(number, plane)| {
                    recording.copy_from_plane(&slot.video, number, &slot.returned, plane.in_vulkan.1)
                })?;
                recording.release_video(&slot.video)
            })?;
            for (number, plane) in (0..).zip(&self.layout) {
                let mut found = vec![0; plane.in_vulkan.0];
                self.context.download(&slot.returned, plane.in_vulkan.1, &mut found)?;
                self.answered.level(number).verify(0, &found, "the device's answer in Vulkan")?;
                let mut padded = vec![0; usize::try_from(plane.on_device.0)?];
                let (size, offset) = plane.on_device;
                self.stream.read(slot.taken.slice(offset..offset + size)?, &mut padded)?;
                for (row_offset, row) in plane.rows(&found) {
                    let at = usize::try_from(row_offset - offset)?;
                    // The first word is the picture's number.
                    let skipped = if number == 0 && row_offset == offset { 4 } else { 0 };
                    let start = (row_offset - offset) / plane.shared.pitch * row.len() as u64 + skipped;
                    let bytes = &padded[at + usize::try_from(skipped)?..at + row.len()];
                    self.sent.level(number).verify(start, bytes, "Vulkan's picture on the device")?;
                }
            }
        }
        Ok(())
    }
}

impl FrameSlots for Pictures<'_> {
    /// Vulkan's side: takes the answer back, and writes the next picture.
    fn show(&self, recording: &mut Recording<'_>, slot: usize, word: u32) -> gpu_interop::Result<()> {
        let slot = &self.slots[slot];
        recording.fill(&self.picture, 0, 4, word)?;
        recording.acquire_video(&slot.video)?;
        for (number, plane) in self.layout.iter().enumerate() {
            recording.copy_from_plane(&slot.video, number, &slot.returned, plane.in_vulkan.1)?;
            recording.copy_to_plane(&self.picture, plane.in_vulkan.1, &slot.video, number)?;
        }
        recording.release_video(&slot.video)
    }

    /// The device's side: takes the picture, notes its first word, and answers.
    fn take(&self, slot: usize, note: BufferSlice<'_>) -> Verdict {
        let slot = &self.slots[slot];
        for (number, plane) in self.layout.iter().enumerate() {
            let (size, offset) = plane.on_device;
            self.stream.copy(slot.taken.slice(offset..offset + size)?, slot.planes.slice(number)?)?;
        }
        self.stream.copy(note, slot.taken.slice(..4)?)?;
        for (number, plane) in self.layout.iter().enumerate() {
            let (size, offset) = plane.on_device;
            self.stream.copy(slot.planes.slice(number)?, self.answer.slice(offset..offset + size)?)?;
        }
        Ok(())
    }
}

impl Plane {
    /// The rows of tightly packed texels, each with its offset in the device's own memory.
    fn rows<'b>(&self, texels: &'b [u8]) -> impl Iterator<Item = (u64, &'b [u8])> + use<'b> {
        let (row, pitch, start) = (self.shared.row_size(), self.shared.pitch, self.on_device.1);
        // A row is in memory.
        let rows = texels.chunks(usize::try_from(row).unwrap_or(usize::MAX));
        (0..).zip(rows).map(move |(number, row): (u64, _)| (start + number * pitch, row))
    }
}
