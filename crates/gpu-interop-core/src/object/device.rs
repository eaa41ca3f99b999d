//! An opened device.

use std::any::Any;
use std::sync::Arc;

use super::exportable::ExportableMemory;
use super::lifetime::Lifetimes;
use super::memory::ExternalMemory;
use super::module::Module;
use super::semaphore::ExternalSemaphore;
use super::stream::Stream;
use super::{Event, host_function, same_gpu, validate};
use crate::backend::{Backend, BackendDevice, BackendInfo, RawStream};
use crate::bridge::Bridges;
use crate::capability::{Capabilities, Feature};
use crate::error::{Error, ErrorKind, ImportError, Result};
use crate::handle::NvSciSyncAttrList;
use crate::identity::{DeviceIdentity, IdentityMatch};
use crate::import::{MemoryImport, SemaphoreImport};
use crate::kernel::ModuleImage;
use crate::nv_sci::NvSciSyncUse;

/// What every object of a device shares.
#[derive(Debug)]
pub(super) struct DeviceInner {
    pub(super) info: BackendInfo,
    pub(super) raw: Arc<dyn BackendDevice>,
    pub(super) lifetimes: Arc<Lifetimes>,
    pub(super) bridges: Bridges,
    /// The process that opened it.
    process: u32,
}

impl DeviceInner {
    /// Whether this process was forked from the one that opened the device. Nothing of it can be used here, and what
    /// another thread had locked stays so.
    pub(super) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Fails in a process that was forked.
    ///
    /// # Errors
    /// [`ErrorKind::System`].
    pub(super) fn check_process(&self, operation: &'static str) -> Result<()> {
        if !self.is_forked() {
            return Ok(());
        }
        let message = "this process was forked after the device was opened, and no driver goes on in a forked process; open \
                       the device after the fork, or start another program";
        Err(self.decorate(Error::new(ErrorKind::System, operation, message)))
    }

    /// Adds to a backend's error where it happened.
    #[cold]
    pub(super) fn decorate(&self, error: Error) -> Error {
        error.with_backend(&self.info.name).with_device(self.raw.identity())
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        if self.is_forked() {
            // Its threads are not here, and its driver must not be called.
            std::mem::forget((
                self.raw.clone(),
                std::mem::take(&mut self.lifetimes),
                std::mem::take(&mut self.bridges),
            ));
            return;
        }
        if !host_function::running() {
            self.lifetimes.drain(&self.raw, &self.bridges);
            return;
        }
        // Draining calls the driver and waits, maybe for this very thread.
        let (lifetimes, bridges) = (std::mem::take(&mut self.lifetimes), std::mem::take(&mut self.bridges));
        let raw = self.raw.clone();
        let closer = std::thread::Builder::new().name("gpu-interop close".into());
        if let Err(error) = closer.spawn(move || lifetimes.drain(&raw, &bridges)) {
            tracing::error!(%error, "a device was closed inside a host function, and no thread could be started to free its objects; they are leaked");
        }
    }
}

/// One device of a backend, opened. Cheap to clone; all clones are the same device.
///
/// Everything created from a device keeps it open. Objects of two `Device`s do not mix, even if both were opened
/// on the same hardware.
#[derive(Debug, Clone)]
pub struct Device {
    pub(super) inner: Arc<DeviceInner>,
}

impl Device {
    /// Opens the device at `ordinal` in the backend's order.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] if there is no such device; else what the driver answers.
    pub fn open(backend: &dyn Backend, ordinal: usize) -> Result<Self> {
        let raw = backend.open(ordinal).map_err(|error| error.with_backend(&backend.info().name))?;
        Ok(Self::from_backend_device(backend.info().clone(), raw))
    }

    /// Opens the device of `backend` that is the one `identity` describes.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] if no device is proven to be the same; the error lists the devices there are.
    pub fn open_matching(backend: &dyn Backend, identity: &DeviceIdentity) -> Result<Self> {
        let devices = backend.devices().map_err(|error| error.with_backend(&backend.info().name))?;
        match devices.iter().position(|device| device.compare(identity) == IdentityMatch::Same) {
            Some(ordinal) => Self::open(backend, ordinal),
            None => Err(devices.iter().fold(
                Error::new(
                    ErrorKind::NoDevice,
                    "Device::open_matching",
                    "the backend has no device that is the exporter's",
                )
                .with_backend(&backend.info().name)
                .with_context("exporter", identity),
                |error, device| error.with_context("present", device),
            )),
        }
    }

