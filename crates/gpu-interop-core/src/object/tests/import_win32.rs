//! Validation of imports of Windows handles before the backend is called, and names in errors.

use std::fs::File;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetCurrentThread};

use super::exported::{memory_request, section, semaphore_request, with_dedicated};
use super::{SIZE, assert_error, open};
use crate::error::ErrorKind;
use crate::handle::{MemoryHandle, NtHandle, ObjectName, SemaphoreHandle, Win32Object};

const MEMORY: &str = "Device::import_memory";
const SEMAPHORE: &str = "Device::import_semaphore";

type OfMemory = fn(Win32Object) -> MemoryHandle;
type OfSemaphore = fn(Win32Object) -> SemaphoreHandle;

/// All kinds that an NT handle may be declared as.
const MEMORIES: [OfMemory; 4] =
    [MemoryHandle::OpaqueWin32, MemoryHandle::D3d12Heap, MemoryHandle::D3d12Resource, MemoryHandle::D3d11Resource];
const SEMAPHORES: [OfSemaphore; 5] = [
    SemaphoreHandle::OpaqueWin32,
    SemaphoreHandle::TimelineWin32,
    SemaphoreHandle::D3d12Fence,
    SemaphoreHandle::D3d11Fence,
    SemaphoreHandle::D3d11KeyedMutex,
];

fn number_of(object: Option<&Win32Object>) -> HANDLE {
    match object {
        Some(Win32Object::Handle(handle)) => handle.as_raw(),
        other => panic!("another handle was returned: {other:?}"),
    }
}

/// Asserts that a handle is rejected as every kind without a call of the backend, and that the error returns it.
fn reject(handle: impl Into<OwnedHandle>, words: &[&str]) {
    let handle: OwnedHandle = handle.into();
    let value = handle.as_raw_handle();
    let named = format!("{:#x}", value.addr());
    let words: Vec<&str> = words.iter().copied().chain([named.as_str()]).collect();
    let mut object = Win32Object::Handle(handle.into());
    for make in MEMORIES {
        let (recorder, device) = open();
        let request = with_dedicated(memory_request(make(object), SIZE), true);
        let (error, request) = device.import_memory(request).expect_err("not memory").into_parts();
        assert_error(&error, ErrorKind::InvalidArgument, MEMORY, &words);
        assert_eq!(recorder.calls(), []);
        assert_eq!(number_of(request.handle().as_win32()), value);
        object = request.into_handle().into_win32().expect("the object");
    }
    for make in SEMAPHORES {
        let (recorder, device) = open();
        let request = semaphore_request(make(object));
        let (error, request) = device.import_semaphore(request).expect_err("no semaphore").into_parts();
        assert_error(&error, ErrorKind::InvalidArgument, SEMAPHORE, &words);
        assert_eq!(recorder.calls(), []);
        assert_eq!(number_of(request.handle().as_win32()), value);
        object = request.into_handle().into_win32().expect("the object");
    }
}

#[test]
fn objects_that_no_gpu_api_exports_are_rejected() {
    reject(File::open(std::env::current_exe().expect("a path")).expect("the program"), &["a file on disk"]);
    reject(File::open("NUL").expect("the null device"), &["a character device"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    reject(reader, &["a pipe"]);
    reject(writer, &["a pipe"]);
    reject(std::thread::spawn(|| {}), &["a thread"]);
    // SAFETY: the pseudo handle of this process is always valid.
    let process = unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) };
    reject(process.try_clone_to_owned().expect("a duplicate"), &["a process"]);
}

/// A number like that of a closed handle, but never opened: another test of this process may get a recycled one.
#[test]
fn a_closed_nt_handle_is_rejected_before_the_backend() {
    // Above all numbers of Windows and Wine, both of which are limited to 2^24 handles.
    let number = std::ptr::without_provenance_mut(0x7fff_fffc);
    // SAFETY: the number has no owner, and its wrapper is dismantled below without a close.
    let stale = unsafe { OwnedHandle::from_raw_handle(number) };
    let (recorder, device) = open();
    let request = memory_request(MemoryHandle::OpaqueWin32(Win32Object::Handle(stale.into())), SIZE);
    let (error, request) = device.import_memory(request).expect_err("no open handle").into_parts();
    let number_in_full = format!("{:#x}", number.addr());
    assert_error(&error, ErrorKind::InvalidArgument, MEMORY, &["not an open handle", &number_in_full]);
    assert_eq!(recorder.calls(), []);
    assert_eq!(number_of(request.handle().as_win32()), number);
    std::mem::forget(request);
}

/// Sections resemble shared GPU objects: only the driver can reject them.
#[test]
fn possibly_exported_objects_reach_the_backend() {
    for make in MEMORIES {
        let (recorder, device) = open();
        let request = with_dedicated(memory_request(make(Win32Object::Handle(section().into())), SIZE), true);
        device.import_memory(request).expect("an import").close().expect("closed");
        assert!(!recorder.calls().is_empty());
    }
}

#[test]
fn the_error_contains_and_returns_a_rejected_name() {
    let name = ObjectName::new("Local\\Grüße 🦀").expect("a name");
    let (recorder, device) = open();
    recorder.fail_next("ImportMemory", ErrorKind::ImportRejected);
    let request = memory_request(MemoryHandle::OpaqueWin32(name.clone().into()), SIZE);
    let (error, request) = device.import_memory(request).expect_err("injected failure").into_parts();
    assert!(error.to_string().contains("Grüße 🦀"), "{error}");
    assert_eq!(request.handle().as_win32().and_then(Win32Object::name), Some(&name));
    recorder.fail_next("ImportSemaphore", ErrorKind::ImportRejected);
    let failure = device
        .import_semaphore(semaphore_request(SemaphoreHandle::TimelineWin32(name.clone().into())))
        .expect_err("injected failure");
    let (error, request) = failure.into_parts();
    assert!(error.to_string().contains("Grüße 🦀"), "{error}");
    assert_eq!(request.handle().as_win32().and_then(Win32Object::name), Some(&name));
}

/// Pseudo handles of the current process and thread: a duplicate would refer to the duplicating process.
#[test]
fn pseudo_handles_are_rejected() {
    // SAFETY: the calls take no arguments.
    let current = unsafe { [GetCurrentProcess(), GetCurrentThread()] };
    // SAFETY: nothing is created from the first; closing the second has no effect.
    let [process, thread] = current.map(|number| unsafe { NtHandle::from_raw(number) });
    assert_eq!(process.expect_err("as INVALID_HANDLE_VALUE").kind(), ErrorKind::InvalidArgument);
    let (recorder, device) = open();
    let request = memory_request(MemoryHandle::OpaqueWin32(thread.expect("a number").into()), SIZE);
    let (error, _request) = device.import_memory(request).expect_err("no handle").into_parts();
    assert_error(&error, ErrorKind::InvalidArgument, MEMORY, &[]);
    assert_eq!(recorder.calls(), []);
}
