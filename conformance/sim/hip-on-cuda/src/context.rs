//! Contexts of CUDA, which HIP has no notion of: a call makes its device's current, and what was current before again.

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

/// Makes the thread's current device so for CUDA.
pub(crate) fn enter() -> Result<Current, u32> {
    enter_device(device::current())
}

/// Makes a device current for CUDA.
pub(crate) fn enter_device(device: c_int) -> Result<Current, u32> {
    let cuda = cuda()?;
    let context = cuda.context(device)?;
    let mut current = ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    check(unsafe { (cuda.functions.cuCtxGetCurrent)(&raw mut current) })?;
    let pushed = current != context;
    if pushed {
        // SAFETY: the context is retained, so live.
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
            // SAFETY: pops what `enter_device` pushed on this same thread: this never leaves the call that made it.
            let _ = unsafe { (self.cuda.functions.cuCtxPopCurrent_v2)(&raw mut popped) };
        }
    }
}

impl Cuda {
    /// The primary context of a device, retained once, and never released: as long as it is, what a caller leaves behind is
    /// as alive as it would be with HIP.
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
            // Another thread was first, with the same context.
            // SAFETY: undoes the call above.
            let _ = unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(*device) };
        }
        Ok(context)
    }
}

/// Calls a function of CUDA's with the thread's device current. In an unsafe block.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let cuda = $crate::context::enter()?;
        $crate::code::check((cuda.$function)($($argument),*))
    }};
}
pub(crate) use call;

/// As [`call`], for functions that write what they make to their first argument.
macro_rules! make {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let mut made = ::std::default::Default::default();
        $crate::context::call!($function(&raw mut made $(, $argument)*)).map(|()| made)
    }};
}
pub(crate) use make;
