//! Signals and waits of up to 8 semaphores, and prepared ones of any number, make no heap allocation before the backend.

#![cfg(unix)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gpu_interop_core::backend::{
    BlockLayout, RawEvent, RawMemory, RawSemaphore, RawSignal, RawStream, RawWait, SemaphoreBlocks,
};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{
    BackendDevice, BackendInfo, Capabilities, Device, DeviceIdentity, DevicePtr, Error, ExternalSemaphore,
    MemoryImport, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, SignalBatch, Support, WaitBatch,
};

struct Counting;

thread_local! {
    // Per thread, so that the test harness's own threads do not count.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // `try_with`: a thread still allocates while its locals are being torn down.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: forwards every call unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Fake backend that accepts every call and allocates nothing.
#[derive(Debug)]
struct Trivial {
    identity: DeviceIdentity,
    capabilities: Capabilities,
    blocks: Option<SemaphoreBlocks>,
    /// Semaphores and blocks of the last prepared signals and waits.
    last: Mutex<[(Vec<RawSemaphore>, Vec<u64>); 2]>,
    next: AtomicUsize,
}

impl Trivial {
    fn keep(&self, index: usize, semaphores: &[RawSemaphore], blocks: &[u64]) {
        let mut last = lock(&self.last);
        // The vectors have this capacity.
        last[index].0.clear();
        last[index].0.extend_from_slice(semaphores);
        last[index].1.clear();
        last[index].1.extend_from_slice(blocks);
    }
}

fn unused<T>() -> Result<T> {
    Err(Error::unsupported("Trivial", "this test needs semaphores only"))
}

// SAFETY: it runs no work and has no signal memory.
unsafe impl BackendDevice for Trivial {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    unsafe fn import_memory(&self, _: &MemoryImport) -> Result<RawMemory> {
        unused()
    }

    unsafe fn destroy_memory(&self, _: RawMemory) -> Result<()> {
        unused()
    }

    unsafe fn map_buffer(&self, _: RawMemory, _: u64, _: u64) -> Result<DevicePtr> {
        unused()
    }

    unsafe fn free_buffer(&self, _: RawMemory, _: DevicePtr) -> Result<()> {
        unused()
    }

    unsafe fn import_semaphore(&self, _: &SemaphoreImport) -> Result<RawSemaphore> {
        Ok(RawSemaphore::new(self.next.fetch_add(1, Ordering::Relaxed)))
    }

    unsafe fn destroy_semaphore(&self, _: RawSemaphore) -> Result<()> {
        Ok(())
    }

    unsafe fn signal_semaphores(&self, _: RawStream, signals: &[RawSignal]) -> Result<()> {
        std::hint::black_box(signals);
        Ok(())
    }

    unsafe fn wait_semaphores(&self, _: RawStream, waits: &[RawWait]) -> Result<()> {
        std::hint::black_box(waits);
        Ok(())
    }

    fn semaphore_blocks(&self) -> Option<SemaphoreBlocks> {
        self.blocks
    }

    unsafe fn signal_blocks(&self, _: RawStream, semaphores: &[RawSemaphore], blocks: &[u64]) -> Result<()> {
        self.keep(0, semaphores, blocks);
        Ok(())
    }

    unsafe fn wait_blocks(&self, _: RawStream, semaphores: &[RawSemaphore], blocks: &[u64]) -> Result<()> {
        self.keep(1, semaphores, blocks);
        Ok(())
    }

    fn create_stream(&self) -> Result<RawStream> {
        Ok(RawStream::new(1))
    }

    unsafe fn destroy_stream(&self, _: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn synchronize_stream(&self, _: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn query_stream(&self, _: RawStream) -> Result<bool> {
        Ok(true)
    }

    fn create_event(&self) -> Result<RawEvent> {
        unused()
    }

    unsafe fn destroy_event(&self, _: RawEvent) -> Result<()> {
        unused()
    }

    unsafe fn record_event(&self, _: RawEvent, _: RawStream) -> Result<()> {
        unused()
    }

    unsafe fn query_event(&self, _: RawEvent) -> Result<bool> {
        unused()
    }

    unsafe fn wait_event(&self, _: RawStream, _: RawEvent) -> Result<()> {
        unused()
    }

    unsafe fn copy(&self, _: RawStream, _: DevicePtr, _: DevicePtr, _: u64) -> Result<()> {
        unused()
    }

    unsafe fn copy_to_host(&self, _: RawStream, _: *mut u8, _: DevicePtr, _: u64) -> Result<()> {
        unused()
    }

    unsafe fn copy_from_host(&self, _: RawStream, _: DevicePtr, _: *const u8, _: u64) -> Result<()> {
        unused()
    }

    unsafe fn fill_u8(&self, _: RawStream, _: DevicePtr, _: u8, _: u64) -> Result<()> {
        unused()
    }

    unsafe fn fill_u32(&self, _: RawStream, _: DevicePtr, _: u32, _: u64) -> Result<()> {
        unused()
    }
}

/// Blocks of different layouts for signals and waits.
const BLOCKS: SemaphoreBlocks =
    SemaphoreBlocks { signal: BlockLayout { words: 18, value: 2 }, wait: BlockLayout { words: 3, value: 1 } };

fn open() -> Device {
    open_with(None).1
}

fn open_with(blocks: Option<SemaphoreBlocks>) -> (Arc<Trivial>, Device) {
    let kinds = [SemaphoreHandleKind::OpaqueFd, SemaphoreHandleKind::TimelineFd];
    let capabilities =
        kinds.into_iter().fold(Capabilities::none(), |all, kind| all.with_semaphore(kind, Support::Native));
    let info = BackendInfo::new("trivial", "none").with_simulated(true);
    let last = || (Vec::with_capacity(64), Vec::with_capacity(64 * 18));
    let trivial = Arc::new(Trivial {
        identity: DeviceIdentity::default(),
        capabilities,
        blocks,
        last: Mutex::new([last(), last()]),
        next: AtomicUsize::new(1),
    });
    (trivial.clone(), Device::from_backend_device(info, trivial))
}

fn semaphore(device: &Device, wrap: fn(OwnedFd) -> SemaphoreHandle) -> Result<ExternalSemaphore> {
    let fd = rustix::fs::memfd_create("semaphore", rustix::fs::MemfdFlags::CLOEXEC).map_err(std::io::Error::from);
    let fd = fd.map_err(|error| Error::invalid("memfd_create", error.to_string()))?;
    // SAFETY: `Trivial` calls no driver.
    let request = unsafe { SemaphoreImport::new(wrap(fd)) };
    Ok(device.import_semaphore(request)?)
}

/// Number of allocations that `work` makes on this thread.
fn allocations(work: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = ALLOCATIONS.get();
    work()?;
    Ok(ALLOCATIONS.get() - before)
}

#[test]
fn batches_of_up_to_8_allocate_nothing() -> Result<()> {
    let device = open();
    let stream = device.create_stream()?;
    let binary: [ExternalSemaphore; 4] = {
        let make = || semaphore(&device, SemaphoreHandle::OpaqueFd);
        [make()?, make()?, make()?, make()?]
    };
    let timeline: [ExternalSemaphore; 4] = {
        let make = || semaphore(&device, SemaphoreHandle::TimelineFd);
        [make()?, make()?, make()?, make()?]
    };
    let made = allocations(|| {
        for round in 1..=10_000_u64 {
            // Built on the stack, as an application would, binary semaphores and timelines in turn.
            let signals: [_; 8] = std::array::from_fn(|index| match index % 2 {
                0 => binary[index / 2].signal(),
                _ => timeline[index / 2].signal_value(round),
            });
            let waits: [_; 8] = std::array::from_fn(|index| match index % 2 {
                0 => binary[index / 2].wait(),
                _ => timeline[index / 2].wait_value(round),
            });
            let count = usize::try_from(round % 8).unwrap_or_default() + 1;
            stream.signal(&signals[..count])?;
            stream.wait(&waits[..count])?;
        }
        Ok(())
    })?;
    assert_eq!(made, 0, "allocations in 10,000 signals and waits");
    Ok(())
}

/// A batch beyond the inline size allocates, which validates the counter.
#[test]
fn a_batch_of_9_allocates() -> Result<()> {
    let device = open();
    let stream = device.create_stream()?;
    let timeline = semaphore(&device, SemaphoreHandle::TimelineFd)?;
    for count in [8, 9] {
        let base = count * 100;
        let signals: [_; 9] = std::array::from_fn(|index| timeline.signal_value(base + index as u64));
        let waits: [_; 9] = std::array::from_fn(|index| timeline.wait_value(base + index as u64));
        let count = usize::try_from(count).unwrap_or_default();
        assert_eq!(allocations(|| stream.signal(&signals[..count]))? > 0, count > 8, "{count} signals");
        assert_eq!(allocations(|| stream.wait(&waits[..count]))? > 0, count > 8, "{count} waits");
    }
    Ok(())
}

/// A rejected batch may allocate for its error; later batches do not allocate.
#[test]
fn a_rejected_batch_costs_the_next_one_no_allocation() -> Result<()> {
    let device = open();
    let stream = device.create_stream()?;
    let timeline = semaphore(&device, SemaphoreHandle::TimelineFd)?;
    stream.signal(&[timeline.signal_value(1)])?;
    assert!(allocations(|| stream.signal(&[timeline.signal_value(1)]).or(Ok(())))? > 0, "the error's text");
    assert_eq!(allocations(|| stream.signal(&[timeline.signal_value(2)]))?, 0);
    Ok(())
}

/// 64 semaphores, binary ones and timelines in turn, with and without the backend's own blocks.
#[test]
fn prepared_batches_allocate_nothing_and_carry_every_value() -> Result<()> {
    for blocks in [None, Some(BLOCKS)] {
        let (trivial, device) = open_with(blocks);
        let stream = device.create_stream()?;
        let kinds = [SemaphoreHandle::OpaqueFd, SemaphoreHandle::TimelineFd];
        let semaphores =
            (0..64).map(|index| semaphore(&device, kinds[index % 2]).map(Arc::new)).collect::<Result<Vec<_>>>()?;
        let mut signals = SignalBatch::new(semaphores.iter().cloned())?;
        let mut waits = WaitBatch::new(semaphores.iter().map(|semaphore| &**semaphore))?;
        let value = |round: u64, index: usize| round * 100 + index as u64;
        let made = allocations(|| {
            for round in 1..=1_000_u64 {
                for index in (1..64).step_by(2) {
                    signals.set(index, value(round, index))?;
                    waits.set(index, value(round, index) + 1)?;
                }
                stream.signal_prepared(&mut signals)?;
                stream.wait_prepared(&waits)?;
            }
            // One value for all, with a signal of another kind now and then.
            for round in 1_001..=2_000_u64 {
                signals.fill(value(round, 0));
                waits.fill(value(round, 1));
                stream.signal_prepared(&mut signals)?;
                stream.wait_prepared(&waits)?;
                if round % 7 == 0 {
                    stream.signal(&[semaphores[1].signal_value(value(round, 1))])?;
                }
            }
            Ok(())
        })?;
        assert_eq!(made, 0, "allocations in 2,000 prepared signals and waits, {blocks:?}");
        let last = lock(&trivial.last);
        let Some(blocks) = blocks else {
            assert_eq!(*last, [(vec![], vec![]), (vec![], vec![])]);
            continue;
        };
        let handles: Vec<RawSemaphore> = semaphores.iter().map(|semaphore| semaphore.as_raw()).collect();
        for ((found, words), (layout, more)) in last.iter().zip([(blocks.signal, 0), (blocks.wait, 1)]) {
            assert_eq!(*found, handles);
            let mut expected = vec![0; 64 * layout.words];
            for index in (1..64).step_by(2) {
                expected[index * layout.words + layout.value] = value(2_000, 0) + more;
            }
            assert_eq!(*words, expected);
        }
    }
    Ok(())
}

/// Batches of timelines only, and blocks whose value is not the first word.
#[test]
fn values_of_timelines_are_each_set_and_compared() -> Result<()> {
    let (trivial, device) = open_with(Some(BLOCKS));
    let stream = device.create_stream()?;
    let make = |_| semaphore(&device, SemaphoreHandle::TimelineFd);
    let semaphores = (0..8).map(make).collect::<Result<Vec<_>>>()?;
    let (mut signals, mut waits) = (SignalBatch::new(&semaphores)?, WaitBatch::new(&semaphores)?);
    let assert_enqueued = |values: [u64; 8]| {
        let last = lock(&trivial.last);
        for ((_, words), layout) in last.iter().zip([BLOCKS.signal, BLOCKS.wait]) {
            let mut expected = vec![0; 8 * layout.words];
            for (index, value) in values.into_iter().enumerate() {
                expected[index * layout.words + layout.value] = value;
            }
            assert_eq!(*words, expected);
        }
    };
    let values: [u64; 8] = std::array::from_fn(|index| 11 + index as u64);
    signals.set_all(&values)?;
    waits.set_all(&values)?;
    stream.signal_prepared(&mut signals)?;
    stream.wait_prepared(&waits)?;
    assert_enqueued(values);
    // Each value is compared with the last one of its own timeline.
    for (index, last) in values.into_iter().enumerate() {
        let mut next = values.map(|value| value + 1);
        next[index] = last;
        signals.set_all(&next)?;
        let error = stream.signal_prepared(&mut signals).expect_err("a timeline only grows").to_string();
        assert!(error.contains(&format!("already signalled: {last}")), "{error}");
    }
    assert_enqueued(values);
    signals.fill(19);
    waits.fill(20);
    stream.signal_prepared(&mut signals)?;
    waits.fill(19);
    stream.wait_prepared(&waits)?;
    assert_enqueued([19; 8]);
    Ok(())
}

/// A batch with one timeline, which needs no `fill` to have a common value, behind a binary semaphore.
#[test]
fn the_only_timeline_of_a_batch_carries_its_value() -> Result<()> {
    let (trivial, device) = open_with(Some(BLOCKS));
    let stream = device.create_stream()?;
    let semaphores = [semaphore(&device, SemaphoreHandle::OpaqueFd)?, semaphore(&device, SemaphoreHandle::TimelineFd)?];
    let mut signals = SignalBatch::new(&semaphores)?;
    for value in 1..=4 {
        signals.set(1, value)?;
        stream.signal_prepared(&mut signals)?;
        let last = lock(&trivial.last);
        let mut expected = vec![0; 2 * BLOCKS.signal.words];
        expected[BLOCKS.signal.words + BLOCKS.signal.value] = value;
        assert_eq!(last[0].1, expected);
        drop(last);
        assert!(stream.signal_prepared(&mut signals).is_err(), "{value} twice");
    }
    Ok(())
}
