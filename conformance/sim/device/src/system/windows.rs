//! File mappings and `WaitOnAddress`.
//!
//! Ranges of this process's memory.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, IntoRawHandle, OwnedHandle, RawHandle};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::{io, ptr};

use gpu_interop_sim_abi::lock;
use windows_sys::Win32::Foundation::{INVALID_HANDLE_VALUE, STATUS_ACCESS_VIOLATION};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_ALL_ACCESS, MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION,
    MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFileEx, OpenFileMappingW, PAGE_NOACCESS, PAGE_PROTECTION_FLAGS, PAGE_READONLY,
    PAGE_READWRITE, SEC_COMMIT, UnmapViewOfFile, VirtualAlloc, VirtualFree, VirtualProtect, VirtualQuery,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess, WaitOnAddress, WakeByAddressAll};

use crate::system::Opened;

/// The handle of an import.
#[derive(Debug, Clone, Copy)]
pub enum ImportHandle {
    /// An NT handle, which the caller still owns, or, if that is null, the name of an object.
    Object {
        /// The handle, or null.
        handle: *mut c_void,
        /// UTF-16 with a NUL, or null.
        name: *const c_void,
    },
    /// A KMT handle: the number of an object.
    Kmt(usize),
}

/// The handle of an export: an NT handle owned by the caller.
pub type ExportHandle = RawHandle;

/// The object of a handle that is passed as a pointer.
pub fn given(handle: *mut c_void) -> ImportHandle {
    ImportHandle::Object { handle, name: std::ptr::null() }
}

/// Both vendors' number of the exported handle type.
pub const EXPORTED_AS: u32 = 2;
/// Crashes the process, as a driver does on an invalid pointer.
pub fn die() -> ! {
    // SAFETY: ends this process.
    unsafe { TerminateProcess(GetCurrentProcess(), STATUS_ACCESS_VIOLATION.cast_unsigned()) };
    std::process::abort()
}

/// Opens a separate handle of the file mapping.
fn section(given: ImportHandle) -> Option<OwnedHandle> {
    match given {
        ImportHandle::Object { handle, name } if handle.is_null() && !name.is_null() => by_name(name.cast()),
        ImportHandle::Object { handle, name } if !handle.is_null() && name.is_null() => {
            // SAFETY: the caller of the driver lends the handle for the call; duplicating an invalid handle fails.
            unsafe { BorrowedHandle::borrow_raw(handle) }.try_clone_to_owned().ok()
        }
        ImportHandle::Object { .. } => None,
        ImportHandle::Kmt(number) => {
            // KMT handles are defined by the simulators: an object with this name exists as long as its exporter.
            let name = format!("Local\\gpu-interop-sim-kmt-{number:x}\0");
            by_name(name.encode_utf16().collect::<Vec<u16>>().as_ptr())
        }
    }
}

fn by_name(name: *const u16) -> Option<OwnedHandle> {
    // SAFETY: the name ends with a NUL, as callers of the driver guarantee.
    let opened = unsafe { OpenFileMappingW(FILE_MAP_ALL_ACCESS, 0, name) };
    // SAFETY: a new handle, unless null.
    (!opened.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(opened) })
}

/// Maps the whole memory of a handle; `None` if it is not memory.
pub(crate) fn map(given: ImportHandle) -> Option<Mapping> {
    Mapping::of_section(section(given)?, 0, 0).ok()
}

/// Opens the memory of a handle; `None` if it is not memory. Every exporter here has lavapipe's layout of images.
pub(crate) fn open(given: ImportHandle) -> Option<Opened> {
    Some(Opened { mapping: map(given)?, header: 0, images: true })
}

/// A file mapping that can be exported.
#[derive(Debug)]
pub(crate) struct SharedMemory(OwnedHandle);

