//! Opened devices.

use std::any::Any;
use std::sync::Arc;

use super::device_state::DeviceInner;
use super::memory::ExportableMemory;
use super::memory::ExternalMemory;
use super::module::Module;
use super::semaphore::ExternalSemaphore;
use super::stream::Stream;
use super::{Event, device_state, validate};
use crate::backend::{Backend, BackendDevice, BackendInfo, RawContext, RawStream};
use crate::bridge::Bridges;
use crate::capability::{Capabilities, Feature};
use crate::error::{Error, ErrorKind, ImportError, Result};
use crate::handle::NvSciSyncAttrList;
use crate::identity::{DeviceIdentity, IdentityMatch};
use crate::import::{MemoryImport, SemaphoreImport};
use crate::kernel::ModuleImage;
use crate::nv_sci::NvSciSyncUse;
use crate::process::ProcessMark;

/// One device of a backend, opened. Cheap to clone; all clones are the same device.
///
/// Objects created from a device keep it open. Objects of two `Device`s cannot be combined, even if both were opened on
/// the same hardware.
#[derive(Debug, Clone)]
pub struct Device {
    pub(super) inner: Arc<DeviceInner>,
}

impl Device {
    /// Opens the device at `ordinal` in the backend's order.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] if there is no such device. Errors of the driver.
    #[doc(alias(
        "cuInit",
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuDevicePrimaryCtxRelease",
        "cuCtxSetCurrent",
        "cuCtxPushCurrent",
        "cuCtxPopCurrent",
        "cudaSetDevice",
        "hipInit",
        "hipDeviceGet",
        "hipGetDevice",
        "hipSetDevice"
    ))]
    pub fn open(backend: &dyn Backend, ordinal: usize) -> Result<Self> {
        let raw = backend.open(ordinal).map_err(|error| error.with_backend(&backend.info().name))?;
        Ok(Self::build(backend.info().clone(), raw, Some(ordinal)))
    }

    /// Opens the device of `backend` that `identity` describes.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`] if no device of the backend matches `identity`. The error lists the available devices.
    #[doc(alias("cuDeviceGetByPCIBusId", "cudaDeviceGetByPCIBusId", "hipDeviceGetByPCIBusId"))]
    pub fn open_matching(backend: &dyn Backend, identity: &DeviceIdentity) -> Result<Self> {
        let devices = backend.devices().map_err(|error| error.with_backend(&backend.info().name))?;
        match devices.iter().position(|device| device.compare(identity) == IdentityMatch::Same) {
            Some(ordinal) => Self::open(backend, ordinal),
            None => Err(devices.iter().fold(
                Error::new(
                    ErrorKind::NoDevice,
                    "Device::open_matching",
                    "no device of the backend matches the exporter's",
                )
                .with_backend(&backend.info().name)
                .with_context("exporter", identity),
                |error, device| error.with_context("present", device),
            )),
        }
    }

    /// Wraps an opened backend device, for layered and custom backends.
    ///
    /// If a `Device` of the same `raw` is open, this returns a clone of it and ignores `info`. Two separate devices
    /// would not track each other's streams, and closing one would cancel the work of both. Dropping the last object of
    /// a device may cancel pending work permanently; open another backend device afterwards.
    #[must_use]
    pub fn from_backend_device(info: BackendInfo, raw: Arc<dyn BackendDevice>) -> Self {
        Self::build(info, raw, None)
    }

    fn build(info: BackendInfo, raw: Arc<dyn BackendDevice>, ordinal: Option<usize>) -> Self {
        let new = || DeviceInner {
            info,
            raw: raw.clone(),
            lifetimes: Arc::default(),
            bridges: Bridges::default(),
            ordinal,
            process: ProcessMark::of_this_process(),
            dropping: None,
        };
        Self { inner: device_state::shared(&raw, new) }
    }

    /// Identity of the device.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        self.inner.raw.identity()
    }

    /// Capabilities of the device.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.inner.raw.capabilities()
    }

    /// Target architecture of compiled images, in the vendor's notation: `gfx90a:sramecc+:xnack-` for an AMD GPU.
    /// `None` if the driver compiles code itself, as CUDA's driver does, or reports no architecture.
    #[must_use]
    pub fn architecture(&self) -> Option<&str> {
        self.inner.raw.architecture()
    }

    /// Backend of the device.
    #[must_use]
    pub fn backend(&self) -> &BackendInfo {
        &self.inner.info
    }

    /// Position of the device in the backend's order, as in [`Device::open`]: CUDA's and HIP's device ordinal. `None`
    /// for a device from [`Device::from_backend_device`] that is not a clone of an opened device.
    #[must_use]
    pub fn ordinal(&self) -> Option<usize> {
        self.inner.ordinal
    }

    /// The driver's context (`CUcontext`), valid while the device is open. On CUDA it is the primary context, which the
    /// CUDA runtime and most libraries use. `None` for backends without contexts.
    #[doc(alias("CUcontext", "cuCtxGetCurrent", "cuCtxGetId"))]
    #[must_use]
    pub fn context(&self) -> Option<RawContext> {
        self.inner.raw.context()
    }

    /// The backend's device, for calls that this crate does not wrap.
    #[must_use]
    pub fn as_raw(&self) -> &Arc<dyn BackendDevice> {
        &self.inner.raw
    }

    /// Imports memory that another API exported (`cuImportExternalMemory`).
    ///
    /// On success the import owns the handle and closes it as soon as the driver no longer needs it.
    ///
    /// # Errors
    /// The error returns the request, with its handle open. [`ErrorKind::Unsupported`], [`ErrorKind::InvalidArgument`]
    /// and [`ErrorKind::DeviceMismatch`] are detected before the driver is called; [`ErrorKind::ImportRejected`] comes
    /// from the driver.
    #[doc(alias(
        "cuImportExternalMemory",
        "cudaImportExternalMemory",
        "hipImportExternalMemory",
        "cuMemImportFromShareableHandle",
        "hipMemImportFromShareableHandle"
    ))]
    pub fn import_memory(&self, request: MemoryImport) -> Result<ExternalMemory, ImportError<MemoryImport>> {
        let valid = || validate::memory_import(&request, self.capabilities(), self.identity());
        let imported = self.inner.check_process("Device::import_memory").and_then(|()| valid()).and_then(|()| {
            // SAFETY: the request was validated, the backend only borrows it, and its builder guarantees the
            // description (`MemoryImport::new`).
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
    /// On success the import owns the handle.
    ///
    /// # Errors
    /// As for [`Device::import_memory`]; the error returns the request.
    #[doc(alias("cuImportExternalSemaphore", "cudaImportExternalSemaphore", "hipImportExternalSemaphore"))]
    pub fn import_semaphore(
        &self,
        request: SemaphoreImport,
    ) -> Result<ExternalSemaphore, ImportError<SemaphoreImport>> {
        let valid = || validate::semaphore_import(&request, self.capabilities(), self.identity());
        let imported = self.inner.check_process("Device::import_semaphore").and_then(|()| valid()).and_then(|()| {
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

    /// Fills an NvSciSync attribute list with this device's requirements (`cuDeviceGetNvSciSyncAttributes`). The
    /// application allocates an object from the list, which the device then signals or waits for. The permissions of
    /// the list must not be set. The application keeps ownership of the list, also after a failure. `uses` must contain
    /// every later use of the object: the driver rejects other signals and waits with [`ErrorKind::Unsupported`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the device lacks NvSciSync, [`ErrorKind::InvalidArgument`] for empty `uses`.
    /// Errors of the driver.
    #[doc(alias("cuDeviceGetNvSciSyncAttributes", "cudaDeviceGetNvSciSyncAttributes"))]
    pub fn fill_nv_sci_sync_attributes(&self, list: NvSciSyncAttrList, uses: NvSciSyncUse) -> Result<()> {
        const OPERATION: &str = "Device::fill_nv_sci_sync_attributes";
        self.inner
            .check_process(OPERATION)
            .and_then(|()| validate::feature(OPERATION, self.capabilities(), Feature::NvSciSyncAttributes))
            .and_then(|()| match NvSciSyncUse::from_bits(uses.bits()) {
                Some(uses) if !uses.is_empty() => Ok(()),
                _ => Err(Error::invalid(OPERATION, "the uses must be signal, wait or both, without unknown bits")),
            })
            // SAFETY: the contract of `NvSciSyncAttrList::from_raw`: the list is valid, and no other code uses it
            // during this one call.
            .and_then(|()| unsafe { self.inner.raw.fill_nv_sci_sync_attributes(list, uses) })
            .map_err(|error| self.inner.decorate(error))
    }

    /// Allocates device memory that another API can import (the reverse direction).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a size of 0, [`ErrorKind::Unsupported`] where the device cannot export,
    /// [`ErrorKind::OutOfMemory`].
    #[doc(alias(
        "cuMemGetAllocationGranularity",
        "hipMemGetAllocationGranularity",
        "cuMemCreate",
        "hipMemCreate",
        "cuMemAddressReserve",
        "hipMemAddressReserve",
        "cuMemMap",
        "hipMemMap",
        "cuMemSetAccess",
        "hipMemSetAccess"
    ))]
    pub fn allocate_exportable(&self, size: u64) -> Result<ExportableMemory> {
        const OPERATION: &str = "Device::allocate_exportable";
        let feature = || validate::feature(OPERATION, self.capabilities(), Feature::ExportableMemory);
        let created = self.inner.check_process(OPERATION).and_then(|()| feature()).and_then(|()| {
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

    /// Creates a stream (`cuStreamCreate`). The stream does not synchronise with the driver's default stream.
    ///
    /// # Errors
    /// The driver's error.
    #[doc(alias(
        "cuStreamCreate",
        "cudaStreamCreateWithFlags",
        "hipStreamCreateWithFlags",
        "hipExtStreamCreateWithCUMask"
    ))]
    pub fn create_stream(&self) -> Result<Stream> {
        self.inner.check_process("Device::create_stream")?;
        self.inner.lifetimes.collect(&*self.inner.raw);
        let raw = self.inner.raw.create_stream().map_err(|error| self.inner.decorate(error))?;
        Ok(Stream::new(self.inner.clone(), raw, None))
    }

    /// Wraps a stream that the application created through its own driver bindings. `owner` owns this stream: dropping
    /// the returned [`Stream`] does not destroy it. For cudarc's `Arc<CudaStream>` see `SharedStream` of
    /// `gpu_interop::cudarc`.
    ///
    /// The owner is kept until the returned stream has been dropped and all its work has completed. The next
    /// [`Device::collect`], or the next method that collects implicitly, then drops the owner on the calling thread. A
    /// device that is closed with work that never completes leaks the owner. The owner must not contain this device or
    /// an object of it: if the stream were dropped with work pending, neither would be freed.
    ///
    /// # Safety
    /// * `raw` is a stream of this device, or a number of a default stream. It is live as long as `owner`.
    /// * The stream does not capture a graph while the returned stream, or an object used on it, is used or dropped.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for 2, the per-thread default stream (`CU_STREAM_PER_THREAD`,
    /// `hipStreamPerThread`), because it is another stream on each thread; for 0, 1 and 2 on the host backend, which has
    /// no default stream; and for a stream of another context (CUDA only, `cuStreamGetCtx`). An error drops `owner`.
    pub unsafe fn stream_from_raw_with_owner(
        &self,
        raw: RawStream,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Stream> {
        const INSTEAD: &str = "create a stream, or pass another one of the application";
        // SAFETY: the caller's promise.
        unsafe { self.check_stream("Device::stream_from_raw", raw, INSTEAD) }?;
        Ok(Stream::new(self.inner.clone(), raw, Some(owner)))
    }

    /// Checks the verifiable part of the contract of [`Device::stream_from_raw_with_owner`]. Adapters whose callers
    /// pass numbers call it before each use of the stream. `instead` names the adapter's valid streams, for the error
    /// message.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for the per-thread default stream, for default
    /// streams (0, 1 and 2) on the host backend, which has none, for a stream of another context (CUDA only,
    /// `cuStreamGetCtx`), and for a stream that captures a graph. Errors of the driver (`cuStreamGetCaptureInfo`).
    ///
    /// # Safety
    /// `raw` is a stream of this device, or one of the numbers above, and live during the call.
    #[doc(alias(
        "cuStreamGetCtx",
        "cuStreamGetCaptureInfo",
        "cuStreamIsCapturing",
        "cudaStreamGetCaptureInfo",
        "cudaStreamIsCapturing",
        "hipStreamGetCaptureInfo",
        "hipStreamIsCapturing"
    ))]
    pub unsafe fn check_raw_stream(&self, operation: &'static str, raw: RawStream, instead: &str) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.check_stream(operation, raw, instead) }?;
        // SAFETY: the caller's promise; the numbers of default streams are streams of the driver.
        if unsafe { self.inner.raw.is_capturing(raw) }.map_err(|error| self.inner.decorate(error))? {
            let message =
                "a graph is being captured on the stream, and it would repeat this call; end the capture first";
            return Err(self.invalid_stream(operation, raw, message, instead));
        }
        Ok(())
    }

    /// Rejects default streams that are not usable, and streams of another context.
    ///
    /// # Safety
    /// As [`check_raw_stream`](Self::check_raw_stream).
    unsafe fn check_stream(&self, operation: &'static str, raw: RawStream, instead: &str) -> Result<()> {
        const PER_THREAD: usize = 2;
        const FOREIGN: &str = "the stream is of another context, and this library uses the device's primary one \
            (cuDevicePrimaryCtxRetain, which the CUDA runtime uses as well), where objects of the device are";
        // SAFETY: the caller's promise, and not a number of a default stream.
        let is_foreign = || unsafe { self.inner.raw.is_foreign(raw) }.map_err(|error| self.inner.decorate(error));
        let message = if raw.get() <= PER_THREAD && self.backend().name == "host" {
            "the host backend has no default stream"
        } else if raw.get() == PER_THREAD {
            "2 is the per-thread default stream, which is another stream on every thread, and work must be ordered on all"
        } else if raw.get() > PER_THREAD && is_foreign()? {
            FOREIGN
        } else {
            return Ok(());
        };
        Err(self.invalid_stream(operation, raw, message, instead))
    }

    fn invalid_stream(&self, operation: &'static str, raw: RawStream, message: &str, instead: &str) -> Error {
        let error = Error::invalid(operation, format!("{message}; {instead}"));
        self.inner.decorate(error.with_context("stream", raw.get()))
    }

    /// As [`Device::stream_from_raw_with_owner`], for a stream without an owner: one of another language, or the
    /// driver's default stream.
    ///
    /// # Safety
    /// As [`Device::stream_from_raw_with_owner`]. In addition, `raw` stays live until the returned stream has been
    /// dropped, its enqueued work has completed, and [`Device::collect`] has then been called.
    ///
    /// # Errors
    /// As [`Device::stream_from_raw_with_owner`].
    pub unsafe fn stream_from_raw(&self, raw: RawStream) -> Result<Stream> {
        // SAFETY: the caller's promise.
        unsafe { self.stream_from_raw_with_owner(raw, Arc::new(())) }
    }

    /// Frees objects that were dropped while work used them, if this work has completed. Called implicitly when an
    /// object is dropped and when a stream is created or synchronised. No effect in a forked process.
    pub fn collect(&self) {
        if !self.inner.is_forked() {
            self.inner.lifetimes.collect(&*self.inner.raw);
        }
    }

    /// Creates an event.
    ///
    /// # Errors
    /// The driver's error.
    #[doc(alias("cuEventCreate", "cudaEventCreateWithFlags", "hipEventCreateWithFlags"))]
    pub fn create_event(&self) -> Result<Event> {
        self.inner.check_process("Device::create_event")?;
        let raw = self.inner.raw.create_event().map_err(|error| self.inner.decorate(error))?;
        Ok(Event::new(self.inner.clone(), raw))
    }

    /// Loads a module of kernels.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the device does not support kernels or this kind of image. Errors of the
    /// driver.
    #[doc(alias("cuModuleLoadData", "cudaLibraryLoadData", "hipModuleLoadData"))]
    pub fn load_module(&self, image: ModuleImage<'_>) -> Result<Module> {
        const OPERATION: &str = "Device::load_module";
        let loaded = self
            .inner
            .check_process(OPERATION)
            .and_then(|()| validate::feature(OPERATION, self.capabilities(), Feature::Kernels))
            .and_then(|()| self.inner.raw.load_module(image));
        match loaded {
            Ok(raw) => Ok(Module::new(self.inner.clone(), raw)),
            Err(error) => Err(self.inner.decorate(error)),
        }
    }
}
