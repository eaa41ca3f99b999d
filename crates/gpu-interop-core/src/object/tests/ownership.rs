//! Ownership of handles after imports.

use super::exported::{memory_request, semaphore_request, with_dedicated};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;

use super::recorder::gpu;
use super::{SIZE, memfd, open};
use crate::array::{ArrayFormat, ChannelType};
use crate::error::ErrorKind;
use crate::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier, MappedPlanes, PlaneLayout};
use crate::handle::{MemoryHandle, MemoryHandleKind, SemaphoreHandle};
use crate::import::{MemoryImport, SemaphoreImport};
use crate::object::Device;
use crate::sync::lock;

static OWN_NUMBER: Mutex<()> = Mutex::new(());

/// Runs `test` with `fd` at a number that no other thread gets, even while it is closed: the kernel returns the lowest
/// free number, and duplicates for drivers have higher ones.
pub(super) fn at_own_number(fd: OwnedFd, test: impl FnOnce(OwnedFd)) {
    let _guard = lock(&OWN_NUMBER);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(8192);
    let number = RawFd::try_from((limit / 4).min(2048)).expect("small");
    let moved = rustix::io::fcntl_dupfd_cloexec(&fd, number).expect("dup");
    drop(fd);
    test(moved);
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: the borrow lives for one call, which fails with EBADF for a number that is not open.
    rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok()
}

/// Number of descriptors of this process that refer to the memfd of this name. Other tests open and close descriptors
/// concurrently, so the total number proves nothing.
fn descriptors_of(name: &str) -> usize {
    let target = format!("/memfd:{name} (deleted)");
    std::fs::read_dir("/proc/self/fd")
        .expect("/proc")
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|link| link.to_string_lossy() == target)
        .count()
}

fn memory(fd: OwnedFd) -> MemoryImport {
    memory_request(MemoryHandle::OpaqueFd(fd), SIZE)
}

fn semaphore(fd: OwnedFd) -> SemaphoreImport {
    semaphore_request(SemaphoreHandle::TimelineFd(fd))
}

/// A file, with a duplicate to write through.
struct Exported {
    fd: OwnedFd,
    witness: OwnedFd,
    number: RawFd,
}

impl Exported {
    fn new() -> Self {
        let fd = memfd("exported");
        Self { witness: fd.try_clone().expect("dup"), number: fd.as_raw_fd(), fd }
    }
}

/// Asserts that `fd` is still the open descriptor `number` of the file behind `witness`.
#[track_caller]
fn assert_usable(fd: BorrowedFd<'_>, witness: &OwnedFd, number: RawFd) {
    assert_eq!(fd.as_raw_fd(), number, "the same descriptor is returned");
    let mark = format!("written at {number}");
    rustix::io::pwrite(witness, mark.as_bytes(), 64).expect("write");
    let mut found = vec![0; mark.len()];
    rustix::io::pread(fd, &mut found, 64).expect("read");
    assert_eq!(found, mark.as_bytes());
}

/// Failures of a memory import: a change of the request, and the failing call of the backend.
type Failure = (ErrorKind, fn(MemoryImport) -> MemoryImport, bool);

#[test]
fn a_failed_memory_import_returns_a_usable_handle() {
    let failures: [Failure; 5] = [
        (ErrorKind::InvalidArgument, |request| memory_request(request.into_handle(), 0), false),
        (ErrorKind::DeviceMismatch, |request| request.exported_by(gpu(2)), false),
        // The recorder closes the duplicate on every other failure, as some drivers do.
        (ErrorKind::ImportRejected, |request| request, true),
        (ErrorKind::OutOfMemory, |request| request, true),
        (ErrorKind::Driver, |request| with_dedicated(request, true), true),
    ];
    let (recorder, device) = open();
    for (kind, spoil, by_backend) in failures {
        let Exported { fd, witness, number } = Exported::new();
        if by_backend {
            recorder.fail_next("ImportMemory", kind);
        }
        let failure = device.import_memory(spoil(memory(fd))).expect_err("injected failure");
        assert_eq!(failure.kind(), kind);
        let request = failure.into_request();
        assert_usable(request.handle().as_fd().expect("an fd"), &witness, number);
        let again = memory(request.into_handle().into_fd().expect("an fd"));
        device.import_memory(again).expect("the handle can be imported").close().expect("close");
    }
}

