//! [`BackendDevice`] of a vendor's device. Most methods are one or two driver calls.

use std::ffi::{CStr, c_void};
use std::sync::atomic::Ordering;

use gpu_interop_core::backend::{
    ArrayCopy, ExportableAllocation, HostFunction, RawArray, RawContext, RawEvent, RawGraph, RawGraphNode, RawKernel,
    RawMemory, RawMipmappedArray, RawModule, RawSemaphore, RawSignal, RawStream, RawSurface, RawTexture, RawWait,
    SemaphoreBlocks, SignalMemory, TextureSource,
};
use gpu_interop_core::handle::NvSciSyncAttrList;
use gpu_interop_core::{
    BackendDevice, Capabilities, DeviceIdentity, DevicePtr, Error, KernelArg, LaunchConfig, MemoryHandle, MemoryImport,
    MipmappedArrayDesc, ModuleImage, NvSciSyncUse, Result, SemaphoreImport, TextureDesc, WaitCondition,
};

use super::VendorDevice;
use crate::array::Memcpy3d;
use crate::batch::{self, one_call, with_signals, with_waits};
use crate::call::call;
use crate::call::{count, kernel_arguments, number};
use crate::driver::not_null;
use crate::driver::{CallPurpose, Vendor, WordWait};
use crate::graph;
use crate::import;
use crate::progress;
use crate::signal_memory;
use crate::signal_memory::Value;
use crate::texture;
use crate::trace::DriverFunction;

// SAFETY: the drivers document the trait's contract: pinned memory lives until it is freed, a query returns success
// once the work has completed, and only codes of a lost context become `DeviceLost`. In the unsafe methods the caller
// keeps the contract of `gpu_interop_core::backend`: raw values are live, came from this device and are freed once;
// ranges are valid until the enqueued work has completed. Out pointers are valid for the call they are passed to. The
// table has the types of the vendor's header.
unsafe impl<V: Vendor> BackendDevice for VendorDevice<V> {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn context(&self) -> Option<RawContext> {
        self.context.handle().map(RawContext::new)
    }

    fn architecture(&self) -> Option<&str> {
        self.architecture.as_deref()
    }

