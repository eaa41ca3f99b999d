//! [`Context`]: an open device, and making it current on the calling thread.
//!
//! While a thread captures a graph in *global* mode, as PyTorch does, queries, synchronisations and frees on every
//! other thread return 900 (`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`) and invalidate the capture. A thread in relaxed
//! mode is exempt (`cuThreadExchangeStreamCaptureMode`, `hipThreadExchangeStreamCaptureMode`) and leaves the capture
//! valid: calls of this crate enqueue nothing on a stream that another thread captures.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_interop_core::backend::RawStream;
use gpu_interop_core::{Error, ErrorKind, Result};

use crate::driver::{Driver, Vendor};
use crate::exportable::Late;
use crate::functions::{DeviceNumber, Handle};
use crate::status::Status;
use crate::trace::DriverFunction;

/// Greatest handle of a default stream, which names a stream of the current context: the null stream, the legacy default
/// stream (1) and that of the calling thread (2).
const LAST_DEFAULT_STREAM: usize = 2;

/// Open device, shared by its users.
#[derive(Debug)]
pub(crate) struct Context<V: Vendor> {
    pub(crate) driver: Arc<Driver<V>>,
    pub(crate) device: DeviceNumber,
    vendor: V::Context,
    /// Another library has reset the device: every object of this context is gone.
    reset: AtomicBool,
    /// Set when pending work may never complete. Drivers whose frees wait for all work would block forever.
    pub(crate) abandoned: AtomicBool,
    pub(crate) late: Late,
}

impl<V: Vendor> Context<V> {
    pub(crate) fn open(driver: Arc<Driver<V>>, device: DeviceNumber) -> Result<Self> {
        // Opening may allocate memory.
        let vendor = relaxed(&driver, || V::open(&driver, device))?;
        Ok(Self {
            driver,
            device,
            vendor,
            reset: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            late: Late::default(),
        })
    }

    /// The driver's context; `None` for vendors without contexts.
    pub(crate) fn handle(&self) -> Option<Handle> {
        V::context_handle(&self.vendor)
    }

    pub(crate) fn vendor(&self) -> &V::Context {
        &self.vendor
    }

    /// Returns whether another library has reset the device, as far as an earlier call has found.
    #[inline]
    pub(crate) fn is_reset(&self) -> bool {
        // Relaxed: the flag is never cleared, and guards no data.
        self.reset.load(Ordering::Relaxed)
    }

    /// Fails in a forked process, and if another library has reset the device. Handles and addresses of this context may
    /// then belong to that library's objects, and drivers crash on some of them.
    #[inline]
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.driver.check_process("Device")?;
        self.check_not_reset()
    }

    /// The second part of [`Context::check_alive`].
    #[inline]
    fn check_not_reset(&self) -> Result<()> {
        if !self.is_reset() && V::is_alive(&self.driver, self.device, &self.vendor)? {
            return Ok(());
        }
        Err(self.note_reset())
    }

    #[cold]
    fn note_reset(&self) -> Error {
        let (operation, message) = V::RESET;
        if !self.reset.swap(true, Ordering::Relaxed) {
            tracing::warn!("{message}");
        }
        Error::new(ErrorKind::DeviceLost, operation, message)
    }

    /// Returns the driver, with the device current on this thread and the thread in relaxed capture mode until the
    /// second value is dropped.
    ///
    /// # Errors
    /// `DeviceLost` if another library has reset the device; otherwise the driver's error.
    #[inline]
    pub(crate) fn enter(&self) -> Result<(&Driver<V>, CurrentRelaxed<'_, V>)> {
        let (driver, current) = self.enter_to_enqueue()?;
        let mode = relax(driver);
        Ok((driver, CurrentRelaxed { mode, current }))
    }

    /// Counterpart of [`Context::enter`] for functions that only enqueue work, which captures of other threads never
    /// reject.
    #[inline]
    pub(crate) fn enter_to_enqueue(&self) -> Result<(&Driver<V>, Current<'_, V>)> {
        self.check_alive()?;
        self.make_current()
    }

    #[inline]
    fn make_current(&self) -> Result<(&Driver<V>, Current<'_, V>)> {
        let driver = &*self.driver;
        let previous = V::enter(driver, self.device, &self.vendor)?;
        Ok((driver, Current { driver, previous }))
    }

    /// Enqueues signals of, or waits for, `count` semaphores on `stream`, with a function that has enqueued nothing if it
    /// fails. The device is current during the call only where the driver needs that.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// `function` is this driver's and takes parameters of type `P`. Both arrays have `count` valid elements, at least
    /// one, during the call. The stream and the semaphores are live and belong to this device.
    #[inline(always)]
    pub(crate) unsafe fn enqueue<P: 'static>(
        &self,
        operation: &'static str,
        stream: RawStream,
        function: EnqueueSemaphores<P>,
        semaphores: *const Handle,
        params: *const P,
        count: c_uint,
    ) -> Result<()> {
        self.check_not_reset()?;
        let stream = stream.get();
        if !V::STREAM_IMPLIES_CONTEXT || stream <= LAST_DEFAULT_STREAM {
            let call = SemaphoreCall { operation, stream, function, semaphores, params, count };
            // SAFETY: the caller's promise.
            return unsafe { self.enqueue_in_context(&call) };
        }
        // SAFETY: the caller's promise.
        match unsafe { function.traced(operation, (semaphores, params, count, stream)) } {
            Status::SUCCESS => Ok(()),
            status => {
                // Built only after a failure, so that the arguments stay in registers.
                let call = SemaphoreCall { operation, stream, function, semaphores, params, count };
                // SAFETY: the caller's promise; nothing was enqueued.
                unsafe { self.enqueue_again(status, &call) }
            }
        }
    }

    /// As [`Context::enqueue`], with the device current.
    ///
    /// # Safety
    /// As for [`Context::enqueue`].
    #[inline(never)]
    unsafe fn enqueue_in_context<P: 'static>(&self, call: &SemaphoreCall<P>) -> Result<()> {
        let (driver, _current) = self.enter_to_enqueue()?;
        // SAFETY: the caller's promise.
        driver.check(call.operation, unsafe { call.run() })
    }

    /// Repeats a call that failed, if the driver may have failed because another context was current, or none.
    ///
    /// # Safety
    /// As for [`Context::enqueue`], and the failed call has enqueued nothing.
    #[cold]
    unsafe fn enqueue_again<P: 'static>(&self, status: Status, call: &SemaphoreCall<P>) -> Result<()> {
        if status.may_be_of_another_context() {
            let (driver, current) = self.enter_to_enqueue()?;
            if current.previous.is_some() {
                // SAFETY: the caller's promise.
                return driver.check(call.operation, unsafe { call.run() });
            }
        }
        self.driver.check(call.operation, status)
    }
}

