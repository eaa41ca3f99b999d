//! The device: each method is a function of C. Its live handles, and linear memory by address.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use gpu_interop::backend::{
    ArrayCopy, ArrayCopySide, ExportableAllocation, HostFunction, RawAllocation, RawArray, RawContext, RawEvent,
    RawKernel, RawMemory, RawMipmappedArray, RawModule, RawSemaphore, RawSignal, RawStream, RawWait, SignalMemory,
};
use gpu_interop::{
    BackendDevice, Capabilities, DeviceIdentity, DevicePtr, Error, KernelArg, LaunchConfig, MemoryHandle, MemoryImport,
    MipmappedArrayDesc, ModuleImage, Result, SemaphoreImport, WaitCondition,
};
use gpu_interop_capi as c;

use crate::api::Api;
use crate::convert;

/// Words of signal memory: one page.
const SIGNAL: Layout = match Layout::from_size_align(4096, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a page"),
};

pub(crate) struct CDevice {
    api: &'static Api,
    /// Null once the device is closed.
    handle: RwLock<c::gpi_device>,
    identity: DeviceIdentity,
    capabilities: Capabilities,
    /// The driver's context, or 0.
    context: u64,
    live: Live,
}

impl std::fmt::Debug for CDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CDevice").field("identity", &self.identity).finish_non_exhaustive()
    }
}

fn stream(raw: RawStream) -> c::gpi_stream {
    c::gpi_stream { id: raw.get() as u64 }
}

fn semaphore(raw: RawSemaphore) -> c::gpi_semaphore {
    c::gpi_semaphore { id: raw.get() as u64 }
}

impl CDevice {
    pub(crate) fn new(
        api: &'static Api,
        handle: c::gpi_device,
        identity: DeviceIdentity,
        capabilities: Capabilities,
        context: u64,
    ) -> Self {
        Self { api, handle: RwLock::new(handle), identity, capabilities, context, live: Live::default() }
    }

    fn device(&self) -> c::gpi_device {
        *self.handle.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Destroys every handle, at last the device's, which closes it: the library cancels its pending work.
    fn close(&self) {
        let api = self.api;
        let state = {
            let mut state = self.live.state();
            let handles = std::mem::take(&mut *state);
            state.closed = true;
            handles
        };
        for (kind, id) in state.handles.into_keys() {
            let _ = self.destroy(kind, id);
        }
        for linear in state.linear.into_values().flatten() {
            // SAFETY: no requirements.
            unsafe { (api.gpi_buffer_destroy)(linear.buffer) };
        }
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        if handle.id != 0 {
            // SAFETY: no requirements.
            unsafe { (api.gpi_device_destroy)(*handle) };
            handle.id = 0;
        }
    }

    fn destroy(&self, kind: Kind, id: u64) -> Result<()> {
        let api = self.api;
        // SAFETY: no requirements.
        api.check(unsafe {
            match kind {
                Kind::Array => (api.gpi_array_destroy)(c::gpi_array { id }),
                Kind::Memory => (api.gpi_memory_destroy)(c::gpi_memory { id }),
                Kind::Stream => (api.gpi_stream_destroy)(c::gpi_stream { id }),
                Kind::Event => (api.gpi_event_destroy)(c::gpi_event { id }),
                Kind::Module => (api.gpi_module_destroy)(c::gpi_module { id }),
                Kind::Kernel => (api.gpi_kernel_destroy)(c::gpi_kernel { id }),
                Kind::Semaphore => (api.gpi_semaphore_destroy)(c::gpi_semaphore { id }),
            }
        })
    }

    /// Destroys a handle, unless that happened when the device was closed.
    fn remove(&self, kind: Kind, id: usize) -> Result<()> {
        if self.live.remove(kind, id) { self.destroy(kind, id as u64) } else { Ok(()) }
    }

    fn remove_buffer(&self, address: u64, memory: Option<usize>) -> Result<()> {
        match self.live.remove_linear(address, memory) {
            // SAFETY: no requirements.
            Some(buffer) => self.api.check(unsafe { (self.api.gpi_buffer_destroy)(buffer) }),
            None => Ok(()),
        }
    }
}

impl Drop for CDevice {
    fn drop(&mut self) {
        self.close();
    }
}

// SAFETY (of the methods): the caller keeps the contract of `gpu_interop::backend`, which includes the requirements of
// the C functions; pointers are addresses of variables, or memory that the contract keeps valid. SAFETY: the host
// backend keeps the contract, and the library passes its results on unchanged.
unsafe impl BackendDevice for CDevice {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn context(&self) -> Option<RawContext> {
        let context = usize::try_from(self.context).expect("64 bits");
        (context != 0).then(|| RawContext::new(context))
    }

