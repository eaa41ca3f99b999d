//! Kernels, which are executed by name; their instructions are not.
//!
//! The name of a kernel object is learnt when the runtime queries the object's address (`interpose::hsa`); ROCR's own
//! kernels, which it builds without symbols, are recognised by their arguments. A kernel's arguments are decoded by the
//! layout that its name and their size select. An unknown kernel or layout stops the queue with an error.

mod arguments;
mod blit;
mod layout;
mod project;
mod rocr;
mod words;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use self::arguments::Arguments;
use crate::abi::aql::{Dispatch, KernelDescriptor};
use crate::emulation::Emulation;
use crate::log::{enabled, say};
use crate::queue::{Queue, Stop};

type Result<T> = std::result::Result<T, Stop>;

/// Names of kernel objects.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<HashMap<u64, String>>);

impl Kernels {
    /// Records a name. A later module may have its kernel at the address of an earlier one: the last name counts.
    pub(crate) fn learn(&self, object: u64, name: String) {
        say!(1, "kernel object {object:#x} is {name}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(object, name);
    }

    fn name(&self, object: u64) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&object).cloned()
    }
}

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
        None => rocr::run(&launch)?,
    };
    if executed {
        return Ok(());
    }
    let name = name.unwrap_or("(no name)");
    emulation.counters.add("unknown_kernels", &format!("{name}, {kernarg_size} bytes of arguments"));
    launch.describe(Some(name));
    Err(Stop::Invalid(format!("unknown kernel {name} with {kernarg_size} bytes of arguments")))
}

impl<'a> Launch<'a> {
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
        crate::log::failure(format_args!(
            "kernel {} at {kernel:#x}, grid {grid:?} by {workgroup:?}, {size} bytes of arguments: {}",
            name.unwrap_or("(no name)"),
            words.join(" "),
        ));
    }
}
