//! [`HostDevice`]: the CPU as a device.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop_core::backend::{
    ExportableAllocation, HostFunction, RawAllocation, RawEvent, RawGraph, RawGraphNode, RawKernel, RawMemory,
    RawModule, RawSemaphore, RawSignal, RawStream, RawWait, SignalMemory,
};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{
    BackendDevice, Capabilities, DeviceIdentity, DevicePtr, Error, Feature, KernelArg, LaunchConfig, MemoryHandle,
    MemoryHandleKind, MemoryImport, ModuleImage, Result, SemaphoreImport, Support, WaitCondition,
};

use crate::imported::{Allocation, ExporterHeader, ImportedMemory, Mapping};
use crate::kernel::{HostArg, HostKernel};
use crate::op::{Carried, Launch, Op, Word, carried, length};
use crate::shared_semaphore::SharedSemaphore;
use crate::stream::{self, EventState, Graph, StreamState};
use crate::sys;

/// Why images are not mapped.
const LINEAR_ONLY: &str = "the host backend maps linear memory only: create the image with linear tiling and map it as a \
                           buffer, or have the exporter copy it to a shared buffer";
/// Words per allocation of signal memory: one page.
const SIGNAL_WORDS: usize = 512;

/// Mappings by first address. Streams share the map, so memory of pending operations stays mapped after the device is
/// dropped.
type Mappings = Mutex<HashMap<u64, Mapping>>;

#[derive(Debug)]
pub(crate) struct HostDevice {
    identity: DeviceIdentity,
    capabilities: Capabilities,
    header: ExporterHeader,
    kernels: Arc<BTreeMap<CString, HostKernel>>,
    mappings: Arc<Mappings>,
    cancelled: Arc<AtomicBool>,
}

impl HostDevice {
    pub(crate) fn new(
        identity: DeviceIdentity,
        header: ExporterHeader,
        kernels: Arc<BTreeMap<CString, HostKernel>>,
    ) -> Self {
        let capabilities = Capabilities::none()
            .with_memory(sys::MEMORY, Support::Native)
            .with_memory(
                MemoryHandleKind::DmaBufFd,
                Support::no("the host backend maps CPU memory; a dma-buf may be GPU memory"),
            )
            .with_semaphore(sys::BINARY_SEMAPHORE, Support::Native)
            .with_semaphore(sys::TIMELINE_SEMAPHORE, Support::Native);
        let support = |feature| match feature {
            Feature::MappedMipmappedArray | Feature::Surfaces | Feature::Textures => Support::no(LINEAR_ONLY),
            Feature::NamedMemory | Feature::NamedSemaphores if cfg!(not(windows)) => {
                Support::no("objects have names on Windows only")
            }
            Feature::NvSciSyncAttributes => Support::no("the host backend does not support NvSci"),
            _ => Support::Native,
        };
        let capabilities =
            Feature::ALL.iter().fold(capabilities, |all, feature| all.with_feature(*feature, support(*feature)));
        Self { identity, capabilities, header, kernels, mappings: Arc::default(), cancelled: Arc::default() }
    }

    fn mappings(&self) -> MutexGuard<'_, HashMap<u64, Mapping>> {
        lock(&self.mappings)
    }
}

impl Drop for HostDevice {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Converts an object to a raw value that owns a reference until [`take`].
fn expose<T>(object: Arc<T>) -> usize {
    Arc::into_raw(object).expose_provenance()
}

/// Borrows the object of a raw value.
///
/// # Safety
/// `raw` came from [`expose`] with the same `T` and was not passed to [`take`] yet.
unsafe fn borrow<'a, T>(raw: usize) -> &'a T {
    // SAFETY: the raw value holds a reference count, so the object lives.
    unsafe { &*std::ptr::with_exposed_provenance::<T>(raw) }
}

/// Clones the reference of a raw value.
///
/// # Safety
/// As for [`borrow`].
unsafe fn share<T>(raw: usize) -> Arc<T> {
    let ptr = std::ptr::with_exposed_provenance::<T>(raw);
    // SAFETY: `ptr` came from `Arc::into_raw`, and the raw value holds a reference count.
    unsafe {
        Arc::increment_strong_count(ptr);
        Arc::from_raw(ptr)
    }
}

/// Takes the reference back from a raw value.
///
/// # Safety
/// As for [`borrow`], and the raw value is not used afterwards.
unsafe fn take<T>(raw: usize) -> Arc<T> {
    // SAFETY: `raw` came from `Arc::into_raw`; its reference count passes to the returned value.
    unsafe { Arc::from_raw(std::ptr::with_exposed_provenance::<T>(raw)) }
}

/// Enqueues operations on a stream.
///
/// # Safety
/// `stream` is a live stream of this backend.
unsafe fn enqueue(stream: RawStream, ops: impl IntoIterator<Item = Op>) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { borrow::<StreamState>(stream.get()) }.enqueue(ops);
    Ok(())
}

