//! A kernel launch, as the kernels see it.

use super::arguments::Arguments;
use crate::abi::aql::Dispatch;
use crate::emulation::Emulation;
use crate::queue::{Queue, Stop};

pub(super) type Result<T> = std::result::Result<T, Stop>;

/// A kernel launch.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(super) emulation: &'static Emulation,
    pub(super) queue: &'a Queue,
    pub(super) gpu: usize,
    pub(super) dispatch: Dispatch,
    /// Size of the arguments according to the kernel's descriptor.
    pub(super) kernarg_size: u32,
}

impl Launch<'_> {
    /// The arguments, of a known size.
    pub(super) fn arguments<const N: usize>(&self) -> Result<Arguments<N>> {
        Ok(Arguments(self.emulation.memory.read(self.gpu, self.dispatch.kernarg)?))
    }

    /// Work items of the launch.
    pub(super) fn items(&self) -> u64 {
        self.dispatch.grid.iter().map(|size| u64::from(*size)).product()
    }

    pub(super) fn describe(&self, name: Option<&str>) {
        let Dispatch { grid, workgroup, kernel, kernarg } = self.dispatch;
        let words: Vec<_> = (0..16)
            .map_while(|word| self.emulation.memory.read_u64(self.gpu, kernarg + word * 8).ok())
            .map(|word| format!("{word:x}"))
            .collect();
        let size = self.kernarg_size;
        crate::log::failure(format_args!(
            "kernel {} at {kernel:#x}, grid {grid:?} by {workgroup:?}, {size} bytes of arguments: {}",
            name.unwrap_or("(no name)"),
            words.join(" "),
        ));
    }
}
