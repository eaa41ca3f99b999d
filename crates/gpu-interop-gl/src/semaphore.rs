//! Imported semaphores.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};

use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{
    Error, ErrorKind, ImportError, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, SemaphorePayload,
};
use smallvec::SmallVec;

use crate::buffer::ImportedBuffer;
use crate::error;
use crate::functions::{Functions, need};
use crate::interop::GlInterop;
#[cfg(unix)]
use crate::interop::lend;
use crate::interop::lend_win32;
use crate::layout::TextureLayout;
use crate::memory::{delete, supported};
use crate::sys::{self, SemaphoreFunction};
use crate::texture::ImportedTexture;

/// Buffers and textures released with a signal or acquired with a wait. Only these are guaranteed to be visible to the
/// other side.
#[derive(Debug, Clone, Copy, Default)]
pub struct Barriers<'a> {
    /// Buffers.
    pub buffers: &'a [&'a ImportedBuffer],
    /// Textures, each with the layout that the other API left it in (wait) or expects (signal).
    pub textures: &'a [(&'a ImportedTexture, TextureLayout)],
}

impl<'a> Barriers<'a> {
    /// No buffers or textures: execution order only.
    pub const NONE: Barriers<'static> = Barriers { buffers: &[], textures: &[] };

    /// Barriers for buffers.
    #[must_use]
    pub fn buffers(buffers: &'a [&'a ImportedBuffer]) -> Self {
        Self { buffers, textures: &[] }
    }

    /// Barriers for textures.
    #[must_use]
    pub fn textures(textures: &'a [(&'a ImportedTexture, TextureLayout)]) -> Self {
        Self { buffers: &[], textures }
    }
}

/// An OpenGL semaphore imported from another API. Deleted on drop.
#[doc(alias = "glDeleteSemaphoresEXT")]
#[derive(Debug)]
pub struct ImportedSemaphore {
    interop: GlInterop,
    name: c_uint,
    handle: SemaphoreHandleKind,
    /// The greatest value that this object has signalled.
    signalled: Cell<u64>,
}

const OPERATION: &str = "GlInterop::import_semaphore";

impl GlInterop {
    /// Imports a semaphore. The request owns its handle, as in [`import_memory`](Self::import_memory). Calls
    /// `glGenSemaphoresEXT` and `glImportSemaphoreFdEXT`, `glImportSemaphoreWin32HandleEXT` or
    /// `glImportSemaphoreWin32NameEXT`; for a timeline `glCreateSemaphoresNV` with `GL_SEMAPHORE_TYPE_TIMELINE_NV`.
    ///
    /// # Errors
    /// As [`import_memory`](Self::import_memory); every error returns the request with its handle open and usable.
    /// Without `GL_NV_timeline_semaphore`, timelines are [`ErrorKind::Unsupported`].
    #[doc(alias(
        "glGenSemaphoresEXT",
        "glCreateSemaphoresNV",
        "glSemaphoreParameterivNV",
        "glImportSemaphoreFdEXT",
        "glImportSemaphoreWin32HandleEXT",
        "glImportSemaphoreWin32NameEXT"
    ))]
    pub fn import_semaphore(
        &self,
        request: SemaphoreImport,
    ) -> Result<ImportedSemaphore, ImportError<SemaphoreImport>> {
        match self.try_import_semaphore(&request) {
            Ok(semaphore) => Ok(semaphore),
            Err(error) => {
                let error = error
                    .with_device(self.identity())
                    .with_context("handle", request.handle().kind())
                    .with_object_name(request.handle().as_win32());
                Err(ImportError::new(error, request))
            }
        }
    }

    fn try_import_semaphore(&self, request: &SemaphoreImport) -> Result<ImportedSemaphore> {
        let kind = request.handle().kind();
        supported(self.semaphore_support(kind), OPERATION, "semaphores of this kind cannot be imported")?;
        request.validate(OPERATION, self.importer(request.exporter()))?;
        self.check_current(OPERATION)?;
        let functions = need(&self.functions().semaphore, OPERATION)?;
        // Dropping this deletes the name after a failure.
        let mut semaphore = ImportedSemaphore { interop: self.clone(), name: 0, handle: kind, signalled: Cell::new(0) };
        let is_timeline = matches!(kind, SemaphoreHandleKind::TimelineFd | SemaphoreHandleKind::TimelineWin32);
        let operation = if is_timeline { "glCreateSemaphoresNV" } else { "glGenSemaphoresEXT" };
        let create = if is_timeline { need(&self.functions().timeline, OPERATION)?.create } else { functions.generate };
        // SAFETY: the context is current and has the extension; `name` has space for one name.
        self.named(operation, &mut semaphore.name, |name| unsafe { create(1, name) })?;
        if is_timeline {
            let timeline = need(&self.functions().timeline, OPERATION)?;
            let ty: c_int = sys::SEMAPHORE_TYPE_TIMELINE_NV;
            // SAFETY: the context is current, the semaphore is new, and the parameter has one value.
            self.call("glSemaphoreParameterivNV", error::driver, |_| unsafe {
                (timeline.parameter_iv)(semaphore.name, sys::SEMAPHORE_TYPE_NV, &raw const ty);
            })?;
        }
        semaphore.import(request.handle())?;
        Ok(semaphore)
    }
}

