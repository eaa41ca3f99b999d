//! Arguments of the recorded calls.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

pub const SIZE: u64 = 4096;

pub fn file(size: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("recorded", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&fd, size).expect("ftruncate");
    fd
}

pub fn pointer(address: usize) -> NonNull<c_void> {
    NonNull::new(std::ptr::without_provenance_mut(address)).expect("not null")
}
