//! Ownership of Windows handles: the caller's until an import succeeds, closed once.

use std::os::windows::io::{AsRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{GetHandleInformation, HANDLE};

use super::exported::{memory_request, section, semaphore_request};
use super::{SIZE, open};
use crate::error::ErrorKind;
use crate::handle::{MemoryHandle, SemaphoreHandle, Win32Object};
use crate::import::MemoryImport;

fn is_open(handle: HANDLE) -> bool {
    let mut flags = 0;
    // SAFETY: the pointer is valid; the call fails for a number that is not a handle.
    unsafe { GetHandleInformation(handle, &raw mut flags) != 0 }
}

fn memory(handle: OwnedHandle) -> MemoryImport {
    memory_request(MemoryHandle::OpaqueWin32(Win32Object::Handle(handle.into())), SIZE)
}

/// The value of a request's handle.
fn raw(handle: &MemoryHandle) -> HANDLE {
    match handle {
        MemoryHandle::OpaqueWin32(Win32Object::Handle(handle)) => handle.as_raw(),
        other => panic!("another handle was returned: {other:?}"),
    }
}

#[test]
fn a_failed_import_returns_the_same_open_handle() {
    let (recorder, device) = open();
    let handle = section();
    let number = handle.as_raw_handle();
    recorder.fail_next("ImportMemory", ErrorKind::ImportRejected);
    let failure = device.import_memory(memory(handle)).expect_err("injected failure");
    let request = failure.into_request();
    assert_eq!(raw(request.handle()), number, "the same handle is returned");
    assert!(is_open(number));
    device.import_memory(request).expect("it can be imported").close().expect("close");
}

#[test]
fn no_cycle_leaves_a_handle_open() {
    let (recorder, device) = open();
    let cycle = || {
        recorder.fail_next("ImportMemory", ErrorKind::ImportRejected);
        drop(device.import_memory(memory(section())).expect_err("injected failure"));
        drop(device.import_memory(memory(section())).expect("import"));
        let handle = SemaphoreHandle::TimelineWin32(Win32Object::Handle(section().into()));
        device.import_semaphore(semaphore_request(handle)).expect("import").close().expect("close");
    };
    cycle();
    let before = handles();
    (0..1000).for_each(|_| cycle());
    // Other tests of this process open and close handles concurrently.
    assert!(handles() < before + 500, "{before} handles grew to {}", handles());
}

/// Number of open handles, by a query of each number: Wine does not count them.
fn handles() -> usize {
    (4..1 << 16).step_by(4).filter(|number| is_open(std::ptr::without_provenance_mut(*number))).count()
}