impl SharedMemory {
    /// Creates one of `size` bytes.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let [low, high] = halves(size);
        // SAFETY: all pointers are null, which means without a name and not inherited; the memory is the paging file's.
        let made = unsafe {
            let protection = PAGE_READWRITE | SEC_COMMIT;
            CreateFileMappingW(INVALID_HANDLE_VALUE, std::ptr::null(), protection, high, low, std::ptr::null())
        };
        if made.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new handle.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(made) }))
    }

    /// Opens one by its handle, and returns its size; `None` if it is not one. The caller still owns the handle.
    pub(crate) fn open(given: ImportHandle) -> Option<(Self, usize)> {
        let section = section(given)?;
        let size = map(given)?.length();
        Some((Self(section), size))
    }

    /// A new handle.
    pub(crate) fn export(&self) -> io::Result<ExportHandle> {
        Ok(self.0.try_clone()?.into_raw_handle())
    }

    /// Maps it as a whole into reserved addresses, not accessible yet.
    pub(crate) fn map(&self, reserved: &Mapping, at: usize, size: usize, offset: usize) -> io::Result<()> {
        if offset != 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        reserved.place(at, size, self.0.as_raw_handle())
    }
}

/// Sleeps while `word`, shared between processes, has the value `expected`. Has a timeout, because other processes
/// cannot wake it.
pub(crate) fn sleep(word: &AtomicU32, expected: u32) {
    // SAFETY: both addresses refer to four bytes that live for the call.
    unsafe { WaitOnAddress(word.as_ptr().cast::<c_void>(), (&raw const expected).cast(), size_of::<u32>(), 1) };
}

/// Wakes all threads of this process that sleep on a word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the address is only compared with those of sleeping threads.
    unsafe { WakeByAddressAll(word.as_ptr().cast::<c_void>()) };
}

/// Required alignment of the offsets of mappings, bytes.
pub(crate) const PAGE: usize = 0x1_0000;

/// A mapped range, unmapped on drop. Its provenance is exposed, because it is passed as an address.
#[derive(Debug)]
pub struct Mapping {
    base: usize,
    length: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A view of this file mapping.
    View(OwnedHandle),
    Memory,
    /// Reserved addresses, and their use.
    Addresses(Mutex<AddressState>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressState {
    /// Unused.
    Reserved,
    /// A view.
    View,
    /// Possibly used by other code: the reservation after a view ended or failed was not possible.
    Lost,
}

/// Base of reserved addresses, far from the addresses that the system chooses, so that no other allocation uses them
/// between the end of a reservation and its view. Each is used once.
static NEXT: AtomicUsize = AtomicUsize::new(0x2000_0000_0000);

fn pointer(address: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address)
}

/// The result of a function that returns 0 on failure.
fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn refused() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

/// The low and the high 32 bits.
pub(super) fn halves(value: usize) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = (value as u64).to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Creates a view of a file mapping, at an address or anywhere, and returns its first address.
fn view(section: RawHandle, offset: usize, length: usize, at: usize) -> io::Result<usize> {
    let [low, high] = halves(offset);
    // SAFETY: a new view affects no other memory: the call fails if the addresses are in use.
    let made = unsafe { MapViewOfFileEx(section, FILE_MAP_ALL_ACCESS, high, low, length, pointer(at)) };
    if made.Value.is_null() { Err(io::Error::last_os_error()) } else { Ok(made.Value.expose_provenance()) }
}

fn end_view(base: usize) -> io::Result<()> {
    // SAFETY: created by `view`. A later access crashes the process, as on a GPU.
    done(unsafe { UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: pointer(base) }) })
}

fn allocate(at: usize, length: usize, how: u32, protection: PAGE_PROTECTION_FLAGS) -> io::Result<usize> {
    // SAFETY: new memory or addresses affect no other memory: the call fails if they are in use.
    let base = unsafe { VirtualAlloc(pointer(at), length, how, protection) };
    if base.is_null() { Err(io::Error::last_os_error()) } else { Ok(base.expose_provenance()) }
}

fn release(base: usize) -> io::Result<()> {
    // SAFETY: created by `allocate`, and freed as a whole.
    done(unsafe { VirtualFree(pointer(base), 0, MEM_RELEASE) })
}

impl Mapping {
    /// Maps `length` bytes of a file mapping from `offset`, which is a multiple of the granularity. A length of 0 maps
    /// all of it.
    pub(super) fn of_section(section: OwnedHandle, offset: usize, length: usize) -> io::Result<Self> {
        let base = view(section.as_raw_handle(), offset, length, 0)?;
        let mut mapping = Self { base, length, kind: Kind::View(section) };
        if length == 0 {
            let mut region = MEMORY_BASIC_INFORMATION::default();
            // SAFETY: the address is the view's, and the buffer has the stated size.
            let length = unsafe { VirtualQuery(pointer(base), &raw mut region, size_of::<MEMORY_BASIC_INFORMATION>()) };
            if length == 0 {
                return Err(io::Error::last_os_error());
            }
            mapping.length = region.RegionSize;
        }
        Ok(mapping)
    }

