//! The library's view of the application's own OpenGL context.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::fmt;
use std::rc::Rc;

use gpu_interop_core::{
    DeviceIdentity, Error, ErrorKind, IdentityMatch, MemoryHandleKind, Result, SemaphoreHandleKind, Support, Uuid,
};

use crate::error;
use crate::extension::Extension;
use crate::functions::{Found, Functions};
use crate::identity;
use crate::sys::{self, Base, Loader};

/// Keeps a context alive, and knows whether it is current.
pub trait ContextOwner {
    /// Whether the context is current on the calling thread.
    fn is_current(&self) -> bool;
}

/// What the library needs to know of an OpenGL context to import into it: functions, extensions, identity.
///
/// It stays on the thread on which it was made, as everything made from it does: neither is `Send`. Cheap to clone. See
/// the [front page](crate#the-context) on which context must be current when.
#[derive(Clone)]
pub struct GlInterop {
    shared: Rc<Shared>,
}

struct Shared {
    functions: Functions,
    /// Whether it is a context of OpenGL ES.
    es: bool,
    extensions: Vec<Extension>,
    /// Vendor, renderer and version, as the driver writes them.
    driver: String,
    /// The devices that the context runs on: nearly always one.
    devices: Vec<DeviceIdentity>,
    driver_uuid: Option<Uuid>,
    owner: Option<Rc<dyn ContextOwner>>,
}

impl GlInterop {
    /// Looks at the context that is current on this thread. `load` gives the address of OpenGL's function of a name, or
    /// null: `eglGetProcAddress`, `glfwGetProcAddress`, `SDL_GL_GetProcAddress` and their like. Under `wgl`, whose own
    /// function knows no function of OpenGL 1.1, it must look into `opengl32.dll` too. It is not kept. The 1, 2, 3 and -1
    /// that `wglGetProcAddress` of some drivers answers count as null.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`] if no context is current.
    /// * [`ErrorKind::SymbolMissing`] if `load` does not find what every context has. So it is too if no context is current
    ///   and the loader finds nothing without one, as those of wgl and GLFW.
    /// * [`ErrorKind::DriverTooOld`] below OpenGL 3.0.
    /// * [`ErrorKind::Unsupported`] for a context that was made to report no errors (`GL_KHR_no_error`): a refused handle
    ///   could not be told from an imported one.
    ///
    /// A context without the extensions is no error; what it lacks is told by [`memory_support`](Self::memory_support) and
    /// [`semaphore_support`](Self::semaphore_support).
    ///
    /// # Safety
    /// * A context must be current on this thread, and what `load` gives for a name must be null or that context's
    ///   function of the name.
    /// * This context, or one that shares its objects, must be current on this thread whenever a method of this object, a
    ///   clone, or anything made from it is called, and whenever a memory object, buffer, texture or semaphore made from
    ///   it is dropped.
    pub unsafe fn new(mut load: impl FnMut(&CStr) -> *const c_void) -> Result<Self> {
        // SAFETY: the caller's promises.
        unsafe { Self::build(&mut load, None) }
    }

