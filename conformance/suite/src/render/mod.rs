//! Every way in which the exporter's GPU writes a shared object or reads it, in pairs with every way of the device.
//!
//! [`image::OPERATIONS`] and [`buffer::OPERATIONS`] have one row for each operation of the exporter. An operation begins with
//! an acquire and ends with a release, with exactly its own stages, accesses and layout. Before it the device writes; after
//! it the device reads, by each of its own ways ([`Access`]). Every texel and every word is compared.

mod buffer;
mod gpu;
mod image;
mod operation;
#[cfg(test)]
mod planted;
mod shaders;
mod side;

use std::sync::Arc;

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, ExportableSemaphore, HeadlessContext, OwnedImage, Recording, SemaphoreOp,
    Submission,
};
use gpu_interop::{
    ArrayShape, ArrayUsage, ChannelType, ExporterTimeline, ExternalSemaphore, Stream, Timeline, TimelineStrategy,
};

pub(crate) use buffer::SCENARIOS as ON_BUFFERS;
pub(crate) use image::SCENARIOS as ON_IMAGES;

use crate::context::Context;
use crate::exporter::Point;
use crate::exporter::{ImageSpec, Tiling, operation as semaphore_op};
use crate::image::plain_format;
use crate::need::need;
use crate::outcome::{Stop, StopKind, Verdict, WAIT_TIMEOUT};
use crate::pattern::{Pattern, compressible};
use crate::scenario::scenarios;
use buffer::{BufferOperation, BufferWork};
use gpu::Gpu;
use image::{ImageOperation, Work};
use operation::{Check, Kind, Masks, named};
use side::{Access, Side};

/// The catalogue's text about the group.
pub(crate) const ABOUT: &str = "\
Every way in which the exporter's GPU writes or reads, in pairs with every way of the device. A scenario is one operation of
the exporter, and runs all its pairs:

| of the matrix | what there is |
|---|---|
| operations | one row each in `suite/src/render/image.rs` and `buffer.rs`, with its stages, accesses and image layout |
| images | optimal and linear; 2D with mip levels, layers, cube, volume; 1 x 1 to 4096 x 3; four formats, and 19 more for draws, clears, fetches and copies |
| queues | the main one, compute without graphics, transfer only, if the device has them: released on one, acquired on another |
| order | the host, an imported timeline, binary semaphores; a bridge in `render.bridged` |
| ways of the device | copies, kernels with surfaces, textures or pointers |
| texels | arbitrary ones, and ones that GPUs compress; the device writes others before each operation |

Each operation acquires and releases with exactly its own stages, accesses and layout. All texels and words are compared: of
sRGB and of linear filters to within a code, of all others exactly. The report counts the pairs that were compared, and the
possible ones of the device. Not covered: stores to other formats than four.";

scenarios! {
    all need [exporter Commands, bridged timelines, word waits];
    "render.bridged", Any, "Draws, stores and fetches in turns with the device, whose values a bridge carries, keep every byte.",
        bridged, signals_by_host;
}

/// How the two sides wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The host waits for each side.
    Host,
    /// A timeline that the driver imports.
    Timeline,
    /// A timeline whose values a host thread carries.
    Bridge,
    /// Two binary semaphores.
    Binary,
}

/// Synchronisation objects of an order.
enum Sync {
    Host,
    Timeline(Arc<dyn ExporterTimeline>, Timeline, u64),
    Binary {
        to_exporter: (ExportableSemaphore, ExternalSemaphore),
        to_device: (ExportableSemaphore, ExternalSemaphore),
    },
}

