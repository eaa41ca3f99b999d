//! Binary and timeline semaphores, and their export.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;
use gpu_interop_core::{Error, ErrorKind, Result, SemaphoreHandleKind, SemaphorePayload};
use gpu_interop_core::{SemaphoreHandle, SemaphoreImport};

use crate::error::{self, Checked};
use crate::handles::{self, Exported};
use crate::interop::VulkanInterop;
use crate::pending::PendingSignals;
use crate::query::semaphore_handle_type;

/// A `VkSemaphore`, binary or timeline. Destroyed with the last clone.
///
/// The last clone must not be dropped while work submitted through ash uses the semaphore; work submitted through
/// [`HeadlessContext`](crate::HeadlessContext) keeps its semaphores alive.
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
    /// What keeps a semaphore of the application alive; `None` if this object destroys the semaphore.
    lender: Option<Arc<dyn Any + Send + Sync>>,
}

impl OwnedSemaphore {
    /// Creates an unsignalled binary semaphore that is not shared. Calls `vkCreateSemaphore`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn binary(interop: &VulkanInterop) -> Result<Self> {
        let kinds = vk::ExternalSemaphoreHandleTypeFlags::empty();
        Self::create("OwnedSemaphore::binary", interop, SemaphorePayload::Binary, 0, kinds)
    }

    /// Creates a timeline semaphore with the value `initial` that is not shared. Calls `vkCreateSemaphore`. The caller
    /// of [`VulkanInterop::new`] promised that the feature `timelineSemaphore` is enabled; Vulkan cannot report that.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the physical device does not have the feature, or the device lacks the functions
    /// of timeline semaphores; [`ErrorKind::OutOfMemory`].
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
        let (interop, pending) = (interop.clone(), PendingSignals::default());
        Ok(Self { inner: Arc::new(Inner { interop, semaphore, payload, pending, lender: None }) })
    }

    /// Borrows a timeline semaphore that the application created, for a bridge: any
    /// [`Timeline`](gpu_interop_core::Timeline) accepts it. The semaphore is not destroyed on drop; `owner` is kept
    /// until then. If it was created for export, [`ExportableSemaphore::timeline_from_raw`] can avoid the bridge.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a null semaphore; otherwise as for [`timeline`](Self::timeline).
    ///
    /// # Safety
    /// `semaphore` is a timeline semaphore of this device, and live as long as `owner`. Host signals through this
    /// object and signals of submitted work must raise the value in order: work submitted through ash is unknown to it.
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
        let (interop, pending, payload) = (interop.clone(), PendingSignals::default(), SemaphorePayload::Timeline);
        Ok(Self { inner: Arc::new(Inner { interop, semaphore, payload, pending, lender: Some(owner) }) })
    }

    /// The `VkSemaphore`, valid as long as a clone of this object lives.
    #[must_use]
    pub fn as_raw(&self) -> vk::Semaphore {
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
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore; [`ErrorKind::Driver`] if the device is lost.
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
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore; for a value not above the current one, or further above
    /// it than the device allows ([`VulkanInterop::max_timeline_difference`]); for a value that pending work, submitted
    /// through a [`HeadlessContext`](crate::HeadlessContext) for example, has yet to reach or pass below.
    /// [`ErrorKind::Overtaken`] if such work may signal a greater value first, because it does not wait for this one;
    /// [`ErrorKind::OutOfMemory`].
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
    /// [`ErrorKind::Timeout`] after `timeout`; the wait may be repeated. [`ErrorKind::InvalidArgument`] for a binary
    /// semaphore; [`ErrorKind::Driver`] if the device is lost.
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

    /// Runs `submit`, which makes another library signal the timeline from `queue`, behind the queue's earlier work. The
    /// signal is recorded, so that [`signal`](Self::signal) and later submissions do not conflict with it; it is not if
    /// `submit` fails. One thread at a time submits signals of a timeline to a queue.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore; for a value not above the current one and every one
    /// submitted to this queue, or further above the current one than the device allows; otherwise the errors of
    /// `submit`.
    pub fn submit_signal(&self, queue: vk::Queue, value: u64, submit: impl FnOnce() -> Result<()>) -> Result<()> {
        const OPERATION: &str = "OwnedSemaphore::submit_signal";
        self.timeline_functions(OPERATION)?;
        self.check_submitted(OPERATION, value)?;
        self.begin_signal(OPERATION, queue, value)?;
        submit().inspect_err(|_| self.undo_signal(queue))
    }

    /// As [`submit_signal`](Self::submit_signal), of a wait for `value` in front of the queue's later work.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a binary semaphore, and for a value further from the current one than the
    /// device allows; otherwise the errors of `submit`.
    pub fn submit_wait(&self, queue: vk::Queue, value: u64, submit: impl FnOnce() -> Result<()>) -> Result<()> {
        const OPERATION: &str = "OwnedSemaphore::submit_wait";
        self.timeline_functions(OPERATION)?;
        self.check_submitted(OPERATION, value)?;
        let before = self.begin_wait(queue, value);
        submit().inspect_err(|_| self.undo_wait(queue, before))
    }

    /// Records a wait that is about to be submitted to a queue; for `value` if this is a timeline. Returns what
    /// [`OwnedSemaphore::undo_wait`] needs.
    pub(crate) fn begin_wait(&self, queue: vk::Queue, value: u64) -> u64 {
        if self.inner.payload == SemaphorePayload::Timeline { self.inner.pending.wait(queue, value) } else { 0 }
    }

    /// Reverts the last [`OwnedSemaphore::begin_wait`] of a queue, which returned `before`.
    pub(crate) fn undo_wait(&self, queue: vk::Queue, before: u64) {
        if self.inner.payload == SemaphorePayload::Timeline {
            self.inner.pending.undo_wait(queue, before);
        }
    }

    /// Records a signal that is about to be submitted to a queue; of `value` if this is a timeline.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the timeline would not increase.
    pub(crate) fn begin_signal(&self, operation: &'static str, queue: vk::Queue, value: u64) -> Result<()> {
        if self.inner.payload != SemaphorePayload::Timeline {
            return Ok(());
        }
        self.inner.pending.signal(operation, queue, self.value()?, value)
    }

    /// Reverts the last [`OwnedSemaphore::begin_signal`] of a queue.
    pub(crate) fn undo_signal(&self, queue: vk::Queue) {
        if self.inner.payload == SemaphorePayload::Timeline {
            self.inner.pending.undo(queue);
        }
    }

    /// Rejects timeline values that a submission must neither wait for nor signal.
    pub(crate) fn check_submitted(&self, operation: &'static str, value: u64) -> Result<()> {
        if self.inner.payload != SemaphorePayload::Timeline || self.inner.interop.max_timeline_difference() == u64::MAX
        {
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
        if self.inner.payload != SemaphorePayload::Timeline {
            return Err(Error::invalid(operation, "the semaphore is binary; only a timeline has a value"));
        }
        self.inner.interop.timeline(operation)
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

/// A semaphore that can be exported. Destroyed on drop; exported handles stay valid.
#[derive(Debug, Clone)]
pub struct ExportableSemaphore {
    semaphore: OwnedSemaphore,
    handle: SemaphoreHandleKind,
    exported: Arc<Exported>,
}

impl ExportableSemaphore {
    /// Creates an unsignalled binary semaphore for export as [`SemaphoreHandleKind::OpaqueFd`], on Windows as
    /// [`SemaphoreHandleKind::OpaqueWin32`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device does not export such semaphores, or `VK_KHR_external_semaphore_fd`
    /// (`VK_KHR_external_semaphore_win32`) is not enabled; [`ErrorKind::OutOfMemory`]. The device is queried before the
    /// creation, because some devices create semaphores that they cannot export.
    pub fn binary(interop: &VulkanInterop) -> Result<Self> {
        Self::new("ExportableSemaphore::binary", interop, handles::BINARY_SEMAPHORE, 0)
    }

    /// Creates a timeline semaphore with the value `initial` for export as [`SemaphoreHandleKind::TimelineFd`], on
    /// Windows as [`SemaphoreHandleKind::TimelineWin32`].
    ///
    /// # Errors
    /// As [`binary`](Self::binary).
    pub fn timeline(interop: &VulkanInterop, initial: u64) -> Result<Self> {
        Self::new("ExportableSemaphore::timeline", interop, handles::TIMELINE_SEMAPHORE, initial)
    }

    fn new(
        operation: &'static str,
        interop: &VulkanInterop,
        handle: SemaphoreHandleKind,
        initial: u64,
    ) -> Result<Self> {
        let types = Self::check(operation, interop, handle)?;
        let semaphore = OwnedSemaphore::create(operation, interop, handle.payload(), initial, types)?;
        Ok(Self { semaphore, handle, exported: Arc::default() })
    }

    /// Borrows a timeline semaphore that the application created for export, for a
    /// [`Timeline`](gpu_interop_core::Timeline) that is native where the compute device imports timelines. The
    /// semaphore is not destroyed on drop; `owner` is kept until then.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a null semaphore; otherwise as for [`timeline`](Self::timeline).
    ///
    /// # Safety
    /// As [`OwnedSemaphore::timeline_from_raw`], and the semaphore was created with
    /// `VkExportSemaphoreCreateInfo::handleTypes` of `OPAQUE_FD`, on Windows `OPAQUE_WIN32`. On Windows, no NT handle
    /// was exported from it before.
    pub unsafe fn timeline_from_raw(
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self> {
        let handle = handles::TIMELINE_SEMAPHORE;
        Self::check("ExportableSemaphore::timeline_from_raw", interop, handle)?;
        // SAFETY: the caller's promises.
        let semaphore = unsafe { OwnedSemaphore::timeline_from_raw(interop, semaphore, owner) }?;
        Ok(Self { semaphore, handle, exported: Arc::default() })
    }

    /// The flag of `handle`, if the device exports such semaphores.
    fn check(
        operation: &'static str,
        interop: &VulkanInterop,
        handle: SemaphoreHandleKind,
    ) -> Result<vk::ExternalSemaphoreHandleTypeFlags> {
        if handle.payload() == SemaphorePayload::Timeline {
            interop.timeline(operation)?;
        }
        let features = interop.semaphore_features(handle)?;
        let types = semaphore_handle_type(handle).filter(|_| features.exportable);
        let Some(types) = types else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                operation,
                "the device does not export this kind of semaphore; for a `Timeline` use `OwnedSemaphore::timeline` and a \
                 bridge",
            )
            .with_device(interop.identity())
            .with_context("handle", handle));
        };
        interop.functions().semaphore(operation).map_err(|error| error.with_device(interop.identity()))?;
        Ok(types)
    }

    /// The semaphore itself.
    #[must_use]
    pub fn semaphore(&self) -> &OwnedSemaphore {
        &self.semaphore
    }

    /// The handle kind of the exports.
    #[must_use]
    pub fn handle_kind(&self) -> SemaphoreHandleKind {
        self.handle
    }

    /// Exports the semaphore, for another process or API. For an import in this process use
    /// [`import_request`](Self::import_request). Every call returns a new descriptor or handle that the caller owns and
    /// that closes on exec. Calls `vkGetSemaphoreFdKHR` with `OPAQUE_FD`, or `vkGetSemaphoreWin32HandleKHR`, which
    /// shares the semaphore's payload by reference.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`], `Driver`, or `System` if the process is out of descriptors; nothing is leaked.
    pub fn export(&self) -> Result<SemaphoreHandle> {
        let interop = self.semaphore.interop();
        let types = semaphore_handle_type(self.handle)
            .ok_or_else(|| Error::unsupported("ExportableSemaphore::export", "Vulkan has no handle of this kind"))?;
        handles::export_semaphore(interop, self.semaphore.as_raw(), (self.handle, types), &self.exported)
            .map_err(|error| error.with_device(interop.identity()).with_context("handle", self.handle))
    }

    /// Exports the semaphore as an import request: handle and device identity.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<SemaphoreImport> {
        // SAFETY: the Vulkan driver just exported the handle, from this semaphore and as the kind that its variant
        // names: `TimelineFd` and `TimelineWin32` only for a timeline (`handles::export_semaphore`). It is a separate
        // descriptor or NT handle, which keeps the payload alive. The exporting device is named.
        let request = unsafe { SemaphoreImport::new(self.export()?) };
        Ok(request.exported_by(self.semaphore.interop().identity().clone()))
    }
}

#[cfg(test)]
mod tests {
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
