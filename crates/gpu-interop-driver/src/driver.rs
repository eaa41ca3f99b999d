//! The loaded driver: its functions, and what its status codes mean.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;

use gpu_interop_core::{DeviceIdentity, DeviceKind, DriverCode, Error, ErrorKind, Result, Support};

use crate::call::{answer, call};
use crate::functions::{DeviceAddress, DeviceNumber, EVENT_DISABLE_TIMING, Functions, Handle, STREAM_NON_BLOCKING};
use crate::library::DriverLibrary;
use crate::progress;
use crate::status::{NO_KERNEL, Status};
use crate::symbol::ApiVersion;
use crate::trace::DriverFunction;
use crate::vendor::{Doing, Vendor};

/// A simulator says so with this symbol, so that no report made with one passes for a real one. It is a
/// number, which says what does the work.
const MARKER: &CStr = c"gpu_interop_simulated";
/// A GPU does. Otherwise it is the CPU.
const ON_GPU: c_int = 2;

/// A vendor's driver, loaded and initialised.
#[derive(Debug)]
pub struct Driver<V: Vendor> {
    /// What both vendors have.
    pub(crate) functions: Functions,
    /// What only this one has.
    pub own: V::Functions,
    /// The version that it says it is.
    pub version: ApiVersion,
    /// The library's file.
    pub file: PathBuf,
    /// Whether the library is a simulator, a shim, a fake or a mock.
    pub simulated: bool,
    /// What its devices are.
    kind: DeviceKind,
}

impl<V: Vendor> Driver<V> {
    /// Loads and initialises the driver.
    ///
    /// # Errors
    /// Those of [`VendorBackend::load`](crate::VendorBackend::load).
    pub(crate) fn load() -> Result<Self> {
        let library = DriverLibrary::find(&V::SEARCH)?;
        // SAFETY: the library is the vendor's driver, or what the user named as such.
        let functions = unsafe { Functions::load(&library, V::NAMING) };
        // SAFETY: as above.
        let found = functions.and_then(|functions| Ok((functions, unsafe { V::functions(&library) }?)));
        let (functions, own) = found.map_err(|missing| {
            missing.error(&library, V::NAMING.api(), version_of::<V>(&library), V::REQUIRED_SINCE)
        })?;
        // SAFETY: the symbol's type wherever there is one.
        let simulated = unsafe { library.symbol::<*const c_int>(MARKER) };
        let file = library.file(Functions::version_symbol(V::NAMING));
        let (version, kind) = (V::version(0), DeviceKind::Gpu);
        let mut driver = Self { functions, own, version, file, simulated: simulated.is_some(), kind };
        let mut number: c_int = 0;
        let (version, init) = (functions.get_version, functions.init);
        // SAFETY: the pointer is valid for the call. Works before initialisation.
        let answer = unsafe { version.get().traced(version.operation, (&raw mut number,)) };
        driver.check_for(Doing::Initialising, version.operation, answer).map_err(|error| {
            let said = format!("{}, whose version it does not tell", V::NAMING.api());
            error.with_context("driver", said).with_context("library", driver.file.display())
        })?;
        driver.version = V::version(u32::try_from(number).unwrap_or(0));
        if V::UNKNOWN_SINCE.is_some_and(|since| driver.version.major >= since) {
            let api = V::NAMING.api();
            let message = format!(
                "the structs of this version of {api} are not known here; use a newer version of gpu-interop, or an older \
                 {api}"
            );
            return Err(Error::unsupported(version.operation, message)
                .with_context("driver", driver.version)
                .with_context("library", driver.file.display()));
        }
        // SAFETY: 0 is the only flag there is.
        let answer = unsafe { init.get().traced(init.operation, (0,)) };
        driver.check_for(Doing::Initialising, init.operation, answer).map_err(|error| {
            error.with_context("driver", driver.version).with_context("library", driver.file.display())
        })?;
        // It may only know now. A library that does the work on the CPU is on the device of Vulkan's drivers for the CPU.
        // SAFETY: the library is never unloaded, and writes the number, if at all, while it is initialised.
        if simulated.is_some_and(|mark| unsafe { mark.read_volatile() } != ON_GPU) {
            driver.kind = DeviceKind::Cpu;
        }
        Ok(driver)
    }

