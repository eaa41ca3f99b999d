//! Fences of the producer, and fences for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{DmaBufAccess, ImportedPicture};
#[cfg(target_os = "linux")]
use gpu_interop::vulkan::{SyncFileStatus, sync_file_status};
use gpu_interop::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::access::{EndedAccess, Fences, Imported};
use crate::native::vulkan::import::picture::StagedWaits;

/// The most time that the CPU waits for a producer.
const PATIENCE: Duration = Duration::from_secs(60);

impl Imported {
    fn access(&self) -> DmaBufAccess {
        if self.writes() { DmaBufAccess::Write } else { DmaBufAccess::Read }
    }

    fn dma_bufs(&self, operation: &'static str) -> Result<&ImportedPicture> {
        self.picture.as_ref().ok_or_else(|| {
            let message = "only pictures have implicit fences; pass the producer's sync files, or wait for it and pass \
                           Fences::Completed";
            Error::invalid(operation, message)
        })
    }

    /// Stages waits for the producer in wgpu's queue, or waits on the CPU.
    pub(super) fn wait(&self, operation: &'static str, fences: Fences<'_>) -> Result<StagedWaits> {
        let mut staged = StagedWaits::new(&self.graphics.queue);
        match fences {
            Fences::Completed => {}
            Fences::SyncFiles(files) => {
                for (index, file) in duplicates(operation, files)?.into_iter().enumerate() {
                    let failed = |error: Error| error.with_context("sync file", index);
                    self.stage(operation, &mut staged, file).map_err(failed)?;
                }
            }
            Fences::Implicit => {
                let picture = self.dma_bufs(operation)?;
                match picture.fences(self.access()) {
                    Ok(files) => files.into_iter().try_for_each(|file| self.stage(operation, &mut staged, file))?,
                    Err(error) if error.kind() == ErrorKind::Unsupported => {
                        tracing::debug!(%error, "the CPU waits for a dma-buf");
                        let ready = if self.writes() { PollFlags::OUT } else { PollFlags::IN };
                        picture.dma_bufs().iter().try_for_each(|file| wait_for(operation, file.as_fd(), ready))?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(staged)
    }

    /// Makes wgpu's queue wait for a sync file, or waits on the CPU if the device does not import it.
    fn stage(&self, operation: &'static str, staged: &mut StagedWaits, file: OwnedFd) -> Result<()> {
        match self.graphics.native.vulkan(operation)?.sync_file_semaphore(file) {
            Ok(semaphore) => staged.add(semaphore),
            Err((error, Some(file))) if error.kind() == ErrorKind::Unsupported => {
                tracing::debug!(%error, "the CPU waits for a sync file");
                wait_for(operation, file.as_fd(), PollFlags::IN)
            }
            Err((error, _)) => Err(error),
        }
    }
}

fn duplicates(operation: &'static str, files: &[BorrowedFd<'_>]) -> Result<Vec<OwnedFd>> {
    let duplicate = |(index, file): (usize, &BorrowedFd<'_>)| {
        file.try_clone_to_owned().map_err(|error| {
            Error::new(ErrorKind::System, operation, "a sync file cannot be duplicated")
                .with_context("sync file", index)
                .with_source(error)
        })
    };
    files.iter().enumerate().map(duplicate).collect()
}

/// The sync files of an access, whose status is read once the work has ended.
#[derive(Debug, Default)]
pub(super) struct Given(Vec<OwnedFd>);

impl Given {
    pub(super) fn new(operation: &'static str, fences: Fences<'_>) -> Result<Self> {
        match fences {
            Fences::SyncFiles(files) => duplicates(operation, files).map(Self),
            Fences::Implicit | Fences::Completed => Ok(Self(Vec::new())),
        }
    }

    /// Fails for the first sync file whose work has failed.
    pub(super) fn check(&self, operation: &'static str) -> Result<()> {
        let failed = |(index, file): (usize, &OwnedFd)| Some((index, errno(index, file.as_fd())?));
        let Some((index, errno)) = self.0.iter().enumerate().find_map(failed) else { return Ok(()) };
        let message = "the work of a producer's sync file has failed, so the contents of its memory are undefined: the producer \
                       was killed or has lost its device; discard what was made from them, and have the producer start again";
        Err(Error::new(ErrorKind::Cancelled, operation, message)
            .with_context("sync file", index)
            .with_source(std::io::Error::from_raw_os_error(errno)))
    }
}

/// The error of failed work. `None` for other work, and for a kernel without such a status.
#[cfg_attr(not(all(test, target_os = "linux")), allow(unused_variables))]
fn errno(index: usize, file: BorrowedFd<'_>) -> Option<i32> {
    #[cfg(test)]
    if let Some(failed) = FAILED.get() {
        return (index == failed).then_some(Errno::CANCELED.raw_os_error());
    }
    #[cfg(target_os = "linux")]
    if let Ok(SyncFileStatus::Failed(errno)) = sync_file_status(file) {
        return Some(errno);
    }
    None
}

#[cfg(test)]
thread_local! {
    /// The index of a sync file that fails.
    pub(super) static FAILED: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Waits until the fence of a dma-buf or a sync file is signalled.
fn wait_for(operation: &'static str, file: BorrowedFd<'_>, ready: PollFlags) -> Result<()> {
    wait_until(operation, file, ready, Instant::now() + PATIENCE)
}

fn wait_until(operation: &'static str, file: BorrowedFd<'_>, ready: PollFlags, deadline: Instant) -> Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        let mut files = [PollFd::from_borrowed_fd(file, ready)];
        match poll(&mut files, Some(&timeout)) {
            Ok(0) => {
                let message = "the producer's fence was not signalled; check that the producer has submitted its work and has \
                               not lost its device";
                return Err(Error::new(ErrorKind::Timeout, operation, message));
            }
            Ok(_) if files.iter().all(|file| file.revents().contains(ready)) => return Ok(()),
            Ok(_) => {
                let message = "the descriptor cannot be waited for; pass a sync file or a dma-buf";
                return Err(Error::invalid(operation, message));
            }
            Err(Errno::INTR) => {}
            Err(errno) => {
                let message = "the producer's fence cannot be waited for";
                return Err(Error::new(ErrorKind::System, operation, message).with_source(std::io::Error::from(errno)));
            }
        }
    }
}

impl EndedAccess {
    /// Fails if the work of a sync file has failed that [`Fences::SyncFiles`] passed: the kernel signals the fence of a producer
    /// that was killed or has lost its device, too, and wgpu's queue then reads undefined contents. Does not wait: call it
    /// when wgpu's queue is done, such as in the callback of [`on_done`](Self::on_done). [`wait`](Self::wait) calls it. Calls
    /// `SYNC_IOC_FILE_INFO`; a kernel without that reports no failures.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`] with the index of the sync file, and the kernel's error as the source.
    #[doc(alias("SYNC_IOC_FILE_INFO"))]
    pub fn check_fences(&self) -> Result<()> {
        self.given.check("EndedAccess::check_fences")
    }

    /// The fence of everything that was submitted to wgpu's queue so far, and so of this access, as a new sync file: a release
    /// fence for the producer. One sync file covers all accesses that have ended before this call: pass duplicates of it to
    /// their producers. The caller owns it. `None` if the work has completed and the driver makes no sync file for that.
    /// Makes an empty submission that signals a semaphore, and calls `vkGetSemaphoreFdKHR`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device exports no sync files: [`wait`](Self::wait) or use [`on_done`](Self::on_done).
    /// [`ErrorKind::DeviceLost`]. Errors of the driver.
    #[doc(alias("vkGetSemaphoreFdKHR"))]
    pub fn sync_file(&self) -> Result<Option<OwnedFd>> {
        const OPERATION: &str = "EndedAccess::sync_file";
        let graphics = &self.imported.graphics;
        graphics.checked(OPERATION, || graphics.native.vulkan(OPERATION)?.export_sync_file(OPERATION, &graphics.queue))
    }

    /// Adds the fence of [`sync_file`](Self::sync_file) to the picture's dma-bufs, for producers with implicit synchronisation:
    /// as one of writes if wgpu may write the texture by its usage, and as one of reads if not. Calls
    /// `DMA_BUF_IOCTL_IMPORT_SYNC_FILE`.
    ///
    /// # Errors
    /// As [`sync_file`](Self::sync_file); [`ErrorKind::InvalidArgument`] without a picture; [`ErrorKind::Unsupported`] if the kernel
    /// is older than Linux 6.0. [`wait`](Self::wait) then, before the buffer goes back.
    #[doc(alias("DMA_BUF_IOCTL_IMPORT_SYNC_FILE"))]
    pub fn add_fence(&self) -> Result<()> {
        let picture = self.imported.dma_bufs("EndedAccess::add_fence")?;
        match self.sync_file()? {
            Some(file) => picture.add_fence(self.imported.access(), file),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_waits_for_a_descriptor_until_it_is_ready_or_the_time_is_over() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let wait = |file: &OwnedFd, millis| {
            wait_until("op", file.as_fd(), PollFlags::IN, Instant::now() + Duration::from_millis(millis))
        };
        let error = wait(&reader, 20).expect_err("empty");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            rustix::io::write(&writer, &[1]).expect("written");
            writer
        });
        wait(&reader, 20_000).expect("ready");
        drop(late.join().expect("written"));
        rustix::io::read(&reader, &mut [0; 1]).expect("read");
        // The other end is closed.
        let error = wait(&reader, 20_000).expect_err("never ready");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}
