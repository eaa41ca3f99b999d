//! Backends broken on purpose: the host backend, and a driver's. Each fault has the scenario that must detect it.

use std::ffi::{CStr, c_void};
#[cfg(unix)]
use std::os::fd::{BorrowedFd, IntoRawFd};
#[cfg(windows)]
use std::os::windows::io::{BorrowedHandle, FromRawHandle, IntoRawHandle, OwnedHandle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
#[cfg(unix)]
use std::time::Instant;

use gpu_interop::backend::{
    ExportableAllocation, HostFunction, RawEvent, RawKernel, RawMemory, RawModule, RawSemaphore, RawSignal, RawStream,
    RawWait, SignalMemory,
};
#[cfg(unix)]
use gpu_interop::handle::LentFd;
#[cfg(windows)]
use gpu_interop::handle::Win32Object;
use gpu_interop::host::HostBackend;
use gpu_interop::{
    Backend, BackendDevice, BackendInfo, Capabilities, DeviceIdentity, DevicePtr, Error, ErrorKind, KernelArg,
    LaunchConfig, MemoryHandle, MemoryImport, ModuleImage, Result, SemaphoreImport, WaitCondition,
};
use gpu_interop_conformance::{BackendUnderTest, Outcome, host_semaphore};

/// The length that [`Fault::FillsARareLengthShort`] is about, bytes.
pub(crate) const RARE_LENGTH: u64 = 1237;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Waits for semaphores are dropped.
    SkipsWaits,
    /// Signals of semaphores are dropped.
    SkipsSignals,
    /// An import aborts the process.
    CrashesOnImport,
    /// An import never returns.
    HangsOnImport,
    /// Each import leaks a descriptor.
    LeaksDescriptors,
    /// Each import closes a handle twice: the duplicate that it lent to a driver, which has closed it; on Windows, at
    /// its end, the request's handle, as if a driver took ownership.
    ClosesTwice,
    /// Each failed import closes the request's handle.
    #[cfg(windows)]
    ClosesRefused,
    /// Mappings begin one byte late.
    MapsOneByteLate,
    /// Fills write one byte less.
    FillsOneByteLess,
    /// Fills of one rarely tested length write one byte less.
    FillsARareLengthShort,
    /// Work is not asynchronous: a stream that waits for a word does not wait.
    SkipsWordWaits,
    /// Copies to the host are dropped.
    SkipsReads,
    /// The identity changes from call to call.
    ForgetsItsIdentity,
    /// Streams cannot be created, so the native exporter cannot be opened.
    HasNoStreams,
    /// A word written by a stream is visible at once, before earlier work.
    WritesWordsEarly,
    /// A stream waits for a word in a host function, which blocks; no driver allows that.
    WaitsInHostFunctions,
    /// All enqueued work is dropped, and every stream is idle.
    DoesNothing,
    /// The process of an import is killed at its exit, after all checks have passed.
    #[cfg(unix)]
    CrashesAtExit,
    /// The process of an import exits with a status other than 0, after all checks have passed.
    #[cfg(unix)]
    FailsAtExit,
    /// The process of an import never exits.
    #[cfg(unix)]
    HangsAtExit,
    /// The last byte of host writes does not arrive.
    LosesLastByte,
    /// Host reads have a wrong first byte.
    WrongFirstByteRead,
    /// Host reads have a wrong byte in the middle.
    WrongMiddleByteRead,
    /// Host reads have a wrong last byte.
    WrongLastByteRead,
}

impl Fault {
    pub(crate) const ALL: &[Self] = &[
        Self::SkipsWaits,
        Self::SkipsSignals,
        Self::CrashesOnImport,
        Self::HangsOnImport,
        Self::LeaksDescriptors,
        Self::ClosesTwice,
        #[cfg(windows)]
        Self::ClosesRefused,
        Self::MapsOneByteLate,
        Self::FillsOneByteLess,
        Self::FillsARareLengthShort,
        Self::SkipsWordWaits,
        Self::SkipsReads,
        Self::ForgetsItsIdentity,
        Self::HasNoStreams,
        Self::WritesWordsEarly,
        Self::WaitsInHostFunctions,
        Self::DoesNothing,
        #[cfg(unix)]
        Self::CrashesAtExit,
        #[cfg(unix)]
        Self::FailsAtExit,
        #[cfg(unix)]
        Self::HangsAtExit,
        Self::LosesLastByte,
        Self::WrongFirstByteRead,
        Self::WrongMiddleByteRead,
        Self::WrongLastByteRead,
    ];

