//! Injected faults: `GPU_INTEROP_SIM_AMDGPU_FAULTS`, a comma list of `name[:n[:argument]]`.
//!
//! | name | effect |
//! |---|---|
//! | `ioctl-NAME:n:ERRNO` | the n-th ioctl NAME (`ioctl-alloc-memory-of-gpu`, `ioctl-drm-gem-va`) fails with ERRNO (default EINVAL) |
//! | `open-kfd:n:ERRNO`, `open-render:n:ERRNO` | the n-th open of the device fails |
//! | `vram-full:n` | from the n-th allocation of video memory on there is none left (ENOMEM) |
//! | `queue-hang:n` | the n-th queue never executes a packet |
//! | `packet-hang:n` | the n-th kernel dispatch never ends, and its queue executes nothing more |
//! | `page-fault:n` | the n-th kernel dispatch meets a page fault |
//! | `skip-word-waits:n` | the n-th and later waits for words in memory end at once |
//! | `reset:n` | at the n-th kernel dispatch the GPU is reset: its queues end, the process gets the exception |
//!
//! n counts from 1, which is the default. `ioctl-alloc`, `-free`, `-map`, `-unmap`, `-import` and `-export` are short
//! for the ioctls with the long names.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::settings::SettingsError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The counted name, without its argument.
    point: String,
    n: u64,
    error: Errno,
}

const ERRORS: &[(&str, Errno)] = &[
    ("EINVAL", Errno::INVAL),
    ("ENOMEM", Errno::NOMEM),
    ("EIO", Errno::IO),
    ("EPERM", Errno::PERM),
    ("EACCES", Errno::ACCESS),
    ("EBUSY", Errno::BUSY),
    ("EFAULT", Errno::FAULT),
    ("EINTR", Errno::INTR),
    ("EAGAIN", Errno::AGAIN),
    ("ENODEV", Errno::NODEV),
    ("ENOENT", Errno::NOENT),
    ("ENOSPC", Errno::NOSPC),
    ("ENOTTY", Errno::NOTTY),
    ("EMFILE", Errno::MFILE),
    ("EBADF", Errno::BADF),
    ("ETIME", Errno::TIME),
];

const SHORT: &[(&str, &str)] = &[
    ("ioctl-alloc", "ioctl-alloc-memory-of-gpu"),
    ("ioctl-free", "ioctl-free-memory-of-gpu"),
    ("ioctl-map", "ioctl-map-memory-to-gpu"),
    ("ioctl-unmap", "ioctl-unmap-memory-from-gpu"),
    ("ioctl-import", "ioctl-import-dmabuf"),
    ("ioctl-export", "ioctl-export-dmabuf"),
];

const OTHERS: &[&str] =
    &["open-kfd", "open-render", "vram-full", "queue-hang", "packet-hang", "page-fault", "skip-word-waits", "reset"];

impl FromStr for Fault {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let wrong = || SettingsError::new("FAULTS", text);
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let point = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long);
        let numbers = || (0..=u8::MAX).filter_map(crate::abi::kfd::name);
        let drm_numbers = || (0..=u8::MAX).filter_map(crate::abi::drm::name);
        let known = match point.strip_prefix("ioctl-") {
            Some(ioctl) => numbers().chain(drm_numbers()).any(|known| known == ioctl),
            None => OTHERS.contains(&point),
        };
        let n = parts.next().map_or(Ok(1), str::parse).map_err(|_| wrong())?;
        let error = parts.next().map_or(Some(Errno::INVAL), |name| {
            ERRORS.iter().find(|(error, _)| *error == name).map(|(_, error)| *error)
        });
        match error {
            Some(error) if known && n > 0 && parts.next().is_none() => Ok(Self { point: point.to_owned(), n, error }),
            _ => Err(wrong()),
        }
    }
}

/// The faults of a process, with the counts of their points.
#[derive(Debug)]
pub(crate) struct Faults(Vec<(Fault, AtomicU64)>);

impl Faults {
    pub(crate) fn new(faults: &[Fault]) -> Self {
        Self(faults.iter().map(|fault| (fault.clone(), AtomicU64::new(0))).collect())
    }

    /// Counts one arrival at a point. Returns the error if a fault is requested for this arrival.
    pub(crate) fn at(&self, point: &str) -> Option<Errno> {
        self.count(point, |n, asked| n == asked)
    }

    /// As [`at`](Self::at), for faults that last from the requested arrival on.
    pub(crate) fn from(&self, point: &str) -> Option<Errno> {
        self.count(point, |n, asked| n >= asked)
    }

    fn count(&self, point: &str, due: impl Fn(u64, u64) -> bool) -> Option<Errno> {
        let mut found = None;
        for (fault, count) in self.0.iter().filter(|(fault, _)| fault.point == point) {
            let n = count.fetch_add(1, Ordering::Relaxed) + 1;
            if due(n, fault.n) {
                crate::report::failure(format_args!("fault on demand: {point}, the {n}."));
                found = Some(fault.error);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_parsed() {
        let fault = |point: &str, n, error| Ok(Fault { point: point.to_owned(), n, error });
        assert_eq!("ioctl-alloc:3:ENOMEM".parse(), fault("ioctl-alloc-memory-of-gpu", 3, Errno::NOMEM));
        assert_eq!("ioctl-drm-gem-va".parse(), fault("ioctl-drm-gem-va", 1, Errno::INVAL));
        assert_eq!("reset:5".parse(), fault("reset", 5, Errno::INVAL));
        for wrong in ["", "ioctl-nonsense", "reset:0", "reset:x", "ioctl-free:1:EWHAT", "reset:1:EIO:2", "resets"] {
            assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_fault_comes_at_its_arrival_and_lasts_where_it_should() {
        let faults = Faults::new(&["ioctl-free:2:EBUSY".parse().unwrap(), "vram-full:2".parse().unwrap()]);
        let free: Vec<_> = (0..3).map(|_| faults.at("ioctl-free-memory-of-gpu")).collect();
        assert_eq!(free, [None, Some(Errno::BUSY), None]);
        let full: Vec<_> = (0..3).map(|_| faults.from("vram-full").is_some()).collect();
        assert_eq!(full, [false, true, true]);
        assert_eq!(faults.at("reset"), None);
    }
}
