//! NvSciSync's functions, and the reconciliation of the attributes of synchronisation objects, by the rules that
//! `nvscisync.h` states for each key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpu_interop_sim_abi::objects::Objects;
use gpu_interop_sim_abi::{entries, lock};

use crate::attributes::{List, ListKind, Stored, Values};
use crate::behaviour::Behaviour;
use crate::{Pair, attributes, error, give, is_set, leaks, panics, voids};

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
        let skips_waits = is_set(&format!("skip_waits_{number}"));
        let (planned, greatest) = (AtomicU64::new(0), Behaviour::now().greatest_value());
        Self { value: Mutex::default(), changed: Condvar::new(), planned, greatest, skips_waits }
    }

    pub(crate) fn plan(&self) -> u64 {
        let value = self.planned.fetch_add(1, Ordering::SeqCst) + 1;
        if value > self.greatest {
            panics("a primitive would exceed its greatest value, whose effect is not documented");
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
        FENCES.get(handle).unwrap_or_else(|| panics("this NvSciSyncFence is invalid"))
    }

    pub(crate) fn value(&self) -> u64 {
        self.payload[2]
    }

    fn clear(&mut self) {
        if !self.is_cleared() && !leaks("leak_fence") {
            let handle = usize::try_from(self.payload[0]).unwrap_or(usize::MAX);
            FENCES.remove(handle).unwrap_or_else(|| panics("this NvSciSyncFence was cleared twice, or is invalid"));
        }
        *self = Self::CLEARED;
    }
}

fn need_module(module: usize) -> Result<(), u32> {
    error::reject_if(module == 0)?;
    SYNC_MODULES.get(module).map(drop).ok_or_else(|| panics("this NvSciSyncModule is not open"))
}

pub(crate) fn list_of(handle: usize) -> Arc<List> {
    SYNC_LISTS.get(handle).unwrap_or_else(|| panics("this NvSciSyncAttrList was freed, or is invalid"))
}

pub(crate) fn sync_of(handle: usize) -> Arc<SyncObject> {
    SYNCS.get(handle).unwrap_or_else(|| panics("this NvSciSyncObj was freed, or is invalid"))
}

entries! {
    fn NvSciSyncModuleOpen(module: *mut usize) gives module {
        give(module, SYNC_MODULES.insert(()))
    }

    fn NvSciSyncAttrListCreate(module: usize, list: *mut usize) gives list {
        need_module(module)?;
        give(list, SYNC_LISTS.insert(List::new(module, ListKind::Unreconciled, Values::new())))
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
        attributes::reconcile((lists, count), [list, conflict], &SYNC_LISTS, list_of, |behaviour, values| {
            reconcile_sync(behaviour, values).map_err(|code| (code, true))
        })
    }

    fn NvSciSyncObjAlloc(list: usize, object: *mut usize) gives object {
        let list = list_of(list);
        error::reject_if(!list.is_reconciled() || object.is_null())?;
        let cpu_perm = lock(&list.values).get(&CPU_PERM).and_then(|perm| perm.u64s().first().copied()).unwrap_or(0);
        let gpu_perms = lock(&list.values).get(&GPU_PERMS).map(|perms| perms.bytes().to_vec()).unwrap_or_default();
        let (module, primitive, imports) = (list.module, Arc::new(Primitive::new()), AtomicU64::new(0));
        give(object, SYNCS.insert(SyncObject { module, primitive, cpu_perm, gpu_perms, imports }))
    }

    fn NvSciSyncObjGenerateFence(object: usize, fence: *mut Fence) {
        let object = sync_of(object);
        error::reject_if(fence.is_null() || object.cpu_perm & 2 == 0)?;
        (*fence).clear();
        give(fence, Fence::new(&object, 0, object.primitive.plan()))
    }

    fn NvSciSyncObjSignal(object: usize) {
        let object = sync_of(object);
        error::reject_if(object.cpu_perm & 2 == 0)?;
        object.primitive.step();
        Ok(())
    }

    fn NvSciSyncFenceWait(fence: *const Fence, context: usize, timeout: i64) {
        error::reject_if(fence.is_null() || context == 0 || !(-1..=i64::MAX / 1000).contains(&timeout))?;
        let module = CONTEXTS.get(context).unwrap_or_else(|| panics("this NvSciSyncCpuWaitContext was freed, or is invalid"));
        if (*fence).is_cleared() {
            return Ok(());
        }
        let reference = (*fence).reference();
        error::reject_if(reference.module != *module || reference.cpu_perm & 1 == 0)?;
        let limit = u64::try_from(timeout).ok().map(Duration::from_micros);
        if reference.primitive.wait((*fence).value(), limit) { Ok(()) } else { Err(error::TIMEOUT) }
    }

    fn NvSciSyncFenceUpdateFence(object: usize, id: u64, value: u64, fence: *mut Fence) {
        let object = sync_of(object);
        error::reject_if(fence.is_null())?;
        // The only primitive, of 32 bits by default.
        if id != 0 || value > object.primitive.greatest {
            return Err(error::OVERFLOW);
        }
        (*fence).clear();
        give(fence, Fence::new(&object, id, value))
    }

    fn NvSciSyncFenceExtractFence(fence: *const Fence, id: *mut u64, value: *mut u64) gives value {
        error::reject_if(fence.is_null() || id.is_null() || value.is_null())?;
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
        SYNC_MODULES.remove(module).unwrap_or_else(|| panics("an NvSciSyncModule was closed twice, or is invalid"));
    }

    fn NvSciSyncAttrListFree(list: usize) {
        // As for NvSciBuf.
        if list == 0 || leaks("leak_list") {
            return;
        }
        SYNC_LISTS.remove(list).unwrap_or_else(|| panics("an NvSciSyncAttrList was freed twice, or is invalid"));
    }

    fn NvSciSyncObjFree(object: usize) {
        if leaks("leak_object") {
            return;
        }
        let object = SYNCS.remove(object).unwrap_or_else(|| panics("an NvSciSyncObj was freed twice, or is none"));
        // A driver's import holds a reference. A test setting checks that the library does not rely on it.
        if object.imports.load(Ordering::SeqCst) > 0 && is_set("imports_hold_nothing") {
            panics("an NvSciSyncObj was freed while a driver has it imported");
        }
    }

    fn NvSciSyncCpuWaitContextFree(context: usize) {
        CONTEXTS.remove(context).unwrap_or_else(|| panics("an NvSciSyncCpuWaitContext was freed twice, or is invalid"));
    }

    fn NvSciSyncFenceClear(fence: *mut Fence) {
        // SAFETY: the caller's promise.
        if let Some(fence) = unsafe { fence.as_mut() } {
            fence.clear();
        }
    }
}