/// `cuSignalExternalSemaphoresAsync`, `cuWaitExternalSemaphoresAsync` and their counterparts of HIP.
pub(crate) type EnqueueSemaphores<P> = unsafe extern "system" fn(*const Handle, *const P, c_uint, Handle) -> Status;

/// A function and its arguments.
struct SemaphoreCall<P> {
    operation: &'static str,
    stream: Handle,
    function: EnqueueSemaphores<P>,
    semaphores: *const Handle,
    params: *const P,
    count: c_uint,
}

impl<P: 'static> SemaphoreCall<P> {
    /// # Safety
    /// As for [`Context::enqueue`].
    unsafe fn run(&self) -> Status {
        // SAFETY: the caller's promise.
        unsafe { self.function.traced(self.operation, (self.semaphores, self.params, self.count, self.stream)) }
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        let may_wait = !self.abandoned.load(Ordering::Relaxed);
        if !self.late.is_empty() {
            let settled = self.enter().and_then(|(driver, _current)| self.late.settle(driver, self.device));
            if let Err(error) = settled {
                self.late.leak(&error);
            }
        }
        if !V::CLOSES_CURRENT_DEVICE {
            return V::close(&self.driver, self.device, &self.vendor, may_wait);
        }
        // Also after a reset of the device.
        match self.make_current() {
            Ok((driver, _current)) => {
                relaxed(driver, || V::close(driver, self.device, &self.vendor, may_wait));
            }
            Err(error) => {
                tracing::warn!(%error, "a device that is closed cannot be made current");
                V::close(&self.driver, self.device, &self.vendor, may_wait);
            }
        }
    }
}

/// Guard that keeps a device current.
#[must_use]
#[derive(Debug)]
pub(crate) struct Current<'a, V: Vendor> {
    driver: &'a Driver<V>,
    previous: Option<V::Previous>,
}

/// Guard that keeps a device current and the thread in relaxed capture mode.
#[must_use]
#[derive(Debug)]
pub(crate) struct CurrentRelaxed<'a, V: Vendor> {
    /// Capture mode to restore.
    mode: Option<c_uint>,
    current: Current<'a, V>,
}

impl<V: Vendor> Drop for CurrentRelaxed<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            restore(self.current.driver, mode);
        }
    }
}

impl<V: Vendor> Drop for Current<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // This is the thread that called `enter`: a `Current` never leaves the function that created it, so pairs
            // nest.
            V::leave(self.driver, previous);
        }
    }
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`, `hipStreamCaptureModeRelaxed`.
pub(crate) const RELAXED: c_uint = 2;

/// Puts the thread in relaxed mode. Returns the mode to restore, `None` if it did not change.
#[inline]
pub(crate) fn relax<V: Vendor>(driver: &Driver<V>) -> Option<c_uint> {
    exchange(driver, RELAXED).filter(|before| *before != RELAXED)
}

/// Restores the mode that [`relax`] returned.
#[inline]
pub(crate) fn restore<V: Vendor>(driver: &Driver<V>, mode: c_uint) {
    exchange(driver, mode);
}

/// Runs `call` with the thread in relaxed mode.
pub(crate) fn relaxed<V: Vendor, R>(driver: &Driver<V>, call: impl FnOnce() -> R) -> R {
    let mode = relax(driver);
    let result = call();
    if let Some(mode) = mode {
        restore(driver, mode);
    }
    result
}

#[inline]
fn exchange<V: Vendor>(driver: &Driver<V>, mut mode: c_uint) -> Option<c_uint> {
    let entry = &driver.functions.thread_exchange_capture_mode;
    // Drivers without the function have no capture modes.
    let function = entry.function.get()?;
    // SAFETY: the pointer is valid for the call.
    let status = unsafe { function.traced(entry.operation, (&raw mut mode,)) };
    if status == Status::SUCCESS {
        return Some(mode);
    }
    report(driver, entry.operation, status);
    None
}

#[cold]
fn report<V: Vendor>(driver: &Driver<V>, operation: &'static str, status: Status) {
    if let Err(error) = driver.check(operation, status) {
        tracing::debug!(%error, "the thread's capture mode is unchanged; another thread's stream capture may make calls fail");
    }
}