    unsafe fn cancel_pending_work(&self) {
        self.close();
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        let api = self.api;
        let mut import = convert::memory_import(request)?;
        // SAFETY: see the implementation.
        let imported: Result<c::gpi_memory> = unsafe {
            let imported = api.made(|out| (api.gpi_device_import_memory)(self.device(), &raw mut import, out));
            // Closes the duplicate after a failure; after a success there is none.
            let closed = (api.gpi_memory_import_close)(&raw mut import);
            assert!(closed == c::GPI_SUCCESS && import.fd == -1, "the library neither owned nor left the descriptor");
            imported
        };
        imported.map(|memory| RawMemory::new(self.live.add(Kind::Memory, memory.id)))
    }

    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()> {
        self.remove(Kind::Memory, memory.get())
    }

    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
        let (api, handle) = (self.api, c::gpi_memory { id: memory.get() as u64 });
        // SAFETY: see the implementation.
        let (buffer, about) = unsafe {
            // Memory of an image is mapped as such; the library has checked which of the two was called.
            let buffer: c::gpi_buffer = api
                .made(|out| (api.gpi_memory_map_buffer)(handle, offset, size, out))
                .or_else(|_| api.made(|out| (api.gpi_memory_map_image_bytes)(handle, offset, size, out)))?;
            let about: c::gpi_buffer_info = api.made(|out| (api.gpi_buffer_get_info)(buffer, out))?;
            (buffer, about)
        };
        self.live.add_linear(about.address, Linear { buffer, size: about.size, memory: Some(memory.get()) });
        Ok(DevicePtr::new(about.address))
    }

    unsafe fn free_buffer(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()> {
        self.remove_buffer(buffer.get(), Some(memory.get()))
    }

    unsafe fn map_mipmapped_array(&self, memory: RawMemory, desc: &MipmappedArrayDesc) -> Result<RawMipmappedArray> {
        let (api, handle) = (self.api, c::gpi_memory { id: memory.get() as u64 });
        let converted = convert::array_desc(desc)?;
        // SAFETY: see the implementation.
        let array: c::gpi_array =
            unsafe { api.made(|out| (api.gpi_memory_map_array)(handle, &raw const converted, out)) }?;
        self.live.state().texels.insert(array.id, desc.format.texel_size().into());
        Ok(RawMipmappedArray::new(self.live.add(Kind::Array, array.id)))
    }

    unsafe fn mipmapped_array_level(&self, array: RawMipmappedArray, level: u32) -> Result<RawArray> {
        let (api, array) = (self.api, c::gpi_array { id: array.get() as u64 });
        // SAFETY: see the implementation.
        let about: c::gpi_array_level_info = unsafe { api.made(|out| (api.gpi_array_get_level)(array, level, out)) }?;
        let mut state = self.live.state();
        let texel_size = state.texels.get(&array.id).copied().unwrap_or(1);
        state.levels.insert(about.raw, Level { array, level, texel_size });
        Ok(RawArray::new(usize::try_from(about.raw).expect("64 bits")))
    }

    unsafe fn free_mipmapped_array(&self, array: RawMipmappedArray) -> Result<()> {
        self.live.state().levels.retain(|_, level| level.array.id != array.get() as u64);
        self.remove(Kind::Array, array.get())
    }

    unsafe fn copy_array(&self, raw: RawStream, copy: &ArrayCopy) -> Result<()> {
        // SAFETY: see the implementation.
        unsafe { copy_array(self.api, &self.live, stream(raw), copy) }
    }

    fn create_exportable(&self, size: u64) -> Result<ExportableAllocation> {
        let api = self.api;
        // SAFETY: see the implementation.
        let (buffer, about) = unsafe {
            let buffer: c::gpi_buffer =
                api.made(|out| (api.gpi_device_allocate_exportable)(self.device(), size, out))?;
            let about: c::gpi_buffer_info = api.made(|out| (api.gpi_buffer_get_info)(buffer, out))?;
            (buffer, about)
        };
        self.live.add_linear(about.address, Linear { buffer, size: about.size, memory: None });
        let raw = RawAllocation::new(usize::try_from(buffer.id).expect("64 bits"));
        Ok(ExportableAllocation { raw, ptr: DevicePtr::new(about.address), size: about.size })
    }

    unsafe fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        let (api, buffer) = (self.api, c::gpi_buffer { id: allocation.raw.get() as u64 });
        // SAFETY: see the implementation.
        let import: c::gpi_memory_import = unsafe { api.made(|out| (api.gpi_buffer_export)(buffer, out)) }?;
        assert_eq!(import.kind, c::GPI_MEMORY_OPAQUE_FD);
        Ok(MemoryHandle::OpaqueFd(convert::exported_fd(&import)))
    }

