//! Images whose objects are destroyed in any order.

use gpu_interop::{ArrayShape, ArrayUsage, ChannelType};

use super::keeps_waiting;
use crate::context::Context;
use crate::device_memory::DeviceMemory;
use crate::exporter::ImageSpec;
use crate::gate::Gate;
use crate::image::{ImageKernels, SharedImage, plain_format};
use crate::leak_check::leak_check;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::scenario::scenarios;

scenarios! {
    all need [MappedMipmappedArray, exporter Images];
    "image_lifetime.exporter_frees_first", Any, "A mapped image outlives the exporter's image and memory.",
        exporter_frees_first, mirrors("OpenCL-CTS: lifetime_image");
    "image_lifetime.import_closed_first", Any, "A mapped image outlives the closed import.", import_closed_first;
    "image_lifetime.drop_with_copy_pending", Any, "A pending copy from a dropped image completes as enqueued.",
        drop_with_copy_pending, needs [StreamMemoryOperations32];
    "image_lifetime.surface_keeps_array", Any, "A kernel writes through a surface whose array was dropped.",
        surface_keeps_array, needs [Surfaces, Kernels];
    "image_lifetime.mapped_twice", Any, "An image mapped twice is the same memory; each mapping ends by itself.",
        mapped_twice;
    "image_lifetime.100_cycles", Any, "100 imports, mappings, copies and frees of images leak nothing.", cycles, within(60);
    // Exclusive: processes that start or end change the free memory of the GPU by more than the bound.
    "image_lifetime.device_memory", Any,
        "1,000 images are imported and mapped, each level taken twice, written, read and closed; the device's free memory is \
         as before.",
        device_memory, needs [driver FreeMemory], exclusive, within(120),
        mirrors("hip-tests: Unit_hipFreeMipmappedArray_NoLeakAfterDuplicateGetLevel");
}

fn spec() -> Verdict<ImageSpec> {
    let shape = ArrayShape::D2 { width: 67, height: 45 };
    Ok(ImageSpec { levels: 3, ..ImageSpec::new(shape, plain_format(ChannelType::Uint8, 4)?) })
}

fn exporter_frees_first(context: &Context) -> Verdict {
    let SharedImage { exported, array } = SharedImage::new(context, spec()?)?;
    let (there, back) = (context.pattern(), context.pattern().other());
    exported.write_all(there)?;
    drop(exported);
    // Other images in between, in case the memory was freed and reused.
    let later = SharedImage::new(context, spec()?)?;
    later.exported.write_all(back)?;
    let stream = context.stream()?;
    for pattern in [there, back] {
        for level in 0..array.desc().levels {
            let region = array.level(level)?;
            let mut found = vec![0; usize::try_from(region.size())?];
            if pattern == back {
                stream.write_array(region, &back.level(level).bytes(0, found.len()))?;
            }
            stream.read_array(region, &mut found)?;
            pattern.level(level).verify(0, &found, format_args!("level {level} after the exporter freed the image"))?;
        }
    }
    array.close()?;
    later.exported.verify_all(back, "the image that was made afterwards")
}

fn import_closed_first(context: &Context) -> Verdict {
    let exported = context.exporter()?.image(spec()?)?;
    let memory = context.device().import_memory(exported.import_request()?)?;
    let array = memory.map_mipmapped_array(&exported.array_desc()?)?;
    memory.close()?;
    SharedImage { exported, array }.goes_both_ways(context)
}

fn drop_with_copy_pending(context: &Context) -> Verdict {
    let stream = context.stream()?;
    let (there, before) = (context.pattern(), context.pattern().other());
    let SharedImage { exported, array } = SharedImage::new(context, spec()?)?;
    exported.write_all(there)?;
    let size = exported.spec().level_size(0);
    let buffer = context.buffer(size)?;
    let mut found = vec![0; usize::try_from(size)?];
    buffer.write(0, &before.bytes(0, found.len()))?;
    let target = context.import(&*buffer)?;
    let gate = Gate::new(context)?;
    gate.block(&stream)?;
    stream.copy_from_array(&target, array.level(0)?)?;
    drop(array);
    drop(exported);
    keeps_waiting(&stream, WATCH, "the stream did not wait")?;
    buffer.read(0, &mut found)?;
    before.verify(0, &found, "the target while the stream waits")?;
    gate.open()?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.read(0, &mut found)?;
    there.verify(0, &found, "the copy from the dropped image")
}

fn surface_keeps_array(context: &Context) -> Verdict {
    let kernels = ImageKernels::load(context)?;
    let spec = ImageSpec { usage: ArrayUsage::SURFACE_LOAD_STORE, ..spec()? };
    let SharedImage { exported, array } = SharedImage::new(context, spec)?;
    let (before, after) = (context.pattern(), context.pattern().other());
    exported.write_all(before)?;
    let surface = array.surface(1)?;
    array.close()?;
    kernels.fill_surface(&surface, &spec, 1, after)?;
    surface.close()?;
    exported.verify_level(0, before, "a level without a surface")?;
    exported.verify_level(1, after, "the kernel's data")?;
    exported.verify_level(2, before, "a level without a surface")
}

fn mapped_twice(context: &Context) -> Verdict {
    let SharedImage { exported, array: first } = SharedImage::new(context, spec()?)?;
    let second = SharedImage::mapped_as(context, exported, first.desc())?;
    let stream = context.stream()?;
    let (there, back) = (context.pattern(), context.pattern().other());
    for level in 0..first.desc().levels {
        let region = first.level(level)?;
        stream.write_array(region, &there.level(level).bytes(0, usize::try_from(region.size())?))?;
    }
    second.device_sees(&stream, there, "the data written through the first mapping")?;
    first.close()?;
    second.device_writes(&stream, back)?;
    second.exported.verify_all(back, "the data written after the first mapping had ended")
}

fn cycles(context: &Context) -> Verdict {
    let exported = context.exporter()?.image(spec()?)?;
    let desc = exported.array_desc()?;
    let pattern = context.pattern();
    exported.write_all(pattern)?;
    let stream = context.stream()?;
    let mut found = vec![0; usize::try_from(exported.spec().level_size(2))?];
    leak_check(100, |_| {
        let memory = context.device().import_memory(exported.import_request()?)?;
        let array = memory.map_mipmapped_array(&desc)?;
        found.fill(0);
        stream.read_array(array.level(2)?, &mut found)?;
        pattern.level(2).verify(0, &found, "level 2")?;
        array.close()?;
        Ok(memory.close()?)
    })
}

fn device_memory(context: &Context) -> Verdict {
    let memory = DeviceMemory::of(context)?;
    let shape = ArrayShape::D2 { width: 512, height: 512 };
    let spec = ImageSpec { levels: 3, ..ImageSpec::new(shape, plain_format(ChannelType::Uint8, 4)?) };
    let stream = context.stream()?;
    let (mut pattern, mut found) = (context.pattern(), [0; 16]);
    memory.comes_back(1000, |number| {
        let SharedImage { exported, array } = SharedImage::new(context, spec)?;
        for level in 0..array.desc().levels {
            let corner = || Ok::<_, Stop>(array.level(level)?.region([4, 2, 0], [4, 1, 1])?);
            stream.write_array(corner()?, &pattern.level(level).bytes(0, found.len()))?;
            stream.read_array(corner()?, &mut found)?;
            pattern.level(level).verify(0, &found, format_args!("cycle {number}, level {level}"))?;
        }
        pattern = pattern.other();
        array.close()?;
        drop(exported);
        Ok(())
    })
}
