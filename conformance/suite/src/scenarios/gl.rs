//! Vulkan memory, imported into OpenGL and the device. The host waits between the three.

use std::os::fd::OwnedFd;

use gpu_interop::gl::{Barriers, ImportedTexture, TextureLayout, TextureSpec};
use gpu_interop::vulkan::ash::vk;
use gpu_interop::{ArrayShape, ArrayUsage, ChannelType, DeviceIdentity, ErrorKind, IdentityMatch, MemoryHandle, Uuid};

use super::import_request::{SIZE as REQUEST_SIZE, prepared, resized, somewhere_else, works};
use super::{expect_error, rejected};
use crate::context::Context;
use crate::exporter::{BufferSpec, ExportedBuffer, ExportedImage, ImageSpec};
use crate::gl::{Drawing, GlSide, Increment, ROOM, incremented};
use crate::image::{SharedImage, plain_format};
use crate::leak_check::leak_check;
use crate::outcome::{Stop, Verdict};
use crate::pattern::{Pattern, compare};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq, request};

scenarios! {
    all need [exporter Vulkan];
    "gl.identity", Any,
        "OpenGL runs on the exporter's device by UUID, with a compatible driver, and rejects memory of another device.",
        identity;
    "gl.buffer", Any,
        "Words written by the exporter and incremented by the device arrive in OpenGL, and words written by OpenGL and \
         incremented by the device at the exporter.",
        buffer, needs [Kernels];
    "gl.texture", Any,
        "Texels go from the exporter to the device, from the device to OpenGL, and from OpenGL to both.", texture,
        needs [MappedMipmappedArray];
    "gl.offsets", Any,
        "Buffers and textures of OpenGL at offsets of an allocation show the bytes there; the bytes around them stay.",
        offsets;
    "gl.dedicated", Any, "Buffers and images with a dedicated allocation go both ways between the exporter and OpenGL.",
        dedicated;
    "gl.mip_levels", Any,
        "Images of two and three dimensions, with layers and faces, go both ways between the exporter and OpenGL, every level.",
        mip_levels;
    "gl.draw", Any, "OpenGL draws an image of the exporter; every pixel equals its texel.", draw;
    "gl.bad_input", Any,
        "Malformed import requests are rejected before OpenGL's driver is called; the handle works afterwards.", bad_input;
    "gl.cycles", Any, "200 imports into OpenGL, with the objects made from them, leak nothing.", cycles, counts_resources,
        within(60);
}

const SIZE: usize = 64 << 10;

fn identity(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    let (gl, vulkan) = (side.interop(), side.vulkan());
    let is = |other: &DeviceIdentity, matching: IdentityMatch| {
        gl.devices().iter().any(|device| other.compare(device) == matching)
    };
    ensure!(
        is(vulkan.identity(), IdentityMatch::Same),
        "OpenGL runs on {}, not on the exporter's device",
        gl.identity()
    );
    // The host backend has no UUID to compare.
    let device = context.device().identity();
    let is_other = !is(device, IdentityMatch::Same) && (device.uuid.is_some() || !is(device, IdentityMatch::Unknown));
    ensure!(!is_other, "OpenGL runs on {}, not on {device}", gl.identity());
    gl.check_exporter(vulkan.identity())?;
    gl.check_exporter(device)?;
    let (mut ids, interop) = (vk::PhysicalDeviceIDProperties::default(), vulkan.interop());
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut ids);
    // SAFETY: instance and device are live, belong together, and are 1.1 or later.
    unsafe { interop.instance().get_physical_device_properties2(interop.physical_device(), &mut properties) };
    ensure_eq!(gl.driver_uuid(), Uuid::from_bytes(ids.driver_uuid), "OpenGL's driver UUID, beside Vulkan's");

    let elsewhere = somewhere_else();
    expect_error(gl.check_exporter(&elsewhere), ErrorKind::DeviceMismatch, "an exporter that is another device")?;
    let buffer = prepared(context)?;
    let request = buffer.import_request()?.exported_by(elsewhere.clone());
    let (error, request) =
        rejected(gl.import_memory(request), &[ErrorKind::DeviceMismatch], "memory of another device")?;
    let named = error.mismatch().is_some_and(|both| both.exporter == elsewhere && both.importer == *gl.identity());
    ensure!(named, "the error does not name both devices: {error}");
    let size = request.size();
    works(context, resized(request, size))
}

