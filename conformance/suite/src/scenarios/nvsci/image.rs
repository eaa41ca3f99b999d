//! Images.

use gpu_interop::ErrorKind;
use gpu_interop::nvsci::{
    Buffer, BufferAttributes, ColorFormat, GpuAttributes, ImageAttributes, ImageLayout, PlaneAttributes,
};

use super::Rig;
use crate::scenario::scenarios;
use crate::scenarios::expect_error;
use crate::{Context, Stop, Verdict, ensure, ensure_eq};

scenarios! {
    all need [memory NvSciBuf, semaphore NvSciSync, NvSciSyncAttributes];
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

const PLANE: PlaneAttributes = PlaneAttributes { width: 100, height: 37, format: ColorFormat::A8B8G8R8 };
const ROW: usize = 400;

fn attributes(rig: &Rig, image: ImageAttributes) -> BufferAttributes {
    BufferAttributes::image(image).cpu_access(true).gpu(GpuAttributes::new(rig.gpu))
}

fn bytes(number: u64) -> Verdict<usize> {
    usize::try_from(number).map_err(|error| Stop::failed(error.to_string()))
}

fn rows(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let buffer = rig.allocate(&attributes(&rig, ImageAttributes::new(ImageLayout::PitchLinear, PLANE)))?;
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
        pattern.verify(u64::from(row) * ROW as u64, &found[at..at + ROW], &format!("row {row}"))?;
    }
    Ok(())
}

fn array(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let buffer = rig.allocate(&attributes(&rig, ImageAttributes::new(ImageLayout::PitchLinear, PLANE)))?;
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
        ensure!(found == texels[row * ROW..(row + 1) * ROW], "row {row} is not the device's data");
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
    ensure!(again == texels, "the duplicate has other texels");
    expect_error(stream.write_array(mapped.level(0)?, &again), ErrorKind::InvalidArgument, "writing to the duplicate")?;
    Ok(())
}

fn planes(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let image = ImageAttributes::new(ImageLayout::PitchLinear, PlaneAttributes { format: ColorFormat::Y8, ..PLANE })
        .plane(PlaneAttributes { width: 50, height: 19, format: ColorFormat::Y16 })
        .plane(PLANE);
    let buffer = rig.allocate(&attributes(&rig, image))?;
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
        ensure!(
            found[at..at + bytes(plane.size)?].iter().all(|byte| *byte == number),
            "plane {number} was overwritten"
        );
    }
    expect_error(buffer.array_desc(3), ErrorKind::InvalidArgument, "a fourth plane")?;
    Ok(())
}

fn mip_levels(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let buffer = rig.allocate(&attributes(&rig, ImageAttributes::new(ImageLayout::PitchLinear, PLANE)))?;
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
