//! EGL functions and constants for a context without a window.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use gpu_interop_core::{Error, ErrorKind, LoadAttempt, Result};
use libloading::Library;

/// The library that dispatches to the vendors' EGL.
pub(super) const LIBRARY: &str = "libEGL.so.1";

pub(super) const EXTENSIONS: c_int = 0x3055;
pub(super) const NONE: c_int = 0x3038;
pub(super) const OPENGL_API: c_uint = 0x30A2;
pub(super) const OPENGL_ES_API: c_uint = 0x30A0;
pub(super) const DRAW: c_int = 0x3059;
pub(super) const READ: c_int = 0x305A;
pub(super) const SURFACE_TYPE: c_int = 0x3033;
pub(super) const PBUFFER_BIT: c_int = 1;
pub(super) const RENDERABLE_TYPE: c_int = 0x3040;
pub(super) const OPENGL_BIT: c_int = 8;
pub(super) const CONTEXT_MAJOR_VERSION: c_int = 0x3098;
pub(super) const CONTEXT_MINOR_VERSION: c_int = 0x30FB;
pub(super) const CONTEXT_OPENGL_PROFILE_MASK: c_int = 0x30FD;
pub(super) const CONTEXT_OPENGL_CORE_PROFILE_BIT: c_int = 1;
pub(super) const PLATFORM_DEVICE_EXT: c_uint = 0x313F;

/// A display, device, configuration or context: an opaque pointer.
pub(super) type Object = *mut c_void;

/// The functions of a library that is never unloaded, because drivers do not support unloading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Egl {
    get_proc_address: unsafe extern "C" fn(*const c_char) -> *const c_void,
    get_error: unsafe extern "C" fn() -> c_int,
    query_string: unsafe extern "C" fn(Object, c_int) -> *const c_char,
    initialize: unsafe extern "C" fn(Object, *mut c_int, *mut c_int) -> c_uint,
    bind_api: unsafe extern "C" fn(c_uint) -> c_uint,
    query_api: unsafe extern "C" fn() -> c_uint,
    choose_config: unsafe extern "C" fn(Object, *const c_int, *mut Object, c_int, *mut c_int) -> c_uint,
    create_context: unsafe extern "C" fn(Object, Object, Object, *const c_int) -> Object,
    destroy_context: unsafe extern "C" fn(Object, Object) -> c_uint,
    make_current: unsafe extern "C" fn(Object, Object, Object, Object) -> c_uint,
    get_current_context: unsafe extern "C" fn() -> Object,
    get_current_display: unsafe extern "C" fn() -> Object,
    get_current_surface: unsafe extern "C" fn(c_int) -> Object,
    query_devices: unsafe extern "C" fn(c_int, *mut Object, *mut c_int) -> c_uint,
    get_platform_display: unsafe extern "C" fn(c_uint, Object, *const c_int) -> Object,
}

/// The current context and the bound API of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Current {
    api: c_uint,
    /// Null without a current context, as are the other objects.
    context: Object,
    display: Object,
    draw: Object,
    read: Object,
}

/// Loads the function of this name with the type of its field.
macro_rules! symbol {
    ($library:expr, $name:literal) => {
        // SAFETY: the EGL function of this name has the type that the field of `Egl` declares.
        *unsafe { $library.get(concat!($name, "\0").as_bytes()) }.map_err(|error| {
            Error::new(
                ErrorKind::SymbolMissing,
                OPERATION,
                concat!("the EGL library has no ", $name, "; install a newer libglvnd"),
            )
            .with_context("library", LIBRARY)
            .with_source(error)
        })?
    };
}

const OPERATION: &str = "HeadlessContext::new";

