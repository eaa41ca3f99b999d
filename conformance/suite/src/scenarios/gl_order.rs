//! Semaphores order Vulkan, the device and OpenGL, without the host between them.

use std::cell::Cell;

use gpu_interop::gl::{Barriers, ImportedBuffer, TextureFormat, TextureLayout, TextureSpec};
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    BufferOptions, ExportableBuffer, ExportableImage, ExportableSemaphore, ImageOptions, ImageSpec, MemoryPlacement,
    OwnedBuffer, OwnedSemaphore, SemaphoreOp, Submission,
};
use gpu_interop::{ErrorKind, ExternalSemaphore, MappedBuffer, Stream};

use super::{BRIEF, keeps_waiting};
use crate::context::Context;
use crate::ensure;
use crate::gl::{Drawing, GlSide, Increment, ROOM, Shared, incremented, operation};
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::compare;
use crate::scenario::scenarios;

scenarios! {
    all need [exporter Vulkan];
    "gl.three_way_buffer", Any,
        "Vulkan writes words, the device increments them, OpenGL copies them, Vulkan reads the copy: all is enqueued before \
         Vulkan writes, and ordered by binary semaphores alone.",
        three_way_buffer, needs [semaphore OpaqueFd, Kernels],
        mirrors("cuda-samples: simpleVulkan, with OpenGL as the renderer");
    "gl.three_way_texture", Any,
        "Vulkan writes an image, the device increments each texel, OpenGL draws it: all is enqueued before Vulkan writes, and \
         ordered by binary semaphores alone.",
        three_way_texture, needs [semaphore OpaqueFd, Kernels, MappedMipmappedArray],
        mirrors("cuda-samples: vulkanImageCUDA, with OpenGL as the renderer");
    "gl.semaphore_vulkan", Any, "200 words go from Vulkan to OpenGL and back, each ordered by binary semaphores.",
        semaphore_vulkan, within(60);
    "gl.semaphore_device", Any, "200 words go from the device to OpenGL and back, each ordered by binary semaphores.",
        semaphore_device, needs [semaphore OpaqueFd], within(60);
}

const SIZE: u64 = 64 << 10;
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw() | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// Vulkan, the device and OpenGL, with the semaphores between them.
struct ThreeWay<'a> {
    side: GlSide<'a>,
    stream: Stream,
    increment: Increment,
    gate: Gate,
    to_device: (ExportableSemaphore, ExternalSemaphore),
    /// From the device to OpenGL.
    to_gl: (ExternalSemaphore, Shared),
    back: Shared,
    /// Vulkan's staging buffers.
    host: [OwnedBuffer; 2],
}

/// Blocks Vulkan's first submission until the host opens the gate. All other work has been enqueued by then, so that a
/// missing wait reads old data.
struct Gate {
    timeline: OwnedSemaphore,
    opened: Cell<u64>,
}

impl Gate {
    /// The point that the first submission of this round waits for.
    fn closed(&self) -> SemaphoreOp<'_> {
        SemaphoreOp { semaphore: &self.timeline, value: self.opened.get() + 1 }
    }

    fn open(&self) -> Verdict {
        self.opened.set(self.opened.get() + 1);
        Ok(self.timeline.signal(self.opened.get())?)
    }
}

impl<'a> ThreeWay<'a> {
    /// Unsupported if one of the three lacks a requirement. Each of Vulkan's host buffers has `size` bytes.
    fn open(context: &'a Context, size: u64) -> Verdict<Self> {
        let side = GlSide::open_with_semaphores(context)?;
        let (device, interop) = (context.device(), side.vulkan().interop());
        let import = |exported: &ExportableSemaphore| -> Verdict<ExternalSemaphore> {
            Ok(device.import_semaphore(exported.import_request()?)?)
        };
        let first = ExportableSemaphore::binary(interop).map_err(Stop::attempted)?;
        let second = side.semaphore()?;
        let host = || OwnedBuffer::new(interop, size, USAGE, MemoryPlacement::HostVisible);
        Ok(Self {
            stream: device.create_stream()?,
            increment: Increment::load(context)?,
            gate: Gate {
                timeline: OwnedSemaphore::timeline(interop, 0).map_err(Stop::attempted)?,
                opened: Cell::new(0),
            },
            to_device: (first.clone(), import(&first)?),
            to_gl: (import(&second.exported)?, second),
            back: side.semaphore()?,
            host: [host()?, host()?],
            side,
        })
    }

