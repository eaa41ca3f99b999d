//! `BackendDevice` of the recorder, its graphs and the pending work of its streams.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::call::fresh;
use super::{Call, HostCall, Object, Recorder, next, next_address};
use crate::array::MipmappedArrayDesc;
use crate::backend::{
    ArrayCopy, ArrayCopySide, BackendDevice, DevicePtr, ExportableAllocation, HostFunction, RawAllocation, RawArray,
    RawEvent, RawGraph, RawGraphNode, RawKernel, RawMemory, RawMipmappedArray, RawModule, RawSemaphore, RawSignal,
    RawStream, RawSurface, RawTexture, RawWait, SignalMemory, TextureSource, WaitCondition,
};
use crate::capability::Capabilities;
use crate::error::Result;
use crate::handle::{MemoryHandle, NvSciSyncAttrList};
use crate::identity::DeviceIdentity;
use crate::import::{MemoryImport, SemaphoreImport};
use crate::kernel::{KernelArg, LaunchConfig, ModuleImage};
use crate::nv_sci::NvSciSyncUse;
use crate::texture::TextureDesc;

/// Longest time that a stream may wait for another thread.
const PATIENCE: Duration = Duration::from_secs(20);
/// Size of an allocation of signal memory: four words.
const SIGNAL_MEMORY: usize = 256;

// SAFETY: it runs no work, and its signal memory is never freed.
unsafe impl BackendDevice for Recorder {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn frees_wait_for_streams(&self) -> bool {
        self.lock().frees_wait_for_streams
    }

