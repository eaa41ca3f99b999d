//! Who closes which descriptor, while other threads open and close theirs all the time.
//!
//! A driver closes what it was given on success and, on failure, sometimes. Whoever then closes the same number once more
//! closes a descriptor that the kernel has meanwhile given to another thread.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use gpu_interop::{Device, ErrorKind, ImportError, MemoryHandle, MemoryImport, SemaphoreHandle, SemaphoreHandleKind};
use rustix::event::epoll;
use rustix::fs::{MemfdFlags, Stat};

use super::threads::join;
use crate::accounting::Holdings;
use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::system::handle_limit;
use crate::{ensure, ensure_eq};

scenarios! {
    "import.fd_stress", Any,
        "Thousands of failing and succeeding imports close no descriptor of another thread and leave none of their own.",
        stress;
}

const DURATION: Duration = Duration::from_millis(1500);
const SIZE: u64 = 4096;
const IMPORTERS: usize = 2;
/// How many descriptors each of the other threads has open.
const WINDOW: usize = 24;

/// What the importing threads did.
#[derive(Default)]
struct Counts {
    imported: AtomicU64,
    refused: AtomicU64,
}

fn stress(context: &Context) -> Verdict {
    let buffers: Vec<_> = (0..IMPORTERS).map(|_| context.buffer(SIZE)).collect::<Verdict<_>>()?;
    let semaphores = context.device().capabilities().semaphore(SemaphoreHandleKind::OpaqueFd).is_supported();
    let counts = Counts::default();
    // What the first cycle opens may stay.
    for buffer in &buffers {
        cycle(context.device(), &**buffer, semaphores, &counts)?;
    }
    let before = Holdings::now()?;
    let stop = AtomicBool::new(false);
    let checked = std::thread::scope(|scope| {
        // In the numbers that `open` gives out, and in those from which imports take their duplicates.
        let strangers: Vec<_> =
            [0, lending_floor()].into_iter().map(|floor| spawn_strangers(scope, &stop, floor)).collect();
        let (stop, counts) = (&stop, &counts);
        let importers: Vec<_> = buffers
            .iter()
            .map(|buffer| {
                scope.spawn(move || -> Verdict {
                    let start = Instant::now();
                    while start.elapsed() < DURATION && !stop.load(Ordering::Relaxed) {
                        cycle(context.device(), &**buffer, semaphores, counts)?;
                    }
                    Ok(())
                })
            })
            .collect();
        let imports: Vec<Verdict> = importers.into_iter().map(join).collect();
        stop.store(true, Ordering::Relaxed);
        // What the strangers saw is the reason, whatever the importers then ran into.
        let checked = strangers.into_iter().map(join).sum::<Verdict<u64>>();
        checked.and_then(|checked| imports.into_iter().collect::<Verdict>().map(|()| checked))
    })?;
    let (imported, refused) = (counts.imported.into_inner(), counts.refused.into_inner());
    ensure!(
        imported > 50 && refused > 50 && checked > 500,
        "too little happened: {imported} imports, {refused} refusals, {checked} descriptors checked"
    );
    ensure_eq!(Holdings::now()?.descriptors, before.descriptors, "open descriptors after the imports");
    Ok(())
}

/// From here on `LentFd` takes its numbers: half of the limit, at most 4,096.
fn lending_floor() -> i32 {
    i32::try_from((handle_limit() / 2).min(4096)).unwrap_or(0)
}

