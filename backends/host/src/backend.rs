//! [`HostBackend`] and its builder.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;

use gpu_interop_core::{Backend, BackendDevice, BackendInfo, DeviceIdentity, DeviceKind, Error, ErrorKind, Result};

use crate::device::HostDevice;
use crate::imported::ExporterHeader;
use crate::kernel::{self, HostKernel, KernelCall};

/// Host backend, with exactly one device: the CPU.
#[derive(Debug)]
pub struct HostBackend {
    info: BackendInfo,
    identity: DeviceIdentity,
    header: ExporterHeader,
    kernels: Arc<BTreeMap<CString, HostKernel>>,
}

impl Default for HostBackend {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl HostBackend {
    /// Creates a backend with the built-in kernels that detects the headers of known exporters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a backend with other settings.
    #[must_use]
    pub fn builder() -> HostBackendBuilder {
        HostBackendBuilder { header: ExporterHeader::Detect, kernels: kernel::builtin() }
    }
}

/// Settings of a [`HostBackend`].
#[derive(Debug)]
pub struct HostBackendBuilder {
    header: ExporterHeader,
    kernels: BTreeMap<CString, HostKernel>,
}

impl HostBackendBuilder {
    /// Sets the header that precedes the data of imported memory. The default is [`ExporterHeader::Detect`].
    ///
    /// # Safety
    /// With [`ExporterHeader::None`], no imported memory starts with a header that its exporter's driver reads, as
    /// Mesa's lavapipe does: work of this backend would overwrite the header.
    #[must_use]
    pub unsafe fn exporter_header(mut self, header: ExporterHeader) -> Self {
        self.header = header;
        self
    }

    /// Adds a kernel to the modules loaded from [`ModuleImage::Builtin`](gpu_interop_core::ModuleImage::Builtin).
    /// Replaces a kernel of the same name.
    ///
    /// The function runs once for each launch, on the stream's thread. The stream's next synchronisation reports an error
    /// that it returns, with the kernel's name.
    ///
    /// ```
    /// use gpu_interop_core::{Device, KernelArg, LaunchConfig, ModuleImage, Result};
    /// use gpu_interop_host::{HostBackend, KernelCall};
    ///
    /// fn add(call: &KernelCall<'_>) -> std::result::Result<(), String> {
    ///     let (first, size, number) = (call.ptr(0)?, call.u64(1)?, call.u8(2)?);
    ///     let size = usize::try_from(size).map_err(|error| error.to_string())?;
    ///     // SAFETY: the launch passes a buffer of this size, which nothing else accesses until the kernel returns.
    ///     let bytes = unsafe { std::slice::from_raw_parts_mut(first, size) };
    ///     bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(number));
    ///     Ok(())
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     let backend = HostBackend::builder().kernel(c"add".to_owned(), add).build();
    ///     // The CPU beside an exporter: `gpu_interop::device_for_with_host(exporter.identity(), Arc::new(backend))`.
    ///     let device = Device::open(&backend, 0)?;
    ///     let kernel = device.load_module(ModuleImage::Builtin)?.kernel(c"add")?;
    ///     let memory = device.allocate_exportable(4096)?;
    ///     let stream = device.create_stream()?;
    ///     stream.fill(&memory, 40)?;
    ///     let args = [KernelArg::Buffer(memory.slice(..)?), KernelArg::U64(memory.size()), KernelArg::U8(2)];
    ///     // SAFETY: the arguments are those that `add` takes.
    ///     unsafe { stream.launch(&kernel, &LaunchConfig::linear(memory.size()), &args)? };
    ///     stream.synchronize()?;
    ///     let mut bytes = [0; 4096];
    ///     stream.read(&memory, &mut bytes)?;
    ///     assert_eq!(bytes, [42; 4096]);
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn kernel(
        mut self,
        name: CString,
        function: impl Fn(&KernelCall<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.kernels.insert(name.clone(), HostKernel::new(name, function));
        self
    }

    /// Builds the backend.
    #[must_use]
    pub fn build(self) -> HostBackend {
        HostBackend {
            info: BackendInfo::new(
                "host",
                concat!("reference implementation on CPU memory ", env!("CARGO_PKG_VERSION")),
            ),
            identity: DeviceIdentity::new("host CPU", DeviceKind::Cpu),
            header: self.header,
            kernels: Arc::new(self.kernels),
        }
    }
}

impl Backend for HostBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        Ok(vec![self.identity.clone()])
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        if ordinal != 0 {
            return Err(Error::new(
                ErrorKind::NoDevice,
                "HostBackend::open",
                "the host backend has one device, number 0",
            )
            .with_context("ordinal", ordinal));
        }
        Ok(Arc::new(HostDevice::new(self.identity.clone(), self.header, self.kernels.clone())))
    }
}
