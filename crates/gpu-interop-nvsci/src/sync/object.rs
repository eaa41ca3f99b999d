//! Synchronisation objects.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use gpu_interop_core::handle::NvSciSyncObject;
use gpu_interop_core::{NvSciSyncUse, Result, SemaphoreHandle, SemaphoreImport};
use gpu_interop_driver::DriverFunction;

use super::users::{User, Users};
use crate::error::{check, not_null};
use crate::sync::Module;
use crate::sys::Handle;

/// Reconciled properties of an object.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) deterministic: bool,
    pub(crate) greatest_value: Option<u64>,
    pub(crate) users: Users,
}

#[derive(Debug)]
struct Inner {
    raw: NonNull<c_void>,
    facts: Arc<Facts>,
    module: Arc<Module>,
}

// SAFETY: the library accepts the address from any thread.
unsafe impl Send for Inner {}
// SAFETY: NVIDIA documents the functions that take objects as safe to call from several threads.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; handles and imports hold this, so that none is left. Fences hold their
        // own references.
        unsafe { (self.module.functions().obj_free)(self.raw.as_ptr().expose_provenance()) };
    }
}

/// An object that one side signals and others wait for (`NvSciSyncObj`). Freed with its last clone and its last import.
#[derive(Debug, Clone)]
pub struct SyncObject {
    inner: Arc<Inner>,
}

impl PartialEq for SyncObject {
    /// `true` if both are the same object.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for SyncObject {}

impl SyncObject {
    pub(crate) fn allocate(module: &Arc<Module>, list: Handle, facts: Arc<Facts>) -> Result<Self> {
        const NAME: &str = "NvSciSyncObjAlloc";
        let mut raw = 0;
        // SAFETY: the list is live while its owner is borrowed; the pointer is valid for the call.
        check(NAME, unsafe { module.functions().obj_alloc.traced(NAME, (list, &raw mut raw)) })?;
        let raw = not_null(NAME, raw)?;
        Ok(Self { inner: Arc::new(Inner { raw, facts, module: module.clone() }) })
    }

    pub(crate) fn module(&self) -> &Arc<Module> {
        &self.inner.module
    }

    /// The library's object (`NvSciSyncObj`), valid while a clone, a handle or an import of `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.inner.raw.as_ptr().expose_provenance()
    }

    /// `true` if its fences are deterministic.
    #[must_use]
    pub fn has_deterministic_fences(&self) -> bool {
        self.inner.facts.deterministic
    }

    /// The greatest value of a fence (`NvSciSyncAttrKey_MaxPrimitiveValue`); `None` if the library does not report it.
    /// It is `u64::MAX` for semaphores of 64 bits and `u32::MAX` for every other primitive. The effect of a signal
    /// beyond it is not documented.
    #[must_use]
    pub fn greatest_value(&self) -> Option<u64> {
        self.inner.facts.greatest_value
    }

    /// Fails unless an attribute list requested this use.
    pub(crate) fn need(&self, operation: &'static str, user: User, wanted: NvSciSyncUse) -> Result<()> {
        self.inner.facts.users.need(operation, user, wanted)
    }

    /// A handle for an import by a device. The handle, its clones and the driver's import keep the object alive.
    #[must_use]
    pub fn import_request(&self) -> SemaphoreImport {
        // SAFETY: the object is freed when the owner is dropped.
        let object = unsafe { NvSciSyncObject::owned_by(self.inner.raw, self.inner.clone()) };
        // SAFETY: the handle is of an NvSciSync object that the library allocated, and keeps it. It is not bound to a
        // device: the driver rejects a device that no attribute list named, by NvSci's rules of reconciliation.
        unsafe { SemaphoreImport::new(SemaphoreHandle::NvSciSync(object)) }
    }

    /// Signals the next point with the CPU (`NvSciSyncObjSignal`), for objects that the CPU signals.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if no list requested signals by the
    /// CPU; otherwise the library's error.
    pub fn signal(&self) -> Result<()> {
        const NAME: &str = "NvSciSyncObjSignal";
        self.need(NAME, User::Cpu, NvSciSyncUse::SIGNAL)?;
        // SAFETY: the object is live.
        check(NAME, unsafe { self.inner.module.functions().obj_signal.traced(NAME, (self.as_raw(),)) })
    }
}