    unsafe fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()> {
        self.remove_buffer(allocation.ptr.get(), None)
    }

    unsafe fn import_semaphore(&self, request: &SemaphoreImport) -> Result<RawSemaphore> {
        let api = self.api;
        let mut import = convert::semaphore_import(request)?;
        // SAFETY: see the implementation.
        let imported: Result<c::gpi_semaphore> = unsafe {
            let imported = api.made(|out| (api.gpi_device_import_semaphore)(self.device(), &raw mut import, out));
            let closed = (api.gpi_semaphore_import_close)(&raw mut import);
            assert!(closed == c::GPI_SUCCESS && import.fd == -1, "the library neither owned nor left the descriptor");
            imported
        };
        imported.map(|semaphore| RawSemaphore::new(self.live.add(Kind::Semaphore, semaphore.id)))
    }

    unsafe fn destroy_semaphore(&self, semaphore: RawSemaphore) -> Result<()> {
        self.remove(Kind::Semaphore, semaphore.get())
    }

    unsafe fn signal_semaphores(&self, raw: RawStream, signals: &[RawSignal]) -> Result<()> {
        let ops = signals.iter().map(|signal| convert::signal(semaphore(signal.semaphore), signal.params));
        let ops = ops.collect::<Result<Vec<_>>>()?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_signal)(stream(raw), ops.as_ptr(), ops.len()) })
    }

    unsafe fn wait_semaphores(&self, raw: RawStream, waits: &[RawWait]) -> Result<()> {
        let ops = waits.iter().map(|wait| convert::wait(semaphore(wait.semaphore), wait.params));
        let ops = ops.collect::<Result<Vec<_>>>()?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_wait)(stream(raw), ops.as_ptr(), ops.len()) })
    }

    fn create_stream(&self) -> Result<RawStream> {
        // SAFETY: see the implementation.
        let created: c::gpi_stream = unsafe { self.api.made(|out| (self.api.gpi_stream_create)(self.device(), out)) }?;
        Ok(RawStream::new(self.live.add(Kind::Stream, created.id)))
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        self.remove(Kind::Stream, stream.get())
    }

    unsafe fn synchronize_stream(&self, raw: RawStream) -> Result<()> {
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_synchronize)(stream(raw), c::GPI_NO_TIMEOUT) })
    }

    unsafe fn take_stream_failure(&self, raw: RawStream) -> Result<()> {
        // SAFETY: see the implementation. The stream is idle.
        self.api.check(unsafe { (self.api.gpi_stream_synchronize)(stream(raw), 0) })
    }

    unsafe fn query_stream(&self, raw: RawStream) -> Result<bool> {
        if self.live.is_closed() {
            return Ok(true);
        }
        // SAFETY: see the implementation.
        let idle: i32 = unsafe { self.api.made(|out| (self.api.gpi_stream_query)(stream(raw), out)) }?;
        Ok(idle != 0)
    }

    fn create_event(&self) -> Result<RawEvent> {
        // SAFETY: see the implementation.
        let created: c::gpi_event = unsafe { self.api.made(|out| (self.api.gpi_event_create)(self.device(), out)) }?;
        Ok(RawEvent::new(self.live.add(Kind::Event, created.id)))
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> Result<()> {
        self.remove(Kind::Event, event.get())
    }

    unsafe fn record_event(&self, event: RawEvent, raw: RawStream) -> Result<()> {
        let event = c::gpi_event { id: event.get() as u64 };
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_record_event)(stream(raw), event) })
    }

    unsafe fn query_event(&self, event: RawEvent) -> Result<bool> {
        if self.live.is_closed() {
            return Ok(true);
        }
        let event = c::gpi_event { id: event.get() as u64 };
        // SAFETY: see the implementation.
        let complete: i32 = unsafe { self.api.made(|out| (self.api.gpi_event_query)(event, out)) }?;
        Ok(complete != 0)
    }

    unsafe fn wait_event(&self, raw: RawStream, event: RawEvent) -> Result<()> {
        let event = c::gpi_event { id: event.get() as u64 };
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_wait_event)(stream(raw), event) })
    }

    unsafe fn copy(&self, raw: RawStream, dst: DevicePtr, src: DevicePtr, size: u64) -> Result<()> {
        let (dst, src) = (self.live.range("copy", dst, size)?, self.live.range("copy", src, size)?);
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_copy)(stream(raw), dst, src) })
    }

    unsafe fn copy_to_host(&self, raw: RawStream, dst: *mut u8, src: DevicePtr, size: u64) -> Result<()> {
        let src = self.live.range("copy_to_host", src, size)?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_read_async)(stream(raw), src, dst.cast()) })
    }

    unsafe fn copy_from_host(&self, raw: RawStream, dst: DevicePtr, src: *const u8, size: u64) -> Result<()> {
        let dst = self.live.range("copy_from_host", dst, size)?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_write_async)(stream(raw), dst, src.cast()) })
    }

    unsafe fn fill_u8(&self, raw: RawStream, dst: DevicePtr, value: u8, size: u64) -> Result<()> {
        let dst = self.live.range("fill_u8", dst, size)?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_fill)(stream(raw), dst, value) })
    }

    unsafe fn fill_u32(&self, raw: RawStream, dst: DevicePtr, value: u32, count: u64) -> Result<()> {
        let dst = self.live.range("fill_u32", dst, count * 4)?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_fill_u32)(stream(raw), dst, value) })
    }

    unsafe fn wait_value_u32(
        &self,
        raw: RawStream,
        word: DevicePtr,
        value: u32,
        condition: WaitCondition,
    ) -> Result<()> {
        let (word, wait) = (self.live.range("wait_value_u32", word, 4)?, convert::condition(condition));
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_wait_value_u32)(stream(raw), word, value, wait) })
    }

    unsafe fn wait_value_u64(
        &self,
        raw: RawStream,
        word: DevicePtr,
        value: u64,
        condition: WaitCondition,
    ) -> Result<()> {
        let (word, wait) = (self.live.range("wait_value_u64", word, 8)?, convert::condition(condition));
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_wait_value_u64)(stream(raw), word, value, wait) })
    }

    unsafe fn write_value_u32(&self, raw: RawStream, word: DevicePtr, value: u32) -> Result<()> {
        let word = self.live.range("write_value_u32", word, 4)?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_write_value_u32)(stream(raw), word, value) })
    }

    unsafe fn write_value_u64(&self, raw: RawStream, word: DevicePtr, value: u64) -> Result<()> {
        let word = self.live.range("write_value_u64", word, 8)?;
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_write_value_u64)(stream(raw), word, value) })
    }

    /// Memory of this program: on the host backend a device address is a pointer.
    fn allocate_signal_memory(&self) -> Result<SignalMemory> {
        // SAFETY: the size is not 0.
        let host = NonNull::new(unsafe { alloc_zeroed(SIGNAL) })
            .ok_or_else(|| Error::invalid("allocate_signal_memory", "no memory"))?;
        let (api, address) = (self.api, host.as_ptr().expose_provenance() as u64);
        // SAFETY: see the implementation. The memory lives until it is freed, which is after all work that uses it.
        let wrapped: Result<c::gpi_buffer> = unsafe {
            api.made(|out| {
                (api.gpi_device_wrap_memory)(
                    self.device(),
                    address,
                    SIGNAL.size() as u64,
                    None,
                    std::ptr::null_mut(),
                    out,
                )
            })
        };
        match wrapped {
            Ok(buffer) => {
                self.live.add_linear(address, Linear { buffer, size: SIGNAL.size() as u64, memory: None });
                Ok(SignalMemory { host, ptr: DevicePtr::new(address), size: SIGNAL.size() })
            }
            Err(error) => {
                // SAFETY: allocated above, and not used.
                unsafe { dealloc(host.as_ptr(), SIGNAL) };
                Err(error)
            }
        }
    }

    unsafe fn free_signal_memory(&self, memory: SignalMemory) -> Result<()> {
        let closed = self.live.is_closed();
        self.remove_buffer(memory.ptr.get(), None)?;
        if !closed {
            // SAFETY: no requirements.
            self.api.check(unsafe { (self.api.gpi_device_collect)(self.device()) })?;
            // SAFETY: allocated with this layout; no pending work uses it.
            unsafe { dealloc(memory.host.as_ptr(), SIGNAL) };
        }
        Ok(())
    }

    unsafe fn launch_host_function(&self, raw: RawStream, function: HostFunction, data: *mut c_void) -> Result<()> {
        // SAFETY: see the implementation.
        self.api.check(unsafe { (self.api.gpi_stream_launch_host_function)(stream(raw), Some(function), data) })
    }

    fn load_module(&self, image: ModuleImage<'_>) -> Result<RawModule> {
        let (kind, bytes): (i32, &[u8]) = match image {
            ModuleImage::Builtin => (c::GPI_MODULE_BUILTIN, &[]),
            ModuleImage::Ptx(text) => (c::GPI_MODULE_PTX, text.to_bytes_with_nul()),
            ModuleImage::Binary(image) => (c::GPI_MODULE_BINARY, image.bytes()),
            _ => return Err(Error::unsupported("gpi_module_load", "unknown kind of image")),
        };
        let api = self.api;
        // SAFETY: see the implementation.
        let module: c::gpi_module = unsafe {
            api.made(|out| (api.gpi_module_load)(self.device(), kind, bytes.as_ptr().cast(), bytes.len(), out))
        }?;
        Ok(RawModule::new(self.live.add(Kind::Module, module.id)))
    }

    unsafe fn unload_module(&self, module: RawModule) -> Result<()> {
        self.remove(Kind::Module, module.get())
    }

    unsafe fn module_kernel(&self, module: RawModule, name: &CStr) -> Result<RawKernel> {
        let (api, module) = (self.api, c::gpi_module { id: module.get() as u64 });
        // SAFETY: see the implementation.
        let kernel: c::gpi_kernel = unsafe { api.made(|out| (api.gpi_module_get_kernel)(module, name.as_ptr(), out)) }?;
        Ok(RawKernel::new(self.live.add(Kind::Kernel, kernel.id)))
    }

    unsafe fn launch_kernel(
        &self,
        raw: RawStream,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg<'_>],
    ) -> Result<()> {
        let args = args.iter().map(convert::argument).collect::<Result<Vec<_>>>()?;
        let config = c::gpi_launch_config {
            grid: config.grid_dim,
            block: config.block_dim,
            shared_memory: config.shared_mem_bytes,
        };
        let kernel = c::gpi_kernel { id: kernel.get() as u64 };
        // SAFETY: see the implementation.
        self.api.check(unsafe {
            (self.api.gpi_stream_launch)(stream(raw), kernel, &raw const config, args.as_ptr(), args.len())
        })
    }
}

