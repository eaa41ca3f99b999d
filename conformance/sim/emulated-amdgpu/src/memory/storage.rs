//! The bytes of a buffer object, shared by all its references: KFD handles, GEM handles, GPU addresses.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

use crate::abi::Result;
use crate::lock;
use crate::memory::Kept;
use crate::memory::dmabuf;
use crate::memory::dmabuf::{Dmabuf, Form, Metadata};
use crate::memory::pool::Pool;
use crate::sync::JobFence;

/// Location of the bytes.
#[derive(Debug)]
enum Location {
    /// A range of the pool.
    Pool { offset: u64 },
    /// The object's own mapping, of an imported or exported memfd.
    Mapping { length: usize, exported: Option<Kept> },
    /// The application's memory.
    User,
}

/// Used video memory, counted while this lives.
#[derive(Debug)]
pub(crate) struct VramShare {
    used: Arc<AtomicU64>,
    bytes: u64,
}

impl VramShare {
    /// Counts `bytes` as used, unless that is more than `capacity`.
    pub(crate) fn take(used: &Arc<AtomicU64>, bytes: u64, capacity: u64) -> Result<Self> {
        let add = |now: u64| now.checked_add(bytes).filter(|sum| *sum <= capacity);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|_| Errno::NOMEM)?;
        Ok(Self { used: Arc::clone(used), bytes })
    }
}

impl Drop for VramShare {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The properties of a new object.
#[derive(Debug)]
struct Description {
    size: u64,
    gpu: Option<usize>,
    vram: Option<VramShare>,
    form: Form,
    metadata: Metadata,
}

#[derive(Debug)]
pub(crate) struct Storage {
    pool: Arc<Pool>,
    size: u64,
    name: u32,
    place: Mutex<Location>,
    /// Changed only by an export, while no access is in progress (the lock of the address spaces).
    address: AtomicPtr<u8>,
    /// The GPU of video memory; `None` for system memory.
    gpu: Option<usize>,
    _vram: Option<VramShare>,
    form: Form,
    metadata: Mutex<Metadata>,
    /// The fences of submissions that use it.
    users: Mutex<Vec<Arc<JobFence>>>,
}

impl Storage {
    /// Allocates memory of the pool.
    pub(crate) fn new(pool: &Arc<Pool>, size: u64, vram: Option<(usize, VramShare)>, form: Form) -> Result<Arc<Self>> {
        let offset = pool.take(size)?;
        let (gpu, vram) = vram.unzip();
        let place = Location::Pool { offset };
        let description = Description { size, gpu, vram, form, metadata: Metadata::default() };
        Ok(Self::at(pool, place, pool.address(offset), description))
    }