#[test]
fn a_failed_semaphore_import_returns_a_usable_handle() {
    let (recorder, device) = open();
    for (kind, by_backend) in
        [(ErrorKind::DeviceMismatch, false), (ErrorKind::ImportRejected, true), (ErrorKind::Driver, true)]
    {
        let Exported { fd, witness, number } = Exported::new();
        let request = if by_backend {
            recorder.fail_next("ImportSemaphore", kind);
            semaphore(fd)
        } else {
            semaphore(fd).exported_by(gpu(2))
        };
        let failure = device.import_semaphore(request).expect_err("injected failure");
        assert_eq!(failure.kind(), kind);
        let fd = failure.into_request().into_handle().into_fd().expect("an fd");
        assert_usable(std::os::fd::AsFd::as_fd(&fd), &witness, number);
        device.import_semaphore(semaphore(fd)).expect("the handle can be imported").close().expect("close");
    }
}

/// The error also returns a descriptor of an invalid type, which the application may still use.
#[test]
fn a_rejected_pipe_is_still_usable() {
    let (read, write) = rustix::pipe::pipe().expect("pipe");
    let (_recorder, device) = open();
    let failure = device.import_memory(memory(read)).expect_err("a pipe");
    let read = failure.into_request().into_handle().into_fd().expect("an fd");
    rustix::io::write(&write, b"still here").expect("write");
    let mut found = [0; 10];
    rustix::io::read(&read, &mut found).expect("read");
    assert_eq!(&found, b"still here");
}

#[test]
fn a_successful_import_takes_the_descriptor() {
    at_own_number(memfd("taken"), |fd| {
        let (_recorder, device) = open();
        let number = fd.as_raw_fd();
        assert!(is_open(number));
        let memory = device.import_memory(memory(fd)).expect("import");
        assert!(!is_open(number), "the import does not need the descriptor");
        assert_eq!(descriptors_of("taken"), 0);
        drop(memory);
    });
    at_own_number(memfd("taken-semaphore"), |fd| {
        let (_recorder, device) = open();
        let number = fd.as_raw_fd();
        let semaphore = device.import_semaphore(semaphore(fd)).expect("import");
        assert!(!is_open(number), "the import does not need the descriptor");
        assert_eq!(descriptors_of("taken-semaphore"), 0);
        drop(semaphore);
    });
}

#[test]
fn dropping_the_error_closes_the_descriptor() {
    let (recorder, device) = open();
    recorder.fail_next("ImportMemory", ErrorKind::ImportRejected);
    let failure = device.import_memory(memory(memfd("dropped"))).expect_err("injected failure");
    assert_eq!(descriptors_of("dropped"), 1, "the caller's, and no duplicate");
    let error = crate::Error::from(failure);
    assert_eq!(descriptors_of("dropped"), 0);
    assert_eq!(error.kind(), ErrorKind::ImportRejected);
}

