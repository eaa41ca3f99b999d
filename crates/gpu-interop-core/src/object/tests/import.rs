//! Validation of imports before the backend is called.

use super::exported::{memory_request, semaphore_request, with_dedicated};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;

use rustix::event::EventfdFlags;

use super::ownership::at_own_number;
use super::recorder::{Call, Recorder, gpu};
use super::{SIZE, assert_error, memfd, opaque, open, open_on};
use crate::capability::{Capabilities, Support};
use crate::error::ErrorKind;
use crate::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use crate::handle::{
    KmtHandle, MemoryHandle, MemoryHandleKind, NtHandle, NvSciBufObject, NvSciSyncObject, ObjectName, SemaphoreHandle,
    SemaphoreHandleKind,
};
use crate::identity::{DeviceIdentity, PciAddress};
use crate::import::{MemoryImport, SemaphoreImport};

const MEMORY: &str = "Device::import_memory";
const SEMAPHORE: &str = "Device::import_semaphore";

/// Asserts that the import fails without a call of the backend.
#[track_caller]
fn reject_memory(request: MemoryImport, kind: ErrorKind, words: &[&str]) {
    let (recorder, device) = open();
    let (error, _request) = device.import_memory(request).expect_err("an invalid import").into_parts();
    assert_error(&error, kind, MEMORY, words);
    assert_eq!(recorder.calls(), []);
}

#[track_caller]
fn reject_semaphore(request: SemaphoreImport, kind: ErrorKind, words: &[&str]) {
    let (recorder, device) = open();
    let (error, _request) = device.import_semaphore(request).expect_err("an invalid import").into_parts();
    assert_error(&error, kind, SEMAPHORE, words);
    assert_eq!(recorder.calls(), []);
}

fn sci() -> NvSciBufObject {
    // SAFETY: these tests never dereference the object.
    unsafe { NvSciBufObject::from_raw(NonNull::dangling()) }
}

fn sci_sync() -> NvSciSyncObject {
    // SAFETY: as above.
    unsafe { NvSciSyncObject::from_raw(NonNull::dangling()) }
}

fn nt() -> NtHandle {
    // SAFETY: on this system a handle's value is never used.
    unsafe { NtHandle::from_raw(std::ptr::without_provenance_mut(0x44)) }.expect("a handle")
}

fn windows_memory() -> Vec<MemoryHandle> {
    let name = ObjectName::new("Local\\buffer").expect("a name");
    let kmt = KmtHandle::new(0x40).expect("a handle");
    vec![
        MemoryHandle::OpaqueWin32(nt().into()),
        MemoryHandle::OpaqueWin32Kmt(kmt),
        MemoryHandle::D3d12Heap(name.clone().into()),
        MemoryHandle::D3d12Resource(nt().into()),
        MemoryHandle::D3d11Resource(name.into()),
        MemoryHandle::D3d11ResourceKmt(kmt),
    ]
}

fn windows_semaphores() -> Vec<SemaphoreHandle> {
    let kmt = KmtHandle::new(0x40).expect("a handle");
    vec![
        SemaphoreHandle::OpaqueWin32(nt().into()),
        SemaphoreHandle::OpaqueWin32Kmt(kmt),
        SemaphoreHandle::D3d12Fence(nt().into()),
        SemaphoreHandle::D3d11Fence(nt().into()),
        SemaphoreHandle::D3d11KeyedMutex(nt().into()),
        SemaphoreHandle::D3d11KeyedMutexKmt(kmt),
        SemaphoreHandle::TimelineWin32(nt().into()),
    ]
}

