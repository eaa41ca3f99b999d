//! Fences as sync files: the implicit fences of dma-bufs, and semaphores of `SYNC_FD`.
//!
//! A sync file is a descriptor of one fence of the kernel's drivers. It is signalled once, and `poll` for `POLLIN` waits for it.

mod dma_buf;
mod semaphore;

pub use dma_buf::{DmaBufAccess, dma_buf_fence, set_dma_buf_fence};
pub use semaphore::SyncFileSemaphore;