/// Imports that work, that the driver refuses and that do not reach it.
fn cycle(device: &Device, buffer: &dyn ExportedBuffer, semaphores: bool, counts: &Counts) -> Verdict {
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    drop(device.import_memory(buffer.import_request()?)?);
    count(&counts.imported);
    // To a GPU's driver, any file; to the host backend, memory like any other.
    let file = rustix::fs::memfd_create("refused", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, SIZE)?;
    let witness = rustix::fs::fstat(&file)?;
    for size in [SIZE, 0] {
        let handle = MemoryHandle::OpaqueFd(file.try_clone()?);
        match device.import_memory(MemoryImport::new(handle, size)) {
            Ok(_) => count(&counts.imported),
            Err(failure) => {
                came_back(failure, |request| request.into_handle().into_fd().ok(), &witness)?;
                count(&counts.refused)
            }
        };
    }
    if semaphores {
        // Might be a semaphore for all that the kernel tells, and is none.
        let object = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let witness = rustix::fs::fstat(&object)?;
        match device.import_semaphore(SemaphoreHandle::OpaqueFd(object)) {
            Ok(_) => return Err(Stop::Failed("an epoll descriptor was imported as a semaphore".into())),
            Err(failure) => came_back(failure, |request| request.into_handle().into_fd().ok(), &witness)?,
        }
        count(&counts.refused);
    }
    Ok(())
}

/// A refusal must give back the descriptor, open and of the same file.
fn came_back<R: std::fmt::Debug>(
    failure: ImportError<R>,
    fd: impl FnOnce(R) -> Option<OwnedFd>,
    witness: &Stat,
) -> Verdict {
    let kinds = [ErrorKind::ImportRejected, ErrorKind::InvalidArgument, ErrorKind::Unsupported];
    let (error, request) = failure.into_parts();
    super::expect_kind(&error, &kinds, "an import that must fail")?;
    let fd = fd(request).ok_or_else(|| Stop::Failed("the handle that came back is no descriptor".into()))?;
    let found = rustix::fs::fstat(&fd)?;
    ensure_eq!((found.st_dev, found.st_ino), (witness.st_dev, witness.st_ino), "the file that came back");
    Ok(())
}

/// Another thread of the application, which has nothing to do with imports. Gives the number of descriptors that it
/// found as it had left them; stops everything at the first that is not.
fn spawn_strangers<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    stop: &'env AtomicBool,
    floor: i32,
) -> std::thread::ScopedJoinHandle<'scope, Verdict<u64>> {
    scope.spawn(move || {
        let mut open: VecDeque<Stranger> = VecDeque::new();
        let mut run = || -> Verdict<u64> {
            let mut checked = 0;
            for mark in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                open.push_back(Stranger::open(floor, mark)?);
                if open.len() > WINDOW {
                    if let Some(stranger) = open.front() {
                        stranger.check()?;
                    }
                    open.pop_front();
                    checked += 1;
                }
            }
            open.iter().try_for_each(Stranger::check)?;
            Ok(checked)
        };
        let ran = run();
        if ran.is_err() {
            stop.store(true, Ordering::Relaxed);
            // One of them is not its owner's any more: closing it would be the next fault.
            std::mem::forget(open);
        }
        ran
    })
}

/// A descriptor, and what it must refer to until it is closed here.
struct Stranger {
    fd: OwnedFd,
    file: (u64, u64),
    mark: u64,
}

impl Stranger {
    fn open(floor: i32, mark: u64) -> Verdict<Self> {
        let mut fd = rustix::fs::memfd_create("stranger", MemfdFlags::CLOEXEC)?;
        if floor > 0 {
            fd = rustix::io::fcntl_dupfd_cloexec(&fd, floor)?;
        }
        rustix::io::pwrite(&fd, &mark.to_ne_bytes(), 0)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Self { fd, file: (stat.st_dev, stat.st_ino), mark })
    }

    fn check(&self) -> Verdict {
        let number = self.fd.as_raw_fd();
        let stat = rustix::fs::fstat(&self.fd).map_err(|errno| {
            Stop::Failed(format!("somebody closed the descriptor {number} of another thread: {errno}"))
        })?;
        let mut mark = [0; 8];
        let read = rustix::io::pread(&self.fd, &mut mark, 0)?;
        ensure!(
            (stat.st_dev, stat.st_ino) == self.file && read == 8 && u64::from_ne_bytes(mark) == self.mark,
            "somebody closed the descriptor {number} of another thread, and it is another file now"
        );
        Ok(())
    }
}
