//! Invalid descriptor numbers, and descriptors of other files.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use gpu_interop::{ErrorKind, MemoryHandle, SemaphoreHandle};
use rustix::event::epoll;

use super::super::import_fd::{descriptor, refuse};
use super::super::{expect_error, rejected};
use super::{Rows, before_the_driver};
use crate::leak_check::keeps_descriptors;
use crate::raw_cuda::{OPAQUE_FD, RawCall};
use crate::scenario::scenarios;
use crate::{Context, Verdict, ensure_eq, request};

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.descriptors", None,
        "Numbers that are not open, /dev/null and directories are rejected by name; the driver alone reports 'unknown' and \
         closes the descriptor.",
        descriptors, needs [memory OpaqueFd];
    "misbehaviour.close_twice", None,
        "After a failure for which the driver closes the descriptor, nothing is closed twice and nothing leaks.",
        close_twice, needs [semaphore OpaqueFd];
}

fn descriptors(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    for number in [-1, 9999] {
        let raw = rows.call(&RawCall::ImportNumber { number })?.text;
        let library = || {
            // SAFETY: neither number is open.
            let handle = unsafe { MemoryHandle::opaque_from_raw_fd(number) };
            before_the_driver(&expect_error(handle, ErrorKind::InvalidArgument, "the number")?)
        };
        rows.row(&format!("import memory from the number {number}"), raw, library())?;
    }
    for path in ["/dev/null", "/"] {
        let fd: OwnedFd = File::open(path)?.into();
        let memory = RawCall::ImportMemory { kind: OPAQUE_FD, size: 4096, flags: 0 };
        for (what, call) in [("memory", memory), ("a semaphore", RawCall::ImportSemaphore { kind: OPAQUE_FD })] {
            let raw = rows.raw.call(&call, Some(fd.as_fd()))?.text;
            // As memory and as a semaphore.
            let library = fd.try_clone().map_err(Into::into).and_then(|fd| refuse(context, fd, path));
            let library = library.map(|_| "invalid argument, named by its kind; the descriptor came back open".into());
            rows.row(&format!("import {path} as {what}"), raw, library)?;
        }
    }
    rows.hand_on();
    Ok(())
}

fn close_twice(context: &Context) -> Verdict {
    const ROUNDS: usize = 100;
    let mut rows = Rows::new(context)?;
    let fd: OwnedFd = File::open("/dev/null")?.into();
    let raw = rows.raw.call(&RawCall::CloseAfterFailure, Some(fd.as_fd()))?.text;
    let library = || {
        let rounds = || {
            (0..ROUNDS).try_for_each(|_| {
                // Reaches the driver, which cannot use it.
                let object = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                let witness = rustix::fs::fstat(&object)?;
                let imported = context.device().import_semaphore(request::semaphore(SemaphoreHandle::OpaqueFd(object)));
                let (_, request) = rejected(imported, &[ErrorKind::ImportRejected], "an epoll descriptor")?;
                let found = rustix::fs::fstat(descriptor(request.into_handle().into_fd())?)?;
                ensure_eq!((found.st_dev, found.st_ino), (witness.st_dev, witness.st_ino), "the file that came back");
                Ok(())
            })
        };
        keeps_descriptors(Duration::ZERO, "open descriptors", rounds)?;
        Ok(format!("import rejected; the descriptor came back open, {ROUNDS} times, and as many are open as before"))
    };
    rows.row("import a descriptor that the driver rejects, then close it", raw, library())?;
    rows.end()
}
