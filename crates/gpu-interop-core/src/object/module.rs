//! Modules and kernels.

use std::ffi::CStr;
use std::sync::Arc;

use super::device_state::DeviceInner;
use super::device_state::Owned;
use super::lifetime::Resource;
use crate::backend::{RawKernel, RawModule};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct ModuleInner {
    pub(super) owned: Owned,
    raw: RawModule,
}

/// A loaded module. Its kernels keep it loaded.
#[doc(alias("CUmodule", "cudaLibrary_t", "hipModule_t", "cuModuleUnload", "cudaLibraryUnload", "hipModuleUnload"))]
#[derive(Debug)]
pub struct Module {
    inner: Arc<ModuleInner>,
}

impl Module {
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawModule) -> Self {
        Self { inner: Arc::new(ModuleInner { owned: Owned::new(device, Resource::Module(raw)), raw }) }
    }

    /// Looks up a kernel by name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the module has no kernel of this name or
    /// the name is empty, with every backend; otherwise the driver's error (`cuModuleGetFunction`,
    /// `hipModuleGetFunction`).
    #[doc(alias("cuModuleGetFunction", "cudaLibraryGetKernel", "hipModuleGetFunction"))]
    pub fn kernel(&self, name: &CStr) -> Result<Kernel> {
        let device = &self.inner.owned.device;
        device.check_process("Module::kernel")?;
        if name.is_empty() {
            return Err(device
                .decorate(Error::invalid("Module::kernel", "the kernel name is empty; pass the name of a kernel")));
        }
        // SAFETY: the module is live.
        unsafe { device.raw.module_kernel(self.inner.raw, name) }
            .map(|raw| Kernel { module: self.inner.clone(), raw })
            .map_err(|error| device.decorate(error.with_context("kernel", name.to_string_lossy())))
    }

    /// The driver's module, valid while `self` or one of its kernels lives.
    #[must_use]
    pub fn as_raw(&self) -> RawModule {
        self.inner.raw
    }
}

/// A kernel of a module.
#[doc(alias("CUfunction", "cudaKernel_t", "hipFunction_t"))]
#[derive(Debug, Clone)]
pub struct Kernel {
    pub(super) module: Arc<ModuleInner>,
    pub(super) raw: RawKernel,
}

impl Kernel {
    /// The driver's kernel, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawKernel {
        self.raw
    }
}