    /// Wraps an already opened backend device, for backends that are layered or made by hand. It should be the only
    /// `Device` made from `raw`: closing one cancels what is pending on all of them.
    #[must_use]
    pub fn from_backend_device(info: BackendInfo, raw: Arc<dyn BackendDevice>) -> Self {
        let lifetimes = Arc::default();
        if raw.frees_wait_for_streams() {
            same_gpu::join(&info.name, &raw, &lifetimes);
        }
        let process = std::process::id();
        Self { inner: Arc::new(DeviceInner { info, raw, lifetimes, bridges: Bridges::default(), process }) }
    }

    /// Which device this is.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        self.inner.raw.identity()
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.inner.raw.capabilities()
    }

    /// The architecture that compiled images must be built for, as its vendor writes it: `gfx90a:sramecc+:xnack-` for an
    /// AMD GPU, to choose a code object by. `None` if the driver translates code for its devices itself, as CUDA's does,
    /// or does not say.
    #[must_use]
    pub fn architecture(&self) -> Option<&str> {
        self.inner.raw.architecture()
    }

    /// The backend it belongs to.
    #[must_use]
    pub fn backend(&self) -> &BackendInfo {
        &self.inner.info
    }

    /// The backend's device, for calls that this crate does not wrap.
    #[must_use]
    pub fn as_raw(&self) -> &Arc<dyn BackendDevice> {
        &self.inner.raw
    }

    /// Imports memory that another API exported (`cuImportExternalMemory`).
    ///
    /// On success the handle belongs to the import and is closed as soon as the driver no longer needs it.
    ///
    /// # Errors
    /// The request comes back in the error, its handle open and usable. [`ErrorKind::Unsupported`] and
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::DeviceMismatch`] are found before the driver is called;
    /// [`ErrorKind::ImportRejected`] is the driver's refusal.
    pub fn import_memory(&self, request: MemoryImport) -> Result<ExternalMemory, ImportError<MemoryImport>> {
        let imported = validate::memory_import(&request, self.capabilities(), self.identity()).and_then(|()| {
            // SAFETY: the request was validated, the backend only borrows it, and who built it promised that it is true
            // (`MemoryImport::new`).
            unsafe { self.inner.raw.import_memory(&request) }
        });
        match imported {
            Ok(raw) => Ok(ExternalMemory::new(self.inner.clone(), raw, &request)),
            Err(error) => {
                let error = error
                    .with_context("handle", request.handle.kind())
                    .with_object_name(request.handle.as_win32())
                    .with_context("size", request.size);
                Err(ImportError::new(self.inner.decorate(error), request))
            }
        }
    }

    /// Imports a semaphore that another API exported (`cuImportExternalSemaphore`).
    ///
    /// On success the handle belongs to the import.
    ///
    /// # Errors
    /// As for [`Device::import_memory`]; the request comes back in the error.
    pub fn import_semaphore(
        &self,
        request: SemaphoreImport,
    ) -> Result<ExternalSemaphore, ImportError<SemaphoreImport>> {
        let imported = validate::semaphore_import(&request, self.capabilities(), self.identity()).and_then(|()| {
            // SAFETY: as in `import_memory` (`SemaphoreImport::new`).
            unsafe { self.inner.raw.import_semaphore(&request) }
        });
        match imported {
            Ok(raw) => {
                Ok(ExternalSemaphore::new(self.inner.clone(), raw, request.handle.kind(), request.handle.owner()))
            }
            Err(error) => {
                let handle = &request.handle;
                let error = error.with_context("handle", handle.kind()).with_object_name(handle.as_win32());
                Err(ImportError::new(self.inner.decorate(error), request))
            }
        }
    }

    /// Fills an NvSciSync attribute list with what this device needs to signal or wait for an object made from it
    /// (`cuDeviceGetNvSciSyncAttributes`). The list must not have its permissions set yet. It stays the application's, also if
    /// this fails. Name every use that streams will make of the object: the driver rejects other signals and waits with
    /// [`ErrorKind::Unsupported`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the device knows no NvSciSync, [`ErrorKind::InvalidArgument`] for no use at all;
    /// else what the driver answers.
    pub fn fill_nv_sci_sync_attributes(&self, list: NvSciSyncAttrList, uses: NvSciSyncUse) -> Result<()> {
        const OPERATION: &str = "Device::fill_nv_sci_sync_attributes";
        validate::feature(OPERATION, self.capabilities(), Feature::NvSciSyncAttributes)
            .and_then(|()| match NvSciSyncUse::from_bits(uses.bits()) {
                Some(uses) if !uses.is_empty() => Ok(()),
                _ => Err(Error::invalid(OPERATION, "the device must signal, wait, or both; name nothing else")),
            })
            // SAFETY: the contract of `NvSciSyncAttrList::from_raw`: valid, and used by nothing else during this one call.
            .and_then(|()| unsafe { self.inner.raw.fill_nv_sci_sync_attributes(list, uses) })
            .map_err(|error| self.inner.decorate(error))
    }

    /// Allocates device memory that another API can import: the reverse direction.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a size of 0, [`ErrorKind::Unsupported`] where the device cannot export,
    /// [`ErrorKind::OutOfMemory`].
    pub fn allocate_exportable(&self, size: u64) -> Result<ExportableMemory> {
        const OPERATION: &str = "Device::allocate_exportable";
        let created = validate::feature(OPERATION, self.capabilities(), Feature::ExportableMemory).and_then(|()| {
            if size == 0 {
                return Err(Error::invalid(OPERATION, "the size is 0"));
            }
            self.inner.raw.create_exportable(size).map_err(|error| error.with_context("size", size))
        });
        match created {
            Ok(allocation) => Ok(ExportableMemory::new(self.inner.clone(), allocation)),
            Err(error) => Err(self.inner.decorate(error)),
        }
    }

    /// Creates a stream (`cuStreamCreate`), which does not synchronise with the driver's default stream.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn create_stream(&self) -> Result<Stream> {
        self.inner.lifetimes.collect(&*self.inner.raw);
        let raw = self.inner.raw.create_stream().map_err(|error| self.inner.decorate(error))?;
        Ok(Stream::new(self.inner.clone(), raw, None))
    }

    /// Uses a stream that the application created through its own driver bindings, and keeps `owner`, which keeps that
    /// stream: cudarc's `Arc<CudaStream>`, say, with `CudaStream::cu_stream` for `raw`. Dropping the returned [`Stream`] does
    /// not destroy it.
    ///
    /// The owner is let go at the first call of [`Device::collect`], or of what collects by itself, after the returned stream
    /// has been dropped and all that was enqueued has run; by whichever thread makes that call. A device that is closed while
    /// work is pending for ever keeps it for good. The owner must not hold this device or an object of it: dropped with work
    /// pending, neither would ever be freed.
    ///
    /// # Safety
    /// `raw` is a stream of this very device, live as long as `owner`. It does not capture a graph while the returned stream
    /// or an object that was used on it is used or dropped.
    #[must_use]
    pub unsafe fn stream_from_raw_with_owner(&self, raw: RawStream, owner: Arc<dyn Any + Send + Sync>) -> Stream {
        Stream::new(self.inner.clone(), raw, Some(owner))
    }

    /// As [`Device::stream_from_raw_with_owner`], for a stream that nothing here can keep: one of another language, or the
    /// driver's default stream.
    ///
    /// # Safety
    /// As there; and the stream stays live until the returned one has been dropped, the work that was enqueued before has
    /// run, and [`Device::collect`] has been called after that.
    #[must_use]
    pub unsafe fn stream_from_raw(&self, raw: RawStream) -> Stream {
        Stream::new(self.inner.clone(), raw, Some(Arc::new(())))
    }

    /// Frees what was dropped while work still used it and that work has run since. Also happens by itself, whenever
    /// an object is dropped, a stream created or synchronised.
    pub fn collect(&self) {
        self.inner.lifetimes.collect(&*self.inner.raw);
    }

    /// Creates an event.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn create_event(&self) -> Result<Event> {
        let raw = self.inner.raw.create_event().map_err(|error| self.inner.decorate(error))?;
        Ok(Event::new(self.inner.clone(), raw))
    }

    /// Loads a module of kernels.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the device runs no kernels or not this kind of image; else what the driver
    /// answers.
    pub fn load_module(&self, image: ModuleImage<'_>) -> Result<Module> {
        let loaded = validate::feature("Device::load_module", self.capabilities(), Feature::Kernels)
            .and_then(|()| self.inner.raw.load_module(image));
        match loaded {
            Ok(raw) => Ok(Module::new(self.inner.clone(), raw)),
            Err(error) => Err(self.inner.decorate(error)),
        }
    }
}