    /// As [`new`](Self::new), of a context that knows whether it is current. While it is not, methods answer with an error
    /// instead of breaking a promise, and what is dropped then is left to the end of the context. `owner` lives as long as
    /// anything made from this object.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Safety
    /// * What `load` gives for a name must be null or that function of the owner's context, which is current.
    /// * While [`ContextOwner::is_current`] says so, that context must be current on the calling thread, and the functions
    ///   must stay valid as long as `owner` lives.
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
                           (wgl and GLFW find none without), and pass the loader of its own window system or EGL";
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
                "the context was made to report no errors (GL_KHR_no_error); make one that does",
            ));
        }
        let (extensions, direct) = extensions(&base);
        let direct = !es && (direct || number >= (4, 5));
        // SAFETY: the caller's promise; the extensions were just asked of the context.
        let functions = unsafe { Functions::load(base, &extensions, direct, load) };
        let [vendor, renderer] =
            [sys::VENDOR, sys::RENDERER].map(|name| string(&functions.base, name).unwrap_or_default());
        let devices = identity::devices(&functions, &extensions, &renderer);
        let driver_uuid = identity::driver_uuid(&functions);
        let driver = format!("{vendor}, {renderer}, OpenGL {version}");
        let interop =
            Self { shared: Rc::new(Shared { functions, es, extensions, driver, devices, driver_uuid, owner }) };
        // What was asked above may be unknown to an old driver, which is no error of the application's.
        interop.clear_errors(OPERATION)?;
        Ok(interop)
    }

    /// Whether the context lists an extension.
    #[must_use]
    pub fn has(&self, extension: Extension) -> bool {
        self.shared.extensions.contains(&extension)
    }

    /// Those of [`Extension::ALL`] that the context lists.
    #[must_use]
    pub fn extensions(&self) -> &[Extension] {
        &self.shared.extensions
    }

    /// Whether memory behind handles of this kind can be imported, and if not, why: from the operating system, the
    /// extensions and the functions that were found.
    #[must_use]
    pub fn memory_support(&self, kind: MemoryHandleKind) -> Support {
        let functions = &self.shared.functions;
        if let Some(refusal) = elsewhere(kind.platform().is_current()) {
            return refusal;
        }
        use MemoryHandleKind as Kind;
        match kind {
            Kind::OpaqueFd => both(&functions.memory_object, &functions.memory_fd),
            Kind::DmaBufFd => {
                Support::no("OpenGL has no import of dma-bufs as memory; an EGLImage is the way to those")
            }
            Kind::NvSciBuf => Support::no("OpenGL has no import of NvSciBuf objects"),
            Kind::OpaqueWin32
            | Kind::OpaqueWin32Kmt
            | Kind::D3d12Heap
            | Kind::D3d12Resource
            | Kind::D3d11Resource
            | Kind::D3d11ResourceKmt => both(&functions.memory_object, &functions.memory_win32),
            _ => unknown(),
        }
    }

    /// Whether semaphores behind handles of this kind can be imported, and if not, why.
    #[must_use]
    pub fn semaphore_support(&self, kind: SemaphoreHandleKind) -> Support {
        let functions = &self.shared.functions;
        if let Some(refusal) = elsewhere(kind.platform().is_current()) {
            return refusal;
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
            Kind::D3d11Fence => Support::no("OpenGL imports fences of Direct3D 12 only"),
            Kind::D3d11KeyedMutex | Kind::D3d11KeyedMutexKmt => {
                Support::no("this library has no keyed mutexes of OpenGL")
            }
            Kind::NvSciSync => Support::no("OpenGL has no import of NvSciSync objects"),
            _ => unknown(),
        }
    }

    /// Which device the context runs on; the first, if the driver joined several.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        // There is always one.
        &self.shared.devices[0]
    }

    /// The devices that the context runs on: more than one only where a driver joins several, as in SLI.
    #[must_use]
    pub fn devices(&self) -> &[DeviceIdentity] {
        &self.shared.devices
    }

    /// The identity of the driver (`GL_DRIVER_UUID_EXT`): equals `VkPhysicalDeviceIDProperties::driverUUID` of the Vulkan
    /// driver whose handles this one understands. `None` without the extensions.
    #[must_use]
    pub fn driver_uuid(&self) -> Option<Uuid> {
        self.shared.driver_uuid
    }

    /// Vendor, renderer and version of the driver, as it writes them. For reports.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.shared.driver
    }

    /// Fails unless one of the context's devices is, as far as can be known, `exporter`.
    ///
    /// The imports do this for requests that say who exported them; an application that has only handles can ask before.
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
            "the OpenGL context runs on another device than the exporter; make a context on the exporter's",
        )
        .with_mismatch(exporter.clone(), self.identity().clone()))
    }

    /// The device to compare a request with: the exporter's, if it is one of the context's.
    pub(crate) fn importer(&self, exporter: Option<&DeviceIdentity>) -> &DeviceIdentity {
        let same = |device: &&DeviceIdentity| exporter.is_some_and(|e| e.compare(device) == IdentityMatch::Same);
        self.devices().iter().find(same).unwrap_or(self.identity())
    }

    /// Refuses what begins behind the first byte of its memory where the driver ignores that: Mesa's for the CPU (22.3)
    /// shows the memory's first bytes instead, without an error.
    pub(crate) fn check_offset(&self, operation: &'static str, offset: u64) -> Result<()> {
        if offset == 0 || !self.identity().name.starts_with("llvmpipe") {
            return Ok(());
        }
        Err(Error::unsupported(
            operation,
            "Mesa's llvmpipe ignores the offset; export this object with memory of its own",
        )
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

    /// Whether the context is current, as far as can be told: its owner knows, and without one only that none is.
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

    /// Runs a call of OpenGL and asks for its error. Errors that were pending before are told to `tracing` and lost.
    pub(crate) fn call<T>(
        &self,
        operation: &'static str,
        translate: impl FnOnce(&'static str, c_uint) -> Error,
        call: impl FnOnce(&Functions) -> T,
    ) -> Result<T> {
        self.clear_errors(operation)?;
        let value = call(self.functions());
        // SAFETY: the context is current, by the promises of whoever made this object.
        match unsafe { (self.functions().base.get_error)() } {
            sys::NO_ERROR => Ok(value),
            code => Err(translate(operation, code).with_device(self.identity())),
        }
    }

    /// Lets the driver write a name into `name`, which is 0, and fails if it writes none.
    pub(crate) fn named(
        &self,
        operation: &'static str,
        name: &mut c_uint,
        make: impl FnOnce(*mut c_uint),
    ) -> Result<()> {
        self.call(operation, error::driver, |_| make(name))?;
        if *name == 0 {
            let error = Error::new(ErrorKind::Driver, operation, "the driver gave no name");
            return Err(error.with_device(self.identity()));
        }
        Ok(())
    }

    /// Takes the errors away that earlier calls left behind, so that the next is this library's.
    fn clear_errors(&self, operation: &'static str) -> Result<()> {
        /// One for each error there is, twice: a driver may keep one for every part of it.
        const MOST: u32 = 16;
        let mut last = sys::NO_ERROR;
        for _ in 0..MOST {
            // SAFETY: the context is current, by the promises of whoever made this object.
            let code = unsafe { (self.functions().base.get_error)() };
            if code == sys::NO_ERROR {
                return Ok(());
            }
            tracing::warn!(code, name = error::name(code), before = operation, "an error of OpenGL was pending");
            last = code;
        }
        Err(Error::new(ErrorKind::Driver, operation, "the context answers with nothing but errors; make a new one")
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

/// What says that handles of another operating system cannot be here.
fn elsewhere(is_current: bool) -> Option<Support> {
    (!is_current).then(|| Support::no("this operating system has no such handles"))
}

/// What is said of a kind of handle that came after this was written.
fn unknown() -> Support {
    Support::no("this library does not know such handles in OpenGL")
}

/// Supported if both are there.
fn both<A, B>(first: &Found<A>, second: &Found<B>) -> Support {
    let absent = first.as_ref().err().or(second.as_ref().err());
    absent.map_or(Support::Native, |absent| absent.support())
}

/// A string of the driver, copied.
fn string(base: &Base, name: c_uint) -> Option<String> {
    // SAFETY: the context is current, by the promises of whoever called this; dispatchers answer null without one.
    copied(unsafe { (base.get_string)(name) })
}

fn copied(text: *const c_char) -> Option<String> {
    // SAFETY: null is not read; else OpenGL gives text that ends with a NUL and stays while the context lives.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

pub(crate) fn integer(base: &Base, name: c_uint) -> i32 {
    let mut value = 0;
    // SAFETY: the context is current; each of the names that this crate asks for has one value.
    unsafe { (base.get_integer_v)(name, &raw mut value) };
    value
}

/// Those of [`Extension::ALL`] that are listed, and whether `GL_ARB_direct_state_access` is.
fn extensions(base: &Base) -> (Vec<Extension>, bool) {
    let count = c_uint::try_from(integer(base, sys::NUM_EXTENSIONS)).unwrap_or(0);
    let (mut found, mut direct) = (Vec::new(), false);
    for index in 0..count {
        // SAFETY: the context is current, and has so many extensions.
        let Some(name) = copied(unsafe { (base.get_string_i)(sys::EXTENSIONS, index) }) else { continue };
        direct |= name == "GL_ARB_direct_state_access";
        found.extend(Extension::ALL.iter().copied().filter(|extension| extension.name() == name));
    }
    found.sort_unstable();
    found.dedup();
    (found, direct)
}

/// Whether it is OpenGL ES, and its version: `4.6.0 NVIDIA 580.1`, `OpenGL ES 3.2 Mesa 22.3`.
fn parse_version(text: &str) -> Option<(bool, (u32, u32))> {
    let es = text.strip_prefix("OpenGL ES");
    let number = es.unwrap_or(text).trim_start().split([' ', '-']).next()?;
    let mut parts = number.split('.').map(str::parse::<u32>);
    Some((es.is_some(), (parts.next()?.ok()?, parts.next()?.ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_drivers_write_them() {
        assert_eq!(parse_version("4.6.0 NVIDIA 580.159.04"), Some((false, (4, 6))));
        assert_eq!(parse_version("4.5 (Core Profile) Mesa 22.3.6"), Some((false, (4, 5))));
        assert_eq!(parse_version("OpenGL ES 3.2 Mesa 22.3.6"), Some((true, (3, 2))));
        assert_eq!(parse_version("2.1.2-1"), Some((false, (2, 1))));
        for nonsense in ["", "OpenGL ES", "NVIDIA", "4"] {
            assert_eq!(parse_version(nonsense), None, "{nonsense}");
        }
    }
}
