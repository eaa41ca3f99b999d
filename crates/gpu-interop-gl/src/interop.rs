//! The application's OpenGL context as this crate uses it.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::fmt;
use std::rc::Rc;

use gpu_interop_core::handle::{HandleType, Win32Object};
use gpu_interop_core::{
    DeviceIdentity, DeviceKind, Error, ErrorKind, IdentityMatch, Luid, MemoryHandleKind, Result, SemaphoreHandleKind,
    Support, Uuid,
};

use crate::error;
use crate::extension::Extension;
use crate::functions::{Found, Functions, integer};
use crate::sys::{self, Base, Loader};

/// Owner of a context: keeps it alive and reports whether it is current.
pub trait ContextOwner {
    /// Reports whether the context is current on the calling thread.
    fn is_current(&self) -> bool;
}

/// Functions, extensions and identity of an OpenGL context, for imports into it.
///
/// Stays on the thread that created it, as does everything made from it: nothing is `Send`. Cheap to clone. The [front
/// page](crate#the-context) states when the context must be current.
#[derive(Clone)]
pub struct GlInterop {
    shared: Rc<Shared>,
}

struct Shared {
    functions: Functions,
    /// The context is an OpenGL ES context.
    es: bool,
    extensions: Vec<Extension>,
    /// Vendor, renderer and version, in the driver's spelling.
    driver: String,
    /// The devices of the context, nearly always one.
    devices: Vec<DeviceIdentity>,
    driver_uuid: Option<Uuid>,
    owner: Option<Rc<dyn ContextOwner>>,
}

impl GlInterop {
    /// Queries the context that is current on this thread. `load` returns the address of the OpenGL function of a name,
    /// or null: `eglGetProcAddress`, `glfwGetProcAddress`, `SDL_GL_GetProcAddress` and the like. With `wgl`, whose own
    /// function does not find functions of OpenGL 1.1, it must also search `opengl32.dll`. `load` is not stored. The
    /// values 1, 2, 3 and -1, which `wglGetProcAddress` of some drivers returns, count as null.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`] if no context is current.
    /// * [`ErrorKind::SymbolMissing`] if `load` does not find a function that every context has. Loaders of wgl and
    ///   GLFW find none without a current context.
    /// * [`ErrorKind::DriverTooOld`] below OpenGL 3.0.
    /// * [`ErrorKind::Unsupported`] for a context that reports no errors (`GL_KHR_no_error`): failed imports could not
    ///   be detected.
    ///
    /// A context without the extensions is no error; [`memory_support`](Self::memory_support) and
    /// [`semaphore_support`](Self::semaphore_support) report the missing ones.
    ///
    /// # Safety
    /// * A context must be current on this thread, and `load` must return null or that context's function of the name.
    /// * This context, or one that shares its objects, must be current on this thread whenever a method of this object,
    ///   a clone, or anything made from it is called, and whenever a memory object, buffer, texture or semaphore made
    ///   from it is dropped.
    #[doc(alias("glGetString", "glGetStringi", "glGetIntegerv"))]
    pub unsafe fn new(mut load: impl FnMut(&CStr) -> *const c_void) -> Result<Self> {
        // SAFETY: the caller's promises.
        unsafe { Self::build(&mut load, None) }
    }

    /// As [`new`](Self::new), for a context whose owner reports whether it is current. While it is not, methods return
    /// an error, and dropped objects stay until the context is destroyed. `owner` lives as long as anything made from
    /// this object.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// * `load` must return null or the function of the name in the owner's context, which must be current.
    /// * While [`ContextOwner::is_current`] returns `true`, that context must be current on the calling thread, and the
    ///   functions must stay valid as long as `owner` lives.
    pub unsafe fn with_owner(
        mut load: impl FnMut(&CStr) -> *const c_void,
        owner: Rc<dyn ContextOwner>,
    ) -> Result<Self> {
        // SAFETY: the caller's promises.
        unsafe { Self::build(&mut load, Some(owner)) }
    }

