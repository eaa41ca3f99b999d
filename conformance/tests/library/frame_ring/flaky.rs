//! The host backend with streams that fail on demand.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_interop::backend::{HostFunction, RawEvent, RawMemory, RawStream, SignalMemory};
use gpu_interop::host::HostBackend;
use gpu_interop::{
    Backend, BackendDevice, BackendInfo, Capabilities, Device, DeviceIdentity, DevicePtr, Error, ErrorKind,
    MemoryImport, Result, WaitCondition,
};

/// Failures of a device, off at first.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// Streams cannot write words, by which a bridge learns of their signals.
    pub(crate) no_signals: AtomicBool,
    /// Streams report pending work for ever.
    pub(crate) busy: AtomicBool,
    /// Every operation of a stream fails: the device is lost. What was enqueued before still executes.
    pub(crate) lost: AtomicBool,
}

impl Switches {
    fn check(&self) -> Result<()> {
        let is_lost = self.lost.load(Ordering::Relaxed);
        let lost = || Error::new(ErrorKind::DeviceLost, "flaky", "the device is lost, on purpose");
        if is_lost { Err(lost()) } else { Ok(()) }
    }

    fn check_signal(&self) -> Result<()> {
        self.check()?;
        let fails = self.no_signals.load(Ordering::Relaxed);
        let failure = || Error::new(ErrorKind::Driver, "flaky", "no signal, on purpose");
        if fails { Err(failure()) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct Flaky {
    inner: HostBackend,
    switches: Arc<Switches>,
}

#[derive(Debug)]
struct FlakyDevice {
    inner: Arc<dyn BackendDevice>,
    switches: Arc<Switches>,
}

impl FlakyDevice {
    /// Frees something. Work that was enqueued before a loss still executes, other than on a lost GPU, and uses it.
    fn unless_lost(&self, free: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.switches.lost.load(Ordering::Relaxed) { Ok(()) } else { free() }
    }
}

/// The CPU, as a device with these failures.
pub(crate) fn open(switches: &Arc<Switches>) -> Device {
    let backend = Flaky { inner: HostBackend::new(), switches: switches.clone() };
    Device::open(&backend, 0).expect("the CPU")
}

impl Backend for Flaky {
    fn info(&self) -> &BackendInfo {
        self.inner.info()
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        self.inner.devices()
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        Ok(Arc::new(FlakyDevice { inner: self.inner.open(ordinal)?, switches: self.switches.clone() }))
    }
}

/// Methods that forward, after a check.
macro_rules! pass_on {
    ($( fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty $(, after $check:ident)?; )+) => { $(
        unsafe fn $name(&self $(, $arg: $type)*) -> $result {
            $( self.switches.$check()?; )?
            // SAFETY: the caller's promises are passed on unchanged.
            unsafe { self.inner.$name($($arg),*) }
        }
    )+ };
}

// SAFETY: it wraps a backend; operations that fail enqueue nothing.
unsafe impl BackendDevice for FlakyDevice {
    fn identity(&self) -> &DeviceIdentity {
        self.inner.identity()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.inner.create_stream()
    }

    fn create_event(&self) -> Result<RawEvent> {
        self.inner.create_event()
    }

    fn allocate_signal_memory(&self) -> Result<SignalMemory> {
        self.inner.allocate_signal_memory()
    }

    unsafe fn query_stream(&self, stream: RawStream) -> Result<bool> {
        self.switches.check()?;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.inner.query_stream(stream) }? && !self.switches.busy.load(Ordering::Relaxed))
    }

    unsafe fn free_buffer(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()> {
        // SAFETY: the caller's promise.
        self.unless_lost(|| unsafe { self.inner.free_buffer(memory, buffer) })
    }

    unsafe fn free_signal_memory(&self, memory: SignalMemory) -> Result<()> {
        // SAFETY: the caller's promise.
        self.unless_lost(|| unsafe { self.inner.free_signal_memory(memory) })
    }

    pass_on! {
        fn cancel_pending_work(&self) -> ();
        fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory>;
        fn destroy_memory(&self, memory: RawMemory) -> Result<()>;
        fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr>;
        fn destroy_stream(&self, stream: RawStream) -> Result<()>;
        fn take_stream_failure(&self, stream: RawStream) -> Result<()>;
        fn destroy_event(&self, event: RawEvent) -> Result<()>;
        fn query_event(&self, event: RawEvent) -> Result<bool>;
        fn synchronize_stream(&self, stream: RawStream) -> Result<()>, after check;
        fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()>, after check;
        fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()>, after check;
        fn copy(&self, stream: RawStream, dst: DevicePtr, src: DevicePtr, size: u64) -> Result<()>, after check;
        fn copy_to_host(&self, stream: RawStream, dst: *mut u8, src: DevicePtr, size: u64) -> Result<()>, after check;
        fn copy_from_host(&self, stream: RawStream, dst: DevicePtr, src: *const u8, size: u64) -> Result<()>,
            after check;
        fn fill_u8(&self, stream: RawStream, dst: DevicePtr, value: u8, size: u64) -> Result<()>, after check;
        fn fill_u32(&self, stream: RawStream, dst: DevicePtr, value: u32, count: u64) -> Result<()>, after check;
        fn wait_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32, condition: WaitCondition)
            -> Result<()>, after check;
        fn wait_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64, condition: WaitCondition)
            -> Result<()>, after check;
        fn write_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32) -> Result<()>, after check_signal;
        fn write_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64) -> Result<()>, after check_signal;
        fn launch_host_function(&self, stream: RawStream, function: HostFunction, data: *mut c_void) -> Result<()>,
            after check;
    }
}
