//! DRM devices, and their calls for syncobjs.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ash::vk;
use gpu_interop_core::handle::classify_fd;
use gpu_interop_core::{Error, ErrorKind, FORKED, ImportError, ProcessMark, Result};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, opcode};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::identity::{has_extension, query_properties};
use crate::interop::VulkanInterop;

// The structures of `drm/drm.h`, without the fields that later kernels appended.

/// `drm_get_cap`.
#[repr(C)]
struct Capability {
    capability: u64,
    value: u64,
}

/// `drm_syncobj_create`, and `drm_syncobj_destroy`, which has padding in place of the flags.
#[repr(C)]
struct Create {
    handle: u32,
    flags: u32,
}

/// `drm_syncobj_handle`.
#[repr(C)]
struct HandleFile {
    handle: u32,
    flags: u32,
    fd: RawFd,
    pad: u32,
}

/// `drm_syncobj_transfer`.
#[repr(C)]
struct Transfer {
    source: u32,
    destination: u32,
    source_point: u64,
    destination_point: u64,
    flags: u32,
    pad: u32,
}

/// `drm_syncobj_timeline_wait`.
#[repr(C)]
struct TimelineWait {
    handles: u64,
    points: u64,
    deadline: i64,
    count: u32,
    flags: u32,
    first_signaled: u32,
    pad: u32,
}

/// `drm_syncobj_timeline_array`.
#[repr(C)]
struct TimelineArray {
    handles: u64,
    points: u64,
    count: u32,
    flags: u32,
}

/// `drm_syncobj_eventfd`.
#[repr(C)]
struct EventFd {
    handle: u32,
    flags: u32,
    point: u64,
    fd: RawFd,
    pad: u32,
}

const GET_CAP: Opcode = number::<Capability>(0x0c);
const CREATE: Opcode = number::<Create>(0xbf);
const DESTROY: Opcode = number::<Create>(0xc0);
const HANDLE_TO_FD: Opcode = number::<HandleFile>(0xc1);
const FD_TO_HANDLE: Opcode = number::<HandleFile>(0xc2);
const TIMELINE_WAIT: Opcode = number::<TimelineWait>(0xca);
const QUERY: Opcode = number::<TimelineArray>(0xcb);
const TRANSFER: Opcode = number::<Transfer>(0xcc);
const TIMELINE_SIGNAL: Opcode = number::<TimelineArray>(0xcd);
const EVENTFD: Opcode = number::<EventFd>(0xcf);

const fn number<T>(call: u8) -> Opcode {
    opcode::read_write::<T>(b'd', call)
}

const CAP_SYNCOBJ_TIMELINE: u64 = 0x14;
/// Of [`HANDLE_TO_FD`] and [`FD_TO_HANDLE`]: the descriptor is a sync file.
const SYNC_FILE: u32 = 1;
const QUERY_LAST_SUBMITTED: u32 = 1;
/// A wait includes that for a submission.
pub(super) const WAIT_FOR_SUBMIT: u32 = 1 << 1;
/// A wait ends when the point is submitted.
pub(super) const WAIT_AVAILABLE: u32 = 1 << 2;

/// The major number of DRM's devices.
const MAJOR: u32 = 226;

/// An open DRM device whose driver has timeline syncobjs, such as the render node `/dev/dri/renderD128`. Any such device takes
/// the syncobjs of all others. Cheap to clone; closed with the last clone and everything made from one. Open one for a process: a
/// bridge waits for all syncobjs of an open device at once.
#[derive(Debug, Clone)]
pub struct DrmDevice {
    file: Arc<File>,
    /// A forked process has the syncobjs of its parent, by the same handles.
    process: ProcessMark,
}

impl AsFd for DrmDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl DrmDevice {
    /// Takes an open DRM device: a render node, or the device of a display server. Calls `DRM_IOCTL_GET_CAP`. On failure the
    /// descriptor is returned.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for another file; [`ErrorKind::Unsupported`] if the device's driver has no timeline
    /// syncobjs: use sync files.
    #[doc(alias("DRM_IOCTL_GET_CAP", "DRM_CAP_SYNCOBJ_TIMELINE"))]
    pub fn new(device: OwnedFd) -> Result<Self, ImportError<OwnedFd>> {
        let file = File::from(device);
        match check(&file) {
            Ok(()) => Ok(Self { file: Arc::new(file), process: ProcessMark::of_this_process() }),
            Err(error) => Err(ImportError::new(error, file.into())),
        }
    }