/// Enqueues a copy.
///
/// # Safety
/// As for `BackendDevice::copy_array`.
pub(crate) unsafe fn copy_array(api: &Api, live: &Live, stream: c::gpi_stream, copy: &ArrayCopy) -> Result<()> {
    let [width, height, slices] = copy.extent;
    let region = |array: RawArray, offset| live.region(array.get() as u64, offset, copy.extent);
    let texels = |ptr: DevicePtr, row_pitch: u64, rows: u64| -> Result<c::gpi_texels> {
        let size = ((slices - 1) * rows + height - 1) * row_pitch + width;
        Ok(c::gpi_texels { range: live.range("copy_array", ptr, size)?, row_pitch, rows })
    };
    let bytes = usize::try_from(width * height * slices).expect("64 bits");
    // Host memory without gaps, which the stream's next synchronisation would wait for anyway.
    // SAFETY: the caller's promise.
    let status = unsafe {
        match (copy.dst, copy.src) {
            (ArrayCopySide::Linear { ptr, row_pitch, rows }, ArrayCopySide::Array { raw, offset }) => {
                (api.gpi_stream_copy_from_array)(stream, texels(ptr, row_pitch, rows)?, region(raw, offset)?)
            }
            (ArrayCopySide::Array { raw, offset }, ArrayCopySide::Linear { ptr, row_pitch, rows }) => {
                (api.gpi_stream_copy_to_array)(stream, region(raw, offset)?, texels(ptr, row_pitch, rows)?)
            }
            (ArrayCopySide::Array { raw, offset }, ArrayCopySide::Array { raw: src, offset: src_offset }) => {
                (api.gpi_stream_copy_array)(stream, region(raw, offset)?, region(src, src_offset)?)
            }
            (ArrayCopySide::Host { ptr, .. }, ArrayCopySide::Array { raw, offset }) => {
                (api.gpi_stream_read_array)(stream, region(raw, offset)?, ptr.cast(), bytes)
            }
            (ArrayCopySide::Array { raw, offset }, ArrayCopySide::Host { ptr, .. }) => {
                (api.gpi_stream_write_array)(stream, region(raw, offset)?, ptr.cast_const().cast(), bytes)
            }
            _ => return Err(Error::unsupported("copy_array", "a copy without an array")),
        }
    };
    api.check(status)
}

