//! Host memory that Vulkan has mapped, as the source of a device's copy.

use gpu_interop::vulkan::OwnedBuffer;
use gpu_interop::{BufferSlice, Stream};
use gpu_interop_conformance::{Stop, Verdict, ensure};

/// Copies the start of a host-visible Vulkan buffer to device memory, from Vulkan's mapping, and blocks
/// until the copy has completed. Vulkan must not write the buffer meanwhile.
pub(crate) fn copy_from_staging(stream: &Stream, target: BufferSlice<'_>, staging: &OwnedBuffer) -> Verdict {
    let Some(source) = staging.mapped_ptr() else {
        return Err(Stop::failed("the staging buffer is not host-visible".into()));
    };
    ensure!(target.size() <= staging.size(), "the staging buffer is smaller than the frame");
    // SAFETY: mapped as long as the borrowed buffer lives, and at least this long; the copy has run, or never will,
    // when the synchronisation returns.
    let enqueued = unsafe { stream.write_async(target, source.as_ptr()) };
    stream.synchronize()?;
    Ok(enqueued?)
}
