//! Objects that a device signals and waits for.

use gpu_interop_core::handle::NvSciFence;
use gpu_interop_core::{Error, ExternalSemaphore, Result, SignalParams, Stream, WaitParams};

use super::fence::Fence;
use super::object::SyncObject;

/// What a signal or wait does about NvSciBuf memory that the driver has imported, all of it, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemSync {
    /// It makes memory coherent between the GPU and everybody else. Right in any case.
    #[default]
    Synchronize,
    /// It leaves memory alone (`CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC` and its twin for waits). For buffers
    /// whose [`needs_memsync`](gpu_interop_core::NvSciBufGpu::needs_memsync) is `Some(false)`.
    Skip,
}

/// An object that a device has imported. The object lives as long as the driver's import.
#[derive(Debug)]
pub struct ImportedSync {
    semaphore: ExternalSemaphore,
    object: SyncObject,
}

impl ImportedSync {
    pub(crate) fn new(semaphore: ExternalSemaphore, object: SyncObject) -> Self {
        Self { semaphore, object }
    }

    /// What was imported.
    #[must_use]
    pub fn object(&self) -> &SyncObject {
        &self.object
    }

    /// The device's import.
    #[must_use]
    pub fn semaphore(&self) -> &ExternalSemaphore {
        &self.semaphore
    }

    /// Signals it once everything enqueued before has run, and fills `fence` with the point that this is, at once
    /// (`cuSignalExternalSemaphoresAsync`). What the fence held before is cleared, also if this fails.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a fence of another module or a
    /// stream of another device, [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) in a graph; else what
    /// the driver answers.
    pub fn signal(&self, stream: &Stream, fence: &mut Fence, memory: MemSync) -> Result<()> {
        fence.fill("ImportedSync::signal", &self.object, |raw| {
            // SAFETY: the fence is valid until the signal is enqueued, which fills it; graphs refuse it.
            let lent = unsafe { NvSciFence::from_raw(raw.cast()) };
            let params = SignalParams::NvSciSync { fence: lent, skip_memsync: memory == MemSync::Skip };
            stream.signal(&[self.semaphore.signal_with(params)])
        })
    }

    /// Makes everything enqueued from here on wait for a fence of this object (`cuWaitExternalSemaphoresAsync`). The signal
    /// must have been enqueued before, or the fence have been [set](Fence::set).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a fence that is cleared or another
    /// object's, or a stream of another device, [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) in a
    /// graph; else what the driver answers.
    pub fn wait(&self, stream: &Stream, fence: &Fence, memory: MemSync) -> Result<()> {
        const OPERATION: &str = "ImportedSync::wait";
        match fence.object() {
            None => return Err(Error::invalid(OPERATION, "the fence is cleared; enqueue the signal first")),
            Some(object) if *object != self.object => {
                return Err(Error::invalid(OPERATION, "the fence is another object's"));
            }
            Some(_) => {}
        }
        let params = WaitParams::NvSciSync { fence: fence.lend(), skip_memsync: memory == MemSync::Skip };
        stream.wait(&[self.semaphore.wait_with(params)])
    }

    /// Ends the import, and says if that failed. If signals or waits are pending, it ends once they have run.
    ///
    /// # Errors
    /// What the driver answers (`cuDestroyExternalSemaphore`); the import is gone either way.
    pub fn close(self) -> Result<()> {
        self.semaphore.close()
    }
}
