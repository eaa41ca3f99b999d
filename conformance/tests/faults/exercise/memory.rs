//! Imports of every kind, mappings, copies, words that streams wait for, exportable memory, and images.

use std::os::fd::AsFd;
use std::ptr::NonNull;

use gpu_interop::handle::{NvSciBufObject, NvSciSyncObject};
use gpu_interop::{
    ArrayFormat, ArrayShape, ArrayUsage, ChannelType, ErrorKind, ExternalMemory, Feature, MappedMipmappedArray,
    MemoryHandle, MipmappedArrayDesc, Result, SemaphoreHandle, TextureDesc, WaitCondition,
};

use crate::exercise::bench::{Bench, SIZE, file, memory_request, seen, semaphore_request};
use crate::simulator::ObjectKind;

/// Imports of memory, and requests that are rejected before the driver is called.
pub(super) fn imports(bench: &Bench<'_>) -> Result<()> {
    let request = |handle| memory_request(handle, SIZE);
    let plain = bench.import(request(MemoryHandle::OpaqueFd(file())))?;
    // SAFETY: the simulator stores the flag, without further effect.
    let dedicated = unsafe { request(MemoryHandle::OpaqueFd(file())).dedicated(true) };
    let dedicated = bench.import(dedicated.exported_by(bench.device.identity().clone()))?;
    bench.check(plain.as_raw() != dedicated.as_raw(), "two imports are one");
    bench.closed(ObjectKind::Imports, plain.close());
    drop(dedicated);

    // Not the address of an NvSci object, which is never dereferenced, because the kind is rejected.
    let object = NonNull::dangling();
    // SAFETY: as above.
    let nv_sci = unsafe { NvSciBufObject::from_raw(object) };
    // A memory file is not a dma-buf, whatever the request declares, and a directory is not memory.
    let folder = std::fs::File::open("/").expect("a folder");
    for handle in [
        MemoryHandle::DmaBufFd(file()),
        MemoryHandle::NvSciBuf(nv_sci),
        MemoryHandle::OpaqueFd(folder.as_fd().try_clone_to_owned().expect("a descriptor")),
    ] {
        refused(bench, bench.device.import_memory(request(handle)).map_err(Into::into));
    }
    // SAFETY: as for the other one.
    let nv_sci = unsafe { NvSciSyncObject::from_raw(object) };
    for handle in [SemaphoreHandle::NvSciSync(nv_sci), SemaphoreHandle::OpaqueFd(folder.into())] {
        refused(bench, bench.device.import_semaphore(semaphore_request(handle)).map_err(Into::into));
    }
    Ok(())
}

/// Checks a rejection without a driver call.
fn refused<T>(bench: &Bench<'_>, result: Result<T>) {
    match result {
        Err(error) if error.code().is_none() && error.operation().starts_with("Device::") => {
            let kinds = [ErrorKind::Unsupported, ErrorKind::InvalidArgument, ErrorKind::SymbolMissing];
            bench.check(kinds.contains(&error.kind()), &format!("not a refusal: {error}"));
        }
        Err(error) => bench.wrong(format!("not refused before the driver was called: {error}")),
        Ok(_) => bench.wrong("imported an invalid handle"),
    }
}

/// Mappings of one import, which outlive it.
pub(super) fn mappings(bench: &Bench<'_>) -> Result<()> {
    let (memory, file) = bench.memory()?;
    let all = memory.map_buffer(..)?;
    let part = memory.map_buffer(1024..2048)?;
    bench.check(all.as_raw() != part.as_raw(), "two mappings are one");
    // Its mappings keep the import alive.
    bench.closed(ObjectKind::Imports, memory.close());
    let stream = bench.device.create_stream()?;
    stream.fill(&part, 0x5a)?;
    stream.synchronize()?;
    let mut bytes = [0; 8];
    stream.read(all.slice(1020..1028)?, &mut bytes)?;
    bench.check(bytes == [0, 0, 0, 0, 0x5a, 0x5a, 0x5a, 0x5a], "the mappings do not show the same memory");
    bench.check(seen(&file, 1020) == bytes, "the exporter does not see what was written");
    bench.closed(ObjectKind::Mappings, all.close());
    drop(part);
    bench.closed(ObjectKind::Streams, stream.close());
    Ok(())
}

/// Host memory that late work may use after the exercise: it is never freed.
fn host(value: u8) -> *mut u8 {
    Box::leak(Box::new([value; 64])).as_mut_ptr()
}

/// Copies and fills, with the data.
pub(super) fn copies(bench: &Bench<'_>) -> Result<()> {
    let stream = bench.device.create_stream()?;
    let ((first, _), (second, file)) = (bench.buffer()?, bench.buffer()?);
    let pattern: Vec<u8> = (0..64).collect();
    stream.write(first.slice(..64)?, &pattern)?;
    stream.copy(second.slice(128..192)?, first.slice(..64)?)?;
    let mut back = [0; 64];
    stream.read(second.slice(128..192)?, &mut back)?;
    bench.check(back[..] == pattern[..], "the data written, copied and read differs");
    stream.fill(second.slice(..4)?, 7)?;
    stream.fill_u32(second.slice(4..8)?, 0x0403_0201)?;

    let (source, target) = (host(9), host(0));
    // SAFETY: both have that size, and are never freed.
    unsafe {
        stream.write_async(first.slice(64..128)?, source)?;
        stream.read_async(first.slice(64..128)?, target)?;
    }
    stream.synchronize()?;
    // SAFETY: the copy has run.
    let copied = unsafe { target.cast::<[u8; 64]>().read_volatile() };
    bench.check(copied == [9; 64], "asynchronous copies have another result");
    bench.check(seen(&file, 0) == [7, 7, 7, 7, 1, 2, 3, 4], "fills have another result");
    bench.closed(ObjectKind::Mappings, first.close());
    drop((second, stream));
    Ok(())
}

