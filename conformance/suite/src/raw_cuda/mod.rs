//! Malformed calls of CUDA's driver without the library, which show the behaviour of the driver alone.
//!
//! They run in a separate process, because some of them crash it. The process is this program, which loads the same
//! file as the backend under test, makes one call per message and returns the driver's behaviour.
//!
//! All its unsafe code is in this module. The layouts are those of NVIDIA's headers, from `cudarc`, not this project's
//! own.

mod call;
mod driver;
mod process;
mod serve;

pub(crate) use call::{Batch, DMA_BUF_FD, OPAQUE_FD, OPAQUE_WIN32, RawCall, TIMELINE_FD};
pub(crate) use process::{RawOutcome, RawProcess};
pub(crate) use serve::serve;
