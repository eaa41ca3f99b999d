//! Headless OpenGL contexts for tests, examples and tools.

mod egl;

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::rc::Rc;

use gpu_interop_core::{DeviceIdentity, Error, ErrorKind, IdentityMatch, LoadAttempt, Result};

use crate::interop::{ContextOwner, GlInterop};
use egl::{Egl, Object};

/// Options of a [`HeadlessContext`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadlessOptions {
    /// The device to run on; `None` selects EGL's first device.
    pub device: Option<DeviceIdentity>,
    /// The minimum version of OpenGL: major and minor. 4.5 by default.
    pub version: (u8, u8),
}

impl Default for HeadlessOptions {
    fn default() -> Self {
        Self { device: None, version: (4, 5) }
    }
}

impl HeadlessOptions {
    /// Selects the device. A device without a UUID in OpenGL never matches, because nothing proves the match.
    #[must_use]
    pub fn device(mut self, device: DeviceIdentity) -> Self {
        self.device = Some(device);
        self
    }

    /// Sets the minimum version of OpenGL.
    #[must_use]
    pub fn version(mut self, major: u8, minor: u8) -> Self {
        self.version = (major, minor);
        self
    }
}

/// An OpenGL core profile context without window or surface, current on the thread that created it. Destroyed when this
/// object and everything made from it are dropped.
///
/// Uses EGL (`libEGL.so.1`, loaded at run time) with `EGL_EXT_device_enumeration`, `EGL_EXT_platform_device` and
/// `EGL_KHR_surfaceless_context`, so no window system is needed. Applications with their own context do not need this.
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
    /// Creates a context and makes it current. Selects the first EGL device whose OpenGL identity matches the requested
    /// device, so a CPU driver is never used in place of a GPU.
    ///
    /// Replaces the OpenGL or OpenGL ES context that EGL had current on this thread, and binds the API OpenGL
    /// (`eglMakeCurrent`, `eglBindAPI`). The caller must make an earlier context current again.
    ///
    /// # Errors
    /// On every error the earlier context is current again with its surfaces, and its API is bound.
    /// * [`ErrorKind::DriverNotFound`]: the EGL library is missing.
    /// * [`ErrorKind::Unsupported`], [`ErrorKind::SymbolMissing`]: EGL lacks an extension or a function for contexts
    ///   without a window system.
    /// * [`ErrorKind::Driver`]: EGL cannot list its devices, or cannot make the context current.
    /// * [`ErrorKind::NoDevice`]: no EGL device matches or is usable; [`Error::attempts`] has the reason for each.
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
                "no EGL device is {device}; install its OpenGL driver (NVIDIA: with libglvnd and its EGL vendor file; \
                 Debian, for the CPU: libegl-mesa0 and libgl1-mesa-dri)"
            ),
            None => "EGL has no usable device; install an OpenGL driver (Debian, for the CPU: libegl-mesa0 and \
                     libgl1-mesa-dri)"
                .into(),
        };
        let error = Error::new(ErrorKind::NoDevice, "HeadlessContext::new", message).with_attempts(attempts);
        Err(match restored {
            Ok(()) => error,
            Err(lost) => error.with_context("the earlier context could not be made current again", lost),
        })
    }

    /// Creates a context on this device. After an error no context created here is current, and possibly none at all.
    fn on(egl: Egl, device: Object, options: &HeadlessOptions) -> Result<Self> {
        let display = egl.display(device)?;
        let (major, minor) = options.version;
        let context = egl.context(display, (c_int::from(major), c_int::from(minor)))?;
        let owner = Rc::new(Owner { egl, display, context });
        egl.make_current(display, context)?;
        // SAFETY: the context is current, the addresses come from EGL and stay valid because its libraries are never
        // unloaded, and the owner queries EGL for the current context.
        let interop = unsafe { GlInterop::with_owner(|name| egl.address(name), owner.clone()) }?;
        if let Some(requested) = &options.device
            && !interop.devices().iter().any(|found| requested.compare(found) == IdentityMatch::Same)
        {
            return Err(Error::new(
                ErrorKind::DeviceMismatch,
                "HeadlessContext::new",
                "the EGL device is another device",
            )
            .with_mismatch(requested.clone(), interop.identity().clone()));
        }
        Ok(Self { owner, interop })
    }

    /// The [`GlInterop`] of the context, for imports. Keeps the context alive.
    #[must_use]
    pub fn interop(&self) -> &GlInterop {
        &self.interop
    }

    /// Makes the context current again on this thread.
    ///
    /// # Errors
    /// [`ErrorKind::Driver`].
    pub fn make_current(&self) -> Result<()> {
        self.owner.egl.make_current(self.owner.display, self.owner.context)
    }

    /// The address of the OpenGL function `name`, or null; valid while the process lives.
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
