//! The device of both sides, with one kernel, and what all parts of the examples use.

use std::error::Error;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::time::Duration;

use gpu_interop_wgpu::gpu_interop::host::{HostBackend, KernelCall};
use gpu_interop_wgpu::gpu_interop::{BinaryImage, Device, Kernel, Module, ModuleImage, Stream, device_for_with_host};
use gpu_interop_wgpu::{Interop, identity, request_device, wgpu};

pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Waits for a submission, or for all.
pub(crate) fn wait(device: &wgpu::Device, submission_index: Option<wgpu::SubmissionIndex>) -> Result<()> {
    device.poll(wgpu::PollType::Wait { submission_index, timeout: Some(Duration::from_secs(60)) })?;
    Ok(())
}

/// A square 2D texture with one level.
pub(crate) fn square(
    size: u32,
    format: wgpu::TextureFormat,
    usage: wgpu::TextureUsages,
) -> wgpu::TextureDescriptor<'static> {
    wgpu::TextureDescriptor {
        label: None,
        size: wgpu::Extent3d { width: size, height: size, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format,
        usage,
        view_formats: &[],
    }
}

/// wgpu's device and the compute device of the same hardware, a stream, and a kernel.
pub(crate) struct Setup {
    pub(crate) kernel: Kernel,
    pub(crate) stream: Stream,
    pub(crate) interop: Interop,
}

impl Setup {
    /// The kernel is `code` on CUDA and HIP, and `function` on the CPU.
    pub(crate) fn new(
        adapter: &wgpu::Adapter,
        name: &CStr,
        code: &Code,
        function: impl Fn(&KernelCall<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self> {
        let (device, queue) = request_device(adapter, &wgpu::DeviceDescriptor::default())?;
        let host = HostBackend::builder().kernel(name.into(), function).build();
        let compute = device_for_with_host(&identity(&device)?, Arc::new(host))?;
        let kernel = code.load(&compute)?.kernel(name)?;
        let stream = compute.create_stream()?;
        let interop = Interop::with_compute(&device, &queue, compute)?;
        // For three frames in flight.
        interop.reserve(3)?;
        Ok(Self { kernel, stream, interop })
    }
}

/// A kernel for NVIDIA and AMD, built by `kernels/build.sh`.
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
