//! Waiting with the CPU.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_core::{Error, NvSciSyncUse, Result};
use gpu_interop_driver::DriverFunction;

use super::fence::Fence;
use super::module::Module;
use super::users::User;
use crate::error::{check, not_null};
use crate::sys::Handle;
use crate::sys::sync::MAX_TIMEOUT_US;

/// What the CPU needs to wait for fences, for one at a time (`NvSciSyncCpuWaitContext`).
#[derive(Debug)]
pub struct CpuWaitContext {
    raw: Handle,
    module: Arc<Module>,
}

impl Drop for CpuWaitContext {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; nobody waits with it.
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

    /// Blocks until a fence is reached (`NvSciSyncFenceWait`), `timeout` at most. A cleared fence is reached.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) when the time has run out: the wait may be repeated;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a fence of another module, and
    /// if no attribute list of the fence's object asked that the CPU waits; else what the library answers.
    pub fn wait(&mut self, fence: &Fence, timeout: Duration) -> Result<()> {
        const NAME: &str = "NvSciSyncFenceWait";
        if !Arc::ptr_eq(&self.module, fence.module()) {
            return Err(Error::invalid(NAME, "the fence belongs to another module than what waits for it"));
        }
        if let Some(object) = fence.object() {
            object.need(NAME, User::Cpu, NvSciSyncUse::WAIT)?;
        }
        let function = self.module.functions().fence_wait;
        // SAFETY: the fence is valid for the call, and nobody else uses the context meanwhile.
        let result = unsafe { function.traced(NAME, (fence.as_raw(), self.raw, microseconds(timeout))) };
        check(NAME, result)
    }
}

/// Rounded up: a wait never gives up early. More than the library takes is cut: 292 years.
fn microseconds(timeout: Duration) -> i64 {
    // The greatest stands for no limit, as -1 does.
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
