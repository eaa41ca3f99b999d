//! Descriptors of other files: rejected before the driver is called, and returned.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_interop::handle::{FdKind, classify_fd};
use gpu_interop::{
    Device, ErrorKind, ExternalMemory, ExternalSemaphore, ImportError, MemoryHandle, SemaphoreHandle,
    SemaphoreHandleKind,
};
use rustix::event::{EventfdFlags, epoll};
use rustix::fs::{MemfdFlags, Stat};

use super::handle_reuse::{Counts, Stranger, among};
use super::{expect_error, rejected};
use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::leak_check::ResourceSnapshot;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::system::handle_limit;
use crate::{ensure, ensure_eq, request};

scenarios! {
    "import.fd_negative", None, "A negative descriptor cannot become a handle.", negative,
        mirrors("hip-tests contract: ImportMemoryInvalidFd_IsRejected; OpenCL-CTS: test_consistency_external_buffer");
    "import.fd_closed", None, "The number of a closed descriptor is rejected, and not closed a second time.", closed,
        needs [memory OpaqueFd];
    "import.fd_zero", Any, "Descriptor 0 imports like any other.", zero;
    "import.fd_pipe", None, "A pipe is rejected as memory and as a semaphore, unread, and comes back.", pipe,
        needs [memory OpaqueFd];
    "import.fd_directory", None, "A directory is rejected and comes back.",
        |context| refuse(context, File::open("/")?.into(), "a directory").map(drop), needs [memory OpaqueFd];
    "import.fd_regular_file", None, "A regular file is rejected and comes back.",
        |context| refuse(context, File::open(std::env::current_exe()?)?.into(), "a regular file").map(drop),
        needs [memory OpaqueFd];
    "import.fd_eventfd", None, "An eventfd is rejected and comes back.", eventfd, needs [memory OpaqueFd];
    "import.fd_socket", None, "A socket is rejected and comes back.",
        |context| refuse(context, UnixStream::pair()?.0.into(), "a socket").map(drop), needs [memory OpaqueFd];
    "import.fd_dev_null", None, "/dev/null is rejected and comes back.",
        |context| refuse(context, File::open("/dev/null")?.into(), "/dev/null").map(drop), needs [memory OpaqueFd];
    "import.fd_not_dma_buf", None, "A memfd is rejected as a dma-buf.", not_dma_buf;
    "import.memory_fd_as_semaphore", Any,
        "A memory descriptor declared as a semaphore is harmless: a typed error, or an import that can be closed.",
        memory_as_semaphore, needs [semaphore OpaqueFd];
    "import.semaphore_fd_as_memory", Any,
        "A semaphore descriptor declared as memory is harmless: a typed error, or an import that can be closed.",
        semaphore_as_memory, needs [memory OpaqueFd, exporter BinarySemaphores];
    "import.fd_stress", Any,
        "Thousands of failing and succeeding imports close no descriptor of another thread and leak none.", stress;
}

fn negative(_: &Context) -> Verdict {
    for number in [-1, -64, i32::MIN] {
        // SAFETY: none of the numbers is open.
        let handle = unsafe { MemoryHandle::opaque_from_raw_fd(number) };
        let error = expect_error(handle, ErrorKind::InvalidArgument, "a negative descriptor")?;
        ensure!(error.to_string().contains(&number.to_string()), "the text does not name it: {error}");
    }
    Ok(())
}

fn closed(context: &Context) -> Verdict {
    // A high number, so that no other thread's descriptor gets it.
    let high = i32::try_from(handle_limit() / 2).unwrap_or(900).min(900);
    let number = rustix::io::fcntl_dupfd_cloexec(File::open("/dev/null")?, high)?.into_raw_fd();
    // SAFETY: the number was just released and is closed here, once.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    // SAFETY: the number is not open.
    expect_error(unsafe { MemoryHandle::opaque_from_raw_fd(number) }, ErrorKind::InvalidArgument, "a closed number")?;
    // Simulates a stray close elsewhere.
    // SAFETY: never closed through this owner: the handle is taken apart below.
    let stale = unsafe { OwnedFd::from_raw_fd(number) };
    let result = context.device().import_memory(request::memory(MemoryHandle::OpaqueFd(stale), 4096));
    let (_, request) = rejected(result, &[ErrorKind::InvalidArgument], "a closed descriptor")?;
    ensure_eq!(descriptor(request.into_handle().into_fd())?.into_raw_fd(), number, "the number that came back");
    Ok(())
}

/// The descriptor of a handle that was made from one.
pub(super) fn descriptor<H>(fd: Result<OwnedFd, H>) -> Verdict<OwnedFd> {
    fd.map_err(|_| Stop::failed("the handle is not the descriptor that it should be".into()))
}

/// 0 is a valid descriptor; HIP's runtime treats it as "none" in places.
fn zero(context: &Context) -> Verdict {
    let (buffer, pattern) = (context.written(4096)?, context.pattern());
    let request = buffer.import_request()?;
    let (size, dedicated, trusted) = (request.size(), request.is_dedicated(), request.is_peer_trusted());
    let fd = descriptor(request.into_handle().into_fd())?;
    let standard_input = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&fd)?;
    // SAFETY: 0 is open, and standard input is restored below, even if an import closes it.
    let handle = unsafe { MemoryHandle::opaque_from_raw_fd(0) }?;
    let request = request::memory_with(handle, size, dedicated);
    // SAFETY: the memory is the other request's, with the same guarantees.
    let imported = context.device().import_memory(unsafe { request.trusted_peer(trusted) });
    rustix::stdio::dup2_stdin(&standard_input)?;
    let mapped = imported?.map_buffer(0..4096)?;
    let stream = context.stream()?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "memory imported from the descriptor 0")
}