    /// Runs the kernel once before any wait: a driver may load it at its first launch, and wait for all pending work
    /// then.
    fn warm_up(&self, buffer: &MappedBuffer, size: u64) -> Verdict {
        self.increment.run(&self.stream, buffer, size)?;
        Ok(self.stream.synchronize_timeout(WAIT_TIMEOUT)?)
    }

    /// Checks in the first round that nothing runs, opens the gate, and waits for the last submission.
    fn run(&self, round: u32, first: &Submission, last: &Submission) -> Verdict {
        if round == 0 {
            std::thread::sleep(WATCH);
            ensure!(!first.is_finished(), "Vulkan did not wait for the host");
            keeps_waiting(&self.stream, BRIEF, "the device did not wait for Vulkan")?;
            ensure!(!last.is_finished(), "Vulkan did not wait for OpenGL");
        }
        self.gate.open()?;
        last.wait(WAIT_TIMEOUT).map_err(|error| match error.kind() {
            ErrorKind::Timeout => Stop::failed(format!("round {round}: Vulkan timed out waiting for OpenGL")),
            _ => error.into(),
        })?;
        Ok(self.stream.synchronize_timeout(WAIT_TIMEOUT)?)
    }
}

fn three_way_buffer(context: &Context) -> Verdict {
    let three = ThreeWay::open(context, SIZE)?;
    let (vulkan, [source, target]) = (three.side.vulkan(), &three.host);
    // Two halves: the second is OpenGL's copy of the first.
    let options = BufferOptions::new(2 * SIZE + ROOM, USAGE);
    let exported = ExportableBuffer::new(vulkan.interop(), &options).map_err(Stop::attempted)?;
    let mapped = context.device().import_memory(exported.import_request()?)?.map_buffer(0..2 * SIZE)?;
    let memory = three.side.interop().import_memory(exported.import_request()?)?;
    let shared = three.side.buffer(&memory, 0, 2 * SIZE)?;
    let names = [&shared];
    let (buffer, barriers, size) = (exported.buffer(), Barriers::buffers(&names), usize::try_from(SIZE)?);
    three.warm_up(&mapped, SIZE)?;
    let mut pattern = context.pattern();
    for round in 0..10 {
        source.write(0, &pattern.bytes(0, size))?;
        let own = three.side.own_buffer(&vec![0; size])?;
        // Vulkan writes, once the gate is open.
        let first = vulkan.submit(&[three.gate.closed()], &[operation(&three.to_device.0)], |recording| {
            if round > 0 {
                recording.acquire(buffer)?;
            }
            recording.copy(source, 0, buffer, 0, SIZE)?;
            recording.release(buffer)
        })?;
        // The device adds.
        three.stream.wait(&[three.to_device.1.wait()])?;
        three.increment.run(&three.stream, &mapped, SIZE)?;
        three.stream.signal(&[three.to_gl.0.signal()])?;
        // OpenGL copies, to the second half and to a buffer of its own. SAFETY: the signal was just enqueued on the
        // stream.
        unsafe { three.to_gl.1.gl.wait(&barriers) }?;
        three.side.copy_within(&shared, 0, SIZE, SIZE)?;
        own.copy_from(&shared)?;
        three.back.gl.signal(&barriers)?;
        // Vulkan reads the copy.
        let last = vulkan.submit(&[three.back.operation()], &[], |recording| {
            recording.acquire(buffer)?;
            recording.copy(buffer, SIZE, target, 0, SIZE)?;
            recording.release(buffer)
        })?;
        three.run(round, &first, &last)?;
        let expected = incremented(pattern.bytes(0, size));
        let mut found = vec![0; size];
        target.read(0, &mut found)?;
        compare(&found, &expected, format_args!("round {round}: OpenGL's copy, read by Vulkan"))?;
        compare(&own.read()?, &expected, format_args!("round {round}: OpenGL's view"))?;
        pattern = pattern.other();
    }
    Ok(())
}