    /// Position of the wrong byte of each read.
    pub(crate) const WRONG_BYTES: [Self; 3] =
        [Self::WrongFirstByteRead, Self::WrongMiddleByteRead, Self::WrongLastByteRead];

    /// End of a process, for faults that appear no earlier.
    #[cfg(unix)]
    fn at_exit(self) -> Option<extern "C" fn()> {
        extern "C" fn crash() {
            std::process::abort();
        }
        extern "C" fn fail() {
            // SAFETY: ends the process, which is about to end.
            unsafe { libc::_exit(3) };
        }
        extern "C" fn hang() {
            std::thread::sleep(Duration::from_secs(3600));
        }
        match self {
            Self::CrashesAtExit => Some(crash),
            Self::FailsAtExit => Some(fail),
            Self::HangsAtExit => Some(hang),
            _ => None,
        }
    }

    /// The name by which `--backend` finds it.
    pub(crate) fn backend(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn under_test(self) -> BackendUnderTest {
        self.on(&self.backend(), || Ok(Arc::new(HostBackend::new()))).with_semaphores(host_semaphore)
    }

    /// The same fault of another backend.
    pub(crate) fn on(
        self,
        name: &str,
        load: impl Fn() -> Result<Arc<dyn Backend>> + Send + Sync + 'static,
    ) -> BackendUnderTest {
        let called = name.to_owned();
        BackendUnderTest::new(name, move || {
            let inner = load()?;
            let mut info = inner.info().clone();
            info.name.clone_from(&called);
            Ok(Arc::new(Sabotaged { inner, info, fault: self }) as Arc<dyn Backend>)
        })
    }
}

#[derive(Debug)]
struct Sabotaged {
    inner: Arc<dyn Backend>,
    info: BackendInfo,
    fault: Fault,
}

impl Backend for Sabotaged {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        let mut devices = self.inner.devices()?;
        if self.fault == Fault::ForgetsItsIdentity {
            devices[0].name = format!("device of {:?}", std::time::Instant::now());
        }
        Ok(devices)
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        Ok(Arc::new(SabotagedDevice {
            inner: self.inner.open(ordinal)?,
            fault: self.fault,
            #[cfg(windows)]
            taken_over: Mutex::default(),
            #[cfg(unix)]
            closing_twice: Mutex::default(),
        }))
    }
}

/// The word at an address of a device whose addresses are the host's.
///
/// # Safety
/// The word has 64 bits, is aligned, and is valid as long as it is used.
unsafe fn word_at<'a>(address: u64) -> &'a AtomicU64 {
    let address = usize::try_from(address).unwrap_or(0);
    // SAFETY: the caller's promise.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
}

