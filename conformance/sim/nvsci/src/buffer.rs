//! NvSciBuf's functions.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpu_interop_sim_abi::objects::Objects;
use gpu_interop_sim_abi::{entries, lock};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::attributes::{List, ListKind, Stored, Values};
use crate::behaviour::Behaviour;
use crate::reconcile::{
    ACTUAL_PERM, GPU_ID, IMAGE_SIZE, LAYOUT, NEED_CPU_ACCESS, RAW_SIZE, TYPES, may_get, may_set, reconcile,
};
use crate::{Pair, attributes, error, give, is_set, leaks, panics, voids};

pub(crate) static BUFFER_MODULES: Objects<()> = Objects::new();
pub(crate) static BUFFER_LISTS: Objects<List> = Objects::new();
pub(crate) static BUFFERS: Objects<Buffer> = Objects::new();
/// Attribute lists of buffers.
static OBJECT_LISTS: Objects<List> = Objects::new();

/// Shared memory, mapped for the CPU.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) file: OwnedFd,
    base: usize,
    length: usize,
}

impl Memory {
    fn new(size: u64) -> rustix::io::Result<Self> {
        let file = rustix::fs::memfd_create("sim-nvsci", MemfdFlags::CLOEXEC)?;
        let size = size.next_multiple_of(4096);
        rustix::fs::ftruncate(&file, size)?;
        let length = usize::try_from(size).map_err(|_| rustix::io::Errno::NOMEM)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, &file, 0) }?;
        Ok(Self { file, base: base.expose_provenance(), length })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by this object, as a whole.
        let _ = unsafe { rustix::mm::munmap(ptr::with_exposed_provenance_mut(self.base), self.length) };
    }
}

#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) memory: Arc<Memory>,
    /// Its own list and the list's handle.
    pub(crate) list: (usize, Arc<List>),
    /// The number of imports by drivers.
    pub(crate) imports: AtomicU64,
    /// `true` if a CPU pointer was ever requested.
    has_pointer: AtomicBool,
}

impl Buffer {
    fn insert(memory: Arc<Memory>, module: usize, values: Values) -> usize {
        let list = Arc::new(List::new(module, ListKind::Reconciled, values));
        let handle = OBJECT_LISTS.insert(list.clone());
        let (imports, has_pointer) = (AtomicU64::new(0), AtomicBool::new(false));
        BUFFERS.insert(Self { memory, list: (handle, list), imports, has_pointer })
    }

    fn value(&self, key: i32) -> Option<Stored> {
        lock(&self.list.1.values).get(&key).cloned()
    }

    /// `NvSciBufAttrValAccessPerm`.
    pub(crate) fn perm(&self) -> u32 {
        self.value(ACTUAL_PERM).and_then(|perm| perm.u32s().first().copied()).unwrap_or(0)
    }

    pub(crate) fn size(&self) -> u64 {
        size(&lock(&self.list.1.values))
    }

    pub(crate) fn is_image(&self) -> bool {
        self.value(TYPES).is_some_and(|types| types.u32s().contains(&2))
    }

    pub(crate) fn is_block_linear(&self) -> bool {
        // `NvSciBufImage_BlockLinearType`, the first value in the header.
        self.value(LAYOUT).is_some_and(|layout| layout.u32s() == [0])
    }

    pub(crate) fn is_for(&self, gpu: &[u8]) -> bool {
        self.value(GPU_ID).is_some_and(|ids| ids.bytes().chunks_exact(16).any(|id| id == gpu))
    }

    fn has_cpu_access(&self) -> bool {
        self.value(NEED_CPU_ACCESS).is_some_and(|needed| needed.bool())
    }
}

fn size(values: &Values) -> u64 {
    let value = values.get(&RAW_SIZE).or_else(|| values.get(&IMAGE_SIZE));
    value.and_then(|size| size.u64s().first().copied()).unwrap_or(0)
}

fn need_module(module: usize) -> Result<(), u32> {
    error::reject_if(module == 0)?;
    BUFFER_MODULES.get(module).map(drop).ok_or_else(|| panics("this NvSciBufModule is not open"))
}

fn list_of(handle: usize) -> Arc<List> {
    let list = BUFFER_LISTS.get(handle).or_else(|| OBJECT_LISTS.get(handle));
    list.unwrap_or_else(|| panics("this NvSciBufAttrList was freed, or is invalid"))
}

pub(crate) fn buffer_of(handle: usize) -> Arc<Buffer> {
    BUFFERS.get(handle).unwrap_or_else(|| panics("this NvSciBufObj was freed, or is invalid"))
}

/// The number of flushes of the CPU's caches.
static FLUSHES: AtomicU64 = AtomicU64::new(0);

/// The number of flushes of the CPU's caches. Not a function of the library: not counted, and without faults.
#[unsafe(no_mangle)]
pub extern "C" fn sim_nvsci_flushes() -> u64 {
    FLUSHES.load(Ordering::SeqCst)
}

