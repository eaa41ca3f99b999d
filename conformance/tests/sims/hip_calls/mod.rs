//! HIP's functions called as by a C program, on sim-hip and on hip-on-cuda: calls that the backend avoids are tested
//! here. The expected results per version are in `hip_calls_compared`.
//!
//! Each test runs in a separate process, with one library. `HIP_LIBRARY=... sims hip-calls NAME` is such a process,
//! also on a machine with a GPU.

mod device;
mod memory;
mod module;
mod pinned;
mod semaphore;
mod table;

use std::process::ExitCode;

use libtest_mimic::{Failed, Trial};

use crate::run::{GPU_INTEROP_SIM_CUDA, GPU_INTEROP_SIM_HIP, HIP_ON_CUDA, check};
use gpu_interop_test_support::{build, this_program};
use table::Hip;

/// The first argument of the process that makes the calls.
pub(crate) const COMMAND: &str = "hip-calls";
const VARIABLE: &str = "HIP_LIBRARY";

/// A test: its name, its calls, and their environment.
type Calls = (&'static str, fn(&Hip), &'static [(&'static str, &'static str)]);

const CALLS: &[Calls] = &[
    ("imports_are_checked_and_close_no_descriptor", memory::imports, &[]),
    ("imports_that_cuda_refuses_close_no_descriptor", memory::refused_imports, &[]),
    ("semaphores_are_refused_or_do_nothing", semaphore::nothing, &[]),
    ("pinned_memory_is_seen_by_both_sides", pinned::both_sides, &[]),
    ("signal_memory_is_one_word", pinned::signal_memory, &[]),
    ("either_function_frees_what_is_there", pinned::freeing, &[]),
    ("code_objects_are_looked_at", module::code_objects, &[]),
    ("kernels_of_a_code_object_run", module::kernels, &[]),
    ("each_thread_has_its_own_device", device::threads, &[("GPU_INTEROP_SIM_DEVICES", "2")]),
    ("a_device_has_hips_identity", device::identity, &[("GPU_INTEROP_SIM_PCI", "1:c3:0")]),
    ("attributes_are_known_or_refused", device::attributes, &[]),
    ("hip_5_knows_fewer_attributes", device::attributes, &[("GPU_INTEROP_SIM_HIP_LAYOUT", "5")]),
    ("what_linux_lacks_is_not_exported", device::absent, &[]),
    ("without_a_device_everything_says_so", device::none, &[("GPU_INTEROP_SIM_DEVICES", "0")]),
];

/// Tests of the library on CUDA only: it has none of the runtime's defects, and returns where the runtime crashes.
const CALLS_ON_CUDA: &[Calls] = &[
    ("mappings_are_checked_and_freed_once", memory::mappings, &[]),
    ("mappings_at_one_address_are_one", memory::one_entry, &[]),
    ("hip_5_maps_an_import_and_no_range", memory::ignored_ranges, &[("GPU_INTEROP_SIM_HIP_LAYOUT", "5")]),
    (
        "imports_that_cuda_leaves_open_are_closed",
        memory::refused_imports,
        &[("GPU_INTEROP_SIM_FAIL", "cuImportExternalMemory:*:1"), ("GPU_INTEROP_SIM_FD_ON_FAILURE", "open")],
    ),
    ("each_sort_of_memory_is_freed_by_its_function", pinned::freeing_on_cuda, &[]),
    ("contexts_of_cuda_are_what_they_were", device::contexts, &[]),
    (
        "without_a_driver_there_is_no_device",
        device::none,
        &[("GPU_INTEROP_SIM_CUDA_LIBRARY", "/nonexistent/libcuda.so.1")],
    ),
];

pub(crate) fn tests() -> Vec<Trial> {
    let on_cuda = CALLS.iter().chain(CALLS_ON_CUDA).map(|calls| {
        Trial::test(format!("hip_on_cuda_calls_{}", calls.0), move || {
            run(calls, HIP_ON_CUDA, Some(GPU_INTEROP_SIM_CUDA))
        })
    });
    let sim = CALLS
        .iter()
        .map(|calls| Trial::test(format!("hip_calls_{}", calls.0), move || run(calls, GPU_INTEROP_SIM_HIP, None)));
    on_cuda.chain(sim).collect()
}

fn run((name, _, variables): &Calls, library: &str, cuda: Option<&str>) -> Result<(), Failed> {
    let mut command = this_program()?;
    command.args([COMMAND, name]).env(VARIABLE, build(library)?);
    if let Some(cuda) = cuda {
        command.env("GPU_INTEROP_SIM_CUDA_LIBRARY", build(cuda)?);
    }
    let output = command.envs(variables.iter().copied()).output()?;
    check(output.status.success(), format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// The process that makes the calls.
pub(crate) fn main() -> ExitCode {
    let name = std::env::args().nth(2).unwrap_or_default();
    let known = CALLS.iter().chain(CALLS_ON_CUDA).find(|(known, _, _)| *known == name);
    let (_, calls, _) = known.unwrap_or_else(|| panic!("no calls are named {name}"));
    calls(&Hip::open(&std::env::var_os(VARIABLE).expect("the library's file")));
    ExitCode::SUCCESS
}