/// Blocks until a word has reached a value. `data` contains both, boxed.
unsafe extern "C" fn wait_in_host_function(data: *mut c_void) {
    // SAFETY: boxed by `wait_value_u64`, and called once.
    let (address, value) = *unsafe { Box::from_raw(data.cast::<(u64, u64)>()) };
    // SAFETY: the caller of the wait guarantees the word until the wait has ended.
    let word = unsafe { word_at(address) };
    while word.load(Ordering::Acquire) < value {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Changes the byte at an address.
unsafe extern "C" fn change_byte(byte: *mut c_void) {
    // SAFETY: a byte of a read's target, which the test reads only after the stream has completed.
    unsafe { *byte.cast::<u8>() ^= 0x40 };
}

/// Closes a request's handle, which its owner will close too: that is the fault.
#[cfg(windows)]
fn close(handle: &MemoryHandle) {
    if let Some(Win32Object::Handle(handle)) = handle.as_win32() {
        // SAFETY: none; see above.
        drop(unsafe { OwnedHandle::from_raw_handle(handle.as_raw()) });
    }
}

#[derive(Debug)]
struct SabotagedDevice {
    inner: Arc<dyn BackendDevice>,
    fault: Fault,
    /// For [`Fault::ClosesTwice`]: the numbers of the handles of live imports.
    #[cfg(windows)]
    taken_over: Mutex<Vec<(RawMemory, usize)>>,
    #[cfg(unix)]
    closing_twice: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Methods that only forward.
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
    // Enqueues work.
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

// SAFETY: it wraps a backend, and its intended errors stay within the given ranges.
unsafe impl BackendDevice for SabotagedDevice {
    pass_on! { safe
        fn identity(&self) -> &DeviceIdentity;
        fn capabilities(&self) -> &Capabilities;
        fn create_exportable(&self, size: u64) -> Result<ExportableAllocation>;
        fn create_event(&self) -> Result<RawEvent>;
        fn allocate_signal_memory(&self) -> Result<SignalMemory>;
        fn load_module(&self, image: ModuleImage<'_>) -> Result<RawModule>;
    }

    pass_on! { unsafe
        fn cancel_pending_work(&self) -> ();
        fn take_stream_failure(&self, stream: RawStream) -> Result<()>;
        fn free_buffer(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()>;
        fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle>;
        fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()>;
        fn import_semaphore(&self, request: &SemaphoreImport) -> Result<RawSemaphore>;
        fn destroy_semaphore(&self, semaphore: RawSemaphore) -> Result<()>;
        fn destroy_stream(&self, stream: RawStream) -> Result<()>;
        fn synchronize_stream(&self, stream: RawStream) -> Result<()>;
        fn query_stream(&self, stream: RawStream) -> Result<bool>;
        fn destroy_event(&self, event: RawEvent) -> Result<()>;
        fn query_event(&self, event: RawEvent) -> Result<bool>;
        fn free_signal_memory(&self, memory: SignalMemory) -> Result<()>;
        fn unload_module(&self, module: RawModule) -> Result<()>;
        fn module_kernel(&self, module: RawModule, name: &CStr) -> Result<RawKernel>;
    }

    pass_on! { work
        fn signal_semaphores(&self, stream: RawStream, signals: &[RawSignal]) unless SkipsSignals;
        fn wait_semaphores(&self, stream: RawStream, waits: &[RawWait]) unless SkipsWaits;
        fn wait_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32, condition: WaitCondition)
            unless SkipsWordWaits;
        fn record_event(&self, event: RawEvent, stream: RawStream);
        fn wait_event(&self, stream: RawStream, event: RawEvent);
        fn copy(&self, stream: RawStream, target: DevicePtr, source: DevicePtr, size: u64);
        fn fill_u32(&self, stream: RawStream, target: DevicePtr, value: u32, count: u64);
        fn write_value_u32(&self, stream: RawStream, word: DevicePtr, value: u32);
        fn launch_host_function(&self, stream: RawStream, function: HostFunction, data: *mut c_void);
        fn launch_kernel(&self, stream: RawStream, kernel: RawKernel, config: &LaunchConfig, args: &[KernelArg<'_>]);
    }

    unsafe fn wait_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64, when: WaitCondition) -> Result<()> {
        match self.fault {
            Fault::DoesNothing | Fault::SkipsWordWaits => Ok(()),
            Fault::WaitsInHostFunctions => {
                let wait = Box::into_raw(Box::new((word.get(), value)));
                // SAFETY: the function accepts the boxed data; the stream is live.
                unsafe { self.inner.launch_host_function(stream, wait_in_host_function, wait.cast()) }
            }
            // SAFETY: the caller's promises are passed on unchanged.
            _ => unsafe { self.inner.wait_value_u64(stream, word, value, when) },
        }
    }

    unsafe fn copy_to_host(&self, stream: RawStream, target: *mut u8, source: DevicePtr, size: u64) -> Result<()> {
        if matches!(self.fault, Fault::DoesNothing | Fault::SkipsReads) {
            return Ok(());
        }
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { self.inner.copy_to_host(stream, target, source, size) }?;
        let wrong = match self.fault {
            Fault::WrongFirstByteRead => 0,
            Fault::WrongMiddleByteRead => size / 2,
            Fault::WrongLastByteRead => size.saturating_sub(1),
            _ => return Ok(()),
        };
        if size == 0 {
            return Ok(());
        }
        // SAFETY: within the range, which is valid until the stream has called the function.
        let byte = unsafe { target.add(usize::try_from(wrong).unwrap_or(0)) };
        // SAFETY: the function accepts the address of a byte.
        unsafe { self.inner.launch_host_function(stream, change_byte, byte.cast()) }
    }

    unsafe fn copy_from_host(&self, stream: RawStream, target: DevicePtr, source: *const u8, size: u64) -> Result<()> {
        let size = size - u64::from(self.fault == Fault::LosesLastByte && size > 0);
        if self.fault == Fault::DoesNothing || size == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promises are passed on, for no more than the range that was given.
        unsafe { self.inner.copy_from_host(stream, target, source, size) }
    }

    unsafe fn write_value_u64(&self, stream: RawStream, word: DevicePtr, value: u64) -> Result<()> {
        match self.fault {
            Fault::DoesNothing => Ok(()),
            Fault::WritesWordsEarly => {
                // SAFETY: the caller's promise: a word that is there, aligned. An address of the host backend is the
                // host's.
                unsafe { word_at(word.get()) }.store(value, Ordering::Release);
                Ok(())
            }
            // SAFETY: the caller's promises are passed on unchanged.
            _ => unsafe { self.inner.write_value_u64(stream, word, value) },
        }
    }

    fn create_stream(&self) -> Result<RawStream> {
        if self.fault == Fault::HasNoStreams {
            return Err(Error::new(ErrorKind::Driver, "create_stream", "broken on purpose"));
        }
        self.inner.create_stream()
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        #[cfg(unix)]
        if let Some(at_exit) = self.fault.at_exit() {
            static ONCE: std::sync::Once = std::sync::Once::new();
            // SAFETY: the function may be called at any time.
            ONCE.call_once(|| assert_eq!(unsafe { libc::atexit(at_exit) }, 0, "there is room for one"));
        }
        match self.fault {
            Fault::CrashesOnImport => std::process::abort(),
            Fault::HangsOnImport => std::thread::sleep(Duration::from_secs(3600)),
            #[cfg(windows)]
            Fault::ClosesRefused => {
                // SAFETY: the caller's promises are passed on.
                let imported = unsafe { self.inner.import_memory(request) };
                if imported.is_err() {
                    close(request.handle());
                }
                return imported;
            }
            #[cfg(unix)]
            Fault::LeaksDescriptors => {
                if let Some(fd) = request.handle().as_fd() {
                    let _ = fd.try_clone_to_owned().map(IntoRawFd::into_raw_fd);
                }
            }
            #[cfg(windows)]
            Fault::LeaksDescriptors => {
                if let Some(Win32Object::Handle(handle)) = request.handle().as_win32() {
                    // SAFETY: the request keeps its handle open for the borrow.
                    let handle = unsafe { BorrowedHandle::borrow_raw(handle.as_raw()) };
                    let _ = handle.try_clone_to_owned().map(IntoRawHandle::into_raw_handle);
                }
            }
            #[cfg(windows)]
            Fault::ClosesTwice => {
                // SAFETY: the caller's promises are passed on.
                let memory = unsafe { self.inner.import_memory(request) }?;
                if let Some(Win32Object::Handle(handle)) = request.handle().as_win32() {
                    lock(&self.taken_over).push((memory, handle.as_raw().addr()));
                }
                return Ok(memory);
            }
            #[cfg(unix)]
            Fault::ClosesTwice => {
                if let Some(fd) = request.handle().as_fd() {
                    // One at a time, so that a bystander's descriptor is closed and not another import's.
                    let _alone = lock(&self.closing_twice);
                    let loan = LentFd::new(fd)?;
                    // SAFETY: acts as the driver to which the number was lent.
                    unsafe { rustix::io::close(loan.as_raw_fd()) };
                    // SAFETY: none. The number is another thread's when it is open again, and closing that is the
                    // fault.
                    let borrowed = unsafe { BorrowedFd::borrow_raw(loan.as_raw_fd()) };
                    let lent = Instant::now();
                    while lent.elapsed() < Duration::from_millis(20) {
                        if rustix::io::fcntl_getfd(borrowed).is_ok() {
                            // SAFETY: none; see above.
                            unsafe { rustix::io::close(loan.as_raw_fd()) };
                            break;
                        }
                        std::thread::yield_now();
                    }
                    loan.consumed();
                }
            }
            _ => {}
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { self.inner.import_memory(request) }
    }

    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()> {
        #[cfg(windows)]
        {
            let mut taken_over = lock(&self.taken_over);
            if let Some(index) = taken_over.iter().position(|taken| taken.0 == memory) {
                let (_, number) = taken_over.swap_remove(index);
                // SAFETY: none. The library has closed it, and another owner may have the number now: that is the
                // fault.
                drop(unsafe { OwnedHandle::from_raw_handle(std::ptr::without_provenance_mut(number)) });
            }
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { self.inner.destroy_memory(memory) }
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
        let less = match self.fault {
            Fault::FillsOneByteLess => 1,
            Fault::FillsARareLengthShort => u64::from(size == RARE_LENGTH),
            _ => 0,
        };
        // SAFETY: the caller's promises are passed on, for a shorter range.
        unsafe { self.inner.fill_u8(stream, target, value, size - less) }
    }
}

/// The scenario that must detect each fault, and the reason: a failure for another reason would prove nothing.
pub(crate) const CAUGHT: &[(Fault, &str, Outcome, &str)] = &[
    (Fault::SkipsWaits, "semaphore.binary_order", Outcome::Failed, "went on although nothing was signalled"),
    (Fault::SkipsWaits, "semaphore.timeline_order", Outcome::Failed, "a wait for 7 was met by"),
    (Fault::SkipsWaits, "semaphore.wait_before_signal", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsWaits, "semaphore.timeout", Outcome::Failed, "an unmet wait was accepted"),
    (Fault::SkipsWaits, "semaphore.batches", Outcome::Failed, "met too early"),
    (Fault::SkipsWaits, "semaphore.prepared_batches", Outcome::Failed, "met too early"),
    (Fault::SkipsWaits, "semaphore.1000_frames", Outcome::Failed, "bytes differ"),
    (Fault::SkipsWaits, "semaphore.destroy_pending", Outcome::Failed, "went on when its semaphore was dropped"),
    (
        Fault::SkipsWaits,
        "semaphore.cross_process_timeline",
        Outcome::Failed,
        "before the other process had the timeline",
    ),
    (Fault::SkipsWaits, "semaphore.peer_killed", Outcome::Failed, "was accepted"),
    (Fault::SkipsSignals, "semaphore.device_to_exporter", Outcome::Failed, "timed out waiting for 1"),
    (Fault::SkipsSignals, "semaphore.two_streams", Outcome::Failed, "work is still pending on the stream"),
    (Fault::LeaksDescriptors, "import.success_closes_handle", Outcome::Failed, "open descriptors after an import"),
    (Fault::LeaksDescriptors, "leak.10000_cycles", Outcome::Failed, "open descriptors"),
    (Fault::LeaksDescriptors, "threads.import_map_free", Outcome::Failed, "open descriptors"),
    #[cfg(unix)]
    (Fault::ClosesTwice, "import.fd_stress", Outcome::Failed, "of another thread was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesTwice, "import.win32_stress", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesTwice, "import.win32_success_closes_once", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesRefused, "import.size_too_large", Outcome::Failed, "not an open"),
    #[cfg(windows)]
    (Fault::ClosesRefused, "import.win32_failure_keeps_handle", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesRefused, "import.win32_sizes_beyond", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::LeaksDescriptors, "import.win32_10000_cycles", Outcome::Failed, "open descriptors"),
    #[cfg(windows)]
    (Fault::LeaksDescriptors, "import.win32_many_imports", Outcome::Failed, "handles are open"),
    (Fault::MapsOneByteLate, "map.offsets", Outcome::Failed, "1 bytes at 1: 1 of 1 bytes differ"),
    (Fault::MapsOneByteLate, "map.sub_range_guards", Outcome::Failed, "bytes differ"),
    // The last byte of a megabyte: each direction compares all of it.
    (Fault::LosesLastByte, "memory.read_device_local", Outcome::Failed, "the first at 1048575"),
    (Fault::LosesLastByte, "memory.write_device_local", Outcome::Failed, "the first at 1048575"),
    (Fault::FillsOneByteLess, "memory.fill", Outcome::Failed, "bytes that differ from the fills"),
    (Fault::SkipsWordWaits, "stream.asynchronous", Outcome::Failed, "the fill ran before the wait was met"),
    (Fault::SkipsWordWaits, "stream.wait_value_32", Outcome::Failed, "was met by"),
    (Fault::SkipsWordWaits, "stream.wait_value_64", Outcome::Failed, "was met by 7"),
    (Fault::SkipsWordWaits, "stream.host_function", Outcome::Failed, "before the work in front of them"),
    (Fault::SkipsWordWaits, "stream.many", Outcome::Failed, "streams that nothing blocks"),
    (Fault::SkipsWordWaits, "lifetime.drop_with_work_pending", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsWordWaits, "timeline.wait_before_signal.bridge", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsWordWaits, "timeline.large_values.bridge", Outcome::Failed, "was met by"),
    // The exporter has signalled 2 at once, which satisfies the wait for 1.
    (Fault::WritesWordsEarly, "timeline.wait_before_signal.bridge", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsReads, "memory.read_device_local", Outcome::Failed, "bytes differ"),
    #[cfg(unix)]
    (Fault::MapsOneByteLate, "property.imports", Outcome::Failed, "bytes differ"),
    (Fault::MapsOneByteLate, "property.slices", Outcome::Failed, "bytes differ"),
    #[cfg(unix)]
    (Fault::LeaksDescriptors, "property.imports", Outcome::Failed, "open descriptors afterwards"),
    (Fault::LeaksDescriptors, "property.objects", Outcome::Failed, "open descriptors afterwards"),
    (Fault::SkipsWordWaits, "property.objects", Outcome::Failed, "the stream did not wait"),
    (Fault::FillsOneByteLess, "property.objects", Outcome::Failed, "bytes differ"),
    (Fault::SkipsSignals, "property.semaphores", Outcome::Failed, "that was signalled is not met"),
    // Detected by the other process, and therefore in its log.
    (Fault::SkipsReads, "process.import_sent_fd", Outcome::Failed, "bytes differ"),
];

/// As above, for objects that only Vulkan exports; each must report different data.
pub(crate) const CAUGHT_WITH_VULKAN: &[(Fault, &str)] = &[
    (Fault::MapsOneByteLate, "image_linear.read"),
    (Fault::MapsOneByteLate, "image_linear.write"),
    (Fault::MapsOneByteLate, "image_linear.at_offset"),
    (Fault::MapsOneByteLate, "property.images"),
    (Fault::SkipsReads, "image_linear.levels_and_layers"),
    (Fault::MapsOneByteLate, "heap.both_directions"),
    (Fault::SkipsReads, "heap.many_buffers"),
    (Fault::LosesLastByte, "heap.free_while_work_is_pending"),
    (Fault::SkipsWordWaits, "frame_ring.order"),
    (Fault::MapsOneByteLate, "frame_ring.compute_first"),
    (Fault::MapsOneByteLate, "video.nv12"),
    (Fault::MapsOneByteLate, "video.sizes"),
    (Fault::SkipsReads, "video.yuv420"),
    (Fault::LosesLastByte, "video.yuv444"),
];
