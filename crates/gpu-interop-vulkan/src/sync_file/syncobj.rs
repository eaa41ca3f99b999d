//! DRM syncobjs as timelines.

use std::any::Any;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpu_interop_core::handle::{FdKind, SemaphoreHandle, classify_fd};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, ExporterTimeline, ImportError, Result, SemaphoreImport, TimelineWaiter};
use rustix::io::Errno;

use crate::import::ImportedSemaphore;
use crate::interop::VulkanInterop;
use crate::sync_file::SyncFileSemaphore;
use crate::sync_file::drm::{DrmDevice, Handle, WAIT_AVAILABLE, WAIT_FOR_SUBMIT, failed};
use crate::wake::Wake;

/// What a wait for a point of a [`DrmSyncobj`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DrmSyncobjState {
    /// Work that will signal the point was submitted (`DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE`). A GPU can then wait for it.
    Submitted,
    /// The point is signalled.
    Signalled,
}

/// A DRM syncobj as a timeline: the fences of its points are those of the kernel's drivers. Wayland's explicit
/// synchronisation (`linux-drm-syncobj-v1`) passes such timelines between clients and a compositor. Destroyed with the last clone;
/// the descriptors of other holders stay valid.
///
/// | a side that waits | way |
/// |---|---|
/// | a Vulkan queue, for one point that is submitted | [`semaphore`](Self::semaphore) |
/// | a Vulkan queue of RADV, for any point | [`timeline_semaphore`](Self::timeline_semaphore) |
/// | a compute stream | a [`Timeline`](gpu_interop_core::Timeline) of this object, over a bridge: no compute driver imports syncobjs |
/// | the host | [`wait`](Self::wait), or an event loop with [`notify`](Self::notify) |
///
/// A side signals in the same ways: [`add_signal`](Self::add_signal) and [`timeline_semaphore`](Self::timeline_semaphore) for Vulkan,
/// a `Timeline` for streams, and [`signal`](Self::signal).
///
/// Points increase. A point counts as signalled once its fence and those of all lower points are. A fence whose work failed, or
/// whose process ended, is signalled, as on a lost device of Vulkan. A point that a process never submitted stays out: bound each
/// wait, or watch the process ([`Timeline::watch_process`](gpu_interop_core::Timeline::watch_process)).
///
/// ```no_run
/// use std::os::fd::OwnedFd;
/// use std::time::Duration;
///
/// use gpu_interop_core::Result;
/// use gpu_interop_vulkan::{DrmDevice, DrmSyncobj, HeadlessContext, ImportedPicture, SemaphoreOp, Submission, SyncFileSemaphore};
///
/// /// Reads a client's picture after its acquire point; the client waits for its release point.
/// fn read(
///     context: &HeadlessContext,
///     picture: &ImportedPicture,
///     timeline: OwnedFd,
///     [acquire, release]: [u64; 2],
/// ) -> Result<Submission> {
///     let interop = context.interop();
///     let timeline = DrmSyncobj::import(&DrmDevice::of(interop)?, timeline)?;
///     let before = timeline.semaphore(interop, acquire, Duration::from_secs(1))?;
///     let done = SyncFileSemaphore::new(interop)?;
///     let wait = SemaphoreOp { semaphore: before.semaphore(), value: 0 };
///     let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
///     let submission = context.submit(&[wait], &[signal], |commands| {
///         commands.acquire_image(picture.image())?;
///         // Commands that read the image.
///         commands.release_image(picture.image())
///     })?;
///     // SAFETY: the submission waits for a fence of the kernel only.
///     unsafe { timeline.add_signal(release, &done) }?;
///     Ok(submission)
/// }
/// ```
#[doc(alias("drm_syncobj", "wp_linux_drm_syncobj_timeline_v1", "linux-drm-syncobj-v1"))]
#[derive(Debug, Clone)]
pub struct DrmSyncobj {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    handle: Handle,
    /// Held from the check of a new point to its addition.
    additions: Mutex<()>,
}

impl DrmSyncobj {
    /// Creates a syncobj with the value 0. Calls `DRM_IOCTL_SYNCOBJ_CREATE`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`]; [`ErrorKind::DeviceLost`] if the device was removed; [`ErrorKind::System`].
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_CREATE")]
    pub fn new(device: &DrmDevice) -> Result<Self> {
        Ok(Self::of(Handle::create(device)?))
    }