    /// A status code as a result. `operation` is the function's name in the vendor's documentation.
    ///
    /// # Errors
    /// What the code means, unless it is success.
    #[inline]
    pub fn check(&self, operation: &'static str, code: Status) -> Result<()> {
        self.check_for(Doing::Other, operation, code)
    }

    /// As [`Driver::check`], where the code's meaning depends on what the call was for.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn check_for(&self, doing: Doing, operation: &'static str, code: Status) -> Result<()> {
        if code == Status::SUCCESS { Ok(()) } else { Err(self.error(doing, operation, code)) }
    }

    #[cold]
    fn error(&self, doing: Doing, operation: &'static str, code: Status) -> Error {
        let (kind, message) = match (doing, code) {
            (Doing::FindingKernel, Status::NOT_FOUND) => NO_KERNEL,
            _ => V::meaning(doing, code),
        };
        let [name, text] = V::describe(&self.own, code);
        let error = Error::new(kind, operation, message).with_code(i64::from(code.0), name);
        match text {
            // The text of a code that a refused import ended with is about the driver's internals, and misleads.
            Some(text) if kind != ErrorKind::ImportRejected => error.with_context("driver's text", text),
            _ => error,
        }
    }

    /// An attribute of a device; `None` if the driver does not tell it.
    #[must_use]
    pub fn attribute(&self, device: DeviceNumber, attribute: c_int) -> Option<c_int> {
        self.ask(device, attribute).ok()
    }

    /// An attribute of a device, or what the driver answers instead: [`Status::INVALID_VALUE`] if it does not know it.
    fn ask(&self, device: DeviceNumber, attribute: c_int) -> std::result::Result<c_int, Status> {
        let (mut value, function) = (0, self.functions.device_get_attribute);
        // SAFETY: the pointer is valid for the call; an unknown attribute is an error.
        let result = unsafe { function.get().traced(function.operation, (&raw mut value, attribute, device)) };
        if result == Status::SUCCESS { Ok(value) } else { Err(result) }
    }

    /// Whether an attribute that says so by not being 0 does; `what` the device has then.
    #[must_use]
    pub fn flag(&self, device: DeviceNumber, attribute: c_int, what: &str) -> Support {
        self.flag_or(device, attribute, what, || format!("the device says that it has no {what}"))
    }

    /// As [`Driver::flag`], with another reason where the attribute is 0.
    #[must_use]
    pub fn flag_or(
        &self,
        device: DeviceNumber,
        attribute: c_int,
        what: &str,
        absent: impl FnOnce() -> String,
    ) -> Support {
        match self.ask(device, attribute) {
            Ok(value) if value != 0 => Support::Native,
            Ok(_) => Support::no(absent()),
            // Attributes only ever come, with newer drivers.
            Err(Status::INVALID_VALUE) => Support::DriverTooOld(format!(
                "the driver ({}) does not know of {what}; install a newer one",
                self.version
            )),
            Err(code) => {
                let [name, _] = V::describe(&self.own, code);
                let code = DriverCode::new(i64::from(code.0), name);
                Support::no(format!("asked whether the device has {what}, the driver answered {code}"))
            }
        }
    }

    /// Enqueues a function of the host that does nothing: what comes behind waits for everything before
    /// (`cuLaunchHostFunc`, `hipLaunchHostFunc`).
    ///
    /// # Errors
    /// What the driver answers, or that it lacks the function.
    ///
    /// # Safety
    /// The stream is live, and its device is current.
    pub unsafe fn launch_nothing(&self, stream: Handle) -> Result<()> {
        extern "C" fn nothing(_data: *mut c_void) {}
        // SAFETY: the caller vouches for the stream; the function takes whatever it is given.
        unsafe { call!(self.launch_host_func(stream, nothing, std::ptr::null_mut())) }
    }

    /// Whether a stream has no work left (`cuStreamQuery`, `hipStreamQuery`).
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The stream is live, and its device is current.
    pub unsafe fn is_idle(&self, stream: Handle) -> Result<bool> {
        // SAFETY: the caller's promise.
        unsafe { progress::is_idle(self, stream) }
    }

    /// Makes a stream that does not wait for the default one (`cuStreamCreate`, `hipStreamCreateWithFlags`). The device is
    /// current.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn create_stream(&self) -> Result<Handle> {
        let mut stream = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe { call!(self.stream_create(&raw mut stream, STREAM_NON_BLOCKING)) }?;
        not_null(self.functions.stream_create.operation, stream)
    }

    /// Destroys a stream (`cuStreamDestroy`, `hipStreamDestroy`).
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The stream is live, and nothing uses it any more.
    pub unsafe fn destroy_stream(&self, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.stream_destroy(stream)) }
    }

    /// Makes an event without times (`cuEventCreate`, `hipEventCreateWithFlags`). The device is current.
    ///
    /// # Errors
    /// What the driver answers.
    pub(crate) fn create_event(&self) -> Result<Handle> {
        let mut event = 0;
        // SAFETY: the pointer is valid for the call.
        unsafe { call!(self.event_create(&raw mut event, EVENT_DISABLE_TIMING)) }?;
        not_null(self.functions.event_create.operation, event)
    }

    /// Records an event behind all that a stream has (`cuEventRecord`, `hipEventRecord`).
    ///
    /// # Errors
    /// What the driver answers.
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
    /// What the driver answers.
    ///
    /// # Safety
    /// As for [`Driver::record_event`].
    #[inline]
    pub(crate) unsafe fn wait_event(&self, stream: Handle, event: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.stream_wait_event(stream, event, 0)) }
    }

    /// Whether all has run that an event was recorded behind (`cuEventQuery`, `hipEventQuery`).
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The event is live, and its device is current.
    pub(crate) unsafe fn has_passed(&self, event: Handle) -> Result<bool> {
        // SAFETY: the caller's promise.
        match unsafe { answer!(self.event_query(event)) } {
            (_, Status::NOT_READY) => Ok(false),
            (operation, code) => self.check(operation, code).map(|()| true),
        }
    }

    /// Destroys an event (`cuEventDestroy`, `hipEventDestroy`). The driver keeps what a pending one needs until it has
    /// passed.
    ///
    /// # Errors
    /// What the driver answers.
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
    /// What the driver answers.
    ///
    /// # Safety
    /// `address` is the first of live memory that the driver allocated, nothing uses it any more, and its device is
    /// current.
    pub unsafe fn free(&self, address: DeviceAddress) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.mem_free(address)) }
    }

    pub(crate) fn device_count(&self) -> Result<c_int> {
        let mut count: c_int = 0;
        // SAFETY: the pointer is valid for the call.
        let (operation, answer) = unsafe { answer!(self.device_get_count(&raw mut count)) };
        self.check_for(Doing::Initialising, operation, answer)?;
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
        // SAFETY: the buffer is as long as the call is told.
        unsafe { call!(self.device_get_name(name.as_mut_ptr(), 256, device)) }?;
        Ok(DeviceIdentity::new(text_in(&mut name), self.kind)
            .with_uuid(V::uuid(self, device))
            .with_luid(V::luid(self, device))
            .with_pci(V::pci(self, device)))
    }
}

