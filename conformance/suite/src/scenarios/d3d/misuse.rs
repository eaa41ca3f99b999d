//! Requests for Direct3D objects that must be rejected, and resources after many cycles.

use gpu_interop::d3d::d3d11::{self, D3d11Interop};
use gpu_interop::d3d::d3d12::{
    D3d12Interop, ExportableFence, ExportableHeap, ExportableResource, HeapContents, HeapOptions,
};
use gpu_interop::d3d::{ResourceFlags, Sharing};
use gpu_interop::{DeviceIdentity, ErrorKind, Luid};

use super::{buffer11, import, open11, open12};
use crate::context::Context;
use crate::leak_check::leak_check;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::scenario::scenarios;
use crate::scenarios::{expect_error, rejected};
use crate::{ensure, request};

scenarios! {
    "d3d.foreign_adapter", None,
        "Memory and fences of another adapter or node are rejected before the driver is called, with both identities, and \
         the handles come back.",
        foreign, needs [memory D3d12Resource, memory D3d11Resource];
    "d3d.bad_requests", None,
        "Empty buffers, fences at the greatest value, names for unnamed objects and decreasing signals are rejected.", bad,
        needs [memory D3d12Resource, memory D3d11ResourceKmt];
    "d3d.10000_cycles", None,
        "10,000 cycles of export, import, data and close of a heap, a committed resource and a fence of Direct3D 12 leave \
         handles, mappings and memory as before, and close no handle twice.",
        cycles12, needs [memory D3d12Heap, memory D3d12Resource, semaphore D3d12Fence], counts_resources, within(240);
    "d3d.10000_cycles_11", None,
        "10,000 such cycles of a Direct3D 11 buffer, its keyed mutex and a fence leave handles, mappings and memory as before.",
        cycles11, needs [memory D3d11Resource, memory D3d11ResourceKmt, semaphore D3d11Fence, semaphore D3d11KeyedMutex,
            semaphore D3d11KeyedMutexKmt], counts_resources, within(240);
}

/// The same identity with another LUID or node mask.
fn other_devices(identity: &DeviceIdentity) -> Verdict<[DeviceIdentity; 2]> {
    let luid = identity.luid.ok_or_else(|| Stop::failed("Direct3D's device has no LUID".into()))?;
    let mut bytes = luid.bytes;
    bytes[0] ^= 0xff;
    let with = |luid| identity.clone().with_luid(Some(luid));
    Ok([with(Luid { bytes, ..luid }), with(Luid { node_mask: luid.node_mask << 1, ..luid })])
}

fn foreign(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let buffer = ExportableResource::buffer(gpu.interop(), 4096, ResourceFlags::empty())?;
    let fence = ExportableFence::new(gpu.interop(), 0)?;
    for other in other_devices(gpu.interop().identity())? {
        let request = request::memory_with(buffer.export()?, buffer.size(), true);
        let result = context.device().import_memory(request.exported_by(other.clone()));
        let (error, request) = rejected(result, &[ErrorKind::DeviceMismatch], "memory of another device")?;
        ensure!(error.code().is_none(), "a driver was called: {error}");
        let both = error.mismatch().map(|both| both.exporter.luid);
        ensure!(both == Some(other.luid), "the exporter is not named: {error}");
        // The handle is returned intact: it imports under its own identity.
        let whole = request::memory_with(request.into_handle(), buffer.size(), true);
        context.device().import_memory(whole.exported_by(gpu.interop().identity().clone()))?;

        let request = request::semaphore(fence.export()?).exported_by(other.clone());
        let result = context.device().import_semaphore(request);
        let (_, request) = rejected(result, &[ErrorKind::DeviceMismatch], "a fence of another device")?;
        context.device().import_semaphore(request::semaphore(request.into_handle()))?;

        let device = gpu.interop().device();
        let opened = D3d12Interop::for_importer(device, &other);
        let error = expect_error(opened.map(drop), ErrorKind::DeviceMismatch, "an importer that is another")?;
        ensure!(error.mismatch().is_some_and(|both| both.importer.luid == other.luid), "not named: {error}");
    }
    let eleven = open11(context)?;
    for other in other_devices(eleven.interop().identity())? {
        let opened = D3d11Interop::for_importer(eleven.interop().device(), &other);
        expect_error(opened.map(drop), ErrorKind::DeviceMismatch, "an importer that is another")?;
    }
    Ok(())
}

fn bad(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let interop = gpu.interop();
    let invalid = ErrorKind::InvalidArgument;
    expect_error(ExportableResource::buffer(interop, 0, ResourceFlags::empty()), invalid, "a buffer of no bytes")?;
    expect_error(ExportableFence::new(interop, u64::MAX), invalid, "a fence at the greatest value")?;
    let fence = ExportableFence::new(interop, 5)?;
    for value in [0, 5, u64::MAX] {
        expect_error(fence.signal(value), invalid, &format!("a signal of {value} at 5"))?;
        expect_error(fence.queue_signal(gpu.queue(), u64::MAX), invalid, "a queue's signal of the greatest value")?;
    }
    ensure!(fence.value()? == 5, "a rejected signal raised the fence to {}", fence.value()?);
    let eleven = open11(context)?;
    let by_number = buffer11(&eleven, 4096, Sharing::Kmt)?;
    let named = by_number.import_request_by_name(&super::name("kmt")?);
    expect_error(named, invalid, "a name for an object with a KMT handle")?;
    expect_error(by_number.keyed_mutex(), invalid, "the keyed mutex of a resource without one")?;
    Ok(())
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
        fence.wait(1, WAIT_TIMEOUT)?;
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
        stream.wait(&[semaphore.acquire_key(0, Some(WAIT_TIMEOUT))])?;
        stream.fill(&mapped, byte)?;
        stream.signal(&[semaphore.release_key(1)])?;
        stream.signal(&[fenced.signal_value(1)])?;
        gpu.acquire(&mutex, 1, Some(WAIT_TIMEOUT))?;
        fence.wait(1, WAIT_TIMEOUT)?;
        let found = gpu.read(buffer.resource(), 1)?;
        crate::ensure!(found == [byte], "cycle {number}: other data");
        gpu.release(&mutex, 0)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        semaphore.close()?;
        fenced.close()?;
        Ok(mapped.close()?)
    })
}
