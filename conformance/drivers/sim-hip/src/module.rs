//! Modules and kernels.

use std::ffi::{c_char, c_uint, c_void};

use gpu_interop_sim::kernel::MODULES;
use gpu_interop_sim::{code, entries, work};
use gpu_interop_stand_in::hip::code_object;

use crate::device::need;
use crate::give;

entries! {
    fn hipModuleLoadData(module: *mut usize, image: *const c_void) gives module {
        need()?;
        if module.is_null() {
            return Err(code::INVALID_VALUE);
        }
        code_object::check(image)?;
        give(module, MODULES.insert(()))
    }

    fn hipModuleUnload(module: usize) {
        need()?;
        MODULES.remove(module).map(drop).ok_or(code::INVALID_HANDLE)
    }

    fn hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) gives function {
        need()?;
        give(function, work::module_kernel(module, name)?)
    }

    fn hipModuleLaunchKernel(
        function: usize,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        _shared_bytes: c_uint,
        stream: usize,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        need()?;
        work::launch(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], stream, [arguments, extra])
    }
}
