//! Requests for NvSci objects that must be rejected, and resources after many cycles.

use std::time::Duration;

use gpu_interop::nvsci::{
    BufferAttributeList, BufferAttributes, ColorFormat, GpuAttributes, ImageAttributes, ImageLayout, MemSync, NvSci,
    Permission, PlaneAttributes, SyncAttributeList, SyncOptions,
};
use gpu_interop::{ErrorKind, NvSciSyncUse, Uuid};

use super::Rig;
use crate::context::Context;
use crate::leak_check::leak_check;
use crate::outcome::{Stop, Verdict};
use crate::pattern::verify_bytes;
use crate::scenario::scenarios;
use crate::scenarios::{expect_error, rejected, rejected_before_driver};
use crate::{ensure, ensure_eq};

scenarios! {
    all need [memory NvSciBuf, semaphore NvSciSync, NvSciSyncAttributes];
    "nvsci.conflict", None,
        "Conflicting attribute lists are a typed error that names the attributes, and lists without a size are rejected; the \
         lists stay usable.",
        conflict;
    "nvsci.sync_conflict", None,
        "Lists without a signaller, with two, or without a waiter are a typed error with both counts.", sync_conflict;
    "nvsci.foreign_gpu", None,
        "A buffer for other GPUs, or for none, is rejected before the driver is called, and comes back.", foreign_gpu;
    "nvsci.bad_requests", None,
        "Empty sizes, bad alignments, empty planes, too many GPUs, repeated or foreign lists and ranges past the end are \
         rejected.",
        bad_requests;
    "nvsci.10000_cycles", None,
        "10,000 cycles of attribute lists, reconciliation, buffer, duplicate, import, signal and wait leave descriptors, \
         mappings and memory as before.",
        ten_thousand_cycles, counts_resources, within(240);
}

fn conflict(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let list = |attributes: BufferAttributes| rig.list(&attributes);
    let plane = PlaneAttributes { width: 64, height: 64, format: ColorFormat::Y8 };
    let image = |plane| BufferAttributes::image(ImageAttributes::new(ImageLayout::PitchLinear, plane));
    let (small, great) = (list(BufferAttributes::raw(4096))?, list(BufferAttributes::raw(8192))?);
    let (flat, wide) = (list(image(plane))?, list(image(PlaneAttributes { width: 65, ..plane }))?);
    let unnamed = list(BufferAttributes::raw_of_any_size())?;
    let other_size = list(BufferAttributes::raw(8192).alignment(512).permission(Permission::ReadOnly))?;
    for (lists, named) in [
        (vec![&small, &great], "Size"),
        (vec![&small, &flat], "Types"),
        (vec![&flat, &wide], "PlaneWidth"),
        // Attributes that may differ are not named.
        (vec![&small, &other_size], "Size"),
    ] {
        let reconciled = BufferAttributeList::reconcile(&lists);
        let error = expect_error(reconciled, ErrorKind::ReconciliationFailed, "lists that differ")?;
        let found = error.context().iter().find(|(key, _)| *key == "the attribute lists differ in");
        ensure!(found.is_some_and(|(_, names)| names.split(", ").eq([named])), "not {named} alone: {error}");
    }
    let other = list(BufferAttributes::raw_of_any_size().alignment(512))?;
    let error =
        expect_error(BufferAttributeList::reconcile(&[&unnamed, &other]), ErrorKind::InvalidArgument, "no size")?;
    ensure!(error.code().is_none() && error.message().contains("names a size"), "{error}");
    // All lists stay usable.
    let buffer = BufferAttributeList::reconcile(&[&unnamed, &great])?.allocate()?;
    ensure_eq!(buffer.properties().size(), 8192, "bytes");
    Ok(())
}

fn sync_conflict(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let options = SyncOptions::default();
    let device = |uses| rig.for_device(context, uses, options);
    let (signaller, other) = (device(NvSciSyncUse::SIGNAL)?, device(NvSciSyncUse::SIGNAL)?);
    let waiter = device(NvSciSyncUse::WAIT)?;
    for (lists, what, counts) in [
        (vec![&waiter], "no signaller", [0, 1]),
        (vec![&signaller], "no waiter", [1, 0]),
        (vec![&signaller, &other, &waiter], "two signallers", [2, 1]),
    ] {
        let error = expect_error(SyncAttributeList::reconcile(&lists), ErrorKind::ReconciliationFailed, what)?;
        let found: Vec<&str> = error.context().iter().map(|(_, value)| value.as_str()).collect();
        ensure_eq!(found, counts.map(|count| count.to_string()), "{what}: lists that signal and that wait");
    }
    let reconciled = SyncAttributeList::reconcile(&[&signaller, &waiter])?;
    ensure_eq!(reconciled.uses(), NvSciSyncUse::SIGNAL | NvSciSyncUse::WAIT, "the reconciled permissions");
    ensure!(!reconciled.has_deterministic_fences(), "no list requested deterministic fences");
    reconciled.allocate()?;
    let nothing = SyncAttributeList::for_device(&rig.syncs, context.device(), NvSciSyncUse::empty(), options);
    expect_error(nothing, ErrorKind::InvalidArgument, "no use at all")?;
    Ok(())
}

