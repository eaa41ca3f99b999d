//! The driver's own dma-bufs, which it does not import.

use std::os::fd::AsFd;

use gpu_interop::handle::{FdKind, classify_fd};
use gpu_interop::{ErrorKind, ExternalMemory, MemoryHandle, MemoryImport};

use super::super::import_fd::{descriptor, harmless, memfd};
use super::super::rejected;
use super::{Rows, in_words};
use crate::raw_cuda::{DMA_BUF_FD, OPAQUE_FD, RawCall};
use crate::scenario::scenarios;
use crate::{Context, Stop, Verdict, ensure_eq, request};

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.dma_buf", None,
        "The driver's own dma-buf is rejected with a typed error by a driver that cannot import it, and comes back.",
        dma_buf, needs [memory OpaqueFd],
        mirrors("hip-tests contract: VmmHandle_GetHandleForAddressRange_DmaBufFd_IsQueryableWhenSupported");
}

const SIZE: u64 = 2 << 20;

fn dma_buf(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let exported = rows.call(&RawCall::ExportDmaBuf)?;
    let Some(fd) = exported.fd else {
        // Without a dma-buf, the library must still reject the kind without a driver call.
        let library = || {
            let request = request::memory(MemoryHandle::DmaBufFd(memfd(SIZE)?), SIZE);
            let kinds = [ErrorKind::Unsupported, ErrorKind::InvalidArgument];
            let (error, request) = rejected(context.device().import_memory(request), &kinds, "a memfd as a dma-buf")?;
            let fd = descriptor(request.into_handle().into_fd())?;
            ensure_eq!(classify_fd(fd.as_fd()), FdKind::Memory, "the returned descriptor");
            Ok(format!("{}; the descriptor came back open", in_words(&error)))
        };
        rows.row("export a dma-buf, and import it", format!("no dma-buf: {}", exported.text), library())?;
        rows.hand_on();
        return Ok(());
    };
    let as_dma_buf: fn(_) -> _ = MemoryHandle::DmaBufFd;
    let kinds = [("a dma-buf", DMA_BUF_FD, as_dma_buf), ("an opaque descriptor", OPAQUE_FD, MemoryHandle::OpaqueFd)];
    for (what, kind, label) in kinds {
        let raw = rows.raw.call(&RawCall::ImportMemory { kind, size: SIZE, flags: 0 }, Some(fd.as_fd()))?.text;
        let library = || {
            let request = request::memory(label(fd.try_clone()?), SIZE);
            match context.device().import_memory(request) {
                Ok(memory) => {
                    memory.close()?;
                    Ok("accepted, and ended".to_owned())
                }
                Err(failure) if failure.kind() == ErrorKind::ImportRejected => {
                    let text = in_words(failure.error());
                    let fd_of = |request: MemoryImport| descriptor(request.into_handle().into_fd());
                    harmless(Err(failure), ExternalMemory::close, fd_of, &fd)?;
                    Ok(format!("{text}; the descriptor came back open"))
                }
                Err(failure) => {
                    let text = in_words(failure.error());
                    ensure_eq!(failure.kind(), ErrorKind::Unsupported, "the error kind: {text}");
                    let fd = descriptor(failure.into_request().into_handle().into_fd())?;
                    match classify_fd(fd.as_fd()) {
                        FdKind::DmaBuf => Ok(format!("{text}; the descriptor came back open")),
                        other => Err(Stop::failed(format!("the returned descriptor is {other}"))),
                    }
                }
            }
        };
        rows.row(&format!("import a dma-buf of the driver as {what}"), raw, library())?;
    }
    rows.hand_on();
    Ok(())
}
