//! NvSciSync's functions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpu_interop_sim_abi::objects::Objects;
use gpu_interop_sim_abi::{entries, lock};

use crate::attributes::{List, Sort, Values, inputs};
use crate::behaviour::Behaviour;
use crate::sync_reconcile::{CPU_PERM, GPU_PERMS, gpu_perm, may_get, may_set, reconcile};
use crate::{Pair, asked_for, error, give, leaks, live, panics, voids};

pub(crate) static SYNC_MODULES: Objects<()> = Objects::new();
pub(crate) static SYNC_LISTS: Objects<List> = Objects::new();
pub(crate) static SYNCS: Objects<SyncObject> = Objects::new();
pub(crate) static CONTEXTS: Objects<usize> = Objects::new();
/// The primitives of filled fences.
pub(crate) static FENCES: Objects<Reference> = Objects::new();

/// A value that only increases.
#[derive(Debug)]
pub(crate) struct Primitive {
    value: Mutex<u64>,
    changed: Condvar,
    /// The last point with a fence.
    planned: AtomicU64,
    /// The greatest possible value.
    pub(crate) greatest: u64,
    /// Drivers ignore it, for a test of the detection.
    pub(crate) skips_waits: bool,
}

impl Primitive {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst) + 1;
        let skips_waits = asked_for(&format!("skip_waits_{number}"));
        let (planned, greatest) = (AtomicU64::new(0), Behaviour::now().greatest_value());
        Self { value: Mutex::default(), changed: Condvar::new(), planned, greatest, skips_waits }
    }

    pub(crate) fn plan(&self) -> u64 {
        let value = self.planned.fetch_add(1, Ordering::SeqCst) + 1;
        if value > self.greatest {
            panics("a primitive would go beyond its greatest value; no document says what it does then");
        }
        value
    }

    pub(crate) fn reach(&self, point: u64) {
        let mut value = lock(&self.value);
        *value = (*value).max(point);
        drop(value);
        self.changed.notify_all();
    }

    /// Increases the value by one.
    fn step(&self) {
        *lock(&self.value) += 1;
        self.changed.notify_all();
    }

    /// Waits for a value and returns whether it was reached in time; always true without a limit.
    pub(crate) fn wait(&self, point: u64, limit: Option<Duration>) -> bool {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut value = lock(&self.value);
        while *value < point {
            let rest = deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            if rest.is_zero() {
                return false;
            }
            value = self.changed.wait_timeout(value, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// An object.
#[derive(Debug)]
pub(crate) struct SyncObject {
    module: usize,
    pub(crate) primitive: Arc<Primitive>,
    cpu_perm: u64,
    gpu_perms: Vec<u8>,
    /// The number of imports by drivers.
    pub(crate) imports: AtomicU64,
}

impl SyncObject {
    /// The GPUs' permissions.
    pub(crate) fn gpu_perm(&self, gpu: &[u8]) -> u64 {
        gpu_perm(&self.gpu_perms, gpu)
    }
}

/// Content of a filled fence.
#[derive(Debug)]
pub(crate) struct Reference {
    module: usize,
    pub(crate) primitive: Arc<Primitive>,
    cpu_perm: u64,
}

/// `NvSciSyncFence`: the handle of the content, id, value, and zeros.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    payload: [u64; 6],
}

impl Fence {
    const CLEARED: Self = Self { payload: [0; 6] };

    /// Creates a fence for a point of an object.
    pub(crate) fn new(object: &SyncObject, id: u64, value: u64) -> Self {
        let (module, primitive, cpu_perm) = (object.module, object.primitive.clone(), object.cpu_perm);
        let handle = FENCES.insert(Reference { module, primitive, cpu_perm }) as u64;
        Self { payload: [handle, id, value, 0, 0, 0] }
    }

    pub(crate) fn is_cleared(&self) -> bool {
        *self == Self::CLEARED
    }

    pub(crate) fn reference(&self) -> Arc<Reference> {
        let handle = usize::try_from(self.payload[0]).unwrap_or(usize::MAX);
        FENCES.get(handle).unwrap_or_else(|| panics("this NvSciSyncFence is none"))
    }

    pub(crate) fn value(&self) -> u64 {
        self.payload[2]
    }

    fn clear(&mut self) {
        if !self.is_cleared() && !leaks("leak_fence") {
            let handle = usize::try_from(self.payload[0]).unwrap_or(usize::MAX);
            FENCES.remove(handle).unwrap_or_else(|| panics("this NvSciSyncFence was cleared twice, or is none"));
        }
        *self = Self::CLEARED;
    }
}

fn need_module(module: usize) -> Result<(), u32> {
    if module == 0 {
        return Err(error::BAD_PARAMETER);
    }
    SYNC_MODULES.get(module).map(drop).ok_or_else(|| panics("this NvSciSyncModule is not open"))
}

pub(crate) fn list_of(handle: usize) -> Arc<List> {
    SYNC_LISTS.get(handle).unwrap_or_else(|| panics("this NvSciSyncAttrList was freed, or is none"))
}

pub(crate) fn sync_of(handle: usize) -> Arc<SyncObject> {
    SYNCS.get(handle).unwrap_or_else(|| panics("this NvSciSyncObj was freed, or is none"))
}

entries! {
    fn NvSciSyncCheckVersionCompatibility(major: u32, minor: u32, compatible: *mut u8) gives compatible {
        live::report_at_exit();
        let behaviour = Behaviour::now();
        give(compatible, (major == 2 && minor <= behaviour.sync_minor() && !behaviour.has("incompatible")).into())
    }

    fn NvSciSyncModuleOpen(module: *mut usize) gives module {
        give(module, SYNC_MODULES.insert(()))
    }

    fn NvSciSyncAttrListCreate(module: usize, list: *mut usize) gives list {
        need_module(module)?;
        give(list, SYNC_LISTS.insert(List::new(module, Sort::Unreconciled, Values::new())))
    }

    fn NvSciSyncAttrListSetAttrs(list: usize, pairs: *const Pair, count: usize) {
        let behaviour = Behaviour::now();
        list_of(list).set(pairs, count, |key, bytes, _| may_set(&behaviour, key, bytes))
    }

    fn NvSciSyncAttrListGetAttrs(list: usize, pairs: *mut Pair, count: usize) gives pairs {
        let behaviour = Behaviour::now();
        list_of(list).get(pairs, count, |key, _| may_get(&behaviour, key))
    }

    fn NvSciSyncAttrListReconcile(lists: *const usize, count: usize, list: *mut usize, conflict: *mut usize) gives list {
        if list.is_null() || conflict.is_null() {
            return Err(error::BAD_PARAMETER);
        }
        let lists = inputs(lists, count, list_of)?;
        let module = lists[0].module;
        let values: Vec<Values> = lists.iter().map(|list| lock(&list.values).clone()).collect();
        let behaviour = Behaviour::now();
        match reconcile(&behaviour, &values) {
            Ok(values) => give(list, SYNC_LISTS.insert(List::new(module, Sort::Reconciled, values))),
            Err(code) => {
                give(conflict, List::of_conflict(module, &behaviour, |list| SYNC_LISTS.insert(list)))?;
                Err(code)
            }
        }
    }

    fn NvSciSyncObjAlloc(list: usize, object: *mut usize) gives object {
        let list = list_of(list);
        if !list.is_reconciled() || object.is_null() {
            return Err(error::BAD_PARAMETER);
        }
        let cpu_perm = lock(&list.values).get(&CPU_PERM).and_then(|perm| perm.u64s().first().copied()).unwrap_or(0);
        let gpu_perms = lock(&list.values).get(&GPU_PERMS).map(|perms| perms.bytes().to_vec()).unwrap_or_default();
        let (module, primitive, imports) = (list.module, Arc::new(Primitive::new()), AtomicU64::new(0));
        give(object, SYNCS.insert(SyncObject { module, primitive, cpu_perm, gpu_perms, imports }))
    }

    fn NvSciSyncObjGenerateFence(object: usize, fence: *mut Fence) {
        let object = sync_of(object);
        if fence.is_null() || object.cpu_perm & 2 == 0 {
            return Err(error::BAD_PARAMETER);
        }
        (*fence).clear();
        give(fence, Fence::new(&object, 0, object.primitive.plan()))
    }

    fn NvSciSyncObjSignal(object: usize) {
        let object = sync_of(object);
        if object.cpu_perm & 2 == 0 {
            return Err(error::BAD_PARAMETER);
        }
        object.primitive.step();
        Ok(())
    }

    fn NvSciSyncFenceWait(fence: *const Fence, context: usize, timeout: i64) {
        if fence.is_null() || context == 0 || !(-1..=i64::MAX / 1000).contains(&timeout) {
            return Err(error::BAD_PARAMETER);
        }
        let module = CONTEXTS.get(context).unwrap_or_else(|| panics("this NvSciSyncCpuWaitContext was freed, or is none"));
        if (*fence).is_cleared() {
            return Ok(());
        }
        let reference = (*fence).reference();
        if reference.module != *module || reference.cpu_perm & 1 == 0 {
            return Err(error::BAD_PARAMETER);
        }
        let limit = u64::try_from(timeout).ok().map(Duration::from_micros);
        if reference.primitive.wait((*fence).value(), limit) { Ok(()) } else { Err(error::TIMEOUT) }
    }

    fn NvSciSyncFenceUpdateFence(object: usize, id: u64, value: u64, fence: *mut Fence) {
        let object = sync_of(object);
        if fence.is_null() {
            return Err(error::BAD_PARAMETER);
        }
        // The only primitive, of 32 bits by default.
        if id != 0 || value > object.primitive.greatest {
            return Err(error::OVERFLOW);
        }
        (*fence).clear();
        give(fence, Fence::new(&object, id, value))
    }

    fn NvSciSyncFenceExtractFence(fence: *const Fence, id: *mut u64, value: *mut u64) gives value {
        if fence.is_null() || id.is_null() || value.is_null() {
            return Err(error::BAD_PARAMETER);
        }
        if (*fence).is_cleared() {
            return Err(error::CLEARED_FENCE);
        }
        let _held = (*fence).reference();
        give(id, (*fence).payload[1])?;
        give(value, (*fence).value())
    }

    fn NvSciSyncCpuWaitContextAlloc(module: usize, context: *mut usize) gives context {
        need_module(module)?;
        give(context, CONTEXTS.insert(module))
    }
}

voids! {
    fn NvSciSyncModuleClose(module: usize) {
        SYNC_MODULES.remove(module).unwrap_or_else(|| panics("an NvSciSyncModule was closed twice, or is none"));
    }

    fn NvSciSyncAttrListFree(list: usize) {
        // As for NvSciBuf.
        if list == 0 || leaks("leak_list") {
            return;
        }
        SYNC_LISTS.remove(list).unwrap_or_else(|| panics("an NvSciSyncAttrList was freed twice, or is none"));
    }

    fn NvSciSyncObjFree(object: usize) {
        if leaks("leak_object") {
            return;
        }
        let object = SYNCS.remove(object).unwrap_or_else(|| panics("an NvSciSyncObj was freed twice, or is none"));
        // A driver's import holds a reference. A test setting checks that the library does not rely on it.
        if object.imports.load(Ordering::SeqCst) > 0 && asked_for("imports_hold_nothing") {
            panics("an NvSciSyncObj was freed while a driver has it imported");
        }
    }

    fn NvSciSyncCpuWaitContextFree(context: usize) {
        CONTEXTS.remove(context).unwrap_or_else(|| panics("an NvSciSyncCpuWaitContext was freed twice, or is none"));
    }

    fn NvSciSyncFenceClear(fence: *mut Fence) {
        // SAFETY: the caller's promise.
        if let Some(fence) = unsafe { fence.as_mut() } {
            fence.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{NvSciBufAttrListFree, NvSciBufCheckVersionCompatibility};

    /// An object that the CPU signals and waits for.
    fn object() -> usize {
        let (mut module, mut list, mut reconciled, mut conflict, mut object) = (0, 0, 0, 0, 0);
        let (perm, access) = (3_u64, 1_u8);
        let pairs = [
            Pair { key: 2, value: (&raw const perm).cast(), len: 8 },
            Pair { key: 1, value: (&raw const access).cast(), len: 1 },
        ];
        // SAFETY: every pointer is valid for its call, and every handle is live.
        let codes = unsafe {
            [
                NvSciSyncModuleOpen(&raw mut module),
                NvSciSyncAttrListCreate(module, &raw mut list),
                NvSciSyncAttrListSetAttrs(list, pairs.as_ptr(), 2),
                NvSciSyncAttrListReconcile(&raw const list, 1, &raw mut reconciled, &raw mut conflict),
                NvSciSyncObjAlloc(reconciled, &raw mut object),
            ]
        };
        assert_eq!(codes, [0; 5]);
        object
    }

    #[test]
    fn fences_are_updated_up_to_32_bits() {
        let (object, mut fence, mut found) = (object(), Fence::CLEARED, (0, 0));
        // SAFETY: the object is live, and the fence is cleared or was filled by this library.
        let mut update = |id, value| unsafe { NvSciSyncFenceUpdateFence(object, id, value, &raw mut fence) };
        assert_eq!((update(0, 7), update(0, u32::MAX.into())), (0, 0));
        assert_eq!((update(0, 1 << 32), update(1, 7)), (error::OVERFLOW, error::OVERFLOW));
        // SAFETY: as above; the outputs are valid for the call.
        let code = unsafe { NvSciSyncFenceExtractFence(&raw const fence, &raw mut found.0, &raw mut found.1) };
        assert_eq!((code, found), (0, (0, u32::MAX.into())), "a failed update changed the fence");
        // SAFETY: as above. Once for each of two updates would end the process.
        unsafe {
            NvSciSyncFenceClear(&raw mut fence);
            NvSciSyncFenceClear(&raw mut fence);
        }
        assert!(fence.is_cleared());
    }

    #[test]
    fn no_list_may_be_freed() {
        // SAFETY: NULL is allowed. Otherwise the process ends.
        unsafe {
            NvSciBufAttrListFree(0);
            NvSciSyncAttrListFree(0);
        }
    }

    #[test]
    fn versions_are_compared_with_their_minor() {
        type Check = unsafe extern "C" fn(u32, u32, *mut u8) -> u32;
        for (check, newest) in
            [(NvSciBufCheckVersionCompatibility as Check, 11), (NvSciSyncCheckVersionCompatibility as Check, 8)]
        {
            for (major, minor, expected) in [(2, 0, 1), (2, newest, 1), (2, newest + 1, 0), (1, 0, 0), (3, 0, 0)] {
                let mut compatible = 9;
                // SAFETY: the output is valid for the call.
                let code = unsafe { check(major, minor, &raw mut compatible) };
                assert_eq!((code, compatible), (0, expected), "{major}.{minor}");
            }
        }
    }
}