    /// Opens a render node, for example `/dev/dri/renderD128`.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`ErrorKind::NoDevice`] if the path does not exist; [`ErrorKind::System`] if it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let opened = File::options().read(true).write(true).open(path).map_err(|source| {
            let (kind, message) = match source.kind() {
                std::io::ErrorKind::NotFound => {
                    (ErrorKind::NoDevice, "there is no such device; list /dev/dri, and pass it on to a container")
                }
                std::io::ErrorKind::PermissionDenied => (
                    ErrorKind::System,
                    "the device may not be opened; add the user to the group of the device, often `render`",
                ),
                _ => (ErrorKind::System, "the device cannot be opened; see the system's error"),
            };
            Error::new(kind, "DrmDevice::open", message).with_context("path", path.display()).with_source(source)
        })?;
        Ok(Self::new(opened.into())?)
    }

    /// Opens the render node of a Vulkan device. Calls `vkGetPhysicalDeviceProperties2` with
    /// `VkPhysicalDeviceDrmPropertiesEXT`; the extension need not be enabled.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::Unsupported`] if the device does not list `VK_EXT_physical_device_drm`, or has no
    /// render node, as drivers on the CPU; [`ErrorKind::System`] in a forked process.
    #[doc(alias("VK_EXT_physical_device_drm", "VkPhysicalDeviceDrmPropertiesEXT"))]
    pub fn of(interop: &VulkanInterop) -> Result<Self> {
        const OPERATION: &str = "DrmDevice::of";
        interop.check_process(OPERATION)?;
        let (instance, device) = (interop.instance(), interop.physical_device());
        let mut numbers = vk::PhysicalDeviceDrmPropertiesEXT::default();
        // SAFETY: the creator of `interop` promised that both are live, belong together, and are 1.1 or later; the structure is
        // queried only if the device lists its extension.
        unsafe {
            if has_extension(instance, device, vk::EXT_PHYSICAL_DEVICE_DRM_NAME) {
                query_properties(instance, device, &mut numbers);
            }
        }
        if numbers.has_render != vk::TRUE {
            let message =
                "Vulkan reports no render node of the device; open the render node by its path, or use sync files";
            return Err(Error::unsupported(OPERATION, message).with_device(interop.identity()));
        }
        Self::open(format!("/dev/dri/renderD{}", numbers.render_minor))
            .map_err(|error| error.with_device(interop.identity()))
    }

    /// `true` if both are the same open file, so that they have the same handles.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }

    /// Waits until one of these points is reached.
    pub(super) fn wait_any(
        &self,
        handles: &[u32],
        points: &[u64],
        timeout: Duration,
        flags: u32,
    ) -> rustix::io::Result<()> {
        let count = u32::try_from(handles.len().min(points.len())).unwrap_or(u32::MAX);
        let mut wait = TimelineWait {
            handles: handles.as_ptr().expose_provenance() as u64,
            points: points.as_ptr().expose_provenance() as u64,
            deadline: deadline(timeout),
            count,
            flags,
            first_signaled: 0,
            pad: 0,
        };
        // SAFETY: the opcode is of this structure; both arrays have `count` elements.
        unsafe { self.call(TIMELINE_WAIT, &mut wait) }
    }
}

fn check(file: &File) -> Result<()> {
    const OPERATION: &str = "DrmDevice::new";
    // Numbers of ioctls have other meanings for other devices.
    let is_drm = file
        .metadata()
        .is_ok_and(|found| found.file_type().is_char_device() && rustix::fs::major(found.rdev()) == MAJOR);
    if !is_drm {
        let message = format!("the descriptor is {}, not a DRM device; open a render node", classify_fd(file.as_fd()));
        return Err(Error::invalid(OPERATION, message).with_context("fd", file.as_raw_fd()));
    }
    let mut found = Capability { capability: CAP_SYNCOBJ_TIMELINE, value: 0 };
    // SAFETY: the opcode is of this structure.
    match unsafe { call(file, GET_CAP, &mut found) } {
        Ok(()) if found.value != 0 => Ok(()),
        Ok(()) | Err(Errno::INVAL) => Err(Error::unsupported(
            OPERATION,
            "the device's driver has no timeline syncobjs; pass fences as sync files",
        )),
        Err(errno) => Err(failed("DRM_IOCTL_GET_CAP", errno)),
    }
}

/// The error of a call in a forked process. The kernel's functions for syncobjs do not return it.
const FORKED_PROCESS: Errno = Errno::OWNERDEAD;

impl DrmDevice {
    /// As [`call`]. Fails in a forked process.
    ///
    /// # Safety
    /// As [`call`].
    unsafe fn call<T>(&self, opcode: Opcode, argument: &mut T) -> rustix::io::Result<()> {
        if !self.process.is_this_process() {
            return Err(FORKED_PROCESS);
        }
        // SAFETY: the caller's promises.
        unsafe { call(&self.file, opcode, argument) }
    }
}

