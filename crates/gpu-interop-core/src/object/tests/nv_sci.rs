//! NvSci objects: lifetime of owners, read-only memory, one mip level.

use super::exported::{memory_request, semaphore_request};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use super::recorder::{Call, Recorder, everything, gpu};
use super::{assert_error, open_on};
use crate::array::{ArrayFormat, ArrayShape, ChannelType, MipmappedArrayDesc};
use crate::error::ErrorKind;
use crate::handle::{MemoryHandle, NvSciBufObject, NvSciFence, NvSciSyncAttrList, NvSciSyncObject, SemaphoreHandle};
use crate::identity::Uuid;
use crate::import::MemoryImport;
use crate::nv_sci::{NvSciBufGpu, NvSciBufProperties, NvSciSyncUse};
use crate::object::Device;
use crate::semaphore_ops::{SignalParams, WaitParams};

const SIZE: u64 = 4096;

fn device() -> (Arc<Recorder>, Device) {
    open_on(Recorder::with_capabilities(gpu(1), everything()))
}

fn properties(device: &Device, read_only: bool) -> NvSciBufProperties {
    let id = device.identity().uuid.expect("the recorder's device has one");
    let gpus = vec![NvSciBufGpu { id, cache: Some(false), needs_memsync: Some(true), compression: Some(true) }];
    NvSciBufProperties { alignment: 512, planes: 1, read_only, gpus }
}

fn object() -> (NvSciBufObject, Weak<u32>) {
    let owner = Arc::new(7_u32);
    let weak = Arc::downgrade(&owner);
    // SAFETY: the recorder never dereferences it.
    (unsafe { NvSciBufObject::owned_by(NonNull::dangling(), owner) }, weak)
}

fn request(object: NvSciBufObject) -> MemoryImport {
    memory_request(MemoryHandle::NvSciBuf(object), SIZE)
}

#[test]
fn an_owner_lives_until_the_driver_has_ended_the_import() {
    let (recorder, device) = device();
    let stream = device.create_stream().expect("stream");
    let (object, owner) = object();
    // A handle taken out of a request keeps the owner.
    let again = memory_request(request(object).into_handle(), SIZE);
    let mapped = device.import_memory(again).expect("import").map_buffer(..).expect("map");
    recorder.hold(stream.as_raw());
    stream.fill(&mapped, 1).expect("fill");
    drop(mapped);
    assert!(owner.upgrade().is_some(), "the work that uses the memory has not run");
    recorder.finish(stream.as_raw());
    device.collect();
    assert!(owner.upgrade().is_none(), "the import has ended");

    let owner = Arc::new(());
    let weak = Arc::downgrade(&owner);
    // SAFETY: the recorder never dereferences it.
    let object = unsafe { NvSciSyncObject::owned_by(NonNull::dangling(), owner) };
    let request = semaphore_request(semaphore_request(SemaphoreHandle::NvSciSync(object)).into_handle());
    let semaphore = device.import_semaphore(request).expect("import");
    assert!(weak.upgrade().is_some());
    semaphore.close().expect("close");
    assert!(weak.upgrade().is_none());
}

/// The owner of the memory contains a mapping of the same device, which is retired by its drop.
#[test]
fn an_owner_may_have_objects_of_the_device() {
    let (recorder, device) = device();
    let stream = device.create_stream().expect("stream");
    let map = |object| device.import_memory(request(object)).expect("import").map_buffer(..).expect("map");
    let owner = Arc::new(map(object().0));
    let freed = Arc::downgrade(&owner);
    // SAFETY: the recorder never dereferences it.
    let mapped = map(unsafe { NvSciBufObject::owned_by(NonNull::dangling(), owner) });
    recorder.hold(stream.as_raw());
    stream.fill(&mapped, 1).expect("fill");
    drop(mapped);
    recorder.finish(stream.as_raw());
    let (done, collected) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        device.collect();
        let _ = done.send(());
    });
    let ended = collected.recv_timeout(std::time::Duration::from_secs(10)).is_ok();
    if !ended {
        // Its drop would wait as well.
        std::mem::forget(stream);
    }
    assert!(ended, "deadlock");
    assert!(freed.upgrade().is_none());
}

#[test]
fn a_rejected_request_returns_its_owner() {
    let (_, device) = device();
    let (object, owner) = object();
    let other = NvSciBufGpu {
        id: Uuid::from_bytes([9; 16]).expect("a UUID"),
        cache: None,
        needs_memsync: None,
        compression: None,
    };
    let foreign = NvSciBufProperties { gpus: vec![other], ..properties(&device, false) };
    let failure = device.import_memory(request(object.with_properties(foreign))).expect_err("another GPU's");
    assert_eq!(failure.kind(), ErrorKind::DeviceMismatch);
    let request = failure.into_request();
    assert!(owner.upgrade().is_some());
    drop(request);
    assert!(owner.upgrade().is_none());
}

