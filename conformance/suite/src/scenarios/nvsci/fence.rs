//! Misused fences, and drop orders.

use std::sync::mpsc;
use std::time::Duration;

use gpu_interop::nvsci::{MemSync, NvSci, SyncAttributeList, SyncOptions};
use gpu_interop::{ErrorKind, Feature, NvSciSyncUse};

use super::{Rig, import};
use crate::context::Context;
use crate::ensure;
use crate::outcome::Verdict;
use crate::scenario::scenarios;
use crate::scenarios::expect_error;

scenarios! {
    all need [memory NvSciBuf, semaphore NvSciSync, NvSciSyncAttributes];
    "nvsci.fence_misuse", None,
        "Waits for cleared or foreign fences, foreign modules, fences set on an object that is not deterministic, and fences \
         in graphs are rejected; a fence whose signal failed is cleared.",
        misuse;
    "nvsci.unasked_use", None,
        "A signal or wait that no attribute list requested is rejected before the driver is called; a requested one works.",
        unasked;
    "nvsci.drop_with_work_pending", None,
        "Pending work completes after its buffers, objects, fences and modules were dropped.", drop_pending,
        needs [HostFunctions];
}

fn misuse(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let (object, other) =
        (rig.device_signals(context, SyncOptions::default())?, rig.device_signals(context, SyncOptions::default())?);
    let stream = context.stream()?;
    let mut fence = rig.syncs.fence();
    let wait = object.wait(&stream, &fence, MemSync::Skip);
    expect_error(wait, ErrorKind::InvalidArgument, "a wait for a cleared fence")?;
    object.signal(&stream, &mut fence, MemSync::Skip)?;
    let wait = other.wait(&stream, &fence, MemSync::Skip);
    expect_error(wait, ErrorKind::InvalidArgument, "a wait for another object's fence")?;
    let module = NvSci::load()?.open_syncs()?;
    let mut foreign = module.fence();
    let both = NvSciSyncUse::SIGNAL | NvSciSyncUse::WAIT;
    let theirs = SyncAttributeList::for_device(&module, context.device(), both, SyncOptions::default())?;
    let theirs = SyncAttributeList::reconcile(&[&theirs])?.allocate()?.import(context.device())?;
    theirs.signal(&stream, &mut foreign, MemSync::Skip)?;
    ensure!(!foreign.is_cleared(), "the signal left the fence cleared");
    let signal = object.signal(&stream, &mut foreign, MemSync::Skip);
    expect_error(signal, ErrorKind::InvalidArgument, "a fence of another module")?;
    // The old content must not be mistaken for the rejected signal.
    ensure!(foreign.is_cleared(), "a rejected signal left the old fence");
    let wait = module.cpu_wait_context()?.wait(&fence, Duration::ZERO);
    expect_error(wait, ErrorKind::InvalidArgument, "a CPU's wait for a fence of another module")?;
    let mut stale = rig.syncs.fence();
    object.signal(&stream, &mut stale, MemSync::Skip)?;
    let set = stale.set(object.object(), 0, 1);
    expect_error(set, ErrorKind::InvalidArgument, "a fence that is set for an object that is not deterministic")?;
    ensure!(stale.is_cleared(), "a rejected point left the old fence");
    if context.device().capabilities().feature(Feature::GraphSemaphores).is_supported() {
        let mut recorded = rig.syncs.fence();
        let signalled = context.device().record(|stream| object.signal(stream, &mut recorded, MemSync::Skip));
        expect_error(signalled, ErrorKind::Unsupported, "a signal in a graph")?;
        ensure!(recorded.is_cleared(), "a rejected signal filled the fence");
        let waited = context.device().record(|stream| object.wait(stream, &fence, MemSync::Skip));
        expect_error(waited, ErrorKind::Unsupported, "a wait in a graph")?;
    }
    // The object still works.
    object.wait(&stream, &fence, MemSync::Skip)?;
    fence.clear();
    ensure!(fence.is_cleared() && fence.object().is_none(), "a cleared fence still holds something");
    Ok(stream.synchronize()?)
}

/// Fails unless the error is this library's own, without a code, and names the missing list.
fn refused_use<T: std::fmt::Debug>(result: gpu_interop::Result<T>, list: &str, what: &str) -> Verdict {
    let error = expect_error(result, ErrorKind::InvalidArgument, what)?;
    ensure!(error.code().is_none() && error.message().contains(list), "{what}: {error}");
    Ok(())
}

fn unasked(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let (options, signal, wait) = (SyncOptions::default(), NvSciSyncUse::SIGNAL, NvSciSyncUse::WAIT);
    let device = |uses| rig.for_device(context, uses, options);
    let cpu = |uses| SyncAttributeList::for_cpu(&rig.syncs, uses, options);
    let (stream, limit) = (context.stream()?, Duration::from_secs(20));
    let (mut fence, mut waits) = (rig.syncs.fence(), rig.syncs.cpu_wait_context()?);

    // The device signals, the CPU waits.
    let object = SyncAttributeList::reconcile(&[&device(signal)?, &cpu(wait)?])?.allocate()?;
    let imported = object.import(context.device())?;
    imported.signal(&stream, &mut fence, MemSync::Synchronize)?;
    refused_use(imported.wait(&stream, &fence, MemSync::Synchronize), "for_device", "a wait of the device")?;
    refused_use(object.signal(), "for_cpu", "a signal of the CPU")?;
    waits.wait(&fence, limit)?;
    refused_use(object.generate_fence(&mut fence), "for_cpu", "a fence of the CPU")?;
    ensure!(fence.is_cleared(), "a rejected fence still holds a point");

    // The CPU signals, the device waits.
    let object = SyncAttributeList::reconcile(&[&cpu(signal)?, &device(wait)?])?.allocate()?;
    let imported = object.import(context.device())?;
    object.generate_fence(&mut fence)?;
    refused_use(waits.wait(&fence, limit), "for_cpu", "a wait of the CPU")?;
    imported.wait(&stream, &fence, MemSync::Synchronize)?;
    object.signal()?;
    stream.synchronize()?;
    refused_use(imported.signal(&stream, &mut fence, MemSync::Synchronize), "for_device", "a signal of the device")?;
    ensure!(fence.is_cleared(), "a rejected signal left the fence filled");
    Ok(())
}

fn drop_pending(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let object = rig.device_signals(context, SyncOptions::default())?;
    let (buffer, kept) = (rig.allocate(&rig.shared(4096))?, rig.allocate(&rig.shared(4096))?);
    let (mapped, target) = (import(context, &buffer)?, import(context, &kept)?);
    let (first, second) = (context.stream()?, context.stream()?);
    let mut fence = rig.syncs.fence();
    let (go, held) = mpsc::channel::<()>();
    first.launch_host_function(move || {
        let _ = held.recv_timeout(Duration::from_secs(20));
    })?;
    first.fill(&mapped, 0x3c)?;
    object.signal(&first, &mut fence, MemSync::Synchronize)?;
    object.wait(&second, &fence, MemSync::Synchronize)?;
    second.copy(&target, &mapped)?;
    // The module first, the fence last: each keeps its dependencies.
    drop(rig);
    drop(object);
    drop(buffer);
    drop(mapped);
    drop(fence);
    drop(go);
    second.synchronize()?;
    context.device().collect();
    let found = context.read(&second, &target)?;
    ensure!(found.iter().all(|byte| *byte == 0x3c), "the work did not end well");
    Ok(())
}
