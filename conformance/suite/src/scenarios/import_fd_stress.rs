//! Descriptor reuse: imports on several threads, while other threads open and close descriptors.
//!
//! A driver closes the descriptor on success and, depending on the driver, on failure. A second close hits a recycled
//! descriptor of another thread.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_interop::{Device, ErrorKind, ImportError, MemoryHandle, SemaphoreHandle, SemaphoreHandleKind};
use rustix::event::epoll;
use rustix::fs::{MemfdFlags, Stat};

use super::handle_reuse::{Counts, Stranger, among};
use crate::scenario::scenarios;
use crate::system::handle_limit;
use crate::{Context, ExportedBuffer, ResourceSnapshot, Stop, Verdict, ensure, ensure_eq, request};

scenarios! {
    "import.fd_stress", Any,
        "Thousands of failing and succeeding imports close no descriptor of another thread and leak none.", stress;
}

const SIZE: u64 = 4096;
const IMPORTERS: usize = 2;

fn stress(context: &Context) -> Verdict {
    let buffers: Vec<_> = (0..IMPORTERS).map(|_| context.buffer(SIZE)).collect::<Verdict<_>>()?;
    let semaphores = context.device().capabilities().semaphore(SemaphoreHandleKind::OpaqueFd).is_supported();
    let counts = Counts::default();
    // Resources of the first cycle may stay open.
    for buffer in &buffers {
        cycle(context.device(), &**buffer, semaphores, &counts)?;
    }
    let before = ResourceSnapshot::at_rest()?;
    let of = |buffer| {
        let counts = &counts;
        move || cycle(context.device(), buffer, semaphores, counts)
    };
    let imports: Vec<_> = buffers.iter().map(|buffer| of(&**buffer)).collect();
    // In the range of `open`, and in the range of the duplicates that imports use.
    let floor = lending_floor();
    among(&[&|mark| Descriptor::open(0, mark), &|mark| Descriptor::open(floor, mark)], &imports, &counts, 500)?;
    ensure_eq!(
        ResourceSnapshot::settled_descriptors(&before)?,
        before.descriptors,
        "open descriptors after the imports"
    );
    Ok(())
}

/// The lowest number that `LentFd` uses: half of the limit, at most 4,096.
fn lending_floor() -> i32 {
    i32::try_from((handle_limit() / 2).min(4096)).unwrap_or(0)
}

/// Imports that succeed, imports that the driver rejects, and imports that do not reach it.
fn cycle(device: &Device, buffer: &dyn ExportedBuffer, semaphores: bool, counts: &Counts) -> Verdict {
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    drop(device.import_memory(buffer.import_request()?)?);
    count(&counts.imported);
    // Any file for a GPU's driver; valid memory for the host backend.
    let file = rustix::fs::memfd_create("rejected", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, SIZE)?;
    let witness = rustix::fs::fstat(&file)?;
    for size in [SIZE, 0] {
        let handle = MemoryHandle::OpaqueFd(file.try_clone()?);
        match device.import_memory(request::memory(handle, size)) {
            Ok(_) => count(&counts.imported),
            Err(failure) => {
                came_back(failure, |request| request.into_handle().into_fd().ok(), &witness)?;
                count(&counts.refused)
            }
        };
    }
    if semaphores {
        // The kernel does not report that it is not a semaphore.
        let object = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let witness = rustix::fs::fstat(&object)?;
        match device.import_semaphore(request::semaphore(SemaphoreHandle::OpaqueFd(object))) {
            Ok(_) => return Err(Stop::failed("an epoll descriptor was imported as a semaphore".into())),
            Err(failure) => came_back(failure, |request| request.into_handle().into_fd().ok(), &witness)?,
        }
        count(&counts.refused);
    }
    Ok(())
}

/// A rejected import must return the descriptor, open and of the same file.
fn came_back<R: std::fmt::Debug>(
    failure: ImportError<R>,
    fd: impl FnOnce(R) -> Option<OwnedFd>,
    witness: &Stat,
) -> Verdict {
    let kinds = [ErrorKind::ImportRejected, ErrorKind::InvalidArgument, ErrorKind::Unsupported];
    let (error, request) = failure.into_parts();
    super::expect_kind(&error, &kinds, "an import that must fail")?;
    let fd = fd(request).ok_or_else(|| Stop::failed("the handle that came back is not a descriptor".into()))?;
    let found = rustix::fs::fstat(&fd)?;
    ensure_eq!((found.st_dev, found.st_ino), (witness.st_dev, witness.st_ino), "the file that came back");
    Ok(())
}

/// A descriptor, and the identity of its file until it is closed here.
struct Descriptor {
    fd: OwnedFd,
    file: (u64, u64),
    mark: u64,
}

impl Descriptor {
    fn open(floor: i32, mark: u64) -> Verdict<Self> {
        let mut fd = rustix::fs::memfd_create("stranger", MemfdFlags::CLOEXEC)?;
        rustix::io::pwrite(&fd, &mark.to_ne_bytes(), 0)?;
        let stat = rustix::fs::fstat(&fd)?;
        if floor > 0 {
            // Last: a stray close from here on is for `check` to detect.
            fd = rustix::io::fcntl_dupfd_cloexec(&fd, floor)?;
        }
        Ok(Self { fd, file: (stat.st_dev, stat.st_ino), mark })
    }
}

impl Stranger for Descriptor {
    fn check(&self) -> Verdict {
        let number = self.fd.as_raw_fd();
        let closed =
            |errno| Stop::failed(format!("the descriptor {number} of another thread was closed elsewhere: {errno}"));
        let stat = rustix::fs::fstat(&self.fd).map_err(closed)?;
        let mut mark = [0; 8];
        let read = rustix::io::pread(&self.fd, &mut mark, 0).map_err(closed)?;
        ensure!(
            (stat.st_dev, stat.st_ino) == self.file && read == 8 && u64::from_ne_bytes(mark) == self.mark,
            "the descriptor {number} of another thread was closed elsewhere, and is another file now"
        );
        Ok(())
    }
}
