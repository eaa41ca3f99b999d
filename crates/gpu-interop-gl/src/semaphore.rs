//! Semaphores that another API exported, imported into OpenGL.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};

use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{
    Error, ErrorKind, ImportError, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, SemaphorePayload,
};
use smallvec::SmallVec;

use crate::buffer::ImportedBuffer;
use crate::error;
use crate::functions::need;
use crate::interop::GlInterop;
use crate::layout::TextureLayout;
#[cfg(unix)]
use crate::lend::lend;
use crate::lend::lend_win32;
use crate::memory::{delete, supported};
use crate::sys;
use crate::texture::ImportedTexture;

/// What is handed over with a signal or taken over with a wait. Only what is named here is sure to be seen by the other
/// side.
#[derive(Debug, Clone, Copy, Default)]
pub struct Barriers<'a> {
    /// Buffers.
    pub buffers: &'a [&'a ImportedBuffer],
    /// Textures, each with the layout in which the other API left it (a wait), or finds it (a signal).
    pub textures: &'a [(&'a ImportedTexture, TextureLayout)],
}

impl<'a> Barriers<'a> {
    /// Nothing but the order itself.
    pub const NONE: Barriers<'static> = Barriers { buffers: &[], textures: &[] };

    /// These buffers.
    #[must_use]
    pub fn buffers(buffers: &'a [&'a ImportedBuffer]) -> Self {
        Self { buffers, textures: &[] }
    }

    /// These textures.
    #[must_use]
    pub fn textures(textures: &'a [(&'a ImportedTexture, TextureLayout)]) -> Self {
        Self { buffers: &[], textures }
    }
}