impl Sync {
    fn new(context: &Context, vulkan: &HeadlessContext, order: Order) -> Verdict<Self> {
        let met = |need| context.unmet(need).map_or(Ok(()), |reason| Err(Stop::unsupported(reason)));
        Ok(match order {
            Order::Host => Self::Host,
            Order::Timeline | Order::Bridge => {
                let strategy = if order == Order::Timeline {
                    met(need!(native timelines))?;
                    TimelineStrategy::Native
                } else {
                    met(need!(bridged timelines))?;
                    met(need!(word waits))?;
                    TimelineStrategy::HostBridge
                };
                let exporter = context.exporter()?.timeline(0)?;
                let timeline =
                    Timeline::with_strategy(context.device(), exporter.clone(), strategy).map_err(Stop::attempted)?;
                Self::Timeline(exporter, timeline, 0)
            }
            Order::Binary => {
                met(need!(shared binaries))?;
                let shared = || -> Verdict<_> {
                    let exported = ExportableSemaphore::binary(vulkan.interop()).map_err(Stop::attempted)?;
                    let imported = context.device().import_semaphore(exported.import_request()?)?;
                    Ok((exported, imported))
                };
                Self::Binary { to_exporter: shared()?, to_device: shared()? }
            }
        })
    }

    /// After the device's work and before that of the exporter.
    fn device_is_done(&self, stream: &Stream) -> Verdict {
        #[cfg(test)]
        if planted::Error::ExporterDoesNotWait.is_planted() {
            return Ok(());
        }
        match self {
            Self::Host => stream.synchronize_timeout(WAIT_TIMEOUT)?,
            Self::Timeline(_, timeline, value) => stream.signal_timeline(timeline, value + 1)?,
            Self::Binary { to_exporter, .. } => stream.signal(&[to_exporter.1.signal()])?,
        }
        Ok(())
    }

    /// Submits the exporter's work between what it waits for and what it signals.
    fn submit(&self, gpu: &Gpu<'_>, record: impl FnOnce(&mut Recording<'_>) -> Verdict) -> Verdict<Submission> {
        match self {
            Self::Host => gpu.submit(&[], &[], record),
            Self::Timeline(timeline, _, value) => {
                let at = |value| semaphore_op(Point { timeline, value });
                gpu.submit(&[at(value + 1)?], &[at(value + 2)?], record)
            }
            Self::Binary { to_exporter, to_device } => {
                let wait = SemaphoreOp { semaphore: to_exporter.0.semaphore(), value: 0 };
                let signal = SemaphoreOp { semaphore: to_device.0.semaphore(), value: 0 };
                gpu.submit(&[wait], &[signal], record)
            }
        }
    }

    /// After the exporter's submission and before the device's next work.
    fn exporter_is_done(&mut self, stream: &Stream, finish: impl FnOnce() -> Verdict) -> Verdict {
        #[cfg(test)]
        if planted::Error::DeviceDoesNotWait.is_planted() {
            return Ok(());
        }
        match self {
            Self::Host => finish(),
            Self::Timeline(_, timeline, value) => {
                *value += 2;
                Ok(stream.wait_timeline(timeline, *value)?)
            }
            Self::Binary { to_device, .. } => Ok(stream.wait(&[to_device.1.wait()])?),
        }
    }
}

/// The exporter's queues that support an operation, by name.
fn queues(vulkan: &HeadlessContext, needed: vk::QueueFlags) -> Vec<(&'static str, &HeadlessContext)> {
    let interop = vulkan.interop();
    // SAFETY: the physical device belongs to the live instance.
    let families = unsafe { interop.instance().get_physical_device_queue_family_properties(interop.physical_device()) };
    let supports = |queue: &HeadlessContext| {
        let mut flags =
            families.get(queue.queue_family() as usize).map(|family| family.queue_flags).unwrap_or_default();
        if flags.intersects(vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE) {
            flags |= vk::QueueFlags::TRANSFER;
        }
        flags.contains(needed)
    };
    let all = [
        ("its main queue", Some(vulkan)),
        ("its compute queue", vulkan.computing()),
        ("its transfer queue", vulkan.copying()),
    ];
    all.into_iter().filter_map(|(name, queue)| Some((name, queue?))).filter(|(_, queue)| supports(queue)).collect()
}

/// Counts pairs, and keeps the reasons for those that were left out.
struct Pairs<'a> {
    context: &'a Context,
    covered: u32,
    possible: u32,
    missing: Vec<String>,
}

impl<'a> Pairs<'a> {
    fn new(context: &'a Context) -> Self {
        Self { context, covered: 0, possible: 0, missing: Vec::new() }
    }

