//! Leak checks.

use gpu_interop::d3d::d3d12::{ExportableFence, ExportableHeap, ExportableResource, HeapContents, HeapOptions};
use gpu_interop::d3d::{ResourceFlags, Sharing, d3d11};

use super::{buffer11, import, open11, open12};
use crate::leak_check::leak_check;
use crate::scenario::scenarios;
use crate::{Context, PATIENCE, Verdict};

scenarios! {
    "d3d.10000_cycles", None,
        "10,000 cycles of export, import, data and close of a heap, a committed resource and a fence of Direct3D 12 leave \
         handles, mappings and memory as before, and close no handle twice.",
        cycles12, needs [memory D3d12Heap, memory D3d12Resource, semaphore D3d12Fence], counts_resources, within(240);
    "d3d.10000_cycles_11", None,
        "10,000 such cycles of a Direct3D 11 buffer, its keyed mutex and a fence leave handles, mappings and memory as before.",
        cycles11, needs [memory D3d11Resource, memory D3d11ResourceKmt, semaphore D3d11Fence, semaphore D3d11KeyedMutex,
            semaphore D3d11KeyedMutexKmt], counts_resources, within(240);
}

fn cycles12(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let heap = ExportableHeap::new(gpu.interop(), &HeapOptions::new(1, HeapContents::Buffers))?;
    let resource = ExportableResource::buffer(gpu.interop(), 1, ResourceFlags::empty())?;
    let stream = context.stream()?;
    let placed = heap.place_buffer(0, 1, ResourceFlags::empty())?;
    leak_check(10_000, |number| {
        // Handles that were exported and never imported are closed by their request.
        drop(heap.import_request()?);
        let fence = ExportableFence::new(gpu.interop(), 0)?;
        let semaphore = context.device().import_semaphore(fence.import_request()?)?;
        let of_heap = import(context, heap.import_request()?)?;
        let of_resource = import(context, resource.import_request()?)?;
        let byte = number.to_le_bytes()[0];
        stream.fill(of_heap.slice(0..1)?, byte)?;
        stream.fill(of_resource.slice(0..1)?, !byte)?;
        stream.signal(&[semaphore.signal_value(1)])?;
        fence.wait(1, PATIENCE)?;
        let (mut first, mut second) = ([0], [0]);
        gpu.read(placed.resource(), 0, &mut first)?;
        gpu.read(resource.resource(), 0, &mut second)?;
        crate::ensure!((first, second) == ([byte], [!byte]), "cycle {number}: other data");
        semaphore.close()?;
        of_heap.close()?;
        Ok(of_resource.close()?)
    })
}

fn cycles11(context: &Context) -> Verdict {
    let sharing = Sharing::NtHandleKeyedMutex;
    let gpu = open11(context)?;
    let stream = context.stream()?;
    leak_check(10_000, |number| {
        // By NT and KMT handle in turn: the second must not be closed, the first must.
        let sharing = if number % 2 == 0 { sharing } else { Sharing::KmtKeyedMutex };
        let buffer = buffer11(&gpu, 1, sharing)?;
        let mutex = buffer.keyed_mutex()?;
        drop(buffer.import_request()?);
        let mapped = context.device().import_memory(buffer.import_request()?)?.map_buffer(0..1)?;
        let semaphore = context.device().import_semaphore(mutex.import_request()?)?;
        let fence = d3d11::ExportableFence::new(gpu.interop(), 0)?;
        let fenced = context.device().import_semaphore(fence.import_request()?)?;
        let byte = number.to_le_bytes()[0];
        stream.wait(&[semaphore.acquire_key(0, Some(PATIENCE))])?;
        stream.fill(&mapped, byte)?;
        stream.signal(&[semaphore.release_key(1)])?;
        stream.signal(&[fenced.signal_value(1)])?;
        gpu.acquire(&mutex, 1, Some(PATIENCE))?;
        fence.wait(1, PATIENCE)?;
        let found = gpu.read(buffer.resource(), 1)?;
        crate::ensure!(found == [byte], "cycle {number}: other data");
        gpu.release(&mutex, 0)?;
        stream.synchronize_timeout(PATIENCE)?;
        semaphore.close()?;
        fenced.close()?;
        Ok(mapped.close()?)
    })
}
