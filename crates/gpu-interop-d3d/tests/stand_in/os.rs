//! Handles of the operating system.

use gpu_interop_core::handle::NtHandle;
use gpu_interop_core::{MemoryHandle, SemaphoreHandle};
use windows::Win32::Foundation::{
    CloseHandle, DUPLICATE_SAME_ACCESS, DuplicateHandle, GetHandleInformation, HANDLE, INVALID_HANDLE_VALUE,
};
use windows::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_ALL_ACCESS, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, OpenFileMappingW,
    PAGE_READWRITE, UnmapViewOfFile,
};
use windows::Win32::System::Threading::{
    CreateEventW, EVENT_ALL_ACCESS, GetCurrentProcess, GetProcessHandleCount, OpenEventW,
};
use windows::core::{PCWSTR, Result};

/// What the stand-ins share: bytes of memory, or a fence.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Memory(u32),
    Fence,
}

/// A new object, under a name or none; refuses a name that is taken.
pub(crate) fn create(kind: Kind, name: PCWSTR) -> Result<HANDLE> {
    if !name.is_null()
        && let Ok(handle) = open(kind, name)
    {
        close(handle);
        return Err(super::NAME_ALREADY_EXISTS.into());
    }
    // SAFETY: the name is null or ends with NUL, as those of Direct3D's methods do.
    unsafe {
        match kind {
            Kind::Memory(size) => CreateFileMappingW(INVALID_HANDLE_VALUE, None, PAGE_READWRITE, 0, size, name),
            Kind::Fence => CreateEventW(None, true, false, name),
        }
    }
}

pub(crate) fn open(kind: Kind, name: PCWSTR) -> Result<HANDLE> {
    // SAFETY: the name ends with NUL.
    unsafe {
        match kind {
            Kind::Memory(_) => OpenFileMappingW(FILE_MAP_ALL_ACCESS.0, false, name),
            Kind::Fence => OpenEventW(EVENT_ALL_ACCESS, false, name),
        }
    }
}

pub(crate) fn duplicate(handle: HANDLE) -> Result<HANDLE> {
    let mut twin = HANDLE::default();
    // SAFETY: the process is this one, and the answer is written to a live variable.
    unsafe {
        let process = GetCurrentProcess();
        DuplicateHandle(process, handle, process, &raw mut twin, 0, false, DUPLICATE_SAME_ACCESS)?;
    }
    Ok(twin)
}

pub(crate) fn close(handle: HANDLE) {
    // SAFETY: the tests close what they created.
    unsafe { CloseHandle(handle) }.expect("an open handle");
}

pub(crate) fn is_open(handle: HANDLE) -> bool {
    let mut flags = 0;
    // SAFETY: the answer is written to a live variable; any number may be asked about.
    unsafe { GetHandleInformation(handle, &raw mut flags) }.is_ok()
}

/// How many handles the process has open. Wine always answers 0; then each number that can be one is asked about.
pub(crate) fn handle_count() -> u32 {
    let mut count = 0;
    // SAFETY: the answer is written to a live variable.
    unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) }.expect("the number of handles");
    if count > 0 {
        return count;
    }
    let open = (1..=16_384).filter(|index| is_open(HANDLE(std::ptr::without_provenance_mut(index * 4)))).count();
    u32::try_from(open).expect("few")
}

/// The bytes behind a handle to memory.
pub(crate) struct View(MEMORY_MAPPED_VIEW_ADDRESS, usize);

impl View {
    pub(crate) fn new(handle: HANDLE, size: usize) -> Self {
        // SAFETY: the system checks handle and size.
        let view = unsafe { MapViewOfFile(handle, FILE_MAP_ALL_ACCESS, 0, 0, size) };
        assert!(!view.Value.is_null(), "a handle to {size} bytes of memory");
        Self(view, size)
    }

    pub(crate) fn write(&self, byte: u8) {
        // SAFETY: the view is that long, and no reference to it exists.
        unsafe { self.0.Value.cast::<u8>().write_bytes(byte, self.1) };
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        // SAFETY: the view is that long, and nothing writes to it meanwhile.
        unsafe { std::slice::from_raw_parts(self.0.Value.cast::<u8>(), self.1) }.to_vec()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the view is mapped, and nothing refers to it.
        unsafe { UnmapViewOfFile(self.0) }.expect("a view");
    }
}

pub(crate) fn raw(handle: &NtHandle) -> HANDLE {
    HANDLE(handle.as_raw())
}

/// The NT handle in a memory handle of Direct3D.
pub(crate) fn raw_of_memory(handle: &MemoryHandle) -> HANDLE {
    use gpu_interop_core::handle::Win32Object;
    match handle {
        MemoryHandle::D3d12Heap(Win32Object::Handle(handle))
        | MemoryHandle::D3d12Resource(Win32Object::Handle(handle))
        | MemoryHandle::D3d11Resource(Win32Object::Handle(handle)) => raw(handle),
        other => panic!("no NT handle: {other:?}"),
    }
}

/// The NT handle in a semaphore handle of Direct3D.
pub(crate) fn raw_of_semaphore(handle: &SemaphoreHandle) -> HANDLE {
    use gpu_interop_core::handle::Win32Object;
    match handle {
        SemaphoreHandle::D3d12Fence(Win32Object::Handle(handle))
        | SemaphoreHandle::D3d11Fence(Win32Object::Handle(handle))
        | SemaphoreHandle::D3d11KeyedMutex(Win32Object::Handle(handle)) => raw(handle),
        other => panic!("no NT handle: {other:?}"),
    }
}
