//! Modules and kernels. A code object is validated, and PTX of the same source runs.

use std::ffi::{CStr, c_char, c_uint, c_void};

use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};
use gpu_interop_kernels::KERNELS;
use gpu_interop_sim_abi::hip::code_object;
use gpu_interop_sim_abi::{entries, give};

use crate::code::{INVALID_HANDLE, NOT_FOUND, NOT_SUPPORTED, reject_if};
use crate::context::{call, make};
use crate::cuda::cuda;

/// `true` if code objects contain a kernel: the PTX has more.
fn is_in_code_objects(name: &CStr) -> bool {
    KERNELS.iter().any(|kernel| !kernel.nvidia_only && kernel.name == name)
}

entries! {
    fn hipModuleLoadData(module: *mut CUmodule, image: *const c_void) gives module {
        cuda()?;
        reject_if(module.is_null())?;
        code_object::check(image)?;
        give(module, make!(cuModuleLoadData(gpu_interop_kernels::ptx().as_ptr().cast()))?)
    }

    fn hipModuleUnload(module: CUmodule) {
        reject_if(module.is_null())?;
        call!(cuModuleUnload(module))
    }

    fn hipModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) gives function {
        reject_if(function.is_null() || name.is_null())?;
        if module.is_null() {
            return Err(INVALID_HANDLE);
        }
        if !is_in_code_objects(CStr::from_ptr(name)) {
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