/// A handle of any type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Before the memory that it is mapped from.
    Array,
    Memory,
    Stream,
    Event,
    Module,
    Kernel,
    Semaphore,
}

/// Linear memory: a mapping, an exportable allocation, or words of this program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linear {
    pub(crate) buffer: c::gpi_buffer,
    pub(crate) size: u64,
    /// The import of a mapping.
    pub(crate) memory: Option<usize>,
}

/// One mip level of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    pub(crate) array: c::gpi_array,
    pub(crate) level: u32,
    pub(crate) texel_size: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Size of the texels of each array.
    pub(crate) texels: BTreeMap<u64, u64>,
    /// Levels by the driver's array.
    pub(crate) levels: BTreeMap<u64, Level>,
    pub(crate) handles: BTreeMap<(Kind, u64), ()>,
    /// By address. Several may begin at one.
    pub(crate) linear: BTreeMap<u64, Vec<Linear>>,
    /// The device was closed, with its objects.
    pub(crate) closed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<State>);

impl Live {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    pub(crate) fn add(&self, kind: Kind, id: u64) -> usize {
        self.state().handles.insert((kind, id), ());
        usize::try_from(id).expect("64 bits")
    }

    /// Forgets a handle. False if the device has been closed, and the handle with it.
    pub(crate) fn remove(&self, kind: Kind, id: usize) -> bool {
        self.state().handles.remove(&(kind, id as u64)).is_some()
    }

