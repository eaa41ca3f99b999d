//! Kernels. They are executed by name: no instruction is.
//!
//! The name of a kernel object is learnt when the runtime queries the object's address (`interpose::hsa`); ROCR's own
//! kernels, which it builds without symbols, are recognised by their arguments. A kernel's arguments are decoded by the
//! layout that its name and their size select. An unknown kernel or layout stops the queue with an error.

mod arguments;
mod blit;
mod launch;
mod layout;
mod names;
mod project;
mod rocr;
mod words;

use self::launch::{Launch, Result};
pub(crate) use self::names::Kernels;
use crate::abi::aql::{Dispatch, KernelDescriptor};
use crate::emulation::Emulation;
use crate::log::enabled;
use crate::queue::{Queue, Stop};

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
