//! An open module, which everything made from it keeps open.

use std::sync::Arc;

use gpu_interop_core::Result;
use gpu_interop_driver::DriverFunction;

use crate::error::{check, not_null};
use crate::library::NvSci;
use crate::list::ListFunctions;
use crate::sys::{Handle, sync};

#[derive(Debug)]
pub(crate) struct Module {
    nv_sci: NvSci,
    pub(super) raw: Handle,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; lists, objects, fences and contexts hold this, so none is left.
        unsafe { (self.functions().module_close)(self.raw) };
    }
}

impl Module {
    /// Opens a module (`NvSciSyncModuleOpen`).
    pub(super) fn open(nv_sci: &NvSci) -> Result<Arc<Self>> {
        const NAME: &str = "NvSciSyncModuleOpen";
        let mut raw = 0;
        // SAFETY: the pointer is valid for the call.
        check(NAME, unsafe { nv_sci.libraries.sync.module_open.traced(NAME, (&raw mut raw,)) })?;
        let raw = not_null(NAME, raw)?.addr().get();
        Ok(Arc::new(Self { nv_sci: nv_sci.clone(), raw }))
    }

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