/// Imports `fd` as memory and as a semaphore. It must be rejected, stay open and refer to the same file.
pub(super) fn refuse(context: &Context, fd: OwnedFd, what: &str) -> Verdict<OwnedFd> {
    let before = rustix::fs::fstat(&fd)?;
    let request = request::memory(MemoryHandle::OpaqueFd(fd), 4096);
    let (error, request) = rejected(context.device().import_memory(request), &[ErrorKind::InvalidArgument], what)?;
    ensure!(error.to_string().contains("4096"), "the text does not name the size: {error}");
    let mut fd = descriptor(request.into_handle().into_fd())?;
    for kind in [SemaphoreHandleKind::OpaqueFd, SemaphoreHandleKind::TimelineFd] {
        if !context.device().capabilities().semaphore(kind).is_supported() {
            continue;
        }
        let handle = match kind {
            SemaphoreHandleKind::TimelineFd => SemaphoreHandle::TimelineFd(fd),
            _ => SemaphoreHandle::OpaqueFd(fd),
        };
        let (_, request) = rejected(
            context.device().import_semaphore(request::semaphore(handle)),
            &[ErrorKind::InvalidArgument],
            what,
        )?;
        fd = descriptor(request.into_handle().into_fd())?;
    }
    let after = rustix::fs::fstat(&fd)?;
    ensure_eq!((after.st_dev, after.st_ino), (before.st_dev, before.st_ino), "the file behind the returned descriptor");
    Ok(fd)
}

fn pipe(context: &Context) -> Verdict {
    let (read, write) = rustix::pipe::pipe()?;
    rustix::io::write(&write, b"unread")?;
    let read = refuse(context, read, "the reading end of a pipe")?;
    let mut bytes = [0; 16];
    let count = rustix::io::read(&read, &mut bytes[..])?;
    ensure_eq!(&bytes[..count], b"unread", "the pipe's contents");
    refuse(context, write, "the writing end of a pipe")?;
    Ok(())
}

fn eventfd(context: &Context) -> Verdict {
    let fd = refuse(context, rustix::event::eventfd(7, EventfdFlags::CLOEXEC)?, "an eventfd")?;
    let mut bytes = [0; 8];
    rustix::io::read(&fd, &mut bytes[..])?;
    ensure_eq!(u64::from_ne_bytes(bytes), 7, "the eventfd's counter");
    Ok(())
}

pub(super) fn memfd(size: u64) -> Verdict<OwnedFd> {
    let fd = rustix::fs::memfd_create("conformance", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&fd, size)?;
    Ok(fd)
}

fn not_dma_buf(context: &Context) -> Verdict {
    let fd = memfd(4096)?;
    ensure_eq!(classify_fd(fd.as_fd()), FdKind::Memory, "the kind of the suite's own memfd");
    let request = request::memory(MemoryHandle::DmaBufFd(fd), 4096);
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::Unsupported];
    let (_, request) = rejected(context.device().import_memory(request), &kinds, "a memfd as a dma-buf")?;
    let fd = descriptor(request.into_handle().into_fd())?;
    ensure_eq!(classify_fd(fd.as_fd()), FdKind::Memory, "the returned descriptor");
    Ok(())
}

/// Drivers cannot distinguish the two, so both outcomes are legal; a crash, a lost handle or an untyped error is not.
pub(super) fn harmless<T, R: std::fmt::Debug>(
    imported: Result<T, ImportError<R>>,
    close: impl FnOnce(T) -> gpu_interop::Result<()>,
    fd_of: impl FnOnce(R) -> Verdict<OwnedFd>,
    witness: &OwnedFd,
) -> Verdict {
    match imported {
        Ok(object) => Ok(close(object)?),
        Err(failure) => {
            ensure_eq!(failure.kind(), ErrorKind::ImportRejected, "the error kind");
            let (returned, witness) = (rustix::fs::fstat(fd_of(failure.into_request())?)?, rustix::fs::fstat(witness)?);
            ensure_eq!((returned.st_dev, returned.st_ino), (witness.st_dev, witness.st_ino), "the file that came back");
            Ok(())
        }
    }
}

fn memory_as_semaphore(context: &Context) -> Verdict {
    let buffer = context.buffer(4096)?;
    let fd = descriptor(buffer.import_request()?.into_handle().into_fd())?;
    let witness = fd.try_clone()?;
    let imported = context.device().import_semaphore(request::semaphore(SemaphoreHandle::OpaqueFd(fd)));
    harmless(imported, ExternalSemaphore::close, |request| descriptor(request.into_handle().into_fd()), &witness)
}

fn semaphore_as_memory(context: &Context) -> Verdict {
    let fd = descriptor(context.exporter()?.binary_semaphore()?.export()?.into_fd())?;
    let witness = fd.try_clone()?;
    let imported = context.device().import_memory(request::memory(MemoryHandle::OpaqueFd(fd), 4096));
    harmless(imported, ExternalMemory::close, |request| descriptor(request.into_handle().into_fd()), &witness)
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