    /// Uses the application's memory.
    pub(crate) fn user(pool: &Arc<Pool>, size: u64, address: u64) -> Arc<Self> {
        let address = std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0));
        let description = Description { size, gpu: None, vram: None, form: Form::Plain, metadata: Metadata::default() };
        Self::at(pool, Location::User, address, description)
    }

    /// Uses the memory of a memfd that another driver or process exported.
    pub(crate) fn imported(pool: &Arc<Pool>, file: impl AsFd, found: &Dmabuf, gpu: usize) -> Result<Arc<Self>> {
        let (address, length) = map(found.size, file, found.offset)?;
        let place = Location::Mapping { length, exported: None };
        let metadata = found.metadata.unwrap_or_default();
        let description = Description { size: found.size, gpu: Some(gpu), vram: None, form: Form::Plain, metadata };
        Ok(Self::at(pool, place, address, description))
    }

    fn at(pool: &Arc<Pool>, place: Location, address: *mut u8, description: Description) -> Arc<Self> {
        Arc::new_cyclic(|this| {
            let name = pool.names().insert(this.clone());
            let Description { size, gpu, vram, form, metadata } = description;
            Self {
                pool: Arc::clone(pool),
                size,
                name,
                place: Mutex::new(place),
                address: AtomicPtr::new(address),
                gpu,
                _vram: vram,
                form,
                metadata: Mutex::new(metadata),
                users: Mutex::default(),
            }
        })
    }

    /// Records a submission that uses the object.
    pub(crate) fn add_user(&self, fence: &Arc<JobFence>) {
        let mut users = lock(&self.users);
        users.retain(|user| !user.is_done());
        users.push(Arc::clone(fence));
    }

    /// The pending submissions that use the object.
    pub(crate) fn users(&self) -> Vec<Arc<JobFence>> {
        lock(&self.users).iter().filter(|user| !user.is_done()).map(Arc::clone).collect()
    }

    pub(crate) fn metadata(&self) -> Metadata {
        *lock(&self.metadata)
    }

    /// Changes the metadata, also that of the exported file.
    pub(crate) fn set_metadata(&self, change: impl FnOnce(&mut Metadata)) -> Result<()> {
        let place = self.place();
        let mut metadata = lock(&self.metadata);
        change(&mut metadata);
        match &*place {
            Location::Mapping { exported: Some(file), length } => {
                dmabuf::write_metadata(file.open()?.as_fd(), *length as u64, self.form, *metadata)
            }
            _ => Ok(()),
        }
    }

    /// The offset on a render node.
    pub(crate) fn mmap_offset(&self) -> u64 {
        crate::memory::pool::mmap_offset(self.name)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.address.load(Ordering::Relaxed)
    }

    /// The GPU of video memory.
    pub(crate) fn gpu(&self) -> Option<usize> {
        self.gpu
    }

    fn place(&self) -> MutexGuard<'_, Location> {
        lock(&self.place)
    }

    /// Maps the bytes starting at `offset` again, with the address and protection that the application requests.
    ///
    /// # Safety
    ///
    /// As for `mmap` with these arguments.
    pub(crate) unsafe fn map_for_application(
        &self,
        address: *mut std::ffi::c_void,
        length: usize,
        protection: ProtFlags,
        flags: MapFlags,
        offset: u64,
    ) -> Result<*mut std::ffi::c_void> {
        let end = offset.checked_add(length as u64).ok_or(Errno::INVAL)?;
        if end > self.size.next_multiple_of(4096) {
            return Err(Errno::INVAL);
        }
        match &*self.place() {
            Location::Pool { offset: start } => {
                // SAFETY: the caller's promise; the range of the file is within this object.
                unsafe { rustix::mm::mmap(address, length, protection, flags, self.pool.file(), start + offset) }
            }
            Location::Mapping { .. } => {
                let from = self.address().wrapping_add(usize::try_from(offset).map_err(|_| Errno::INVAL)?).cast();
                let twin = if flags.contains(MapFlags::FIXED) {
                    // SAFETY: with an old length of 0, a second mapping of the same shared pages is created, at an
                    // address that the caller allows to be replaced.
                    unsafe { rustix::mm::mremap_fixed(from, 0, length, MremapFlags::MAYMOVE, address)? }
                } else {
                    // SAFETY: as above, at an address that the kernel chooses.
                    unsafe { rustix::mm::mremap(from, 0, length, MremapFlags::MAYMOVE)? }
                };
                let protection = rustix::mm::MprotectFlags::from_bits_retain(protection.bits());
                // SAFETY: the mapping is new and has no other owner yet.
                unsafe { rustix::mm::mprotect(twin, length, protection)? };
                Ok(twin)
            }
            Location::User => Err(Errno::INVAL),
        }
    }

    /// A descriptor of the memory. The first call moves the bytes from the pool to a separate memfd, and all their
    /// mappings in this process with them.
    ///
    /// The caller prevents all accesses to the memory during the call.
    pub(crate) fn export(&self) -> Result<OwnedFd> {
        let mut place = self.place();
        match &*place {
            Location::Mapping { exported: Some(file), .. } => file.open(),
            // The exporter owned its descriptor, which was not kept.
            Location::Mapping { exported: None, .. } | Location::User => Err(Errno::INVAL),
            Location::Pool { offset } => {
                let offset = *offset;
                let size = self.size.next_multiple_of(4096);
                let (file, start) = dmabuf::create(size, self.form)?;
                dmabuf::write_metadata(file.as_fd(), size, self.form, self.metadata())?;
                let (address, length) = map(size, &file, start)?;
                // SAFETY: both are mappings of `length` bytes, and they are different files.
                unsafe { std::ptr::copy_nonoverlapping(self.address(), address, length) };
                replace_mappings(self.pool.file(), offset, size, &file, start)?;
                self.address.store(address, Ordering::Relaxed);
                let exported = Some(self.pool.keeper().keep(file.as_fd())?);
                *place = Location::Mapping { length, exported };
                self.pool.give(offset, size);
                Ok(file)
            }
        }
    }
}