/// The text that a driver wrote into a buffer. Whatever it wrote, the text ends with the buffer.
#[must_use]
pub fn text_in(buffer: &mut [c_char]) -> String {
    let Some(last) = buffer.last_mut() else { return String::new() };
    *last = 0;
    // SAFETY: the buffer has a NUL.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
}

/// A text of the driver; `None` for null.
///
/// # Safety
/// Null, or a NUL-terminated string that lives for the call.
#[must_use]
pub unsafe fn text_at(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, so a string, as the caller vouches.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A result that must not be null although the driver said success.
#[inline]
pub(crate) fn not_null(operation: &'static str, handle: usize) -> Result<usize> {
    if handle == 0 {
        return Err(null(operation));
    }
    Ok(handle)
}

/// The error for a success that gave no handle.
#[cold]
pub(crate) fn null(operation: &'static str) -> Error {
    Error::new(ErrorKind::Driver, operation, "the driver reported success but gave a null handle")
}

/// What a library that is no complete driver says of its version.
fn version_of<V: Vendor>(library: &DriverLibrary) -> Option<ApiVersion> {
    let symbol = Functions::version_symbol(V::NAMING);
    // SAFETY: the type that the function has in every driver.
    let get = unsafe { library.symbol::<unsafe extern "system" fn(*mut c_int) -> Status>(symbol) }?;
    let mut number: c_int = 0;
    // SAFETY: the pointer is valid for the call. Works before initialisation.
    let result = unsafe { get.traced(symbol.to_str().unwrap_or_default(), (&raw mut number,)) };
    let number = u32::try_from(number).ok().filter(|number| *number > 0)?;
    (result == Status::SUCCESS).then(|| V::version(number))
}