fn three_way_texture(context: &Context) -> Verdict {
    for format in [vk::Format::R8G8B8A8_UNORM, vk::Format::R32_UINT] {
        three_way_texture_of(context, format)?;
    }
    Ok(())
}

/// Tests one format, whose texels must be one word.
fn three_way_texture_of(context: &Context, format: vk::Format) -> Verdict {
    const EXTENT: [u32; 3] = [320, 200, 1];
    const TEXELS: u64 = 4 * 320 * 200;
    let three = ThreeWay::open(context, TEXELS)?;
    let (vulkan, [source, target]) = (three.side.vulkan(), &three.host);
    // The OpenGL extension requires every usage that OpenGL could make of the image.
    let usage = vk::ImageUsageFlags::TRANSFER_SRC
        | vk::ImageUsageFlags::TRANSFER_DST
        | vk::ImageUsageFlags::SAMPLED
        | vk::ImageUsageFlags::STORAGE
        | vk::ImageUsageFlags::COLOR_ATTACHMENT;
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, EXTENT, format, usage);
    let exported = ExportableImage::new(vulkan.interop(), &ImageOptions::new(spec)).map_err(Stop::attempted)?;
    let (image, desc) = (exported.image(), exported.array_desc()?);
    vulkan.initialize_image(image)?;
    let array = context.device().import_memory(exported.import_request()?)?;
    let array = array.map_mipmapped_array(&desc).map_err(Stop::attempted)?;
    let memory = three.side.interop().import_memory(exported.import_request()?)?;
    let spec = TextureSpec::from_array(&desc)?.format(TextureFormat::from_vulkan(format.as_raw())?);
    let texture = memory.map_texture(&spec).map_err(Stop::attempted)?;
    let textures = [(&texture, TextureLayout::General)];
    let barriers = Barriers::textures(&textures);
    let drawing = Drawing::new(&three.side, &texture)?;
    // The kernel increments words in this buffer, because it cannot access images.
    let (_scratch_memory, scratch) = context.shared(usize::try_from(TEXELS)?)?;
    three.warm_up(&scratch, TEXELS)?;
    let size = usize::try_from(TEXELS)?;
    let mut pattern = context.pattern();
    for round in 0..5 {
        source.write(0, &pattern.bytes(0, size))?;
        // Vulkan writes, once the gate is open.
        let first = vulkan.submit(&[three.gate.closed()], &[operation(&three.to_device.0)], |recording| {
            if round > 0 {
                recording.acquire_image(image)?;
            }
            recording.copy_to_image(source, 0, image, 0, 0)?;
            recording.release_image(image)
        })?;
        // The device adds.
        three.stream.wait(&[three.to_device.1.wait()])?;
        three.stream.copy_from_array(&scratch, array.level(0)?)?;
        three.increment.run(&three.stream, &scratch, TEXELS)?;
        three.stream.copy_to_array(array.level(0)?, &scratch)?;
        three.stream.signal(&[three.to_gl.0.signal()])?;
        // OpenGL draws. SAFETY: the signal was just enqueued on the stream.
        unsafe { three.to_gl.1.gl.wait(&barriers) }?;
        drawing.draw()?;
        three.back.gl.signal(&barriers)?;
        // Vulkan reads the result.
        let last = vulkan.submit(&[three.back.operation()], &[], |recording| {
            recording.acquire_image(image)?;
            recording.copy_from_image(image, 0, 0, target, 0)?;
            recording.release_image(image)
        })?;
        three.run(round, &first, &last)?;
        let expected = incremented(pattern.bytes(0, size));
        compare(&drawing.read()?, &expected, format_args!("round {round}, {format:?}: OpenGL's drawing"))?;
        let mut found = vec![0; size];
        target.read(0, &mut found)?;
        compare(&found, &expected, format_args!("round {round}, {format:?}: the image, read by Vulkan"))?;
        pattern = pattern.other();
    }
    Ok(())
}

const ROUNDS: u32 = 200;
const PART: u64 = 4096;