    /// Counts `count` pairs, which `run` covers, unless they are unsupported.
    fn add(&mut self, count: u32, what: impl FnOnce() -> String, run: impl FnOnce() -> Verdict) -> Verdict {
        self.possible += count;
        match run() {
            Ok(()) => self.covered += count,
            Err(Stop { kind: StopKind::Unsupported, reason, .. }) => self.missing.push(format!("{}: {reason}", what())),
            Err(stop) => return Err(stop.during(what())),
        }
        Ok(())
    }

    /// Unsupported if nothing was covered.
    fn finish(self) -> Verdict {
        if self.covered == 0 {
            let first = self.missing.into_iter().next().unwrap_or_else(|| "the exporter has no such queue".into());
            return Err(Stop::unsupported(first));
        }
        self.context.count_pairs(self.covered, self.possible);
        self.missing.into_iter().for_each(|what| self.context.leave_out(what));
        Ok(())
    }
}

fn vulkan(context: &Context) -> Verdict<&HeadlessContext> {
    context.exporter()?.vulkan().ok_or_else(|| Stop::unsupported("the exporter is not Vulkan".into()))
}

/// The images of operations: shapes, formats, tilings.
fn images() -> Verdict<Vec<ImageSpec>> {
    use ArrayShape as S;
    use ChannelType as T;
    let of = |shape, channel, channels| Ok::<_, Stop>(ImageSpec::new(shape, plain_format(channel, channels)?));
    let flat = S::D2 { width: 67, height: 45 };
    let rgba8 = of(flat, T::Unorm8, 4)?;
    let linear = |spec| ImageSpec { tiling: Tiling::Linear, ..spec };
    Ok(vec![
        ImageSpec { levels: 3, ..rgba8 },
        linear(rgba8),
        ImageSpec { levels: 2, ..of(S::D2Layered { width: 37, height: 21, layers: 3 }, T::Uint32, 1)? },
        ImageSpec { levels: 2, ..of(S::Cube { width: 32 }, T::Sint16, 4)? },
        of(S::D3 { width: 17, height: 13, depth: 5 }, T::Float32, 4)?,
        of(S::D2 { width: 1, height: 1 }, T::Unorm8, 4)?,
        of(S::D2 { width: 4096, height: 3 }, T::Unorm8, 4)?,
        of(S::D2 { width: 256, height: 256 }, T::Unorm8, 4)?,
        linear(of(flat, T::Uint32, 1)?),
        linear(of(flat, T::Float32, 4)?),
    ])
}

/// A flat image of each other format that can be shared.
fn other_formats() -> Verdict<Vec<ImageSpec>> {
    use ChannelType as T;
    const FORMATS: [(T, u8); 18] = [
        (T::Unorm8, 1),
        (T::Unorm8, 2),
        (T::Uint8, 4),
        (T::Sint8, 4),
        (T::Snorm8, 4),
        (T::Uint16, 1),
        (T::Uint16, 2),
        (T::Uint16, 4),
        (T::Sint16, 2),
        (T::Unorm16, 4),
        (T::Snorm16, 2),
        (T::Float16, 1),
        (T::Float16, 2),
        (T::Float16, 4),
        (T::Float32, 1),
        (T::Uint32, 4),
        (T::Sint32, 2),
        (T::Unorm1010102, 4),
    ];
    let shape = ArrayShape::D2 { width: 61, height: 29 };
    let bgra = ImageSpec::new(
        shape,
        gpu_interop::vulkan::TexelFormat {
            order: gpu_interop::vulkan::ChannelOrder::Bgra,
            ..plain_format(T::Unorm8, 4)?
        },
    );
    let all = FORMATS.iter().map(|(channel, channels)| Ok(ImageSpec::new(shape, plain_format(*channel, *channels)?)));
    all.chain([Ok(bgra)]).collect()
}

/// Contents of an image or a buffer.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// Arbitrary bytes.
    Pattern(Pattern),
    /// Bytes that a GPU compresses, so that it matters who decompresses them.
    Compressible(u8),
}

impl Content {
    fn bytes(self, level: u32, length: usize) -> Vec<u8> {
        match self {
            Self::Pattern(pattern) => pattern.level(level).bytes(0, length),
            Self::Compressible(round) => compressible(round, length),
        }
    }

