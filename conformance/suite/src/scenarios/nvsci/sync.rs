//! Synchronisation objects of NvSciSync, and their fences.

use std::sync::mpsc;
use std::time::Duration;

use gpu_interop::nvsci::{Fence, MemSync, NvSci, SyncAttributeList, SyncOptions};
use gpu_interop::{ErrorKind, Feature, NvSciSyncUse, Stream};

use super::{Rig, import};
use crate::context::Context;
use crate::outcome::Verdict;
use crate::pattern::verify_bytes;
use crate::scenario::scenarios;
use crate::scenarios::{expect_error, keeps_waiting};
use crate::{ensure, ensure_eq};

scenarios! {
    all need [memory NvSciBuf, semaphore NvSciSync, NvSciSyncAttributes];
    "nvsci.signal_to_stream", None,
        "A stream that waits for a fence sees all work enqueued before the signal, with and without memory synchronisation.",
        to_stream, needs [HostFunctions],
        mirrors("CUDA C++ Programming Guide: NVSCI interoperability, signalling and waiting");
    "nvsci.signal_to_cpu", None,
        "The CPU's wait for a fence times out while the stream is blocked, and then finds the stream's data.", to_cpu,
        needs [HostFunctions];
    "nvsci.cpu_to_stream", None, "A stream waits for the CPU's signal, and finds the CPU's data.", from_cpu;
    "nvsci.deterministic_fences", None,
        "A fence made from an id and a value is reached by the signal with that value, signals report their values, and a \
         value beyond the primitive's range is rejected.",
        deterministic;
    "nvsci.ping_pong", None,
        "Two streams hand a buffer over 200 times by two objects; every byte of every turn is checked.", ping_pong,
        needs [HostFunctions];
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

const SIZE: usize = 64 << 10;
const LIMIT: Duration = Duration::from_secs(20);
/// The time in which a stream without a wait becomes idle.
const GRACE: Duration = Duration::from_millis(50);
/// Size in bytes of the buffer, and the number of rounds.
const BLOCK: u64 = 16 << 10;
const ROUNDS: u8 = 200;

/// Blocks a stream until the returned sender is dropped, or for the limit.
fn hold(stream: &Stream) -> Verdict<mpsc::Sender<()>> {
    let (go, held) = mpsc::channel::<()>();
    stream.launch_host_function(move || {
        let _ = held.recv_timeout(LIMIT);
    })?;
    Ok(go)
}

fn to_stream(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let object = rig.device_signals(context, SyncOptions::default())?;
    let buffer = rig.allocate(&rig.shared(SIZE as u64))?;
    let mapped = import(context, &buffer)?;
    let copy = context.device().allocate_exportable(SIZE as u64)?;
    let (first, second) = (context.stream()?, context.stream()?);
    let mut fence = rig.syncs.fence();
    for (round, memory) in (1..=100_u8).zip([MemSync::Synchronize, MemSync::Skip].into_iter().cycle()) {
        // The first signal of either kind is blocked, so that a missing wait is detected.
        let held = if round <= 2 { Some(hold(&first)?) } else { None };
        first.fill(&mapped, round)?;
        object.signal(&first, &mut fence, memory)?;
        ensure!(!fence.is_cleared(), "the signal left the fence cleared");
        object.wait(&second, &fence, memory)?;
        second.copy(copy.slice(0..SIZE as u64)?, &mapped)?;
        if held.is_some() {
            keeps_waiting(&second, GRACE, "the stream did not wait for the signal")?;
        }
        drop(held);
        let mut found = vec![0; SIZE];
        second.read(copy.slice(0..SIZE as u64)?, &mut found)?;
        verify_bytes(&found, round, format_args!("round {round}, {memory:?}: the signal came too early"))?;
    }
    Ok(())
}

fn to_cpu(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let object = rig.device_signals(context, SyncOptions::default())?;
    let buffer = rig.allocate(&rig.shared(SIZE as u64))?;
    let mapped = import(context, &buffer)?;
    let stream = context.stream()?;
    let (mut fence, mut cpu) = (rig.syncs.fence(), rig.syncs.cpu_wait_context()?);
    // A cleared fence.
    cpu.wait(&fence, Duration::ZERO)?;
    let held = hold(&stream)?;
    stream.fill(&mapped, 0x5a)?;
    object.signal(&stream, &mut fence, MemSync::Synchronize)?;
    for timeout in [Duration::ZERO, Duration::from_millis(5)] {
        expect_error(cpu.wait(&fence, timeout), ErrorKind::Timeout, "a wait for blocked work")?;
    }
    drop(held);
    cpu.wait(&fence, LIMIT)?;
    let mut found = vec![0; SIZE];
    buffer.read(0, &mut found)?;
    verify_bytes(&found, 0x5a, "the fence was reached before the fill had run")?;
    // A reached fence stays reached, with any limit.
    cpu.wait(&fence, Duration::MAX)?;
    Ok(())
}

fn from_cpu(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let signaller = SyncAttributeList::for_cpu(&rig.syncs, NvSciSyncUse::SIGNAL, SyncOptions::default())?;
    let waiter = rig.for_device(context, NvSciSyncUse::WAIT, SyncOptions::default())?;
    let object = SyncAttributeList::reconcile(&[&signaller, &waiter])?.allocate()?;
    let imported = object.import(context.device())?;
    let buffer = rig.allocate(&rig.shared(SIZE as u64))?;
    let mapped = import(context, &buffer)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let mut fence = rig.syncs.fence();
    for round in 0..20_u64 {
        object.generate_fence(&mut fence)?;
        imported.wait(&stream, &fence, MemSync::Synchronize)?;
        // Delayed a few times: a stream without a wait may not have started yet.
        if round < 5 {
            keeps_waiting(&stream, GRACE, "the stream did not wait")?;
        }
        buffer.write(0, &pattern.bytes(round * SIZE as u64, SIZE))?;
        object.signal()?;
        pattern.verify(round * SIZE as u64, &context.read(&stream, &mapped)?, format_args!("round {round}"))?;
    }
    Ok(())
}

fn deterministic(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let options = SyncOptions { deterministic_fences: true };
    let object = rig.device_signals(context, options)?;
    ensure!(object.object().has_deterministic_fences(), "the object does not report deterministic fences");
    let stream = context.stream()?;
    let (mut made, mut signalled) = (rig.syncs.fence(), rig.syncs.fence());
    let mut cpu = rig.syncs.cpu_wait_context()?;
    ensure_eq!(made.id_and_value()?, None, "the value of a cleared fence");
    // The first signal reports the object's initial value.
    object.signal(&stream, &mut signalled, MemSync::Synchronize)?;
    let Some((id, first)) = signalled.id_and_value()? else {
        return Err(crate::Stop::failed("the fence of a signal has no value".into()));
    };
    stream.synchronize()?;
    for value in first + 1..first + 20 {
        made.set(object.object(), id, value)?;
        ensure_eq!(made.id_and_value()?, Some((id, value)), "the set value");
        expect_error(cpu.wait(&made, Duration::from_millis(1)), ErrorKind::Timeout, "a value not reached yet")?;
        object.signal(&stream, &mut signalled, MemSync::Synchronize)?;
        ensure_eq!(signalled.id_and_value()?, Some((id, value)), "the signal's value");
        cpu.wait(&made, LIMIT)?;
    }
    // One list that requests it is enough, and a value beyond the primitive's range is rejected.
    let signaller = rig.for_device(context, NvSciSyncUse::SIGNAL, SyncOptions::default())?;
    let waiter = rig.for_device(context, NvSciSyncUse::WAIT, options)?;
    let reconciled = SyncAttributeList::reconcile(&[&signaller, &waiter])?;
    ensure!(reconciled.has_deterministic_fences(), "the waiter's list requires deterministic fences");
    ensure_eq!(reconciled.greatest_value(), object.object().greatest_value(), "the greatest value");
    if let Some(greatest) = object.object().greatest_value() {
        made.set(object.object(), id, greatest)?;
        ensure_eq!(made.id_and_value()?, Some((id, greatest)), "the greatest value");
        if let Some(more) = greatest.checked_add(1) {
            let set = made.set(object.object(), id, more);
            let error = expect_error(set, ErrorKind::InvalidArgument, "more than the greatest value")?;
            ensure!(error.code().is_none() && made.is_cleared(), "{error}");
        }
    }
    // A wait that is enqueued before the signal.
    let (buffer, waits) = (rig.allocate(&rig.shared(4096))?, context.stream()?);
    let mapped = import(context, &buffer)?;
    made.set(object.object(), id, first + 20)?;
    object.wait(&waits, &made, MemSync::Synchronize)?;
    stream.fill(&mapped, 0x66)?;
    object.signal(&stream, &mut signalled, MemSync::Synchronize)?;
    let found = context.read(&waits, &mapped)?;
    verify_bytes(&found, 0x66, "the stream did not wait for the value")
}

fn ping_pong(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let (there, back) =
        (rig.device_signals(context, SyncOptions::default())?, rig.device_signals(context, SyncOptions::default())?);
    let all = BLOCK * ROUNDS as u64;
    let (buffer, other) = (rig.allocate(&rig.shared(BLOCK))?, rig.allocate(&rig.shared(all))?);
    let (mapped, copies) = (import(context, &buffer)?, import(context, &other)?);
    let (first, second) = (context.stream()?, context.stream()?);
    let (mut to, mut fro) = (rig.syncs.fence(), rig.syncs.fence());
    let round = |round: u8, to: &mut Fence, fro: &mut Fence| -> Verdict {
        if round > 0 {
            back.wait(&first, fro, MemSync::Synchronize)?;
        }
        first.fill(&mapped, round)?;
        there.signal(&first, to, MemSync::Synchronize)?;
        there.wait(&second, to, MemSync::Synchronize)?;
        let start = BLOCK * u64::from(round);
        second.copy(copies.slice(start..start + BLOCK)?, &mapped)?;
        Ok(back.signal(&second, fro, MemSync::Synchronize)?)
    };
    first.fill(&mapped, 0xff)?;
    first.synchronize()?;
    // Each side is blocked once, so that a missing wait of the other is detected.
    let held = hold(&first)?;
    round(0, &mut to, &mut fro)?;
    keeps_waiting(&second, GRACE, "the second stream did not wait for the first")?;
    drop(held);
    first.synchronize()?;
    second.synchronize()?;
    let held = hold(&second)?;
    for number in 1..4 {
        round(number, &mut to, &mut fro)?;
    }
    keeps_waiting(&first, GRACE, "the first stream did not wait for the second")?;
    drop(held);
    for number in 4..ROUNDS {
        round(number, &mut to, &mut fro)?;
    }
    rig.syncs.cpu_wait_context()?.wait(&fro, LIMIT)?;
    let mut found = vec![0; all.try_into().unwrap_or(0)];
    other.read(0, &mut found)?;
    for (copy, number) in found.chunks(BLOCK.try_into().unwrap_or(1)).zip(0..ROUNDS) {
        verify_bytes(copy, number, format_args!("the copy of round {number} is not of its fill"))?;
    }
    ensure_eq!(found.len() as u64, all, "bytes that were read");
    Ok(())
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
    verify_bytes(&found, 0x3c, "the work did not end well")
}