/// A buffer of the exporter with slightly more memory than a scenario uses.
fn roomy(context: &Context, size: usize, dedicated: bool) -> Verdict<Box<dyn ExportedBuffer>> {
    context.exporter()?.buffer(BufferSpec { dedicated, ..BufferSpec::new(size as u64 + ROOM) })
}

fn buffer(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    let exported = roomy(context, SIZE, false)?;
    let (mapped, stream) = (context.import(&*exported)?, context.stream()?);
    let increment = Increment::load(context)?;
    let memory = side.interop().import_memory(exported.import_request()?)?;
    let shared = side.buffer(&memory, 0, SIZE as u64)?;
    let names = [&shared];
    let barriers = Barriers::buffers(&names);
    let mut pattern = context.pattern();
    for round in 0..3 {
        exported.write(0, &pattern.bytes(0, SIZE))?;
        increment.run(&stream, &mapped, SIZE as u64)?;
        stream.synchronize()?;
        side.takes_over(&barriers)?;
        let expected = incremented(pattern.bytes(0, SIZE));
        compare(&side.read(&shared)?, &expected, format_args!("round {round}: OpenGL's view"))?;

        pattern = pattern.other();
        side.write(&shared, &pattern.bytes(0, SIZE))?;
        side.hands_over(&barriers)?;
        increment.run(&stream, &mapped, SIZE as u64)?;
        stream.synchronize()?;
        let mut found = vec![0; SIZE];
        exported.read(0, &mut found)?;
        compare(&found, &incremented(pattern.bytes(0, SIZE)), format_args!("round {round}: the exporter's view"))?;
        pattern = pattern.other();
    }
    Ok(())
}

fn texture(context: &Context) -> Verdict {
    let (side, stream) = (GlSide::open(context)?, context.stream()?);
    for levels in [1, 3] {
        let image = SharedImage::new(context, ImageSpec { levels, ..spec(ArrayShape::D2 { width: 67, height: 45 })? })?;
        let texture = side.texture(&*image.exported)?;
        let textures = [(&texture, TextureLayout::General)];
        let barriers = Barriers::textures(&textures);
        let mut pattern = context.pattern();
        for round in 0..2 {
            image.exported.write_all(pattern)?;
            image.device_sees(&stream, pattern, &format!("round {round}: the exporter's data"))?;
            pattern = pattern.other();
            image.device_writes(&stream, pattern)?;
            stream.synchronize()?;
            side.takes_over(&barriers)?;
            texture_holds(&side, image.spec(), &texture, pattern)?;
            pattern = pattern.other();
            write_texture(&side, image.spec(), &texture, pattern)?;
            side.hands_over(&barriers)?;
            image.device_sees(&stream, pattern, &format!("round {round}: OpenGL's data"))?;
            image.exported.verify_all(pattern, "OpenGL's data")?;
            pattern = pattern.other();
        }
    }
    Ok(())
}

fn offsets(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    let exported = roomy(context, 4 * SIZE, false)?;
    let memory = side.interop().import_memory(exported.import_request()?)?;
    let pattern = context.pattern();
    for (offset, size) in [(SIZE, SIZE), (4096, 4096), (2 * SIZE + 4096, 100), (4 * SIZE - 4096, 4096)] {
        let mut expected = pattern.bytes(0, 4 * SIZE);
        exported.write(0, &expected)?;
        let shared = side.buffer(&memory, offset as u64, size as u64)?;
        let names = [&shared];
        let barriers = Barriers::buffers(&names);
        side.takes_over(&barriers)?;
        let range = offset..offset + size;
        compare(
            &side.read(&shared)?,
            &expected[range.clone()],
            format_args!("{size} bytes from {offset} on, in OpenGL"),
        )?;
        expected[range].copy_from_slice(&pattern.other().bytes(0, size));
        side.write(&shared, &pattern.other().bytes(0, size))?;
        side.hands_over(&barriers)?;
        let mut found = vec![0; 4 * SIZE];
        exported.read(0, &mut found)?;
        compare(
            &found,
            &expected,
            format_args!("the whole allocation after OpenGL wrote {size} bytes from {offset} on"),
        )?;
    }
    let image = ImageSpec { offset: 100_000, ..spec(ArrayShape::D2 { width: 67, height: 45 })? };
    let exported = context.exporter()?.image(image)?;
    ensure!(exported.array_desc()?.offset >= 100_000, "the exporter's image begins with its memory");
    image_goes_both_ways(context, &side, &*exported)
}