    fn pattern(self) -> Verdict<Pattern> {
        match self {
            Self::Pattern(pattern) => Ok(pattern),
            Self::Compressible(_) => Err(Stop::failed("kernels know patterns only".into())),
        }
    }
}

/// Texels that every way of writing keeps: no NaN, no infinity or denormal, and one code for -1.
fn texels(spec: &ImageSpec, content: Content, level: u32) -> Verdict<Vec<u8>> {
    let mut data = content.bytes(level, usize::try_from(spec.level_size(level))?);
    let channel = spec.format.array.channel();
    crate::image::make_finite(channel, &mut data)?;
    match channel {
        ChannelType::Snorm8 => data.iter_mut().filter(|byte| **byte == 0x80).for_each(|byte| *byte = 0x81),
        ChannelType::Snorm16 => {
            let codes = data.as_chunks_mut::<2>().0.iter_mut();
            codes.filter(|code| **code == [0, 0x80]).for_each(|code| *code = [1, 0x80]);
        }
        _ => {}
    }
    Ok(data)
}

/// Some operations of each kind, with a bridge. With old validation layers nothing is validated here.
fn bridged(context: &Context) -> Verdict {
    counted(context, |pairs| {
        for name in ["copy_from_buffer", "draw", "draw_part", "store", "fetch", "copy_to_buffer"] {
            images_in(context, name, &[Order::Bridge], pairs)?;
        }
        for name in ["update", "store_words", "read_storage", "dispatch_indirect"] {
            buffers_in(context, name, &[Order::Bridge], pairs)?;
        }
        Ok(())
    })
}

/// The orders of a scenario of one operation.
const ORDERS: [Order; 3] = [Order::Host, Order::Timeline, Order::Binary];

/// Runs operations and counts their pairs.
fn counted<'a>(context: &'a Context, run: impl FnOnce(&mut Pairs<'a>) -> Verdict) -> Verdict {
    let mut pairs = Pairs::new(context);
    run(&mut pairs)?;
    pairs.finish()
}

/// Runs an operation on images of every kind, on every queue, in these orders.
fn images_in(context: &Context, name: &str, ordered: &[Order], pairs: &mut Pairs<'_>) -> Verdict {
    let operation = named(image::OPERATIONS, name)?;
    let vulkan = vulkan(context)?;
    let mut specs = images()?;
    // Conversions differ by format in draws and fetches; copies move bytes.
    if matches!(operation.name, "draw" | "clear" | "fetch" | "copy_to_buffer") {
        specs.extend(other_formats()?);
    }
    for (index, spec) in specs.into_iter().filter(|spec| (operation.subject)(spec)).enumerate() {
        let mut usage = ArrayUsage::empty();
        if operation.usage.contains(vk::ImageUsageFlags::STORAGE) {
            usage |= ArrayUsage::SURFACE_LOAD_STORE;
        }
        if operation.usage.contains(vk::ImageUsageFlags::COLOR_ATTACHMENT) {
            usage |= ArrayUsage::COLOR_ATTACHMENT;
        }
        let spec = ImageSpec { usage, ..spec };
        let queues = queues(vulkan, operation.queue);
        let side = match Side::new(context, spec) {
            Err(Stop { kind: StopKind::Unsupported, reason, .. }) => {
                let count = u32::try_from(queues.len())?;
                pairs.add(count, || spec.to_string(), || Err(Stop::unsupported(reason)))?;
                continue;
            }
            side => side?,
        };
        for (name, queue) in queues {
            // The first two are an array and rows of one format. The others differ in what the host can order, too.
            let orders = ordered.iter().filter(|order| index < 2 || **order == Order::Host);
            for order in orders {
                let ways = side.ways(operation.kind);
                let what = || format!("{spec}, {name}, {order:?}");
                pairs.add(u32::try_from(ways.len())?, what, || {
                    on_image(context, (vulkan, queue), operation, &side, *order, &ways)
                })?;
            }
        }
    }
    Ok(())
}

