//! Binary and timeline semaphores.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ash::vk;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, Result, SemaphorePayload};

use crate::error::{self, Checked};
use crate::interop::VulkanInterop;
use crate::pending::PendingSignals;
use crate::queue::{Awaited, Place};

/// A `VkSemaphore`, binary or timeline. Destroyed with the last clone.
///
/// The last clone must not be dropped while work submitted through ash uses the semaphore; work submitted through
/// [`HeadlessContext`](crate::HeadlessContext) keeps its semaphores alive.
///
/// A context rejects a wait for a binary semaphore without a submitted signal, at which the driver may block for ever,
/// and a second signal without a wait. Signals and waits submitted through ash are unknown to it; declare them
/// ([`assume_signalled`](Self::assume_signalled), [`assume_waited`](Self::assume_waited)). A binary semaphore that was
/// exported or imported is not checked: the other side signals it and waits for it.
#[derive(Debug, Clone)]
pub struct OwnedSemaphore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    interop: VulkanInterop,
    semaphore: vk::Semaphore,
    payload: SemaphorePayload,
    pending: PendingSignals,
    /// Another API or process may signal it or wait for it: it was exported or imported.
    shared: AtomicBool,
    /// A bridge signals it from the host.
    bridged: AtomicBool,
    /// The application has the handle, and may signal it through ash.
    lent: AtomicBool,
    binary: BinaryState,
    /// What keeps a semaphore of the application alive; `None` if this object destroys the semaphore.
    lender: Option<Arc<dyn Any + Send + Sync>>,
}

/// What a recorded wait or signal has replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Before {
    /// The greatest value that the queue waited for.
    Timeline(u64),
    Binary(Binary),
}

impl OwnedSemaphore {
    /// Creates an unsignalled binary semaphore that is not shared. Calls `vkCreateSemaphore`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory).
    #[doc(alias = "vkCreateSemaphore")]
    pub fn binary(interop: &VulkanInterop) -> Result<Self> {
        let kinds = vk::ExternalSemaphoreHandleTypeFlags::empty();
        Self::create("OwnedSemaphore::binary", interop, SemaphorePayload::Binary, 0, kinds)
    }

