//! Attribute lists of synchronisation objects.

use std::sync::Arc;

use gpu_interop_core::handle::NvSciSyncAttrList;
use gpu_interop_core::{Device, Error, NvSciSyncUse, Result};

use super::object::SyncObject;
use super::{Module, SyncModule};
use crate::list::{List, Value, no_list};
use crate::sys::sync::{key, perm};

/// The keys that a conflict may be about.
const NAMES: &[(u32, &str)] = &[
    (key::NEED_CPU_ACCESS, "NeedCpuAccess"),
    (key::REQUIRED_PERM, "RequiredPerm"),
    (key::REQUIRE_DETERMINISTIC_FENCES, "RequireDeterministicFences"),
];

/// What a list may ask beyond who signals and who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncOptions {
    /// Each signal raises the object's value by exactly 1, so that fences can be made without the signaller
    /// (`NvSciSyncAttrKey_RequireDeterministicFences`): [`Fence::set`](super::Fence::set).
    pub deterministic_fences: bool,
}

/// What one user of an object asks of it (`NvSciSyncAttrList`, not reconciled).
#[derive(Debug)]
pub struct SyncAttributeList {
    list: List,
    module: Arc<Module>,
}

impl SyncAttributeList {
    fn create(module: &SyncModule) -> Result<Self> {
        let module = module.inner.clone();
        // SAFETY: the list holds the module, whose library's functions these are.
        let list = unsafe { List::create(module.lists(), module.raw, module.clone()) }?;
        Ok(Self { list, module })
    }

    fn with(mut self, options: SyncOptions, mut values: Vec<Value>) -> Result<Self> {
        if options.deterministic_fences {
            values.push(Value::bool(key::REQUIRE_DETERMINISTIC_FENCES, true));
        }
        self.list.set(&values)?;
        Ok(self)
    }

    /// What `device` needs to signal an object, to wait for it, or both (`cuDeviceGetNvSciSyncAttributes`).
    ///
    /// # Errors
    /// Those of [`Device::fill_nv_sci_sync_attributes`]; else what the library answers.
    pub fn for_device(module: &SyncModule, device: &Device, uses: NvSciSyncUse, options: SyncOptions) -> Result<Self> {
        let created = Self::create(module)?;
        // SAFETY: the list is live, not reconciled, and not known to anybody else yet.
        let list = unsafe { NvSciSyncAttrList::from_raw(created.list.as_non_null()) };
        device.fill_nv_sci_sync_attributes(list, uses)?;
        created.with(options, Vec::new())
    }

    /// What the CPU needs to signal an object, to wait for it, or both (`NvSciSyncAttrKey_NeedCpuAccess`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for no use at all; else what the
    /// library answers.
    pub fn for_cpu(module: &SyncModule, uses: NvSciSyncUse, options: SyncOptions) -> Result<Self> {
        let bit = |bit, perm| if uses.contains(bit) { perm } else { 0 };
        let required = bit(NvSciSyncUse::WAIT, perm::WAIT_ONLY) | bit(NvSciSyncUse::SIGNAL, perm::SIGNAL_ONLY);
        if required == 0 {
            return Err(Error::invalid("SyncAttributeList::for_cpu", "the CPU must signal, wait, or both"));
        }
        let access = vec![Value::bool(key::NEED_CPU_ACCESS, true), Value::u64(key::REQUIRED_PERM, required)];
        Self::create(module)?.with(options, access)
    }

    /// Reconciles lists into one that satisfies all of them (`NvSciSyncAttrListReconcile`). Exactly one must signal, and
    /// at least one wait.
    ///
    /// # Errors
    /// [`ErrorKind::ReconciliationFailed`](gpu_interop_core::ErrorKind::ReconciliationFailed) with the attributes that do
    /// not go together, as far as the library says;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for no list, one named twice, or lists
    /// of several modules; else what the library answers.
    pub fn reconcile(lists: &[&Self]) -> Result<ReconciledSyncAttributes> {
        let [first, others @ ..] = lists else { return Err(no_list("NvSciSyncAttrListReconcile")) };
        let others: Vec<&List> = others.iter().map(|other| &other.list).collect();
        let list = List::reconcile(&first.list, &others, NAMES)?;
        let deterministic = list.get::<u8>(key::REQUIRE_DETERMINISTIC_FENCES)?.first().is_some_and(|value| *value != 0);
        let perm = list.get::<u64>(key::ACTUAL_PERM)?.first().copied().unwrap_or(0);
        Ok(ReconciledSyncAttributes { list, module: first.module.clone(), deterministic, perm })
    }

    /// The library's object, valid while `self` lives: for another API to set what it needs.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.list.as_raw()
    }
}

/// A reconciled list: what objects are allocated by.
#[derive(Debug)]
pub struct ReconciledSyncAttributes {
    list: List,
    module: Arc<Module>,
    deterministic: bool,
    perm: u64,
}

impl ReconciledSyncAttributes {
    /// Whether fences are deterministic: [`SyncOptions::deterministic_fences`].
    #[must_use]
    pub fn has_deterministic_fences(&self) -> bool {
        self.deterministic
    }

    /// What all of the lists together may do (`NvSciSyncAttrKey_ActualPerm`).
    #[must_use]
    pub fn uses(&self) -> NvSciSyncUse {
        let bit = |perm, bit| if self.perm & perm == 0 { NvSciSyncUse::empty() } else { bit };
        bit(perm::WAIT_ONLY, NvSciSyncUse::WAIT) | bit(perm::SIGNAL_ONLY, NvSciSyncUse::SIGNAL)
    }

    /// Allocates an object (`NvSciSyncObjAlloc`). Several can be.
    ///
    /// # Errors
    /// What the library answers.
    pub fn allocate(&self) -> Result<SyncObject> {
        SyncObject::allocate(&self.module, self.list.as_raw(), self.deterministic)
    }
}