    /// Imports the syncobj of a descriptor, of any process and any DRM device. Calls `DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE`. On
    /// success the descriptor is closed, on failure returned.
    ///
    /// RADV exports timeline semaphores of `OPAQUE_FD` as syncobjs, which this also takes. Vulkan does not promise that.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the descriptor is not a syncobj; otherwise as [`new`](Self::new).
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE")]
    pub fn import(device: &DrmDevice, syncobj: OwnedFd) -> Result<Self, ImportError<OwnedFd>> {
        const OPERATION: &str = "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE";
        match Handle::import(device, syncobj.as_fd()) {
            Ok(handle) => Ok(Self::of(handle)),
            Err(Errno::INVAL | Errno::BADF) => {
                let message = format!("the descriptor is {}, not a DRM syncobj", classify_fd(syncobj.as_fd()));
                let error = Error::invalid(OPERATION, message).with_context("fd", syncobj.as_raw_fd());
                Err(ImportError::new(error, syncobj))
            }
            Err(errno) => Err(ImportError::new(failed(OPERATION, errno), syncobj)),
        }
    }

    fn of(handle: Handle) -> Self {
        Self { shared: Arc::new(Shared { handle, additions: Mutex::default() }) }
    }

    fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    /// A new descriptor of the syncobj, which the caller owns and which closes on exec: for `import_timeline` of Wayland, or
    /// another process. Calls `DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD`.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the process is out of descriptors; otherwise as [`new`](Self::new).
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD")]
    pub fn export(&self) -> Result<OwnedFd> {
        self.handle().export(false)
    }

    /// The last point that is signalled; 0 if there is none. Calls `DRM_IOCTL_SYNCOBJ_QUERY`.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceLost`] if the device was removed; [`ErrorKind::System`].
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_QUERY")]
    pub fn value(&self) -> Result<u64> {
        self.handle().query(false).map_err(|errno| failed("DRM_IOCTL_SYNCOBJ_QUERY", errno))
    }

    /// The last point that was submitted, signalled or not; 0 if there is none. Calls `DRM_IOCTL_SYNCOBJ_QUERY` with
    /// `DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED`.
    ///
    /// # Errors
    /// As [`value`](Self::value); [`ErrorKind::Unsupported`] on the oldest kernels with timelines.
    #[doc(alias = "DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED")]
    pub fn last_submitted(&self) -> Result<u64> {
        const OPERATION: &str = "DRM_IOCTL_SYNCOBJ_QUERY";
        self.handle().query(true).map_err(|errno| match errno {
            Errno::INVAL => {
                Error::unsupported(OPERATION, "the kernel cannot query submitted points; install a newer one")
            }
            errno => failed(OPERATION, errno),
        })
    }

    /// Adds a point without work: it is signalled as soon as all lower points are. Calls `DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a value not above the current one; [`ErrorKind::Overtaken`] for one not above the last
    /// submitted one: the kernel would reorder the points; otherwise as [`last_submitted`](Self::last_submitted).
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL")]
    pub fn signal(&self, value: u64) -> Result<()> {
        let _guard = lock(&self.shared.additions);
        self.check_new("DrmSyncobj::signal", value)?;
        self.signal_checked(value)
    }

    fn signal_checked(&self, value: u64) -> Result<()> {
        self.handle().signal(value).map_err(|errno| failed("DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL", errno))
    }

    /// Fails unless `point` is above all others. Other processes can add one until the caller does.
    fn check_new(&self, operation: &'static str, point: u64) -> Result<()> {
        let (current, submitted) = (self.value()?, self.last_submitted()?);
        if point > submitted.max(current) {
            return Ok(());
        }
        let error = if point <= current {
            Error::invalid(operation, "a timeline value can only increase; signal a greater one")
        } else {
            let message = "submitted work signals a greater or equal point; use one timeline for each direction";
            Error::new(ErrorKind::Overtaken, operation, message).with_context("submitted", submitted)
        };
        Err(error.with_context("value", point).with_context("current", current))
    }

