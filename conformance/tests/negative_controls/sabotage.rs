//! The host backend, broken on purpose.

use std::ffi::{CStr, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::sync::Arc;
use std::time::Duration;

use gpu_interop::backend::{
    ExportableAllocation, HostFunction, RawEvent, RawKernel, RawMemory, RawModule, RawSemaphore, RawSignal, RawStream,
    RawWait,
};
use gpu_interop::handle::LentFd;
use gpu_interop::host::HostBackend;
use gpu_interop::{
    Backend, BackendDevice, BackendInfo, Capabilities, DeviceIdentity, DevicePtr, Error, ErrorKind, KernelArg,
    LaunchConfig, MemoryHandle, MemoryImport, ModuleImage, Result, SemaphoreImport, WaitCondition,
};
use gpu_interop_conformance::{BackendUnderTest, host_semaphore};

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Waits for semaphores are dropped.
    SkipsWaits,
    /// Signals of semaphores are dropped.
    SkipsSignals,
    /// An import kills the process.
    CrashesOnImport,
    /// An import never returns.
    HangsOnImport,
    /// Each import leaves a descriptor open.
    LeaksDescriptors,
    /// Each import closes the duplicate that it lent to a driver, although the driver has closed it.
    ClosesTwice,
    /// Mappings begin one byte late.
    MapsOneByteLate,
    /// Fills write one byte less.
    FillsOneByteLess,
    /// Work is not asynchronous: a stream that waits for a word does not wait.
    SkipsWordWaits,
    /// Copies to the host are dropped.
    SkipsReads,
    /// The identity changes from look to look.
    ForgetsItsIdentity,
    /// Streams cannot be created, so the native exporter cannot be opened.
    HasNoStreams,
    /// Everything that is enqueued is dropped, and every stream is idle.
    DoesNothing,
}

impl Fault {
    pub(crate) const ALL: [Self; 13] = [
        Self::SkipsWaits,
        Self::SkipsSignals,
        Self::CrashesOnImport,
        Self::HangsOnImport,
        Self::LeaksDescriptors,
        Self::ClosesTwice,
        Self::MapsOneByteLate,
        Self::FillsOneByteLess,
        Self::SkipsWordWaits,
        Self::SkipsReads,
        Self::ForgetsItsIdentity,
        Self::HasNoStreams,
        Self::DoesNothing,
    ];

    /// The name by which `--backend` finds it.
    pub(crate) fn backend(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn under_test(self) -> BackendUnderTest {
        BackendUnderTest::new(self.backend(), move || {
            let host = HostBackend::new();
            let info = BackendInfo { name: self.backend(), ..host.info().clone() };
            Ok(Arc::new(Sabotaged { host, info, fault: self }) as Arc<dyn Backend>)
        })
        .with_semaphores(host_semaphore)
    }
}

#[derive(Debug)]
struct Sabotaged {
    host: HostBackend,
    info: BackendInfo,
    fault: Fault,
}

impl Backend for Sabotaged {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        let mut devices = self.host.devices()?;
        if self.fault == Fault::ForgetsItsIdentity {
            devices[0].name = format!("device of {:?}", std::time::Instant::now());
        }
        Ok(devices)
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        Ok(Arc::new(SabotagedDevice { inner: self.host.open(ordinal)?, fault: self.fault }))
    }
}

#[derive(Debug)]
struct SabotagedDevice {
    inner: Arc<dyn BackendDevice>,
    fault: Fault,
}

/// Methods that only pass on.
macro_rules! pass_on {
    (safe $( fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty; )+) => { $(
        fn $name(&self $(, $arg: $type)*) -> $result {
            self.inner.$name($($arg),*)
        }
    )+ };
    (unsafe $( fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty; )+) => { $(
        unsafe fn $name(&self $(, $arg: $type)*) -> $result {
            // SAFETY: the caller's promises are passed on unchanged.
            unsafe { self.inner.$name($($arg),*) }
        }
    )+ };
    // Enqueues something.
    (work $( fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(unless $fault:ident)?; )+) => { $(
        unsafe fn $name(&self $(, $arg: $type)*) -> Result<()> {
            if self.fault == Fault::DoesNothing $(|| self.fault == Fault::$fault)? {
                return Ok(());
            }
            // SAFETY: the caller's promises are passed on unchanged.
            unsafe { self.inner.$name($($arg),*) }
        }
    )+ };
}