impl ImportedSemaphore {
    fn import(&self, handle: &SemaphoreHandle) -> Result<()> {
        match handle {
            #[cfg(unix)]
            SemaphoreHandle::OpaqueFd(fd) | SemaphoreHandle::TimelineFd(fd) => {
                self.import_fd(std::os::fd::AsFd::as_fd(fd))
            }
            SemaphoreHandle::OpaqueWin32(object) | SemaphoreHandle::TimelineWin32(object) => {
                self.import_win32(sys::HANDLE_TYPE_OPAQUE_WIN32_EXT, object)
            }
            SemaphoreHandle::D3d12Fence(object) => self.import_win32(sys::HANDLE_TYPE_D3D12_FENCE_EXT, object),
            SemaphoreHandle::OpaqueWin32Kmt(handle) => self.import_win32_handle(
                sys::HANDLE_TYPE_OPAQUE_WIN32_KMT_EXT,
                std::ptr::without_provenance_mut(handle.as_raw()),
            ),
            // `semaphore_support` rejected these.
            _ => Err(Error::unsupported(OPERATION, "OpenGL cannot import handles of this kind")),
        }
    }

    #[cfg(unix)]
    fn import_fd(&self, fd: std::os::fd::BorrowedFd<'_>) -> Result<()> {
        const OPERATION: &str = "glImportSemaphoreFdEXT";
        let functions = need(&self.interop.functions().semaphore_fd, OPERATION)?;
        lend(&self.interop, OPERATION, fd, |fd| {
            // SAFETY: the context is current and has the extension, the semaphore has no payload yet, and the
            // descriptor is a duplicate that the driver may close.
            unsafe { (functions.import)(self.name, sys::HANDLE_TYPE_OPAQUE_FD_EXT, fd) }
        })
    }

    fn import_win32(&self, ty: c_uint, object: &Win32Object) -> Result<()> {
        const OPERATION: &str = "glImportSemaphoreWin32NameEXT";
        let by_name = |name| {
            let functions = need(&self.interop.functions().semaphore_win32, OPERATION)?;
            // SAFETY: the context is current and has the extension, the semaphore has no payload yet, and the name is
            // NUL-terminated UTF-16.
            self.interop.call(OPERATION, error::import, |_| unsafe { (functions.import_name)(self.name, ty, name) })
        };
        lend_win32(object, OPERATION, |handle| self.import_win32_handle(ty, handle), by_name)
    }

    fn import_win32_handle(&self, ty: c_uint, handle: *mut c_void) -> Result<()> {
        const OPERATION: &str = "glImportSemaphoreWin32HandleEXT";
        let functions = need(&self.interop.functions().semaphore_win32, OPERATION)?;
        // SAFETY: the context is current and has the extension, the semaphore has no payload yet, and the request owns
        // the open handle, which drivers do not take ownership of.
        self.interop.call(OPERATION, error::import, |_| unsafe { (functions.import_handle)(self.name, ty, handle) })
    }

