//! Imported objects, which a device signals and waits for.

use gpu_interop_core::handle::NvSciFence;
use gpu_interop_core::{Error, ExternalSemaphore, NvSciSyncUse, Result, SignalParams, Stream, WaitParams};

use super::fence::Fence;
use super::object::SyncObject;
use super::users::User;

/// Synchronisation of NvSciBuf memory by a signal or wait. It applies to all such memory that the driver has imported
/// in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemSync {
    /// Makes memory coherent between the GPU and all other users. Always correct.
    #[default]
    Synchronize,
    /// Omits the synchronisation (`CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC` and the flag for waits). Only
    /// for buffers whose [`needs_memsync`](gpu_interop_core::NvSciBufGpu::needs_memsync) is `Some(false)`.
    Skip,
}

/// An object imported by a device. The object lives as long as the driver's import.
#[derive(Debug)]
pub struct ImportedSync {
    semaphore: ExternalSemaphore,
    device: User,
    object: SyncObject,
}

impl ImportedSync {
    pub(crate) fn new(semaphore: ExternalSemaphore, device: User, object: SyncObject) -> Self {
        Self { semaphore, device, object }
    }

    /// The imported object.
    #[must_use]
    pub fn object(&self) -> &SyncObject {
        &self.object
    }

    /// The device's semaphore.
    #[must_use]
    pub fn semaphore(&self) -> &ExternalSemaphore {
        &self.semaphore
    }

    /// Enqueues a signal after all earlier work of the stream and immediately fills `fence` with its point
    /// (`cuSignalExternalSemaphoresAsync`). The previous content of the fence is cleared, even on failure.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a fence of another module, a
    /// stream of another device, and if no attribute list of this device requested signals;
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) in a graph; otherwise the driver's error.
    pub fn signal(&self, stream: &Stream, fence: &mut Fence, memory: MemSync) -> Result<()> {
        const OPERATION: &str = "ImportedSync::signal";
        fence.fill(OPERATION, &self.object, |raw| {
            self.object.need(OPERATION, self.device, NvSciSyncUse::SIGNAL)?;
            // SAFETY: the fence is borrowed mutably until this returns, and all copies of the address are gone then:
            // the signal and its parameters are temporaries here. Graphs reject it.
            let lent = unsafe { NvSciFence::from_raw(raw.cast()) };
            let params = SignalParams::NvSciSync { fence: lent, skip_memsync: memory == MemSync::Skip };
            stream.signal(&[self.semaphore.signal_with(params)])
        })
    }

    /// Enqueues a wait for a fence of this object, before all later work of the stream
    /// (`cuWaitExternalSemaphoresAsync`). The signal must have been enqueued before, or the fence must have been
    /// [set](Fence::set).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a cleared fence or one of
    /// another object, a stream of another device, and if no attribute list of this device requested waits;
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) in a graph; otherwise the driver's error.
    pub fn wait(&self, stream: &Stream, fence: &Fence, memory: MemSync) -> Result<()> {
        const OPERATION: &str = "ImportedSync::wait";
        self.object.need(OPERATION, self.device, NvSciSyncUse::WAIT)?;
        match fence.object() {
            None => return Err(Error::invalid(OPERATION, "the fence is cleared; enqueue the signal first")),
            Some(object) if *object != self.object => {
                return Err(Error::invalid(OPERATION, "the fence is another object's"));
            }
            Some(_) => {}
        }
        // SAFETY: the fence is borrowed until this returns, and all copies of the address are gone then: the wait and
        // its parameters are temporaries here, and a wait only reads.
        let lent = unsafe { fence.lend() };
        let params = WaitParams::NvSciSync { fence: lent, skip_memsync: memory == MemSync::Skip };
        stream.wait(&[self.semaphore.wait_with(params)])
    }

    /// Ends the import and returns the driver's error, if any. Pending signals and waits delay the end.
    ///
    /// # Errors
    /// The driver's error (`cuDestroyExternalSemaphore`); the import is consumed in any case.
    pub fn close(self) -> Result<()> {
        self.semaphore.close()
    }
}
