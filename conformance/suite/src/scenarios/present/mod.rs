//! Presentations to a headless surface behind a timeline.
//!
//! Vulkan writes the first half of a frame, a stream copies it to the second, and Vulkan copies the frame to an image of the
//! swapchain, behind a wait for the stream's value, and presents it.

mod surface;

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, ExportableSemaphore, MemoryPlacement, OwnedBuffer, OwnedSemaphore, Recording,
    SemaphoreOp,
};
use gpu_interop::{ExporterTimeline, MappedBuffer, Stream, Timeline, TimelineStrategy};

use self::surface::Screen;
use super::times_out;
use crate::context::Context;
use crate::ensure;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::pattern::Pattern;
use crate::scenario::scenarios;

scenarios! {
    all need [exporter Presentation, bridged timelines, word waits];
    "present.bridge", Any,
        "Frames of Vulkan and a stream are presented behind waits for a bridged timeline: each image has its frame's data, and \
         the value is reached before the submission that the presentation waits for.",
        |context| frames(context, TimelineStrategy::HostBridge), signals_by_host;
    "present.native", Any,
        "Frames of Vulkan and a stream are presented behind waits for a native timeline, submitted while the stream's work is \
         pending: each image has its frame's data.",
        |context| frames(context, TimelineStrategy::Native), needs [native timelines], signals_by_host;
    "present.timeout", Any,
        "Over a bridge, the call before a presentation times out while the stream's work is pending, and succeeds later: the \
         image has the frame's data.",
        timeout, signals_by_host;
}

/// Frames in flight.
const IN_FLIGHT: usize = 3;
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// Both sides of a timeline.
struct Shared {
    exporter: OwnedSemaphore,
    device: Timeline,
}

impl Shared {
    fn new(context: &Context, screen: &Screen, strategy: TimelineStrategy) -> Verdict<Self> {
        let interop = screen.context.interop();
        let (exporter, shared): (_, Arc<dyn ExporterTimeline>) = if strategy == TimelineStrategy::Native {
            let exported = ExportableSemaphore::timeline(interop, 0).map_err(Stop::attempted)?;
            (exported.semaphore().clone(), Arc::new(exported))
        } else {
            let semaphore = OwnedSemaphore::timeline(interop, 0).map_err(Stop::attempted)?;
            (semaphore.clone(), Arc::new(semaphore))
        };
        Ok(Self { exporter, device: Timeline::with_strategy(context.device(), shared, strategy)? })
    }

    fn at(&self, value: u64) -> SemaphoreOp<'_> {
        SemaphoreOp { semaphore: &self.exporter, value }
    }
}

/// The memory of a frame in flight.
struct Slot {
    shared: ExportableBuffer,
    mapped: MappedBuffer,
    /// The host's data, and what was presented.
    source: OwnedBuffer,
    seen: OwnedBuffer,
    acquired: OwnedSemaphore,
}

struct Rig<'a> {
    context: &'a Context,
    stream: Stream,
    /// Holds the stream's work back.
    gate: Shared,
    rendered: Shared,
    computed: Shared,
    slots: Vec<Slot>,
    /// For each image of the swapchain, signalled when it may be presented.
    drawn: Vec<OwnedSemaphore>,
    screen: Screen,
}

