//! One timeline for Vulkan and the streams of a compute device.

use std::sync::Arc;

use gpu_interop_core::{Device, ErrorKind, Result, Timeline};

use crate::export_semaphore::ExportableSemaphore;
use crate::interop::VulkanInterop;
use crate::semaphore::OwnedSemaphore;

/// Creates a timeline semaphore at `initial` and the [`Timeline`] by which streams of `device` signal it and wait for
/// it. The semaphore is exportable where the Vulkan device exports timelines; elsewhere the host bridges the values.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the Vulkan device has no timeline semaphores; otherwise as for [`Timeline::new`].
pub fn shared_timeline(interop: &VulkanInterop, device: &Device, initial: u64) -> Result<(OwnedSemaphore, Timeline)> {
    match ExportableSemaphore::timeline(interop, initial) {
        Ok(exported) => Ok((exported.semaphore().clone(), Timeline::new(device, Arc::new(exported))?)),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let semaphore = OwnedSemaphore::timeline(interop, initial)?;
            Ok((semaphore.clone(), Timeline::new(device, Arc::new(semaphore))?))
        }
        Err(error) => Err(error),
    }
}