entries! {
    fn NvSciBufModuleOpen(module: *mut usize) gives module {
        give(module, BUFFER_MODULES.insert(()))
    }

    fn NvSciBufAttrListCreate(module: usize, list: *mut usize) gives list {
        need_module(module)?;
        give(list, BUFFER_LISTS.insert(List::new(module, ListKind::Unreconciled, Values::new())))
    }

    fn NvSciBufAttrListSetAttrs(list: usize, pairs: *mut Pair, count: usize) {
        let behaviour = Behaviour::now();
        list_of(list).set(pairs, count, |key, bytes, set| may_set(&behaviour, key, bytes, set))
    }

    fn NvSciBufAttrListGetAttrs(list: usize, pairs: *mut Pair, count: usize) gives pairs {
        let behaviour = Behaviour::now();
        list_of(list).get(pairs, count, |key, reconciled| may_get(&behaviour, key, reconciled))
    }

    fn NvSciBufAttrListReconcile(lists: *const usize, count: usize, list: *mut usize, conflict: *mut usize) gives list {
        attributes::reconcile((lists, count), [list, conflict], &BUFFER_LISTS, list_of, |behaviour, values| {
            // Only a conflict has a list.
            reconcile(behaviour, values).map_err(|code| match code {
                error::RECONCILIATION_FAILED if behaviour.has("conflict_code") => (error::RESOURCE_ERROR, true),
                code => (code, code == error::RECONCILIATION_FAILED),
            })
        })
    }

    fn NvSciBufObjAlloc(list: usize, object: *mut usize) gives object {
        let list = list_of(list);
        error::reject_if(!list.is_reconciled() || object.is_null())?;
        let mut values = lock(&list.values).clone();
        let memory = Memory::new(size(&values)).map_err(|_| error::INSUFFICIENT_MEMORY)?;
        // A newly allocated object permits writes.
        values.insert(ACTUAL_PERM, Stored::new(&3_u32.to_ne_bytes()));
        give(object, Buffer::insert(Arc::new(memory), list.module, values))
    }

    fn NvSciBufObjDupWithReducePerm(object: usize, perm: u32, duplicate: *mut usize) gives duplicate {
        let buffer = buffer_of(object);
        error::reject_if(duplicate.is_null() || ![1, 3].contains(&perm) || perm > buffer.perm())?;
        let mut values = lock(&buffer.list.1.values).clone();
        values.insert(ACTUAL_PERM, Stored::new(&perm.to_ne_bytes()));
        give(duplicate, Buffer::insert(buffer.memory.clone(), buffer.list.1.module, values))
    }

    fn NvSciBufObjGetAttrList(object: usize, list: *mut usize) gives list {
        give(list, buffer_of(object).list.0)
    }

    fn NvSciBufObjGetCpuPtr(object: usize, pointer: *mut *mut c_void) gives pointer {
        let buffer = buffer_of(object);
        error::reject_if(!buffer.has_cpu_access() || buffer.perm() != 3)?;
        buffer.has_pointer.store(true, Ordering::SeqCst);
        give(pointer, ptr::with_exposed_provenance_mut(buffer.memory.base))
    }

    fn NvSciBufObjGetConstCpuPtr(object: usize, pointer: *mut *const c_void) gives pointer {
        let buffer = buffer_of(object);
        error::reject_if(!buffer.has_cpu_access())?;
        buffer.has_pointer.store(true, Ordering::SeqCst);
        give(pointer, ptr::with_exposed_provenance(buffer.memory.base))
    }

    fn NvSciBufObjFlushCpuCacheRange(object: usize, offset: u64, length: u64) {
        let buffer = buffer_of(object);
        let end = offset.checked_add(length).ok_or(error::OVERFLOW)?;
        error::reject_if(length == 0 || end > buffer.size())?;
        // The header does not state whether a buffer is mapped before its pointer is requested.
        if !buffer.has_pointer.load(Ordering::SeqCst) && !is_set("always_mapped") {
            return Err(error::NOT_PERMITTED);
        }
        FLUSHES.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

voids! {
    fn NvSciBufModuleClose(module: usize) {
        BUFFER_MODULES.remove(module).unwrap_or_else(|| panics("an NvSciBufModule was closed twice, or is invalid"));
    }

    fn NvSciBufAttrListFree(list: usize) {
        // NVIDIA's samples free null lists.
        if list == 0 || leaks("leak_list") {
            return;
        }
        BUFFER_LISTS.remove(list).unwrap_or_else(|| panics("an NvSciBufAttrList was freed twice, or is an object's"));
    }

    fn NvSciBufObjFree(object: usize) {
        if leaks("leak_object") {
            return;
        }
        let buffer = BUFFERS.remove(object).unwrap_or_else(|| panics("an NvSciBufObj was freed twice, or is invalid"));
        if buffer.imports.load(Ordering::SeqCst) > 0 {
            panics("an NvSciBufObj was freed while a driver has it imported");
        }
        OBJECT_LISTS.remove(buffer.list.0);
    }
}
