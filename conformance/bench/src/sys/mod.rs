//! The unsafe part of the measurements: raw driver calls, another binding, the backend layer, and host
//! memory that the GPU copies from. The functions are safe: enqueued work has completed before they return, so that no
//! object is freed while in use.

mod cuda;
#[cfg(feature = "wgpu")]
mod texel_kernels;

use std::time::{Duration, Instant};

pub(super) use self::cuda::{Answer, Cudarc, NativeMemory, RawCuda, RawImport, SemaphoreBatch};
#[cfg(feature = "wgpu")]
pub(super) use self::texel_kernels::TexelKernels;
use gpu_interop::backend::{RawSignal, RawWait};
use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{ExportableBuffer, OwnedBuffer, ash, memory_handle_type};
use gpu_interop::{
    BufferSlice, Device, ExternalSemaphore, MemoryImport, SemaphoreImport, SemaphorePayload, SignalParams, Stream,
    WaitParams,
};
use gpu_interop_conformance::{Stop, Verdict, ensure};

/// Durations of the steps of one import.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    pub(super) import: Duration,
    pub(super) map: Duration,
    /// Unmapping and ending the import, if they are two steps.
    pub(super) free_and_destroy: Option<(Duration, Duration)>,
    /// Both together.
    pub(super) release: Duration,
}

impl Steps {
    /// Durations between five moments: before, imported, mapped, unmapped, ended.
    pub(super) fn between([start, imported, mapped, freed, destroyed]: [Instant; 5]) -> Self {
        Self {
            import: imported - start,
            map: mapped - imported,
            free_and_destroy: Some((freed - mapped, destroyed - freed)),
            release: destroyed - mapped,
        }
    }
}

/// A stream and imported timelines of one device.
pub(crate) struct ImportedTimelines {
    device: Device,
    stream: Stream,
    semaphores: Vec<ExternalSemaphore>,
}

impl ImportedTimelines {
    /// Creates the stream and imports the timelines.
    pub(crate) fn new(device: &Device, timelines: impl IntoIterator<Item = SemaphoreImport>) -> Verdict<Self> {
        let import = |request: SemaphoreImport| {
            ensure!(request.handle().kind().payload() == SemaphorePayload::Timeline, "the semaphore is no timeline");
            Ok(device.import_semaphore(request)?)
        };
        let semaphores = timelines.into_iter().map(import).collect::<Verdict<_>>()?;
        Ok(Self { device: device.clone(), stream: device.create_stream()?, semaphores })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn semaphores(&self) -> &[ExternalSemaphore] {
        &self.semaphores
    }

    /// All timelines, if there are `N`.
    pub(crate) fn batch<const N: usize>(&self) -> Verdict<&[ExternalSemaphore; N]> {
        let count = self.semaphores.len();
        let all = self.semaphores.as_slice().try_into();
        all.map_err(|_| Stop::failed(format!("a batch of {N} needs as many timelines, not {count}")))
    }

    /// Signals all timelines in one batch, `calls` times with rising values from `first` on. Returns the duration of
    /// the calls and then waits for the stream.
    pub(crate) fn backend_signals<const N: usize>(&self, first: u64, calls: u64) -> Verdict<Duration> {
        let (backend, stream, semaphores) = (&**self.device.as_raw(), self.stream.as_raw(), self.batch::<N>()?);
        let start = Instant::now();
        let enqueued = (first..first + calls).try_for_each(|value| {
            let signals: [RawSignal; N] = std::array::from_fn(|index| RawSignal {
                semaphore: semaphores[index].as_raw(),
                params: SignalParams::Value(value),
            });
            // SAFETY: stream and timelines are this object's, of this device, and live until the work has run, which
            // this function waits for after an error as well.
            unsafe { backend.signal_semaphores(stream, &signals) }
        });
        let taken = start.elapsed();
        self.stream.synchronize()?;
        Ok(enqueued.map(|()| taken)?)
    }

    /// As [`Self::backend_signals`], waiting for one value that has been reached already.
    pub(crate) fn backend_waits<const N: usize>(&self, value: u64, calls: u64) -> Verdict<Duration> {
        let (backend, stream, semaphores) = (&**self.device.as_raw(), self.stream.as_raw(), self.batch::<N>()?);
        let start = Instant::now();
        let enqueued = (0..calls).try_for_each(|_| {
            let waits: [RawWait; N] = std::array::from_fn(|index| RawWait {
                semaphore: semaphores[index].as_raw(),
                params: WaitParams::Value(value),
            });
            // SAFETY: as in `backend_signals`.
            unsafe { backend.wait_semaphores(stream, &waits) }
        });
        let taken = start.elapsed();
        self.stream.synchronize()?;
        Ok(enqueued.map(|()| taken)?)
    }
}

/// Imports memory, maps `size` bytes from its start, unmaps and ends the import. An error leaks the import.
pub(crate) fn backend_cycle(device: &Device, request: MemoryImport, size: u64) -> Verdict<Steps> {
    request.validate("bench", device.identity())?;
    ensure!(0 < size && size <= request.size(), "the mapping is not inside the memory");
    let backend = &**device.as_raw();
    let start = Instant::now();
    // SAFETY: the request was validated.
    let memory = unsafe { backend.import_memory(&request) }?;
    drop(request);
    let imported = Instant::now();
    // SAFETY: the import is live, and the range inside it.
    let buffer = unsafe { backend.map_buffer(memory, 0, size) }?;
    let mapped = Instant::now();
    // SAFETY: just mapped; nothing that uses it was enqueued.
    unsafe { backend.free_buffer(memory, buffer) }?;
    let freed = Instant::now();
    // SAFETY: just imported, and its only mapping is gone.
    unsafe { backend.destroy_memory(memory) }?;
    Ok(Steps::between([start, imported, mapped, freed, Instant::now()]))
}

/// Copies the start of a host-visible Vulkan buffer to device memory, from Vulkan's mapping, and blocks
/// until the copy has completed. Vulkan must not write the buffer during the copy.
pub(crate) fn copy_from_staging(stream: &Stream, target: BufferSlice<'_>, staging: &OwnedBuffer) -> Verdict {
    let Some(source) = staging.mapped_ptr() else {
        return Err(Stop::failed("the staging buffer is not host-visible".into()));
    };
    ensure!(target.size() <= staging.size(), "the staging buffer is smaller than the frame");
    // SAFETY: mapped as long as the borrowed buffer lives, and at least this long; the copy has run, or never will,
    // when the synchronisation returns.
    let enqueued = unsafe { stream.write_async(target, source.as_ptr()) };
    stream.synchronize()?;
    Ok(enqueued?)
}

/// Buffers that are destroyed on drop, also after an error.
struct Buffers<'a> {
    device: &'a ash::Device,
    list: Vec<vk::Buffer>,
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        for buffer in self.list.drain(..) {
            // SAFETY: this object's, destroyed once; nothing uses it.
            unsafe { self.device.destroy_buffer(buffer, None) };
        }
    }
}

