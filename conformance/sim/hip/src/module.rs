//! Modules and kernels.

use std::ffi::{c_char, c_uint, c_void};

use gpu_interop_sim_abi::hip::code_object;
use gpu_interop_sim_abi::hip::code_object::Damage;
use gpu_interop_sim_abi::hip::version::Era;
use gpu_interop_sim_device::kernel::{MODULES, Module};
use gpu_interop_sim_device::{code, entries, kernel, work};

use crate::device::need;
use crate::die_because;
use crate::streams::Missing;
use crate::{give, streams};

/// `hipErrorInvalidConfiguration`.
const INVALID_CONFIGURATION: u32 = 9;
/// Maximum shared memory of a block in bytes, and maximum number of its threads.
const MOST_SHARED: u32 = 65536;
const MOST_THREADS: u32 = 1024;

/// Result for an unknown module.
fn missing(module: usize) -> u32 {
    if module == 0 && Era::now() > Era::Early { code::INVALID_HANDLE } else { code::NOT_FOUND }
}

entries! {
    after need;

    fn hipModuleLoadData(module: *mut usize, image: *const c_void) gives module {
        code::reject_if(module.is_null() || image.is_null())?;
        let loaded = Module::complete(code_object::check(image)?)?;
        match (code_object::damage(image), Era::now()) {
            (Some(Damage::NoNames), Era::Seven) => return Err(code::INVALID_IMAGE),
            (Some(Damage::NoNames), _) => die_because("before HIP 7.2 a code object without .strtab is followed into nothing"),
            (Some(Damage::NoSymbols), Era::Early) => return Err(code_object::SHARED_OBJECT_INIT_FAILED),
            _ => {}
        }
        give(module, MODULES.insert(loaded))
    }

    fn hipModuleUnload(module: usize) {
        MODULES.remove(module).map(drop).ok_or_else(|| missing(module))
    }

    fn hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) gives function {
        code::reject_if(function.is_null() || name.is_null())?;
        code::reject_if(*name == 0 && Era::now() > Era::Early)?;
        MODULES.get(module).ok_or_else(|| missing(module))?;
        give(function, work::module_kernel(module, name)?)
    }

    fn hipModuleLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let era = Era::now();
        if function == 0 {
            return Err(if era == Era::Early { code::INVALID_IMAGE } else { code::INVALID_HANDLE });
        }
        if kernel::of(function).is_none() {
            die_because("an invalid kernel is launched");
        }
        let (here, found) = streams::for_work(stream, &Missing::KERNEL)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        if grid.contains(&0) || block.contains(&0) {
            let recorded = found.recording().is_some() && era >= Era::Seven;
            return Err(if recorded { INVALID_CONFIGURATION } else { code::INVALID_VALUE });
        }
        let threads = block.into_iter().try_fold(1_u32, u32::checked_mul).unwrap_or(u32::MAX);
        if threads > MOST_THREADS {
            return Err(if era == Era::Early { INVALID_CONFIGURATION } else { code::INVALID_VALUE });
        }
        let too_wide = |(grid, block): (&u32, &u32)| *grid == u32::MAX || grid.checked_mul(*block).is_none();
        code::reject_if(era > Era::Early && grid.iter().zip(&block).any(too_wide))?;
        if shared_bytes > MOST_SHARED {
            return Err(if era == Era::Early { code::OUT_OF_MEMORY } else { code::INVALID_VALUE });
        }
        if arguments.is_null() && extra.is_null() && era < Era::Six {
            die_because("before HIP 6 a launch follows the arguments, which are NULL");
        }
        work::launch(function, grid, block, here, [arguments, extra])?;
        streams::note_work(here, &found);
        Ok(())
    }
}
