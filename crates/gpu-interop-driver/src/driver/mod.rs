//! [`Driver`]: a loaded driver, its functions and the conversion of its status codes to errors.

mod vendor;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;

use gpu_interop_core::{DeviceIdentity, DeviceKind, DriverCode, Error, ErrorKind, FirstUse, Result, Support};

use crate::call::{call, status};
use crate::functions::{DeviceAddress, DeviceNumber, EVENT_DISABLE_TIMING, Functions, Handle, STREAM_NON_BLOCKING};
use crate::library::DriverLibrary;
use crate::status::{NO_KERNEL, Status};
use crate::symbol::ApiVersion;
use crate::trace::DriverFunction;
pub use vendor::{CallPurpose, IMPORT_REJECTED, Vendor, WordWait};

/// Symbol that simulators, shims, fakes and mocks export, so that reports made with them are marked as simulated. Its
/// value states the processor that does the work.
const MARKER: &CStr = c"gpu_interop_simulated";
/// Value of [`MARKER`] if a GPU does the work. Every other value means the CPU.
const ON_GPU: c_int = 2;

/// The processes that first initialised the drivers, by [`Naming`](crate::functions::Naming).
static FIRST_USES: [FirstUse; 2] = [const { FirstUse::none() }; 2];

/// Loaded and initialised driver of a vendor.
#[derive(Debug)]
pub struct Driver<V: Vendor> {
    /// Functions of both vendors.
    pub(crate) functions: Functions,
    /// Functions of this vendor only.
    pub own: V::Functions,
    /// Version that the driver reports.
    pub version: ApiVersion,
    /// File of the library.
    pub file: PathBuf,
    /// True if the library is a simulator, a shim, a fake or a mock.
    pub simulated: bool,
    kind: DeviceKind,
}

impl<V: Vendor> Driver<V> {
    /// Loads and initialises the driver.
    ///
    /// # Errors
    /// As for [`VendorBackend::load`](crate::VendorBackend::load).
    pub(crate) fn load() -> Result<Self> {
        let library = DriverLibrary::find(&V::SEARCH)?;
        // SAFETY: the library is the vendor's driver, or the file that the user named as such.
        let functions = unsafe { Functions::load(&library, V::NAMING) };
        // SAFETY: as above.
        let found = functions.and_then(|functions| Ok((functions, unsafe { V::functions(&library) }?)));
        let (functions, own) = found.map_err(|missing| {
            missing.error(&library, V::NAMING.api(), version_of::<V>(&library), V::REQUIRED_SINCE)
        })?;
        // SAFETY: every library that exports the symbol declares it with this type.
        let simulated = unsafe { library.symbol::<*const c_int>(MARKER) };
        let file = library.file(Functions::version_symbol(V::NAMING));
        let (version, kind) = (V::version(0), DeviceKind::Gpu);
        let mut driver = Self { functions, own, version, file, simulated: simulated.is_some(), kind };
        let mut number: c_int = 0;
        let (version, init) = (functions.get_version, functions.init);
        let first_use = &FIRST_USES[V::NAMING as usize];
        first_use.check(init.operation)?;
        // SAFETY: the pointer is valid for the call, and the function may be called before initialisation.
        let status = unsafe { version.get().traced(version.operation, (&raw mut number,)) };
        driver.check_for(CallPurpose::Initialising, version.operation, status).map_err(|error| {
            let unversioned = format!("{}, which does not report its version", V::NAMING.api());
            error.with_context("driver", unversioned).with_context("library", driver.file.display())
        })?;
        driver.version = V::version(u32::try_from(number).unwrap_or(0));
        // SAFETY: the only precondition of the function is that its flags are 0.
        let status = unsafe { init.get().traced(init.operation, (0,)) };
        driver.check_for(CallPurpose::Initialising, init.operation, status).map_err(|error| {
            error.with_context("driver", driver.version).with_context("library", driver.file.display())
        })?;
        first_use.note();
        if V::UNKNOWN_SINCE.is_some_and(|since| driver.version.major >= since) && !V::layout_is_known(&driver) {
            let api = V::NAMING.api();
            let message = format!(
                "the structs of this version of {api} differ from those that this version of gpu-interop knows; use a newer \
                 version of gpu-interop, or an older {api}"
            );
            return Err(Error::unsupported(version.operation, message)
                .with_context("driver", driver.version)
                .with_context("library", driver.file.display()));
        }
        // Read after initialisation, which may set the value. Devices of a library that works on the CPU match Vulkan's
        // CPU drivers.
        // SAFETY: the library is never unloaded, and writes the number only during initialisation.
        if simulated.is_some_and(|mark| unsafe { mark.read_volatile() } != ON_GPU) {
            driver.kind = DeviceKind::Cpu;
        }
        Ok(driver)
    }

