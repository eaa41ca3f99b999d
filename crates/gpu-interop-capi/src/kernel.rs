//! Modules and kernels.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use gpu_interop::{BinaryImage, DevicePtr, Error, KernelArg, LaunchConfig, ModuleImage, Result};

use crate::buffer::LinearMemory;
use crate::buffer::gpi_range;
use crate::by_value;
use crate::call::call;
use crate::handle::{gpi_device, gpi_kernel, gpi_module, gpi_stream};
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;

/// Module image: kernels built into the backend. Only the host backend has any. `data` is null.
pub const GPI_MODULE_BUILTIN: i32 = 0;
/// Module image: PTX source for CUDA, which ends with NUL inside `size`.
pub const GPI_MODULE_PTX: i32 = 1;
/// Module image: a cubin or fat binary for CUDA, a code object for HIP.
pub const GPI_MODULE_BINARY: i32 = 2;

/// Argument: a range of device memory; the kernel gets its address, and the memory stays mapped until the kernel has
/// completed.
pub const GPI_ARG_RANGE: i32 = 0;
/// Argument: a device address in `bits`, whose memory the caller keeps valid until the kernel has completed.
pub const GPI_ARG_ADDRESS: i32 = 1;
/// Argument: an unsigned 8-bit integer in `bits`; also `bool`.
pub const GPI_ARG_U8: i32 = 2;
/// Argument: an unsigned 16-bit integer in `bits`.
pub const GPI_ARG_U16: i32 = 3;
/// Argument: an unsigned 32-bit integer in `bits`.
pub const GPI_ARG_U32: i32 = 4;
/// Argument: an unsigned 64-bit integer in `bits`; also a surface or texture object.
pub const GPI_ARG_U64: i32 = 5;
/// Argument: a signed 8-bit integer in `bits`.
pub const GPI_ARG_I8: i32 = 6;
/// Argument: a signed 16-bit integer in `bits`.
pub const GPI_ARG_I16: i32 = 7;
/// Argument: a signed 32-bit integer in `bits`.
pub const GPI_ARG_I32: i32 = 8;
/// Argument: a signed 64-bit integer in `bits`.
pub const GPI_ARG_I64: i32 = 9;
/// Argument: the bits of a 32-bit float in `bits`.
pub const GPI_ARG_F32: i32 = 10;
/// Argument: the bits of a 64-bit float in `bits`.
pub const GPI_ARG_F64: i32 = 11;
/// Argument: a structure or array, `value_size` bytes at `value`, which launching copies. It has the layout of the kernel's
/// parameter.
pub const GPI_ARG_VALUE: i32 = 12;

/// Grid, block and dynamic shared memory of a launch.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_launch_config {
    /// Blocks in each dimension, at least 1.
    pub grid: [u32; 3],
    /// Threads per block in each dimension, at least 1.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared_memory: u32,
}

/// A kernel argument, passed by value. The functions `gpi_arg_*` of this header make them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_kernel_arg {
    /// A `GPI_ARG_*`.
    pub kind: i32,
    /// Alignment of the structure of `GPI_ARG_VALUE`: 1, 2, 4, 8 or 16 bytes.
    pub value_alignment: u32,
    /// The value; the low bits of a narrower type.
    pub bits: u64,
    /// The range of `GPI_ARG_RANGE`.
    pub range: gpi_range,
    /// The structure of `GPI_ARG_VALUE`, borrowed for the launch.
    pub value: *const c_void,
    /// Its size in bytes: a multiple of the alignment, at most 64 times.
    pub value_size: usize,
}

/// Loads a module of kernels, and writes it to `*module`, owned by the caller. The image is copied.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` where the device supports no kernels, or not this kind of image;
/// `GPI_ERROR_INVALID_ARGUMENT` for PTX without NUL; otherwise the driver's error.
///
/// # Safety
/// `data` points to `size` bytes. A binary image is complete and well-formed: drivers trust its headers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_module_load(
    device: gpi_device,
    kind: i32,
    data: *const c_void,
    size: usize,
    module: *mut gpi_module,
) -> gpi_status {
    call("gpi_module_load", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "module", module) }?;
        let device = object::get(operation, device)?;
        // SAFETY: the caller's promise.
        let bytes: &[u8] = unsafe { pointer::array(operation, "data", data.cast(), size) }?;
        let image = match kind {
            GPI_MODULE_BUILTIN => ModuleImage::Builtin,
            GPI_MODULE_PTX => ModuleImage::Ptx(CStr::from_bytes_until_nul(bytes).map_err(|_| {
                Error::invalid(operation, "the PTX does not end with NUL; include its NUL in the size")
            })?),
            GPI_MODULE_BINARY if bytes.is_empty() => return Err(Error::invalid(operation, "the image is empty")),
            // SAFETY: the caller's promise.
            GPI_MODULE_BINARY => ModuleImage::Binary(unsafe { BinaryImage::new(bytes) }),
            _ => {
                let error = Error::invalid(operation, "unknown kind of image; pass a GPI_MODULE_*");
                return Err(error.with_context("kind", kind));
            }
        };
        out.set(object::add(device.load_module(image)?));
        Ok(())
    })
}