    /// # Safety
    /// As [`Self::new`] and [`Self::with_owner`].
    unsafe fn build(load: &mut Loader<'_>, owner: Option<Rc<dyn ContextOwner>>) -> Result<Self> {
        const OPERATION: &str = "GlInterop::new";
        if owner.as_ref().is_some_and(|owner| !owner.is_current()) {
            return Err(not_current(OPERATION));
        }
        // SAFETY: the caller's promise.
        let base = unsafe { Base::load(load) }.map_err(|symbol| {
            let message = "the loader does not find a function that every context has; make the context current first \
                           (wgl and GLFW find none without), and pass the loader of its window system or EGL";
            Error::new(ErrorKind::SymbolMissing, OPERATION, message).with_context("function", symbol.to_string_lossy())
        })?;
        let Some(version) = string(&base, sys::VERSION) else { return Err(not_current(OPERATION)) };
        let (es, number) = parse_version(&version).unwrap_or((false, (0, 0)));
        if number < (3, 0) {
            return Err(Error::new(ErrorKind::DriverTooOld, OPERATION, "sharing needs OpenGL 3.0 or OpenGL ES 3.0")
                .with_context("version", version));
        }
        if integer(&base, sys::CONTEXT_FLAGS) & sys::CONTEXT_FLAG_NO_ERROR_BIT != 0 {
            return Err(Error::unsupported(
                OPERATION,
                "the context reports no errors (GL_KHR_no_error); create it without that flag",
            ));
        }
        let (extensions, direct) = extensions(&base);
        let direct = !es && (direct || number >= (4, 5));
        // SAFETY: the caller's promise; the context lists these extensions.
        let functions = unsafe { Functions::load(base, &extensions, direct, load) };
        let [vendor, renderer] =
            [sys::VENDOR, sys::RENDERER].map(|name| string(&functions.base, name).unwrap_or_default());
        let devices = devices(&functions, &extensions, &renderer);
        let driver_uuid = driver_uuid(&functions);
        let driver = format!("{vendor}, {renderer}, OpenGL {version}");
        let interop =
            Self { shared: Rc::new(Shared { functions, es, extensions, driver, devices, driver_uuid, owner }) };
        // Old drivers may report errors for the queries above.
        interop.clear_errors(OPERATION)?;
        Ok(interop)
    }

    /// Reports whether the context lists an extension.
    #[must_use]
    pub fn has(&self, extension: Extension) -> bool {
        self.shared.extensions.contains(&extension)
    }

    /// The extensions of [`Extension::ALL`] that the context lists.
    #[must_use]
    pub fn extensions(&self) -> &[Extension] {
        &self.shared.extensions
    }

    /// Reports whether memory handles of this kind can be imported, with the reason if not, by operating system,
    /// extensions and functions.
    #[must_use]
    pub fn memory_support(&self, kind: MemoryHandleKind) -> Support {
        let functions = &self.shared.functions;
        if let Some(reason) = other_platform(kind.handle_type().is_current()) {
            return reason;
        }
        use MemoryHandleKind as Kind;
        match kind {
            Kind::OpaqueFd => both(&functions.memory_object, &functions.memory_fd),
            Kind::DmaBufFd => Support::no("OpenGL does not import dma-bufs as memory; use an EGLImage"),
            Kind::NvSciBuf => Support::no("OpenGL does not import NvSciBuf objects"),
            _ if matches!(kind.handle_type(), HandleType::Win32 | HandleType::Kmt) => {
                both(&functions.memory_object, &functions.memory_win32)
            }
            _ => unknown(),
        }
    }

    /// Reports whether semaphore handles of this kind can be imported, with the reason if not.
    #[must_use]
    pub fn semaphore_support(&self, kind: SemaphoreHandleKind) -> Support {
        let functions = &self.shared.functions;
        if let Some(reason) = other_platform(kind.handle_type().is_current()) {
            return reason;
        }
        use SemaphoreHandleKind as Kind;
        let timeline = |support: Support| match &functions.timeline {
            Err(absent) if support.is_supported() => absent.support(),
            _ => support,
        };
        match kind {
            Kind::OpaqueFd => both(&functions.semaphore, &functions.semaphore_fd),
            Kind::TimelineFd => timeline(both(&functions.semaphore, &functions.semaphore_fd)),
            Kind::OpaqueWin32 | Kind::OpaqueWin32Kmt | Kind::D3d12Fence => {
                both(&functions.semaphore, &functions.semaphore_win32)
            }
            Kind::TimelineWin32 => timeline(both(&functions.semaphore, &functions.semaphore_win32)),
            Kind::D3d11Fence => Support::no("OpenGL imports only Direct3D 12 fences"),
            Kind::D3d11KeyedMutex | Kind::D3d11KeyedMutexKmt => {
                Support::no("this crate does not support keyed mutexes in OpenGL")
            }
            Kind::NvSciSync => Support::no("OpenGL does not import NvSciSync objects"),
            _ => unknown(),
        }
    }

