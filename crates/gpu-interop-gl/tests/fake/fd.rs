//! Ownership of descriptors.

use std::os::fd::AsFd;

use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_core::{DeviceIdentity, ErrorKind, MemoryHandle, SemaphoreHandle, Uuid};
use gpu_interop_test_support::request::{dedicated_request, memory_request, semaphore_request};

use crate::driver::{self, INVALID_OPERATION, INVALID_VALUE, OUT_OF_MEMORY, SIZE, with};
use crate::interop;
use crate::shared::{memory_handle, semaphore_handle};

/// Number of open descriptors with this name. The name identifies the test, because others run concurrently.
fn open(name: &str) -> usize {
    let folder = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let links = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().contains(name)).count()
}

fn named_memory(name: &str) -> MemoryHandle {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&fd, SIZE).expect("ftruncate");
    MemoryHandle::OpaqueFd(fd)
}

#[test]
fn ten_thousand_imports_leak_and_double_close_nothing() {
    const NAME: &str = "ten-thousand";
    let gl = interop(&driver::ALL);
    // Detects a double close: this descriptor may reuse the number of one that was closed too early.
    let unrelated = rustix::fs::memfd_create("unrelated", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    let faults = [
        None,
        Some((INVALID_VALUE, true)),
        Some((INVALID_OPERATION, false)),
        None,
        Some((OUT_OF_MEMORY, false)),
        Some((0x4242, true)),
    ];
    for cycle in 0..10_000 {
        let fault = faults[cycle % faults.len()];
        with(|state| {
            state.calls.clear();
            state.fault = fault.map(|(code, _)| ("glImportMemoryFdEXT", code));
            state.closes_rejected = fault.is_some_and(|(_, closes)| closes);
        });
        let request = dedicated_request(named_memory(NAME), SIZE, cycle % 2 == 0);
        match (gl.import_memory(request), fault) {
            (Ok(memory), None) => {
                assert_eq!(open(NAME), 1, "only the driver's");
                let buffer = memory.map_buffer(0..SIZE).expect("a buffer");
                drop(memory);
                with(|state| assert_eq!(state.alive(), 2, "a buffer keeps its memory"));
                drop(buffer);
            }
            (Err(failure), Some((code, _))) => {
                let kind = if code == OUT_OF_MEMORY {
                    ErrorKind::OutOfMemory
                } else if code == 0x4242 {
                    ErrorKind::Driver
                } else {
                    ErrorKind::ImportRejected
                };
                assert_eq!(failure.kind(), kind);
                assert_eq!(open(NAME), 1, "only the caller's");
                let handle = failure.into_request().into_handle();
                assert_eq!(classify_fd(handle.as_fd().expect("a descriptor")), FdKind::Memory);
            }
            (found, _) => panic!("cycle {cycle}: {found:?}"),
        }
        assert_eq!(open(NAME), 0, "cycle {cycle}");
        with(|state| assert_eq!(state.alive(), 0, "cycle {cycle}"));
    }
    rustix::fs::fstat(unrelated.as_fd()).expect("still open");
}

#[test]
fn rejected_semaphores_are_returned_without_leaks() {
    const NAME: &str = "hundred-semaphores";
    let gl = interop(&driver::ALL);
    let unrelated = rustix::fs::memfd_create("unrelated", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    for cycle in 0..100 {
        let (timeline, closes) = (cycle % 2 == 0, cycle % 4 < 2);
        with(|state| {
            state.fault = Some(("glImportSemaphoreFdEXT", INVALID_OPERATION));
            state.closes_rejected = closes;
        });
        let fd = rustix::fs::memfd_create(NAME, rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        let handle = if timeline { SemaphoreHandle::TimelineFd(fd) } else { SemaphoreHandle::OpaqueFd(fd) };
        let failure = gl.import_semaphore(semaphore_request(handle)).expect_err("rejected");
        assert_eq!(failure.kind(), ErrorKind::ImportRejected);
        assert_eq!(open(NAME), 1, "only the caller's");
        with(|state| {
            assert_eq!(state.alive(), 0, "cycle {cycle}");
            state.fault = None;
        });
        let semaphore = gl.import_semaphore(failure.into_request()).expect("the returned request works");
        assert_eq!(open(NAME), 1, "only the driver's");
        with(|state| {
            let known = &state.semaphores[&semaphore.as_raw()];
            assert_eq!((known.timeline, known.imported.map(|(ty, _)| ty)), (timeline, Some(0x9586)));
        });
        drop(semaphore);
        assert_eq!(open(NAME), 0, "cycle {cycle}");
        with(|state| assert_eq!(state.alive(), 0, "cycle {cycle}"));
    }
    rustix::fs::fstat(unrelated.as_fd()).expect("still open");
}

#[test]
fn invalid_memory_never_reaches_the_driver() {
    let gl = interop(&driver::ALL);
    let pipe = rustix::pipe::pipe().expect("a pipe").0;
    let null = std::fs::File::open("/dev/null").expect("open").into();
    let invalid = [
        (memory_request(memory_handle(), 0), ErrorKind::InvalidArgument),
        (memory_request(memory_handle(), SIZE + 1), ErrorKind::InvalidArgument),
        (memory_request(memory_handle(), u64::MAX), ErrorKind::InvalidArgument),
        (memory_request(MemoryHandle::OpaqueFd(pipe), SIZE), ErrorKind::InvalidArgument),
        (memory_request(MemoryHandle::OpaqueFd(null), SIZE), ErrorKind::InvalidArgument),
        (memory_request(MemoryHandle::DmaBufFd(memory_fd()), SIZE), ErrorKind::Unsupported),
        (memory_request(memory_handle(), SIZE).exported_by(device(9)), ErrorKind::DeviceMismatch),
    ];
    with(|state| state.calls.clear());
    for (request, kind) in invalid {
        let text = format!("{request:?}");
        let failure = gl.import_memory(request).expect_err("rejected");
        assert_eq!(failure.kind(), kind, "{text}");
        let open = classify_fd(failure.into_request().handle().as_fd().expect("a descriptor"));
        assert_ne!(open, FdKind::Closed, "{text}");
    }
    let request = semaphore_request(semaphore_handle(false)).exported_by(device(9));
    let failure = gl.import_semaphore(request).expect_err("another device");
    let mismatch = failure.error().mismatch().expect("both identities");
    assert_eq!((mismatch.exporter.uuid, mismatch.importer.uuid), (device(9).uuid, device(1).uuid));
    with(|state| assert!(state.calls.is_empty(), "{:?}", state.calls));
    gl.import_memory(memory_request(memory_handle(), SIZE).exported_by(device(1))).expect("this device's");
}

fn memory_fd() -> std::os::fd::OwnedFd {
    memory_handle().into_fd().expect("a descriptor")
}

fn device(byte: u8) -> DeviceIdentity {
    DeviceIdentity::default().with_uuid(Uuid::from_bytes([byte; 16]))
}

/// CPU backends share application memory, which Mesa would interpret as its own header.
#[test]
fn memory_of_cpu_backends_is_rejected_and_returned() {
    let gl = interop(&driver::ALL);
    // SAFETY: rejected before a driver sees it.
    let request = unsafe { memory_request(named_memory("native of the CPU"), SIZE).native(true) };
    let failure = gl.import_memory(request).expect_err("not from an OpenGL exporter");
    assert_eq!(failure.kind(), ErrorKind::Unsupported, "{}", failure.error());
    assert_eq!(open("native of the CPU"), 1, "the handle is returned");
}