/// Several rounds on one image. `ways` are those in which the device reads what the operation writes, or writes what it reads.
fn on_image(
    context: &Context,
    (vulkan, queue): (&HeadlessContext, &HeadlessContext),
    operation: &ImageOperation,
    side: &Side<'_>,
    order: Order,
    ways: &[Access],
) -> Verdict {
    let mut sync = Sync::new(context, vulkan, order)?;
    let stream = context.stream()?;
    let spec = side.spec();
    let image = side.image()?;
    let mut pattern = context.pattern();
    let gpu = Gpu::new(queue);
    let mut rounds = vec![(Access::Copy, true), (Access::Copy, false)];
    if operation.kind == Kind::Reads {
        rounds.extend(ways.iter().filter(|way| **way != Access::Copy).map(|way| (*way, false)));
    }
    for (round, (way, is_compressible)) in (0..).zip(rounds) {
        let (before, data) = if is_compressible {
            (Content::Compressible(2 * round), Content::Compressible(2 * round + 3))
        } else {
            (Content::Pattern(pattern), Content::Pattern(pattern.other()))
        };
        pattern = pattern.other().other();
        let contents =
            |content| (0..spec.levels).map(|level| texels(spec, content, level)).collect::<Verdict<Vec<_>>>();
        let (written, drawn) = (contents(before)?, contents(data)?);
        side.write(&stream, way, before, &written)?;
        sync.device_is_done(&stream)?;
        let (mut after, mut checks): (Vec<Vec<u8>>, Vec<Check>) = (written.clone(), Vec::new());
        let submission = sync.submit(&gpu, |recording| {
            recording.keep_image(image);
            let commands = recording.as_raw();
            acquire(&gpu, commands, image, &operation.masks)?;
            for (level, layer) in spec.subresources() {
                let size = usize::try_from(spec.layer_size(level))?;
                let range = layer as usize * size..(layer as usize + 1) * size;
                let of = |levels: &[Vec<u8>]| -> Verdict<Vec<u8>> {
                    let texels = levels.get(level as usize).and_then(|texels| texels.get(range.clone()));
                    texels.map(<[u8]>::to_vec).ok_or_else(|| Stop::failed("no such layer".into()))
                };
                let (before, data) = (of(&written)?, of(&drawn)?);
                let work = Work {
                    gpu: &gpu,
                    commands,
                    image: image.as_raw(),
                    spec,
                    format: image.spec().format,
                    level,
                    layer,
                    layout: operation.masks.layout,
                    before: &before,
                    data: &data,
                };
                let outcome = (operation.record)(&work)?;
                checks.extend(outcome.check);
                if let (Some(texels), Some(level)) = (outcome.after, after.get_mut(level as usize)) {
                    level[range].copy_from_slice(&texels);
                }
            }
            release(&gpu, commands, image, &operation.masks)
        })?;
        let verify = |way| side.verify(&stream, way, data, &after);
        finish_round(&gpu, &mut sync, (&stream, &submission), readers(operation.kind, ways), verify)?;
        checks.into_iter().try_for_each(|check| check())?;
    }
    Ok(())
}

/// The ways in which the device reads the contents after an operation.
fn readers(kind: Kind, ways: &[Access]) -> &[Access] {
    if kind == Kind::Reads { &[Access::Copy] } else { ways }
}

/// Verifies the contents after the exporter's submission, and waits for its end.
fn finish_round(
    gpu: &Gpu<'_>,
    sync: &mut Sync,
    (stream, submission): (&Stream, &Submission),
    readers: &[Access],
    verify: impl Fn(Access) -> Verdict,
) -> Verdict {
    sync.exporter_is_done(stream, || gpu.finish(submission))?;
    let verified = readers.iter().try_for_each(|way| verify(*way));
    // The objects stay until the commands have completed, also after a failure.
    gpu.finish(submission)?;
    verified
}

