//! Descriptors of other files: rejected before the driver is called, and returned.

use std::fs::File;
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use gpu_interop::handle::{FdKind, classify_fd};
use gpu_interop::{
    ErrorKind, ExternalMemory, ExternalSemaphore, ImportError, MemoryHandle, SemaphoreHandle, SemaphoreHandleKind,
};
use rustix::event::EventfdFlags;

use super::{expect_error, rejected};
use crate::scenario::scenarios;
use crate::system::handle_limit;
use crate::{Context, Stop, Verdict, ensure, ensure_eq, request};

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
    // A high number, so that no other descriptor gets it meanwhile.
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
