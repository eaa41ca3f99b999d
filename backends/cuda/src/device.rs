//! One device: each method is one or two driver calls.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpu_interop_core::backend::{
    ArrayCopy, ExportableAllocation, HostFunction, RawAllocation, RawArray, RawEvent, RawKernel, RawMemory,
    RawMipmappedArray, RawModule, RawSemaphore, RawSignal, RawStream, RawSurface, RawTexture, RawWait, TextureSource,
};
use gpu_interop_core::{
    BackendDevice, Capabilities, DeviceIdentity, DevicePtr, Error, KernelArg, LaunchConfig, MemoryHandle, MemoryImport,
    MipmappedArrayDesc, ModuleImage, Result, SemaphoreImport, TextureDesc, WaitCondition,
};
use gpu_interop_driver::abi::{MemoryBufferDesc, MemoryHandleDesc, SemaphoreHandleDesc};
use gpu_interop_driver::{with_signals, with_waits};

use crate::arguments::{count, kernel_arguments, module_data, no_number, object, wait_flags};
use crate::array;
use crate::capabilities;
use crate::context::{Bound, PrimaryContext};
use crate::driver::Driver;
use crate::exportable::{Allocation, function};
use crate::image;
use crate::sys::{self, CuResult, EVENT_DISABLE_TIMING, Functions, Handle, STREAM_NON_BLOCKING};

#[derive(Debug)]
pub(crate) struct CudaDevice {
    context: Arc<PrimaryContext>,
    device: sys::Device,
    identity: DeviceIdentity,
    capabilities: Capabilities,
    /// Exportable allocations by their first address.
    allocations: Mutex<HashMap<usize, Allocation>>,
}

impl CudaDevice {
    pub(crate) fn open(driver: Arc<Driver>, device: sys::Device, identity: DeviceIdentity) -> Result<Self> {
        let capabilities = capabilities::of(&driver, device);
        let context = Arc::new(PrimaryContext::retain(driver, device)?);
        Ok(Self { context, device, identity, capabilities, allocations: Mutex::default() })
    }

    fn driver(&self) -> &Driver {
        &self.context.driver
    }

    /// The functions, with the context current while the second value lives.
    #[inline]
    fn enter(&self) -> Result<(&Functions, Bound<'_>)> {
        let bound = self.context.bind()?;
        Ok((&self.context.driver.functions, bound))
    }

    #[inline]
    fn check(&self, operation: &'static str, result: CuResult) -> Result<()> {
        self.context.driver.check(operation, result)
    }