/// Creates `count` buffers of `size` bytes, bound one behind the other to the memory of `whole`, and destroys them.
/// Returns the durations of both.
pub(crate) fn bound_buffers(whole: &ExportableBuffer, count: u32, size: u64) -> Verdict<[Duration; 2]> {
    let memory = whole.buffer();
    ensure!(!memory.is_dedicated(), "the memory is dedicated to another buffer");
    let types = memory_handle_type(whole.handle_kind()).ok_or_else(|| Stop::failed("no handle of Vulkan".into()))?;
    let failed = |error: vk::Result| Stop::failed(format!("Vulkan: {error}"));
    let capacity = usize::try_from(count)?;
    let mut buffers = Buffers { device: memory.interop().device(), list: Vec::with_capacity(capacity) };
    let mut taken = Duration::ZERO;
    for number in 0..u64::from(count) {
        let start = Instant::now();
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(types);
        let info = vk::BufferCreateInfo::default().size(size).usage(memory.usage()).push_next(&mut external);
        // SAFETY: the device is live, and creates such buffers for `whole`.
        let buffer = unsafe { buffers.device.create_buffer(&info, None) }.map_err(failed)?;
        buffers.list.push(buffer);
        // SAFETY: the buffer is live.
        let needs = unsafe { buffers.device.get_buffer_memory_requirements(buffer) };
        let offset = (number * size).next_multiple_of(needs.alignment);
        let fits = offset + needs.size <= memory.allocation_size();
        ensure!(fits && needs.memory_type_bits & 1 << memory.memory_type() != 0, "the memory does not fit the buffer");
        // SAFETY: the range is inside the memory and aligned, the type is allowed, and the buffer is not bound.
        unsafe { buffers.device.bind_buffer_memory(buffer, memory.memory(), offset) }.map_err(failed)?;
        taken += start.elapsed();
    }
    let start = Instant::now();
    drop(buffers);
    Ok([taken, start.elapsed()])
}