    /// Releases `barriers` and signals a binary semaphore after all earlier commands of this context, and flushes: the
    /// other API may submit its wait once this returns. Calls `glSignalSemaphoreEXT` and `glFlush`.
    ///
    /// Signal a binary semaphore again only after a wait has consumed the last signal: of two signals in a row one may
    /// be lost, or let a wait through too early. The wait may belong to the other API, so this crate cannot check it.
    /// Unlike [`wait`](Self::wait), the call is not `unsafe`: the extension leaves a wait without a signal undefined,
    /// and sets no such condition for a signal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline or a fence, for objects of another context, and if the context is
    /// not current; [`ErrorKind::Driver`].
    #[doc(alias("glSignalSemaphoreEXT", "glFlush"))]
    pub fn signal(&self, barriers: &Barriers<'_>) -> Result<()> {
        const OPERATION: &str = "ImportedSemaphore::signal";
        self.expect_binary(OPERATION)?;
        self.signal_with(OPERATION, barriers)
    }

    /// As [`signal`](Self::signal), for a timeline or a Direct3D 12 fence: sets it to `value`. Also calls
    /// `glSemaphoreParameterui64vEXT`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore, and for a value not above the last one signalled by this
    /// object; otherwise as [`signal`](Self::signal).
    #[doc(alias("glSignalSemaphoreEXT", "glSemaphoreParameterui64vEXT"))]
    pub fn signal_value(&self, value: u64, barriers: &Barriers<'_>) -> Result<()> {
        const OPERATION: &str = "ImportedSemaphore::signal_value";
        self.expect_values(OPERATION)?;
        let last = self.signalled.get();
        if value <= last {
            return Err(Error::invalid(OPERATION, "a timeline value can only increase; signal a greater one")
                .with_context("value", value)
                .with_context("last signalled", last));
        }
        self.set_value(OPERATION, value)?;
        self.signal_with(OPERATION, barriers)?;
        self.signalled.set(value);
        Ok(())
    }

    /// Makes later commands of this context wait until a binary semaphore is signalled, and acquires `barriers`. Does
    /// not block. Calls `glWaitSemaphoreEXT`.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    ///
    /// # Safety
    /// The signal that this waits for must have been submitted by the other API, or flushed by this one, since the last
    /// wait or since the creation of the semaphore: the extension leaves a wait without a signal undefined.
    #[doc(alias = "glWaitSemaphoreEXT")]
    pub unsafe fn wait(&self, barriers: &Barriers<'_>) -> Result<()> {
        const OPERATION: &str = "ImportedSemaphore::wait";
        self.expect_binary(OPERATION)?;
        // SAFETY: the caller's promise.
        unsafe { self.wait_with(OPERATION, barriers) }
    }

    /// As [`wait`](Self::wait), until the value of a timeline or a Direct3D 12 fence is at least `value`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore; otherwise as [`signal`](Self::signal).
    ///
    /// # Safety
    /// A signal of this or a greater value must have been submitted before.
    #[doc(alias("glWaitSemaphoreEXT", "glSemaphoreParameterui64vEXT"))]
    pub unsafe fn wait_value(&self, value: u64, barriers: &Barriers<'_>) -> Result<()> {
        const OPERATION: &str = "ImportedSemaphore::wait_value";
        self.expect_values(OPERATION)?;
        self.set_value(OPERATION, value)?;
        // SAFETY: the caller's promise.
        unsafe { self.wait_with(OPERATION, barriers) }
    }