/// Descriptors that are neither memory nor a semaphore, with their name in the error.
fn unrelated_descriptors() -> Vec<(&'static str, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe().expect("pipe");
    let open = |path: &str| OwnedFd::from(std::fs::File::open(path).expect(path));
    let (socket, _) = std::os::unix::net::UnixStream::pair().expect("socketpair");
    vec![
        ("a pipe", read),
        ("a pipe", write),
        ("a directory", open("/")),
        ("a regular file", open("/proc/self/exe")),
        ("a socket", socket.into()),
        ("a memory device", open("/dev/null")),
        ("a memory device", open("/dev/zero")),
        ("an eventfd", rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("eventfd")),
    ]
}

#[test]
fn size_0_is_rejected() {
    reject_memory(opaque(0), ErrorKind::InvalidArgument, &["size: 0", "opaque fd", "allocation"]);
}

/// The recorder declares all capabilities, so the core rejects these. An unsupported kind takes precedence over a size
/// of 0 and a missing dedicated flag.
#[test]
fn kinds_of_another_system_are_unsupported_before_anything_else() {
    let system = std::env::consts::OS;
    for handle in windows_memory() {
        let kind = handle.kind().to_string();
        reject_memory(memory_request(handle, 0), ErrorKind::Unsupported, &[&kind, system, "size: 0"]);
    }
    for handle in windows_semaphores() {
        let kind = handle.kind().to_string();
        reject_semaphore(semaphore_request(handle), ErrorKind::Unsupported, &[&kind, system]);
    }
}

#[test]
fn kinds_that_the_device_lacks_are_unsupported_with_its_reason() {
    let capabilities = Capabilities::none()
        .with_memory(MemoryHandleKind::DmaBufFd, Support::no("this driver is older than 12.9"))
        .with_semaphore(SemaphoreHandleKind::TimelineFd, Support::no("the stubs abort"));
    let (recorder, device) = open_on(Recorder::with_capabilities(gpu(1), capabilities));
    let dma_buf = memory_request(MemoryHandle::DmaBufFd(memfd("dma-buf")), SIZE);
    let error = device.import_memory(dma_buf).expect_err("declared unsupported");
    assert_error(error.error(), ErrorKind::Unsupported, MEMORY, &["dma-buf fd", "older than 12.9"]);
    let error = device.import_memory(opaque(SIZE)).expect_err("not declared");
    assert_error(error.error(), ErrorKind::Unsupported, MEMORY, &["opaque fd", "the backend does not implement it"]);
    let error = device
        .import_semaphore(semaphore_request(SemaphoreHandle::TimelineFd(memfd("timeline"))))
        .expect_err("unsupported");
    assert_error(error.error(), ErrorKind::Unsupported, SEMAPHORE, &["timeline semaphore fd", "the stubs abort"]);
    assert_eq!(recorder.calls(), []);
}

#[test]
fn an_emulated_kind_is_imported() {
    let capabilities = Capabilities::none().with_memory(MemoryHandleKind::OpaqueFd, Support::Emulated("mmap".into()));
    let (recorder, device) = open_on(Recorder::with_capabilities(gpu(1), capabilities));
    drop(device.import_memory(opaque(SIZE)).expect("emulated is supported"));
    assert_eq!(recorder.calls().len(), 2);
}

/// The kinds that require the flag exist on Windows only; elsewhere `Unsupported` takes precedence (see above).
#[test]
fn the_dedicated_flag_is_required_for_resources_and_passed_on_otherwise() {
    use MemoryHandleKind as Kind;
    for kind in Kind::ALL {
        let resource = matches!(kind, Kind::D3d12Resource | Kind::D3d11Resource | Kind::D3d11ResourceKmt);
        assert_eq!(kind.requires_dedicated(), resource, "{kind}");
        assert!(!resource || !kind.handle_type().is_current(), "{kind}: test the rejection here");
    }
    for dedicated in [false, true] {
        let (recorder, device) = open();
        let memory = device.import_memory(with_dedicated(opaque(SIZE), dedicated)).expect("import");
        assert_eq!(recorder.calls(), [Call::ImportMemory { kind: Kind::OpaqueFd, size: SIZE, dedicated }]);
        assert_eq!((memory.size(), memory.handle_kind()), (SIZE, Kind::OpaqueFd));
    }
}

