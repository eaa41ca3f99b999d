//! Ranges of this process's memory.

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle, RawHandle};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_interop_sim_abi::lock;
use windows_sys::Win32::System::Memory::{
    FILE_MAP_ALL_ACCESS, MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION, MEMORY_MAPPED_VIEW_ADDRESS,
    MapViewOfFileEx, PAGE_NOACCESS, PAGE_PROTECTION_FLAGS, PAGE_READONLY, PAGE_READWRITE, UnmapViewOfFile,
    VirtualAlloc, VirtualFree, VirtualProtect, VirtualQuery,
};

/// What offsets of mappings are multiples of, bytes.
pub(crate) const PAGE: usize = 0x1_0000;

/// A mapped range, unmapped when dropped. Its provenance is exposed: it travels as an address.
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
    /// Addresses, and what is in their place.
    Addresses(Mutex<Place>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing: they are reserved.
    Reserved,
    /// A view.
    View,
    /// Whatever somebody else put there: the view's end or failure was followed by a reservation that failed too.
    Lost,
}

/// Where addresses are reserved: far from where the system puts what has no place of its own, so that nobody takes them
/// between the end of a reservation and the view in its place. Each is used once.
static NEXT: AtomicUsize = AtomicUsize::new(0x2000_0000_0000);

fn pointer(address: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address)
}

/// The answer of a function that answers 0 on failure.
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

/// A view of a file mapping, at an address or anywhere: its first.
fn view(section: RawHandle, offset: usize, length: usize, at: usize) -> io::Result<usize> {
    let [low, high] = halves(offset);
    // SAFETY: a fresh view touches nothing else: where there is something it is refused.
    let made = unsafe { MapViewOfFileEx(section, FILE_MAP_ALL_ACCESS, high, low, length, pointer(at)) };
    if made.Value.is_null() { Err(io::Error::last_os_error()) } else { Ok(made.Value.expose_provenance()) }
}

fn end_view(base: usize) -> io::Result<()> {
    // SAFETY: made by `view`. Who still uses it dies, as on a GPU.
    done(unsafe { UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: pointer(base) }) })
}

fn allocate(at: usize, length: usize, how: u32, protection: PAGE_PROTECTION_FLAGS) -> io::Result<usize> {
    // SAFETY: fresh memory or addresses touch nothing else: where there is something they are refused.
    let base = unsafe { VirtualAlloc(pointer(at), length, how, protection) };
    if base.is_null() { Err(io::Error::last_os_error()) } else { Ok(base.expose_provenance()) }
}

fn release(base: usize) -> io::Result<()> {
    // SAFETY: made by `allocate`, and freed whole.
    done(unsafe { VirtualFree(pointer(base), 0, MEM_RELEASE) })
}

impl Mapping {
    /// `length` bytes of a file mapping from `offset`, which is a multiple of the granularity. A length of 0 is all of it.
    pub(super) fn of_section(section: OwnedHandle, offset: usize, length: usize) -> io::Result<Self> {
        let base = view(section.as_raw_handle(), offset, length, 0)?;
        let mut mapping = Self { base, length, kind: Kind::View(section) };
        if length == 0 {
            let mut region = MEMORY_BASIC_INFORMATION::default();
            // SAFETY: the address is the view's, and the pointer is to as many bytes as are said.
            let told = unsafe { VirtualQuery(pointer(base), &raw mut region, size_of::<MEMORY_BASIC_INFORMATION>()) };
            if told == 0 {
                return Err(io::Error::last_os_error());
            }
            mapping.length = region.RegionSize;
        }
        Ok(mapping)
    }

    /// `length` bytes of fresh memory, zeros.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        let base = allocate(0, length, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)?;
        Ok(Self { base, length, kind: Kind::Memory })
    }

    /// Addresses without memory.
    pub fn reserved(length: usize) -> io::Result<Self> {
        let step = length.checked_next_multiple_of(PAGE).ok_or_else(refused)?;
        let at = NEXT.fetch_add(step, Ordering::Relaxed);
        let base = allocate(at, length, MEM_RESERVE, PAGE_NOACCESS)?;
        Ok(Self { base, length, kind: Kind::Addresses(Mutex::new(Place::Reserved)) })
    }

    /// The same memory once more, at other addresses: `length` bytes from `offset`, a multiple of the granularity. For
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

    /// Puts a file mapping in the place of reserved addresses, of all of them, not accessible yet.
    ///
    /// # Errors
    /// What the system answers; `InvalidInput` if they are not just these.
    pub(super) fn place(&self, at: usize, length: usize, section: RawHandle) -> io::Result<()> {
        let Kind::Addresses(placed) = &self.kind else { return Err(refused()) };
        let mut placed = lock(placed);
        if *placed != Place::Reserved || (at, length) != (self.base, self.length) {
            return Err(refused());
        }
        release(self.base)?;
        if let Err(error) = view(section, 0, length, self.base) {
            self.reserve_again(&mut placed)?;
            return Err(error);
        }
        *placed = Place::View;
        protect(at, length, PAGE_NOACCESS)
    }

    /// Reserves the addresses once more, in whose place there is nothing now.
    fn reserve_again(&self, placed: &mut Place) -> io::Result<()> {
        *placed = Place::Lost;
        allocate(self.base, self.length, MEM_RESERVE, PAGE_NOACCESS)?;
        *placed = Place::Reserved;
        Ok(())
    }

    /// Makes a range accessible.
    ///
    /// # Errors
    /// What the system answers; `InvalidInput` if the range is not inside this one.
    pub fn allow(&self, at: usize, length: usize) -> io::Result<()> {
        let inside = at.checked_sub(self.base).and_then(|start| start.checked_add(length));
        let lost = matches!(&self.kind, Kind::Addresses(placed) if *lock(placed) == Place::Lost);
        if lost || inside.is_none_or(|end| end > self.length) {
            return Err(refused());
        }
        protect(at, length, PAGE_READWRITE)
    }

    /// Makes all of it readable only.
    pub fn forbid_writes(&self) -> io::Result<()> {
        protect(self.base, self.length, PAGE_READONLY)
    }

    /// Takes the memory of reserved addresses away; the addresses stay.
    ///
    /// # Errors
    /// As for placing it there.
    pub fn clear(&self, at: usize, length: usize) -> io::Result<()> {
        let Kind::Addresses(placed) = &self.kind else { return Err(refused()) };
        let mut placed = lock(placed);
        if *placed != Place::View || (at, length) != (self.base, self.length) {
            return Err(refused());
        }
        end_view(self.base)?;
        self.reserve_again(&mut placed)
    }
}

fn protect(at: usize, length: usize, protection: PAGE_PROTECTION_FLAGS) -> io::Result<()> {
    let mut before = 0;
    // SAFETY: the range is a mapping's own, and whoever uses it asked for this.
    done(unsafe { VirtualProtect(pointer(at), length, protection, &raw mut before) })
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let place = match &self.kind {
            Kind::View(_) => Place::View,
            Kind::Memory => Place::Reserved,
            Kind::Addresses(placed) => *lock(placed),
        };
        let ended = match place {
            Place::View => end_view(self.base),
            Place::Reserved => release(self.base),
            Place::Lost => Ok(()),
        };
        debug_assert!(ended.is_ok(), "{ended:?}");
    }
}