/// A buffer whose first half OpenGL copies to the second, between a wait for another side's semaphore and a signal of
/// one for it.
struct Copied<'a> {
    side: GlSide<'a>,
    exported: ExportableBuffer,
    shared: ImportedBuffer,
    there: Shared,
    back: Shared,
    seed: u32,
}

impl<'a> Copied<'a> {
    fn open(context: &'a Context) -> Verdict<Self> {
        let side = GlSide::open_with_semaphores(context)?;
        let options = BufferOptions::new(2 * PART + ROOM, USAGE);
        let exported = ExportableBuffer::new(side.vulkan().interop(), &options).map_err(Stop::attempted)?;
        let memory = side.interop().import_memory(exported.import_request()?)?;
        Ok(Self {
            shared: side.buffer(&memory, 0, 2 * PART)?,
            there: side.semaphore()?,
            back: side.semaphore()?,
            seed: context.pattern().seed(),
            exported,
            side,
        })
    }

    /// The word that the other side writes in a round.
    fn word(&self, round: u32) -> u32 {
        self.seed.wrapping_add(round.wrapping_mul(0x9e37_79b1))
    }

    /// One round of OpenGL.
    ///
    /// # Safety
    /// A signal of `there` must have been enqueued since the last call.
    unsafe fn turn(&self) -> Verdict {
        let names = [&self.shared];
        let barriers = Barriers::buffers(&names);
        // SAFETY: the caller's promise.
        unsafe { self.there.gl.wait(&barriers) }?;
        self.side.copy_within(&self.shared, 0, PART, PART)?;
        Ok(self.back.gl.signal(&barriers)?)
    }
}

fn semaphore_vulkan(context: &Context) -> Verdict {
    let copied = Copied::open(context)?;
    let (vulkan, buffer) = (copied.side.vulkan(), copied.exported.buffer());
    let target = OwnedBuffer::new(vulkan.interop(), PART, USAGE, MemoryPlacement::HostVisible)?;
    let mut found = vec![0; usize::try_from(PART)?];
    for round in 0..ROUNDS {
        let word = copied.word(round);
        vulkan.submit(&[], &[copied.there.operation()], |recording| {
            if round > 0 {
                recording.acquire(buffer)?;
            }
            recording.fill(buffer, 0, PART, word)?;
            recording.release(buffer)
        })?;
        // SAFETY: the signal was just submitted.
        unsafe { copied.turn() }?;
        let last = vulkan.submit(&[copied.back.operation()], &[], |recording| {
            recording.acquire(buffer)?;
            recording.copy(buffer, PART, &target, 0, PART)?;
            recording.release(buffer)
        })?;
        last.wait(WAIT_TIMEOUT)?;
        target.read(0, &mut found)?;
        all_words(&found, word, &format!("round {round}: OpenGL's copy for Vulkan"))?;
    }
    Ok(())
}

fn semaphore_device(context: &Context) -> Verdict {
    let copied = Copied::open(context)?;
    let device = context.device();
    let stream = device.create_stream()?;
    let mapped = device.import_memory(copied.exported.import_request()?)?.map_buffer(0..2 * PART)?;
    let import = |shared: &Shared| -> Verdict<ExternalSemaphore> {
        Ok(device.import_semaphore(shared.exported.import_request()?)?)
    };
    let (to_gl, from_gl) = (import(&copied.there)?, import(&copied.back)?);
    let mut found = vec![0; usize::try_from(PART)?];
    for round in 0..ROUNDS {
        let word = copied.word(round);
        stream.fill_u32(mapped.slice(..PART)?, word)?;
        stream.signal(&[to_gl.signal()])?;
        // SAFETY: the signal was just enqueued on the stream.
        unsafe { copied.turn() }?;
        stream.wait(&[from_gl.wait()])?;
        stream.read(mapped.slice(PART..)?, &mut found)?;
        all_words(&found, word, &format!("round {round}: OpenGL's copy for the device"))?;
    }
    Ok(())
}

fn all_words(found: &[u8], word: u32, what: &str) -> Verdict {
    let expected: Vec<u8> = word.to_ne_bytes().into_iter().cycle().take(found.len()).collect();
    compare(found, &expected, what)
}
