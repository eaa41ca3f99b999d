//! Arguments as the driver takes them.

use std::ffi::{c_uint, c_void};

use gpu_interop_core::{Error, ErrorKind, KernelArg, ModuleImage, Result, WaitCondition};
use smallvec::SmallVec;

use crate::driver::Driver;

/// A byte or word count of this process.
pub(crate) fn count(operation: &'static str, count: u64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::invalid(operation, "the size exceeds the address space").with_context("size", count))
}

/// A surface or texture object, which is a 64-bit number.
pub(crate) fn object(operation: &'static str, object: u64) -> Result<usize> {
    usize::try_from(object)
        .map_err(|_| Error::new(ErrorKind::Driver, operation, "the driver gave an object that is no pointer here"))
        .and_then(|object| Driver::not_null(operation, object))
}

/// `CUstreamWaitValue_flags`.
pub(crate) fn wait_flags(condition: WaitCondition) -> c_uint {
    match condition {
        WaitCondition::GreaterOrEqual => 0,
        WaitCondition::Equal => 1,
        WaitCondition::And => 2,
        WaitCondition::Nor => 3,
    }
}

/// A request whose handle kind the driver has no number for.
pub(crate) fn no_number(operation: &'static str) -> Error {
    Error::unsupported(operation, "CUDA has no handles of this kind")
}

/// A pointer to each argument of a kernel: the driver reads as many bytes there as the kernel declares.
pub(crate) fn kernel_arguments(operation: &'static str, args: &[KernelArg]) -> Result<SmallVec<[*mut c_void; 16]>> {
    args.iter()
        .map(|arg| match arg {
            KernelArg::Ptr(value) => Ok(std::ptr::from_ref(value).cast_mut().cast()),
            KernelArg::U32(value) => Ok(std::ptr::from_ref(value).cast_mut().cast()),
            KernelArg::U64(value) => Ok(std::ptr::from_ref(value).cast_mut().cast()),
            KernelArg::F32(value) => Ok(std::ptr::from_ref(value).cast_mut().cast()),
            _ => Err(Error::unsupported(operation, "CUDA has no kernel arguments of this sort")),
        })
        .collect()
}

/// Where the code of a module begins. PTX has a NUL; compiled images say themselves how long they are.
pub(crate) fn module_data(operation: &'static str, image: ModuleImage<'_>) -> Result<*const c_void> {
    match image {
        ModuleImage::Ptx(text) => Ok(text.as_ptr().cast()),
        ModuleImage::Binary(image) => Ok(image.bytes().as_ptr().cast()),
        _ => Err(Error::unsupported(operation, "CUDA loads PTX, cubins and fat binaries")),
    }
}
