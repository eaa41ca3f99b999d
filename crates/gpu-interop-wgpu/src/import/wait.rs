//! Fences of the producer, and fences for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{DmaBufAccess, ImportedPicture};
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
                for (index, file) in files.iter().enumerate() {
                    let failed = |error: Error| error.with_context("sync file", index);
                    let file = file.try_clone_to_owned().map_err(|error| {
                        failed(
                            Error::new(ErrorKind::System, operation, "a sync file cannot be duplicated")
                                .with_source(error),
                        )
                    })?;
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
    /// The fence of everything that was submitted to wgpu's queue so far, and so of this access, as a new sync file: a release
    /// fence for the producer. The caller owns it. `None` if the work has completed and the driver makes no sync file for that.
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