    unsafe fn cancel_pending_work(&self) {
        let mut state = self.lock();
        state.calls.push(Call::CancelPendingWork);
        if !state.cannot_cancel {
            state.queues.values_mut().for_each(super::Queue::cancel);
        }
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        let call = Call::ImportMemory {
            kind: request.handle().kind(),
            size: request.size(),
            dedicated: request.is_dedicated(),
        };
        self.lend_memory(request.handle(), call)?;
        let (raw, value) = fresh();
        self.lock().create(Object::Memory(value), None);
        Ok(RawMemory::new(raw))
    }

    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()> {
        self.free(Call::DestroyMemory(memory), Object::Memory(memory.get() as u64))
    }

    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
        let mut state = self.begin(Call::MapBuffer { memory, offset, size })?;
        let address = next_address(size);
        state.create(Object::Buffer(address), Some(Object::Memory(memory.get() as u64)));
        state.ranges.insert(address, (size, Object::Buffer(address)));
        Ok(DevicePtr::new(address))
    }

    unsafe fn free_buffer(&self, _memory: RawMemory, buffer: DevicePtr) -> Result<()> {
        let hook = self.lock().before_free_buffer.take();
        if let Some(hook) = hook {
            hook();
        }
        self.free(Call::FreeBuffer(buffer), Object::Buffer(buffer.get()))
    }

    unsafe fn map_mipmapped_array(&self, memory: RawMemory, desc: &MipmappedArrayDesc) -> Result<RawMipmappedArray> {
        let mut state = self.begin(Call::MapMipmappedArray { memory, desc: *desc })?;
        let (raw, value) = fresh();
        state.create(Object::Array(value), Some(Object::Memory(memory.get() as u64)));
        Ok(RawMipmappedArray::new(raw))
    }

    unsafe fn mipmapped_array_level(&self, array: RawMipmappedArray, level: u32) -> Result<RawArray> {
        let mut state = self.begin(Call::MipmappedArrayLevel { array, level })?;
        state.require(Object::Array(array.get() as u64));
        // As in drivers, the same level is the same array.
        let known = state.levels.iter().find(|(_, of)| **of == (array.get() as u64, level)).map(|(raw, _)| *raw);
        let raw = known.unwrap_or_else(next);
        state.levels.insert(raw, (array.get() as u64, level));
        Ok(RawArray::new(usize::try_from(raw).expect("small")))
    }

    unsafe fn fill_nv_sci_sync_attributes(&self, _list: NvSciSyncAttrList, uses: NvSciSyncUse) -> Result<()> {
        self.begin(Call::FillNvSciSyncAttributes(uses)).map(drop)
    }

    unsafe fn create_surface(&self, array: RawArray) -> Result<RawSurface> {
        let mut state = self.begin(Call::CreateSurface(array))?;
        let (raw, value) = fresh();
        let array = state.array_of(array);
        state.create(Object::Surface(value), Some(array));
        Ok(RawSurface::new(raw))
    }

    unsafe fn destroy_surface(&self, surface: RawSurface) -> Result<()> {
        self.free(Call::DestroySurface(surface), Object::Surface(surface.get() as u64))
    }

    unsafe fn create_texture(&self, src: TextureSource, desc: &TextureDesc) -> Result<RawTexture> {
        let mut state = self.begin(Call::CreateTexture(src, *desc))?;
        let (raw, value) = fresh();
        let array = match src {
            TextureSource::Array(array) => state.array_of(array),
            TextureSource::MipmappedArray { raw, .. } => Object::Array(raw.get() as u64),
        };
        state.create(Object::Texture(value), Some(array));
        Ok(RawTexture::new(raw))
    }

    unsafe fn destroy_texture(&self, texture: RawTexture) -> Result<()> {
        self.free(Call::DestroyTexture(texture), Object::Texture(texture.get() as u64))
    }

    unsafe fn free_mipmapped_array(&self, array: RawMipmappedArray) -> Result<()> {
        self.free(Call::FreeMipmappedArray(array), Object::Array(array.get() as u64))
    }

    fn create_exportable(&self, size: u64) -> Result<ExportableAllocation> {
        let mut state = self.begin(Call::CreateExportable(size))?;
        let ((raw, value), size) = (fresh(), size.next_multiple_of(4096));
        let address = next_address(size);
        state.create(Object::Allocation(value), None);
        state.ranges.insert(address, (size, Object::Allocation(value)));
        Ok(ExportableAllocation { raw: RawAllocation::new(raw), ptr: DevicePtr::new(address), size })
    }

    unsafe fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        self.begin(Call::ExportAllocation(allocation.raw))?.require(Object::Allocation(allocation.raw.get() as u64));
        Ok(super::super::exported::memory("exported"))
    }

    unsafe fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()> {
        self.free(Call::DestroyExportable(allocation.raw), Object::Allocation(allocation.raw.get() as u64))
    }

    unsafe fn import_semaphore(&self, request: &SemaphoreImport) -> Result<RawSemaphore> {
        self.lend_semaphore(request.handle(), Call::ImportSemaphore(request.handle().kind()))?;
        let (raw, value) = fresh();
        self.lock().create(Object::Semaphore(value), None);
        Ok(RawSemaphore::new(raw))
    }

    unsafe fn destroy_semaphore(&self, semaphore: RawSemaphore) -> Result<()> {
        self.free(Call::DestroySemaphore(semaphore), Object::Semaphore(semaphore.get() as u64))
    }

    unsafe fn signal_semaphores(&self, stream: RawStream, signals: &[RawSignal]) -> Result<()> {
        // The hook may take the lock.
        let hook = self.lock().before_signal.take();
        if let Some(hook) = hook {
            hook();
        }
        let mut state = self.begin(Call::SignalSemaphores(stream, signals.to_vec()))?;
        state.enqueue(stream, signals.iter().map(|signal| Object::Semaphore(signal.semaphore.get() as u64)));
        Ok(())
    }

    unsafe fn wait_semaphores(&self, stream: RawStream, waits: &[RawWait]) -> Result<()> {
        let mut state = self.begin(Call::WaitSemaphores(stream, waits.to_vec()))?;
        state.enqueue(stream, waits.iter().map(|wait| Object::Semaphore(wait.semaphore.get() as u64)));
        Ok(())
    }

    fn create_stream(&self) -> Result<RawStream> {
        let mut state = self.begin(Call::CreateStream)?;
        let (raw, value) = fresh();
        state.create(Object::Stream(value), None);
        state.queues.entry(value).or_default();
        Ok(RawStream::new(raw))
    }

    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()> {
        self.free(Call::DestroyStream(stream), Object::Stream(stream.get() as u64))
    }

    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()> {
        self.begin(Call::SynchronizeStream(stream))?.require(Object::Stream(stream.get() as u64));
        let start = Instant::now();
        loop {
            let mut state = self.lock();
            state.finish(stream.get() as u64);
            if state.queues.get(&(stream.get() as u64)).is_none_or(|queue| queue.done == queue.enqueued) {
                break;
            }
            drop(state);
            assert!(start.elapsed() < PATIENCE, "a stream waits without end");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.run_host_functions(stream.get() as u64);
        Ok(())
    }

    unsafe fn query_stream(&self, stream: RawStream) -> Result<bool> {
        let mut state = self.begin(Call::QueryStream(stream))?;
        assert!(!state.graphs.records(stream.get() as u64), "a query of a recording stream invalidates the recording");
        state.require(Object::Stream(stream.get() as u64));
        state.advance_all();
        let idle = state.queues.get(&(stream.get() as u64)).is_none_or(|queue| queue.done == queue.enqueued);
        state.queried();
        Ok(idle)
    }

    fn create_event(&self) -> Result<RawEvent> {
        let mut state = self.begin(Call::CreateEvent)?;
        let (raw, value) = fresh();
        state.create(Object::Event(value), None);
        state.events.insert(value, None);
        Ok(RawEvent::new(raw))
    }

    unsafe fn destroy_event(&self, event: RawEvent) -> Result<()> {
        self.free(Call::DestroyEvent(event), Object::Event(event.get() as u64))
    }

    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        // The hook may take the lock.
        let hook = self.lock().before_record.take();
        if let Some(hook) = hook {
            hook();
        }
        let mut state = self.begin(Call::RecordEvent(event, stream))?;
        state.require(Object::Event(event.get() as u64));
        state.require(Object::Stream(stream.get() as u64));
        let item = state.queues.get(&(stream.get() as u64)).map(|queue| (stream.get() as u64, queue.enqueued));
        state.events.insert(event.get() as u64, item);
        Ok(())
    }

    unsafe fn query_event(&self, event: RawEvent) -> Result<bool> {
        let mut state = self.begin(Call::QueryEvent(event))?;
        state.require(Object::Event(event.get() as u64));
        state.advance_all();
        let passed = match state.events.get(&(event.get() as u64)) {
            Some(Some((stream, item))) => state.queues.get(stream).is_none_or(|queue| queue.done >= *item),
            _ => true,
        };
        state.queried();
        Ok(passed)
    }

    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let mut state = self.begin(Call::WaitEvent(stream, event))?;
        state.require(Object::Event(event.get() as u64));
        state.enqueue(stream, []);
        Ok(())
    }

    unsafe fn copy(&self, stream: RawStream, dst: DevicePtr, src: DevicePtr, size: u64) -> Result<()> {
        let mut state = self.begin(Call::Copy { stream, dst, src, size })?;
        let mut used = state.owners(dst.get(), size);
        used.extend(state.owners(src.get(), size));
        state.enqueue(stream, used);
        Ok(())
    }

    unsafe fn copy_to_host(&self, stream: RawStream, dst: *mut u8, src: DevicePtr, size: u64) -> Result<()> {
        let mut state = self.begin(Call::CopyToHost { stream, src, size })?;
        let used = state.owners(src.get(), size);
        state.enqueue(stream, used);
        for index in 0..size {
            // SAFETY: the caller guarantees that `size` bytes at `dst` are valid for writes.
            unsafe { dst.add(usize::try_from(index).expect("fits")).write(index.to_le_bytes()[0]) };
        }
        Ok(())
    }

    unsafe fn copy_from_host(&self, stream: RawStream, dst: DevicePtr, src: *const u8, size: u64) -> Result<()> {
        // SAFETY: the caller guarantees that `size` bytes at `src` are valid for reads.
        let bytes = unsafe { std::slice::from_raw_parts(src, usize::try_from(size).expect("fits")) }.to_vec();
        let mut state = self.begin(Call::CopyFromHost { stream, dst, bytes })?;
        let used = state.owners(dst.get(), size);
        state.enqueue(stream, used);
        Ok(())
    }

    unsafe fn copy_array(&self, stream: RawStream, copy: &ArrayCopy) -> Result<()> {
        let [width, height, depth] = copy.extent;
        let (dst, src) = (copy.dst.into(), copy.src.into());
        let mut state = self.begin(Call::CopyArray { stream, dst, src, extent: copy.extent })?;
        let mut used = Vec::new();
        for side in [copy.dst, copy.src] {
            match side {
                ArrayCopySide::Host { .. } => {}
                ArrayCopySide::Linear { ptr, row_pitch, rows } => {
                    let size = ((depth - 1) * rows + height - 1) * row_pitch + width;
                    used.extend(state.owners(ptr.get(), size));
                }
                ArrayCopySide::Array { raw, .. } => used.push(state.array_of(raw)),
            }
        }
        state.enqueue(stream, used);
        if let ArrayCopySide::Host { ptr, row_pitch, rows } = copy.dst {
            assert_eq!((row_pitch, rows), (width, height), "host memory is without gaps");
            for index in 0..width * height * depth {
                // SAFETY: the caller guarantees that the extent is valid for writes.
                unsafe { ptr.add(usize::try_from(index).expect("fits")).write(index.to_le_bytes()[0]) };
            }
        }
        Ok(())
    }

    unsafe fn fill_u8(&self, stream: RawStream, dst: DevicePtr, value: u8, size: u64) -> Result<()> {
        let mut state = self.begin(Call::FillU8 { stream, dst, value, size })?;
        let used = state.owners(dst.get(), size);
        state.enqueue(stream, used);
        Ok(())
    }

    unsafe fn fill_u32(&self, stream: RawStream, dst: DevicePtr, value: u32, count: u64) -> Result<()> {
        let mut state = self.begin(Call::FillU32 { stream, dst, value, count })?;
        let used = state.owners(dst.get(), count * 4);
        state.enqueue(stream, used);
        Ok(())
    }

    unsafe fn wait_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32, when: WaitCondition) -> Result<()> {
        let mut state = self.begin(Call::WaitValueU32(stream, word, value, when))?;
        let used = state.owners(word.get(), 4);
        state.enqueue_item(stream, Item::Wait(word.get(), value.into(), Width::Low), used);
        Ok(())
    }

    unsafe fn wait_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64, when: WaitCondition) -> Result<()> {
        let mut state = self.begin(Call::WaitValueU64(stream, word, value, when))?;
        let used = state.owners(word.get(), 8);
        state.enqueue_item(stream, Item::Wait(word.get(), value, Width::Whole), used);
        Ok(())
    }

    unsafe fn write_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32) -> Result<()> {
        let mut state = self.begin(Call::WriteValueU32(stream, word, value))?;
        let used = state.owners(word.get(), 4);
        state.enqueue_item(stream, Item::Write(word.get(), value.into(), Width::Low), used);
        Ok(())
    }

    unsafe fn write_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64) -> Result<()> {
        let mut state = self.begin(Call::WriteValueU64(stream, word, value))?;
        let used = state.owners(word.get(), 8);
        state.enqueue_item(stream, Item::Write(word.get(), value, Width::Whole), used);
        Ok(())
    }

    fn allocate_signal_memory(&self) -> Result<SignalMemory> {
        let mut state = self.begin(Call::AllocateSignalMemory)?;
        let address = next_address(SIGNAL_MEMORY as u64);
        state.create(Object::SignalMemory(address), None);
        state.ranges.insert(address, (SIGNAL_MEMORY as u64, Object::SignalMemory(address)));
        Ok(state.words.allocate(address, SIGNAL_MEMORY))
    }

    unsafe fn free_signal_memory(&self, memory: SignalMemory) -> Result<()> {
        self.free(Call::FreeSignalMemory(memory.ptr), Object::SignalMemory(memory.ptr.get()))?;
        self.lock().words.free(memory);
        Ok(())
    }

    unsafe fn launch_host_function(&self, stream: RawStream, function: HostFunction, data: *mut c_void) -> Result<()> {
        let mut state = self.begin(Call::LaunchHostFunction(stream))?;
        state.enqueue(stream, []);
        let call = HostCall { stream: stream.get() as u64, function, data: data.expose_provenance() };
        state.host_calls.push(call);
        Ok(())
    }

    fn load_module(&self, image: ModuleImage<'_>) -> Result<RawModule> {
        let bytes = match image {
            ModuleImage::Builtin => Vec::new(),
            ModuleImage::Ptx(src) => src.to_bytes().to_vec(),
            ModuleImage::Binary(image) => image.bytes().to_vec(),
        };
        let mut state = self.begin(Call::LoadModule(bytes))?;
        let (raw, value) = fresh();
        state.create(Object::Module(value), None);
        Ok(RawModule::new(raw))
    }

    unsafe fn unload_module(&self, module: RawModule) -> Result<()> {
        self.free(Call::UnloadModule(module), Object::Module(module.get() as u64))
    }

    unsafe fn module_kernel(&self, module: RawModule, name: &CStr) -> Result<RawKernel> {
        let mut state = self.begin(Call::ModuleKernel(module, name.to_string_lossy().into_owned()))?;
        let (raw, value) = fresh();
        state.require(Object::Module(module.get() as u64));
        state.kernels.insert(value, Object::Module(module.get() as u64));
        Ok(RawKernel::new(raw))
    }

    unsafe fn launch_kernel(
        &self,
        stream: RawStream,
        kernel: RawKernel,
        config: &LaunchConfig,
        args: &[KernelArg<'_>],
    ) -> Result<()> {
        let call = Call::LaunchKernel {
            stream,
            kernel,
            config: *config,
            args: args.iter().map(|arg| format!("{arg:?}")).collect(),
        };
        let mut state = self.begin(call)?;
        let module = state.kernels.get(&(kernel.get() as u64)).copied();
        state.enqueue(stream, module);
        Ok(())
    }

    unsafe fn begin_capture(&self, stream: RawStream) -> Result<()> {
        let mut state = self.begin(Call::BeginCapture(stream))?;
        state.require(Object::Stream(stream.get() as u64));
        state.graphs.begin(stream.get() as u64);
        Ok(())
    }

    unsafe fn last_captured(&self, stream: RawStream) -> Result<RawGraphNode> {
        let state = self.begin(Call::LastCaptured(stream))?;
        assert!(state.graphs.records(stream.get() as u64), "only streams that record have nodes");
        Ok(RawGraphNode::new(fresh().0))
    }

    /// Ends the recording, also if the call fails.
    unsafe fn end_capture(&self, stream: RawStream) -> Result<RawGraph> {
        let begun = self.begin(Call::EndCapture(stream)).map(drop);
        let mut state = self.lock();
        if begun.is_err() {
            state.graphs.discard(stream.get() as u64);
        }
        begun?;
        let (raw, value) = fresh();
        state.create(Object::Graph(value), None);
        state.graphs.end(stream.get() as u64, value);
        Ok(RawGraph::new(raw))
    }

    unsafe fn set_captured_signals(&self, graph: RawGraph, node: RawGraphNode, signals: &[RawSignal]) -> Result<()> {
        let mut state = self.begin(Call::SetCapturedSignals(graph, node, signals.to_vec()))?;
        let used = signals.iter().map(|signal| Object::Semaphore(signal.semaphore.get() as u64));
        state.graphs.uses(graph.get() as u64).extend(used);
        Ok(())
    }

    unsafe fn set_captured_waits(&self, graph: RawGraph, node: RawGraphNode, waits: &[RawWait]) -> Result<()> {
        let mut state = self.begin(Call::SetCapturedWaits(graph, node, waits.to_vec()))?;
        let used = waits.iter().map(|wait| Object::Semaphore(wait.semaphore.get() as u64));
        state.graphs.uses(graph.get() as u64).extend(used);
        Ok(())
    }

    unsafe fn launch_graph(&self, stream: RawStream, graph: RawGraph) -> Result<()> {
        let mut state = self.begin(Call::LaunchGraph(stream, graph))?;
        let mut used = state.graphs.uses(graph.get() as u64).clone();
        used.push(Object::Graph(graph.get() as u64));
        state.enqueue(stream, used);
        Ok(())
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) -> Result<()> {
        self.free(Call::DestroyGraph(graph), Object::Graph(graph.get() as u64))
    }
}