    fn frees_wait_for_streams(&self) -> bool {
        V::FREES_WAIT_FOR_STREAMS
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        self.import(request)
    }

    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()> {
        // SAFETY: live and freed once, and no range of it is in use, by contract.
        unsafe { self.end_import(memory) }
    }

    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
        // SAFETY: live, and the range is inside it, by contract.
        unsafe { self.map(memory, offset, size) }
    }

    unsafe fn free_buffer(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()> {
        // SAFETY: mapped by `map_buffer` and freed once, by contract.
        unsafe { self.unmap(memory, buffer) }
    }

    unsafe fn map_mipmapped_array(&self, memory: RawMemory, desc: &MipmappedArrayDesc) -> Result<RawMipmappedArray> {
        if self.native(memory).is_some() {
            let operation = self.context.driver.functions.get_mapped_mipmapped_array.operation;
            return Err(Error::unsupported(
                operation,
                "images cannot be mapped from native imports; import the memory without `native`",
            ));
        }
        let desc = V::image_desc(self.context.driver.functions.get_mapped_mipmapped_array.operation, desc)?;
        let desc = (&raw const desc).cast();
        // SAFETY: live, and the description, which is of the vendor's type, was validated, by contract.
        let (array, operation) = unsafe { create!(self.get_mapped_mipmapped_array(memory.get(), desc)) }?;
        not_null(operation, array).map(RawMipmappedArray::new)
    }

    unsafe fn mipmapped_array_level(&self, array: RawMipmappedArray, level: u32) -> Result<RawArray> {
        let get = || {
            // SAFETY: live, by contract.
            let (array, operation) = unsafe { create!(self.mipmapped_array_get_level(array.get(), level)) }?;
            not_null(operation, array)
        };
        if V::LEVELS_OWNED_SEPARATELY { self.levels.get(array, level, get) } else { get() }.map(RawArray::new)
    }

    unsafe fn free_mipmapped_array(&self, array: RawMipmappedArray) -> Result<()> {
        let levels = self.levels.remove(array);
        let (driver, _current) = self.context.enter()?;
        // SAFETY: the arrays are not used afterwards, by contract; the device is current.
        unsafe { levels.destroy(driver) };
        // SAFETY: live and freed once, by contract.
        unsafe { call!(driver.mipmapped_array_destroy(array.get())) }
    }

    unsafe fn create_surface(&self, array: RawArray) -> Result<RawSurface> {
        let resource = texture::resource(TextureSource::Array(array));
        // SAFETY: the array is live and was mapped for surfaces, by contract.
        let (surface, operation) = unsafe { create!(self.surface_create(&raw const resource)) }?;
        number(operation, surface).map(RawSurface::new)
    }

    unsafe fn destroy_surface(&self, surface: RawSurface) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        unsafe { current!(self.enter().surface_destroy(surface.get() as u64)) }
    }

    unsafe fn create_texture(&self, src: TextureSource, desc: &TextureDesc) -> Result<RawTexture> {
        let resource = texture::resource(src);
        let desc = texture::sampling(self.context.driver.functions.texture_create.operation, src, desc)?;
        let no_view = std::ptr::null();
        // SAFETY: the array is live and the description fits it, by contract. A view is optional.
        let created = unsafe { create!(self.texture_create(&raw const resource, &raw const desc, no_view)) };
        let (texture, operation) = created?;
        number(operation, texture).map(RawTexture::new)
    }

    unsafe fn destroy_texture(&self, texture: RawTexture) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        unsafe { current!(self.enter().texture_destroy(texture.get() as u64)) }
    }

    fn create_exportable(&self, size: u64) -> Result<ExportableAllocation> {
        self.allocate(size)
    }

    unsafe fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        self.export(allocation.raw)
    }

    unsafe fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()> {
        self.free_allocation(allocation.raw)
    }

    unsafe fn import_semaphore(&self, request: &SemaphoreImport) -> Result<RawSemaphore> {
        let (driver, _current) = self.context.enter()?;
        import::semaphore(driver, request).map(RawSemaphore::new)
    }

    unsafe fn destroy_semaphore(&self, semaphore: RawSemaphore) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        unsafe { current!(self.enter().destroy_external_semaphore(semaphore.get())) }
    }

    unsafe fn fill_nv_sci_sync_attributes(&self, list: NvSciSyncAttrList, uses: NvSciSyncUse) -> Result<()> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: valid and not used concurrently, by contract; the device is current.
        unsafe { V::fill_nv_sci_sync_attributes(driver, self.context.device, list, uses) }
    }

    unsafe fn signal_semaphores(&self, stream: RawStream, signals: &[RawSignal]) -> Result<()> {
        let driver = &*self.context.driver;
        let entry = &driver.functions.signal_external_semaphores;
        let signal = entry.require(&driver.version)?;
        one_call(entry.operation, signals.len(), V::semaphores_per_call(driver))?;
        // SAFETY: live, by contract.
        unsafe { self.fence_fills(stream) }?;
        with_signals(entry.operation, signals, |semaphores, params, count| {
            // SAFETY: both arrays have this many elements during the call; stream and semaphores are live, by contract.
            unsafe { self.context.enqueue(entry.operation, stream, signal, semaphores, params, count) }
        })?
    }

    unsafe fn wait_semaphores(&self, stream: RawStream, waits: &[RawWait]) -> Result<()> {
        let driver = &*self.context.driver;
        let entry = &driver.functions.wait_external_semaphores;
        let wait = entry.require(&driver.version)?;
        one_call(entry.operation, waits.len(), V::semaphores_per_call(driver))?;
        with_waits(entry.operation, waits, |semaphores, params, count| {
            // SAFETY: as in `signal_semaphores`.
            unsafe { self.context.enqueue(entry.operation, stream, wait, semaphores, params, count) }
        })?
    }

    fn semaphore_blocks(&self) -> Option<SemaphoreBlocks> {
        Some(batch::BLOCKS)
    }

    unsafe fn signal_blocks(&self, stream: RawStream, semaphores: &[RawSemaphore], blocks: &[u64]) -> Result<()> {
        let driver = &*self.context.driver;
        let entry = &driver.functions.signal_external_semaphores;
        let signal = entry.require(&driver.version)?;
        let count = batch::prepared(entry.operation, semaphores.len(), V::semaphores_per_call(driver))?;
        // SAFETY: live, by contract.
        unsafe { self.fence_fills(stream) }?;
        let (semaphores, params) = (semaphores.as_ptr().cast(), blocks.as_ptr().cast());
        // SAFETY: both arrays have `count` elements during the call, the blocks in the layout of `BLOCKS`; stream and
        // semaphores are live, by contract.
        unsafe { self.context.enqueue(entry.operation, stream, signal, semaphores, params, count) }
    }

    unsafe fn wait_blocks(&self, stream: RawStream, semaphores: &[RawSemaphore], blocks: &[u64]) -> Result<()> {
        let driver = &*self.context.driver;
        let entry = &driver.functions.wait_external_semaphores;
        let wait = entry.require(&driver.version)?;
        let count = batch::prepared(entry.operation, semaphores.len(), V::semaphores_per_call(driver))?;
        let (semaphores, params) = (semaphores.as_ptr().cast(), blocks.as_ptr().cast());
        // SAFETY: as in `signal_blocks`.
        unsafe { self.context.enqueue(entry.operation, stream, wait, semaphores, params, count) }
    }

    fn create_stream(&self) -> Result<RawStream> {
        let (driver, _current) = self.context.enter()?;
        V::create_stream(driver, self.context.device, || driver.create_stream()).map(RawStream::new)
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        self.unfenced.forget(stream.get());
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live and freed once, by contract; the device is current.
        unsafe { V::end_stream(driver, self.context.device, stream.get()) }
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live, by contract; the device is current.
        unsafe { progress::synchronize(driver, stream.get()) }
    }

    unsafe fn query_stream(&self, stream: RawStream) -> Result<bool> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live, by contract; the device is current.
        unsafe { driver.is_idle(stream.get()) }
    }

    fn create_event(&self) -> Result<RawEvent> {
        let (driver, _current) = self.context.enter()?;
        driver.create_event().map(RawEvent::new)
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> Result<()> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live and freed once, by contract; the device is current.
        unsafe { driver.destroy_event(event.get()) }
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        let (driver, _current) = self.context.enter_to_enqueue()?;
        // SAFETY: live, by contract; the device is current.
        unsafe { driver.record_event(event.get(), stream.get()) }
    }

    unsafe fn query_event(&self, event: RawEvent) -> Result<bool> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live, by contract; the device is current.
        unsafe { driver.has_passed(event.get()) }
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let (driver, _current) = self.context.enter_to_enqueue()?;
        // SAFETY: live, by contract; the device is current.
        unsafe { driver.wait_event(stream.get(), event.get()) }
    }

    unsafe fn copy(&self, stream: RawStream, dst: DevicePtr, src: DevicePtr, size: u64) -> Result<()> {
        let (dst, src) = (dst.get(), src.get());
        // SAFETY: live, of this size and disjoint, by contract.
        unsafe {
            current!(self.enter_to_enqueue().memcpy_dtod_async | name | (dst, src, count(name, size)?, stream.get()))
        }
    }

    unsafe fn copy_to_host(&self, stream: RawStream, dst: *mut u8, src: DevicePtr, size: u64) -> Result<()> {
        let (dst, src) = (dst.cast(), src.get());
        // SAFETY: live and of this size until the copy has completed, by contract.
        unsafe { current!(self.enter().memcpy_dtoh_async | name | (dst, src, count(name, size)?, stream.get())) }
    }

    unsafe fn copy_from_host(&self, stream: RawStream, dst: DevicePtr, src: *const u8, size: u64) -> Result<()> {
        let (dst, src) = (dst.get(), src.cast());
        // SAFETY: live and of this size until the copy has completed, by contract.
        unsafe { current!(self.enter().memcpy_htod_async | name | (dst, src, count(name, size)?, stream.get())) }
    }

    unsafe fn copy_array(&self, stream: RawStream, copy: &ArrayCopy) -> Result<()> {
        let operation = self.context.driver.functions.memcpy_3d_async.operation;
        let desc = Memcpy3d::<V::CopyReserved>::new(operation, copy, V::MEMORY_TYPE_ARRAY)?;
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live, by contract; the device is current.
        unsafe { graph::check_array_copy(driver, operation, stream) }?;
        // SAFETY: both sides are live and hold the extent until the copy has completed, by contract; `desc` has the
        // vendor's type.
        unsafe { call!(driver.memcpy_3d_async((&raw const desc).cast(), stream.get())) }
    }

    unsafe fn fill_u8(&self, stream: RawStream, dst: DevicePtr, value: u8, size: u64) -> Result<()> {
        if let Some(values) = &self.copied_fills {
            let (driver, _current) = self.context.enter_to_enqueue()?;
            let size = count(driver.functions.memcpy_dtod_async.operation, size)?;
            // SAFETY: live and of this size, by contract; the device is current.
            return unsafe { values.fill(driver, stream.get(), dst.get(), value, size) };
        }
        // SAFETY: live and of this size, by contract.
        let enqueue = || unsafe {
            current!(
                self.enter_to_enqueue().memset_d8_async | name | (dst.get(), value, count(name, size)?, stream.get())
            )
        };
        let enqueued = enqueue();
        self.note_fill(stream, size);
        enqueued
    }

    unsafe fn fill_u32(&self, stream: RawStream, dst: DevicePtr, value: u32, words: u64) -> Result<()> {
        let [byte, others @ ..] = value.to_ne_bytes();
        if self.copied_fills.is_some() && others == [byte; 3] {
            // SAFETY: the caller's promise.
            return unsafe { self.fill_u8(stream, dst, byte, words.saturating_mul(4)) };
        }
        // SAFETY: live, aligned and of this size, by contract.
        let enqueue = || unsafe {
            current!(
                self.enter_to_enqueue().memset_d32_async | name | (dst.get(), value, count(name, words)?, stream.get())
            )
        };
        let enqueued = enqueue();
        self.note_fill(stream, words.saturating_mul(4));
        enqueued
    }

    unsafe fn wait_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32, when: WaitCondition) -> Result<()> {
        let (driver, _current) = self.context.enter_to_enqueue()?;
        // SAFETY: live and aligned, by contract; the device is current.
        unsafe { V::wait_value_u32(driver, WordWait::new(stream, word, value, when)) }
    }

    unsafe fn wait_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64, when: WaitCondition) -> Result<()> {
        let (driver, _current) = self.context.enter_to_enqueue()?;
        // SAFETY: as in `wait_value_u32`.
        unsafe { V::wait_value_u64(driver, WordWait::new(stream, word, value, when)) }
    }

    unsafe fn write_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32) -> Result<()> {
        // SAFETY: live and aligned, by contract.
        unsafe { self.write_value(stream, word, Value::Narrow(value)) }
    }

    unsafe fn write_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64) -> Result<()> {
        // SAFETY: live and aligned, by contract.
        unsafe { self.write_value(stream, word, Value::Wide(value)) }
    }

    fn allocate_signal_memory(&self) -> Result<SignalMemory> {
        let (driver, _current) = self.context.enter()?;
        let memory = V::allocate_signal_memory(driver)?.map_or_else(|| self.spare.allocate(driver), Ok)?;
        Ok(self.host_words.add(memory))
    }

    unsafe fn free_signal_memory(&self, memory: SignalMemory) -> Result<()> {
        self.host_words.remove(memory);
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live and freed once, by contract; the device is current.
        unsafe { V::free_signal_memory(driver, memory).unwrap_or_else(|| signal_memory::free(driver, memory)) }
    }

    unsafe fn launch_host_function(&self, stream: RawStream, function: HostFunction, data: *mut c_void) -> Result<()> {
        // SAFETY: the stream is live, and the function accepts `data` and does not unwind, by contract.
        unsafe { current!(self.enter().launch_host_func(stream.get(), function, data)) }
    }

    fn load_module(&self, image: ModuleImage<'_>) -> Result<RawModule> {
        let operation = self.context.driver.functions.module_load_data.operation;
        let data = V::module_data(image).ok_or_else(|| Error::unsupported(operation, V::MODULES))?;
        if let ModuleImage::Binary(image) = image {
            V::check_image(operation, image.bytes())?;
        }
        // SAFETY: PTX ends with a NUL; `ModuleImage` vouches for the contents of compiled images.
        let (module, operation) = unsafe { create!(self.module_load_data(data)) }?;
        not_null(operation, module).map(RawModule::new)
    }

    unsafe fn unload_module(&self, module: RawModule) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        unsafe { current!(self.enter().module_unload(module.get())) }
    }

    unsafe fn module_kernel(&self, module: RawModule, name: &CStr) -> Result<RawKernel> {
        let (driver, _current) = self.context.enter()?;
        let entry = &driver.functions.module_get_function;
        let (find, operation) = (entry.require(&driver.version)?, entry.operation);
        let mut kernel = 0;
        // SAFETY: live, by contract.
        let found = unsafe { find.traced(operation, (&raw mut kernel, module.get(), name.as_ptr())) };
        driver.check_for(CallPurpose::FindingKernel, operation, found)?;
        not_null(operation, kernel).map(RawKernel::new)
    }

    unsafe fn launch_kernel(
        &self,
        stream: RawStream,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg<'_>],
    ) -> Result<()> {
        let mut pointers = kernel_arguments(self.context.driver.functions.launch_kernel.operation, args)?;
        let ([gx, gy, gz], [bx, by, bz], shared) = (config.grid_dim, config.block_dim, config.shared_mem_bytes);
        let (params, no_extra) = (pointers.as_mut_ptr(), std::ptr::null_mut());
        let (kernel, stream) = (kernel.get(), stream.get());
        // SAFETY: live, by contract; the arguments are copied during the call and only read.
        unsafe {
            current!(self.enter().launch_kernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, params, no_extra))
        }
    }

    unsafe fn is_capturing(&self, stream: RawStream) -> Result<bool> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live, by contract; the device is current.
        unsafe { graph::is_capturing(driver, stream) }
    }

    unsafe fn is_foreign(&self, stream: RawStream) -> Result<bool> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live, by contract.
        unsafe { V::is_foreign(driver, self.context.vendor(), stream.get()) }
    }

    unsafe fn begin_capture(&self, stream: RawStream) -> Result<()> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live and idle, by contract; the device is current.
        unsafe { graph::begin(driver, stream) }
    }

    unsafe fn last_captured(&self, stream: RawStream) -> Result<RawGraphNode> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live and capturing, by contract; the device is current.
        unsafe { graph::last(driver, stream) }
    }

    unsafe fn end_capture(&self, stream: RawStream) -> Result<RawGraph> {
        let ended = self.context.enter().and_then(|(driver, _current)| {
            // SAFETY: as in `last_captured`.
            unsafe { self.graphs.end(driver, stream) }
        });
        ended.inspect_err(|_| V::mark_capture_failed(&self.context.driver, self.context.device, stream.get()))
    }

    unsafe fn set_captured_signals(&self, graph: RawGraph, node: RawGraphNode, signals: &[RawSignal]) -> Result<()> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live and not used concurrently, by contract; the device is current.
        unsafe { graph::set_signals(driver, graph, node, signals) }
    }

    unsafe fn set_captured_waits(&self, graph: RawGraph, node: RawGraphNode, waits: &[RawWait]) -> Result<()> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: as in `set_captured_signals`.
        unsafe { graph::set_waits(driver, graph, node, waits) }
    }

    unsafe fn launch_graph(&self, stream: RawStream, graph: RawGraph) -> Result<()> {
        let (driver, _current) = self.context.enter()?;
        // SAFETY: live and not used concurrently, by contract; the device is current.
        let launched = unsafe { self.graphs.launch(driver, stream, graph) };
        // The graph may end with a fill.
        self.note_fill(stream, 0);
        launched
    }

    /// Records that the device is abandoned. Drivers cannot cancel work.
    unsafe fn cancel_pending_work(&self) {
        self.context.abandoned.store(true, Ordering::Relaxed);
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> Result<()> {
        match self.context.enter() {
            // SAFETY: live and freed once, by contract; the device is current.
            Ok((driver, _current)) => unsafe { self.graphs.destroy(driver, graph) },
            Err(error) => {
                self.graphs.forget(&self.context.driver, graph);
                Err(error)
            }
        }
    }
}
