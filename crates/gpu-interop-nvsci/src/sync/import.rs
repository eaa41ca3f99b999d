//! Objects that a device signals and waits for.

use gpu_interop_core::handle::NvSciFence;
use gpu_interop_core::{
    Device, Error, ExternalSemaphore, ImportError, NvSciSyncUse, Result, SemaphoreImport, SignalParams, Stream,
    WaitParams,
};

use super::fence::Fence;
use super::object::SyncObject;
use super::users::User;

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
    device: User,
    object: SyncObject,
}

impl SyncObject {
    /// Imports it (`cuImportExternalSemaphore`), to be signalled and waited for with fences, as an attribute list of this
    /// device asked.
    ///
    /// # Errors
    /// Those of [`Device::import_semaphore`].
    pub fn import(&self, device: &Device) -> Result<ImportedSync, ImportError<SemaphoreImport>> {
        let semaphore = device.import_semaphore(self.import_request())?;
        Ok(ImportedSync { semaphore, device: User::device(device), object: self.clone() })
    }
}

impl ImportedSync {
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
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a fence of another module, a
    /// stream of another device, and if no attribute list of this device asked to signal;
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) in a graph; else what the driver answers.
    pub fn signal(&self, stream: &Stream, fence: &mut Fence, memory: MemSync) -> Result<()> {
        const OPERATION: &str = "ImportedSync::signal";
        fence.fill(OPERATION, &self.object, |raw| {
            self.object.need(OPERATION, self.device, NvSciSyncUse::SIGNAL)?;
            // SAFETY: the fence is borrowed mutably until this returns, and all copies of this are gone then: the signal and its
            // parameters are temporaries here. Graphs refuse it.
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
    /// object's, a stream of another device, and if no attribute list of this device asked to wait;
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) in a graph; else what the driver answers.
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
        // SAFETY: the fence is borrowed until this returns, and all copies of this are gone then: the wait and its parameters are
        // temporaries here, and a wait only reads.
        let lent = unsafe { fence.lend() };
        let params = WaitParams::NvSciSync { fence: lent, skip_memsync: memory == MemSync::Skip };
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