/// Words in memory that the stream writes and waits for.
pub(super) fn words(bench: &Bench<'_>) -> Result<()> {
    let (buffer, file) = bench.buffer()?;
    let stream = bench.device.create_stream()?;
    let (narrow, wide) = (buffer.slice(..4)?, buffer.slice(8..16)?);
    // Written before any wait, so that no wait is infinite.
    stream.write_value_u32(narrow, 5)?;
    stream.wait_value_u32(narrow, 5, WaitCondition::Equal)?;
    stream.write_value_u64(wide, 6)?;
    stream.wait_value_u64(wide, 6, WaitCondition::GreaterOrEqual)?;
    stream.synchronize()?;
    bench.check(seen(&file, 0) == [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0], "the words are others");
    Ok(())
}

/// Data written to one is read from the other, also after the first is freed.
pub(super) fn exportable(bench: &Bench<'_>) -> Result<()> {
    const SIZE: u64 = 100;
    let memory = bench.device.allocate_exportable(SIZE)?;
    bench.check(memory.size() >= SIZE, "less memory than requested");
    let handle = memory.export()?;
    let stream = bench.device.create_stream()?;
    stream.fill(memory.slice(..SIZE)?, 0x33)?;
    stream.synchronize()?;
    let imported = bench.import(memory_request(handle, memory.size()))?;
    let buffer = imported.map_buffer(0..SIZE)?;
    bench.closed_allocation(memory.close());
    let mut bytes = vec![0; 100];
    stream.read(&buffer, &mut bytes)?;
    bench.check(bytes == [0x33; 100], "exported memory is not the memory that was written");
    drop(imported);
    bench.closed(ObjectKind::Mappings, buffer.close());
    // Uses the driver's own import, if it has one.
    let memory = bench.device.allocate_exportable(SIZE)?;
    stream.fill(memory.slice(..SIZE)?, 0x44)?;
    let native = bench.import(memory.import_request()?)?;
    let buffer = native.map_buffer(0..SIZE)?;
    let read = stream.read(&buffer, &mut bytes);
    bench.closed_allocation(memory.close());
    bench.closed(ObjectKind::Mappings, buffer.close());
    // This import is also an allocation.
    if bench.device.backend().name == "cuda" {
        bench.closed_allocation(native.close());
    } else {
        bench.closed(ObjectKind::Imports, native.close());
    }
    read?;
    bench.check(bytes == [0x44; 100], "native memory is not the memory that was written");
    // An allocation that is only dropped.
    bench.device.allocate_exportable(SIZE).map(drop)
}

fn desc() -> MipmappedArrayDesc {
    let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("a format");
    let shape = ArrayShape::D2 { width: 8, height: 4 };
    MipmappedArrayDesc::new(shape, format).with_levels(2).with_usage(ArrayUsage::SURFACE_LOAD_STORE)
}

/// An image in the simulator's own memory, which has a known layout.
fn new_image(bench: &Bench<'_>) -> Result<(ExternalMemory, MappedMipmappedArray)> {
    let memory = bench.device.allocate_exportable(1 << 16)?;
    let imported = bench.import(memory_request(memory.export()?, memory.size()))?;
    let image = imported.map_mipmapped_array(&desc())?;
    Ok((imported, image))
}

fn has_images(bench: &Bench<'_>) -> Result<bool> {
    let (memory, _) = bench.memory()?;
    Ok(bench.has(Feature::MappedMipmappedArray, || memory.map_mipmapped_array(&desc())))
}

/// Copies of images in each direction, with the data.
pub(super) fn images(bench: &Bench<'_>) -> Result<()> {
    if !has_images(bench)? {
        return Ok(());
    }
    let (memory, image) = new_image(bench)?;
    let (other_memory, other) = new_image(bench)?;
    let stream = bench.device.create_stream()?;
    let texels: Vec<u8> = (0..128).collect();
    let level = image.level(0)?;
    stream.write_array(level, &texels)?;
    stream.copy_array(other.level(0)?, level)?;
    let (buffer, _) = bench.buffer()?;
    stream.copy_from_array(buffer.slice(..128)?, other.level(0)?)?;
    stream.copy_to_array(image.level(1)?, buffer.slice(..32)?)?;
    let (mut whole, mut small) = ([0; 128], [0; 32]);
    stream.read_array(other.level(0)?, &mut whole)?;
    stream.read_array(image.level(1)?, &mut small)?;
    bench.check(whole[..] == texels[..] && small[..] == texels[..32], "copies of images have another result");
    bench.closed(ObjectKind::Arrays, image.close());
    bench.closed(ObjectKind::Imports, memory.close());
    drop((other_memory, other));
    Ok(())
}

pub(super) fn surfaces_and_textures(bench: &Bench<'_>) -> Result<()> {
    if !has_images(bench)? {
        return Ok(());
    }
    let (memory, image) = new_image(bench)?;
    let (surface, dropped) = (image.surface(0)?, image.surface(1)?);
    let desc = TextureDesc::new();
    let texture = image.texture_of_level(0, &desc)?;
    let all = image.texture(&desc.with_normalized_coordinates(true))?;
    bench.check(surface.as_raw() != dropped.as_raw() && texture.as_raw() != all.as_raw(), "two objects are one");
    drop(memory);
    // They keep the image alive.
    bench.closed(ObjectKind::Arrays, image.close());
    bench.closed(ObjectKind::Surfaces, surface.close());
    bench.closed(ObjectKind::Textures, texture.close());
    drop((dropped, all));
    Ok(())
}