    fn allocations(&self) -> MutexGuard<'_, HashMap<usize, Allocation>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs an import with a descriptor that the driver may close: on success it does, on failure it depends.
#[cfg(unix)]
fn with_fd(fd: Option<std::os::fd::BorrowedFd<'_>>, import: impl FnOnce(i32) -> Result<Handle>) -> Result<Handle> {
    use gpu_interop_core::handle::LentFd;
    let Some(fd) = fd else { return import(-1) };
    let loan = LentFd::new(fd)?;
    let imported = import(loan.as_raw_fd());
    match imported {
        Ok(_) => loan.consumed(),
        Err(_) => {
            loan.settle();
        }
    }
    imported
}

// SAFETY (of the unsafe methods below): the caller keeps the contract of `gpu_interop_core::backend`: raw values are
// live, came from this device and are freed once; ranges are valid until the enqueued work has run. Out pointers are
// valid for the call they are passed to.
impl BackendDevice for CudaDevice {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        const OPERATION: &str = "cuImportExternalMemory";
        let (_, _bound) = self.enter()?;
        let import_memory = function!(self.driver(), import_external_memory)?;
        let import = |fd| {
            let desc = MemoryHandleDesc::new(request, fd).ok_or_else(|| no_number(OPERATION))?;
            let mut memory = 0;
            // SAFETY: the descriptor is complete, and borrows from the request for the call.
            let result = unsafe { import_memory(&raw mut memory, &raw const desc) };
            self.driver().check_import(OPERATION, result)?;
            Driver::not_null(OPERATION, memory)
        };
        #[cfg(unix)]
        let memory = with_fd(request.handle().as_fd(), import);
        #[cfg(not(unix))]
        let memory = import(-1);
        memory.map(RawMemory::new)
    }

    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let destroy = function!(self.driver(), destroy_external_memory)?;
        // SAFETY: live and freed once, by contract.
        self.check("cuDestroyExternalMemory", unsafe { destroy(memory.get()) })
    }

    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
        const OPERATION: &str = "cuExternalMemoryGetMappedBuffer";
        let (_, _bound) = self.enter()?;
        let map = function!(self.driver(), get_mapped_buffer)?;
        let desc = MemoryBufferDesc::new(offset, size);
        let mut address = 0;
        // SAFETY: live, and the range is inside it, by contract.
        let result = unsafe { map(&raw mut address, memory.get(), &raw const desc) };
        self.check(OPERATION, result)?;
        let address = usize::try_from(address).unwrap_or(0);
        Driver::not_null(OPERATION, address).map(|address| DevicePtr::new(address as u64))
    }

    unsafe fn free_buffer(&self, buffer: DevicePtr) -> Result<()> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: mapped by `map_buffer` and freed once, by contract.
        self.check("cuMemFree", unsafe { (functions.mem_free)(buffer.get()) })
    }

    unsafe fn map_mipmapped_array(&self, memory: RawMemory, desc: &MipmappedArrayDesc) -> Result<RawMipmappedArray> {
        const OPERATION: &str = "cuExternalMemoryGetMappedMipmappedArray";
        let (_, _bound) = self.enter()?;
        let map = function!(self.driver(), get_mapped_mipmapped_array)?;
        let desc = image::encode(desc)?;
        let mut array = 0;
        // SAFETY: live, and the description was validated, by contract.
        let result = unsafe { map(&raw mut array, memory.get(), &raw const desc) };
        self.check(OPERATION, result)?;
        Driver::not_null(OPERATION, array).map(RawMipmappedArray::new)
    }

    unsafe fn mipmapped_array_level(&self, array: RawMipmappedArray, level: u32) -> Result<RawArray> {
        const OPERATION: &str = "cuMipmappedArrayGetLevel";
        let (_, _bound) = self.enter()?;
        let get_level = function!(self.driver(), mipmapped_array_get_level)?;
        let mut raw = 0;
        // SAFETY: live, by contract.
        self.check(OPERATION, unsafe { get_level(&raw mut raw, array.get(), level) })?;
        Driver::not_null(OPERATION, raw).map(RawArray::new)
    }

    unsafe fn free_mipmapped_array(&self, array: RawMipmappedArray) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let destroy = function!(self.driver(), mipmapped_array_destroy)?;
        // SAFETY: live and freed once, by contract.
        self.check("cuMipmappedArrayDestroy", unsafe { destroy(array.get()) })
    }

    unsafe fn create_surface(&self, array: RawArray) -> Result<RawSurface> {
        const OPERATION: &str = "cuSurfObjectCreate";
        let (_, _bound) = self.enter()?;
        let create = function!(self.driver(), surface_create)?;
        let resource = array::resource(TextureSource::Array(array));
        let mut surface = 0;
        // SAFETY: the array is live and was mapped for surfaces, by contract.
        self.check(OPERATION, unsafe { create(&raw mut surface, &raw const resource) })?;
        object(OPERATION, surface).map(RawSurface::new)
    }

    unsafe fn destroy_surface(&self, surface: RawSurface) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let destroy = function!(self.driver(), surface_destroy)?;
        // SAFETY: live and freed once, by contract.
        self.check("cuSurfObjectDestroy", unsafe { destroy(surface.get() as u64) })
    }

    unsafe fn create_texture(&self, source: TextureSource, desc: &TextureDesc) -> Result<RawTexture> {
        const OPERATION: &str = "cuTexObjectCreate";
        let (_, _bound) = self.enter()?;
        let create = function!(self.driver(), texture_create)?;
        let (resource, desc) = (array::resource(source), array::texture(source, desc)?);
        let mut texture = 0;
        // SAFETY: the array is live and the description fits it, by contract. A view is optional.
        let result = unsafe { create(&raw mut texture, &raw const resource, &raw const desc, std::ptr::null()) };
        self.check(OPERATION, result)?;
        object(OPERATION, texture).map(RawTexture::new)
    }

    unsafe fn destroy_texture(&self, texture: RawTexture) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let destroy = function!(self.driver(), texture_destroy)?;
        // SAFETY: live and freed once, by contract.
        self.check("cuTexObjectDestroy", unsafe { destroy(texture.get() as u64) })
    }

    fn create_exportable(&self, size: u64) -> Result<ExportableAllocation> {
        let (_, _bound) = self.enter()?;
        let allocation = Allocation::new(&self.context, self.device, size)?;
        let (ptr, size) = (DevicePtr::new(allocation.address()), allocation.size());
        let key = count("cuMemAddressReserve", ptr.get())?;
        self.allocations().insert(key, allocation);
        Ok(ExportableAllocation { raw: RawAllocation::new(key), ptr, size })
    }

    unsafe fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        let (_, _bound) = self.enter()?;
        match self.allocations().get(&allocation.raw.get()) {
            Some(allocation) => allocation.export(),
            None => Err(Error::invalid("cuMemExportToShareableHandle", "there is no such allocation")),
        }
    }

    unsafe fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let removed = self.allocations().remove(&allocation.raw.get());
        removed.map(drop).ok_or_else(|| Error::invalid("cuMemRelease", "there is no such allocation"))
    }

    unsafe fn import_semaphore(&self, request: &SemaphoreImport) -> Result<RawSemaphore> {
        const OPERATION: &str = "cuImportExternalSemaphore";
        let (_, _bound) = self.enter()?;
        let import_semaphore = function!(self.driver(), import_external_semaphore)?;
        let import = |fd| {
            let desc = SemaphoreHandleDesc::new(request.handle(), fd).ok_or_else(|| no_number(OPERATION))?;
            let mut semaphore = 0;
            // SAFETY: the descriptor is complete, and borrows from the request for the call.
            let result = unsafe { import_semaphore(&raw mut semaphore, &raw const desc) };
            self.driver().check_import(OPERATION, result)?;
            Driver::not_null(OPERATION, semaphore)
        };
        #[cfg(unix)]
        let semaphore = with_fd(request.handle().as_fd(), import);
        #[cfg(not(unix))]
        let semaphore = import(-1);
        semaphore.map(RawSemaphore::new)
    }

    unsafe fn destroy_semaphore(&self, semaphore: RawSemaphore) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let destroy = function!(self.driver(), destroy_external_semaphore)?;
        // SAFETY: live and freed once, by contract.
        self.check("cuDestroyExternalSemaphore", unsafe { destroy(semaphore.get()) })
    }

    unsafe fn signal_semaphores(&self, stream: RawStream, signals: &[RawSignal]) -> Result<()> {
        const OPERATION: &str = "cuSignalExternalSemaphoresAsync";
        let (_, _bound) = self.enter()?;
        let signal = function!(self.driver(), signal_external_semaphores)?;
        // SAFETY: both arrays have this many elements during the call; stream and semaphores are live, by contract.
        let result = with_signals(OPERATION, signals, |semaphores, params, count| unsafe {
            signal(semaphores, params, count, stream.get())
        })?;
        self.check(OPERATION, result)
    }

    unsafe fn wait_semaphores(&self, stream: RawStream, waits: &[RawWait]) -> Result<()> {
        const OPERATION: &str = "cuWaitExternalSemaphoresAsync";
        let (_, _bound) = self.enter()?;
        let wait = function!(self.driver(), wait_external_semaphores)?;
        // SAFETY: as in `signal_semaphores`.
        let result = with_waits(OPERATION, waits, |semaphores, params, count| unsafe {
            wait(semaphores, params, count, stream.get())
        })?;
        self.check(OPERATION, result)
    }

    fn create_stream(&self) -> Result<RawStream> {
        const OPERATION: &str = "cuStreamCreate";
        let (functions, _bound) = self.enter()?;
        let mut stream = 0;
        // SAFETY: the pointer is valid for the call.
        self.check(OPERATION, unsafe { (functions.stream_create)(&raw mut stream, STREAM_NON_BLOCKING) })?;
        Driver::not_null(OPERATION, stream).map(RawStream::new)
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: live and freed once, by contract.
        self.check("cuStreamDestroy", unsafe { (functions.stream_destroy)(stream.get()) })
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: live, by contract.
        self.check("cuStreamSynchronize", unsafe { (functions.stream_synchronize)(stream.get()) })
    }

    unsafe fn query_stream(&self, stream: RawStream) -> Result<bool> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: live, by contract.
        match unsafe { (functions.stream_query)(stream.get()) } {
            CuResult::NOT_READY => Ok(false),
            result => self.check("cuStreamQuery", result).map(|()| true),
        }
    }

    fn create_event(&self) -> Result<RawEvent> {
        const OPERATION: &str = "cuEventCreate";
        let (functions, _bound) = self.enter()?;
        let mut event = 0;
        // SAFETY: the pointer is valid for the call.
        self.check(OPERATION, unsafe { (functions.event_create)(&raw mut event, EVENT_DISABLE_TIMING) })?;
        Driver::not_null(OPERATION, event).map(RawEvent::new)
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> Result<()> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: live and freed once, by contract. The driver keeps a pending event's resources until it has passed.
        self.check("cuEventDestroy", unsafe { (functions.event_destroy)(event.get()) })
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: live, by contract.
        self.check("cuEventRecord", unsafe { (functions.event_record)(event.get(), stream.get()) })
    }

    unsafe fn query_event(&self, event: RawEvent) -> Result<bool> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: live, by contract.
        match unsafe { (functions.event_query)(event.get()) } {
            CuResult::NOT_READY => Ok(false),
            result => self.check("cuEventQuery", result).map(|()| true),
        }
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let (functions, _bound) = self.enter()?;
        // SAFETY: live, by contract.
        self.check("cuStreamWaitEvent", unsafe { (functions.stream_wait_event)(stream.get(), event.get(), 0) })
    }

    unsafe fn copy(&self, stream: RawStream, target: DevicePtr, source: DevicePtr, size: u64) -> Result<()> {
        const OPERATION: &str = "cuMemcpyDtoDAsync";
        let (functions, _bound) = self.enter()?;
        let size = count(OPERATION, size)?;
        // SAFETY: live, of this size and disjoint, by contract.
        let result = unsafe { (functions.memcpy_dtod_async)(target.get(), source.get(), size, stream.get()) };
        self.check(OPERATION, result)
    }

    unsafe fn copy_to_host(&self, stream: RawStream, target: *mut u8, source: DevicePtr, size: u64) -> Result<()> {
        const OPERATION: &str = "cuMemcpyDtoHAsync";
        let (functions, _bound) = self.enter()?;
        let size = count(OPERATION, size)?;
        // SAFETY: live and of this size until the copy has run, by contract.
        let result = unsafe { (functions.memcpy_dtoh_async)(target.cast(), source.get(), size, stream.get()) };
        self.check(OPERATION, result)
    }

    unsafe fn copy_from_host(&self, stream: RawStream, target: DevicePtr, source: *const u8, size: u64) -> Result<()> {
        const OPERATION: &str = "cuMemcpyHtoDAsync";
        let (functions, _bound) = self.enter()?;
        let size = count(OPERATION, size)?;
        // SAFETY: live and of this size until the copy has run, by contract.
        let result = unsafe { (functions.memcpy_htod_async)(target.get(), source.cast(), size, stream.get()) };
        self.check(OPERATION, result)
    }

    unsafe fn copy_array(&self, stream: RawStream, copy: &ArrayCopy) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let memcpy = function!(self.driver(), memcpy_3d_async)?;
        let desc = array::copy(copy)?;
        // SAFETY: both sides are live and hold the extent until the copy has run, by contract.
        self.check("cuMemcpy3DAsync", unsafe { memcpy(&raw const desc, stream.get()) })
    }

    unsafe fn fill_u8(&self, stream: RawStream, target: DevicePtr, value: u8, size: u64) -> Result<()> {
        const OPERATION: &str = "cuMemsetD8Async";
        let (functions, _bound) = self.enter()?;
        let size = count(OPERATION, size)?;
        // SAFETY: live and of this size, by contract.
        let result = unsafe { (functions.memset_d8_async)(target.get(), value, size, stream.get()) };
        self.check(OPERATION, result)
    }

    unsafe fn fill_u32(&self, stream: RawStream, target: DevicePtr, value: u32, words: u64) -> Result<()> {
        const OPERATION: &str = "cuMemsetD32Async";
        let (functions, _bound) = self.enter()?;
        let words = count(OPERATION, words)?;
        // SAFETY: live, aligned and of this size, by contract.
        let result = unsafe { (functions.memset_d32_async)(target.get(), value, words, stream.get()) };
        self.check(OPERATION, result)
    }

    unsafe fn wait_value_u32(
        &self,
        stream: RawStream,
        word: DevicePtr,
        value: u32,
        condition: WaitCondition,
    ) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let wait = function!(self.driver(), stream_wait_value_32)?;
        // SAFETY: live and aligned, by contract.
        let result = unsafe { wait(stream.get(), word.get(), value, wait_flags(condition)) };
        self.check("cuStreamWaitValue32", result)
    }

    unsafe fn wait_value_u64(
        &self,
        stream: RawStream,
        word: DevicePtr,
        value: u64,
        condition: WaitCondition,
    ) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let wait = function!(self.driver(), stream_wait_value_64)?;
        // SAFETY: live and aligned, by contract.
        let result = unsafe { wait(stream.get(), word.get(), value, wait_flags(condition)) };
        self.check("cuStreamWaitValue64", result)
    }

    unsafe fn write_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let write = function!(self.driver(), stream_write_value_32)?;
        // SAFETY: live and aligned, by contract.
        self.check("cuStreamWriteValue32", unsafe { write(stream.get(), word.get(), value, 0) })
    }

    unsafe fn write_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let write = function!(self.driver(), stream_write_value_64)?;
        // SAFETY: live and aligned, by contract.
        self.check("cuStreamWriteValue64", unsafe { write(stream.get(), word.get(), value, 0) })
    }

    unsafe fn launch_host_function(&self, stream: RawStream, function: HostFunction, data: *mut c_void) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let launch = function!(self.driver(), launch_host_func)?;
        // SAFETY: live, and the function fits its data and does not unwind, by contract.
        self.check("cuLaunchHostFunc", unsafe { launch(stream.get(), function, data) })
    }

    fn load_module(&self, image: ModuleImage<'_>) -> Result<RawModule> {
        const OPERATION: &str = "cuModuleLoadData";
        let (_, _bound) = self.enter()?;
        let load = function!(self.driver(), module_load_data)?;
        let data = module_data(OPERATION, image)?;
        let mut module = 0;
        // SAFETY: PTX has a NUL; whoever wrapped a compiled image vouched for it.
        self.check(OPERATION, unsafe { load(&raw mut module, data) })?;
        Driver::not_null(OPERATION, module).map(RawModule::new)
    }

    unsafe fn unload_module(&self, module: RawModule) -> Result<()> {
        let (_, _bound) = self.enter()?;
        let unload = function!(self.driver(), module_unload)?;
        // SAFETY: live and freed once, by contract.
        self.check("cuModuleUnload", unsafe { unload(module.get()) })
    }

    unsafe fn module_kernel(&self, module: RawModule, name: &CStr) -> Result<RawKernel> {
        const OPERATION: &str = "cuModuleGetFunction";
        let (_, _bound) = self.enter()?;
        let get = function!(self.driver(), module_get_function)?;
        let mut kernel = 0;
        // SAFETY: live, by contract.
        self.check(OPERATION, unsafe { get(&raw mut kernel, module.get(), name.as_ptr()) })?;
        Driver::not_null(OPERATION, kernel).map(RawKernel::new)
    }

    unsafe fn launch_kernel(
        &self,
        stream: RawStream,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg],
    ) -> Result<()> {
        const OPERATION: &str = "cuLaunchKernel";
        let (_, _bound) = self.enter()?;
        let launch = function!(self.driver(), launch_kernel)?;
        let mut pointers = kernel_arguments(OPERATION, args)?;
        let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
        // SAFETY: live, by contract; the arguments are copied during the call and only read.
        let result = unsafe {
            launch(
                kernel.get(),
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                config.shared_bytes,
                stream.get(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.check(OPERATION, result)
    }
}