    fn expect_binary(&self, operation: &'static str) -> Result<()> {
        if self.payload() == SemaphorePayload::Binary {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            operation,
            "the semaphore is a timeline or fence; use signal_value or wait_value",
        ))
    }

    fn expect_values(&self, operation: &'static str) -> Result<()> {
        if self.payload() == SemaphorePayload::Timeline {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidArgument, operation, "the semaphore is binary; use signal or wait"))
    }

    fn set_value(&self, operation: &'static str, value: u64) -> Result<()> {
        self.interop.check_current(operation)?;
        let functions = need(&self.interop.functions().semaphore, operation)?;
        // SAFETY: the context is current, the semaphore is live and has this parameter, which has one value.
        self.interop.call("glSemaphoreParameterui64vEXT", error::driver, |_| unsafe {
            (functions.parameter_ui64_v)(self.name, sys::SEMAPHORE_VALUE, &raw const value);
        })
    }

    fn signal_with(&self, operation: &'static str, barriers: &Barriers<'_>) -> Result<()> {
        let functions = need(&self.interop.functions().semaphore, operation)?;
        // SAFETY: a signal has no conditions of its own.
        unsafe { self.submit(operation, "glSignalSemaphoreEXT", functions.signal, barriers, |all| (all.base.flush)()) }
    }

    /// # Safety
    /// As [`Self::wait`].
    unsafe fn wait_with(&self, operation: &'static str, barriers: &Barriers<'_>) -> Result<()> {
        let functions = need(&self.interop.functions().semaphore, operation)?;
        // SAFETY: the caller's promise.
        unsafe { self.submit(operation, "glWaitSemaphoreEXT", functions.wait, barriers, |_| ()) }
    }

    /// Calls the function `name` with the barriers, then `after`.
    ///
    /// # Safety
    /// `function` must be the context's function `name`, and its conditions for this semaphore must hold. `after` must
    /// be safe to call in the current context.
    unsafe fn submit(
        &self,
        operation: &'static str,
        name: &'static str,
        function: SemaphoreFunction,
        barriers: &Barriers<'_>,
        after: impl FnOnce(&Functions),
    ) -> Result<()> {
        let names = Names::of(operation, &self.interop, barriers)?;
        let (buffers, textures) = names.counts();
        let lists = [&names.buffers, &names.textures, &names.layouts].map(|names| names.as_ptr());
        self.interop.call(name, error::driver, |all| {
            // SAFETY: the context is current; semaphore, buffers and textures are live and belong to this context; the
            // lists have the counted lengths. The rest is the caller's promise.
            unsafe { function(self.name, buffers, lists[0], textures, lists[1], lists[2]) };
            after(all);
        })
    }

    /// The payload type: [`SemaphorePayload::Binary`], or [`SemaphorePayload::Timeline`] for timelines and fences.
    #[must_use]
    pub fn payload(&self) -> SemaphorePayload {
        self.handle.payload()
    }

    /// The kind of the imported handle.
    #[must_use]
    pub fn handle_kind(&self) -> SemaphoreHandleKind {
        self.handle
    }

    /// The OpenGL name of the semaphore, valid while this object lives.
    #[must_use]
    pub fn as_raw(&self) -> u32 {
        self.name
    }

    /// The context of the semaphore.
    #[must_use]
    pub fn interop(&self) -> &GlInterop {
        &self.interop
    }
}

impl Drop for ImportedSemaphore {
    fn drop(&mut self) {
        if self.name == 0 {
            return;
        }
        delete(&self.interop, "glDeleteSemaphoresEXT", |interop| {
            if let Ok(functions) = &interop.functions().semaphore {
                // SAFETY: the context is current (`delete`), and this object owns the name. Pending operations keep the
                // semaphore alive.
                unsafe { (functions.delete)(1, &raw const self.name) };
            }
        });
    }
}

/// Barriers in the form of the driver's arguments; up to eight of each need no allocation.
struct Names {
    buffers: SmallVec<[c_uint; 8]>,
    textures: SmallVec<[c_uint; 8]>,
    layouts: SmallVec<[c_uint; 8]>,
}

impl Names {
    fn of(operation: &'static str, interop: &GlInterop, barriers: &Barriers<'_>) -> Result<Self> {
        interop.check_current(operation)?;
        let buffers = barriers.buffers.iter().map(|buffer| buffer.interop());
        let textures = barriers.textures.iter().map(|(texture, _)| texture.interop());
        if !buffers.chain(textures).all(|other| other.is_same(interop)) {
            return Err(Error::invalid(operation, "a buffer or texture belongs to another context than the semaphore"));
        }
        if [barriers.buffers.len(), barriers.textures.len()].iter().any(|count| c_uint::try_from(*count).is_err()) {
            return Err(Error::invalid(operation, "the number of buffers or textures exceeds 32 bits"));
        }
        Ok(Self {
            buffers: barriers.buffers.iter().map(|buffer| buffer.as_raw()).collect(),
            textures: barriers.textures.iter().map(|(texture, _)| texture.as_raw()).collect(),
            layouts: barriers.textures.iter().map(|(_, layout)| layout.as_raw()).collect(),
        })
    }

    fn counts(&self) -> (c_uint, c_uint) {
        // Checked by `of`.
        let count = |names: &[c_uint]| c_uint::try_from(names.len()).unwrap_or(0);
        (count(&self.buffers), count(&self.textures))
    }
}
