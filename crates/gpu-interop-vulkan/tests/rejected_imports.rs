//! Imports that must fail with a typed error, return the handle open, and leak no descriptor.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic)]

mod common;

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use common::{Checked, USAGE, vulkan};
use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{
    DeviceIdentity, ErrorKind, ImportError, MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreImport, Uuid,
};
use gpu_interop_vulkan::{BufferImportOptions, BufferOptions, ExportableBuffer, ImportedBuffer, ImportedSemaphore};
use rustix::fs::MemfdFlags;

const SIZE: u64 = 64 << 10;

/// Serialises the tests, because they count the process's descriptors.
fn serialised() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    lock(&LOCK)
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc/self/fd").count()
}

fn memfd(length: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("not an export", MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&fd, length).expect("ftruncate");
    fd
}

fn regular_file() -> OwnedFd {
    let path = std::env::temp_dir().join(format!("gpu-interop-vulkan-{}", std::process::id()));
    let mut file = std::fs::File::create_new(&path).expect("a temporary file");
    file.write_all(&[0; 4096]).expect("write");
    let file = std::fs::File::open(&path).expect("open");
    std::fs::remove_file(&path).expect("remove");
    file.into()
}

/// A request for genuine memory, or one that must be rejected. If a driver accepts a false one, nothing accesses its
/// memory.
fn memory_request(handle: MemoryHandle, size: u64) -> MemoryImport {
    // SAFETY: as documented above.
    unsafe { MemoryImport::new(handle, size) }
}

/// As [`memory_request`], with the dedicated flag.
fn dedicated_request(handle: MemoryHandle, size: u64, dedicated: bool) -> MemoryImport {
    // SAFETY: as documented above.
    unsafe { MemoryImport::new(handle, size).dedicated(dedicated) }
}

fn create(context: &Checked) -> ExportableBuffer {
    ExportableBuffer::new(context.interop(), &BufferOptions::new(SIZE, USAGE)).expect("create")
}

/// Imports a buffer of [`SIZE`] bytes.
fn import(context: &Checked, request: MemoryImport) -> Result<ImportedBuffer, ImportError<MemoryImport>> {
    ImportedBuffer::new(context.interop(), request, &BufferImportOptions::new(SIZE, USAGE))
}

/// Imports `fd` as `size` bytes, checks that the import fails without side effects, and returns the error's kind.
fn rejected(context: &Checked, fd: OwnedFd, size: u64) -> ErrorKind {
    let number = fd.as_raw_fd();
    let before = rustix::fs::fstat(&fd).expect("open before");
    let count = open_descriptors();
    let request = memory_request(MemoryHandle::OpaqueFd(fd), size);
    let options = BufferImportOptions::new(size.clamp(4, SIZE), USAGE);
    let failure = match ImportedBuffer::new(context.interop(), request, &options) {
        Ok(_) => panic!("the import succeeded"),
        Err(failure) => failure,
    };
    assert_eq!(open_descriptors(), count, "a descriptor was leaked or closed: {}", failure.error());
    let kind = failure.kind();
    let (error, request) = failure.into_parts();
    println!("{error}");
    assert_eq!(request.size(), size, "the request is returned unchanged");
    let fd = request.into_handle().into_fd().expect("the descriptor is returned");
    assert_eq!(fd.as_raw_fd(), number);
    let after = rustix::fs::fstat(&fd).expect("the returned descriptor is open");
    assert_eq!(
        (before.st_dev, before.st_ino),
        (after.st_dev, after.st_ino),
        "the returned descriptor is the same file"
    );
    kind
}

#[test]
fn foreign_memory_files_are_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    // Large enough to pass every check before the driver, so that the driver rejects it.
    for _ in 0..3 {
        let request = memory_request(MemoryHandle::OpaqueFd(memfd(SIZE * 2)), SIZE);
        if import(&context, request).is_ok() {
            println!("skipped, this driver imports any memory file");
            return;
        }
        let kind = rejected(&context, memfd(SIZE * 2), SIZE);
        assert!(matches!(kind, ErrorKind::ImportRejected | ErrorKind::OutOfMemory), "{kind:?}");
    }
}

#[test]
fn descriptors_that_cannot_be_memory_are_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    let (read, write) = rustix::pipe::pipe().expect("pipe");
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("socketpair");
    let directory = std::fs::File::open("/").expect("open");
    let null = std::fs::File::open("/dev/null").expect("open");
    let descriptors = [read, write, socket.into(), directory.into(), null.into(), regular_file()];
    for fd in descriptors {
        assert_eq!(rejected(&context, fd, SIZE), ErrorKind::InvalidArgument);
    }
}

#[test]
fn closed_descriptors_are_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    // High enough not to be reused by this process while it is closed.
    const NUMBER: RawFd = 900;
    let original = memfd(SIZE);
    let number = rustix::io::fcntl_dupfd_cloexec(&original, NUMBER).expect("dup").into_raw_fd();
    // SAFETY: `into_raw_fd` gave up the ownership of the number, which this takes and closes.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    // SAFETY: the number is closed on purpose. `into_raw_fd` below gives it up before it can be closed twice.
    let closed = unsafe { OwnedFd::from_raw_fd(number) };
    let count = open_descriptors();
    let request = memory_request(MemoryHandle::OpaqueFd(closed), SIZE);
    let failure = import(&context, request).expect_err("nothing to import");
    assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
    assert!(failure.to_string().contains("not an open file descriptor"), "{failure}");
    assert_eq!(open_descriptors(), count);
    let fd = failure.into_request().into_handle().into_fd().expect("the descriptor is returned");
    assert_eq!(fd.into_raw_fd(), number);
}

