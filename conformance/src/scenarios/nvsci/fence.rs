//! Fences that are used wrongly, and what ends in which order.

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
    "nvsci.fence_misuse", None,
        "A wait for a cleared fence or another object's, a fence of another module, one set for an object that is not \
         deterministic, and fences in graphs are refused; a fence that should have been filled is cleared.", misuse;
    "nvsci.drop_with_work_pending", None,
        "Buffers, objects, fences and modules are dropped while a stream still uses them; the work ends well, and nothing is \
         freed before it.", drop_pending;
}

fn misuse(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let (object, other) =
        (rig.device_signals(context, SyncOptions::default())?, rig.device_signals(context, SyncOptions::default())?);
    let stream = context.device().create_stream()?;
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
    // What it stood for before must not be taken for what was refused.
    ensure!(foreign.is_cleared(), "a refused signal left in the fence what was there");
    let wait = module.cpu_wait_context()?.wait(&fence, Duration::ZERO);
    expect_error(wait, ErrorKind::InvalidArgument, "a CPU's wait for a fence of another module")?;
    let mut stale = rig.syncs.fence();
    object.signal(&stream, &mut stale, MemSync::Skip)?;
    let set = stale.set(object.object(), 0, 1);
    expect_error(set, ErrorKind::InvalidArgument, "a fence that is set for an object that is not deterministic")?;
    ensure!(stale.is_cleared(), "a refused point left in the fence what was there");
    if context.device().capabilities().feature(Feature::GraphSemaphores).is_supported() {
        let mut recorded = rig.syncs.fence();
        let signalled = context.device().record(|stream| object.signal(stream, &mut recorded, MemSync::Skip));
        expect_error(signalled, ErrorKind::Unsupported, "a signal in a graph")?;
        ensure!(recorded.is_cleared(), "a refused signal filled the fence");
        let waited = context.device().record(|stream| object.wait(stream, &fence, MemSync::Skip));
        expect_error(waited, ErrorKind::Unsupported, "a wait in a graph")?;
    }
    // All the same, it works.
    object.wait(&stream, &fence, MemSync::Skip)?;
    fence.clear();
    ensure!(fence.is_cleared() && fence.object().is_none(), "a cleared fence still holds something");
    Ok(stream.synchronize()?)
}

fn drop_pending(context: &Context) -> Verdict {
    context.need_feature(Feature::HostFunctions)?;
    let rig = Rig::open(context)?;
    let object = rig.device_signals(context, SyncOptions::default())?;
    let (buffer, kept) = (rig.allocate(&rig.shared(4096))?, rig.allocate(&rig.shared(4096))?);
    let (mapped, target) = (import(context, &buffer)?, import(context, &kept)?);
    let (first, second) = (context.device().create_stream()?, context.device().create_stream()?);
    let mut fence = rig.syncs.fence();
    let (go, held) = mpsc::channel::<()>();
    first.launch_host_function(move || {
        let _ = held.recv_timeout(Duration::from_secs(20));
    })?;
    first.fill(&mapped, 0x3c)?;
    object.signal(&first, &mut fence, MemSync::Synchronize)?;
    object.wait(&second, &fence, MemSync::Synchronize)?;
    second.copy(&target, &mapped)?;
    // The module first, the fence last: each keeps what it needs.
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
