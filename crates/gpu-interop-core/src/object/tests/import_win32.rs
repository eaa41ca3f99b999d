//! What an import refuses of handles of Windows before the backend is called, and what it says of names.

use std::fs::File;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetCurrentThread};

use super::exported::{memory_request, section, semaphore_request, with_dedicated};
use super::{SIZE, assert_refused, open};
use crate::error::ErrorKind;
use crate::handle::{MemoryHandle, NtHandle, ObjectName, SemaphoreHandle, Win32Object};

const MEMORY: &str = "Device::import_memory";
const SEMAPHORE: &str = "Device::import_semaphore";

type OfMemory = fn(Win32Object) -> MemoryHandle;
type OfSemaphore = fn(Win32Object) -> SemaphoreHandle;

/// Everything that an NT handle may be said to be.
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
        other => panic!("another handle came back: {other:?}"),
    }
}

/// Asserts that a handle is refused as whatever it is said to be, the backend not called, and that it comes back.
fn refuse(handle: impl Into<OwnedHandle>, words: &[&str]) {
    let handle: OwnedHandle = handle.into();
    let value = handle.as_raw_handle();
    let named = format!("{:#x}", value.addr());
    let words: Vec<&str> = words.iter().copied().chain([named.as_str()]).collect();
    let mut object = Win32Object::Handle(handle.into());
    for make in MEMORIES {
        let (recorder, device) = open();
        let request = with_dedicated(memory_request(make(object), SIZE), true);
        let (error, request) = device.import_memory(request).expect_err("not memory").into_parts();
        assert_refused(&error, ErrorKind::InvalidArgument, MEMORY, &words);
        assert_eq!(recorder.calls(), []);
        assert_eq!(number_of(request.handle().as_win32()), value);
        object = request.into_handle().into_win32().expect("the object");
    }
    for make in SEMAPHORES {
        let (recorder, device) = open();
        let request = semaphore_request(make(object));
        let (error, request) = device.import_semaphore(request).expect_err("no semaphore").into_parts();
        assert_refused(&error, ErrorKind::InvalidArgument, SEMAPHORE, &words);
        assert_eq!(recorder.calls(), []);
        assert_eq!(number_of(request.handle().as_win32()), value);
        object = request.into_handle().into_win32().expect("the object");
    }
}

#[test]
fn what_is_never_exported_is_refused() {
    refuse(File::open(std::env::current_exe().expect("a path")).expect("the program"), &["a file on disk"]);
    refuse(File::open("NUL").expect("the null device"), &["a character device"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    refuse(reader, &["a pipe"]);
    refuse(writer, &["a pipe"]);
    refuse(std::thread::spawn(|| {}), &["a thread"]);
    // SAFETY: a number that stands for this process, always.
    let process = unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) };
    refuse(process.try_clone_to_owned().expect("a duplicate"), &["a process"]);
}

/// As a closed handle is. Not the number of one that was open: another test of this process may be given it again.
#[test]
fn a_number_that_is_not_open_is_refused_before_the_backend_is_called() {
    // Above all that Windows and Wine give out, both of which stop at 2^24 handles.
    let number = std::ptr::without_provenance_mut(0x7fff_fffc);
    // SAFETY: nobody has it, and what owns it is taken apart below without a close.
    let stale = unsafe { OwnedHandle::from_raw_handle(number) };
    let (recorder, device) = open();
    let request = memory_request(MemoryHandle::OpaqueWin32(Win32Object::Handle(stale.into())), SIZE);
    let (error, request) = device.import_memory(request).expect_err("no open handle").into_parts();
    let number_in_full = format!("{:#x}", number.addr());
    assert_refused(&error, ErrorKind::InvalidArgument, MEMORY, &["not an open handle", &number_in_full]);
    assert_eq!(recorder.calls(), []);
    assert_eq!(number_of(request.handle().as_win32()), number);
    std::mem::forget(request);
}

/// Sections look like what GPU APIs share: only a driver knows.
#[test]
fn what_may_have_been_exported_reaches_the_backend() {
    for make in MEMORIES {
        let (recorder, device) = open();
        let request = with_dedicated(memory_request(make(Win32Object::Handle(section().into())), SIZE), true);
        device.import_memory(request).expect("an import").close().expect("closed");
        assert!(!recorder.calls().is_empty());
    }
}

#[test]
fn a_refused_name_is_in_the_error_and_comes_back() {
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

/// What stands for the current process and thread would become handles of whoever duplicates them.
#[test]
fn numbers_without_a_handle_of_their_own_are_refused() {
    // SAFETY: no arguments.
    let current = unsafe { [GetCurrentProcess(), GetCurrentThread()] };
    // SAFETY: of the first nothing is made; to close the second does nothing.
    let [process, thread] = current.map(|number| unsafe { NtHandle::from_raw(number) });
    assert_eq!(process.expect_err("as INVALID_HANDLE_VALUE").kind(), ErrorKind::InvalidArgument);
    let (recorder, device) = open();
    let request = memory_request(MemoryHandle::OpaqueWin32(thread.expect("a number").into()), SIZE);
    let (error, _request) = device.import_memory(request).expect_err("no handle").into_parts();
    assert_refused(&error, ErrorKind::InvalidArgument, MEMORY, &[]);
    assert_eq!(recorder.calls(), []);
}
