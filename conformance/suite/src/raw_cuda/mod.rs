//! Calls of CUDA's driver that go around the library, wrong on purpose: what an application gets without it.
//!
//! They run in a process of their own, because some of them kill it. It is this program again, which loads the very file
//! that the backend under test has loaded, makes one call a message and answers with what the driver did.
//!
//! All of it that is unsafe is in here. The layouts are those of NVIDIA's headers, as `cudarc` has them, not this
//! project's own.

mod call;
mod driver;
mod process;
mod serve;

pub(crate) use call::{Batch, DMA_BUF_FD, OPAQUE_FD, OPAQUE_WIN32, RawCall, TIMELINE_FD};
pub(crate) use process::{RawOutcome, RawProcess};
pub(crate) use serve::serve;
