//! Handles declared as another kind. Neither drivers nor the library can distinguish such descriptors; typed handles
//! protect applications.

use std::os::fd::OwnedFd;

use gpu_interop::{ErrorKind, ExternalMemory, ExternalSemaphore, ImportError, MemoryHandle, SemaphoreHandle};

use super::super::import_fd::{descriptor, harmless};
use super::Rows;
use crate::raw_cuda::{OPAQUE_FD, RawCall, TIMELINE_FD};
use crate::scenario::scenarios;
use crate::{Context, Verdict, request};

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.memory_as_semaphore", Any, "A memory descriptor relabelled as a semaphore is harmless.",
        memory_as_semaphore, needs [semaphore OpaqueFd];
    "misbehaviour.semaphore_as_memory", Any, "A semaphore descriptor relabelled as memory is harmless.",
        semaphore_as_memory, needs [semaphore OpaqueFd, exporter BinarySemaphores];
    "misbehaviour.semaphore_kinds", Any, "A timeline relabelled as a binary semaphore, and the reverse, are harmless.",
        semaphore_kinds, needs [semaphore OpaqueFd, semaphore TimelineFd,
            exporter BinarySemaphores, exporter TimelineSemaphores];
}

/// The library's outcome for a falsely declared descriptor: an import that can be closed, or an error that returns it.
fn survived<T, R: std::fmt::Debug>(
    imported: Result<T, ImportError<R>>,
    close: impl FnOnce(T) -> gpu_interop::Result<()>,
    fd_of: impl FnOnce(R) -> Verdict<OwnedFd>,
    witness: &OwnedFd,
) -> Verdict<String> {
    let text = match &imported {
        Ok(_) => "accepted, and ended without harm; only a handwritten label reaches this".to_owned(),
        Err(failure) => format!("{}; the descriptor came back open", ErrorKind::to_string(&failure.kind())),
    };
    harmless(imported, close, fd_of, witness).map(|()| text)
}

fn memory_as_semaphore(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = context.buffer(4096)?;
    let request = buffer.import_request()?;
    let raw = rows.with_memory(&RawCall::ImportSemaphore { kind: OPAQUE_FD }, &request)?;
    let library = || {
        let fd = descriptor(request.into_handle().into_fd())?;
        let witness = fd.try_clone()?;
        let imported = context.device().import_semaphore(request::semaphore(SemaphoreHandle::OpaqueFd(fd)));
        survived(imported, ExternalSemaphore::close, |request| descriptor(request.into_handle().into_fd()), &witness)
    };
    rows.row("import memory as a semaphore", raw, library())?;
    rows.end()
}

fn semaphore_as_memory(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let semaphore = context.exporter()?.binary_semaphore()?;
    let handle = semaphore.export()?;
    let raw = rows.with_semaphore(&RawCall::ImportMemory { kind: OPAQUE_FD, size: 4096, flags: 0 }, &handle)?;
    let library = || {
        let fd = descriptor(handle.into_fd())?;
        let witness = fd.try_clone()?;
        let imported = context.device().import_memory(request::memory(MemoryHandle::OpaqueFd(fd), 4096));
        survived(imported, ExternalMemory::close, |request| descriptor(request.into_handle().into_fd()), &witness)
    };
    rows.row("import a semaphore as memory", raw, library())?;
    rows.end()
}

fn semaphore_kinds(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let exporter = context.exporter()?;
    let timeline = exporter.timeline_semaphore(0)?;
    let binary = exporter.binary_semaphore()?;
    let as_binary: fn(OwnedFd) -> SemaphoreHandle = SemaphoreHandle::OpaqueFd;
    let relabelled = [
        ("import a timeline as a binary semaphore", timeline.export()?, OPAQUE_FD, as_binary),
        ("import a binary semaphore as a timeline", binary.export()?, TIMELINE_FD, SemaphoreHandle::TimelineFd),
    ];
    for (what, handle, kind, label) in relabelled {
        let raw = rows.with_semaphore(&RawCall::ImportSemaphore { kind }, &handle)?;
        let library = || {
            let fd = descriptor(handle.into_fd())?;
            let witness = fd.try_clone()?;
            let imported = context.device().import_semaphore(request::semaphore(label(fd)));
            survived(
                imported,
                ExternalSemaphore::close,
                |request| descriptor(request.into_handle().into_fd()),
                &witness,
            )
        };
        rows.row(what, raw, library())?;
    }
    rows.end()
}
