//! Modules and kernels.

use std::ffi::{c_char, c_uint, c_void};
use std::slice;

use gpu_interop_sim::kernel::MODULES;
use gpu_interop_sim::{entries, work};

use crate::device::{architecture, need};
use crate::{code, give};

/// A code object's header of 64 bytes: the machine AMD GPU, and the processor in the flags' low byte.
const HEADER: usize = 64;
const MACHINE: [u8; 2] = 224_u16.to_le_bytes();

/// Processors in code objects: an architecture, or a family of them, and the number.
const PROCESSORS: &[(&str, u8)] = &[
    ("gfx906", 0x2f),
    ("gfx908", 0x30),
    ("gfx90a", 0x3f),
    ("gfx942", 0x4c),
    ("gfx1030", 0x36),
    ("gfx1100", 0x41),
    ("gfx1201", 0x4e),
];

/// Whether a code object of this processor runs on the device.
fn runs_here(processor: u8) -> bool {
    let architecture = architecture();
    let name = architecture.split(':').next().unwrap_or_default();
    PROCESSORS.contains(&(name, processor))
}

entries! {
    fn hipModuleLoadData(module: *mut usize, image: *const c_void) gives module {
        need()?;
        if module.is_null() || image.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // Only as far as it is known to be a code object: what is none may be shorter than the header.
        if slice::from_raw_parts(image.cast::<u8>(), 4) != b"\x7fELF" {
            return Err(code::INVALID_IMAGE);
        }
        let header = slice::from_raw_parts(image.cast::<u8>(), HEADER);
        if header[18..20] != MACHINE {
            return Err(code::INVALID_IMAGE);
        }
        if !runs_here(header[48]) {
            return Err(code::NO_BINARY_FOR_GPU);
        }
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
