//! NvSciSync: objects that GPUs and the CPU signal and wait for, and their fences.

mod cpu;
mod fence;
mod import;
mod list;
mod module;
mod object;
mod users;

use std::sync::Arc;

use gpu_interop_core::Result;

pub use cpu::CpuWaitContext;
pub use fence::Fence;
pub use import::{ImportedSync, MemSync};
pub use list::{ReconciledSyncAttributes, SyncAttributeList, SyncOptions};
pub use object::SyncObject;

use crate::library::NvSci;
use module::Module;

/// An open module of NvSciSync (`NvSciSyncModule`). Objects created from it keep it open. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncModule {
    pub(crate) inner: Arc<Module>,
}

impl NvSci {
    /// Opens a module of synchronisation objects (`NvSciSyncModuleOpen`). Objects of two modules do not mix.
    ///
    /// # Errors
    /// What the library answers.
    pub fn open_syncs(&self) -> Result<SyncModule> {
        Ok(SyncModule { inner: Module::open(self)? })
    }
}

impl SyncModule {
    /// A fence that nothing has filled yet.
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
