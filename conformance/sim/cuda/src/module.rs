//! Modules and kernels.

use std::ffi::{CStr, c_char, c_uint, c_void};

use gpu_interop_sim_device::kernel::{MODULES, Module};
use gpu_interop_sim_device::{entries, ptx, work};

use crate::{capture, code, context, give};

entries! {
    after context::need;

    fn cuModuleLoadData(module: *mut usize, image: *const c_void) gives module {
        code::reject_if(module.is_null() || image.is_null())?;
        context::drain();
        // A compiled image would end at its first NUL.
        let text = CStr::from_ptr(image.cast::<c_char>()).to_bytes();
        if text.starts_with(b"\x7fELF") {
            return Err(code::INVALID_IMAGE);
        }
        if !text.windows(8).any(|part| part == b".version") {
            return Err(code::INVALID_PTX);
        }
        give(module, MODULES.insert(Module::new(ptx::kernels(&String::from_utf8_lossy(text)))))
    }

    fn cuModuleUnload(module: usize) {
        capture::allow()?;
        context::drain();
        MODULES.remove(module).map(drop).ok_or(code::INVALID_HANDLE)
    }

    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) gives function {
        give(function, work::module_kernel(module, name)?)
    }

    fn cuLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, _shared_bytes: c_uint, stream: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        work::launch(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], stream, [arguments, extra])
    }
}
