//! Modules and kernels. A code object is validated, and PTX of the same source runs.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::sync::Mutex;

use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};
use gpu_interop_sim_abi::hip::code_object;
use gpu_interop_sim_abi::{entries, give, lock};

use crate::code::{INVALID_HANDLE, NOT_FOUND, NOT_SUPPORTED, reject_if};
use crate::context::{call, make};
use crate::cuda::cuda;
use crate::ptx;

/// The kernels of each module's code object, by the module's handle: the PTX may have more.
static KERNELS: Mutex<BTreeMap<usize, Vec<CString>>> = Mutex::new(BTreeMap::new());

/// `true` if the code object of a module contains a kernel.
fn contains(module: CUmodule, name: &CStr) -> bool {
    lock(&KERNELS).get(&module.addr()).is_some_and(|kernels| kernels.iter().any(|kernel| **kernel == *name))
}

entries! {
    fn hipModuleLoadData(module: *mut CUmodule, image: *const c_void) gives module {
        cuda()?;
        reject_if(module.is_null())?;
        let kernels = code_object::check(image)?;
        let loaded: CUmodule = make!(cuModuleLoadData(ptx::of(&kernels)?.as_ptr().cast()))?;
        lock(&KERNELS).insert(loaded.addr(), kernels);
        give(module, loaded)
    }

    fn hipModuleUnload(module: CUmodule) {
        reject_if(module.is_null())?;
        lock(&KERNELS).remove(&module.addr());
        call!(cuModuleUnload(module))
    }

    fn hipModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) gives function {
        reject_if(function.is_null() || name.is_null())?;
        if module.is_null() {
            return Err(INVALID_HANDLE);
        }
        if !contains(module, CStr::from_ptr(name)) {
            return Err(NOT_FOUND);
        }
        give(function, make!(cuModuleGetFunction(module, name))?)
    }

    fn hipModuleLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: CUstream, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        reject_if(function.is_null() || (arguments.is_null() && extra.is_null()))?;
        // The two APIs mark the end of such arguments with different numbers.
        if !extra.is_null() {
            return Err(NOT_SUPPORTED);
        }
        call!(cuLaunchKernel(
            function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, extra,
        ))
    }
}