#[test]
fn reconciled_properties_stay_with_the_import() {
    let (_, device) = device();
    let expected = properties(&device, false);
    let memory = device.import_memory(request(object().0.with_properties(expected.clone()))).expect("import");
    assert_eq!(memory.nv_sci_buf(), Some(&expected));
    assert_eq!(expected.gpu(device.identity()).and_then(|gpu| gpu.compression), Some(true));
}

#[test]
fn read_only_memory_is_never_written() {
    let (recorder, device) = device();
    let stream = device.create_stream().expect("stream");
    let import = |read_only| {
        let handle = request(object().0.with_properties(properties(&device, read_only))).into_handle();
        device.import_memory(memory_request(handle, SIZE)).expect("import").map_buffer(..).expect("map")
    };
    let (only_read, writable) = (import(true), import(false));
    recorder.forget_calls();
    let word = only_read.slice(0..4).expect("slice");
    let bytes = [0; 4096];
    // SAFETY: rejected before any read.
    let asynchronously = unsafe { stream.write_async(&only_read, bytes.as_ptr()) };
    for (operation, result) in [
        ("Stream::fill", stream.fill(&only_read, 1)),
        ("Stream::fill_u32", stream.fill_u32(word, 1)),
        ("Stream::copy", stream.copy(&only_read, &writable)),
        ("Stream::write", stream.write(&only_read, &bytes)),
        ("Stream::write_async", asynchronously),
        ("Stream::write_value_u32", stream.write_value_u32(word, 1)),
    ] {
        assert_error(&result.expect_err("read-only"), ErrorKind::InvalidArgument, operation, &["read-only"]);
    }
    assert_eq!(recorder.calls(), []);
    stream.copy(&writable, &only_read).expect("reading is allowed");
    stream.fill(&writable, 1).expect("the other may be written");
}

#[test]
fn an_image_has_one_mip_level() {
    let (recorder, device) = device();
    let format = ArrayFormat::new(ChannelType::Uint8, 4).expect("four channels");
    let desc = MipmappedArrayDesc::new(ArrayShape::D2 { width: 16, height: 16 }, format);
    let memory = device.import_memory(request(object().0)).expect("import");
    recorder.forget_calls();
    for desc in [MipmappedArrayDesc { levels: 2, ..desc }, MipmappedArrayDesc { layout_levels: Some(5), ..desc }] {
        let error = memory.map_mipmapped_array(&desc).expect_err("more levels");
        let operation = "ExternalMemory::map_mipmapped_array";
        assert_error(&error, ErrorKind::InvalidArgument, operation, &["exactly one mip level"]);
    }
    assert_eq!(recorder.calls(), []);
    memory.map_mipmapped_array(&desc).expect("one level");
    assert!(matches!(recorder.calls()[..], [Call::MapMipmappedArray { .. }, ..]));
}

#[test]
fn an_attribute_list_needs_a_use() {
    let (_, device) = device();
    for uses in [NvSciSyncUse::empty(), NvSciSyncUse::from_bits_retain(4)] {
        // SAFETY: the recorder never dereferences it.
        let list = unsafe { NvSciSyncAttrList::from_raw(NonNull::dangling()) };
        let error = device.fill_nv_sci_sync_attributes(list, uses).expect_err("no use");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{uses:?}");
    }
}

#[test]
fn a_graph_borrows_no_fence() {
    let (_, device) = device();
    // SAFETY: the recorder dereferences neither.
    let (object, fence) =
        unsafe { (NvSciSyncObject::from_raw(NonNull::dangling()), NvSciFence::from_raw(NonNull::dangling())) };
    let semaphore = device.import_semaphore(semaphore_request(SemaphoreHandle::NvSciSync(object))).expect("import");
    let signal = SignalParams::NvSciSync { fence, skip_memsync: false };
    let wait = WaitParams::NvSciSync { fence, skip_memsync: false };
    let signalled = device.record(|stream| stream.signal(&[semaphore.signal_with(signal)])).expect_err("a fence");
    let waited = device.record(|stream| stream.wait(&[semaphore.wait_with(wait)])).expect_err("a fence");
    for error in [signalled, waited] {
        assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("graph"), "{error}");
    }
}
