//! Vulkan and compute on an exported image, ordered by a timeline in each direction or by a host that waits.

use std::cell::RefCell;

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    ExportableImage, HeadlessContext, ImageOptions, ImageSpec, MemoryPlacement, OwnedBuffer, OwnedSemaphore,
    SemaphoreOp, Submission, shared_timeline,
};
use gpu_interop::{Feature, MappedBuffer, MappedMipmappedArray, Stream, Timeline};
use gpu_interop_conformance::{Pattern, Stop, Verdict};

use super::{
    Composer, FrameVariant, IN_FLIGHT, Mapping, PART, PARTS, PICTURES, Texels, drawn, length, parts_offset, slot,
};
use crate::machine::{Machine, TRANSFER, WAIT_TIMEOUT, too_much};

enum Mapped {
    Array(MappedMipmappedArray),
    Linear { buffer: MappedBuffer, offset: u64, row_pitch: u64 },
}

/// The order of Vulkan's work and the stream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Each side waits for the other one's timeline.
    Timelines,
    /// The host waits for each side before it starts the other.
    Host,
}

pub(super) struct Vulkan<'a> {
    order: Order,
    context: &'a HeadlessContext,
    stream: &'a Stream,
    /// Dropped before the mappings, whose surfaces it has.
    texels: Texels<'a>,
    images: Vec<(ExportableImage, Mapped)>,
    pictures: Vec<OwnedBuffer>,
    composed: OwnedBuffer,
    parts: OwnedBuffer,
    /// Vulkan's signals, and the stream's.
    drawn: (OwnedSemaphore, Timeline),
    worked: (OwnedSemaphore, Timeline),
    submitted: RefCell<[Option<Submission>; IN_FLIGHT as usize]>,
}

impl<'a> Vulkan<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        context: &'a HeadlessContext,
        size: [u32; 2],
        order: Order,
    ) -> Verdict<Self> {
        let (interop, bytes) = (context.interop(), u64::from(size[0]) * u64::from(size[1]) * 4);
        let images = (0..IN_FLIGHT).map(|_| image(machine, context, size)).collect::<Verdict<Vec<_>>>()?;
        let arrays = images.iter().filter_map(|(_, mapped)| match mapped {
            Mapped::Array(array) => Some(array),
            Mapped::Linear { .. } => None,
        });
        let texels = Texels::new(machine, size, &arrays.collect::<Vec<_>>())?;
        let local = || OwnedBuffer::new(interop, bytes, TRANSFER, MemoryPlacement::DeviceLocal).map_err(too_much);
        let picture = |seed| {
            let picture = local()?;
            let texels = Pattern::new(seed).bytes(0, length(bytes));
            context.upload(&picture, 0, &texels)?;
            Verdict::Ok(picture)
        };
        Ok(Self {
            order,
            context,
            stream: &machine.stream,
            texels,
            images,
            pictures: (0..PICTURES).map(picture).collect::<Verdict<_>>()?,
            composed: local()?,
            parts: OwnedBuffer::new(interop, PARTS, TRANSFER, MemoryPlacement::HostVisible)?,
            drawn: shared_timeline(interop, &machine.device, 0).map_err(too_much)?,
            worked: shared_timeline(interop, &machine.device, 0).map_err(too_much)?,
            submitted: RefCell::default(),
        })
    }
}

impl Vulkan<'_> {
    /// These operations, or none if the host orders the work.
    fn with_timelines<'a, 'b>(&self, all: &'a [SemaphoreOp<'b>]) -> &'a [SemaphoreOp<'b>] {
        if self.order == Order::Timelines { all } else { &[] }
    }
}