/// One import and close of a duplicate of `fd`, which fails in one of several ways or not at all.
fn cycle(round: usize, device: &Device, fail: &dyn Fn(&'static str), fd: &OwnedFd) {
    let fd = fd.try_clone().expect("dup");
    match round % 5 {
        0 => device.import_memory(memory(fd)).expect("import").close().expect("close"),
        1 => device.import_semaphore(semaphore(fd)).expect("import").close().expect("close"),
        2 => {
            fail("ImportMemory");
            drop(device.import_memory(memory(fd)).expect_err("injected failure"));
        }
        3 => {
            fail("ImportSemaphore");
            drop(device.import_semaphore(semaphore(fd)).expect_err("injected failure"));
        }
        _ => drop(device.import_memory(memory_request(MemoryHandle::OpaqueFd(fd), 0)).expect_err("size 0")),
    }
}

#[test]
fn no_descriptor_leaks_in_a_thousand_cycles() {
    let (recorder, device) = open();
    let file = memfd("cycles");
    assert_eq!(descriptors_of("cycles"), 1);
    for round in 0..1_000 {
        cycle(round, &device, &|call| recorder.fail_next(call, ErrorKind::ImportRejected), &file);
    }
    assert_eq!(descriptors_of("cycles"), 1);
}

/// Planes: the requests that were not imported come back, in order and usable; those imported before are closed.
#[test]
fn failed_planes_return_their_requests() {
    let texel = ArrayFormat::new(ChannelType::Unorm8, 1).expect("one channel");
    let plane = |memory| (memory, PlaneLayout::new(0, 64, [64, 16], texel));
    let names = ["plane-0", "plane-1", "plane-2"];
    for (failing, skip, returned) in
        [("none", 0, 3), ("ImportMemory", 0, 3), ("ImportMemory", 1, 2), ("MapBuffer", 0, 2)]
    {
        let (recorder, device) = open();
        let requests = || names.map(|name| memory(memfd(name))).into();
        let planes = vec![plane(0), plane(1), plane(if failing == "none" { 3 } else { 2 })];
        if failing != "none" {
            recorder.fail_after(skip, failing, ErrorKind::ImportRejected);
        }
        let failure = MappedPlanes::import(&device, requests(), planes.clone()).expect_err("injected failure");
        let open = names.map(descriptors_of);
        let expected: [usize; 3] = std::array::from_fn(|index| usize::from(index >= 3 - returned));
        assert_eq!(open, expected, "{failing} after {skip}");
        assert_eq!(recorder.live(), 0, "{failing} after {skip}: imports are released");
        let again = failure.into_request();
        assert_eq!(again.len(), returned);
        let left = (0..returned).map(plane).collect();
        drop(MappedPlanes::import(&device, again, left).expect("the requests can be imported"));
    }
}

/// A picture comes back with all of its descriptors, whichever import fails.
#[test]
fn a_failed_picture_returns_its_descriptors() {
    let file = |name| {
        let fd = memfd(name);
        rustix::fs::ftruncate(&fd, 4096).expect("ftruncate");
        fd
    };
    for (failing, skip) in [("none", 0), ("ImportMemory", 0), ("ImportMemory", 1), ("MapBuffer", 0), ("MapBuffer", 1)] {
        let (recorder, device) = open();
        let planes = ["luma", "chroma"].map(|name| DmaBufPlane::new(file(name), 0, 64)).into();
        let picture = DmaBufPicture::new(DrmFourcc::from_code("NV12"), DrmModifier::LINEAR, [64, 32], planes);
        if failing != "none" {
            recorder.fail_after(skip, failing, ErrorKind::ImportRejected);
        }
        // A kind that no dma-buf is passed as.
        let kind = if failing == "none" { MemoryHandleKind::OpaqueWin32 } else { MemoryHandleKind::OpaqueFd };
        // SAFETY: the recorder accesses no memory.
        let failure = unsafe { picture.import_as(&device, kind) }.expect_err("injected failure");
        assert_eq!(["luma", "chroma"].map(descriptors_of), [1, 1], "{failing} after {skip}");
        assert_eq!(recorder.live(), 0, "{failing} after {skip}");
        // SAFETY: as above.
        let mapped = unsafe { failure.into_request().import_as(&device, MemoryHandleKind::OpaqueFd) };
        assert_eq!(mapped.expect("the picture can be imported").len(), 2);
        assert_eq!(["luma", "chroma"].map(descriptors_of), [0, 0]);
    }
}