/// A semaphore of OpenGL that another API exported. Deleted when dropped.
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
    /// Imports a semaphore. The request owns its handle, as in [`import_memory`](Self::import_memory). Rests on
    /// `glGenSemaphoresEXT` and `glImportSemaphoreFdEXT`, `glImportSemaphoreWin32HandleEXT` or
    /// `glImportSemaphoreWin32NameEXT`; for a timeline on `glCreateSemaphoresNV` with `GL_SEMAPHORE_TYPE_TIMELINE_NV`.
    ///
    /// # Errors
    /// As [`import_memory`](Self::import_memory): every one gives the request back, its handle open and usable. Without
    /// `GL_NV_timeline_semaphore`, timelines are [`ErrorKind::Unsupported`].
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
        // From here on it is deleted when dropped, also after a failure.
        let mut semaphore = ImportedSemaphore { interop: self.clone(), name: 0, handle: kind, signalled: Cell::new(0) };
        let is_timeline = matches!(kind, SemaphoreHandleKind::TimelineFd | SemaphoreHandleKind::TimelineWin32);
        let operation = if is_timeline { "glCreateSemaphoresNV" } else { "glGenSemaphoresEXT" };
        let create = if is_timeline { need(&self.functions().timeline, OPERATION)?.create } else { functions.generate };
        // SAFETY: the context is current and has the extension; there is room for one name.
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
            // `semaphore_support` has refused these.
            _ => Err(Error::unsupported(OPERATION, "OpenGL has no import of such handles")),
        }
    }

    #[cfg(unix)]
    fn import_fd(&self, fd: std::os::fd::BorrowedFd<'_>) -> Result<()> {
        const OPERATION: &str = "glImportSemaphoreFdEXT";
        let functions = need(&self.interop.functions().semaphore_fd, OPERATION)?;
        lend(&self.interop, OPERATION, fd, |fd| {
            // SAFETY: the context is current and has the extension, the semaphore has no payload yet, and the descriptor
            // is a duplicate that the driver may close.
            unsafe { (functions.import)(self.name, sys::HANDLE_TYPE_OPAQUE_FD_EXT, fd) }
        })
    }

    fn import_win32(&self, ty: c_uint, object: &Win32Object) -> Result<()> {
        const OPERATION: &str = "glImportSemaphoreWin32NameEXT";
        let by_name = |name| {
            let functions = need(&self.interop.functions().semaphore_win32, OPERATION)?;
            // SAFETY: the context is current and has the extension, the semaphore has no payload yet, and the name is
            // UTF-16 that ends with a NUL.
            self.interop.call(OPERATION, error::import, |_| unsafe { (functions.import_name)(self.name, ty, name) })
        };
        lend_win32(object, OPERATION, |handle| self.import_win32_handle(ty, handle), by_name)
    }

    fn import_win32_handle(&self, ty: c_uint, handle: *mut c_void) -> Result<()> {
        const OPERATION: &str = "glImportSemaphoreWin32HandleEXT";
        let functions = need(&self.interop.functions().semaphore_win32, OPERATION)?;
        // SAFETY: the context is current and has the extension, the semaphore has no payload yet, and the request owns
        // the handle, which is open; drivers do not take it over.
        self.interop.call(OPERATION, error::import, |_| unsafe { (functions.import_handle)(self.name, ty, handle) })
    }

    /// Hands `barriers` over and signals a binary semaphore, behind everything that this context was given before, and
    /// flushes: the other API may submit its wait once this has returned. Rests on `glSignalSemaphoreEXT` and `glFlush`.
    ///
    /// A binary semaphore is to be signalled again only after a wait has taken the last signal: of two in a row one may be
    /// lost, or let a wait through too early. The wait may be the other API's, so this library cannot check it. It is not
    /// demanded by `unsafe`, as what [`wait`](Self::wait) needs is: the extension calls a wait without a signal undefined, and
    /// demands nothing of a signal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline or a fence, for what belongs to another context, and if the context is
    /// not current; [`ErrorKind::Driver`].
    pub fn signal(&self, barriers: &Barriers<'_>) -> Result<()> {
        const OPERATION: &str = "ImportedSemaphore::signal";
        self.expect_binary(OPERATION)?;
        self.signal_with(OPERATION, barriers)
    }

    /// As [`signal`](Self::signal), for a timeline or a fence of Direct3D 12, which gets this value. Rests on
    /// `glSemaphoreParameterui64vEXT` as well.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore, and for a value that is not above the last that this object
    /// signalled; else as [`signal`](Self::signal).
    pub fn signal_value(&self, value: u64, barriers: &Barriers<'_>) -> Result<()> {
        const OPERATION: &str = "ImportedSemaphore::signal_value";
        self.expect_values(OPERATION)?;
        let last = self.signalled.get();
        if value <= last {
            return Err(Error::invalid(OPERATION, "a timeline only goes up")
                .with_context("value", value)
                .with_context("last signalled", last));
        }
        self.set_value(OPERATION, value)?;
        self.signal_with(OPERATION, barriers)?;
        self.signalled.set(value);
        Ok(())
    }

    /// Makes what this context is given from here on wait until a binary semaphore is signalled, and takes `barriers` over.
    /// Does not block. Rests on `glWaitSemaphoreEXT`.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    ///
    /// # Safety
    /// The signal that this waits for must have been submitted by the other API, or flushed by this one, since the last
    /// wait, or since the semaphore was made: the extension leaves a wait without one undefined.
    pub unsafe fn wait(&self, barriers: &Barriers<'_>) -> Result<()> {
        const OPERATION: &str = "ImportedSemaphore::wait";
        self.expect_binary(OPERATION)?;
        // SAFETY: the caller's promise.
        unsafe { self.wait_with(OPERATION, barriers) }
    }

    /// As [`wait`](Self::wait), until a timeline or a fence of Direct3D 12 is at least at this value.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore; else as [`signal`](Self::signal).
    ///
    /// # Safety
    /// A signal of this value or a greater one must have been submitted before.
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
        Err(Error::new(ErrorKind::InvalidArgument, operation, "the semaphore has values; say which"))
    }

    fn expect_values(&self, operation: &'static str) -> Result<()> {
        if self.payload() == SemaphorePayload::Timeline {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidArgument, operation, "the semaphore is binary; it has no values"))
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
        let names = Names::of(operation, &self.interop, barriers)?;
        let functions = need(&self.interop.functions().semaphore, operation)?;
        // SAFETY: the context is current; semaphore, buffers and textures are live and of this context; the lists have as
        // many entries as is said.
        self.interop.call("glSignalSemaphoreEXT", error::driver, |all| unsafe {
            let (buffers, textures) = names.counts();
            (functions.signal)(
                self.name,
                buffers,
                names.buffers.as_ptr(),
                textures,
                names.textures.as_ptr(),
                names.layouts.as_ptr(),
            );
            (all.base.flush)();
        })
    }

    /// # Safety
    /// As [`Self::wait`].
    unsafe fn wait_with(&self, operation: &'static str, barriers: &Barriers<'_>) -> Result<()> {
        let names = Names::of(operation, &self.interop, barriers)?;
        let functions = need(&self.interop.functions().semaphore, operation)?;
        // SAFETY: as in `signal_with`; the signal has been submitted, by the caller's promise.
        self.interop.call("glWaitSemaphoreEXT", error::driver, |_| unsafe {
            let (buffers, textures) = names.counts();
            (functions.wait)(
                self.name,
                buffers,
                names.buffers.as_ptr(),
                textures,
                names.textures.as_ptr(),
                names.layouts.as_ptr(),
            );
        })
    }

    /// What it carries: [`SemaphorePayload::Binary`], or [`SemaphorePayload::Timeline`] for timelines and fences.
    #[must_use]
    pub fn payload(&self) -> SemaphorePayload {
        self.handle.payload()
    }

    /// What it was imported from.
    #[must_use]
    pub fn handle_kind(&self) -> SemaphoreHandleKind {
        self.handle
    }

    /// OpenGL's name of the semaphore, valid while this object lives.
    #[must_use]
    pub fn as_raw(&self) -> u32 {
        self.name
    }

    /// The context that it belongs to.
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
                // SAFETY: the context is current (`delete`), and the name is this object's own. Operations that were
                // given to the context keep what they need.
                unsafe { (functions.delete)(1, &raw const self.name) };
            }
        });
    }
}

/// Barriers as the driver takes them; nothing is allocated for up to eight of each.
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
            return Err(Error::invalid(operation, "there are more buffers or textures than OpenGL can count"));
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
