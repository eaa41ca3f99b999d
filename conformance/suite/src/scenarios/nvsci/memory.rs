//! Buffers and images of NvSciBuf.

use gpu_interop::ErrorKind;
use gpu_interop::nvsci::{
    Buffer, BufferAttributeList, BufferAttributes, ColorFormat, GpuAttributes, ImageAttributes, ImageLayout,
    Permission, PlaneAttributes,
};

use super::{Rig, import};
use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::pattern::{compare, verify_bytes};
use crate::scenario::scenarios;
use crate::scenarios::expect_error;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [memory NvSciBuf, semaphore NvSciSync, NvSciSyncAttributes];
    "nvsci.raw_both_ways", None, "The device reads the CPU's data in a raw buffer, and the CPU the device's, every byte.",
        both_ways, mirrors("CUDA C++ Programming Guide: NVSCI interoperability, importing memory objects");
    "nvsci.part_of_buffer", None, "A range of a raw buffer maps at its offset; the rest is unchanged.", part;
    "nvsci.read_only_duplicate", None,
        "Device and CPU read a duplicate with reduced permissions; every write to it is rejected and changes nothing.",
        read_only, mirrors("CUDA C++ Programming Guide: NVSCI interoperability, NvSciBufObjDupWithReducePerm");
    "nvsci.attributes", None,
        "Size, alignment, permissions and GPUs are as requested, also after an import.", attributes;
    "nvsci.several_lists", None,
        "Attribute lists of several users reconcile to the one size, the greatest alignment, and CPU access if requested.",
        several_lists;
    "nvsci.gpu_cache", None, "The GPU cache attribute is as requested, and reaches the import.", cache;
    "nvsci.gpu_compression", None,
        "Compression is granted on request, except with CPU access; either reaches the import.", compression;
    "nvsci.image_rows", None,
        "The rows of a pitch-linear image lie where its attributes say: written by the CPU, read by the device as a buffer.",
        rows;
    "nvsci.image_array", None,
        "A plane of an image maps as an array of one level: texels go both ways for a pitch-linear image, and the device \
         reads its own writes to a block-linear one.",
        array, needs [MappedMipmappedArray],
        mirrors("CUDA C++ Programming Guide: NVSCI interoperability, mapping mipmapped arrays");
    "nvsci.image_planes", None, "Each plane of an image has its own range, size and format.", planes;
    "nvsci.mip_levels", None, "More than one mip level is rejected before the driver is called.", mip_levels,
        needs [MappedMipmappedArray],
        mirrors("CUDA C++ Programming Guide: NVSCI interoperability, the number of mip levels must be 1");
}

const SIZE: usize = 1 << 20;

fn both_ways(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    for size in [1, 4096, 4097, SIZE] {
        let buffer = rig.allocate(&rig.shared(size as u64))?;
        let mapped = import(context, &buffer)?;
        ensure_eq!(mapped.size(), size as u64, "bytes that were imported");
        buffer.write(0, &pattern.bytes(0, size))?;
        pattern.verify(0, &context.read(&stream, &mapped)?, "the device's view")?;
        let inverted: Vec<u8> = pattern.bytes(0, size).iter().map(|byte| !byte).collect();
        stream.write(&mapped, &inverted)?;
        let mut found = vec![0; size];
        buffer.read(0, &mut found)?;
        compare(&found, &inverted, "the CPU's view of the device's data")?;
    }
    Ok(())
}

fn part(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let stream = context.stream()?;
    let buffer = rig.allocate(&rig.shared(3 * 4096))?;
    buffer.write(0, &[0x11; 3 * 4096])?;
    let memory = context.device().import_memory(buffer.import_request())?;
    stream.fill(&memory.map_buffer(4096..8192)?, 0x22)?;
    stream.synchronize()?;
    let mut found = [0; 3 * 4096];
    buffer.read(0, &mut found)?;
    for (page, expected) in found.chunks(4096).zip([0x11, 0x22, 0x11]) {
        verify_bytes(page, expected, format_args!("a page is not all {expected:#x}"))?;
    }
    Ok(())
}