    /// Maps `length` bytes of new memory, zeroed.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        let base = allocate(0, length, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)?;
        Ok(Self { base, length, kind: Kind::Memory })
    }

    /// Reserves addresses without memory.
    pub fn reserved(length: usize) -> io::Result<Self> {
        let step = length.checked_next_multiple_of(PAGE).ok_or_else(refused)?;
        let at = NEXT.fetch_add(step, Ordering::Relaxed);
        let base = allocate(at, length, MEM_RESERVE, PAGE_NOACCESS)?;
        Ok(Self { base, length, kind: Kind::Addresses(Mutex::new(AddressState::Reserved)) })
    }

    /// Maps the same memory again at another address: `length` bytes from `offset`, a multiple of the granularity. For
    /// mappings of files.
    pub fn again(&self, offset: usize, length: usize) -> io::Result<Self> {
        match &self.kind {
            Kind::View(section) => Self::of_section(section.try_clone()?, offset, length),
            Kind::Memory | Kind::Addresses(_) => Err(refused()),
        }
    }

    /// The first address.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Replaces a whole reservation by a view of a file mapping, not accessible yet.
    ///
    /// # Errors
    /// The system's error; `InvalidInput` for another range.
    pub(super) fn place(&self, at: usize, length: usize, section: RawHandle) -> io::Result<()> {
        let Kind::Addresses(placed) = &self.kind else { return Err(refused()) };
        let mut placed = lock(placed);
        if *placed != AddressState::Reserved || (at, length) != (self.base, self.length) {
            return Err(refused());
        }
        release(self.base)?;
        if let Err(error) = view(section, 0, length, self.base) {
            self.reserve_again(&mut placed)?;
            return Err(error);
        }
        *placed = AddressState::View;
        protect(at, length, PAGE_NOACCESS)
    }

    /// Reserves the addresses again after their view has ended.
    fn reserve_again(&self, placed: &mut AddressState) -> io::Result<()> {
        *placed = AddressState::Lost;
        allocate(self.base, self.length, MEM_RESERVE, PAGE_NOACCESS)?;
        *placed = AddressState::Reserved;
        Ok(())
    }

    /// Makes a range accessible.
    ///
    /// # Errors
    /// The system's error; `InvalidInput` if the range is not inside this one.
    pub fn allow(&self, at: usize, length: usize) -> io::Result<()> {
        let inside = at.checked_sub(self.base).and_then(|start| start.checked_add(length));
        let lost = matches!(&self.kind, Kind::Addresses(placed) if *lock(placed) == AddressState::Lost);
        if lost || inside.is_none_or(|end| end > self.length) {
            return Err(refused());
        }
        protect(at, length, PAGE_READWRITE)
    }

    /// Makes the whole range read-only.
    pub fn forbid_writes(&self) -> io::Result<()> {
        protect(self.base, self.length, PAGE_READONLY)
    }

    /// Removes the memory of reserved addresses; the addresses stay reserved.
    ///
    /// # Errors
    /// As for replacing the reservation.
    pub fn clear(&self, at: usize, length: usize) -> io::Result<()> {
        let Kind::Addresses(placed) = &self.kind else { return Err(refused()) };
        let mut placed = lock(placed);
        if *placed != AddressState::View || (at, length) != (self.base, self.length) {
            return Err(refused());
        }
        end_view(self.base)?;
        self.reserve_again(&mut placed)
    }
}

fn protect(at: usize, length: usize, protection: PAGE_PROTECTION_FLAGS) -> io::Result<()> {
    let mut before = 0;
    // SAFETY: the range belongs to a mapping, and its user requested the change.
    done(unsafe { VirtualProtect(pointer(at), length, protection, &raw mut before) })
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let place = match &self.kind {
            Kind::View(_) => AddressState::View,
            Kind::Memory => AddressState::Reserved,
            Kind::Addresses(placed) => *lock(placed),
        };
        let ended = match place {
            AddressState::View => end_view(self.base),
            AddressState::Reserved => release(self.base),
            AddressState::Lost => Ok(()),
        };
        debug_assert!(ended.is_ok(), "{ended:?}");
    }
}