#[derive(Debug, Default)]
pub(super) struct Graphs {
    /// Recording streams, with the objects used.
    recording: BTreeMap<u64, Vec<Object>>,
    live: BTreeMap<u64, Vec<Object>>,
}

impl Graphs {
    pub(super) fn begin(&mut self, stream: u64) {
        self.recording.insert(stream, Vec::new());
    }

    /// Records the objects that work on a stream uses, if the stream is recording.
    pub(super) fn record(&mut self, stream: u64, used: &[Object]) -> bool {
        let Some(recording) = self.recording.get_mut(&stream) else { return false };
        recording.extend(used.iter().filter(|object| **object != Object::Stream(stream)));
        true
    }

    pub(super) fn records(&self, stream: u64) -> bool {
        self.recording.contains_key(&stream)
    }

    pub(super) fn end(&mut self, stream: u64, graph: u64) {
        self.live.insert(graph, self.recording.remove(&stream).unwrap_or_default());
    }

    pub(super) fn discard(&mut self, stream: u64) {
        self.recording.remove(&stream);
    }

    pub(super) fn uses(&mut self, graph: u64) -> &mut Vec<Object> {
        self.live.entry(graph).or_default()
    }

    /// A graph that uses `object`.
    pub(super) fn user(&self, object: Object) -> Option<Object> {
        self.live.iter().find(|(_, used)| used.contains(&object)).map(|(graph, _)| Object::Graph(*graph))
    }