#[test]
fn wrong_sizes_are_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let fd = || exported.export().expect("export").into_fd().expect("a descriptor");
    assert_eq!(rejected(&context, fd(), 0), ErrorKind::InvalidArgument);
    let memory_file = classify_fd(fd().as_fd()) == FdKind::Memory;
    let oversize = rejected(&context, fd(), exported.buffer().allocation_size() * 16);
    if memory_file {
        assert_eq!(oversize, ErrorKind::InvalidArgument, "the file's length is checked before the driver call");
    } else {
        assert!(matches!(oversize, ErrorKind::ImportRejected | ErrorKind::OutOfMemory), "{oversize:?}");
    }

    let unfit = |size: u64, buffer: u64, dedicated: bool| {
        let request = dedicated_request(MemoryHandle::OpaqueFd(fd()), size, dedicated);
        let failure = ImportedBuffer::new(context.interop(), request, &BufferImportOptions::new(buffer, USAGE))
            .expect_err("the sizes do not fit");
        failure.kind()
    };
    let allocation = exported.buffer().allocation_size();
    assert_eq!(unfit(allocation, allocation + 1, false), ErrorKind::InvalidArgument, "a buffer past the memory");
    assert_eq!(unfit(allocation, 4, true), ErrorKind::InvalidArgument, "a dedicated allocation fits exactly");
    assert_eq!(unfit(allocation, 0, false), ErrorKind::InvalidArgument, "an empty buffer");
}

#[test]
fn memory_of_another_device_is_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let other = context.identity().clone().with_uuid(Uuid::from_bytes([0xee; 16]));
    let request = exported.import_request().expect("export").exported_by(other.clone());
    let failure = import(&context, request).expect_err("another device");
    assert_eq!(failure.kind(), ErrorKind::DeviceMismatch);
    let mismatch = failure.error().mismatch().expect("both identities");
    assert_eq!((&mismatch.exporter, &mismatch.importer), (&other, context.identity()));
    // The returned handle is still valid.
    let request = memory_request(failure.into_request().into_handle(), exported.buffer().allocation_size());
    import(&context, request).expect("import");
}

#[test]
fn unknown_memory_types_are_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    let exported = create(&context);
    let request = exported.import_request().expect("export");
    for index in [31, 32, u32::MAX] {
        let options = BufferImportOptions::new(SIZE, USAGE).memory_type(index);
        let request = exported.import_request().expect("export");
        let failure = ImportedBuffer::new(context.interop(), request, &options).expect_err("no such type");
        assert_eq!(failure.kind(), ErrorKind::InvalidArgument, "{index}");
    }
    let options = BufferImportOptions::new(SIZE, USAGE).memory_type(exported.buffer().memory_type());
    ImportedBuffer::new(context.interop(), request, &options).expect("the exporter's own type");
}

#[test]
fn successful_imports_leak_nothing() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    let round = || {
        let exported = create(&context);
        let request = exported.import_request().expect("export");
        import(&context, request).expect("import");
    };
    round();
    let count = open_descriptors();
    (0..50).for_each(|_| round());
    assert_eq!(open_descriptors(), count);
}

#[test]
fn descriptors_that_cannot_be_semaphores_are_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    let (pipe, _write) = rustix::pipe::pipe().expect("pipe");
    let number = pipe.as_raw_fd();
    let count = open_descriptors();
    for make in [SemaphoreHandle::OpaqueFd, SemaphoreHandle::TimelineFd] {
        let handle = make(rustix::io::fcntl_dupfd_cloexec(&pipe, 0).expect("dup"));
        // SAFETY: a pipe is rejected before the driver is called.
        let request = unsafe { SemaphoreImport::new(handle) };
        let failure = ImportedSemaphore::new(context.interop(), request).expect_err("a pipe");
        assert_eq!(failure.kind(), ErrorKind::InvalidArgument);
        let fd = failure.into_request().into_handle().into_fd().expect("the descriptor is returned");
        rustix::fs::fstat(fd.as_fd()).expect("open");
        assert_ne!(fd.as_raw_fd(), number);
    }
    assert_eq!(open_descriptors(), count);
}

/// CPU backends share application memory, which lavapipe would interpret as its own header.
#[test]
fn memory_of_cpu_backends_is_rejected() {
    let _serialised = serialised();
    let Some(context) = vulkan() else { return };
    let host = DeviceIdentity::default().with_kind(gpu_interop_core::DeviceKind::Cpu);
    for exporter in [Some(host), None] {
        // SAFETY: rejected before a driver sees it.
        let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(memfd(SIZE)), SIZE).native(true) };
        let request = exporter.into_iter().fold(request, MemoryImport::exported_by);
        let failure = import(&context, request).expect_err("not from Vulkan");
        assert_eq!(failure.kind(), ErrorKind::Unsupported, "{}", failure.error());
        assert!(failure.into_request().handle().as_fd().is_some(), "the handle is returned");
    }
}