    /// The identity of the context's device; the first one if the driver combines several.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        // Never empty.
        &self.shared.devices[0]
    }

    /// The devices of the context; more than one only if a driver combines several, as in SLI.
    #[doc(alias = "glGetUnsignedBytei_vEXT")]
    #[must_use]
    pub fn devices(&self) -> &[DeviceIdentity] {
        &self.shared.devices
    }

    /// The identity of the driver (`GL_DRIVER_UUID_EXT`). Equals `VkPhysicalDeviceIDProperties::driverUUID` of the
    /// Vulkan driver with compatible handles. `None` without the extensions.
    #[doc(alias = "glGetUnsignedBytevEXT")]
    #[must_use]
    pub fn driver_uuid(&self) -> Option<Uuid> {
        self.shared.driver_uuid
    }

    /// Vendor, renderer and version in the driver's spelling. For reports.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.shared.driver
    }

    /// Fails if `exporter` is known not to be a device of the context.
    ///
    /// Imports check this for requests that name an exporter; applications with bare handles can call it first.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMismatch`] with both identities.
    pub fn check_exporter(&self, exporter: &DeviceIdentity) -> Result<()> {
        const OPERATION: &str = "GlInterop::check_exporter";
        let devices = self.devices();
        if devices.iter().any(|device| exporter.compare(device) != IdentityMatch::Different) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::DeviceMismatch,
            OPERATION,
            "the OpenGL context runs on another device than the exporter; create it on the exporter's device",
        )
        .with_mismatch(exporter.clone(), self.identity().clone()))
    }

    /// The device to validate a request against: the exporter's if the context runs on it.
    pub(crate) fn importer(&self, exporter: Option<&DeviceIdentity>) -> &DeviceIdentity {
        let same = |device: &&DeviceIdentity| exporter.is_some_and(|e| e.compare(device) == IdentityMatch::Same);
        self.devices().iter().find(same).unwrap_or(self.identity())
    }

    /// Rejects offsets other than 0 where the driver ignores them: Mesa's CPU driver (22.3) uses the memory's first
    /// bytes instead, without an error.
    pub(crate) fn check_offset(&self, operation: &'static str, offset: u64) -> Result<()> {
        if offset == 0 || !self.identity().name.starts_with("llvmpipe") {
            return Ok(());
        }
        Err(Error::unsupported(operation, "Mesa's llvmpipe ignores the offset; export this object in separate memory")
            .with_device(self.identity())
            .with_context("offset", offset))
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.shared.functions
    }

    pub(crate) fn is_es(&self) -> bool {
        self.shared.es
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns `true` if the context is current, which its owner reports. Without an owner it returns `true` if any context
    /// is current.
    pub(crate) fn is_current(&self) -> bool {
        match &self.shared.owner {
            Some(owner) => owner.is_current(),
            None => string(&self.functions().base, sys::VERSION).is_some(),
        }
    }

    /// Fails if the context is known not to be current.
    pub(crate) fn check_current(&self, operation: &'static str) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(not_current(operation).with_device(self.identity())) }
    }

    /// Runs an OpenGL call and checks `glGetError`. Errors that were pending before are logged and cleared.
    pub(crate) fn call<T>(
        &self,
        operation: &'static str,
        translate: impl FnOnce(&'static str, c_uint) -> Error,
        call: impl FnOnce(&Functions) -> T,
    ) -> Result<T> {
        self.clear_errors(operation)?;
        let value = call(self.functions());
        // SAFETY: the context is current, by the promises of this object's creator.
        match unsafe { (self.functions().base.get_error)() } {
            sys::NO_ERROR => Ok(value),
            code => Err(translate(operation, code).with_device(self.identity())),
        }
    }

    /// Creates an OpenGL name in `name`, which is 0; fails if the driver writes none.
    pub(crate) fn named(
        &self,
        operation: &'static str,
        name: &mut c_uint,
        make: impl FnOnce(*mut c_uint),
    ) -> Result<()> {
        self.call(operation, error::driver, |_| make(name))?;
        if *name == 0 {
            let error = Error::new(ErrorKind::Driver, operation, "the driver returned no name");
            return Err(error.with_device(self.identity()));
        }
        Ok(())
    }

    /// Clears the errors of earlier calls, so that the next error belongs to this crate's call.
    fn clear_errors(&self, operation: &'static str) -> Result<()> {
        /// Twice the number of error codes; a driver may store one error per component.
        const MOST: u32 = 16;
        let mut last = sys::NO_ERROR;
        for _ in 0..MOST {
            // SAFETY: the context is current, by the promises of this object's creator.
            let code = unsafe { (self.functions().base.get_error)() };
            if code == sys::NO_ERROR {
                return Ok(());
            }
            tracing::warn!(code, name = error::name(code), before = operation, "cleared a pending OpenGL error");
            last = code;
        }
        Err(Error::new(ErrorKind::Driver, operation, "the context reports errors without end; create a new one")
            .with_code(last.into(), error::name(last).map(Into::into))
            .with_device(self.identity()))
    }
}

impl fmt::Debug for GlInterop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlInterop")
            .field("driver", &self.shared.driver)
            .field("devices", &self.shared.devices)
            .field("extensions", &self.shared.extensions)
            .finish_non_exhaustive()
    }
}

