//! NT handles, pipes and exit codes.

mod connection;
pub(crate) mod objects;

use std::fs::File;
use std::os::windows::fs::FileExt;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

use gpu_interop::handle::Win32Object;
use gpu_interop::{MemoryHandle, MemoryHandleKind, SemaphoreHandle, SemaphoreHandleKind};
use windows_sys::Win32::Foundation::{GetHandleInformation, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Memory::{MEM_FREE, MEM_MAPPED, MEMORY_BASIC_INFORMATION, VirtualQuery};
use windows_sys::Win32::System::ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, GetCurrentProcessId, GetCurrentThreadId, GetProcessHandleCount,
    INFINITE, OpenProcess, PROCESS_SYNCHRONIZE, WaitForSingleObject,
};

pub use connection::Connection;
use objects::current_process;

use super::{BorrowedOsHandle, OsHandle};
use crate::ensure;
use crate::outcome::{Stop, Verdict};
use crate::system::ResourceSnapshot;

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
    let uncounted = || Stop::skipped("this system does not count the handles of a process, as Wine".into());
    // Queried for this process first: if the system does not count handles, no process need be started.
    handles_of(current_process())?.ok_or_else(uncounted)?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.creation_flags(CREATE_SUSPENDED).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let counted = handles_of(child.as_handle());
    child.kill()?;
    child.wait()?;
    counted?.ok_or_else(uncounted)
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

/// The result of a function that returns 0 on failure.
fn worked(answer: i32) -> Verdict {
    if answer == 0 { Err(std::io::Error::last_os_error().into()) } else { Ok(()) }
}

/// The size of a struct in the type of the functions.
fn length<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(u32::MAX)
}

/// Counts the resources of this process.
pub(crate) fn resources() -> Verdict<ResourceSnapshot> {
    let process = current_process();
    let mut memory = PROCESS_MEMORY_COUNTERS::default();
    let length = length::<PROCESS_MEMORY_COUNTERS>();
    // SAFETY: the process is this one; the struct has the stated size.
    worked(unsafe { GetProcessMemoryInfo(process.as_raw_handle(), &raw mut memory, length) })?;
    let resident = memory.WorkingSetSize as u64;
    Ok(ResourceSnapshot { descriptors: open_descriptors()?, mappings: views(), resident })
}

/// Counts the open handles of this process.
pub(crate) fn open_descriptors() -> Verdict<usize> {
    Ok(handles_of(current_process())?.unwrap_or_else(open_handles))
}

/// The search for handles ends after this many free numbers. Handles get the lowest free multiple of 4.
const GAP: usize = 512;

/// The number of open handles of this process, found by testing each number.
fn open_handles() -> usize {
    let is_open = |number: usize| {
        let mut flags = 0;
        // SAFETY: the pointer is valid for the call, which fails for an invalid handle.
        unsafe { GetHandleInformation(std::ptr::without_provenance_mut(number), &raw mut flags) != 0 }
    };
    let (mut count, mut free) = (0, 0);
    for number in (4..).step_by(4) {
        (count, free) = if is_open(number) { (count + 1, 0) } else { (count, free + 1) };
        if free == GAP {
            break;
        }
    }
    count
}

/// The number of open handles of a process; `None` if the system does not count them: Wine 8 always returns 0.
fn handles_of(process: BorrowedHandle<'_>) -> Verdict<Option<usize>> {
    let mut handles = 0;
    // SAFETY: the pointer is valid for the call, and the process's handle is open.
    worked(unsafe { GetProcessHandleCount(process.as_raw_handle(), &raw mut handles) })?;
    Ok(Some(handles as usize).filter(|handles| *handles > 0))
}

/// The number of views of file mappings.
fn views() -> usize {
    let (mut address, mut count, mut last) = (0_usize, 0, 0);
    loop {
        let mut region = MEMORY_BASIC_INFORMATION::default();
        // SAFETY: any address may be queried; the buffer has the stated size.
        let length = unsafe {
            VirtualQuery(std::ptr::without_provenance(address), &raw mut region, size_of::<MEMORY_BASIC_INFORMATION>())
        };
        let next = region.BaseAddress.addr().checked_add(region.RegionSize);
        let (true, Some(next)) = (length > 0, next) else { return count };
        let view = region.AllocationBase.addr();
        if region.State != MEM_FREE && region.Type == MEM_MAPPED && view != last {
            count += 1;
            last = view;
        }
        address = next;
    }
}

/// The number of threads of this process.
pub(crate) fn threads() -> Verdict<usize> {
    // SAFETY: no pointers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: a new handle, owned by this caller.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut entry = THREADENTRY32 { dwSize: length::<THREADENTRY32>(), ..Default::default() };
    // SAFETY: the snapshot is open, and the struct contains its length.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) };
    let mut count = 0;
    while more != 0 {
        // SAFETY: no arguments.
        count += usize::from(entry.th32OwnerProcessID == unsafe { GetCurrentProcessId() });
        // SAFETY: as for the first.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) };
    }
    Ok(count)
}

/// Memory that is available, bytes.
pub(crate) fn available_memory() -> Verdict<u64> {
    let mut status = MEMORYSTATUSEX { dwLength: length::<MEMORYSTATUSEX>(), ..Default::default() };
    // SAFETY: the pointer is valid for the call, and the struct contains its length.
    worked(unsafe { GlobalMemoryStatusEx(&raw mut status) })?;
    Ok(status.ullAvailPhys)
}

/// Nothing limits them further.
pub fn raise_handle_limit() {}

/// The maximum number of open handles of a process: 2^24.
pub(crate) fn handle_limit() -> u64 {
    1 << 24
}