fn acquire(gpu: &Gpu<'_>, commands: vk::CommandBuffer, image: &OwnedImage, masks: &Masks) -> Verdict {
    #[cfg(test)]
    if planted::instead_of(gpu, commands, image.as_raw(), masks, planted::Transfer::Acquire) {
        return Ok(());
    }
    // SAFETY: the commands are of this device, recording, outside a render pass, and keep the image;
    // they are submitted to a queue of the family that the transfer names. The other side owns the image: it was released to
    // it in `GENERAL`, when it was created or by the last operation, and the other side's work has completed or is waited
    // for.
    Ok(unsafe { image.record_acquire(commands, masks.transfer(gpu.context), masks.layout) }?)
}

fn release(gpu: &Gpu<'_>, commands: vk::CommandBuffer, image: &OwnedImage, masks: &Masks) -> Verdict {
    #[cfg(test)]
    if planted::instead_of(gpu, commands, image.as_raw(), masks, planted::Transfer::Release) {
        return Ok(());
    }
    // SAFETY: as in `acquire`; this family owns the image since then, and the operation left it in its layout.
    Ok(unsafe { image.record_release(commands, masks.transfer(gpu.context), masks.layout) }?)
}

/// Runs an operation on a buffer, on every queue, in these orders.
fn buffers_in(context: &Context, name: &str, orders: &[Order], pairs: &mut Pairs<'_>) -> Verdict {
    let operation = named(buffer::OPERATIONS, name)?;
    let vulkan = vulkan(context)?;
    let usage = operation.usage | vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let options = BufferOptions::new(buffer::SIZE as u64, usage);
    let exported = ExportableBuffer::new(vulkan.interop(), &options).map_err(Stop::attempted)?;
    vulkan.release(exported.buffer())?;
    let mapped = context.device().import_memory(exported.import_request()?)?.map_buffer(0..buffer::SIZE as u64)?;
    let side = side::BufferSide::new(context, mapped)?;
    for (name, queue) in queues(vulkan, operation.queue) {
        for order in orders {
            let ways = side.ways(operation.kind, operation.subject.is_some());
            pairs.add(
                u32::try_from(ways.len())?,
                || format!("{name}, {order:?}"),
                || on_buffer(context, (vulkan, queue), operation, (&exported, &side), *order, &ways),
            )?;
        }
    }
    Ok(())
}

fn on_buffer(
    context: &Context,
    (vulkan, queue): (&HeadlessContext, &HeadlessContext),
    operation: &BufferOperation,
    (exported, side): (&ExportableBuffer, &side::BufferSide<'_>),
    order: Order,
    ways: &[Access],
) -> Verdict {
    let mut sync = Sync::new(context, vulkan, order)?;
    let stream = context.stream()?;
    let gpu = Gpu::new(queue);
    let mut pattern = context.pattern();
    let rounds: Vec<Access> = if operation.kind == Kind::Reads { ways.repeat(2) } else { vec![Access::Copy; 2] };
    for way in rounds {
        let (before, data) = (Content::Pattern(pattern), Content::Pattern(pattern.other()));
        pattern = pattern.other().other();
        let written = match operation.subject {
            Some(words) => words().into_iter().flat_map(u32::to_le_bytes).collect(),
            None => before.bytes(0, buffer::SIZE),
        };
        side.write(&stream, way, before, &written)?;
        sync.device_is_done(&stream)?;
        let drawn = data.bytes(0, buffer::SIZE);
        let (mut after, mut check) = (written.clone(), None);
        let submission = sync.submit(&gpu, |recording| {
            let (buffer, commands) = (exported.buffer(), recording.as_raw());
            recording.keep(buffer);
            let transfer = operation.masks.transfer(queue);
            // SAFETY: as for images.
            unsafe { buffer.record_acquire(commands, transfer) }?;
            let work = BufferWork { gpu: &gpu, commands, buffer: buffer.as_raw(), before: &written, data: &drawn };
            let outcome = (operation.record)(&work)?;
            check = outcome.check;
            if let Some(bytes) = outcome.after {
                after = bytes;
            }
            // SAFETY: as for images.
            Ok(unsafe { buffer.record_release(commands, transfer) }?)
        })?;
        let verify = |way| side.verify(&stream, way, data, &after);
        finish_round(&gpu, &mut sync, (&stream, &submission), readers(operation.kind, ways), verify)?;
        check.map_or(Ok(()), |check| check())?;
    }
    Ok(())
}
