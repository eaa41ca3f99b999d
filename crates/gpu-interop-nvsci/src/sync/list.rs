//! Attribute lists of synchronisation objects.

use std::sync::Arc;

use gpu_interop_core::handle::NvSciSyncAttrList;
use gpu_interop_core::{Device, Error, ErrorKind, NvSciSyncUse, Result};

use super::object::{Facts, SyncObject};
use super::users::{User, Users};
use crate::list::{List, Value, no_list};
use crate::sync::{Module, SyncModule};
use crate::sys::sync::{key, perm};

/// Options of an attribute list, beyond signals and waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncOptions {
    /// Each signal raises the object's value by exactly 1, so that fences can be created without the signaller
    /// (`NvSciSyncAttrKey_RequireDeterministicFences`): [`Fence::set`](super::Fence::set). One list that requires it is
    /// enough. NvSciSync 2.0 does not support it.
    pub deterministic_fences: bool,
}

/// Requirements of one user of an object (`NvSciSyncAttrList`, not reconciled).
#[derive(Debug)]
pub struct SyncAttributeList {
    list: List,
    user: User,
    uses: NvSciSyncUse,
    module: Arc<Module>,
}

impl SyncAttributeList {
    fn create(module: &SyncModule, user: User, uses: NvSciSyncUse) -> Result<Self> {
        let module = module.inner.clone();
        // SAFETY: the list holds the module, whose library's functions these are.
        let list = unsafe { List::create(module.lists(), module.raw, module.clone()) }?;
        Ok(Self { list, user, uses, module })
    }

    fn with(mut self, options: SyncOptions, mut values: Vec<Value>) -> Result<Self> {
        if options.deterministic_fences {
            if !self.list.knows(key::REQUIRE_DETERMINISTIC_FENCES)? {
                let message = "this version of NvSciSync has no deterministic fences; version 2.3 has them";
                return Err(Error::unsupported("NvSciSyncAttrListSetAttrs", message));
            }
            values.push(Value::bool(key::REQUIRE_DETERMINISTIC_FENCES, true));
        }
        self.list.set(&values)?;
        Ok(self)
    }

    /// Creates the list of a device that signals an object, waits for it, or both (`cuDeviceGetNvSciSyncAttributes`).
    ///
    /// # Errors
    /// Those of [`Device::fill_nv_sci_sync_attributes`];
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for deterministic fences if the library
    /// does not know them; otherwise the library's error.
    pub fn for_device(module: &SyncModule, device: &Device, uses: NvSciSyncUse, options: SyncOptions) -> Result<Self> {
        let created = Self::create(module, User::device(device), uses)?;
        // SAFETY: the list is live and not reconciled, and nothing else uses it during the call below, which consumes
        // this.
        let list = unsafe { NvSciSyncAttrList::from_raw(created.list.as_non_null()) };
        device.fill_nv_sci_sync_attributes(list, uses)?;
        created.with(options, Vec::new())
    }

    /// Creates the list of a CPU that signals an object, waits for it, or both (`NvSciSyncAttrKey_NeedCpuAccess`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) without any use;
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for deterministic fences if the library
    /// does not know them; otherwise the library's error.
    pub fn for_cpu(module: &SyncModule, uses: NvSciSyncUse, options: SyncOptions) -> Result<Self> {
        let bit = |bit, perm| if uses.contains(bit) { perm } else { 0 };
        let required = bit(NvSciSyncUse::WAIT, perm::WAIT_ONLY) | bit(NvSciSyncUse::SIGNAL, perm::SIGNAL_ONLY);
        if required == 0 {
            return Err(Error::invalid("SyncAttributeList::for_cpu", "the CPU must signal, wait, or both"));
        }
        let access = vec![Value::bool(key::NEED_CPU_ACCESS, true), Value::u64(key::REQUIRED_PERM, required)];
        Self::create(module, User::Cpu, uses)?.with(options, access)
    }

    /// Reconciles lists into one that satisfies all of them (`NvSciSyncAttrListReconcile`). Exactly one list must
    /// request signals, and at least one waits. A device or CPU may use the object only as its own list requested.
    ///
    /// # Errors
    /// [`ErrorKind::ReconciliationFailed`](gpu_interop_core::ErrorKind::ReconciliationFailed) with the numbers of lists
    /// that request signals and waits; [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for
    /// no list, a list named twice, or lists of several modules; otherwise the library's error.
    pub fn reconcile(lists: &[&Self]) -> Result<ReconciledSyncAttributes> {
        let [first, others @ ..] = lists else { return Err(no_list("NvSciSyncAttrListReconcile")) };
        let others: Vec<&List> = others.iter().map(|other| &other.list).collect();
        let users = Users::new(lists.iter().map(|list| (list.user, list.uses)));
        let list = List::reconcile(&first.list, &others).map_err(|error| {
            if error.kind() != ErrorKind::ReconciliationFailed {
                return error;
            }
            error
                .with_context("attribute lists that signal", users.count(NvSciSyncUse::SIGNAL))
                .with_context("attribute lists that wait", users.count(NvSciSyncUse::WAIT))
        })?;
        // NvSciSync 2.0 has neither key.
        let deterministic = list.get_if_known::<u8>(key::REQUIRE_DETERMINISTIC_FENCES)?;
        let deterministic = deterministic.first().is_some_and(|value| *value != 0);
        let greatest_value = list.get_if_known::<u64>(key::MAX_PRIMITIVE_VALUE)?.first().copied();
        let perm = list.get::<u64>(key::ACTUAL_PERM)?.first().copied().unwrap_or(0);
        let facts = Arc::new(Facts { deterministic, greatest_value, users });
        Ok(ReconciledSyncAttributes { list, module: first.module.clone(), facts, perm })
    }

    /// The library's object, valid while `self` lives. Another API can set its requirements in it.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.list.as_raw()
    }
}

/// A reconciled list, from which objects are allocated.
#[derive(Debug)]
pub struct ReconciledSyncAttributes {
    list: List,
    module: Arc<Module>,
    facts: Arc<Facts>,
    perm: u64,
}

impl ReconciledSyncAttributes {
    /// `true` if fences are deterministic ([`SyncOptions::deterministic_fences`]).
    #[must_use]
    pub fn has_deterministic_fences(&self) -> bool {
        self.facts.deterministic
    }

    /// The greatest value of a fence (`NvSciSyncAttrKey_MaxPrimitiveValue`), as in [`SyncObject::greatest_value`].
    #[must_use]
    pub fn greatest_value(&self) -> Option<u64> {
        self.facts.greatest_value
    }

    /// The uses that all lists together permit (`NvSciSyncAttrKey_ActualPerm`).
    #[must_use]
    pub fn uses(&self) -> NvSciSyncUse {
        let bit = |perm, bit| if self.perm & perm == 0 { NvSciSyncUse::empty() } else { bit };
        bit(perm::WAIT_ONLY, NvSciSyncUse::WAIT) | bit(perm::SIGNAL_ONLY, NvSciSyncUse::SIGNAL)
    }

    /// Allocates an object (`NvSciSyncObjAlloc`). A list can allocate several.
    ///
    /// # Errors
    /// The library's error.
    pub fn allocate(&self) -> Result<SyncObject> {
        SyncObject::allocate(&self.module, self.list.as_raw(), self.facts.clone())
    }
}
