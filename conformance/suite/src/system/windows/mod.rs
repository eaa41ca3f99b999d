//! NT handles, pipes and exit codes.

mod connection;
pub(crate) mod objects;
mod resource_count;

use std::fs::File;
use std::os::windows::fs::FileExt;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

use gpu_interop::handle::Win32Object;
use gpu_interop::{MemoryHandle, MemoryHandleKind, SemaphoreHandle, SemaphoreHandleKind};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, GetCurrentThreadId, INFINITE, OpenProcess, PROCESS_SYNCHRONIZE,
    WaitForSingleObject,
};

use super::{BorrowedOsHandle, OsHandle};
use crate::ensure;
use crate::outcome::{Stop, Verdict};

pub use connection::Connection;
pub use resource_count::raise_handle_limit;
pub(crate) use resource_count::{available_memory, handle_limit, open_descriptors, resources, threads};

/// The handle kinds of this system's exporters.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueWin32;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueWin32;
/// The kind of exported timeline semaphores on this system.
pub const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineWin32;

/// Source of a Vulkan CPU driver, appended to the advice to install the device's driver: there is no usual one.
pub(crate) const VULKAN_ON_CPU: &str = "";
/// The package of Vulkan's validation layer.
pub const VULKAN_CHECKS: &str = "they are in the Vulkan SDK";

fn object(handle: OsHandle) -> Win32Object {
    Win32Object::Handle(handle.into())
}

pub(crate) fn memory(handle: OsHandle) -> MemoryHandle {
    MemoryHandle::OpaqueWin32(object(handle))
}

pub(crate) fn binary_semaphore(handle: OsHandle) -> SemaphoreHandle {
    SemaphoreHandle::OpaqueWin32(object(handle))
}

pub(crate) fn timeline_semaphore(handle: OsHandle) -> SemaphoreHandle {
    SemaphoreHandle::TimelineWin32(object(handle))
}

fn of_object(object: &Win32Object) -> Option<BorrowedOsHandle<'_>> {
    match object {
        // SAFETY: the object keeps its handle open for the borrow.
        Win32Object::Handle(handle) => Some(unsafe { BorrowedHandle::borrow_raw(handle.as_raw()) }),
        _ => None,
    }
}

/// The handle of exported memory, if it can be sent.
pub(crate) fn of_memory(handle: &MemoryHandle) -> Option<BorrowedOsHandle<'_>> {
    match handle {
        MemoryHandle::OpaqueWin32(object)
        | MemoryHandle::D3d12Heap(object)
        | MemoryHandle::D3d12Resource(object)
        | MemoryHandle::D3d11Resource(object) => of_object(object),
        _ => None,
    }
}

/// The handle of an exported semaphore, if it can be sent.
pub(crate) fn of_semaphore(handle: &SemaphoreHandle) -> Option<BorrowedOsHandle<'_>> {
    match handle {
        SemaphoreHandle::OpaqueWin32(object)
        | SemaphoreHandle::TimelineWin32(object)
        | SemaphoreHandle::D3d12Fence(object) => of_object(object),
        _ => None,
    }
}

/// The handle of an exported semaphore; `None` for another kind.
pub(crate) fn into_semaphore(handle: SemaphoreHandle) -> Option<OsHandle> {
    match handle.into_win32().ok()? {
        Win32Object::Handle(handle) => Some(handle.into()),
        _ => None,
    }
}

/// Borrows a file's handle.
pub fn borrow(file: &File) -> BorrowedOsHandle<'_> {
    file.as_handle()
}

pub(crate) fn borrow_handle(handle: &OsHandle) -> BorrowedOsHandle<'_> {
    handle.as_handle()
}

/// A duplicate of this process's standard input.
pub(crate) fn standard_input() -> std::io::Result<OsHandle> {
    std::io::stdin().as_handle().try_clone_to_owned()
}

/// A file that is deleted with its last handle.
pub fn nameless_file(_name: &str) -> Verdict<File> {
    Ok(tempfile::tempfile()?)
}

/// Reads from `offset` on, all of `bytes`.
pub fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let read = file.seek_read(bytes, offset)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[read..];
        offset += read as u64;
    }
    Ok(())
}

/// Writes all of `bytes` from `offset` on.
pub fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, offset)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// The system's id of this thread.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { GetCurrentThreadId() }.cast_signed()
}

/// Number of handles of a program that this process starts, before it runs.
pub(crate) fn handles_in_a_program() -> Verdict<usize> {
    let untold = || Stop::skipped("this system does not count the handles of a process, as Wine".into());
    // Queried for this process first: if the system does not count handles, no process need be started.
    resource_count::handles_of(objects::current_process())?.ok_or_else(untold)?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.creation_flags(CREATE_SUSPENDED).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let counted = resource_count::handles_of(child.as_handle());
    child.kill()?;
    child.wait()?;
    counted?.ok_or_else(untold)
}

/// Starts a program that Ctrl-C in a terminal does not reach.
pub fn own_group(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Ends this process when the one that started it ends in any way.
pub(crate) fn die_with(parent: Option<&str>) -> Verdict {
    let Some(parent) = parent.and_then(|parent| parent.parse().ok()) else { return Ok(()) };
    // SAFETY: no pointers.
    let parent = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, parent) };
    ensure!(!parent.is_null(), "the process that started this one has ended");
    // SAFETY: a new handle, owned by this caller.
    let parent = unsafe { OwnedHandle::from_raw_handle(parent) };
    std::thread::Builder::new().name("parent".into()).spawn(move || {
        // SAFETY: the handle is open, and may be waited for.
        unsafe { WaitForSingleObject(parent.as_raw_handle(), INFINITE) };
        // Without running a driver's exit code, which could hang.
        std::process::abort();
    })?;
    Ok(())
}

/// Describes an abnormal end of a process, with the exception's name.
pub fn describe(status: ExitStatus) -> String {
    let code = status.code().unwrap_or(-1).cast_unsigned();
    let name = match code {
        0xC000_0005 => " (access violation)",
        0xC000_0409 => " (abort)",
        0xC000_0374 => " (heap corruption)",
        0xC000_00FD => " (stack overflow)",
        _ => "",
    };
    if code >= 0xC000_0000 {
        format!("its process was ended by exception {code:#010x}{name}")
    } else {
        format!("its process ended without a result: {status}")
    }
}

/// Makes temporary files that become files.
pub fn readable_file() -> tempfile::Builder<'static, 'static> {
    tempfile::Builder::new()
}
