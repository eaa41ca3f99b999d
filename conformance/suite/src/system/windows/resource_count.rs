//! Resources of this process: handles, views of file mappings, memory.

use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{GetHandleInformation, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Memory::{MEM_FREE, MEM_MAPPED, MEMORY_BASIC_INFORMATION, VirtualQuery};
use windows_sys::Win32::System::ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{GetCurrentProcessId, GetProcessHandleCount};

use super::objects::current_process;
use crate::outcome::Verdict;
use crate::system::ResourceSnapshot;

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
pub(super) fn handles_of(process: BorrowedHandle<'_>) -> Verdict<Option<usize>> {
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