    /// Converts a status code to a result. `operation` is the function's name in the vendor's documentation.
    ///
    /// # Errors
    /// The meaning of every code but success.
    #[inline]
    pub fn check(&self, operation: &'static str, code: Status) -> Result<()> {
        self.check_for(CallPurpose::Other, operation, code)
    }

    /// Counterpart of [`Driver::check`] for codes whose meaning depends on the purpose of the call.
    ///
    /// # Errors
    /// As for [`Driver::check`].
    #[inline]
    pub fn check_for(&self, purpose: CallPurpose, operation: &'static str, code: Status) -> Result<()> {
        if code == Status::SUCCESS { Ok(()) } else { Err(self.error(purpose, operation, code)) }
    }

    #[cold]
    fn error(&self, purpose: CallPurpose, operation: &'static str, code: Status) -> Error {
        let (kind, message) = match (purpose, code) {
            (CallPurpose::FindingKernel, Status::NOT_FOUND) => NO_KERNEL,
            _ => V::meaning(purpose, code),
        };
        let [name, text] = V::describe(&self.own, code);
        let error = Error::new(kind, operation, message).with_code(i64::from(code.0), name);
        match text {
            // The driver's text for the code of a rejected import describes driver internals and misleads.
            Some(text) if kind != ErrorKind::ImportRejected => error.with_context("driver's text", text),
            _ => error,
        }
    }

    /// Fails in a process that was forked from the one that loaded the driver.
    ///
    /// # Errors
    /// `System`.
    pub(crate) fn check_process(&self, operation: &'static str) -> Result<()> {
        FIRST_USES[V::NAMING as usize].check(operation).map_err(|error| error.with_backend(V::NAMING.name()))
    }

    /// Queries an attribute of a device. Returns `None` if the query fails.
    #[must_use]
    pub fn attribute(&self, device: DeviceNumber, attribute: c_int) -> Option<c_int> {
        self.query_attribute(device, attribute).ok()
    }

    /// Queries an attribute of a device. The error is the driver's status, [`Status::INVALID_VALUE`] for attributes
    /// unknown to it.
    fn query_attribute(&self, device: DeviceNumber, attribute: c_int) -> std::result::Result<c_int, Status> {
        let (mut value, function) = (0, self.functions.device_get_attribute);
        // SAFETY: the pointer is valid for the call; an unknown attribute is an error.
        let result = unsafe { function.get().traced(function.operation, (&raw mut value, attribute, device)) };
        if result == Status::SUCCESS { Ok(value) } else { Err(result) }
    }

    /// Converts a boolean attribute to support for a feature, which `what` names in messages.
    #[must_use]
    pub fn flag(&self, device: DeviceNumber, attribute: c_int, what: &str) -> Support {
        self.flag_or(device, attribute, what, || format!("the device has no {what}"))
    }

    /// Counterpart of [`Driver::flag`] with a custom reason for an attribute that is 0.
    #[must_use]
    pub fn flag_or(
        &self,
        device: DeviceNumber,
        attribute: c_int,
        what: &str,
        absent: impl FnOnce() -> String,
    ) -> Support {
        match self.query_attribute(device, attribute) {
            Ok(value) if value != 0 => Support::Native,
            Ok(_) => Support::no(absent()),
            // Newer drivers add attributes and never remove any.
            Err(Status::INVALID_VALUE) => Support::DriverTooOld(format!(
                "the driver ({}) has no attribute for {what}; install a newer one",
                self.version
            )),
            Err(code) => {
                let [name, _] = V::describe(&self.own, code);
                let code = DriverCode::new(i64::from(code.0), name);
                Support::no(format!("querying the attribute for {what}, the driver returned {code}"))
            }
        }
    }

    /// Enqueues an empty host function: later work on the stream starts after all earlier work has completed
    /// (`cuLaunchHostFunc`, `hipLaunchHostFunc`).
    ///
    /// # Errors
    /// The driver's error; `DriverTooOld` or `SymbolMissing` if it lacks the function.
    ///
    /// # Safety
    /// The stream is live, and its device is current.
    pub unsafe fn launch_nothing(&self, stream: Handle) -> Result<()> {
        extern "C" fn nothing(_data: *mut c_void) {}
        // SAFETY: the caller's promise for the stream; `nothing` ignores its argument.
        unsafe { call!(self.launch_host_func(stream, nothing, std::ptr::null_mut())) }
    }

    /// Creates a stream that does not synchronise with the default stream (`cuStreamCreate`,
    /// `hipStreamCreateWithFlags`). The device is current.
    ///
    /// # Errors
    /// The driver's error.
    pub fn create_stream(&self) -> Result<Handle> {
        let mut stream = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe { call!(self.stream_create(&raw mut stream, STREAM_NON_BLOCKING)) }?;
        not_null(self.functions.stream_create.operation, stream)
    }