fn not_current(operation: &'static str) -> Error {
    Error::invalid(operation, "the OpenGL context is not current on this thread; make it current first")
}

/// The reason for handles of another operating system.
fn other_platform(is_current: bool) -> Option<Support> {
    (!is_current).then(|| Support::no("this operating system has no such handles"))
}

/// The reason for handle kinds unknown to this version.
fn unknown() -> Support {
    Support::no("this crate does not know this kind of handle")
}

fn both<A, B>(first: &Found<A>, second: &Found<B>) -> Support {
    let absent = first.as_ref().err().or(second.as_ref().err());
    absent.map_or(Support::Native, |absent| absent.support())
}

/// Copies a string of the driver.
fn string(base: &Base, name: c_uint) -> Option<String> {
    // SAFETY: the context is current, by the caller's promises; dispatchers return null without a context.
    copy_string(unsafe { (base.get_string)(name) })
}

fn copy_string(text: *const c_char) -> Option<String> {
    // SAFETY: not null, so OpenGL returned a NUL-terminated string that lives as long as the context.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// The extensions of [`Extension::ALL`] that the context lists, and whether it lists `GL_ARB_direct_state_access`.
fn extensions(base: &Base) -> (Vec<Extension>, bool) {
    let count = c_uint::try_from(integer(base, sys::NUM_EXTENSIONS)).unwrap_or(0);
    let (mut found, mut direct) = (Vec::new(), false);
    for index in 0..count {
        // SAFETY: the context is current, and has `count` extensions.
        let Some(name) = copy_string(unsafe { (base.get_string_i)(sys::EXTENSIONS, index) }) else { continue };
        direct |= name == "GL_ARB_direct_state_access";
        found.extend(Extension::ALL.iter().copied().filter(|extension| extension.name() == name));
    }
    found.sort_unstable();
    found.dedup();
    (found, direct)
}

/// Parses a version: whether it is OpenGL ES, and the number (`4.6.0 NVIDIA 580.1`, `OpenGL ES 3.2 Mesa 22.3`).
fn parse_version(text: &str) -> Option<(bool, (u32, u32))> {
    let es = text.strip_prefix("OpenGL ES");
    let number = es.unwrap_or(text).trim_start().split([' ', '-']).next()?;
    let mut parts = number.split('.').map(str::parse::<u32>);
    Some((es.is_some(), (parts.next()?.ok()?, parts.next()?.ok()?)))
}

/// Lends the driver a duplicate, which it owns after a success. Its handling of the duplicate after a failure is
/// unspecified, so the loan checks the descriptor.
#[cfg(unix)]
pub(crate) fn lend(
    interop: &GlInterop,
    operation: &'static str,
    fd: std::os::fd::BorrowedFd<'_>,
    import: impl FnOnce(std::os::fd::RawFd),
) -> Result<()> {
    let loan = gpu_interop_core::handle::LentFd::new(fd)?;
    let outcome = interop.call(operation, error::import, |_| import(loan.as_raw_fd()));
    match outcome {
        Ok(()) => loan.consumed(),
        Err(_) => drop(loan.settle()),
    }
    outcome
}

/// Passes a Windows object to the driver: as a handle, which the caller keeps, or as a name in NUL-terminated UTF-16.
pub(crate) fn lend_win32(
    object: &Win32Object,
    operation: &'static str,
    by_handle: impl FnOnce(*mut c_void) -> Result<()>,
    by_name: impl FnOnce(*const c_void) -> Result<()>,
) -> Result<()> {
    match object {
        Win32Object::Handle(handle) => by_handle(handle.as_raw()),
        Win32Object::Name(name) => by_name(name.as_utf16().as_ptr().cast()),
        _ => Err(Error::unsupported(operation, "this crate imports only handles and names")),
    }
}

/// Upper limit for the number of devices in one context.
const MOST_DEVICES: i32 = 64;

/// The devices of the current context: one per UUID, or one without a UUID. Never empty.
///
/// Calls `glGetUnsignedBytei_vEXT` with `GL_DEVICE_UUID_EXT`, and on Windows `glGetUnsignedBytevEXT` with
/// `GL_DEVICE_LUID_EXT`.
pub(crate) fn devices(functions: &Functions, extensions: &[Extension], renderer: &str) -> Vec<DeviceIdentity> {
    // OpenGL does not report the kind; without a UUID nothing is proven.
    let base = DeviceIdentity::new(renderer, DeviceKind::Unknown).with_luid(luid(functions, extensions));
    let Ok(uuids) = &functions.uuids else { return vec![base] };
    let count = integer(&functions.base, sys::NUM_DEVICE_UUIDS_EXT).clamp(1, MOST_DEVICES);
    let of = |index: i32| {
        let mut bytes = [0; sys::UUID_SIZE_EXT];
        // SAFETY: the context is current, has this extension and `count` UUIDs, each of 16 bytes.
        unsafe { (uuids.get_unsigned_byte_i_v)(sys::DEVICE_UUID_EXT, index.unsigned_abs(), bytes.as_mut_ptr()) };
        base.clone().with_uuid(Uuid::from_bytes(bytes))
    };
    (0..count).map(of).collect()
}

/// `GL_DRIVER_UUID_EXT`.
pub(crate) fn driver_uuid(functions: &Functions) -> Option<Uuid> {
    let uuids = functions.uuids.as_ref().ok()?;
    let mut bytes = [0; sys::UUID_SIZE_EXT];
    // SAFETY: the context is current and has this extension; the UUID has 16 bytes.
    unsafe { (uuids.get_unsigned_byte_v)(sys::DRIVER_UUID_EXT, bytes.as_mut_ptr()) };
    Uuid::from_bytes(bytes)
}

/// LUID and node mask, if the context has them.
fn luid(functions: &Functions, extensions: &[Extension]) -> Option<Luid> {
    let windows = [Extension::MemoryObjectWin32, Extension::SemaphoreWin32];
    if !windows.iter().any(|extension| extensions.contains(extension)) {
        return None;
    }
    let uuids = functions.uuids.as_ref().ok()?;
    let mut bytes = [0; sys::LUID_SIZE_EXT];
    // SAFETY: the context is current and has one of the extensions; the LUID has 8 bytes.
    unsafe { (uuids.get_unsigned_byte_v)(sys::DEVICE_LUID_EXT, bytes.as_mut_ptr()) };
    let node_mask = integer(&functions.base, sys::DEVICE_NODE_MASK_EXT).cast_unsigned();
    (bytes != [0; sys::LUID_SIZE_EXT]).then_some(Luid { bytes, node_mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed() {
        assert_eq!(parse_version("4.6.0 NVIDIA 580.159.04"), Some((false, (4, 6))));
        assert_eq!(parse_version("4.5 (Core Profile) Mesa 22.3.6"), Some((false, (4, 5))));
        assert_eq!(parse_version("OpenGL ES 3.2 Mesa 22.3.6"), Some((true, (3, 2))));
        assert_eq!(parse_version("2.1.2-1"), Some((false, (2, 1))));
        for invalid in ["", "OpenGL ES", "NVIDIA", "4"] {
            assert_eq!(parse_version(invalid), None, "{invalid}");
        }
    }
}
