//! NvSciSync: objects that GPUs and the CPU signal and wait for, and their fences.

mod cpu;
mod fence;
mod import;
mod list;
mod object;
mod users;

use std::sync::Arc;

use gpu_interop_core::Result;
use gpu_interop_driver::DriverFunction;

pub use cpu::CpuWaitContext;
pub use fence::Fence;
pub use import::{ImportedSync, MemSync};
pub use list::{ReconciledSyncAttributes, SyncAttributeList, SyncOptions};
pub use object::SyncObject;

use crate::error::{check, not_null};
use crate::library::NvSci;
use crate::list::ListFunctions;
use crate::sys::{Handle, sync};

#[derive(Debug)]
pub(crate) struct Module {
    nv_sci: NvSci,
    raw: Handle,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; lists, objects, fences and contexts hold this, so none is left.
        unsafe { (self.functions().module_close)(self.raw) };
    }
}

impl Module {
    pub(crate) fn functions(&self) -> &sync::Functions {
        &self.nv_sci.libraries.sync
    }

    pub(crate) fn lists(&self) -> ListFunctions {
        let functions = self.functions();
        ListFunctions {
            create: ("NvSciSyncAttrListCreate", functions.list_create),
            free: functions.list_free,
            set: ("NvSciSyncAttrListSetAttrs", functions.list_set),
            get: ("NvSciSyncAttrListGetAttrs", functions.list_get),
            reconcile: ("NvSciSyncAttrListReconcile", functions.list_reconcile),
        }
    }
}

/// An open module of NvSciSync (`NvSciSyncModule`). Objects created from it keep it open. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncModule {
    pub(crate) inner: Arc<Module>,
}

impl SyncModule {
    pub(crate) fn open(nv_sci: &NvSci) -> Result<Self> {
        const NAME: &str = "NvSciSyncModuleOpen";
        let mut raw = 0;
        // SAFETY: the pointer is valid for the call.
        check(NAME, unsafe { nv_sci.libraries.sync.module_open.traced(NAME, (&raw mut raw,)) })?;
        let raw = not_null(NAME, raw)?.addr().get();
        Ok(Self { inner: Arc::new(Module { nv_sci: nv_sci.clone(), raw }) })
    }

    /// Creates a cleared fence.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence::new(self.inner.clone())
    }

    /// Creates a context for waits of the CPU (`NvSciSyncCpuWaitContextAlloc`).
    ///
    /// # Errors
    /// The library's error.
    pub fn cpu_wait_context(&self) -> Result<CpuWaitContext> {
        CpuWaitContext::allocate(self.inner.clone())
    }

    /// The library's object (`NvSciSyncModule`), valid while `self` or an object created from it lives.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.inner.raw
    }
}
