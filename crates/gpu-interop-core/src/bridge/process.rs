//! Watched processes: the end of a process fails its timeline.

#[cfg(target_os = "linux")]
mod watched {
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    /// A pidfd, readable once the process has ended.
    #[derive(Debug)]
    pub(crate) struct Watched(OwnedFd);

    impl Watched {
        /// Opens the process with this id (`pidfd_open`).
        pub(super) fn open(id: u32) -> std::io::Result<Self> {
            let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(std::io::ErrorKind::NotFound)?;
            Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
        }

        pub(super) fn has_ended(&self) -> bool {
            let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
            let now = Timespec::try_from(Duration::ZERO).ok();
            poll(&mut polled, now.as_ref()).is_ok_and(|ready| ready > 0)
        }
    }
}

#[cfg(windows)]
mod watched {
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
    use windows_sys::Win32::System::Threading::{OpenProcess, PROCESS_SYNCHRONIZE, WaitForSingleObject};

    /// A process handle, signalled once the process has ended.
    #[derive(Debug)]
    pub(crate) struct Watched(OwnedHandle);

    impl Watched {
        /// Opens the process with this id (`OpenProcess`).
        pub(super) fn open(id: u32) -> std::io::Result<Self> {
            // SAFETY: the call takes no pointers.
            let process = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, id) };
            if process.is_null() {
                return Err(std::io::Error::last_os_error());
            }
            // SAFETY: a new handle that this function owns.
            Ok(Self(unsafe { OwnedHandle::from_raw_handle(process) }))
        }

        pub(super) fn has_ended(&self) -> bool {
            // SAFETY: the handle is open, with the right to wait for it.
            unsafe { WaitForSingleObject(self.0.as_raw_handle(), 0) == WAIT_OBJECT_0 }
        }
    }
}

#[cfg(not(any(target_os = "linux", windows)))]
mod watched {
    /// Uninhabited: processes cannot be watched on this system.
    #[derive(Debug)]
    pub(crate) enum Watched {}

    impl Watched {
        pub(super) fn open(_id: u32) -> std::io::Result<Self> {
            Err(std::io::ErrorKind::Unsupported.into())
        }

        pub(super) fn has_ended(&self) -> bool {
            match *self {}
        }
    }
}

pub(crate) use watched::Watched;

use super::side::Side;
use crate::error::{Error, ErrorKind, Result};

const OPERATION: &str = "Timeline::watch_process";

impl Side {
    /// Fails the timeline once process `id` has ended.
    pub(crate) fn watch_process(&self, id: u32) -> Result<()> {
        let process = Watched::open(id).map_err(|error| {
            let (kind, message) = match error.kind() {
                std::io::ErrorKind::Unsupported => {
                    (ErrorKind::Unsupported, "processes can be watched on Linux and Windows only")
                }
                _ => (ErrorKind::System, "the process cannot be watched; it may have ended"),
            };
            Error::new(kind, OPERATION, message).with_context("id", id).with_source(error)
        })?;
        self.process
            .set(process)
            .map_err(|_| Error::invalid(OPERATION, "the timeline already watches a process").with_context("id", id))
    }

    /// `true` if a process is watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.process.get().is_some()
    }

    /// Fails the timeline if the watched process has ended, unless it has signalled a value since the last observation:
    /// a process may signal its last value and end.
    pub(crate) fn check_process(&self) {
        if self.process.get().is_some_and(Watched::has_ended) {
            let seen = self.seen();
            if self.value().is_ok_and(|value| value > seen) {
                return;
            }
            self.fail(&Error::new(
                ErrorKind::Cancelled,
                OPERATION,
                "the process that signals the timeline has ended; import a timeline of a new one",
            ));
        }
    }
}