#[test]
fn nvsci_objects_reach_the_backend_on_every_system() {
    let (recorder, device) = open();
    let memory = device.import_memory(memory_request(MemoryHandle::NvSciBuf(sci()), 1)).expect("memory");
    let semaphore =
        device.import_semaphore(semaphore_request(SemaphoreHandle::NvSciSync(sci_sync()))).expect("semaphore");
    assert_eq!(memory.handle_kind(), MemoryHandleKind::NvSciBuf);
    assert_eq!(semaphore.handle_kind(), SemaphoreHandleKind::NvSciSync);
    assert_eq!(
        recorder.calls(),
        [
            Call::ImportMemory { kind: MemoryHandleKind::NvSciBuf, size: 1, dedicated: false },
            Call::ImportSemaphore(SemaphoreHandleKind::NvSciSync),
        ]
    );
}

#[test]
fn another_devices_export_is_rejected_with_both_identities() {
    let both = ["card 1", "card 2", "01010101-0101-", "02020202-0202-"];
    reject_memory(opaque(SIZE).exported_by(gpu(2)), ErrorKind::DeviceMismatch, &both);
    let semaphore = semaphore_request(SemaphoreHandle::OpaqueFd(memfd("semaphore"))).exported_by(gpu(2));
    reject_semaphore(semaphore, ErrorKind::DeviceMismatch, &both);

    let (_recorder, device) = open();
    let (error, request) = device.import_memory(opaque(SIZE).exported_by(gpu(2))).expect_err("mismatch").into_parts();
    let mismatch = error.mismatch().expect("both identities");
    assert_eq!((&mismatch.exporter, &mismatch.importer), (&gpu(2), &gpu(1)));
    assert_eq!(request.exporter(), Some(&gpu(2)));
}

#[test]
fn the_same_and_an_unknown_exporter_are_allowed() {
    let (_recorder, device) = open();
    let elsewhere = PciAddress { domain: 0, bus: 9, device: 0, function: 0 };
    // No common field to compare: the driver decides.
    let unknown = DeviceIdentity { pci: Some(elsewhere), uuid: None, ..gpu(2) };
    for exporter in [gpu(1), unknown, DeviceIdentity::default()] {
        device.import_memory(opaque(SIZE).exported_by(exporter.clone())).expect("memory");
        let semaphore = SemaphoreHandle::OpaqueFd(memfd("semaphore"));
        device.import_semaphore(semaphore_request(semaphore).exported_by(exporter)).expect("semaphore");
    }
}

#[test]
fn descriptors_that_no_api_exports_are_rejected() {
    for (name, fd) in unrelated_descriptors() {
        let number = format!("fd: {}", fd.as_raw_fd());
        reject_memory(memory_request(MemoryHandle::OpaqueFd(fd), SIZE), ErrorKind::InvalidArgument, &[name, &number]);
    }
    for (name, fd) in unrelated_descriptors() {
        reject_memory(memory_request(MemoryHandle::DmaBufFd(fd), SIZE), ErrorKind::InvalidArgument, &[name]);
    }
    for (name, fd) in unrelated_descriptors() {
        let number = format!("fd: {}", fd.as_raw_fd());
        reject_semaphore(
            semaphore_request(SemaphoreHandle::OpaqueFd(fd)),
            ErrorKind::InvalidArgument,
            &[name, &number],
        );
    }
    for (name, fd) in unrelated_descriptors() {
        reject_semaphore(semaphore_request(SemaphoreHandle::TimelineFd(fd)), ErrorKind::InvalidArgument, &[name]);
    }
}

