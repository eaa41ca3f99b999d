//! NvSciSync: objects that GPUs and the CPU signal and wait for, and their fences.

mod cpu;
mod fence;
mod import;
mod list;
mod object;
mod users;

use gpu_interop_core::Result;

use crate::library::NvSci;

pub use cpu::CpuWaitContext;
pub use fence::Fence;
pub use import::{ImportedSync, MemSync};
pub use list::{ReconciledSyncAttributes, SyncAttributeList, SyncOptions};
pub use object::SyncObject;

impl NvSci {
    /// Opens a module of synchronisation objects (`NvSciSyncModuleOpen`). Objects of two modules do not mix.
    ///
    /// # Errors
    /// The library's error.
    pub fn open_syncs(&self) -> Result<SyncModule> {
        SyncModule::open(self)
    }
}

impl SyncModule {
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
}

crate::module::module! {
    /// An open module of NvSciSync (`NvSciSyncModule`), which everything made from it keeps open. Cheap to clone.
    SyncModule of sync: "NvSciSync"
}
