//! Fences of both versions, by handle and by name, as semaphores and as timelines.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::d3d::d3d12::{ExportableFence, ExportableResource};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::ID3D12Resource;
use gpu_interop::d3d::{ResourceFlags, Sharing, d3d11};
use gpu_interop::{ErrorKind, ExporterTimeline, Feature, MappedBuffer, SemaphoreImport, Timeline, TimelineStrategy};

use super::{SIZE, buffer11, import_sized, name, open11, open12};
use crate::context::Context;
use crate::direct3d::{Gpu11, Gpu12};
use crate::exporter::Point;
use crate::outcome::{Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::verify_bytes;
use crate::scenario::scenarios;
use crate::scenarios::{BRIEF, expect_error, keeps_waiting};
use crate::{ensure, ensure_eq};

scenarios! {
    "d3d.fence", None,
        "A queue of Direct3D 12 and a stream take 200 turns on one buffer, ordered by an imported fence; each finds the \
         other's data.",
        by_handle, needs [memory D3d12Resource, semaphore D3d12Fence],
        mirrors("CUDA C++ Programming Guide: Direct3D 12 interoperability, synchronisation objects");
    "d3d.fence_by_name", None, "The same turns are ordered by a fence that is imported by name.", by_name,
        needs [memory D3d12Resource, semaphore D3d12Fence, NamedSemaphores];
    "d3d.fence_timeline.native", None,
        "A queue and a stream take 200 turns, ordered by a Direct3D 12 fence that the driver imports as a timeline.", native,
        needs [memory D3d12Resource, semaphore D3d12Fence];
    "d3d.fence_timeline.bridge", None,
        "A queue and a stream take 200 turns, ordered by a Direct3D 12 fence whose values a host thread carries.", bridge,
        needs [memory D3d12Resource, StreamMemoryOperations64];
    "d3d.fence_11", None,
        "A context of Direct3D 11 and a stream take 100 turns on one buffer, ordered by an imported fence.", eleven,
        needs [memory D3d11Resource, semaphore D3d11Fence];
    "d3d.fence_11_timeline", None,
        "A Direct3D 11 fence works as a native timeline; a signal by the host is a typed error.", eleven_timeline,
        needs [memory D3d11Resource, semaphore D3d11Fence];
}

const TURNS: u64 = 200;

/// A buffer shared by both sides.
fn shared(context: &Context) -> Verdict<(Gpu12, ExportableResource, MappedBuffer)> {
    let gpu = open12(context)?;
    let buffer = ExportableResource::buffer(gpu.interop(), SIZE as u64, ResourceFlags::empty())?;
    let mapped = import_sized(context, buffer.import_request()?, SIZE)?;
    gpu.write(buffer.resource(), 0, &[0; SIZE])?;
    Ok((gpu, buffer, mapped))
}

fn by_handle(context: &Context) -> Verdict {
    let (gpu, buffer, mapped) = shared(context)?;
    let fence = ExportableFence::new(gpu.interop(), 0)?;
    turns(context, &gpu, buffer.resource(), &mapped, &fence, fence.import_request()?)
}

fn by_name(context: &Context) -> Verdict {
    let (gpu, buffer, mapped) = shared(context)?;
    let fence = ExportableFence::new(gpu.interop(), 0)?;
    let (kept, request) = fence.import_request_by_name(&name("fence")?)?;
    // The name is needed until the import at the start of the turns.
    let turns = turns(context, &gpu, buffer.resource(), &mapped, &fence, request);
    drop(kept);
    turns
}

/// The queue has odd values, the stream even ones.
fn turns(
    context: &Context,
    gpu: &Gpu12,
    buffer: &ID3D12Resource,
    mapped: &MappedBuffer,
    fence: &ExportableFence,
    request: SemaphoreImport,
) -> Verdict {
    let semaphore = context.device().import_semaphore(request)?;
    let stream = context.stream()?;
    let timeline: Arc<dyn ExporterTimeline> = Arc::new(fence.clone());
    let at = |value| Point { timeline: &timeline, value };
    let (log, pattern) = (context.stream()?, context.pattern());
    for turn in 0..TURNS {
        let (theirs, ours) = (2 * turn + 1, 2 * turn + 2);
        // Enqueued first, so that it has to wait.
        stream.wait(&[semaphore.wait_value(theirs)])?;
        let data = pattern.bytes(turn * SIZE as u64, SIZE);
        let exchange = gpu.exchange(buffer, at(2 * turn), &data, at(theirs))?;
        let found = exchange.finish()?;
        let expected = if turn == 0 { 0 } else { pattern.byte(turn - 1) };
        verify_bytes(&found, expected, format_args!("turn {turn}: the queue does not find the stream's data"))?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        pattern.verify(turn * SIZE as u64, &context.read(&log, mapped)?, "the queue's data")?;
        stream.fill(mapped, pattern.byte(turn))?;
        stream.signal(&[semaphore.signal_value(ours)])?;
    }
    fence.wait(2 * TURNS, WAIT_TIMEOUT)?;
    ensure_eq!(fence.value()?, 2 * TURNS, "the fence's value");
    // A value that is never signalled.
    stream.wait(&[semaphore.wait_value(2 * TURNS + 1)])?;
    expect_error(fence.wait(2 * TURNS + 1, WATCH), ErrorKind::Timeout, "a value that is never signalled")?;
    keeps_waiting(&stream, BRIEF, "the stream did not wait for the value")?;
    gpu.signal(fence, 2 * TURNS + 1)?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn native(context: &Context) -> Verdict {
    timeline(context, TimelineStrategy::Native)
}

fn bridge(context: &Context) -> Verdict {
    timeline(context, TimelineStrategy::HostBridge)
}

fn timeline(context: &Context, strategy: TimelineStrategy) -> Verdict {
    let (gpu, buffer, mapped) = shared(context)?;
    let fence: Arc<dyn ExporterTimeline> = Arc::new(ExportableFence::new(gpu.interop(), 0)?);
    let timeline = Timeline::with_strategy(context.device(), fence.clone(), strategy)?;
    ensure_eq!(timeline.strategy(), strategy, "the strategy");
    let at = |value| Point { timeline: &fence, value };
    let (stream, pattern) = (context.stream()?, context.pattern());
    let copy = context.stream()?;
    for turn in 0..TURNS {
        let (theirs, ours) = (2 * turn + 1, 2 * turn + 2);
        stream.wait_timeline(&timeline, theirs)?;
        stream.fill(&mapped, pattern.byte(turn))?;
        stream.signal_timeline(&timeline, ours)?;
        let data = pattern.bytes(turn * SIZE as u64, SIZE);
        let found = gpu.exchange(buffer.resource(), at(2 * turn), &data, at(theirs))?.finish()?;
        let expected = if turn == 0 { 0 } else { pattern.byte(turn - 1) };
        verify_bytes(&found, expected, format_args!("turn {turn}: the queue does not find the stream's data"))?;
    }
    timeline.wait(2 * TURNS, WAIT_TIMEOUT)?;
    let found = context.read(&copy, &mapped)?;
    verify_bytes(&found, pattern.byte(TURNS - 1), "the stream's last data is missing")?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn shared11(context: &Context) -> Verdict<(Gpu11, d3d11::ExportableResource, MappedBuffer)> {
    let gpu = open11(context)?;
    let buffer = buffer11(&gpu, SIZE, Sharing::NtHandle)?;
    let mapped = import_sized(context, buffer.import_request()?, SIZE)?;
    Ok((gpu, buffer, mapped))
}

fn eleven(context: &Context) -> Verdict {
    let (gpu, buffer, mapped) = shared11(context)?;
    let fence = d3d11::ExportableFence::new(gpu.interop(), 0)?;
    let semaphore = context.device().import_semaphore(fence.import_request()?)?;
    let (stream, pattern) = (context.stream()?, context.pattern());
    for turn in 0..100 {
        let (theirs, ours) = (2 * turn + 1, 2 * turn + 2);
        let data = pattern.bytes(turn * SIZE as u64, SIZE);
        // The context waits for the stream's last turn, and the stream for this one.
        gpu.wait(&fence, 2 * turn)?;
        gpu.write(buffer.resource(), &data)?;
        gpu.signal(&fence, theirs)?;
        stream.wait(&[semaphore.wait_value(theirs)])?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        pattern.verify(turn * SIZE as u64, &context.read(&stream, &mapped)?, "the context's data")?;
        if turn == 50 && context.device().capabilities().feature(Feature::HostFunctions).is_supported() {
            // Delayed once, so that a context that does not wait for the stream reads its own data.
            stream.launch_host_function(|| std::thread::sleep(WATCH))?;
        }
        stream.fill(&mapped, pattern.byte(turn))?;
        stream.signal(&[semaphore.signal_value(ours)])?;
        gpu.wait(&fence, ours)?;
        let found = gpu.read(buffer.resource(), SIZE)?;
        verify_bytes(&found, pattern.byte(turn), format_args!("turn {turn}: the stream's data is missing"))?;
    }
    fence.wait(200, WAIT_TIMEOUT)?;
    expect_error(fence.wait(201, WATCH), ErrorKind::Timeout, "a value that is never signalled")?;
    Ok(())
}

fn eleven_timeline(context: &Context) -> Verdict {
    let (gpu, buffer, mapped) = shared11(context)?;
    let own = d3d11::ExportableFence::new(gpu.interop(), 0)?;
    let fence: Arc<dyn ExporterTimeline> = Arc::new(own.clone());
    let timeline = Timeline::with_strategy(context.device(), fence.clone(), TimelineStrategy::Native)?;
    let (stream, pattern) = (context.stream()?, context.pattern());
    for turn in 0..100 {
        let (theirs, ours) = (2 * turn + 1, 2 * turn + 2);
        stream.wait_timeline(&timeline, theirs)?;
        stream.fill(mapped.slice(0..4096)?, pattern.byte(turn))?;
        stream.signal_timeline(&timeline, ours)?;
        gpu.write(buffer.resource(), &pattern.bytes(turn * SIZE as u64, SIZE))?;
        gpu.signal(&own, theirs)?;
        gpu.wait(&own, ours)?;
        let found = gpu.read(buffer.resource(), SIZE)?;
        verify_bytes(&found[..4096], pattern.byte(turn), format_args!("turn {turn}: not the stream's data"))?;
        pattern.verify(turn * SIZE as u64 + 4096, &found[4096..], "the context's data beside the stream's")?;
    }
    timeline.wait(200, Duration::from_secs(8))?;
    let error = expect_error(fence.signal(201), ErrorKind::Unsupported, "a signal of the host")?;
    ensure!(error.to_string().contains("Direct3D 12"), "the text lacks the alternative: {error}");
    ensure!(fence.value()? == 200, "the rejected signal raised the fence");
    Ok(())
}
