//! The backend layer without the safe objects: the difference to raw calls is the backend's own cost.

use std::time::{Duration, Instant};

use gpu_interop::backend::{RawSignal, RawWait};
use gpu_interop::{
    Device, ExternalSemaphore, MemoryImport, SemaphoreImport, SemaphorePayload, SignalParams, Stream, WaitParams,
};
use gpu_interop_conformance::{Stop, Verdict, ensure};

use super::Steps;

/// A stream and imported timelines of one device.
pub(crate) struct Lane {
    device: Device,
    stream: Stream,
    semaphores: Vec<ExternalSemaphore>,
}

impl Lane {
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

    /// The first `count` timelines, if there are as many.
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