/// Converts signals to operations.
///
/// # Safety
/// The semaphores are live.
unsafe fn signals(signals: &[RawSignal]) -> impl ExactSizeIterator<Item = Op> {
    signals.iter().map(|signal| Op::Signal {
        // SAFETY: the caller's promise.
        semaphore: unsafe { share(signal.semaphore.get()) },
        params: signal.params,
    })
}

/// Converts waits to operations.
///
/// # Safety
/// The semaphores are live.
unsafe fn waits(waits: &[RawWait]) -> impl ExactSizeIterator<Item = Op> {
    waits.iter().map(|wait| Op::Wait {
        // SAFETY: the caller's promise.
        semaphore: unsafe { share(wait.semaphore.get()) },
        params: wait.params,
    })
}

// SAFETY (of the unsafe methods below): the caller keeps the contract of `gpu_interop_core::backend`: raw values are
// live, came from this device and are freed once; ranges are valid until the enqueued work has run.
// SAFETY: every raw value owns a reference to an `Arc`, ranges are checked when they are mapped, and a stream reports
// idle only after all its operations have run.
unsafe impl BackendDevice for HostDevice {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    unsafe fn cancel_pending_work(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        ImportedMemory::new(request, self.header).map(|memory| RawMemory::new(expose(Arc::new(memory))))
    }

    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        drop(unsafe { take::<ImportedMemory>(memory.get()) });
        Ok(())
    }

    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
        // SAFETY: live, by contract.
        let mapping = unsafe { borrow::<ImportedMemory>(memory.get()) }.map(offset, size)?;
        let address = mapping.ptr().addr() as u64;
        self.mappings().insert(address, mapping);
        Ok(DevicePtr::new(address))
    }

    unsafe fn free_buffer(&self, _memory: RawMemory, buffer: DevicePtr) -> Result<()> {
        match self.mappings().remove(&buffer.get()) {
            Some(_) => Ok(()),
            None => Err(Error::invalid("HostBackend::free_buffer", "no buffer is mapped at this address")
                .with_context("address", buffer)),
        }
    }

    fn create_exportable(&self, size: u64) -> Result<ExportableAllocation> {
        let allocation = Allocation::new(size)?;
        let (ptr, size) = (allocation.ptr(), allocation.size);
        Ok(ExportableAllocation { raw: RawAllocation::new(expose(Arc::new(allocation))), ptr, size })
    }

    unsafe fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        // SAFETY: live, by contract.
        unsafe { borrow::<Allocation>(allocation.raw.get()) }.export()
    }

    unsafe fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        drop(unsafe { take::<Allocation>(allocation.raw.get()) });
        Ok(())
    }

    unsafe fn import_semaphore(&self, request: &SemaphoreImport) -> Result<RawSemaphore> {
        let shared = SharedSemaphore::open(request.handle())?;
        Ok(RawSemaphore::new(expose(Arc::new(shared))))
    }

    unsafe fn destroy_semaphore(&self, semaphore: RawSemaphore) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        drop(unsafe { take::<SharedSemaphore>(semaphore.get()) });
        Ok(())
    }

    unsafe fn signal_semaphores(&self, stream: RawStream, signals: &[RawSignal]) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, self::signals(signals)) }
    }

    unsafe fn wait_semaphores(&self, stream: RawStream, waits: &[RawWait]) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, self::waits(waits)) }
    }

    fn create_stream(&self) -> Result<RawStream> {
        StreamState::start(self.cancelled.clone(), self.mappings.clone()).map(|stream| RawStream::new(expose(stream)))
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        unsafe { take::<StreamState>(stream.get()) }.close();
        Ok(())
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { borrow::<StreamState>(stream.get()) }.synchronize()
    }

    unsafe fn take_stream_failure(&self, stream: RawStream) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { borrow::<StreamState>(stream.get()) }.take_failure()
    }

    unsafe fn query_stream(&self, stream: RawStream) -> Result<bool> {
        // SAFETY: live, by contract.
        Ok(unsafe { borrow::<StreamState>(stream.get()) }.is_idle())
    }

    fn create_event(&self) -> Result<RawEvent> {
        Ok(RawEvent::new(expose(Arc::new(EventState::default()))))
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> Result<()> {
        // SAFETY: live and freed once, by contract. Pending records own references.
        drop(unsafe { take::<EventState>(event.get()) });
        Ok(())
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        // SAFETY: live, by contract.
        let event = unsafe { borrow::<EventState>(event.get()) };
        // SAFETY: live, by contract.
        unsafe { borrow::<StreamState>(stream.get()) }.record(event);
        Ok(())
    }

    unsafe fn query_event(&self, event: RawEvent) -> Result<bool> {
        // SAFETY: live, by contract.
        Ok(unsafe { borrow::<EventState>(event.get()) }.is_complete())
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        // SAFETY: live, by contract.
        let record = unsafe { borrow::<EventState>(event.get()) }.last_record();
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, record.map(Op::WaitEvent)) }
    }

    unsafe fn copy(&self, stream: RawStream, dst: DevicePtr, src: DevicePtr, size: u64) -> Result<()> {
        const OPERATION: &str = "HostBackend::copy";
        let (dst, src) = (carried(OPERATION, dst)?, carried(OPERATION, src)?);
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [Op::Copy { dst, src, size: length(OPERATION, size)? }]) }
    }

    unsafe fn copy_to_host(&self, stream: RawStream, dst: *mut u8, src: DevicePtr, size: u64) -> Result<()> {
        const OPERATION: &str = "HostBackend::copy_to_host";
        let op = Op::Read { dst: Carried(dst), src: carried(OPERATION, src)?, size: length(OPERATION, size)? };
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [op]) }
    }

    unsafe fn copy_from_host(&self, stream: RawStream, dst: DevicePtr, src: *const u8, size: u64) -> Result<()> {
        const OPERATION: &str = "HostBackend::copy_from_host";
        let op =
            Op::Write { dst: carried(OPERATION, dst)?, src: Carried(src.cast_mut()), size: length(OPERATION, size)? };
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [op]) }
    }

    unsafe fn fill_u8(&self, stream: RawStream, dst: DevicePtr, value: u8, size: u64) -> Result<()> {
        const OPERATION: &str = "HostBackend::fill_u8";
        let op = Op::FillU8 { dst: carried(OPERATION, dst)?, value, size: length(OPERATION, size)? };
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [op]) }
    }

    unsafe fn fill_u32(&self, stream: RawStream, dst: DevicePtr, value: u32, count: u64) -> Result<()> {
        const OPERATION: &str = "HostBackend::fill_u32";
        let op = Op::FillU32 { dst: carried(OPERATION, dst)?, value, count: length(OPERATION, count)? };
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [op]) }
    }

    unsafe fn wait_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32, when: WaitCondition) -> Result<()> {
        let word = carried("HostBackend::wait_value_u32", word)?;
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [Op::WaitValue { word, value: Word::U32(value), condition: when }]) }
    }

    unsafe fn wait_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64, when: WaitCondition) -> Result<()> {
        let word = carried("HostBackend::wait_value_u64", word)?;
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [Op::WaitValue { word, value: Word::U64(value), condition: when }]) }
    }

    unsafe fn write_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32) -> Result<()> {
        let word = carried("HostBackend::write_value_u32", word)?;
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [Op::WriteValue { word, value: Word::U32(value) }]) }
    }

    unsafe fn write_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64) -> Result<()> {
        let word = carried("HostBackend::write_value_u64", word)?;
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [Op::WriteValue { word, value: Word::U64(value) }]) }
    }

    fn allocate_signal_memory(&self) -> Result<SignalMemory> {
        let words: Box<[AtomicU64; SIGNAL_WORDS]> = Box::new(std::array::from_fn(|_| AtomicU64::new(0)));
        let host = NonNull::from(Box::leak(words)).cast::<u8>();
        let ptr = DevicePtr::new(host.as_ptr().expose_provenance() as u64);
        Ok(SignalMemory { host, ptr, size: SIGNAL_WORDS * size_of::<AtomicU64>() })
    }

    unsafe fn free_signal_memory(&self, memory: SignalMemory) -> Result<()> {
        // SAFETY: leaked by `allocate_signal_memory`, live and freed once, by contract.
        drop(unsafe { Box::from_raw(memory.host.as_ptr().cast::<[AtomicU64; SIGNAL_WORDS]>()) });
        Ok(())
    }

    unsafe fn launch_host_function(&self, stream: RawStream, function: HostFunction, data: *mut c_void) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [Op::HostFunction { function, data: Carried(data.cast()) }]) }
    }

    fn load_module(&self, image: ModuleImage<'_>) -> Result<RawModule> {
        match image {
            ModuleImage::Builtin => Ok(RawModule::new(expose(self.kernels.clone()))),
            _ => Err(Error::unsupported(
                "HostBackend::load_module",
                "the host backend runs Rust functions; load ModuleImage::Builtin",
            )),
        }
    }

    unsafe fn unload_module(&self, module: RawModule) -> Result<()> {
        // SAFETY: live and freed once, by contract.
        drop(unsafe { take::<BTreeMap<CString, HostKernel>>(module.get()) });
        Ok(())
    }

    unsafe fn module_kernel(&self, module: RawModule, name: &CStr) -> Result<RawKernel> {
        // SAFETY: live, by contract.
        let kernels = unsafe { borrow::<BTreeMap<CString, HostKernel>>(module.get()) };
        match kernels.get(name) {
            // The table never changes after it is built, and the module keeps it alive.
            Some(kernel) => Ok(RawKernel::new(std::ptr::from_ref(kernel).expose_provenance())),
            None => Err(kernels.keys().fold(
                Error::invalid("HostBackend::module_kernel", "the module has no kernel of this name"),
                |error, name| error.with_context("kernel of the module", name.to_string_lossy()),
            )),
        }
    }

    unsafe fn launch_kernel(
        &self,
        stream: RawStream,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg<'_>],
    ) -> Result<()> {
        // SAFETY: the kernel lives as long as its module, which is live by contract.
        let kernel = unsafe { borrow::<HostKernel>(kernel.get()) }.clone();
        let args = args.iter().map(|arg| HostArg::new("HostBackend::launch_kernel", *arg)).collect::<Result<_>>()?;
        let launch = Launch { kernel, config: *config, args };
        // SAFETY: live, by contract.
        unsafe { enqueue(stream, [Op::Launch(Box::new(launch))]) }
    }

    unsafe fn begin_capture(&self, stream: RawStream) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { borrow::<StreamState>(stream.get()) }.begin_recording();
        Ok(())
    }

    unsafe fn last_captured(&self, stream: RawStream) -> Result<RawGraphNode> {
        // SAFETY: live, by contract.
        Ok(stream::last(unsafe { borrow::<StreamState>(stream.get()) }))
    }

    unsafe fn end_capture(&self, stream: RawStream) -> Result<RawGraph> {
        // SAFETY: live, by contract.
        let graph = Graph::of(unsafe { borrow::<StreamState>(stream.get()) });
        Ok(RawGraph::new(expose(Arc::new(graph))))
    }

    unsafe fn set_captured_signals(&self, graph: RawGraph, node: RawGraphNode, signals: &[RawSignal]) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { borrow::<Graph>(graph.get()).replace(node, self::signals(signals)) }
    }

    unsafe fn set_captured_waits(&self, graph: RawGraph, node: RawGraphNode, waits: &[RawWait]) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { borrow::<Graph>(graph.get()).replace(node, self::waits(waits)) }
    }

    unsafe fn launch_graph(&self, stream: RawStream, graph: RawGraph) -> Result<()> {
        // SAFETY: live, by contract.
        unsafe { borrow::<Graph>(graph.get()).launch(borrow::<StreamState>(stream.get())) };
        Ok(())
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> Result<()> {
        // SAFETY: live and freed once, by contract. Launches own clones of its operations.
        drop(unsafe { take::<Graph>(graph.get()) });
        Ok(())
    }
}