    /// Creates a timeline semaphore with the value `initial` that is not shared. Calls `vkCreateSemaphore`. The caller
    /// of [`VulkanInterop::new`] promised that the feature `timelineSemaphore` is enabled; Vulkan cannot report that.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if the physical device does not have the
    /// feature, or the device lacks the functions of timeline semaphores;
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory).
    #[doc(alias("vkCreateSemaphore", "VkSemaphoreTypeCreateInfo"))]
    pub fn timeline(interop: &VulkanInterop, initial: u64) -> Result<Self> {
        let kinds = vk::ExternalSemaphoreHandleTypeFlags::empty();
        Self::create("OwnedSemaphore::timeline", interop, SemaphorePayload::Timeline, initial, kinds)
    }

    /// Creates a semaphore. `operation` is the public function that was called.
    pub(crate) fn create(
        operation: &'static str,
        interop: &VulkanInterop,
        payload: SemaphorePayload,
        initial: u64,
        export: vk::ExternalSemaphoreHandleTypeFlags,
    ) -> Result<Self> {
        let mut type_info =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(initial);
        let mut export_info = vk::ExportSemaphoreCreateInfo::default().handle_types(export);
        let mut info = vk::SemaphoreCreateInfo::default();
        interop.check_process(operation)?;
        if payload == SemaphorePayload::Timeline {
            interop.timeline(operation)?;
            info = info.push_next(&mut type_info);
        }
        if !export.is_empty() {
            info = info.push_next(&mut export_info);
        }
        // SAFETY: the device is live (`VulkanInterop::new`) and has timeline semaphores if one is requested; the caller
        // has checked that the device exports such semaphores.
        let semaphore = unsafe { interop.device().create_semaphore(&info, None) }
            .checked("vkCreateSemaphore")
            .map_err(|error| error.with_device(interop.identity()))?;
        Ok(Self::of(interop, semaphore, payload, None))
    }

    /// Borrows a timeline semaphore that the application created, for a bridge: any
    /// [`Timeline`](gpu_interop_core::Timeline) accepts it. The semaphore is not destroyed on drop; `owner` is kept
    /// until then. If it was created for export,
    /// [`ExportableSemaphore::timeline_from_raw`](crate::ExportableSemaphore::timeline_from_raw) can avoid the bridge.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a null semaphore; otherwise as
    /// for [`timeline`](Self::timeline).
    ///
    /// # Safety
    /// `semaphore` is a timeline semaphore of this device, and live as long as `owner`. Host signals through this
    /// object and signals of submitted work must raise the value in order: work submitted through ash is unknown to it, unless
    /// [`submit_signal`](Self::submit_signal) and [`submit_wait`](Self::submit_wait) submit it.
    pub unsafe fn timeline_from_raw(
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        const OPERATION: &str = "OwnedSemaphore::timeline_from_raw";
        if semaphore == vk::Semaphore::null() {
            return Err(Error::invalid(OPERATION, "the semaphore is null").with_device(interop.identity()));
        }
        interop.timeline(OPERATION)?;
        Ok(Self::of(interop, semaphore, SemaphorePayload::Timeline, Some(owner)))
    }

    fn of(
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        payload: SemaphorePayload,
        lender: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        let inner = Inner {
            interop: interop.clone(),
            semaphore,
            payload,
            pending: PendingSignals::default(),
            shared: AtomicBool::new(false),
            bridged: AtomicBool::new(false),
            lent: AtomicBool::new(lender.is_some()),
            binary: BinaryState::default(),
            lender,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The `VkSemaphore`, valid as long as a clone of this object lives. Submit its signals with
    /// [`submit_signal`](Self::submit_signal): other ones are unknown to this crate.
    #[must_use]
    pub fn as_raw(&self) -> vk::Semaphore {
        self.inner.lent.store(true, Ordering::Relaxed);
        self.inner.semaphore
    }

    /// As [`as_raw`](Self::as_raw), for calls of this crate.
    pub(crate) fn raw(&self) -> vk::Semaphore {
        self.inner.semaphore
    }

    /// [`SemaphorePayload::Binary`] or [`SemaphorePayload::Timeline`].
    #[must_use]
    pub fn payload(&self) -> SemaphorePayload {
        self.inner.payload
    }

    /// The device that this object belongs to.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        &self.inner.interop
    }

    /// The timeline's current value. Calls `vkGetSemaphoreCounterValue`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore;
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) if the device is lost.
    #[doc(alias = "vkGetSemaphoreCounterValue")]
    pub fn value(&self) -> Result<u64> {
        let functions = self.timeline_functions("OwnedSemaphore::value")?;
        let mut value = 0;
        // SAFETY: device and semaphore are live, the semaphore is a timeline, the function was loaded from the device.
        unsafe { (functions.get_semaphore_counter_value_khr)(self.device(), self.inner.semaphore, &raw mut value) }
            .result()
            .checked("vkGetSemaphoreCounterValue")?;
        Ok(value)
    }

    /// Sets the timeline to `value` from the host. Calls `vkSignalSemaphore`.
    ///
    /// Work submitted with another object of the same payload, such as an import of this semaphore's export, is
    /// unknown to this object: the application must order their signals. Work of another library is known if
    /// [`submit_signal`](Self::submit_signal) and [`submit_wait`](Self::submit_wait) submitted it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore; for a value not above the current one, or further above
    /// it than the device allows ([`VulkanInterop::max_timeline_difference`]); for a value that pending work, submitted
    /// through a [`HeadlessContext`](crate::HeadlessContext) for example, has yet to reach or pass below.
    /// [`ErrorKind::Overtaken`](gpu_interop_core::ErrorKind::Overtaken) if such work may signal a greater value first, because it does not wait for this one;
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory).
    #[doc(alias = "vkSignalSemaphore")]
    pub fn signal(&self, value: u64) -> Result<()> {
        const OPERATION: &str = "OwnedSemaphore::signal";
        let functions = self.timeline_functions(OPERATION)?;
        let current = self.value()?;
        if value <= current {
            return Err(Error::invalid(OPERATION, "a timeline value can only increase; signal a greater one")
                .with_context("value", value)
                .with_context("current", current));
        }
        self.within_reach(OPERATION, current, value)?;
        let info = vk::SemaphoreSignalInfo::default().semaphore(self.inner.semaphore).value(value);
        self.inner.pending.by_host(OPERATION, current, value, || {
            // SAFETY: as in `value`; `value` is greater than the current value.
            unsafe { (functions.signal_semaphore_khr)(self.device(), &raw const info) }
                .result()
                .checked("vkSignalSemaphore")
        })
    }

    /// Blocks until the timeline is at least `value`. Calls `vkWaitSemaphores` after polling for a millisecond:
    /// NVIDIA's driver checks a timeline that another API signals only every 10 ms.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`; the wait may be repeated.
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore;
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) if the device is lost.
    #[doc(alias = "vkWaitSemaphores")]
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        /// Polling time, and the sleep between polls.
        const POLLING: (Duration, Duration) = (Duration::from_millis(1), Duration::from_micros(50));
        let functions = self.timeline_functions("OwnedSemaphore::wait")?;
        let start = Instant::now();
        loop {
            if self.value()? >= value {
                return Ok(());
            }
            let (passed, (most, pause)) = (start.elapsed(), POLLING);
            if passed >= most.min(timeout) {
                break;
            }
            if passed < pause { std::hint::spin_loop() } else { std::thread::sleep(pause) }
        }
        let timeout = timeout.saturating_sub(start.elapsed());
        let (semaphores, values) = ([self.inner.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: as in `value`; one semaphore, one value.
        match unsafe { (functions.wait_semaphores_khr)(self.device(), &raw const info, nanoseconds(timeout)) } {
            vk::Result::SUCCESS => Ok(()),
            code => Err(error::driver("vkWaitSemaphores", code).with_context("value", value)),
        }
    }

    /// Declares that a signal of this binary semaphore was submitted through ash, such as by `vkAcquireNextImageKHR`. A
    /// [`HeadlessContext`](crate::HeadlessContext) can then wait for it. No effect on a timeline.
    ///
    /// # Safety
    /// The signal was submitted, and no wait for it.
    pub unsafe fn assume_signalled(&self) {
        self.inner.binary.set(Binary::Signalled(None));
    }

    /// Declares that a wait for the last signal of this binary semaphore was submitted through ash, such as by
    /// `vkQueuePresentKHR`. A [`HeadlessContext`](crate::HeadlessContext) can then signal it again. No effect on a
    /// timeline.
    ///
    /// # Safety
    /// The wait was submitted, and no later signal.
    pub unsafe fn assume_waited(&self) {
        self.inner.binary.set(Binary::Unsignalled);
    }

    /// Lets `export` take the submitted signal of a binary semaphore, after which it is unsignalled. A failed export takes
    /// nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) without a submitted signal; those of
    /// `export`.
    #[cfg(unix)]
    pub(crate) fn take_signal<T>(&self, operation: &'static str, export: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.inner.binary.wait(operation, false).map_err(|_| {
            let message = "no signal of the semaphore was submitted since the last export or wait; submit one first, or declare \
                           one submitted through ash (OwnedSemaphore::assume_signalled)";
            Error::invalid(operation, message)
        })?;
        let taken = export();
        match taken {
            Ok(_) => self.inner.binary.wait_submitted(),
            Err(_) => self.inner.binary.set(before),
        }
        taken
    }

    /// Records that another API or process may signal the semaphore or wait for it.
    pub(crate) fn share(&self) {
        self.inner.shared.store(true, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        self.inner.shared.load(Ordering::Relaxed)
    }

    /// Records that a bridge signals the timeline.
    pub(crate) fn bridge(&self) {
        self.inner.bridged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_timeline(&self) -> bool {
        self.inner.payload == SemaphorePayload::Timeline
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The timeline, if its signals are known. Signals by another API or through ash are not; behind a bridge, they are
    /// signals of the host.
    pub(crate) fn awaited(&self) -> Option<Arc<dyn Awaited>> {
        let is_known = || !self.is_shared() && !self.inner.lent.load(Ordering::Relaxed);
        let is_awaited = self.is_timeline() && (self.inner.bridged.load(Ordering::Relaxed) || is_known());
        is_awaited.then(|| -> Arc<dyn Awaited> { self.inner.clone() })
    }

    /// The submission that signalled a binary semaphore, if it is known.
    pub(crate) fn signalled_by(&self) -> Option<Place> {
        match self.inner.binary.get() {
            Binary::Signalled(place) if !self.is_shared() => place,
            _ => None,
        }
    }

    /// Records a wait that is about to be submitted to a queue; for `value` if this is a timeline. Returns what
    /// [`OwnedSemaphore::undo_wait`] needs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore without a
    /// submitted signal.
    pub(crate) fn begin_wait(&self, operation: &'static str, queue: vk::Queue, value: u64) -> Result<Before> {
        if self.is_timeline() {
            return Ok(Before::Timeline(self.inner.pending.wait(queue, value)));
        }
        self.inner.binary.wait(operation, self.is_shared()).map(Before::Binary)
    }

    /// The wait that [`OwnedSemaphore::begin_wait`] recorded was submitted.
    pub(crate) fn wait_submitted(&self) {
        self.inner.binary.wait_submitted();
    }

    /// Reverts the last [`OwnedSemaphore::begin_wait`] of a queue, which returned `before`.
    pub(crate) fn undo_wait(&self, queue: vk::Queue, before: Before) {
        match before {
            Before::Timeline(waited) => self.inner.pending.undo_wait(queue, waited),
            Before::Binary(before) => self.inner.binary.set(before),
        }
    }

    /// Records a signal that is about to be submitted to a queue; of `value` if this is a timeline. `is_waited`: the same
    /// submission waits for the semaphore. Returns what [`OwnedSemaphore::undo_signal`] needs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the timeline would not increase,
    /// or the binary semaphore is already signalled.
    pub(crate) fn begin_signal(
        &self,
        operation: &'static str,
        queue: vk::Queue,
        value: u64,
        is_waited: bool,
    ) -> Result<Before> {
        if self.is_timeline() {
            return self.inner.pending.signal(operation, queue, self.value()?, value).map(|()| Before::Timeline(0));
        }
        self.inner.binary.signal(operation, self.is_shared(), is_waited).map(Before::Binary)
    }

    /// The signal that [`OwnedSemaphore::begin_signal`] recorded was submitted.
    pub(crate) fn signal_submitted(&self, queue: vk::Queue, place: Place) {
        if self.is_timeline() {
            self.inner.pending.submitted(queue, place);
        } else {
            self.inner.binary.set(Binary::Signalled(Some(place)));
        }
    }

    /// Reverts the last [`OwnedSemaphore::begin_signal`] of a queue, which returned `before`.
    pub(crate) fn undo_signal(&self, queue: vk::Queue, before: Before) {
        match before {
            Before::Timeline(_) => self.inner.pending.undo(queue),
            Before::Binary(before) => self.inner.binary.set(before),
        }
    }

    /// Rejects binary semaphores, and as [`check_submitted`](Self::check_submitted).
    pub(crate) fn check_value(&self, operation: &'static str, value: u64) -> Result<()> {
        self.timeline_functions(operation)?;
        self.check_submitted(operation, value)
    }

    /// Rejects timeline values that a submission must neither wait for nor signal.
    pub(crate) fn check_submitted(&self, operation: &'static str, value: u64) -> Result<()> {
        if !self.is_timeline() || self.inner.interop.max_timeline_difference() == u64::MAX {
            return Ok(());
        }
        self.within_reach(operation, self.value()?, value)
    }

    fn within_reach(&self, operation: &'static str, current: u64, value: u64) -> Result<()> {
        within_reach(operation, current, value, self.inner.interop.max_timeline_difference())
            .map_err(|error| error.with_device(self.inner.interop.identity()))
    }

    fn device(&self) -> vk::Device {
        self.inner.interop.device().handle()
    }

    fn timeline_functions(&self, operation: &'static str) -> Result<&ash::khr::timeline_semaphore::DeviceFn> {
        if !self.is_timeline() {
            return Err(Error::invalid(operation, "the semaphore is binary; only a timeline has a value"));
        }
        self.inner.interop.timeline(operation)
    }
}

impl Awaited for Inner {
    fn is_reached(self: Arc<Self>, value: u64) -> bool {
        OwnedSemaphore { inner: self }.value().map_or(true, |reached| reached >= value)
    }

    fn signalled_by(&self, value: u64) -> Option<Place> {
        self.pending.submission_of(value)
    }

    fn wait(self: Arc<Self>, value: u64, timeout: Duration) -> Result<()> {
        OwnedSemaphore { inner: self }.wait(value, timeout)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.lender.is_some() || self.interop.is_forked() {
            return;
        }
        // SAFETY: this object owns the semaphore, and nothing uses it any more, by the contract of `OwnedSemaphore`.
        unsafe { self.interop.device().destroy_semaphore(self.semaphore, None) };
    }
}

/// Rejects values that Vulkan forbids (VUIDs 03243, 03244 and 03260), as far as the current value decides it.
fn within_reach(operation: &'static str, current: u64, value: u64, most: u64) -> Result<()> {
    if current.abs_diff(value) <= most {
        return Ok(());
    }
    Err(Error::invalid(
        operation,
        "the value is too far from the timeline's current value for this device; signal it in smaller steps",
    )
    .with_context("value", value)
    .with_context("current", current)
    .with_context("greatest difference", most))
}

/// Converts a timeout to nanoseconds. Longer timeouts become the longest finite one.
pub(crate) fn nanoseconds(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1)
}

/// State of a binary semaphore after the submitted work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Binary {
    #[default]
    Unsignalled,
    /// A signal is being submitted.
    Signalling,
    /// By this submission; `None` for one through ash.
    Signalled(Option<Place>),
    /// A wait is being submitted.
    Waiting,
}