impl<'a> Rig<'a> {
    fn new(context: &'a Context, strategy: TimelineStrategy) -> Verdict<Self> {
        let screen = Screen::open(context)?;
        let (interop, size) = (screen.context.interop(), screen.size());
        let slot = |_| {
            let shared = ExportableBuffer::new(interop, &BufferOptions::new(size, USAGE)).map_err(Stop::attempted)?;
            let mapped = context.device().import_memory(shared.import_request()?)?.map_buffer(0..size)?;
            let host = || OwnedBuffer::new(interop, size, USAGE, MemoryPlacement::HostVisible);
            let (source, seen, acquired) = (host()?, host()?, OwnedSemaphore::binary(interop)?);
            Ok(Slot { shared, mapped, source, seen, acquired })
        };
        let slots = (0..IN_FLIGHT).map(slot).collect::<Verdict<Vec<_>>>()?;
        let drawn = screen.images.iter().map(|_| OwnedSemaphore::binary(interop)).collect::<Result<Vec<_>, _>>()?;
        let gate = Shared::new(context, &screen, TimelineStrategy::HostBridge)?;
        let (rendered, computed) = (Shared::new(context, &screen, strategy)?, Shared::new(context, &screen, strategy)?);
        Ok(Self { context, stream: context.stream()?, gate, rendered, computed, slots, drawn, screen })
    }

    fn slot(&self, number: u64) -> Verdict<&Slot> {
        Ok(&self.slots[usize::try_from(number)? % IN_FLIGHT])
    }

    fn half(&self) -> u64 {
        self.screen.size() / 2
    }

    fn first_half(&self, number: u64) -> Verdict<Vec<u8>> {
        let pattern = Pattern::new(self.context.pattern().seed() ^ u32::try_from(number)?);
        Ok(pattern.bytes(0, usize::try_from(self.half())?))
    }

    /// Enqueues Vulkan's and the stream's half of a frame; the stream's waits for the gate.
    fn begin(&self, number: u64) -> Verdict {
        let (slot, half) = (self.slot(number)?, self.half());
        slot.source.write(0, &self.first_half(number)?)?;
        self.screen.context.submit(&[], &[self.rendered.at(number)], |recording| {
            recording.copy(&slot.source, 0, slot.shared.buffer(), 0, half)?;
            recording.fill(slot.shared.buffer(), half, half, 0)?;
            recording.release(slot.shared.buffer())
        })?;
        self.stream.wait_timeline(&self.rendered.device, number)?;
        self.stream.wait_timeline(&self.gate.device, number)?;
        self.stream.copy(slot.mapped.slice(half..)?, slot.mapped.slice(..half)?)?;
        Ok(self.stream.signal_timeline(&self.computed.device, number)?)
    }

    /// Presents a frame behind its value, and checks what was presented.
    fn show(&self, number: u64) -> Verdict {
        let slot = self.slot(number)?;
        let index = self.screen.acquire(&slot.acquired, WAIT_TIMEOUT)?;
        let (image, drawn) = (self.screen.images[index], &self.drawn[index]);
        self.computed.device.before_present(number, WAIT_TIMEOUT)?;
        // A queue must not wait for a binary semaphore whose signal depends on a value that no submitted work signals.
        let reached = self.computed.exporter.value()?;
        let is_native = self.computed.device.strategy() == TimelineStrategy::Native;
        ensure!(is_native || reached >= number, "frame {number} is submitted at {reached}");
        let binary = |semaphore| SemaphoreOp { semaphore, value: 0 };
        let submission = self.screen.context.submit(
            &[self.computed.at(number), binary(&slot.acquired)],
            &[binary(drawn)],
            |recording| {
                recording.acquire(slot.shared.buffer())?;
                recording.keep(&slot.seen);
                self.record_copies(recording, image, slot);
                Ok(())
            },
        )?;
        self.screen.present(index, drawn)?;
        submission.wait(WAIT_TIMEOUT)?;
        let mut found = vec![0; usize::try_from(self.screen.size())?];
        slot.seen.read(0, &mut found)?;
        let expected = self.first_half(number)?;
        for (half, writer) in found.chunks_exact(expected.len()).zip(["Vulkan", "the stream"]) {
            let wrong = half.iter().zip(&expected).position(|(found, expected)| found != expected);
            ensure!(wrong.is_none(), "frame {number}: byte {wrong:?} of what {writer} wrote was not presented");
        }
        Ok(())
    }