/// Calls a driver, and again after a signal.
///
/// # Safety
/// `opcode` must be of `T`, and addresses in the argument valid for the call.
pub(super) unsafe fn call<T>(file: impl AsFd, opcode: Opcode, argument: &mut T) -> rustix::io::Result<()> {
    // The type of the number differs between libraries of C.
    #[allow(clippy::cast_possible_truncation, clippy::cast_lossless, clippy::unnecessary_cast)]
    let opcode = opcode as libc::Ioctl;
    loop {
        let argument: *mut c_void = std::ptr::from_mut(argument).cast();
        // libc's function, as drivers call it: emulations and traces of kernel drivers replace that.
        // SAFETY: the descriptor is open; the caller promises the rest.
        if unsafe { libc::ioctl(file.as_fd().as_raw_fd(), opcode, argument) } >= 0 {
            return Ok(());
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::INTR | Errno::AGAIN) => {}
            errno => return Err(errno.unwrap_or(Errno::IO)),
        }
    }
}

/// The kernel's time at the end of a wait, nanoseconds.
fn deadline(timeout: Duration) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    let now = i128::from(tv_sec) * 1_000_000_000 + i128::from(tv_nsec);
    let timeout = i128::try_from(timeout.as_nanos()).unwrap_or(i128::MAX);
    i64::try_from(now.saturating_add(timeout)).unwrap_or(i64::MAX)
}

/// An error for a failure whose number has one meaning in all calls.
pub(super) fn failed(operation: &'static str, errno: Errno) -> Error {
    let (kind, message) = match errno {
        FORKED_PROCESS => (ErrorKind::System, FORKED),
        Errno::TIME => (ErrorKind::Timeout, "the point was not reached in time; wait again, or ask its producer"),
        Errno::NOMEM => (ErrorKind::OutOfMemory, "the kernel has no memory left"),
        Errno::NODEV => (ErrorKind::DeviceLost, "the DRM device was removed; open another one"),
        Errno::MFILE | Errno::NFILE => {
            (ErrorKind::System, "there is no free descriptor; raise the limit (`ulimit -n`, fs.file-max)")
        }
        _ => (ErrorKind::System, "the kernel rejects the call; see the system's error"),
    };
    Error::new(kind, operation, message).with_source(std::io::Error::from(errno))
}

/// A syncobj of a device.
#[derive(Debug)]
pub(super) struct Handle {
    device: DrmDevice,
    number: u32,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut handle = Create { handle: self.number, flags: 0 };
        // SAFETY: the opcode is of this structure, and nothing uses the handle any more.
        match unsafe { self.device.call(DESTROY, &mut handle) } {
            Ok(()) | Err(FORKED_PROCESS) => {}
            Err(error) => tracing::warn!(%error, "a syncobj was not destroyed"),
        }
    }
}

impl Handle {
    fn of(device: &DrmDevice, number: u32) -> Self {
        Self { device: device.clone(), number }
    }

    /// A new syncobj without a fence.
    pub(super) fn create(device: &DrmDevice) -> Result<Self> {
        let mut created = Create { handle: 0, flags: 0 };
        // SAFETY: the opcode is of this structure.
        unsafe { device.call(CREATE, &mut created) }.map_err(|errno| failed("DRM_IOCTL_SYNCOBJ_CREATE", errno))?;
        Ok(Self::of(device, created.handle))
    }

    pub(super) fn import(device: &DrmDevice, file: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let mut found = HandleFile { handle: 0, flags: 0, fd: file.as_raw_fd(), pad: 0 };
        // SAFETY: the opcode is of this structure.
        unsafe { device.call(FD_TO_HANDLE, &mut found) }?;
        Ok(Self::of(device, found.handle))
    }

    /// Replaces the content by the fence of a sync file.
    pub(super) fn import_sync_file(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let mut set = HandleFile { handle: self.number, flags: SYNC_FILE, fd: file.as_raw_fd(), pad: 0 };
        // SAFETY: the opcode is of this structure.
        unsafe { self.device.call(FD_TO_HANDLE, &mut set) }
    }

    /// A descriptor of the syncobj, or of its fence as a sync file.
    pub(super) fn export(&self, sync_file: bool) -> Result<OwnedFd> {
        const OPERATION: &str = "DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD";
        let mut made = HandleFile { handle: self.number, flags: if sync_file { SYNC_FILE } else { 0 }, fd: -1, pad: 0 };
        // SAFETY: the opcode is of this structure.
        unsafe { self.device.call(HANDLE_TO_FD, &mut made) }.map_err(|errno| failed(OPERATION, errno))?;
        if made.fd < 0 {
            return Err(Error::new(ErrorKind::System, OPERATION, "the kernel returned no descriptor; report it"));
        }
        // SAFETY: a successful call makes a descriptor that nothing else owns, and that closes on exec.
        Ok(unsafe { OwnedFd::from_raw_fd(made.fd) })
    }

