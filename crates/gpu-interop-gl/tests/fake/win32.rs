//! Windows handles and names.

use gpu_interop_core::handle::{KmtHandle, NtHandle, ObjectName, Win32Object};
use gpu_interop_core::{ErrorKind, MemoryHandle, SemaphoreHandle};
use gpu_interop_gl::Barriers;
use gpu_interop_test_support::request::{dedicated_request, memory_request, semaphore_request};
use windows_sys::Win32::System::Threading::CreateEventW;

use crate::driver::{self, INVALID_OPERATION, SIZE, with};
use crate::interop;

/// An event handle, which the system does not distinguish from memory or a semaphore.
fn handle() -> NtHandle {
    // SAFETY: all pointers are null: no name, not inherited.
    let event = unsafe { CreateEventW(std::ptr::null(), 0, 0, std::ptr::null()) };
    // SAFETY: the handle is new and owned here.
    unsafe { NtHandle::from_raw(event) }.expect("an event")
}

fn name() -> ObjectName {
    ObjectName::new("Local\\shared").expect("a name")
}

pub(crate) fn memory_handle() -> MemoryHandle {
    MemoryHandle::OpaqueWin32(handle().into())
}

pub(crate) fn semaphore_handle(timeline: bool) -> SemaphoreHandle {
    match timeline {
        true => SemaphoreHandle::TimelineWin32(handle().into()),
        false => SemaphoreHandle::OpaqueWin32(handle().into()),
    }
}

#[test]
fn memory_handles_have_their_type() {
    let gl = interop(&driver::ALL);
    let kmt = || KmtHandle::new(0x40).expect("a handle");
    type Make = fn(Win32Object) -> MemoryHandle;
    let kinds: [(Make, u32); 4] = [
        (MemoryHandle::OpaqueWin32, 0x9587),
        (MemoryHandle::D3d12Heap, 0x9589),
        (MemoryHandle::D3d12Resource, 0x958A),
        (MemoryHandle::D3d11Resource, 0x958B),
    ];
    for (make, ty) in kinds {
        let raw = handle();
        let value = raw.as_raw().addr();
        let memory = gl.import_memory(dedicated_request(make(raw.into()), SIZE, true)).expect("imported");
        with(|state| assert_eq!(state.memory[&memory.as_raw()].imported, Some((SIZE, ty, value))));
        let memory = gl.import_memory(dedicated_request(make(name().into()), SIZE, true)).expect("imported");
        with(|state| {
            let object = &state.memory[&memory.as_raw()];
            assert_eq!(object.imported, Some((SIZE, ty, 0)));
            assert_eq!(String::from_utf16_lossy(&object.name), "Local\\shared");
        });
    }
    for (handle, ty) in [(MemoryHandle::OpaqueWin32Kmt(kmt()), 0x9588), (MemoryHandle::D3d11ResourceKmt(kmt()), 0x958C)]
    {
        let memory = gl.import_memory(dedicated_request(handle, SIZE, true)).expect("imported");
        with(|state| assert_eq!(state.memory[&memory.as_raw()].imported, Some((SIZE, ty, 0x40))));
    }
    with(|state| assert_eq!(state.alive(), 0));
}

#[test]
fn semaphore_handles_have_their_type() {
    let gl = interop(&driver::ALL);
    let kmt = SemaphoreHandle::OpaqueWin32Kmt(KmtHandle::new(0x40).expect("a handle"));
    let cases = [
        (SemaphoreHandle::OpaqueWin32(name().into()), 0x9587, false),
        (kmt, 0x9588, false),
        (SemaphoreHandle::D3d12Fence(name().into()), 0x9594, false),
        (SemaphoreHandle::TimelineWin32(name().into()), 0x9587, true),
    ];
    for (handle, ty, timeline) in cases {
        let semaphore = gl.import_semaphore(semaphore_request(handle)).expect("imported");
        with(|state| {
            let object = &state.semaphores[&semaphore.as_raw()];
            assert_eq!((object.imported.map(|(ty, _)| ty), object.timeline), (Some(ty), timeline));
        });
    }
    let fence = gl.import_semaphore(semaphore_request(SemaphoreHandle::D3d12Fence(handle().into()))).expect("imported");
    fence.signal_value(7, &Barriers::NONE).expect("signalled");
    with(|state| assert_eq!(state.semaphores[&fence.as_raw()].value, 7));
}

#[test]
fn rejected_handles_are_returned() {
    let gl = interop(&driver::ALL);
    with(|state| state.fault = Some(("glImportMemoryWin32HandleEXT", INVALID_OPERATION)));
    let failure = gl.import_memory(memory_request(memory_handle(), SIZE)).expect_err("rejected");
    assert_eq!(failure.kind(), ErrorKind::ImportRejected);
    with(|state| {
        assert_eq!(state.alive(), 0);
        state.fault = None;
    });
    gl.import_memory(failure.into_request()).expect("the returned request works");
}

#[test]
fn rejected_names_are_reported() {
    let gl = interop(&driver::ALL);
    with(|state| state.fault = Some(("glImportMemoryWin32NameEXT", INVALID_OPERATION)));
    let request = memory_request(MemoryHandle::OpaqueWin32(name().into()), SIZE);
    let failure = gl.import_memory(request).expect_err("rejected").to_string();
    assert!(failure.contains("shared"), "{failure}");
    with(|state| state.fault = Some(("glImportSemaphoreWin32NameEXT", INVALID_OPERATION)));
    let failure = gl
        .import_semaphore(semaphore_request(SemaphoreHandle::OpaqueWin32(name().into())))
        .expect_err("rejected")
        .to_string();
    assert!(failure.contains("shared"), "{failure}");
}