fn read_only(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let buffer = rig.allocate(&rig.shared(SIZE as u64))?;
    buffer.write(0, &pattern.bytes(0, SIZE))?;
    let duplicate = buffer.read_only()?;
    ensure!(duplicate.is_read_only() && !buffer.is_read_only(), "permissions are mixed up");
    let (readable, writable) = (import(context, &duplicate)?, import(context, &buffer)?);
    pattern.verify(0, &context.read(&stream, &readable)?, "the duplicate")?;
    let word = readable.slice(0..4)?;
    for (what, result) in [
        ("a fill", stream.fill(&readable, 0)),
        ("a fill of words", stream.fill_u32(word, 0)),
        ("a copy", stream.copy(&readable, &writable)),
        ("a write", stream.write(&readable, &vec![0; SIZE])),
        ("a word", stream.write_value_u32(word, 0)),
        ("a write of the CPU's", duplicate.write(0, &[0])),
    ] {
        expect_error(result, ErrorKind::InvalidArgument, what)?;
    }
    stream.synchronize()?;
    pattern.verify(0, &context.read(&stream, &writable)?, "the memory after rejected writes")?;
    // The other object keeps its permissions: the duplicate sees its writes.
    stream.fill(&writable, 0x77)?;
    stream.synchronize()?;
    let mut found = vec![0; SIZE];
    duplicate.read(0, &mut found)?;
    verify_bytes(&found, 0x77, "the duplicate is not the same memory")?;
    // The memory lives as long as either object.
    drop((writable, buffer));
    verify_bytes(&context.read(&stream, &readable)?, 0x77, "the duplicate lost its memory")
}

fn attributes(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    for alignment in [1, 512, 1 << 16] {
        let asked = rig.shared(12_345).alignment(alignment).permission(Permission::ReadOnly);
        let buffer = rig.allocate(&asked)?;
        let properties = buffer.properties();
        ensure_eq!(properties.size(), 12_345, "bytes");
        let granted = properties.alignment();
        ensure!(granted >= alignment && granted.is_power_of_two(), "alignment {granted} for {alignment}");
        // The allocating module may write.
        ensure!(!buffer.is_read_only() && properties.has_cpu_access(), "{properties:?}");
        ensure!(properties.planes().is_empty(), "a raw buffer has planes: {properties:?}");
        let ids: Vec<_> = properties.gpus().iter().map(|gpu| gpu.id).collect();
        ensure_eq!(ids, [rig.gpu], "GPUs");
        let memory = context.device().import_memory(buffer.import_request())?;
        ensure_eq!(memory.size(), 12_345, "bytes of the import");
        ensure_eq!(memory.nv_sci_buf(), Some(buffer.for_import()), "the import's properties");
    }
    Ok(())
}

fn several_lists(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let gpu = rig.list(&BufferAttributes::raw(8192).alignment(256).gpu(GpuAttributes::new(rig.gpu)))?;
    let cpu = rig.list(&BufferAttributes::raw_of_any_size().alignment(1 << 17).cpu_access(true))?;
    let reconciled = BufferAttributeList::reconcile(&[&cpu, &gpu])?;
    let properties = reconciled.properties();
    ensure_eq!((properties.size(), properties.has_cpu_access()), (8192, true), "size and CPU access");
    ensure!(properties.alignment() >= 1 << 17, "alignment {}", properties.alignment());
    // Lists may be dropped before their buffers, and several buffers allocated.
    drop((gpu, cpu));
    let (first, second) = (reconciled.allocate()?, reconciled.allocate()?);
    drop(reconciled);
    first.write(0, &[1; 8192])?;
    second.write(0, &[2; 8192])?;
    let stream = context.stream()?;
    for (buffer, expected) in [(first, 1), (second, 2)] {
        let found = context.read(&stream, &import(context, &buffer)?)?;
        verify_bytes(&found, expected, format_args!("buffer {expected} holds something else"))?;
    }
    Ok(())
}

