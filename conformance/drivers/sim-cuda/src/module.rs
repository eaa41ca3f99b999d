//! Modules and kernels.

use std::ffi::{CStr, c_char, c_uint, c_void};

use gpu_interop_sim::entries;
use gpu_interop_sim::kernel::{self, MODULES};

use crate::copy::stream_of;
use crate::{code, context, give};

/// The most threads of a block.
const THREADS: u32 = 1024;

entries! {
    fn cuModuleLoadData(module: *mut usize, image: *const c_void) gives module {
        context::need()?;
        if module.is_null() || image.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // A compiled image would end at its first NUL.
        let text = CStr::from_ptr(image.cast::<c_char>()).to_bytes();
        if text.starts_with(b"\x7fELF") {
            return Err(code::INVALID_IMAGE);
        }
        if !text.windows(8).any(|part| part == b".version") {
            return Err(code::INVALID_PTX);
        }
        give(module, MODULES.insert(()))
    }

    fn cuModuleUnload(module: usize) {
        context::need()?;
        MODULES.remove(module).map(drop).ok_or(code::INVALID_HANDLE)
    }

    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) gives function {
        context::need()?;
        MODULES.get(module).ok_or(code::INVALID_HANDLE)?;
        if name.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(function, kernel::find(CStr::from_ptr(name)).ok_or(code::NOT_FOUND)?)
    }

    fn cuLaunchKernel(
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
        let stream = stream_of(stream)?;
        let kernel = kernel::of(function).ok_or(code::INVALID_HANDLE)?;
        let threads = block_x.checked_mul(block_y).and_then(|threads| threads.checked_mul(block_z));
        if [grid_x, grid_y, grid_z].contains(&0) || !threads.is_some_and(|threads| (1..=THREADS).contains(&threads)) {
            return Err(code::INVALID_VALUE);
        }
        if arguments.is_null() || !extra.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let run = kernel.launch(arguments);
        stream.enqueue(move || {
            run();
            Ok(())
        });
        Ok(())
    }
}
