//! Contexts, streams and memory of NVIDIA's crate `cuda-core`, shared with gpu-interop.

use std::sync::Arc;

use cuda_core::sys::CUdeviceptr;
use cuda_core::{Context, DeviceAllocation, DeviceBuffer, DeviceCopy, RawDeviceBuffer};
use gpu_interop::backend::RawStream;
use gpu_interop::cuda::CudaBackend;
use gpu_interop::{Device, DeviceIdentity, Error, ErrorKind, MappedBuffer, Stream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Opens the GPU that exported the memory, and its primary context in cuda-core. Each retains that context itself.
pub fn open(exporter: &DeviceIdentity) -> Result<(Device, Arc<Context>)> {
    let device = Device::open_matching(&CudaBackend::load()?, exporter)?;
    let context = Context::new(device.ordinal().ok_or("the device has no number")?)?;
    check_same(&device, &context)?;
    Ok((device, context))
}

/// Opens the device of a context.
pub fn device_of(context: &Context) -> Result<Device> {
    let device = Device::open(&CudaBackend::load()?, context.ordinal())?;
    check_same(&device, context)?;
    Ok(device)
}

/// Both libraries must use one context of one driver library.
fn check_same(device: &Device, context: &Context) -> gpu_interop::Result<()> {
    if device.context().is_some_and(|own| own.get() == context.cu_ctx().addr()) {
        return Ok(());
    }
    let message = "cuda-core's context is not the device's primary one, or is of another driver library";
    Err(Error::new(ErrorKind::DeviceMismatch, "cuda-core", message).with_device(device.identity()))
}

/// Makes a stream of cuda-core a stream of gpu-interop, which keeps it.
///
/// # Safety
/// No graph is captured on the stream while the returned stream, or an object that was used on it, exists.
pub unsafe fn share_stream(device: &Device, stream: &Arc<cuda_core::Stream>) -> Result<Stream> {
    check_same(device, stream.context())?;
    let raw = RawStream::new(stream.cu_stream().addr());
    // SAFETY: the stream is of the device's context, which was compared, and the `Arc` keeps it.
    unsafe { device.check_raw_stream("share_stream", raw, "share one that the context has created") }?;
    // SAFETY: as above. The owner has a stream and a context of cuda-core, and no object of gpu-interop. The caller
    // excludes captures.
    Ok(unsafe { device.stream_from_raw_with_owner(raw, stream.clone()) }?)
}

/// A mapping as an allocation of cuda-core, which never frees it.
struct Mapping {
    buffer: Arc<MappedBuffer>,
    context: Arc<Context>,
    size: usize,
}

// SAFETY: the mapping has this address and size as long as the `Arc` lives. It was made in this context, which
// `share_buffer` has compared.
unsafe impl DeviceAllocation for Mapping {
    fn device_ptr(&self) -> CUdeviceptr {
        self.buffer.as_raw().get()
    }

    fn len_bytes(&self) -> usize {
        self.size
    }

    fn context(&self) -> Arc<Context> {
        self.context.clone()
    }
}

/// Makes a mapping a buffer of cuda-core. Once the buffer and its views are dropped, the mapping remains until the earlier
/// work of `stream` has completed: pass the shared stream.
///
/// # Safety
/// * The memory is initialised, and every bit pattern that either side writes is a `T`.
/// * Work of gpu-interop and of the exporter on this memory is ordered with cuda-core's: cuda-core tracks its own only.
pub unsafe fn share_buffer<T: DeviceCopy>(
    device: &Device,
    stream: &Stream,
    context: &Arc<Context>,
    buffer: Arc<MappedBuffer>,
) -> Result<DeviceBuffer<T>> {
    check_same(device, context)?;
    // The mapping is used on the stream from now on. Fails for a mapping of another device.
    stream.keep(&*buffer)?;
    if buffer.is_read_only() {
        return Err("the exporter allows reads only, and buffers of cuda-core are written, too".into());
    }
    let size = usize::try_from(buffer.size())?;
    let memory = RawDeviceBuffer::foreign(Arc::new(Mapping { buffer, context: context.clone(), size }), size);
    // SAFETY: the caller's promise. The function checks the alignment, and that the size is a multiple of that of `T`.
    Ok(unsafe { DeviceBuffer::from_storage_copy(memory, size / size_of::<T>().max(1)) }?)
}