impl Egl {
    /// Loads the library, and the extension functions that enumerate devices without a window system.
    pub(super) fn load() -> Result<Self> {
        static LOADED: OnceLock<Library> = OnceLock::new();
        let failed = |error: libloading::Error| {
            let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            let message = "the EGL library is missing; install it (Debian: libegl1, and libegl-mesa0 with libgl1-mesa-dri \
                           for a CPU driver) and your GPU's OpenGL driver";
            Error::new(ErrorKind::DriverNotFound, OPERATION, message).with_attempts([LoadAttempt::new(LIBRARY, reason)])
        };
        let library = match LOADED.get() {
            Some(library) => library,
            None => {
                // SAFETY: the name is that of the EGL library, which is safe to load at run time.
                let library = unsafe { Library::new(LIBRARY) }.map_err(failed)?;
                LOADED.get_or_init(|| library)
            }
        };
        let query_string: unsafe extern "C" fn(Object, c_int) -> *const c_char = symbol!(library, "eglQueryString");
        let get_proc_address: unsafe extern "C" fn(*const c_char) -> *const c_void =
            symbol!(library, "eglGetProcAddress");
        // SAFETY: without a display, EGL returns its client extensions, or null.
        let client = unsafe { split_list(query_string(std::ptr::null_mut(), EXTENSIONS)) };
        let has = |name: &str| client.iter().any(|extension| extension == name);
        if !(has("EGL_EXT_device_enumeration") || has("EGL_EXT_device_base")) {
            return Err(missing_extension("EGL_EXT_device_enumeration"));
        }
        if !has("EGL_EXT_platform_device") {
            return Err(missing_extension("EGL_EXT_platform_device"));
        }
        let extension = |name: &'static CStr| {
            // SAFETY: the name is NUL-terminated.
            let address = unsafe { get_proc_address(name.as_ptr()) };
            if address.is_null() {
                let message =
                    "EGL lists an extension but lacks its function; install a newer libglvnd and OpenGL driver";
                return Err(Error::new(ErrorKind::SymbolMissing, OPERATION, message)
                    .with_context("function", name.to_string_lossy()));
            }
            Ok(address)
        };
        Ok(Self {
            get_proc_address,
            get_error: symbol!(library, "eglGetError"),
            query_string,
            initialize: symbol!(library, "eglInitialize"),
            bind_api: symbol!(library, "eglBindAPI"),
            query_api: symbol!(library, "eglQueryAPI"),
            choose_config: symbol!(library, "eglChooseConfig"),
            create_context: symbol!(library, "eglCreateContext"),
            destroy_context: symbol!(library, "eglDestroyContext"),
            make_current: symbol!(library, "eglMakeCurrent"),
            get_current_context: symbol!(library, "eglGetCurrentContext"),
            get_current_display: symbol!(library, "eglGetCurrentDisplay"),
            get_current_surface: symbol!(library, "eglGetCurrentSurface"),
            // SAFETY: not null, so the function of the name, which the extension declares with this type.
            query_devices: unsafe {
                std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_int, *mut Object, *mut c_int) -> c_uint>(
                    extension(c"eglQueryDevicesEXT")?,
                )
            },
            // SAFETY: as above.
            get_platform_display: unsafe {
                std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_uint, Object, *const c_int) -> Object>(
                    extension(c"eglGetPlatformDisplayEXT")?,
                )
            },
        })
    }

    /// The address of an OpenGL function, or null.
    pub(super) fn address(&self, name: &CStr) -> *const c_void {
        // SAFETY: the name is NUL-terminated.
        unsafe { (self.get_proc_address)(name.as_ptr()) }
    }

    /// The devices of every installed EGL driver.
    pub(super) fn devices(&self) -> Result<Vec<Object>> {
        let mut count = 0;
        // SAFETY: without a list, EGL only writes the count.
        if unsafe { (self.query_devices)(0, std::ptr::null_mut(), &raw mut count) } == 0 {
            return Err(self.failed("eglQueryDevicesEXT"));
        }
        let mut devices = vec![std::ptr::null_mut(); usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has space for `count` devices.
        if count > 0 && unsafe { (self.query_devices)(count, devices.as_mut_ptr(), &raw mut count) } == 0 {
            return Err(self.failed("eglQueryDevicesEXT"));
        }
        devices.truncate(usize::try_from(count).unwrap_or(0));
        Ok(devices)
    }

    /// The initialised display of a device. EGL shares one display per device in the process, so it is never
    /// terminated.
    pub(super) fn display(&self, device: Object) -> Result<Object> {
        // SAFETY: the device comes from EGL, and the list of attributes may be null.
        let display = unsafe { (self.get_platform_display)(PLATFORM_DEVICE_EXT, device, std::ptr::null()) };
        if display.is_null() {
            return Err(self.failed("eglGetPlatformDisplayEXT"));
        }
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the display comes from EGL.
        if unsafe { (self.initialize)(display, &raw mut major, &raw mut minor) } == 0 {
            return Err(self.failed("eglInitialize"));
        }
        Ok(display)
    }

    /// Creates an OpenGL core profile context of this version or later, for use without a surface.
    pub(super) fn context(&self, display: Object, (major, minor): (c_int, c_int)) -> Result<Object> {
        // SAFETY: the display is initialised.
        let extensions = unsafe { split_list((self.query_string)(display, EXTENSIONS)) };
        let has = |name: &str| extensions.iter().any(|extension| extension == name);
        if !has("EGL_KHR_surfaceless_context") {
            return Err(missing_extension("EGL_KHR_surfaceless_context"));
        }
        // SAFETY: the value is an EGL constant.
        if unsafe { (self.bind_api)(OPENGL_API) } == 0 {
            return Err(self.failed("eglBindAPI"));
        }
        let any = has("EGL_KHR_no_config_context") || has("EGL_MESA_configless_context");
        let config = if any { std::ptr::null_mut() } else { self.config(display)? };
        let attributes = [
            CONTEXT_MAJOR_VERSION,
            major,
            CONTEXT_MINOR_VERSION,
            minor,
            CONTEXT_OPENGL_PROFILE_MASK,
            CONTEXT_OPENGL_CORE_PROFILE_BIT,
            NONE,
        ];
        // SAFETY: the display is initialised, the configuration belongs to it or is null, the list ends with `NONE`.
        let context = unsafe { (self.create_context)(display, config, std::ptr::null_mut(), attributes.as_ptr()) };
        if context.is_null() {
            return Err(self.failed("eglCreateContext").with_context("OpenGL", format_args!("{major}.{minor}")));
        }
        Ok(context)
    }

    fn config(&self, display: Object) -> Result<Object> {
        let attributes = [SURFACE_TYPE, PBUFFER_BIT, RENDERABLE_TYPE, OPENGL_BIT, NONE];
        let (mut config, mut count) = (std::ptr::null_mut(), 0);
        // SAFETY: the display is initialised, the list ends with `NONE`, and `config` has space for one.
        let chosen = unsafe { (self.choose_config)(display, attributes.as_ptr(), &raw mut config, 1, &raw mut count) };
        if chosen == 0 {
            return Err(self.failed("eglChooseConfig"));
        }
        if count == 0 {
            let message = "the EGL device has no configuration for OpenGL; install its OpenGL driver";
            return Err(Error::unsupported("eglChooseConfig", message));
        }
        Ok(config)
    }

    /// Makes a context current on this thread, without a surface.
    pub(super) fn make_current(&self, display: Object, context: Object) -> Result<()> {
        let none = std::ptr::null_mut();
        // SAFETY: both are live and belong together; the display supports contexts without surfaces.
        if unsafe { (self.make_current)(display, none, none, context) } == 0 {
            return Err(self.failed("eglMakeCurrent"));
        }
        Ok(())
    }

    pub(super) fn is_current(&self, context: Object) -> bool {
        // SAFETY: no arguments. Refers to the bound API; this crate only creates OpenGL contexts.
        unsafe { (self.get_current_context)() == context }
    }

    /// The current context of this thread: at most one of OpenGL or OpenGL ES, as either replaces the other.
    pub(super) fn current(&self) -> Current {
        // SAFETY: these calls take only EGL constants.
        unsafe {
            let api = (self.query_api)();
            let mut current = None;
            // EGL reports the context of the bound API. Binding an unsupported API fails without effect, and the query
            // is repeated.
            for bound in [OPENGL_API, OPENGL_ES_API] {
                (self.bind_api)(bound);
                current = Some((self.get_current_context)()).filter(|context| !context.is_null());
                if current.is_some() {
                    break;
                }
            }
            let none = std::ptr::null_mut();
            let found = match current {
                None => Current { api, context: none, display: none, draw: none, read: none },
                Some(context) => Current {
                    api,
                    context,
                    display: (self.get_current_display)(),
                    draw: (self.get_current_surface)(DRAW),
                    read: (self.get_current_surface)(READ),
                },
            };
            (self.bind_api)(api);
            found
        }
    }

    /// Restores the context and the API from before this crate's contexts, all of which are destroyed.
    pub(super) fn restore(&self, before: &Current) -> Result<()> {
        let outcome = if before.context.is_null() {
            Ok(())
        } else {
            let Current { display, draw, read, context, .. } = *before;
            // SAFETY: they were current together on this thread, and only this crate has run on it since.
            match unsafe { (self.make_current)(display, draw, read, context) } {
                0 => Err(self.failed("eglMakeCurrent")),
                _ => Ok(()),
            }
        };
        // SAFETY: the API was bound before.
        unsafe { (self.bind_api)(before.api) };
        outcome
    }

    /// Destroys a context; if it was current on this thread, none is current afterwards.
    pub(super) fn end(&self, display: Object, context: Object) {
        let none = std::ptr::null_mut();
        // SAFETY: display and context are live and belong together. A context that is current on no thread is destroyed
        // at once.
        unsafe {
            if self.is_current(context) {
                (self.make_current)(display, none, none, none);
            }
            (self.destroy_context)(display, context);
        }
    }

    /// The error of the last call.
    fn failed(&self, operation: &'static str) -> Error {
        // SAFETY: no arguments.
        let code = unsafe { (self.get_error)() };
        Error::new(ErrorKind::Driver, operation, "EGL reported a failure")
            .with_code(code.into(), Some(format!("EGL error {code:#06x}")))
    }
}

fn missing_extension(extension: &'static str) -> Error {
    Error::unsupported(OPERATION, format!("EGL lacks {extension}; install a newer libglvnd and OpenGL driver"))
}

/// Splits a list of extensions.
///
/// # Safety
/// `text` must be null or NUL-terminated.
unsafe fn split_list(text: *const c_char) -> Vec<String> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().split_whitespace().map(Into::into).collect()
}

#[cfg(test)]
mod tests;
