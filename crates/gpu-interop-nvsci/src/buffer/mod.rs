//! NvSciBuf: attribute lists of buffers, and buffers.

mod attributes;
mod image;
mod list;
mod object;
mod reconciled;

use std::sync::Arc;

use gpu_interop_core::Result;
use gpu_interop_driver::DriverFunction;

pub use attributes::{BufferAttributes, GpuAttributes, Permission};
pub use image::{ColorFormat, ImageAttributes, ImageLayout, PlaneAttributes};
pub use list::{BufferAttributeList, ReconciledBufferAttributes};
pub use object::Buffer;
pub use reconciled::{BufferProperties, Plane};

use crate::error::{check, not_null};
use crate::library::NvSci;
use crate::list::ListFunctions;
use crate::sys::{Handle, buf};

#[derive(Debug)]
pub(crate) struct Module {
    nv_sci: NvSci,
    raw: Handle,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; lists and objects hold this, so none is left.
        unsafe { (self.functions().module_close)(self.raw) };
    }
}

impl Module {
    pub(crate) fn functions(&self) -> &buf::Functions {
        &self.nv_sci.libraries.buf
    }

    pub(crate) fn lists(&self) -> ListFunctions {
        let functions = self.functions();
        ListFunctions {
            create: ("NvSciBufAttrListCreate", functions.list_create),
            free: functions.list_free,
            set: ("NvSciBufAttrListSetAttrs", functions.list_set),
            get: ("NvSciBufAttrListGetAttrs", functions.list_get),
            reconcile: ("NvSciBufAttrListReconcile", functions.list_reconcile),
        }
    }
}

/// An open module of NvSciBuf (`NvSciBufModule`). Objects created from it keep it open. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BufferModule {
    pub(crate) inner: Arc<Module>,
}

impl BufferModule {
    pub(crate) fn open(nv_sci: &NvSci) -> Result<Self> {
        const NAME: &str = "NvSciBufModuleOpen";
        let mut raw = 0;
        // SAFETY: the pointer is valid for the call.
        check(NAME, unsafe { nv_sci.libraries.buf.module_open.traced(NAME, (&raw mut raw,)) })?;
        let raw = not_null(NAME, raw)?.addr().get();
        Ok(Self { inner: Arc::new(Module { nv_sci: nv_sci.clone(), raw }) })
    }

    /// The library's object (`NvSciBufModule`), valid while `self` or an object created from it lives.
    #[must_use]
    pub fn as_raw(&self) -> usize {
        self.inner.raw
    }
}