/// An image with every usage that OpenGL could make of it, as its extension requires.
fn spec(shape: ArrayShape) -> Verdict<ImageSpec> {
    let usage = ArrayUsage::SURFACE_LOAD_STORE | ArrayUsage::COLOR_ATTACHMENT;
    Ok(ImageSpec { usage, ..ImageSpec::new(shape, plain_format(ChannelType::Unorm8, 4)?) })
}

/// Checks that each of the two sides sees all writes of the other to an image, twice, so that stale data is detected.
fn image_goes_both_ways(context: &Context, side: &GlSide<'_>, exported: &(dyn ExportedImage + 'static)) -> Verdict {
    let texture = side.texture(exported)?;
    let textures = [(&texture, TextureLayout::General)];
    let barriers = Barriers::textures(&textures);
    let mut pattern = context.pattern();
    for _ in 0..2 {
        exported.write_all(pattern)?;
        side.takes_over(&barriers)?;
        texture_holds(side, exported.spec(), &texture, pattern)?;
        pattern = pattern.other();
        write_texture(side, exported.spec(), &texture, pattern)?;
        side.hands_over(&barriers)?;
        exported.verify_all(pattern, "OpenGL's data")?;
        pattern = pattern.other();
    }
    Ok(())
}

fn write_texture(side: &GlSide<'_>, spec: &ImageSpec, texture: &ImportedTexture, pattern: Pattern) -> Verdict {
    for level in 0..spec.levels {
        let size = usize::try_from(spec.level_size(level))?;
        side.write_texture(texture, level, &pattern.level(level).bytes(0, size))?;
    }
    Ok(())
}

fn texture_holds(side: &GlSide<'_>, spec: &ImageSpec, texture: &ImportedTexture, pattern: Pattern) -> Verdict {
    for level in 0..spec.levels {
        let found = side.read_texture(texture, level, spec.level_size(level))?;
        pattern.level(level).verify(0, &found, format_args!("OpenGL's view, level {level} of {spec}"))?;
    }
    Ok(())
}

fn dedicated(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    let exported = roomy(context, SIZE, true)?;
    let request = exported.import_request()?;
    ensure!(request.is_dedicated(), "the request lacks the dedicated flag");
    let memory = side.interop().import_memory(request)?;
    ensure!(memory.is_dedicated(), "the import is not marked as dedicated");
    let shared = side.buffer(&memory, 0, SIZE as u64)?;
    let names = [&shared];
    let barriers = Barriers::buffers(&names);
    let pattern = context.pattern();
    exported.write(0, &pattern.bytes(0, SIZE))?;
    side.takes_over(&barriers)?;
    pattern.verify(0, &side.read(&shared)?, "the exporter's data, in OpenGL")?;
    side.write(&shared, &pattern.other().bytes(0, SIZE))?;
    side.hands_over(&barriers)?;
    let mut found = vec![0; SIZE];
    exported.read(0, &mut found)?;
    pattern.other().verify(0, &found, "OpenGL's data")?;

    for levels in [1, 3] {
        let image = ImageSpec { dedicated: true, levels, ..spec(ArrayShape::D2 { width: 67, height: 45 })? };
        image_goes_both_ways(context, &side, &*context.exporter()?.image(image)?)?;
    }
    Ok(())
}

fn mip_levels(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    for shape in [
        ArrayShape::D2 { width: 67, height: 45 },
        ArrayShape::D2Layered { width: 37, height: 21, layers: 5 },
        ArrayShape::D3 { width: 37, height: 21, depth: 9 },
        ArrayShape::Cube { width: 35 },
    ] {
        // One, some and all: the offsets of layers may depend on the number.
        for levels in [1, 3, shape.max_levels()] {
            let exported = context.exporter()?.image(ImageSpec { levels, ..spec(shape)? })?;
            image_goes_both_ways(context, &side, &*exported)?;
        }
    }
    Ok(())
}