/// Looks up a kernel by name, and writes it to `*kernel`, owned by the caller. It keeps its module loaded.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if the module has no such kernel; otherwise the driver's error.
///
/// # Safety
/// `name` is null or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_module_get_kernel(
    module: gpi_module,
    name: *const c_char,
    kernel: *mut gpi_kernel,
) -> gpi_status {
    call("gpi_module_get_kernel", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "kernel", kernel) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { pointer::text(operation, "name", name) }?;
        out.set(object::add(object::get(operation, module)?.kernel(name)?));
        Ok(())
    })
}

/// Writes the driver's kernel (`CUfunction`), valid while the kernel lives, to `*raw`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_kernel_get_raw(kernel: gpi_kernel, raw: *mut u64) -> gpi_status {
    call("gpi_kernel_get_raw", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "raw", raw) }?;
        out.set(object::get(operation, kernel)?.as_raw().get() as u64);
        Ok(())
    })
}

/// Converts an argument. A narrower type has the low bits of `bits`.
///
/// # Safety
/// A structure lives during `'a`.
#[allow(clippy::cast_possible_truncation, reason = "the low bits are the value")]
unsafe fn argument<'a>(
    operation: &'static str,
    argument: &gpi_kernel_arg,
    memory: Option<&'a Arc<LinearMemory>>,
) -> Result<KernelArg<'a>> {
    let bits = argument.bits;
    Ok(match (argument.kind, memory) {
        (GPI_ARG_RANGE, Some(memory)) => KernelArg::Buffer(argument.range.slice(operation, memory)?),
        (GPI_ARG_ADDRESS, _) => KernelArg::Ptr(DevicePtr::new(bits)),
        (GPI_ARG_U8, _) => KernelArg::U8(bits as u8),
        (GPI_ARG_U16, _) => KernelArg::U16(bits as u16),
        (GPI_ARG_U32, _) => KernelArg::U32(bits as u32),
        (GPI_ARG_U64, _) => KernelArg::U64(bits),
        (GPI_ARG_I8, _) => KernelArg::I8(bits as i8),
        (GPI_ARG_I16, _) => KernelArg::I16(bits as i16),
        (GPI_ARG_I32, _) => KernelArg::I32(bits as i32),
        (GPI_ARG_I64, _) => KernelArg::I64(bits as i64),
        (GPI_ARG_F32, _) => KernelArg::F32(f32::from_bits(bits as u32)),
        (GPI_ARG_F64, _) => KernelArg::F64(f64::from_bits(bits)),
        (GPI_ARG_VALUE, _) => {
            let alignment = usize::try_from(argument.value_alignment).unwrap_or(0);
            // SAFETY: the caller's promise.
            unsafe { by_value::argument(operation, argument.value.cast(), argument.value_size, alignment) }?
        }
        (kind, _) => {
            let error = Error::invalid(operation, "unknown kind of argument; pass a GPI_ARG_*");
            return Err(error.with_context("kind", kind));
        }
    })
}

/// Enqueues a kernel with `count` arguments.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a kernel or memory of another device, or a launch without threads; otherwise the
/// driver's error.
///
/// # Safety
/// Number, types and layouts of the arguments match the kernel's parameters, structures are live, and the kernel accesses only
/// memory that is valid until it has completed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_launch(
    stream: gpi_stream,
    kernel: gpi_kernel,
    config: *const gpi_launch_config,
    args: *const gpi_kernel_arg,
    count: usize,
) -> gpi_status {
    call("gpi_stream_launch", |operation| {
        // SAFETY: the caller's promise.
        let (config, args) =
            unsafe { (pointer::read(operation, "config", config)?, pointer::array(operation, "args", args, count)?) };
        let (stream, kernel) = (object::get(operation, stream)?, object::get(operation, kernel)?);
        let memories = args.iter().map(|arg| match arg.kind {
            GPI_ARG_RANGE => arg.range.memory(operation).map(Some),
            _ => Ok(None),
        });
        let memories = memories.collect::<Result<Vec<_>>>()?;
        // SAFETY: the caller's promise.
        let args = args.iter().zip(&memories).map(|(arg, memory)| unsafe { argument(operation, arg, memory.as_ref()) });
        let args = args.collect::<Result<Vec<_>>>()?;
        let config = LaunchConfig::new(config.grid, config.block).with_shared_mem_bytes(config.shared_memory);
        // SAFETY: the caller's promise.
        unsafe { stream.launch(&kernel, &config, &args) }
    })
}

/// Destroys the kernel's handle.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_kernel_destroy(kernel: gpi_kernel) -> gpi_status {
    call("gpi_kernel_destroy", |operation| object::remove(operation, kernel).map(drop))
}

/// Destroys the module's handle. It is unloaded with its last kernel, after pending launches.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_module_destroy(module: gpi_module) -> gpi_status {
    call("gpi_module_destroy", |operation| object::remove(operation, module).map(drop))
}
