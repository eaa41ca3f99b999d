//! An OpenGL context of the library's own, for tests, examples and tools.

mod egl;

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::rc::Rc;

use gpu_interop_core::{DeviceIdentity, Error, ErrorKind, IdentityMatch, LoadAttempt, Result};

use crate::interop::{ContextOwner, GlInterop};
use egl::{Egl, Object};

/// What a [`HeadlessContext`] is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadlessOptions {
    /// The device that it must run on; `None` takes the first of EGL's.
    pub device: Option<DeviceIdentity>,
    /// The version of OpenGL that it must have at least: major and minor. 4.5 unless told otherwise.
    pub version: (u8, u8),
}

impl Default for HeadlessOptions {
    fn default() -> Self {
        Self { device: None, version: (4, 5) }
    }
}

impl HeadlessOptions {
    /// Chooses the device. One that OpenGL has no UUID of is never it: nothing proves that.
    #[must_use]
    pub fn device(mut self, device: DeviceIdentity) -> Self {
        self.device = Some(device);
        self
    }

    /// Sets the version of OpenGL that it must have at least.
    #[must_use]
    pub fn version(mut self, major: u8, minor: u8) -> Self {
        self.version = (major, minor);
        self
    }
}

/// A context of OpenGL's core profile without window and surface, current on the thread that made it. It ends when it and
/// everything made from it is gone.
///
/// Made by EGL (`libEGL.so.1`, looked for at run time) with `EGL_EXT_device_enumeration`, `EGL_EXT_platform_device` and
/// `EGL_KHR_surfaceless_context`, so no window system needs to run. Applications have a context of their own and do not
/// need this.
#[derive(Debug, Clone)]
pub struct HeadlessContext {
    owner: Rc<Owner>,
    interop: GlInterop,
}

struct Owner {
    egl: Egl,
    display: Object,
    context: Object,
}

impl HeadlessContext {
    /// Makes a context and makes it current. Of EGL's devices it takes the first that is the chosen one, as OpenGL itself
    /// identifies it: a driver that runs on the CPU never stands in for a GPU.
    ///
    /// It takes the place of the context of OpenGL or OpenGL ES that EGL had current on this thread, and the thread's bound
    /// API is OpenGL from then on (`eglMakeCurrent`, `eglBindAPI`). Whoever had one makes it current again.
    ///
    /// # Errors
    /// After each of them that context is current as before, with its surfaces, and the API is bound that was.
    /// * [`ErrorKind::DriverNotFound`]: there is no EGL library.
    /// * [`ErrorKind::Unsupported`]: EGL lacks an extension that is needed.
    /// * [`ErrorKind::NoDevice`]: none of EGL's devices is the chosen one, or none is usable; [`Error::attempts`] says of each
    ///   why not.
    pub fn new(options: &HeadlessOptions) -> Result<Self> {
        let egl = Egl::load()?;
        let mut attempts = Vec::new();
        let devices = egl.devices()?;
        let before = egl.current();
        for (index, device) in devices.into_iter().enumerate() {
            match Self::on(egl, device, options) {
                Ok(context) => return Ok(context),
                Err(error) => {
                    attempts.push(LoadAttempt::new(format!("EGL device {index}"), error.to_string()));
                }
            }
        }
        let restored = egl.restore(&before);
        let message = match &options.device {
            Some(device) => format!(
                "EGL has no device that is {device}; install the OpenGL driver of this device (NVIDIA: with libglvnd and its \
                 EGL vendor file; Debian, for the CPU: libegl-mesa0 and libgl1-mesa-dri)"
            ),
            None => "EGL has no usable device; install an OpenGL driver (Debian, for the CPU: libegl-mesa0 and \
                     libgl1-mesa-dri)"
                .into(),
        };
        let error = Error::new(ErrorKind::NoDevice, "HeadlessContext::new", message).with_attempts(attempts);
        Err(match restored {
            Ok(()) => error,
            Err(lost) => error.with_context("the context that was current before could not be made so again", lost),
        })
    }

    /// A context on this device. After an error none is current that was made here, and perhaps none at all.
    fn on(egl: Egl, device: Object, options: &HeadlessOptions) -> Result<Self> {
        let display = egl.display(device)?;
        let (major, minor) = options.version;
        let context = egl.context(display, (c_int::from(major), c_int::from(minor)))?;
        let owner = Rc::new(Owner { egl, display, context });
        egl.make_current(display, context)?;
        // SAFETY: the context is current, the addresses are EGL's and stay valid because its libraries are never unloaded,
        // and the owner asks EGL which context is current.
        let interop = unsafe { GlInterop::with_owner(|name| egl.address(name), owner.clone()) }?;
        if let Some(wanted) = &options.device
            && !interop.devices().iter().any(|found| wanted.compare(found) == IdentityMatch::Same)
        {
            return Err(Error::new(ErrorKind::DeviceMismatch, "HeadlessContext::new", "it is another device")
                .with_mismatch(wanted.clone(), interop.identity().clone()));
        }
        Ok(Self { owner, interop })
    }

    /// The context, for imports. Keeps it alive.
    #[must_use]
    pub fn interop(&self) -> &GlInterop {
        &self.interop
    }

    /// Makes the context current again on this thread, after another was.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`].
    pub fn make_current(&self) -> Result<()> {
        self.owner.egl.make_current(self.owner.display, self.owner.context)
    }

    /// The address of OpenGL's function of a name, or null; valid while the process lives.
    #[must_use]
    pub fn address(&self, name: &CStr) -> *const c_void {
        self.owner.egl.address(name)
    }
}

impl ContextOwner for Owner {
    fn is_current(&self) -> bool {
        self.egl.is_current(self.context)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.egl.end(self.display, self.context);
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("display", &self.display).field("context", &self.context).finish_non_exhaustive()
    }
}
