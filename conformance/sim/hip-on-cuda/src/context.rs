//! CUDA contexts, which HIP does not have: a call makes its device's context current, and restores the previous one.

use std::ffi::c_int;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::CUcontext;
use gpu_interop_sim_abi::code::INVALID_DEVICE;
use gpu_interop_sim_abi::hip::device;

use crate::code::check;
use crate::cuda::{Cuda, Functions, cuda};

/// A device's context is current on this thread while this lives.
#[derive(Debug)]
pub(crate) struct Current {
    cuda: &'static Cuda,
    pushed: bool,
}

/// Makes the thread's current device current in CUDA.
pub(crate) fn enter() -> Result<Current, u32> {
    enter_device(device::current())
}

/// Makes a device current in CUDA.
pub(crate) fn enter_device(device: c_int) -> Result<Current, u32> {
    let cuda = cuda()?;
    let context = cuda.context(device)?;
    let mut current = ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    check(unsafe { (cuda.functions.cuCtxGetCurrent)(&raw mut current) })?;
    let pushed = current != context;
    if pushed {
        // SAFETY: the context is retained and therefore live.
        check(unsafe { (cuda.functions.cuCtxPushCurrent_v2)(context) })?;
    }
    Ok(Current { cuda, pushed })
}

impl Deref for Current {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.cuda.functions
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: pops what `enter_device` pushed on this thread: this never leaves the call that created it.
            let _ = unsafe { (self.cuda.functions.cuCtxPopCurrent_v2)(&raw mut popped) };
        }
    }
}

impl Cuda {
    /// The primary context of a device, retained once and never released, so that objects that a caller leaks live as
    /// long as with HIP.
    fn context(&self, device: c_int) -> Result<CUcontext, u32> {
        let place = usize::try_from(device).ok().and_then(|device| self.devices.get(device));
        let (device, kept) = place.ok_or(INVALID_DEVICE)?;
        let known = kept.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        check(unsafe { (self.functions.cuDevicePrimaryCtxRetain)(&raw mut context, *device) })?;
        if kept.compare_exchange(ptr::null_mut(), context, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread retained the same context first. SAFETY: undoes the call above.
            let _ = unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(*device) };
        }
        Ok(context)
    }
}

/// Calls a CUDA function with the thread's device current. Expands inside an unsafe block.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let cuda = $crate::context::enter()?;
        $crate::code::check((cuda.$function)($($argument),*))
    }};
}
pub(crate) use call;

/// As [`call`], for functions that write their result to their first argument.
macro_rules! make {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let mut made = ::std::default::Default::default();
        $crate::context::call!($function(&raw mut made $(, $argument)*)).map(|()| made)
    }};
}
pub(crate) use make;