/// The state of a binary semaphore. The methods accept everything if another API or process may change it
/// (`is_shared`).
#[derive(Debug, Default)]
pub(crate) struct BinaryState(Mutex<Binary>);

impl BinaryState {
    fn lock(&self) -> MutexGuard<'_, Binary> {
        // The state is valid after every step, so a poisoned lock is usable.
        lock(&self.0)
    }

    pub(crate) fn get(&self) -> Binary {
        *self.lock()
    }

    pub(crate) fn set(&self, state: Binary) {
        *self.lock() = state;
    }

    /// Records a wait that is about to be submitted. Returns the state before, for a failed submission.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) without a submitted signal.
    pub(crate) fn wait(&self, operation: &'static str, is_shared: bool) -> Result<Binary> {
        let mut state = self.lock();
        if is_shared || matches!(*state, Binary::Signalled(_)) {
            return Ok(std::mem::replace(&mut state, Binary::Waiting));
        }
        Err(Error::invalid(
            operation,
            "no signal of the binary semaphore was submitted, so the queue would wait for ever; submit the signal first, or \
             declare one submitted through ash (OwnedSemaphore::assume_signalled)",
        ))
    }

    /// The recorded wait was submitted.
    pub(crate) fn wait_submitted(&self) {
        let mut state = self.lock();
        // Else the same submission signals it, too.
        if matches!(*state, Binary::Waiting) {
            *state = Binary::Unsignalled;
        }
    }

    /// As [`wait`](Self::wait), of a signal. `is_waited`: the same submission waits for the semaphore.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if it is signalled, or other work is
    /// being submitted.
    pub(crate) fn signal(&self, operation: &'static str, is_shared: bool, is_waited: bool) -> Result<Binary> {
        let mut state = self.lock();
        if is_shared || matches!(*state, Binary::Unsignalled) || (is_waited && matches!(*state, Binary::Waiting)) {
            return Ok(std::mem::replace(&mut state, Binary::Signalling));
        }
        Err(Error::invalid(
            operation,
            "a signal of the binary semaphore is already submitted, and no wait for it; submit the wait first, or declare one \
             or a presentation submitted through ash (OwnedSemaphore::assume_waited)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn values_beyond_the_device_limit_are_rejected() {
        const MOST: u64 = i32::MAX as u64;
        for (current, value) in [(0, 0), (0, MOST), (MOST, 0), (u64::MAX - MOST, u64::MAX), (7, 7 + MOST)] {
            within_reach("op", current, value, MOST).expect("within the limit");
        }
        for (current, value) in [(0, MOST + 1), (MOST + 1, 0), (0, u64::MAX), (6, 7 + MOST)] {
            let error = within_reach("op", current, value, MOST).expect_err("beyond the limit");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = error.to_string();
            let words = ["smaller steps", &format!("value: {value}"), "greatest difference: 2147483647"];
            assert!(words.into_iter().all(|word| text.contains(word)), "{text}");
        }
        within_reach("op", 0, u64::MAX, u64::MAX).expect("no limit");
    }
}