fn foreign_gpu(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let mut bytes = *rig.gpu.as_bytes();
    bytes[0] ^= 0xff;
    let other = Uuid::from_bytes(bytes).ok_or_else(|| Stop::failed("no other UUID".into()))?;
    let buffer = rig.allocate(&BufferAttributes::raw(4096).gpu(GpuAttributes::new(other)))?;
    let result = context.device().import_memory(buffer.import_request());
    let (error, request) = rejected(result, &[ErrorKind::DeviceMismatch], "a buffer of another GPU")?;
    ensure!(error.code().is_none() && error.to_string().contains(&other.to_string()), "{error}");
    ensure_eq!(request.size(), 4096, "bytes of the request that came back");
    // A buffer for the CPU only.
    let unnamed = rig.allocate(&BufferAttributes::raw(4096).cpu_access(true))?;
    ensure!(unnamed.properties().gpus().is_empty(), "GPUs that no list names: {:?}", unnamed.properties());
    let result = context.device().import_memory(unnamed.import_request());
    let (_, _) = rejected_before_driver(result, &[ErrorKind::DeviceMismatch], "a buffer for which no GPU was named")?;
    // A buffer for both GPUs.
    let both = BufferAttributes::raw(4096).gpu(GpuAttributes::new(other)).gpu(GpuAttributes::new(rig.gpu));
    context.device().import_memory(rig.allocate(&both)?.import_request())?;
    Ok(())
}

fn bad_requests(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let plane = PlaneAttributes { width: 4, height: 4, format: ColorFormat::Y8 };
    let image = |plane| ImageAttributes::new(ImageLayout::PitchLinear, plane);
    let gpu = GpuAttributes::new(rig.gpu);
    let other =
        |byte| Uuid::from_bytes([byte; 16]).map(GpuAttributes::new).ok_or_else(|| Stop::failed("a UUID".into()));
    let many = (1..=17).try_fold(BufferAttributes::raw(1), |list, byte| Ok::<_, Stop>(list.gpu(other(byte)?)))?;
    for (attributes, what) in [
        (BufferAttributes::raw(0), "0 bytes"),
        (BufferAttributes::raw(1).alignment(0), "an alignment of 0"),
        (BufferAttributes::raw(1).alignment(48), "an alignment of 48"),
        (BufferAttributes::raw(1).gpu(gpu).gpu(gpu), "a GPU twice"),
        (BufferAttributes::raw(1).gpu(gpu.cache(true)).gpu(other(1)?), "the cache of one GPU of two"),
        (many, "17 GPUs"),
        (BufferAttributes::image(image(PlaneAttributes { width: 0, ..plane })), "an empty plane"),
        (BufferAttributes::image(image(plane).plane(plane).plane(plane).plane(plane)), "four planes"),
        (BufferAttributes::image(image(plane).alignment(3)), "planes aligned to 3"),
    ] {
        expect_error(BufferAttributeList::new(&rig.buffers, &attributes), ErrorKind::InvalidArgument, what)?;
    }
    let list = rig.list(&rig.shared(4096))?;
    let module = NvSci::load()?.open_buffers()?;
    let foreign = BufferAttributeList::new(&module, &rig.shared(4096))?;
    for (lists, what) in
        [(vec![], "no list"), (vec![&list, &list], "a list twice"), (vec![&list, &foreign], "lists of two modules")]
    {
        expect_error(BufferAttributeList::reconcile(&lists), ErrorKind::InvalidArgument, what)?;
    }
    let buffer = BufferAttributeList::reconcile(&[&list])?.allocate()?;
    for (offset, length) in [(0, 0), (0, 4097), (4096, 1), (u64::MAX, 2)] {
        let what = format!("{length} bytes from {offset}");
        expect_error(buffer.read(offset, &mut vec![0; length]), ErrorKind::InvalidArgument, &what)?;
        expect_error(buffer.write(offset, &vec![0; length]), ErrorKind::InvalidArgument, &what)?;
    }
    let hidden = rig.allocate(&BufferAttributes::raw(4096).gpu(gpu))?;
    expect_error(hidden.read(0, &mut [0]), ErrorKind::InvalidArgument, "CPU access that no list requested")?;
    Ok(())
}

fn ten_thousand_cycles(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let stream = context.stream()?;
    let mut cpu = rig.syncs.cpu_wait_context()?;
    leak_check(10_000, |number| {
        let (one, other) = (rig.list(&rig.shared(4096))?, rig.list(&rig.shared(4096))?);
        let buffer = BufferAttributeList::reconcile(&[&one, &other])?.allocate()?;
        let duplicate = buffer.read_only()?;
        let writable = context.device().import_memory(buffer.import_request())?.map_buffer(..)?;
        let readable = context.device().import_memory(duplicate.import_request())?.map_buffer(..)?;
        let object = rig.device_signals(context, SyncOptions::default())?;
        let mut fence = rig.syncs.fence();
        let byte = number.to_le_bytes()[0];
        stream.fill(&writable, byte)?;
        object.signal(&stream, &mut fence, MemSync::Synchronize)?;
        object.wait(&stream, &fence, MemSync::Synchronize)?;
        cpu.wait(&fence, Duration::from_secs(20))?;
        let found = context.read(&stream, &readable)?;
        verify_bytes(&found, byte, format_args!("cycle {number}: other data"))?;
        object.close()?;
        writable.close()?;
        Ok(readable.close()?)
    })
}