fn cache(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    for enabled in [false, true] {
        let gpu = GpuAttributes::new(rig.gpu).cache(enabled);
        let buffer = rig.allocate(&BufferAttributes::raw(4096).gpu(gpu))?;
        let memory = context.device().import_memory(buffer.import_request())?;
        let granted = memory.nv_sci_buf().and_then(|properties| properties.gpu(context.device().identity()));
        ensure_eq!(granted.map(|gpu| gpu.cache), Some(Some(enabled)), "whether it is cached");
        // A coherent cache needs no memory synchronisation.
        ensure_eq!(granted.map(|gpu| gpu.needs_memsync), Some(Some(false)), "whether memory must be synchronised");
    }
    Ok(())
}

fn compression(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    for (asks, cpu, expected) in [(false, false, false), (true, false, true), (true, true, false)] {
        let gpu = GpuAttributes::new(rig.gpu).compression(asks);
        let buffer = rig.allocate(&BufferAttributes::raw(4096).cpu_access(cpu).gpu(gpu))?;
        let memory = context.device().import_memory(buffer.import_request())?;
        let granted = memory.nv_sci_buf().and_then(|properties| properties.gpu(context.device().identity()));
        ensure_eq!(granted.map(|gpu| gpu.compression), Some(Some(expected)), "asked {asks}, CPU {cpu}: compressed");
    }
    Ok(())
}

const PLANE: PlaneAttributes = PlaneAttributes { width: 100, height: 37, format: ColorFormat::A8B8G8R8 };
const ROW: usize = 400;

fn image_attributes(rig: &Rig, image: ImageAttributes) -> BufferAttributes {
    BufferAttributes::image(image).cpu_access(true).gpu(GpuAttributes::new(rig.gpu))
}

fn bytes(number: u64) -> Verdict<usize> {
    usize::try_from(number).map_err(|error| Stop::failed(error.to_string()))
}

fn rows(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let buffer = rig.allocate(&image_attributes(&rig, ImageAttributes::new(ImageLayout::PitchLinear, PLANE)))?;
    let [plane] = buffer.properties().planes() else { return Err(Stop::failed(format!("{:?}", buffer.properties()))) };
    ensure!(u64::from(plane.pitch) >= ROW as u64 && plane.aligned_height >= PLANE.height, "too small: {plane:?}");
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let start = |row: u32| plane.offset + u64::from(row) * u64::from(plane.pitch);
    for row in 0..PLANE.height {
        buffer.write(start(row), &pattern.bytes(u64::from(row) * ROW as u64, ROW))?;
    }
    let found = context.read(&stream, &super::import(context, &buffer)?)?;
    ensure_eq!(found.len() as u64, buffer.properties().size(), "bytes of the import");
    for row in 0..PLANE.height {
        let at = bytes(start(row))?;
        pattern.verify(u64::from(row) * ROW as u64, &found[at..at + ROW], format_args!("row {row}"))?;
    }
    Ok(())
}

fn array(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let buffer = rig.allocate(&image_attributes(&rig, ImageAttributes::new(ImageLayout::PitchLinear, PLANE)))?;
    let plane = buffer.properties().planes()[0];
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let start = |row: usize| plane.offset + (row as u64) * u64::from(plane.pitch);
    let height = PLANE.height as usize;
    for row in 0..height {
        buffer.write(start(row), &pattern.bytes((row * ROW) as u64, ROW))?;
    }
    let memory = context.device().import_memory(buffer.import_request())?;
    let mapped = memory.map_mipmapped_array(&buffer.array_desc(0)?)?;
    let mut texels = vec![0; ROW * height];
    stream.read_array(mapped.level(0)?, &mut texels)?;
    pattern.verify(0, &texels, "texels that the device reads")?;
    texels.iter_mut().for_each(|byte| *byte = !*byte);
    stream.write_array(mapped.level(0)?, &texels)?;
    for row in 0..height {
        let mut found = [0; ROW];
        buffer.read(start(row), &mut found)?;
        compare(&found, &texels[row * ROW..(row + 1) * ROW], format_args!("row {row} of the device's data"))?;
    }
    duplicated(context, &buffer, &texels)?;
    // Only the device knows the block-linear layout.
    let image = BufferAttributes::image(ImageAttributes::new(ImageLayout::BlockLinear, PLANE));
    let buffer = rig.allocate(&image.gpu(GpuAttributes::new(rig.gpu)))?;
    let memory = context.device().import_memory(buffer.import_request())?;
    let mapped = memory.map_mipmapped_array(&buffer.array_desc(0)?)?;
    stream.write_array(mapped.level(0)?, &pattern.bytes(0, ROW * height))?;
    texels.fill(0);
    stream.read_array(mapped.level(0)?, &mut texels)?;
    pattern.verify(0, &texels, "texels of a block-linear image")?;
    duplicated(context, &buffer, &texels)
}

