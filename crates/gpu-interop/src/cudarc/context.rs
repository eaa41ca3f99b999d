//! Contexts of cudarc as devices, and the reverse.

use std::sync::Arc;

use ::cudarc::driver::{CudaContext, result};
use gpu_interop_core::{Backend, Device, DeviceIdentity, Error, ErrorKind, Result, Uuid};
use gpu_interop_cuda::CudaBackend;

use super::sys;
use super::sys::error;

/// Opens the device of a context. The device retains the primary context itself, so the context and the device may be
/// dropped in any order.
///
/// To open an exporter on the same GPU, use [`Device::identity`], which contains the UUID. Example:
/// `HeadlessOptions::device(DeviceChoice::Identity(..))` of the `vulkan` module.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a context that is not primary (`CudaContext::new_non_primary`, `new_cig`,
/// `from_raw_context`): memory is imported into the primary context, and other contexts cannot use this memory.
/// [`ErrorKind::DeviceMismatch`] if cudarc has loaded another driver's file than this crate. Other errors as for
/// loading the CUDA backend and opening a device.
pub fn device(context: &Arc<CudaContext>) -> Result<Device> {
    const OPERATION: &str = "gpu_interop::cudarc::device";
    check_primary(OPERATION, context)?;
    let backend = CudaBackend::load()?;
    // Not `CudaContext::uuid`, which returns and clears an earlier error.
    let uuid = result::device::get_uuid(context.cu_device()).ok().and_then(sys::uuid);
    let same = |device: &DeviceIdentity| uuid.is_some() && device.uuid == uuid;
    // cudarc's bindings of CUDA 12 report no usable UUID for a MIG instance. The comparison of contexts decides.
    let ordinal = backend.devices()?.iter().position(same).unwrap_or(context.ordinal());
    let device = Device::open(&backend, ordinal)?;
    check_same(OPERATION, &device, context)?;
    Ok(device)
}

/// Opens the CUDA device that `exporter` describes, and its primary context in cudarc. `GPU_INTEROP_BACKEND` is not
/// read. Makes the context current on this thread, as `CudaContext::new` does.
///
/// Call it before any function of cudarc: it does not panic without a driver.
///
/// # Errors
/// [`ErrorKind::DriverNotFound`] without a driver, or if cudarc does not find the driver that this crate has loaded.
/// [`ErrorKind::NoDevice`] if no CUDA device matches the exporter's device. Other errors as for [`context_of`].
pub fn context_for(exporter: &DeviceIdentity) -> Result<(Device, Arc<CudaContext>)> {
    let device = Device::open_matching(&CudaBackend::load()?, exporter)?;
    let context = context_of(&device)?;
    Ok((device, context))
}

/// Opens the primary context of a CUDA device in cudarc. The device uses the same context. Makes the context current on
/// this thread, as `CudaContext::new` does.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for a device of another backend; [`ErrorKind::DriverNotFound`] if cudarc does not find
/// the driver that this crate has loaded; [`ErrorKind::DriverTooOld`] below CUDA 11.4, which cudarc requires;
/// [`ErrorKind::DeviceMismatch`] if cudarc loads another driver file than this crate, such as a toolkit's stub, or the
/// system's driver although `GPU_INTEROP_CUDA_LIBRARY` names another file. Errors of the driver.
pub fn context_of(device: &Device) -> Result<Arc<CudaContext>> {
    const OPERATION: &str = "gpu_interop::cudarc::context_of";
    if device.context().is_none() {
        return Err(not_cuda(OPERATION, device));
    }
    sys::check_driver(OPERATION, device)?;
    let failed = |failure| error(OPERATION, failure).with_device(device.identity());
    let count = CudaContext::device_count().map_err(failed)?;
    let uuid = |ordinal| sys::uuid(result::device::get_uuid(result::device::get(ordinal).ok()?).ok()?);
    let same = |uuid: Option<Uuid>| uuid.is_some() && uuid == device.identity().uuid;
    let by_uuid = (0..count).find(|ordinal| same(uuid(*ordinal))).and_then(|ordinal| usize::try_from(ordinal).ok());
    let ordinal = by_uuid.or(device.ordinal()).ok_or_else(|| {
        Error::new(ErrorKind::NoDevice, OPERATION, "cudarc has no device with this UUID").with_device(device.identity())
    })?;
    let context = CudaContext::new(ordinal).map_err(failed)?;
    check_same(OPERATION, device, &context)?;
    Ok(context)
}

fn check_primary(operation: &'static str, context: &CudaContext) -> Result<()> {
    if context.is_primary() {
        return Ok(());
    }
    let message = "the context is not the primary one of its device, where memory is imported; use one of \
                   `CudaContext::new` or `gpu_interop::cudarc::context_of`";
    Err(Error::invalid(operation, message).with_context("cudarc's ordinal", context.ordinal()))
}

fn not_cuda(operation: &'static str, device: &Device) -> Error {
    Error::unsupported(operation, "cudarc works with devices of the CUDA backend only")
        .with_backend(&device.backend().name)
        .with_device(device.identity())
}

/// Checks that the device and cudarc use the same context of the same library.
pub(super) fn check_same(operation: &'static str, device: &Device, context: &CudaContext) -> Result<()> {
    let own = device.context().ok_or_else(|| not_cuda(operation, device))?;
    if own.get() == context.cu_ctx().addr() {
        return Ok(());
    }
    check_primary(operation, context).map_err(|error| error.with_device(device.identity()))?;
    let message = "the context of cudarc is not the device's: it belongs to another GPU, or cudarc has loaded another \
                   driver (it looks for libcuda.so first; gpu-interop's file is below)";
    let library = device.backend().library.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    Err(Error::new(ErrorKind::DeviceMismatch, operation, message)
        .with_device(device.identity())
        .with_context("cudarc's ordinal", context.ordinal())
        .with_context("library", library))
}
