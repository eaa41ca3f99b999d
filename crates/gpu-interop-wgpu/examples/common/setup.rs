//! The device of both sides, with one kernel.

use std::ffi::CStr;
use std::sync::Arc;

use gpu_interop_wgpu::gpu_interop::host::{HostBackend, KernelCall};
use gpu_interop_wgpu::gpu_interop::{Kernel, Stream, device_for_with_host};
use gpu_interop_wgpu::{Interop, identity, request_device, wgpu};

use super::base::Result;
use super::code::Code;

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