    /// The last point that is signalled, or that is submitted.
    pub(super) fn query(&self, submitted: bool) -> rustix::io::Result<u64> {
        let mut point = 0_u64;
        let mut array = self.array(&raw mut point, if submitted { QUERY_LAST_SUBMITTED } else { 0 });
        // SAFETY: the opcode is of this structure; both arrays have one element, and that of the points is writable.
        unsafe { self.device.call(QUERY, &mut array) }?;
        Ok(point)
    }

    /// Adds a point without work.
    pub(super) fn signal(&self, mut point: u64) -> rustix::io::Result<()> {
        let mut array = self.array(&raw mut point, 0);
        // SAFETY: the opcode is of this structure; both arrays have one element.
        unsafe { self.device.call(TIMELINE_SIGNAL, &mut array) }
    }

    fn array(&self, point: *mut u64, flags: u32) -> TimelineArray {
        let handles = (&raw const self.number).expose_provenance() as u64;
        TimelineArray { handles, points: point.expose_provenance() as u64, count: 1, flags }
    }

    /// Adds the fence of a point as a point of another syncobj. Point 0 is the whole content.
    pub(super) fn transfer(&self, point: u64, to: &Self, to_point: u64) -> rustix::io::Result<()> {
        let (source, destination) = (self.number, to.number);
        let mut transfer =
            Transfer { source, destination, source_point: point, destination_point: to_point, flags: 0, pad: 0 };
        // SAFETY: the opcode is of this structure.
        unsafe { self.device.call(TRANSFER, &mut transfer) }
    }

    /// Makes an eventfd count when a point is reached.
    pub(super) fn eventfd(&self, point: u64, flags: u32, event: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let mut request = EventFd { handle: self.number, flags, point, fd: event.as_raw_fd(), pad: 0 };
        // SAFETY: the opcode is of this structure.
        unsafe { self.device.call(EVENTFD, &mut request) }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn device(&self) -> &DrmDevice {
        &self.device
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Linux 6.1's `drm/drm.h`; of a later one for the eventfd.
    #[test]
    fn calls_have_the_numbers_of_the_header() {
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!([GET_CAP, CREATE, DESTROY], [0xc010_640c, 0xc008_64bf, 0xc008_64c0]);
            assert_eq!([HANDLE_TO_FD, FD_TO_HANDLE, TIMELINE_WAIT], [0xc010_64c1, 0xc010_64c2, 0xc028_64ca]);
            assert_eq!(
                [QUERY, TRANSFER, TIMELINE_SIGNAL, EVENTFD],
                [0xc018_64cb, 0xc020_64cc, 0xc018_64cd, 0xc018_64cf]
            );
        }
        assert_eq!((offset_of!(HandleFile, flags), offset_of!(HandleFile, fd)), (4, 8));
        assert_eq!((offset_of!(Transfer, source_point), offset_of!(Transfer, destination_point)), (8, 16));
        let wait =
            (offset_of!(TimelineWait, deadline), offset_of!(TimelineWait, count), offset_of!(TimelineWait, flags));
        assert_eq!(wait, (16, 24, 28));
        assert_eq!((offset_of!(EventFd, point), offset_of!(EventFd, fd)), (8, 16));
    }

    #[test]
    fn other_files_are_returned_by_kind() {
        for (file, kind) in [
            (rustix::pipe::pipe().expect("a pipe").0, "a pipe"),
            (File::open("/dev/null").expect("open").into(), "a memory device"),
        ] {
            let number = file.as_raw_fd();
            let (error, file) = DrmDevice::new(file).expect_err("no DRM device").into_parts();
            assert_eq!((error.kind(), file.as_raw_fd()), (ErrorKind::InvalidArgument, number));
            assert!(error.message().contains(kind) && error.message().contains("not a DRM device"), "{error}");
        }
        let error = DrmDevice::open("/dev/dri/none").expect_err("no such device");
        assert_eq!(error.kind(), ErrorKind::NoDevice);
        assert!(error.to_string().contains("/dev/dri/none"), "{error}");
    }

    #[test]
    fn times_are_of_the_kernel_s_clock() {
        let before = deadline(Duration::ZERO);
        let after = deadline(Duration::from_secs(5));
        assert!((5_000_000_000..15_000_000_000).contains(&(after - before)), "{before} {after}");
        assert_eq!(deadline(Duration::MAX), i64::MAX);
    }

    #[test]
    fn failures_have_kinds() {
        let kinds =
            [Errno::TIME, Errno::NOMEM, Errno::NODEV, Errno::MFILE, Errno::PERM].map(|it| failed("op", it).kind());
        let expected =
            [ErrorKind::Timeout, ErrorKind::OutOfMemory, ErrorKind::DeviceLost, ErrorKind::System, ErrorKind::System];
        assert_eq!(kinds, expected);
    }
}
