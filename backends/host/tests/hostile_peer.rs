//! Effects of another process that has a file descriptor of the same file.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::os::fd::OwnedFd;

use gpu_interop_core::{Device, ErrorKind, MappedBuffer, MemoryHandle, MemoryImport};
use gpu_interop_host::HostBackend;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_get_seals, ftruncate};
use rustix::io::Errno;

const SIZE: usize = 1 << 20;

fn open() -> Device {
    Device::open(&HostBackend::new(), 0).expect("the host backend always opens")
}

/// Creates a file of [`SIZE`] bytes of value 7. Returns it and the peer's file descriptor.
fn file(flags: MemfdFlags) -> (OwnedFd, OwnedFd) {
    let fd = rustix::fs::memfd_create("peer", MemfdFlags::CLOEXEC | flags).expect("memfd");
    assert_eq!(rustix::io::pwrite(&fd, &[7; SIZE], 0).expect("written"), SIZE);
    let peer = fd.try_clone().expect("a duplicate");
    (fd, peer)
}

/// Creates memory like `shm_open`: created by name, without seals.
fn posix_file() -> (OwnedFd, OwnedFd) {
    let path = format!("/dev/shm/gpu-interop-host-test-{}", std::process::id());
    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("POSIX memory");
    std::fs::remove_file(&path).expect("unlinked");
    let fd = OwnedFd::from(file);
    assert_eq!(rustix::io::pwrite(&fd, &[7; SIZE], 0).expect("written"), SIZE);
    let peer = fd.try_clone().expect("a duplicate");
    (fd, peer)
}

fn request(fd: OwnedFd) -> MemoryImport {
    // SAFETY: the file has this many bytes; these tests control its peer.
    unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(fd), SIZE as u64) }
}

fn read(device: &Device, map: &MappedBuffer) -> Vec<u8> {
    let mut found = vec![0; SIZE];
    device.create_stream().expect("stream").read(map, &mut found).expect("read");
    found
}

#[test]
fn a_peer_cannot_truncate_mapped_memory() {
    let device = open();
    let (fd, peer) = file(MemfdFlags::ALLOW_SEALING);
    let map = device.import_memory(request(fd)).expect("import").map_buffer(..).expect("map");
    assert_eq!(ftruncate(&peer, 0), Err(Errno::PERM));
    assert_eq!(read(&device, &map), [7; SIZE]);
}

#[test]
fn memory_that_a_peer_can_truncate_requires_a_trusted_peer() {
    let device = open();
    for (fd, peer) in [file(MemfdFlags::empty()), posix_file()] {
        let failure = device.import_memory(request(fd)).expect_err("it cannot be sealed");
        assert_eq!(failure.kind(), ErrorKind::ImportRejected);
        let text = failure.to_string();
        for advice in ["MFD_ALLOW_SEALING", "MemoryImport::trusted_peer"] {
            assert!(text.contains(advice), "{text}");
        }
        // SAFETY: this test owns the other file descriptor, and truncates only after the last mapping.
        let trusted = unsafe { failure.into_request().trusted_peer(true) };
        let memory = device.import_memory(trusted).expect("imports from a trusted peer");
        let map = memory.map_buffer(..).expect("map");
        assert_eq!(read(&device, &map), [7; SIZE]);
        map.close().expect("unmapped");
        ftruncate(&peer, 4096).expect("the file is not sealed");
        let error = memory.map_buffer(..).expect_err("the file was truncated");
        assert_eq!(error.kind(), ErrorKind::ImportRejected);
        assert!(error.to_string().contains("4096 bytes"), "{error}");
        memory.map_buffer(0..4096).expect("the remaining bytes");
    }
}

#[test]
fn a_file_of_a_trusted_peer_is_not_sealed() {
    let device = open();
    let (fd, peer) = file(MemfdFlags::ALLOW_SEALING);
    // SAFETY: nothing truncates the file.
    let trusted = unsafe { request(fd).trusted_peer(true) };
    let memory = device.import_memory(trusted).expect("import");
    assert_eq!(fcntl_get_seals(&peer), Ok(SealFlags::empty()));
    drop(memory);
}

#[test]
fn exported_memory_cannot_be_truncated() {
    let memory = open().allocate_exportable(SIZE as u64).expect("memory");
    let fd = memory.export().expect("export").into_fd().expect("a descriptor");
    assert_eq!(ftruncate(&fd, 0), Err(Errno::PERM));
}
