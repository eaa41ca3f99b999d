//! Signals and waits of up to 8 semaphores make no heap allocation before the backend.

#![cfg(unix)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gpu_interop_core::backend::{RawEvent, RawMemory, RawSemaphore, RawSignal, RawStream, RawWait};
use gpu_interop_core::{
    BackendDevice, BackendInfo, Capabilities, Device, DeviceIdentity, DevicePtr, Error, ExternalSemaphore,
    MemoryImport, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, Support,
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
        Ok(RawSemaphore::new(1))
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

fn open() -> Device {
    let kinds = [SemaphoreHandleKind::OpaqueFd, SemaphoreHandleKind::TimelineFd];
    let capabilities =
        kinds.into_iter().fold(Capabilities::none(), |all, kind| all.with_semaphore(kind, Support::Native));
    let info = BackendInfo::new("trivial", "none").with_simulated(true);
    Device::from_backend_device(info, Arc::new(Trivial { identity: DeviceIdentity::default(), capabilities }))
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
