//! Kernels. They are executed by name: no instruction is.
//!
//! The name of a kernel object is learnt when the runtime queries the object's address (`interpose`); ROCR's own
//! kernels, which it builds without symbols, are recognised by their arguments. A kernel's arguments are decoded by the
//! layout that its name and their size select. An unknown kernel or layout stops the queue with an error.

mod blit;
mod project;
pub(crate) mod shader;
mod words;

use std::collections::HashMap;
use std::sync::Mutex;

use crate::abi::aql::{Dispatch, KernelDescriptor};
use crate::emulation::Emulation;
use crate::lock;
use crate::queue::{Queue, Stop};
use crate::report::{enabled, say};

/// Executes a dispatch.
pub(crate) fn run(emulation: &'static Emulation, queue: &Queue, dispatch: &Dispatch) -> Result<()> {
    for (point, stop) in [("packet-hang", Stop::Hang), ("reset", Stop::Reset)] {
        if emulation.faults.at(point).is_some() {
            return Err(stop);
        }
    }
    if emulation.faults.at("page-fault").is_some() {
        return Err(Stop::PageFault(crate::memory::PageFault { gpu: queue.gpu, address: 0, read_only: false }));
    }
    let descriptor = emulation.memory.read::<{ size_of::<KernelDescriptor>() }>(queue.gpu, dispatch.kernel)?;
    let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = descriptor;
    let kernarg_size = u32::from_le_bytes([a, b, c, d]);
    let launch = Launch { emulation, queue, gpu: queue.gpu, dispatch: *dispatch, kernarg_size };
    let name = emulation.kernels.name(dispatch.kernel);
    let name = name.as_deref().map(|name| name.strip_suffix(".kd").unwrap_or(name));
    if enabled(2) {
        launch.describe(name);
    }
    let executed = match name {
        Some(name) => {
            emulation.counters.add("kernels", name);
            blit::run(&launch, name)? || project::run(&launch, name)?
        }
        None => blit::run_unnamed(&launch)?,
    };
    if executed {
        return Ok(());
    }
    let name = name.unwrap_or("(no name)");
    emulation.counters.add("unknown_kernels", &format!("{name}, {kernarg_size} bytes of arguments"));
    launch.describe(Some(name));
    Err(Stop::Invalid(format!("unknown kernel {name} with {kernarg_size} bytes of arguments")))
}

type Result<T> = std::result::Result<T, Stop>;

/// A kernel launch.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    emulation: &'static Emulation,
    queue: &'a Queue,
    gpu: usize,
    dispatch: Dispatch,
    /// Size of the arguments according to the kernel's descriptor.
    kernarg_size: u32,
}

impl Launch<'_> {
    /// The arguments, of a known size.
    fn arguments<const N: usize>(&self) -> Result<Arguments<N>> {
        Ok(Arguments(self.emulation.memory.read(self.gpu, self.dispatch.kernarg)?))
    }

    /// Work items of the launch.
    fn items(&self) -> u64 {
        self.dispatch.grid.iter().map(|size| u64::from(*size)).product()
    }

    fn describe(&self, name: Option<&str>) {
        let Dispatch { grid, workgroup, kernel, kernarg } = self.dispatch;
        let words: Vec<_> = (0..16)
            .map_while(|word| self.emulation.memory.read_u64(self.gpu, kernarg + word * 8).ok())
            .map(|word| format!("{word:x}"))
            .collect();
        let size = self.kernarg_size;
        crate::report::failure(format_args!(
            "kernel {} at {kernel:#x}, grid {grid:?} by {workgroup:?}, {size} bytes of arguments: {}",
            name.unwrap_or("(no name)"),
            words.join(" "),
        ));
    }
}

/// The first `N` bytes of a kernel's arguments.
#[derive(Debug)]
struct Arguments<const N: usize>([u8; N]);

impl<const N: usize> Arguments<N> {
    fn bytes<const M: usize>(&self, offset: usize) -> [u8; M] {
        // An offset out of range is an error in a layout below, detected by its first launch.
        self.0.get(offset..offset + M).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; M])
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.bytes(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.bytes(offset))
    }
}

/// Sizes of the arguments that compilers append to a kernel's own: none, or the hidden ones of code object versions 4
/// and 5.
const HIDDEN: [u32; 3] = [0, 56, 256];

/// `true` if a kernel whose descriptor states `size` bytes has own arguments of one of these sizes.
fn has_explicit(size: u32, explicit: &[u32]) -> bool {
    let whole = |own: u32| own.next_multiple_of(8);
    explicit.iter().any(|own| size == *own || HIDDEN.iter().any(|hidden| size == whole(*own) + hidden))
}

/// Those of a process, by the objects' addresses.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<HashMap<u64, String>>);

impl Kernels {
    /// Records a name. A later module may have its kernel at the address of an earlier one: the last name counts.
    pub(crate) fn learn(&self, object: u64, name: String) {
        say!(1, "kernel object {object:#x} is {name}");
        lock(&self.0).insert(object, name);
    }

    fn name(&self, object: u64) -> Option<String> {
        lock(&self.0).get(&object).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes in the descriptors of the runtimes 5.2.3, 5.7.1, 6.4.3 and 7.2.4.
    #[test]
    fn the_runtimes_sizes_are_recognised() {
        for (size, explicit) in [(120, 64), (320, 64), (296, 40), (40, 40), (136, 80), (336, 80), (44, 44)] {
            assert!(has_explicit(size, &[12, explicit]), "{size}");
        }
        for (size, explicit) in [(120, 40), (41, 40), (296, 64), (64, 40)] {
            assert!(!has_explicit(size, &[explicit]), "{size}");
        }
    }
}