    pub(super) fn remove(&mut self, object: Object) {
        if let Object::Graph(graph) = object {
            self.live.remove(&graph);
        }
    }
}

/// Content of freed signal memory.
const FREED: u64 = 0xf4ee_dddd_f4ee_dddd;

/// Width of a word operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Low,
    Whole,
}

/// An item of work.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item {
    /// Without effect.
    Plain,
    /// Completes once the word at this address has reached the value, in the drivers' comparison.
    Wait(u64, u64, Width),
    Write(u64, u64, Width),
}

/// Work is counted: item `n` has run once `done >= n`.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) held: bool,
    pub(super) enqueued: u64,
    /// Last item that may run.
    released: u64,
    pub(super) done: u64,
    /// Items after `done`.
    items: VecDeque<Item>,
}

impl Queue {
    pub(super) fn push(&mut self, item: Item) {
        self.enqueued += 1;
        self.items.push_back(item);
        if !self.held {
            self.release();
        }
    }

    /// Allows the enqueued items to run.
    pub(super) fn release(&mut self) {
        self.released = self.enqueued;
    }

    /// Runs the released items, up to an unsatisfied wait.
    pub(super) fn advance(&mut self, words: &Words) {
        while self.done < self.released {
            match self.items.front() {
                Some(Item::Wait(address, value, width)) if !words.is_reached(*address, *value, *width) => return,
                Some(Item::Write(address, value, width)) => words.write(*address, *value, *width),
                _ => {}
            }
            self.items.pop_front();
            self.done += 1;
        }
    }