/// A read-only duplicate's texels can be read, and not written.
fn duplicated(context: &Context, buffer: &Buffer, texels: &[u8]) -> Verdict {
    let stream = context.stream()?;
    let memory = context.device().import_memory(buffer.read_only()?.import_request())?;
    let mapped = memory.map_mipmapped_array(&buffer.array_desc(0)?)?;
    let mut again = vec![0; texels.len()];
    stream.read_array(mapped.level(0)?, &mut again)?;
    compare(&again, texels, "texels of the duplicate")?;
    expect_error(stream.write_array(mapped.level(0)?, &again), ErrorKind::InvalidArgument, "writing to the duplicate")?;
    Ok(())
}

fn planes(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let image = ImageAttributes::new(ImageLayout::PitchLinear, PlaneAttributes { format: ColorFormat::Y8, ..PLANE })
        .plane(PlaneAttributes { width: 50, height: 19, format: ColorFormat::Y16 })
        .plane(PLANE);
    let buffer = rig.allocate(&image_attributes(&rig, image))?;
    let properties = buffer.properties();
    let formats: Vec<_> = properties.planes().iter().map(|plane| plane.format).collect();
    let expected = [ColorFormat::Y8, ColorFormat::Y16, ColorFormat::A8B8G8R8].map(Some);
    ensure_eq!(formats, expected, "formats");
    ensure_eq!(buffer.for_import().planes, 3, "planes in the import");
    let mut end = 0;
    for (number, plane) in properties.planes().iter().enumerate() {
        ensure!(plane.offset >= end, "plane {number} begins in the one before: {plane:?}");
        end = plane.offset + plane.size;
        buffer.write(plane.offset, &vec![u8::try_from(number).unwrap_or(0) + 1; bytes(plane.size)?])?;
    }
    ensure!(end <= properties.size(), "the planes end behind the buffer: {properties:?}");
    let stream = context.stream()?;
    let found = context.read(&stream, &super::import(context, &buffer)?)?;
    for (plane, number) in properties.planes().iter().zip(1..) {
        let at = bytes(plane.offset)?;
        verify_bytes(&found[at..at + bytes(plane.size)?], number, format_args!("plane {number} was overwritten"))?;
    }
    expect_error(buffer.array_desc(3), ErrorKind::InvalidArgument, "a fourth plane")?;
    Ok(())
}

fn mip_levels(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let buffer = rig.allocate(&image_attributes(&rig, ImageAttributes::new(ImageLayout::PitchLinear, PLANE)))?;
    let desc = buffer.array_desc(0)?;
    ensure_eq!(desc.levels, 1, "levels");
    let memory = context.device().import_memory(buffer.import_request())?;
    for desc in [desc.with_levels(2), desc.with_levels(7), desc.with_layout_levels(Some(7))] {
        let error = expect_error(memory.map_mipmapped_array(&desc), ErrorKind::InvalidArgument, "mip levels")?;
        ensure!(error.code().is_none() && error.message().contains("one mip level"), "{error}");
    }
    memory.map_mipmapped_array(&desc)?;
    Ok(())
}
