//! The caller of an ioctl of a render node.

use std::sync::{Arc, PoisonError};

use super::handles::Handles;
use crate::abi::Result;
use crate::emulation::Emulation;
use crate::files::File;
use crate::gpu::Gpu;
use crate::memory::Storage;

/// The open file of an ioctl, and the GPU of its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(super) emulation: &'static Emulation,
    pub(super) file: &'a File,
    pub(super) gpu: &'static Gpu,
}

impl Caller<'_> {
    pub(super) fn with_handles<R>(self, function: impl FnOnce(&mut Handles) -> R) -> R {
        function(&mut self.file.handles.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn object(self, handle: u32) -> Result<Arc<Storage>> {
        self.with_handles(|handles| handles.get(handle))
    }
}