    /// Completes all items without effect.
    pub(super) fn cancel(&mut self) {
        self.items.clear();
        self.release();
        self.done = self.enqueued;
    }
}

/// All signal memory ever allocated, to detect writes after a free.
#[derive(Debug, Default)]
pub(super) struct Words(Vec<Block>);

#[derive(Debug)]
struct Block {
    address: u64,
    words: Arc<[AtomicU64]>,
}

impl Words {
    pub(super) fn allocate(&mut self, address: u64, size: usize) -> SignalMemory {
        let words: Arc<[AtomicU64]> = (0..size / 8).map(|_| AtomicU64::new(0)).collect();
        let host = std::ptr::NonNull::from(&*words).cast();
        self.0.push(Block { address, words });
        SignalMemory { host, ptr: DevicePtr::new(address), size }
    }

    pub(super) fn free(&self, memory: SignalMemory) {
        let block = self.0.iter().find(|block| block.address == memory.ptr.get());
        block.into_iter().flat_map(|block| block.words.iter()).for_each(|word| word.store(FREED, Ordering::SeqCst));
    }

    /// Addresses of freed blocks that were written since.
    pub(super) fn written_after_free(&self) -> Vec<u64> {
        let freed = |block: &&Block| block.words.iter().any(|word| word.load(Ordering::SeqCst) == FREED);
        let written_after_free = |block: &Block| block.words.iter().any(|word| word.load(Ordering::SeqCst) != FREED);
        self.0.iter().filter(freed).filter(|block| written_after_free(block)).map(|block| block.address).collect()
    }

    fn word(&self, address: u64) -> Option<&AtomicU64> {
        let offset = |block: &Block| usize::try_from(address.checked_sub(block.address)?).ok();
        self.0.iter().find_map(|block| block.words.get(offset(block)? / 8))
    }

    fn is_reached(&self, address: u64, value: u64, width: Width) -> bool {
        let Some(word) = self.word(address) else { return true };
        let ahead = word.load(Ordering::SeqCst).wrapping_sub(value);
        match width {
            Width::Whole => ahead.cast_signed() >= 0,
            Width::Low => ahead & (1 << 31) == 0,
        }
    }

    fn write(&self, address: u64, value: u64, width: Width) {
        let Some(word) = self.word(address) else { return };
        let high = if width == Width::Low { word.load(Ordering::SeqCst) >> 32 << 32 } else { 0 };
        word.store(high | value, Ordering::SeqCst);
    }
}