// Values of `NvSciSyncAttrKey`, in the order of the header.
pub(crate) const NEED_CPU_ACCESS: i32 = 1;
pub(crate) const REQUIRED_PERM: i32 = 2;
const ACTUAL_PERM: i32 = 3;
const REQUIRE_DETERMINISTIC_FENCES: i32 = 6;
const MAX_PRIMITIVE_VALUE: i32 = 9;
/// Private key: the CPU's permissions.
pub(crate) const CPU_PERM: i32 = 1000;
/// Private key: the id of the GPU whose driver has filled the list.
pub(crate) const GPU: i32 = 1001;
/// Private key: each GPU's permissions, as its id and 8 bytes.
pub(crate) const GPU_PERMS: i32 = 1002;

const GPU_BYTES: usize = 16;

pub(crate) const WAIT: u64 = 1;
pub(crate) const SIGNAL: u64 = 2;

pub(crate) fn may_set(behaviour: &Behaviour, key: i32, bytes: &[u8]) -> bool {
    match key {
        _ if key > behaviour.last_sync_key() => false,
        NEED_CPU_ACCESS | 4..=REQUIRE_DETERMINISTIC_FENCES => bytes.len() == 1 && bytes[0] <= 1,
        REQUIRED_PERM => {
            bytes.len() == 8 && Stored::new(bytes).u64s().iter().all(|perm| (WAIT..=(WAIT | SIGNAL)).contains(perm))
        }
        _ => false,
    }
}

pub(crate) fn may_get(behaviour: &Behaviour, key: i32) -> bool {
    (NEED_CPU_ACCESS..=behaviour.last_sync_key()).contains(&key)
}

/// A GPU's permissions in the value of [`GPU_PERMS`].
pub(crate) fn gpu_perm(perms: &[u8], gpu: &[u8]) -> u64 {
    let of_gpu = perms.chunks_exact(GPU_BYTES + 8).filter(|entry| &entry[..GPU_BYTES] == gpu);
    of_gpu
        .filter_map(|entry| entry[GPU_BYTES..].try_into().ok())
        .map(u64::from_ne_bytes)
        .fold(0, |all, perm| all | perm)
}

