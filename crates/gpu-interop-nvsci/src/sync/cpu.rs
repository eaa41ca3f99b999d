//! Waits on the CPU.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_core::{Error, NvSciSyncUse, Result};
use gpu_interop_driver::DriverFunction;

use super::fence::Fence;
use super::users::User;
use crate::error::{check, not_null};
use crate::sync::Module;
use crate::sys::Handle;
use crate::sys::sync::MAX_TIMEOUT_US;

/// A context for waits of the CPU, one fence at a time (`NvSciSyncCpuWaitContext`).
#[derive(Debug)]
pub struct CpuWaitContext {
    raw: Handle,
    module: Arc<Module>,
}

impl Drop for CpuWaitContext {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; no wait uses it any more.
        unsafe { (self.module.functions().cpu_wait_context_free)(self.raw) };
    }
}

impl CpuWaitContext {
    pub(crate) fn allocate(module: Arc<Module>) -> Result<Self> {
        const NAME: &str = "NvSciSyncCpuWaitContextAlloc";
        let mut raw = 0;
        // SAFETY: the module is live; the pointer is valid for the call.
        check(NAME, unsafe { module.functions().cpu_wait_context_alloc.traced(NAME, (module.raw, &raw mut raw)) })?;
        Ok(Self { raw: not_null(NAME, raw)?.addr().get(), module })
    }

    /// Blocks until a fence is signalled (`NvSciSyncFenceWait`), at most for `timeout`. A cleared fence counts as
    /// signalled.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`; the wait may be repeated.
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a fence of another module, and
    /// if no attribute list of the fence's object requested waits by the CPU; otherwise the library's error.
    pub fn wait(&mut self, fence: &Fence, timeout: Duration) -> Result<()> {
        const NAME: &str = "NvSciSyncFenceWait";
        if !Arc::ptr_eq(&self.module, fence.module()) {
            return Err(Error::invalid(NAME, "the fence belongs to another module than the wait context"));
        }
        if let Some(object) = fence.object() {
            object.need(NAME, User::Cpu, NvSciSyncUse::WAIT)?;
        }
        let function = self.module.functions().fence_wait;
        // SAFETY: the fence is valid for the call, and `&mut self` excludes other uses of the context.
        let result = unsafe { function.traced(NAME, (fence.as_raw(), self.raw, microseconds(timeout))) };
        check(NAME, result)
    }
}

/// Rounded up, so that a wait never ends early. Limited to the library's maximum of 292 years.
fn microseconds(timeout: Duration) -> i64 {
    // The maximum means no limit, as -1 does.
    i64::try_from(timeout.as_nanos().div_ceil(1000)).unwrap_or(MAX_TIMEOUT_US).min(MAX_TIMEOUT_US - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_never_end_early_and_none_is_infinite() {
        assert_eq!(microseconds(Duration::ZERO), 0);
        assert_eq!(microseconds(Duration::from_nanos(1)), 1);
        assert_eq!(microseconds(Duration::from_millis(7)), 7000);
        assert_eq!(microseconds(Duration::MAX), i64::MAX / 1000 - 1);
    }
}