    /// Destroys a stream (`cuStreamDestroy`, `hipStreamDestroy`).
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The stream is live and not used afterwards.
    pub unsafe fn destroy_stream(&self, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.stream_destroy(stream)) }
    }

    /// Creates an event without timing (`cuEventCreate`, `hipEventCreateWithFlags`). The device is current.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn create_event(&self) -> Result<Handle> {
        let mut event = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe { call!(self.event_create(&raw mut event, EVENT_DISABLE_TIMING)) }?;
        not_null(self.functions.event_create.operation, event)
    }

    /// Records an event after all work enqueued on a stream (`cuEventRecord`, `hipEventRecord`).
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// Both are live, and their device is current.
    #[inline]
    pub(crate) unsafe fn record_event(&self, event: Handle, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.event_record(event, stream)) }
    }

    /// Makes a stream wait for an event (`cuStreamWaitEvent`, `hipStreamWaitEvent`).
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// As for [`Driver::record_event`].
    #[inline]
    pub(crate) unsafe fn wait_event(&self, stream: Handle, event: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.stream_wait_event(stream, event, 0)) }
    }

    /// Returns whether all work before a recorded event has completed (`cuEventQuery`, `hipEventQuery`).
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The event is live, and its device is current.
    pub(crate) unsafe fn has_passed(&self, event: Handle) -> Result<bool> {
        // SAFETY: the caller's promise.
        match unsafe { status!(self.event_query(event)) } {
            (_, Status::NOT_READY) => Ok(false),
            (operation, code) => self.check(operation, code).map(|()| true),
        }
    }

    /// Destroys an event (`cuEventDestroy`, `hipEventDestroy`). The driver keeps the resources of a pending event until
    /// it completes.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The event is live.
    pub(crate) unsafe fn destroy_event(&self, event: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.event_destroy(event)) }
    }

    /// Frees device memory (`cuMemFree`, `hipFree`).
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// `address` is the first address of a live allocation of the driver, the memory is not used afterwards, and its
    /// device is current.
    pub unsafe fn free(&self, address: DeviceAddress) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.mem_free(address)) }
    }

    pub(crate) fn device_count(&self) -> Result<c_int> {
        self.check_process(self.functions.device_get_count.operation)?;
        let mut count: c_int = 0;
        // SAFETY: the pointer is valid for the call.
        let (operation, status) = unsafe { status!(self.device_get_count(&raw mut count)) };
        self.check_for(CallPurpose::Initialising, operation, status)?;
        Ok(count)
    }

    pub(crate) fn device(&self, ordinal: c_int) -> Result<DeviceNumber> {
        let mut device = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe { call!(self.device_get(&raw mut device, ordinal)) }?;
        Ok(device)
    }

    pub(crate) fn identity(&self, device: DeviceNumber) -> Result<DeviceIdentity> {
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: the buffer has 256 elements.
        unsafe { call!(self.device_get_name(name.as_mut_ptr(), 256, device)) }?;
        Ok(DeviceIdentity::new(text_in(&mut name), self.kind)
            .with_uuid(V::uuid(self, device))
            .with_luid(V::luid(self, device))
            .with_pci(V::pci(self, device)))
    }
}

/// Reads the text that a driver wrote into a buffer. The last byte is overwritten with a NUL, so the text ends within
/// the buffer.
#[must_use]
pub fn text_in(buffer: &mut [c_char]) -> String {
    let Some(last) = buffer.last_mut() else { return String::new() };
    *last = 0;
    // SAFETY: the buffer has a NUL.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
}

/// Copies a string of the driver. Returns `None` for null.
///
/// # Safety
/// `text` is null, or a NUL-terminated string that lives for the call.
#[must_use]
pub unsafe fn text_at(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, hence a live string by the caller's promise.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Rejects a null handle that the driver returned with success.
#[inline]
pub(crate) fn not_null(operation: &'static str, handle: usize) -> Result<usize> {
    if handle == 0 {
        return Err(null(operation));
    }
    Ok(handle)
}

/// Error for a null handle returned with success.
#[cold]
pub(crate) fn null(operation: &'static str) -> Error {
    Error::new(ErrorKind::Driver, operation, "the driver reported success but returned a null handle")
}

/// Queries the version of a library that lacks required symbols.
fn version_of<V: Vendor>(library: &DriverLibrary) -> Option<ApiVersion> {
    let symbol = Functions::version_symbol(V::NAMING);
    // SAFETY: the function has this type in every driver.
    let get = unsafe { library.symbol::<unsafe extern "system" fn(*mut c_int) -> Status>(symbol) }?;
    let mut number: c_int = 0;
    // SAFETY: the pointer is valid for the call, and the function may be called before initialisation.
    let result = unsafe { get.traced(symbol.to_str().unwrap_or_default(), (&raw mut number,)) };
    let number = u32::try_from(number).ok().filter(|number| *number > 0)?;
    (result == Status::SUCCESS).then(|| V::version(number))
}