    /// Blocks until the point `value` is signalled. Calls `DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT` with
    /// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] after `timeout`: the wait may be repeated; otherwise as [`value`](Self::value).
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT")]
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.wait_for(value, DrmSyncobjState::Signalled, timeout)
    }

    /// As [`wait`](Self::wait), for another state of the point.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT")]
    pub fn wait_for(&self, point: u64, state: DrmSyncobjState, timeout: Duration) -> Result<()> {
        // The kernel's point 0 is the last fence.
        if point == 0 {
            return Ok(());
        }
        let flags = match state {
            // Some kernels reject a point that is not submitted, without both.
            DrmSyncobjState::Submitted => WAIT_FOR_SUBMIT | WAIT_AVAILABLE,
            DrmSyncobjState::Signalled => WAIT_FOR_SUBMIT,
        };
        let waited = self.handle().device().wait_any(&[self.handle().number()], &[point], timeout, flags);
        waited.map_err(|errno| failed("DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT", errno).with_context("value", point))
    }

    /// Makes an eventfd count once the point is in this state, for an event loop. The eventfd stays the caller's. Calls
    /// `DRM_IOCTL_SYNCOBJ_EVENTFD`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for the point 0, or a descriptor that is not an eventfd; [`ErrorKind::Unsupported`] before
    /// Linux 6.6: wait on a thread; otherwise as [`value`](Self::value).
    #[doc(alias = "DRM_IOCTL_SYNCOBJ_EVENTFD")]
    pub fn notify(&self, point: u64, state: DrmSyncobjState, eventfd: impl AsFd) -> Result<()> {
        const OPERATION: &str = "DRM_IOCTL_SYNCOBJ_EVENTFD";
        check_point(OPERATION, point)?;
        let kind = classify_fd(eventfd.as_fd());
        if kind != FdKind::EventFd {
            return Err(Error::invalid(OPERATION, format!("the descriptor is {kind}, not an eventfd")));
        }
        let flags = if state == DrmSyncobjState::Submitted { WAIT_AVAILABLE } else { 0 };
        self.handle().eventfd(point, flags, eventfd.as_fd()).map_err(|errno| match errno {
            // The kernel's answer to unknown calls.
            Errno::INVAL | Errno::NOTTY | Errno::OPNOTSUPP => {
                let message =
                    "the kernel has no eventfds of syncobjs, which Linux 6.6 and later have; wait on a thread";
                Error::unsupported(OPERATION, message)
            }
            errno => failed(OPERATION, errno),
        })
    }

    /// The fence of a point, as a new sync file that the caller owns. Blocks until work for the point is submitted, for at most
    /// `timeout`. Calls `DRM_IOCTL_SYNCOBJ_TRANSFER` and `DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if no work was submitted in time; [`ErrorKind::InvalidArgument`] for the point 0; otherwise as
    /// [`export`](Self::export).
    #[doc(alias("DRM_IOCTL_SYNCOBJ_TRANSFER", "DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE"))]
    pub fn sync_file(&self, point: u64, timeout: Duration) -> Result<OwnedFd> {
        check_point("DrmSyncobj::sync_file", point)?;
        self.wait_for(point, DrmSyncobjState::Submitted, timeout)?;
        let copy = Handle::create(self.handle().device())?;
        self.transfer(self.handle(), point, &copy, 0)?;
        copy.export(true)
    }

    /// Adds a point with the fence of a sync file, which stays the caller's. Calls `DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE` and
    /// `DRM_IOCTL_SYNCOBJ_TRANSFER`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for another file; otherwise as [`signal`](Self::signal).
    #[doc(alias("DRM_IOCTL_SYNCOBJ_TRANSFER", "DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE"))]
    pub fn add_sync_file(&self, point: u64, sync_file: impl AsFd) -> Result<()> {
        let _guard = lock(&self.shared.additions);
        self.check_new("DrmSyncobj::add_sync_file", point)?;
        self.add_checked(point, sync_file.as_fd())
    }

    fn add_checked(&self, point: u64, sync_file: BorrowedFd<'_>) -> Result<()> {
        const OPERATION: &str = "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE";
        let copy = Handle::create(self.handle().device())?;
        copy.import_sync_file(sync_file).map_err(|errno| match errno {
            Errno::INVAL | Errno::BADF => {
                Error::invalid(OPERATION, format!("the descriptor is {}, not a sync file", classify_fd(sync_file)))
                    .with_context("fd", sync_file.as_raw_fd())
            }
            errno => failed(OPERATION, errno),
        })?;
        self.transfer(&copy, 0, self.handle(), point)
    }

    fn transfer(&self, from: &Handle, point: u64, to: &Handle, to_point: u64) -> Result<()> {
        let failed = |errno| failed("DRM_IOCTL_SYNCOBJ_TRANSFER", errno).with_context("value", point.max(to_point));
        from.transfer(point, to, to_point).map_err(failed)
    }

    /// A binary semaphore that waits for a point once, in one submission ([`sync_file`](Self::sync_file) and
    /// [`ImportedSemaphore::from_sync_file`]). Blocks until work for the point is submitted, for at most `timeout`.
    ///
    /// # Errors
    /// As those functions.
    pub fn semaphore(&self, interop: &VulkanInterop, point: u64, timeout: Duration) -> Result<ImportedSemaphore> {
        let file = self.sync_file(point, timeout)?;
        Ok(ImportedSemaphore::from_sync_file(interop, Some(file))?)
    }

    /// Adds a point with the submitted signal of a semaphore, which is reset ([`SyncFileSemaphore::export`] and
    /// [`add_sync_file`](Self::add_sync_file)).
    ///
    /// # Errors
    /// As those functions. The semaphore keeps its signal unless the kernel fails after the export.
    ///
    /// # Safety
    /// As [`SyncFileSemaphore::export`].
    pub unsafe fn add_signal(&self, point: u64, semaphore: &SyncFileSemaphore) -> Result<()> {
        let _guard = lock(&self.shared.additions);
        self.check_new("DrmSyncobj::add_signal", point)?;
        // SAFETY: the caller's promise.
        match unsafe { semaphore.export() }? {
            Some(file) => self.add_checked(point, file.as_fd()),
            None => self.signal_checked(point),
        }
    }

    /// A timeline semaphore with this timeline as its payload, on RADV: its queues wait for points that are not submitted yet,
    /// and signal points. Calls `vkImportSemaphoreFdKHR` with `OPAQUE_FD`.
    ///
    /// RADV's opaque timeline semaphores are syncobjs, as the tests verify with RADV 22.3 and 25.0. Vulkan does not promise that,
    /// and has no query for other drivers.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for all drivers but RADV: use [`semaphore`](Self::semaphore) there; otherwise as
    /// [`export`](Self::export) and [`ImportedSemaphore::new`].
    #[doc(alias = "vkImportSemaphoreFdKHR")]
    pub fn timeline_semaphore(&self, interop: &VulkanInterop) -> Result<ImportedSemaphore> {
        const OPERATION: &str = "DrmSyncobj::timeline_semaphore";
        interop.check_process(OPERATION)?;
        if !interop.is_radv() {
            let message = "only RADV is known to import syncobjs as timeline semaphores; use a semaphore for each point, or a \
                           bridge";
            return Err(Error::unsupported(OPERATION, message).with_device(interop.identity()));
        }
        // SAFETY: RADV's handles of timeline semaphores are syncobjs, and the kernel takes those of any device; a semaphore of a
        // syncobj keeps no other object.
        let request = unsafe { SemaphoreImport::new(SemaphoreHandle::TimelineFd(self.export()?)) };
        Ok(ImportedSemaphore::new(interop, request)?)
    }
}

