//! External memory of `cudarc`: the cost with another binding.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, DriverError};
use gpu_interop_conformance::{Stop, Verdict, ensure};

use super::Steps;

fn failed(what: &str, error: DriverError) -> Stop {
    Stop::failed(format!("cudarc, {what}: CUDA error {}", error.0 as u32))
}

/// `cudarc` with a reference to the primary context of one device.
pub(crate) struct Cudarc {
    context: Arc<CudaContext>,
}

impl Cudarc {
    /// Opens a device. `cudarc` loads the driver's library itself, and panics if it is missing or lacks a
    /// function.
    pub(crate) fn open(ordinal: usize) -> Verdict<Self> {
        // SAFETY: it loads the driver's library, which is made for being loaded at run time.
        let present = catch_unwind(|| unsafe { cudarc::driver::sys::is_culib_present() });
        if !present.unwrap_or(false) {
            return Err(Stop::skipped("cudarc finds no CUDA driver; it looks for libcuda.so in its own way".into()));
        }
        match catch_unwind(|| CudaContext::new(ordinal)) {
            Ok(Ok(context)) => Ok(Self { context }),
            Ok(Err(error)) => Err(failed("opening the device", error)),
            Err(_) => Err(Stop::skipped("cudarc panicked when it opened the device".into())),
        }
    }

    /// The last word of an import of `size` bytes, copied by the binding's default stream.
    pub(crate) fn last_word(&self, fd: OwnedFd, size: u64) -> Verdict<u32> {
        let size_here = usize::try_from(size)?;
        ensure!(size_here >= 4, "the memory has no word");
        // SAFETY: the size is the allocation's, as the exporter reported it.
        let memory = unsafe { self.context.import_external_memory(File::from(fd), size) };
        let memory = memory.map_err(|error| failed("import", error))?;
        let last = memory.map_range(size_here - 4..size_here).map_err(|error| failed("map", error))?;
        let (stream, mut word) = (self.context.default_stream(), [0_u8; 4]);
        stream.memcpy_dtoh(&last, &mut word).map_err(|error| failed("copy", error))?;
        stream.synchronize().map_err(|error| failed("synchronize", error))?;
        Ok(u32::from_ne_bytes(word))
    }

    /// Imports and maps all of it; dropping it unmaps it and ends the import in one step.
    pub(crate) fn cycle(&self, fd: OwnedFd, size: u64) -> Verdict<Steps> {
        let file = File::from(fd);
        let start = Instant::now();
        // SAFETY: the size is the allocation's, as the exporter reported it.
        let memory =
            unsafe { self.context.import_external_memory(file, size) }.map_err(|error| failed("import", error))?;
        let imported = Instant::now();
        let buffer = memory.map_all().map_err(|error| failed("map", error))?;
        let mapped = Instant::now();
        drop(buffer);
        let dropped = Instant::now();
        // Errors of a drop.
        self.context.check_err().map_err(|error| failed("free", error))?;
        Ok(Steps {
            import: imported - start,
            map: mapped - imported,
            free_and_destroy: None,
            release: dropped - mapped,
        })
    }
}