/// Maps `size` bytes of a file for the emulation.
fn map(size: u64, file: impl AsFd, offset: u64) -> Result<(*mut u8, usize)> {
    let length = usize::try_from(size).map_err(|_| Errno::INVAL)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address chosen by the kernel affects no other memory.
    let address =
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, offset)? };
    Ok((address.cast(), length))
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.pool.names().remove(self.name);
        match &*self.place() {
            Location::Pool { offset } => self.pool.give(*offset, self.size),
            Location::Mapping { length, .. } => {
                // SAFETY: this object owns the mapping, and no other reference to the object exists.
                _ = unsafe { rustix::mm::munmap(self.address().cast(), *length) };
            }
            Location::User => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    protection: ProtFlags,
    offset: u64,
}

/// Parses a line. `None` for mappings of other files.
fn parse_mapping(line: &str, inode: u64) -> Option<Mapping> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = fields.next()?;
    // Anonymous memory files share a device; the inode distinguishes them.
    if fields.nth(1)?.parse::<u64>().ok()? != inode {
        return None;
    }
    let flags = [('r', ProtFlags::READ), ('w', ProtFlags::WRITE), ('x', ProtFlags::EXEC)];
    let protection = flags.iter().filter(|(letter, _)| permissions.contains(*letter)).map(|(_, flag)| *flag).collect();
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { start: number(start)?, end: number(end)?, protection, offset: number(offset)? })
}

/// Replaces every mapping of `size` bytes of a file starting at `from`, by the same mapping of another file starting at
/// `start`.
///
/// Mappings larger than the range are kept: one of them is the emulation's own mapping of the whole file.
pub(super) fn replace_mappings(old: BorrowedFd<'_>, offset: u64, size: u64, new: impl AsFd, start: u64) -> Result<()> {
    let inode = rustix::fs::fstat(old)?.st_ino;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Errno::IO)?;
    for mapping in maps.lines().filter_map(|line| parse_mapping(line, inode)) {
        let length = mapping.end - mapping.start;
        if mapping.offset < offset || mapping.offset + length > offset + size {
            continue;
        }
        let (Ok(at), Ok(length)) = (usize::try_from(mapping.start), usize::try_from(length)) else {
            return Err(Errno::NOMEM);
        };
        let at = std::ptr::with_exposed_provenance_mut(at);
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range is a mapping of the buffer object, which is not accessed during the call, and the new file
        // has the same bytes, so the replacement is not observable.
        unsafe { rustix::mm::mmap(at, length, mapping.protection, flags, &new, start + mapping.offset - offset)? };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let line = "7f00-7f10 rw-s 00200000 00:01 4242        /memfd:emulated-amdgpu-memory (deleted)";
        let mapping =
            Mapping { start: 0x7f00, end: 0x7f10, protection: ProtFlags::READ | ProtFlags::WRITE, offset: 0x20_0000 };
        assert_eq!(parse_mapping(line, 4242), Some(mapping));
        assert_eq!(parse_mapping(line, 4243), None);
        assert_eq!(parse_mapping("7f00-7f10 r--p 00000000 00:00 0", 4242), None);
    }
}
