//! A kernel as each driver loads it, built by `kernels/build.sh`.

use std::ffi::CString;

use gpu_interop_wgpu::gpu_interop::{BinaryImage, Device, Module, ModuleImage};

use super::base::Result;

/// A kernel for NVIDIA and AMD.
pub(crate) struct Code {
    pub(crate) ptx: &'static str,
    /// Each with its target.
    pub(crate) code_objects: &'static [(&'static str, &'static [u8])],
}

/// The [`Code`] of `kernels/$kernel.c`.
macro_rules! code {
    ($kernel:literal) => {
        $crate::common::code!($kernel:
            "gfx906" "gfx908" "gfx90a" "gfx942" "gfx1030" "gfx1100" "gfx1201"
            "gfx9-generic" "gfx10-1-generic" "gfx10-3-generic" "gfx11-generic" "gfx12-generic"
        )
    };
    ($kernel:literal: $($target:literal)*) => {
        $crate::common::Code {
            ptx: include_str!(concat!("kernels/", $kernel, ".ptx")),
            code_objects: &[$(($target, include_bytes!(concat!("kernels/", $kernel, "/", $target, ".hsaco")))),*],
        }
    };
}
pub(crate) use code;

impl Code {
    /// Loads what the device takes. The host backend has functions of its own.
    pub(crate) fn load(&self, device: &Device) -> Result<Module> {
        match device.backend().name.as_str() {
            "host" => Ok(device.load_module(ModuleImage::Builtin)?),
            "hip" => {
                let architecture = device.architecture().unwrap_or_default();
                let object = gpu_interop_kernels::code_object_among(self.code_objects, architecture);
                let object =
                    object.ok_or_else(|| format!("no code object for `{architecture}`; add it to build.sh"))?;
                // SAFETY: a complete code object, as the linker wrote it.
                Ok(device.load_module(ModuleImage::Binary(unsafe { BinaryImage::new(object) }))?)
            }
            _ => Ok(device.load_module(ModuleImage::Ptx(&CString::new(self.ptx)?))?),
        }
    }
}