/// An image that compute maps, with the tiling that wgpu's texture has: optimal where arrays can be mapped.
fn image(
    machine: &Machine,
    context: &HeadlessContext,
    [width, height]: [u32; 2],
) -> Verdict<(ExportableImage, Mapped)> {
    let arrays = machine.device.capabilities().feature(Feature::MappedMipmappedArray).is_supported();
    let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED;
    let extent = [width, height, 1];
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, extent, vk::Format::R8G8B8A8_UNORM, usage);
    let spec = spec.tiling(if arrays { vk::ImageTiling::OPTIMAL } else { vk::ImageTiling::LINEAR });
    let image = ExportableImage::new(context.interop(), &ImageOptions::new(spec)).map_err(too_much)?;
    let memory = machine.device.import_memory(image.import_request()?)?;
    let mapped = if arrays {
        use gpu_interop::ArrayUsage;
        let desc = image.array_desc()?;
        let surfaces = machine.device.capabilities().feature(Feature::Surfaces).is_supported();
        let usage = if surfaces { desc.usage | ArrayUsage::SURFACE_LOAD_STORE } else { desc.usage };
        Mapped::Array(memory.map_mipmapped_array(&desc.with_usage(usage))?)
    } else {
        let layout = image.image().subresource_layout(0, 0)?;
        Mapped::Linear { buffer: memory.map_buffer(..)?, offset: layout.offset, row_pitch: layout.row_pitch }
    };
    context.initialize_image(image.image())?;
    Ok((image, mapped))
}

impl Composer for Vulkan<'_> {
    fn wait(&self, number: u32) -> Verdict {
        let submitted = self.submitted.borrow_mut()[slot(number)].take();
        Ok(submitted.ok_or_else(|| Stop::failed(format!("the frame {number} was not composed")))?.wait(WAIT_TIMEOUT)?)
    }

    fn parts(&self) -> Verdict<Vec<u8>> {
        let mut bytes = vec![0; length(PARTS)];
        self.parts.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn composed(&self) -> Verdict<Vec<u8>> {
        let mut bytes = vec![0; length(self.composed.size())];
        self.context.download(&self.composed, 0, &mut bytes)?;
        Ok(bytes)
    }
}

impl FrameVariant for Vulkan<'_> {
    fn begin(&self, number: u32) -> Verdict {
        let ((image, mapped), value) = (&self.images[slot(number)], u64::from(number));
        let image = image.image();
        let signals = [SemaphoreOp { semaphore: &self.drawn.0, value }];
        let drawn = self.context.submit(&[], self.with_timelines(&signals), |commands| {
            commands.copy_to_image(&self.pictures[drawn(number) as usize], 0, image, 0, 0)?;
            commands.release_image(image)
        })?;
        match self.order {
            Order::Timelines => self.stream.wait_timeline(&self.drawn.1, value)?,
            Order::Host => drawn.wait(WAIT_TIMEOUT)?,
        }
        let mapping = match mapped {
            Mapped::Array(array) => Mapping::Array(array),
            Mapped::Linear { buffer, offset, row_pitch } => Mapping::Linear(buffer.slice(*offset..)?, *row_pitch),
        };
        self.texels.work(number, mapping)?;
        let ended = match self.order {
            Order::Timelines => self.stream.signal_timeline(&self.worked.1, value),
            Order::Host => self.stream.synchronize(),
        };
        Ok(ended?)
    }

    fn finish(&self, number: u32) -> Verdict {
        let image = self.images[slot(number)].0.image();
        let waits = [SemaphoreOp { semaphore: &self.worked.0, value: u64::from(number) }];
        let submitted = self.context.submit(self.with_timelines(&waits), &[], |commands| {
            commands.acquire_image(image)?;
            commands.copy_from_image(image, 0, 0, &self.composed, 0)?;
            for (index, from) in [(0, 0), (1, self.composed.size() - PART)] {
                commands.copy(&self.composed, from, &self.parts, parts_offset(number) + index * PART, PART)?;
            }
            Ok(())
        })?;
        self.submitted.borrow_mut()[slot(number)] = Some(submitted);
        Ok(())
    }

    fn composer(&self) -> &dyn Composer {
        self
    }

    fn texels(&self) -> &Texels<'_> {
        &self.texels
    }
}