/// The kernel's point 0 is the last fence.
fn check_point(operation: &'static str, point: u64) -> Result<()> {
    if point != 0 { Ok(()) } else { Err(Error::invalid(operation, "points of a timeline begin at 1")) }
}

/// For a bridge: no compute driver imports syncobjs.
impl ExporterTimeline for DrmSyncobj {
    fn value(&self) -> Result<u64> {
        Self::value(self)
    }

    fn signal(&self, value: u64) -> Result<()> {
        Self::signal(self, value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        Self::wait(self, value, timeout)
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Waiter(Wake::new(Self::new(self.handle().device())?))))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DRM syncobj {}", self.handle().number())
    }
}

/// Waits for syncobjs of one [`DrmDevice`].
#[derive(Debug)]
struct Waiter(Wake<DrmSyncobj>);

impl Waiter {
    fn device(&self) -> &DrmDevice {
        self.0.timeline().handle().device()
    }

    /// The handle of a timeline that this waits for.
    fn handle(&self, timeline: &dyn ExporterTimeline) -> Option<u32> {
        let timeline: &dyn Any = timeline;
        let handle = timeline.downcast_ref::<DrmSyncobj>()?.handle();
        handle.device().is_same(self.device()).then(|| handle.number())
    }
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        self.handle(timeline).is_some()
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        // The kernel's point 0 is the last fence.
        if waits.iter().any(|(_, value)| *value == 0) {
            return Ok(());
        }
        let mut handles = vec![self.0.timeline().handle().number()];
        let mut points = vec![self.0.next()];
        for (timeline, value) in waits {
            let foreign = || Error::invalid("TimelineWaiter::wait_any", "the timeline is not a syncobj of this device");
            handles.push(self.handle(*timeline).ok_or_else(foreign)?);
            points.push(*value);
        }
        let waited = self.device().wait_any(&handles, &points, timeout, WAIT_FOR_SUBMIT);
        self.0.ended();
        match waited {
            Ok(()) | Err(Errno::TIME) => Ok(()),
            Err(errno) => Err(failed("DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT", errno)),
        }
    }

    fn interrupt(&self) {
        self.0.interrupt();
    }
}