    /// Copies a frame to an image of the swapchain, and that to host-visible memory.
    fn record_copies(&self, recording: &Recording<'_>, image: vk::Image, slot: &Slot) {
        let ([width, height], device) = (self.screen.extent, self.screen.context.interop().device());
        let layers = vk::ImageSubresourceLayers::default().aspect_mask(vk::ImageAspectFlags::COLOR).layer_count(1);
        let region = [vk::BufferImageCopy::default().image_subresource(layers).image_extent(vk::Extent3D {
            width,
            height,
            depth: 1,
        })];
        let (commands, destination) = (recording.as_raw(), vk::ImageLayout::TRANSFER_DST_OPTIMAL);
        let source = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        let moved = |layouts: [vk::ImageLayout; 2]| {
            let range = vk::ImageSubresourceRange::default()
                .aspect_mask(vk::ImageAspectFlags::COLOR)
                .level_count(1)
                .layer_count(1);
            let barrier = vk::ImageMemoryBarrier::default()
                .image(image)
                .subresource_range(range)
                .old_layout(layouts[0])
                .new_layout(layouts[1])
                .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
                .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED);
            let (all, flags) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::DependencyFlags::empty());
            // SAFETY: recording, outside a render pass; the image is acquired, and in the old layout.
            unsafe { device.cmd_pipeline_barrier(commands, all, all, flags, &[], &[], &[barrier]) };
        };
        moved([vk::ImageLayout::UNDEFINED, destination]);
        // SAFETY: recording, outside a render pass; buffers and image are live, of this device, of this size, made for
        // copies, and in these layouts.
        unsafe {
            device.cmd_copy_buffer_to_image(commands, slot.shared.buffer().as_raw(), image, destination, &region);
        }
        moved([destination, source]);
        // SAFETY: as above.
        unsafe { device.cmd_copy_image_to_buffer(commands, image, source, slot.seen.as_raw(), &region) };
        moved([source, vk::ImageLayout::PRESENT_SRC_KHR]);
    }

    /// Ends the scenario, also after a failure, whose stream the gate would block.
    fn end(&self, shown: Verdict) -> Verdict {
        let _ = self.gate.device.signal(u64::from(u32::MAX));
        let synchronized = self.stream.synchronize_timeout(WAIT_TIMEOUT);
        let finished = self.screen.finish();
        shown.and(Ok(synchronized?)).and(finished)
    }
}

fn frames(context: &Context, strategy: TimelineStrategy) -> Verdict {
    const FRAMES: u64 = 16;
    const MOMENT: Duration = Duration::from_millis(2);
    let rig = Rig::new(context, strategy)?;
    let gate = &rig.gate.device;
    let open_and_show = |number: u64| -> Verdict {
        std::thread::scope(|scope| {
            let opened = scope.spawn(move || {
                sleep(MOMENT);
                gate.signal(number)
            });
            let shown = rig.show(number);
            opened.join().map_err(|_| Stop::failed("the thread that opens the gate panicked".into()))??;
            shown
        })
    };
    let all = || -> Verdict {
        let mut in_flight = VecDeque::new();
        for number in 1..=FRAMES {
            if in_flight.len() == IN_FLIGHT {
                in_flight.pop_front().map_or(Ok(()), open_and_show)?;
            }
            rig.begin(number)?;
            in_flight.push_back(number);
        }
        in_flight.into_iter().try_for_each(open_and_show)
    };
    rig.end(all())
}

fn timeout(context: &Context) -> Verdict {
    let rig = Rig::new(context, TimelineStrategy::HostBridge)?;
    let late = || -> Verdict {
        let limit = Duration::from_millis(100);
        for number in 1..=3 {
            rig.begin(number)?;
            let what = format!("frame {number}, whose work is pending");
            times_out(limit, &what, || rig.computed.device.before_present(number, limit))?;
            rig.gate.device.signal(number)?;
            rig.show(number)?;
        }
        Ok(())
    };
    rig.end(late())
}