impl BackendDevice for SabotagedDevice {
    pass_on! { safe
        fn identity(&self) -> &DeviceIdentity;
        fn capabilities(&self) -> &Capabilities;
        fn create_exportable(&self, size: u64) -> Result<ExportableAllocation>;
        fn create_event(&self) -> Result<RawEvent>;
        fn load_module(&self, image: ModuleImage<'_>) -> Result<RawModule>;
    }

    pass_on! { unsafe
        fn cancel_pending_work(&self) -> ();
        fn take_stream_failure(&self, stream: RawStream) -> Result<()>;
        fn destroy_memory(&self, memory: RawMemory) -> Result<()>;
        fn free_buffer(&self, buffer: DevicePtr) -> Result<()>;
        fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle>;
        fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()>;
        fn import_semaphore(&self, request: &SemaphoreImport) -> Result<RawSemaphore>;
        fn destroy_semaphore(&self, semaphore: RawSemaphore) -> Result<()>;
        fn destroy_stream(&self, stream: RawStream) -> Result<()>;
        fn synchronize_stream(&self, stream: RawStream) -> Result<()>;
        fn query_stream(&self, stream: RawStream) -> Result<bool>;
        fn destroy_event(&self, event: RawEvent) -> Result<()>;
        fn query_event(&self, event: RawEvent) -> Result<bool>;
        fn unload_module(&self, module: RawModule) -> Result<()>;
        fn module_kernel(&self, module: RawModule, name: &CStr) -> Result<RawKernel>;
    }

    pass_on! { work
        fn signal_semaphores(&self, stream: RawStream, signals: &[RawSignal]) unless SkipsSignals;
        fn wait_semaphores(&self, stream: RawStream, waits: &[RawWait]) unless SkipsWaits;
        fn copy_to_host(&self, stream: RawStream, target: *mut u8, source: DevicePtr, size: u64) unless SkipsReads;
        fn wait_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32, condition: WaitCondition)
            unless SkipsWordWaits;
        fn wait_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64, condition: WaitCondition)
            unless SkipsWordWaits;
        fn record_event(&self, event: RawEvent, stream: RawStream);
        fn wait_event(&self, stream: RawStream, event: RawEvent);
        fn copy(&self, stream: RawStream, target: DevicePtr, source: DevicePtr, size: u64);
        fn copy_from_host(&self, stream: RawStream, target: DevicePtr, source: *const u8, size: u64);
        fn fill_u32(&self, stream: RawStream, target: DevicePtr, value: u32, count: u64);
        fn write_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32);
        fn write_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64);
        fn launch_host_function(&self, stream: RawStream, function: HostFunction, data: *mut c_void);
        fn launch_kernel(&self, stream: RawStream, kernel: RawKernel, config: &LaunchConfig, args: &[KernelArg])
           ;
    }

    fn create_stream(&self) -> Result<RawStream> {
        if self.fault == Fault::HasNoStreams {
            return Err(Error::new(ErrorKind::Driver, "create_stream", "broken on purpose"));
        }
        self.inner.create_stream()
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        match self.fault {
            Fault::CrashesOnImport => std::process::abort(),
            Fault::HangsOnImport => std::thread::sleep(Duration::from_secs(3600)),
            Fault::LeaksDescriptors => {
                if let Some(fd) = request.handle().as_fd() {
                    let _ = fd.try_clone_to_owned().map(IntoRawFd::into_raw_fd);
                }
            }
            Fault::ClosesTwice => {
                if let Some(fd) = request.handle().as_fd() {
                    let loan = LentFd::new(fd)?;
                    // SAFETY: plays the driver, which was lent the number.
                    unsafe { rustix::io::close(loan.as_raw_fd()) };
                    std::thread::sleep(Duration::from_micros(50));
                    // SAFETY: none. The number may be another thread's by now, and closing that is the fault.
                    unsafe {
                        if rustix::io::fcntl_getfd(BorrowedFd::borrow_raw(loan.as_raw_fd())).is_ok() {
                            rustix::io::close(loan.as_raw_fd());
                        }
                    }
                    loan.consumed();
                }
            }
            _ => {}
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { self.inner.import_memory(request) }
    }

    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
        let late = u64::from(self.fault == Fault::MapsOneByteLate);
        // SAFETY: the caller's promises are passed on. The byte past the end that the fault may add lies in the last
        // page of the mapping, which the kernel maps whole.
        unsafe { self.inner.map_buffer(memory, offset + late, size) }
    }

    unsafe fn fill_u8(&self, stream: RawStream, target: DevicePtr, value: u8, size: u64) -> Result<()> {
        if self.fault == Fault::DoesNothing {
            return Ok(());
        }
        let less = u64::from(self.fault == Fault::FillsOneByteLess);
        // SAFETY: the caller's promises are passed on, for a shorter range.
        unsafe { self.inner.fill_u8(stream, target, value, size - less) }
    }
}