/// Returns the attributes that satisfy all lists, or the status code.
pub(crate) fn reconcile_sync(behaviour: &Behaviour, lists: &[Values]) -> Result<Values, u32> {
    let perm = |list: &Values| list.get(&REQUIRED_PERM).and_then(|perm| perm.u64s().first().copied()).unwrap_or(0);
    let with = |bit: u64| lists.iter().filter(|list| perm(list) & bit != 0).count();
    // "No list with SignalOnly, more than one, no list with WaitOnly".
    if with(SIGNAL) != 1 || with(WAIT) == 0 {
        return Err(error::RECONCILIATION_FAILED);
    }
    // As if signaller and waiters had no common type of primitive.
    if behaviour.has("no_common_primitive") {
        return Err(error::UNSUPPORTED_CONFIG);
    }
    let any_true = |key: i32| lists.iter().filter_map(|list| list.get(&key)).any(Stored::bool);
    let cpu = lists.iter().filter(|list| list.get(&NEED_CPU_ACCESS).is_some_and(Stored::bool));
    let cpu_perm = cpu.map(perm).fold(0, |all, perm| all | perm);
    let gpus = lists.iter().filter_map(|list| Some((list.get(&GPU)?.bytes(), perm(list))));
    let gpu_perms: Vec<u8> = gpus.flat_map(|(id, perm)| id.iter().copied().chain(perm.to_ne_bytes())).collect();
    let mut out = Values::from([
        (NEED_CPU_ACCESS, Stored::new(&[any_true(NEED_CPU_ACCESS).into()])),
        (ACTUAL_PERM, Stored::new(&(WAIT | SIGNAL).to_ne_bytes())),
        (REQUIRE_DETERMINISTIC_FENCES, Stored::new(&[any_true(REQUIRE_DETERMINISTIC_FENCES).into()])),
        (MAX_PRIMITIVE_VALUE, Stored::new(&behaviour.greatest_value().to_ne_bytes())),
        (CPU_PERM, Stored::new(&cpu_perm.to_ne_bytes())),
        (GPU_PERMS, Stored::new(&gpu_perms)),
    ]);
    out.retain(|key, _| *key <= behaviour.last_sync_key() || *key >= CPU_PERM);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::NvSciBufAttrListFree;

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

    fn list(perm: u64, gpu: Option<u8>) -> Values {
        let perm = (REQUIRED_PERM, Stored::new(&perm.to_ne_bytes()));
        Values::from_iter([perm].into_iter().chain(gpu.map(|byte| (GPU, Stored::new(&[byte; 16])))))
    }

    #[test]
    fn a_gpu_may_do_what_its_own_lists_say() {
        let lists = [list(SIGNAL, Some(1)), list(WAIT, Some(2)), list(WAIT, Some(1)), list(WAIT, None)];
        let out = reconcile_sync(&Behaviour::default(), &lists).expect("one signals");
        let perms = out[&GPU_PERMS].bytes();
        let of = |byte: u8| gpu_perm(perms, &[byte; 16]);
        assert_eq!((of(1), of(2), of(3)), (SIGNAL | WAIT, WAIT, 0));
    }

    #[test]
    fn primitives_have_32_bits_unless_asked_for_more() {
        for (words, greatest) in [("", Some(0xffff_ffff)), ("wide", Some(u64::MAX)), ("sync_2.0", None)] {
            let behaviour = Behaviour::of(words);
            let out = reconcile_sync(&behaviour, &[list(SIGNAL | WAIT, None)]).expect("one signals");
            assert_eq!(out.get(&MAX_PRIMITIVE_VALUE).map(|value| value.u64s()[0]), greatest, "{words}");
            assert_eq!(may_get(&behaviour, MAX_PRIMITIVE_VALUE), greatest.is_some(), "{words}");
            let settable = may_set(&behaviour, REQUIRE_DETERMINISTIC_FENCES, &[1]);
            assert_eq!(settable, greatest.is_some(), "{words}");
        }
    }

    #[test]
    fn failures_have_their_codes() {
        let code = |words: &str, lists: &[Values]| reconcile_sync(&Behaviour::of(words), lists).err();
        assert_eq!(code("", &[list(SIGNAL, None)]), Some(error::RECONCILIATION_FAILED));
        assert_eq!(code("", &[list(SIGNAL, None), list(SIGNAL | WAIT, None)]), Some(error::RECONCILIATION_FAILED));
        assert_eq!(code("no_common_primitive", &[list(SIGNAL | WAIT, None)]), Some(error::UNSUPPORTED_CONFIG));
    }
}
