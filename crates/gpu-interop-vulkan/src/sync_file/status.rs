//! The status of a sync file.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use gpu_interop_core::handle::classify_fd;
use gpu_interop_core::{Error, ErrorKind, Result};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, opcode};

use super::drm::call;

/// The status of a sync file's fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncFileStatus {
    /// The work has not completed.
    Pending,
    /// The work has completed.
    Signalled,
    /// The work has ended with this error of the system (`errno`), such as `ECANCELED`: its device was lost, or its process
    /// has ended. The memory that it writes has undefined contents.
    Failed(i32),
}

/// `sync_file_info` of `linux/sync_file.h`.
#[repr(C)]
#[derive(Debug, Default)]
struct FileInfo {
    name: [u8; 32],
    status: i32,
    flags: u32,
    /// 0: the kernel writes no information about single fences.
    num_fences: u32,
    pad: u32,
    fences: u64,
}

const FILE_INFO: Opcode = opcode::read_write::<FileInfo>(b'>', 4);

/// The status of a sync file, which stays the caller's. Does not wait. Calls `SYNC_IOC_FILE_INFO`.
///
/// The kernel signals the fence of failed work, too. Every wait ends then: `poll`, a queue's, or that of
/// [`ImportedSemaphore`](crate::ImportedSemaphore). After the wait, this function tells the work of a producer that was killed or
/// has lost its device from completed work.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a closed descriptor, and one that is not a sync file. [`ErrorKind::System`] if the kernel
/// rejects the call.
#[doc(alias("SYNC_IOC_FILE_INFO", "sync_file_info", "dma_fence_get_status"))]
pub fn sync_file_status(fd: impl AsFd) -> Result<SyncFileStatus> {
    let fd = fd.as_fd();
    // SAFETY: the opcode is of this structure, which has no addresses.
    status(fd, |info| unsafe { call(fd, FILE_INFO, info) })
}

fn status(fd: BorrowedFd<'_>, call: impl FnOnce(&mut FileInfo) -> rustix::io::Result<()>) -> Result<SyncFileStatus> {
    const OPERATION: &str = "SYNC_IOC_FILE_INFO";
    let mut info = FileInfo::default();
    call(&mut info).map_err(|errno| {
        match errno {
            // Drivers of other files have these errors for unknown calls.
            Errno::NOTTY | Errno::INVAL | Errno::BADF | Errno::OPNOTSUPP => {
                Error::invalid(OPERATION, format!("the descriptor is {}, not a sync file", classify_fd(fd)))
            }
            _ => Error::new(ErrorKind::System, OPERATION, "the kernel rejects the call; see the system's error"),
        }
        .with_context("fd", fd.as_raw_fd())
        .with_source(std::io::Error::from(errno))
    })?;
    Ok(match info.status {
        0 => SyncFileStatus::Pending,
        1.. => SyncFileStatus::Signalled,
        error => SyncFileStatus::Failed(error.saturating_neg()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_has_the_number_of_the_header() {
        // _IOWR('>', 4, struct sync_file_info) on x86 and Arm.
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!(FILE_INFO, 0xc038_3e04);
        }
        let offsets = [std::mem::offset_of!(FileInfo, status), std::mem::offset_of!(FileInfo, num_fences)];
        assert_eq!((size_of::<FileInfo>(), offsets), (56, [32, 40]));
    }

    #[test]
    fn a_negative_status_is_a_failure() {
        let pipe = rustix::pipe::pipe().expect("a pipe").0;
        for (number, expected) in [
            (0, SyncFileStatus::Pending),
            (1, SyncFileStatus::Signalled),
            (-125, SyncFileStatus::Failed(125)),
            (i32::MIN, SyncFileStatus::Failed(i32::MAX)),
        ] {
            let found = status(pipe.as_fd(), |info| {
                assert_eq!((info.flags, info.num_fences, info.pad, info.fences), (0, 0, 0, 0));
                info.status = number;
                Ok(())
            });
            assert_eq!(found.expect("a status"), expected);
        }
        let error = status(pipe.as_fd(), |_| Err(Errno::NOMEM)).expect_err("no memory");
        assert_eq!(error.kind(), ErrorKind::System);
    }

    #[test]
    fn other_files_are_rejected_by_kind() {
        let (pipe, _writer) = rustix::pipe::pipe().expect("a pipe");
        let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        for (file, name) in [(pipe, "a pipe"), (memory, "anonymous memory")] {
            let error = sync_file_status(&file).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().contains(&format!("{name}, not a sync file")), "{error}");
        }
    }
}
