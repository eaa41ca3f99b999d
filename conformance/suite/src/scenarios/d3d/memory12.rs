//! Memory of Direct3D 12: heaps with placed resources, committed resources, and names.

use gpu_interop::ErrorKind;
use gpu_interop::d3d::ResourceFlags;
use gpu_interop::d3d::d3d12::{ExportableHeap, ExportableResource, HeapContents, HeapOptions};

use super::{SIZE, import, import_sized, name, open12};
use crate::context::Context;
use crate::outcome::Verdict;
use crate::request;
use crate::scenario::scenarios;
use crate::scenarios::expect_error;
use crate::{ensure, ensure_eq};

scenarios! {
    "d3d.heap_of_two_buffers", None,
        "Two buffers on a heap of Direct3D 12 map at their offsets; data goes both ways, and the bytes between stay.", heap,
        needs [memory D3d12Heap],
        mirrors("CUDA C++ Programming Guide: Direct3D 12 interoperability, importing memory objects");
    "d3d.committed_resource", None,
        "A committed resource imports as dedicated, which its request states; data goes both ways.", committed,
        needs [memory D3d12Resource], mirrors("intel/llvm: dx12_interop");
    "d3d.resource_by_name", None,
        "A committed resource and a heap import by the name that they were shared under; the name ends with its last user.",
        named, needs [memory D3d12Heap, memory D3d12Resource, NamedMemory], mirrors("cuda-samples: simpleD3D12");
}

/// `D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT`.
const PLACE: u64 = 64 << 10;

fn heap(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let size = 3 * PLACE + SIZE as u64;
    let heap = ExportableHeap::new(gpu.interop(), &HeapOptions::new(size, HeapContents::Buffers))?;
    let (first, second) = (
        heap.place_buffer(PLACE, SIZE as u64, ResourceFlags::empty())?,
        heap.place_buffer(3 * PLACE, SIZE as u64, ResourceFlags::ALLOW_UNORDERED_ACCESS)?,
    );
    let request = heap.import_request()?;
    ensure!(!request.is_dedicated(), "a heap is no dedicated allocation");
    let memory = context.device().import_memory(request)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    // The whole heap, so that the bytes between the resources are checked, too.
    let whole = memory.map_buffer(0..size)?;
    stream.fill(&whole, 0x11)?;
    stream.synchronize()?;
    for (level, placed) in [&first, &second].into_iter().enumerate() {
        let pattern = pattern.level(u32::try_from(level).unwrap_or(0));
        gpu.write(placed.resource(), 0, &pattern.bytes(0, SIZE))?;
        let mapped = memory.map_buffer(placed.offset()..placed.offset() + placed.size()?)?;
        pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
        let other = pattern.other();
        stream.write(&mapped, &other.bytes(0, SIZE))?;
        let mut found = vec![0; SIZE];
        gpu.read(placed.resource(), 0, &mut found)?;
        other.verify(0, &found, "the device's data")?;
    }
    let found = context.read(&stream, &whole)?;
    let (page, size) = (usize::try_from(PLACE)?, SIZE);
    for (what, gap) in [("before", 0..page), ("between", page + size..3 * page)] {
        ensure!(found[gap].iter().all(|byte| *byte == 0x11), "the bytes {what} the buffers were written");
    }
    Ok(())
}

fn committed(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    for size in [1, 4096, 4097, 1 << 20] {
        let buffer = ExportableResource::buffer(gpu.interop(), size as u64, ResourceFlags::empty())?;
        let request = buffer.import_request()?;
        ensure!(request.is_dedicated(), "the request of a committed resource lacks the dedicated flag");
        ensure!(request.size() >= size as u64, "{} bytes for {size}", request.size());
        // Drivers reject it without the flag; the library rejects it before the driver is called.
        let not = context.device().import_memory(request::with_dedicated(buffer.import_request()?, false));
        crate::scenarios::rejected(not, &[ErrorKind::InvalidArgument], "a committed resource that is not dedicated")?;
        let mapped = context.device().import_memory(request)?.map_buffer(0..size as u64)?;
        gpu.write(buffer.resource(), 0, &pattern.bytes(0, size))?;
        pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
        let other = pattern.other();
        stream.write(&mapped, &other.bytes(0, size))?;
        let mut found = vec![0; size];
        gpu.read(buffer.resource(), 0, &mut found)?;
        other.verify(0, &found, "the device's data")?;
    }
    Ok(())
}

fn named(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let (of_buffer, of_heap) = (name("buffer")?, name("heap")?);
    let buffer = ExportableResource::buffer(gpu.interop(), SIZE as u64, ResourceFlags::empty())?;
    let (kept, request) = buffer.import_request_by_name(&of_buffer)?;
    let again = buffer.import_request_by_name(&of_buffer);
    expect_error(again, ErrorKind::InvalidArgument, "a name that is taken")?;
    let mapped = import_sized(context, request, SIZE)?;
    gpu.write(buffer.resource(), 0, &pattern.bytes(0, SIZE))?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
    // The import keeps the memory.
    drop(kept);
    stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
    let mut found = vec![0; SIZE];
    gpu.read(buffer.resource(), 0, &mut found)?;
    pattern.other().verify(0, &found, "the device's data once the handle was closed")?;
    mapped.close()?;
    let gone = gpu.interop().open_by_name(&of_buffer);
    expect_error(gone, ErrorKind::InvalidArgument, "a name whose handles and imports are closed")?;

    let heap = ExportableHeap::new(gpu.interop(), &HeapOptions::new(PLACE, HeapContents::Buffers))?;
    let (_kept, request) = heap.import_request_by_name(&of_heap)?;
    let placed = heap.place_buffer(0, SIZE as u64, ResourceFlags::empty())?;
    let mapped = import(context, request)?;
    ensure_eq!(mapped.size(), PLACE, "bytes of the heap");
    stream.fill(&mapped, 0x7e)?;
    stream.synchronize()?;
    gpu.read(placed.resource(), 0, &mut found)?;
    ensure!(found.iter().all(|byte| *byte == 0x7e), "the heap that has the name is another");
    Ok(())
}