    pub(crate) fn add_linear(&self, address: u64, linear: Linear) {
        self.state().linear.entry(address).or_default().push(linear);
    }

    /// Forgets memory at an address: the mapping of an import, or that without one. Drivers map parts of one import at
    /// one address; the address does not say which is freed, so the smallest is, and the ranges of the others stay
    /// known.
    pub(crate) fn remove_linear(&self, address: u64, memory: Option<usize>) -> Option<c::gpi_buffer> {
        let mut state = self.state();
        let all = state.linear.get_mut(&address)?;
        let of_import = all.iter().enumerate().filter(|(_, linear)| linear.memory == memory);
        let (index, _) = of_import.min_by_key(|(_, linear)| linear.size)?;
        let found = all.remove(index);
        if all.is_empty() {
            state.linear.remove(&address);
        }
        Some(found.buffer)
    }

    /// A region of a level, from bytes to texels.
    pub(crate) fn region(&self, raw: u64, offset: [u64; 3], extent: [u64; 3]) -> Result<c::gpi_array_region> {
        let unknown = || Error::invalid("copy_array", "the array is no level of a mapped array");
        let Level { array, level, texel_size } = *self.state().levels.get(&raw).ok_or_else(unknown)?;
        let texels = |[bytes, rows, slices]: [u64; 3]| [bytes / texel_size, rows, slices];
        let (offset, extent) = (texels(offset), texels(extent));
        Ok(c::gpi_array_region { array, level, reserved: 0, offset, extent })
    }

    /// The range of linear memory at an address.
    pub(crate) fn range(&self, operation: &'static str, address: DevicePtr, size: u64) -> Result<c::gpi_range> {
        let (state, address) = (self.state(), address.get());
        let below = state.linear.range(..=address).rev();
        let mut all = below.flat_map(|(start, all)| all.iter().map(|linear| (address - *start, *linear)));
        let found = all.find(|(offset, linear)| *offset < linear.size && size <= linear.size - *offset);
        let (offset, linear) = found.ok_or_else(|| Error::invalid(operation, "no memory is mapped at this address"))?;
        Ok(c::gpi_range { buffer: linear.buffer, offset, size })
    }
}

/// Test of [`Live::remove_linear`].
pub(crate) fn freeing_a_part_leaves_the_whole_mapping() -> Result<(), libtest_mimic::Failed> {
    let live = Live::default();
    let linear = |id, size| Linear { buffer: c::gpi_buffer { id }, size, memory: Some(7) };
    live.add_linear(4096, linear(1, 8 << 30));
    live.add_linear(4096, linear(2, 4096));
    assert_eq!(live.remove_linear(4096, Some(7)).expect("mapped").id, 2);
    let range = live.range("test", DevicePtr::new(4096 + (4 << 30)), 4096).expect("mapped");
    assert_eq!((range.buffer.id, range.offset), (1, 4 << 30));
    Ok(())
}