fn draw(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    for (channel, channels) in [(ChannelType::Unorm8, 4), (ChannelType::Uint32, 1)] {
        let shape = ArrayShape::D2 { width: 67, height: 45 };
        let image = ImageSpec { format: plain_format(channel, channels)?, ..spec(shape)? };
        let exported = context.exporter()?.image(image)?;
        let texture = side.texture(&*exported)?;
        let drawing = Drawing::new(&side, &texture)?;
        let textures = [(&texture, TextureLayout::General)];
        let barriers = Barriers::textures(&textures);
        let mut pattern = context.pattern();
        for _ in 0..3 {
            exported.write_all(pattern)?;
            side.takes_over(&barriers)?;
            drawing.draw()?;
            pattern.verify(0, &drawing.read()?, format_args!("OpenGL's drawing of {image}"))?;
            side.hands_over(&barriers)?;
            pattern = pattern.other();
        }
    }
    Ok(())
}

fn bad_input(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    let gl = side.interop();
    let exported = prepared(context)?;
    let request = exported.import_request()?;
    let (size, invalid) = (request.size(), ErrorKind::InvalidArgument);
    // One handle remains valid throughout.
    let (_, request) = rejected(gl.import_memory(resized(request, 0)), &[invalid], "a size of 0")?;
    let (_, request) = rejected(gl.import_memory(resized(request, u64::MAX)), &[invalid], "a size of 2^64 - 1")?;
    let foreign = resized(request, size).exported_by(somewhere_else());
    let (_, request) = rejected(gl.import_memory(foreign), &[ErrorKind::DeviceMismatch], "memory of another device")?;
    let request = resized(request, size);
    let Ok(fd) = request.into_handle().into_fd() else {
        return Err(Stop::failed("the exporter returned no descriptor".into()));
    };
    let request = request::memory(MemoryHandle::DmaBufFd(fd), size);
    let (_, request) = rejected(gl.import_memory(request), &[ErrorKind::Unsupported], "a dma-buf")?;
    let Ok(fd) = request.into_handle().into_fd() else {
        return Err(Stop::failed("the request did not come back".into()));
    };
    works(context, request::memory(MemoryHandle::OpaqueFd(fd), size))?;

    let (pipe, _other_end) = rustix::pipe::pipe()?;
    let null: OwnedFd = std::fs::File::open("/dev/null")?.into();
    for (fd, what) in [(pipe, "a pipe"), (null, "/dev/null")] {
        let request = request::memory(MemoryHandle::OpaqueFd(fd), size);
        rejected(gl.import_memory(request), &[invalid], what)?;
    }

    let memory = gl.import_memory(exported.import_request()?)?;
    for (offset, length) in [(0, 0), (0, size + 1), (size, 1), (1, size), (u64::MAX, 2), (2, u64::MAX)] {
        expect_error(
            memory.map_buffer(offset..offset.wrapping_add(length)),
            invalid,
            &format!("{length} bytes from {offset} on"),
        )?;
    }
    let texture = side.texture(&*context.exporter()?.image(spec(ArrayShape::D2 { width: 16, height: 8 })?)?)?;
    let good = *texture.spec();
    let bad: [(TextureSpec, &str); 4] = [
        (good.levels(0), "no levels"),
        (good.levels(6), "more levels than the extent allows"),
        (good.offset(u64::MAX), "a texture past the end"),
        (good.offset(texture.memory().size() - 1), "a texture that goes past the end"),
    ];
    for (spec, what) in bad {
        expect_error(texture.memory().map_texture(&spec), invalid, what)?;
    }
    ensure_eq!(exported.size(), REQUEST_SIZE, "the size of the buffer that was prepared");
    works(context, exported.import_request()?)
}

fn cycles(context: &Context) -> Verdict {
    let side = GlSide::open(context)?;
    let exported = roomy(context, SIZE, false)?;
    let image = context.exporter()?.image(spec(ArrayShape::D2 { width: 67, height: 45 })?)?;
    let pattern = context.pattern();
    exported.write(0, &pattern.bytes(0, SIZE))?;
    leak_check(200, |_| {
        let memory = side.interop().import_memory(exported.import_request()?)?;
        let shared = side.buffer(&memory, 0, SIZE as u64)?;
        side.takes_over(&Barriers::buffers(&[&shared]))?;
        pattern.verify(0, &side.read(&shared)?, "the exporter's data")?;
        side.texture(&*image)?;
        if side.has_semaphores() {
            side.semaphore()?;
        }
        Ok(())
    })
}