/// The driver gets the flag of the exporter's allocation.
#[test]
fn pictures_are_imported_with_their_dedicated_flag() {
    for dedicated in [false, true] {
        let (recorder, device) = open();
        let file = memfd("picture");
        rustix::fs::ftruncate(&file, SIZE).expect("ftruncate");
        let plane = DmaBufPlane::new(file, 0, 64).dedicated(dedicated);
        let picture = DmaBufPicture::new(DrmFourcc::from_code("R8  "), DrmModifier::LINEAR, [64, 16], vec![plane]);
        // SAFETY: the recorder accesses no memory.
        let planes = unsafe { picture.import_as(&device, MemoryHandleKind::OpaqueFd) }.expect("a picture");
        let kind = MemoryHandleKind::OpaqueFd;
        assert_eq!(recorder.calls()[0], Call::ImportMemory { kind, size: SIZE, dedicated });
        drop(planes);
    }
}

#[test]
fn a_memfd_is_no_dma_buf() {
    let request = memory_request(MemoryHandle::DmaBufFd(memfd("memory")), SIZE);
    reject_memory(request, ErrorKind::InvalidArgument, &["dma-buf fd", "anonymous memory"]);
}

#[test]
fn a_closed_descriptor_is_rejected() {
    let closed = |close: &dyn Fn(OwnedFd)| {
        at_own_number(memfd("closed"), |fd| {
            let number = fd.as_raw_fd();
            // SAFETY: acts as an application that closes a number which it no longer owns; the owner below never closes
            // it.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
            close(fd);
        });
    };
    closed(&|fd| {
        let (recorder, device) = open();
        let request = memory_request(MemoryHandle::OpaqueFd(fd), SIZE);
        let (error, request) = device.import_memory(request).expect_err("closed").into_parts();
        let _gone = request.into_handle().into_fd().expect("an fd").into_raw_fd();
        assert_error(&error, ErrorKind::InvalidArgument, MEMORY, &["not an open file descriptor", "fd: "]);
        assert_eq!(recorder.calls(), []);
    });
    // Neither the error nor a request that was never checked closes the number, which debug builds would abort.
    for size in [SIZE, 0] {
        closed(&|fd| {
            let (_recorder, device) = open();
            let error = device.import_memory(memory_request(MemoryHandle::OpaqueFd(fd), size)).expect_err("closed");
            assert!(size == 0 || error.to_string().contains("opaque_from_raw_fd"), "{error}");
            drop(error);
        });
    }
    closed(&|fd| drop(memory_request(MemoryHandle::OpaqueFd(fd), SIZE)));
    closed(&|fd| drop(semaphore_request(SemaphoreHandle::OpaqueFd(fd))));
    closed(&|fd| {
        let (recorder, device) = open();
        let failure = device.import_semaphore(semaphore_request(SemaphoreHandle::TimelineFd(fd))).expect_err("closed");
        let (error, request) = failure.into_parts();
        let _gone = request.into_handle().into_fd().expect("an fd").into_raw_fd();
        assert_error(&error, ErrorKind::InvalidArgument, SEMAPHORE, &["not an open file descriptor", "fd: "]);
        assert_eq!(recorder.calls(), []);
    });
}

#[test]
fn raw_descriptors_are_checked_when_they_are_wrapped() {
    for negative in [-1, -2, i32::MIN] {
        // SAFETY: a negative number is not an open descriptor.
        let error = unsafe { MemoryHandle::opaque_from_raw_fd(negative) }.expect_err("negative");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&format!("negative [fd: {negative}]")), "{error}");
    }
    at_own_number(memfd("raw"), |fd| {
        let number = fd.into_raw_fd();
        // SAFETY: the owner has just released the number.
        let handle = unsafe { MemoryHandle::opaque_from_raw_fd(number) }.expect("open");
        assert_eq!(handle.as_fd().map(|fd| fd.as_raw_fd()), Some(number));
        drop(handle);
        // SAFETY: the number is not open.
        let error = unsafe { MemoryHandle::opaque_from_raw_fd(number) }.expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&format!("fd: {number}")), "{error}");
    });
}
