//! Fences as sync files: the implicit fences of dma-bufs, and semaphores of `SYNC_FD`. Timelines as DRM syncobjs.
//!
//! A sync file is a descriptor of one fence of the kernel's drivers. It is signalled once, and `poll` for `POLLIN` waits for it.

mod dma_buf;
#[cfg(target_os = "linux")]
mod drm;
mod semaphore;
#[cfg(target_os = "linux")]
mod status;
#[cfg(target_os = "linux")]
mod syncobj;

pub use dma_buf::{DmaBufAccess, dma_buf_fence, set_dma_buf_fence};
#[cfg(target_os = "linux")]
pub use drm::DrmDevice;
pub use semaphore::SyncFileSemaphore;
#[cfg(target_os = "linux")]
pub use status::{SyncFileStatus, sync_file_status};
#[cfg(target_os = "linux")]
pub use syncobj::{DrmSyncobj, DrmSyncobjState};
