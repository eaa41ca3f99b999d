//! Invalid memory requests with a valid handle.

use gpu_interop::handle::KmtHandle;
use gpu_interop::{ErrorKind, MemoryHandle, MemoryImport};

use super::super::import_request::{SIZE, prepared, resized, works};
use super::super::rejected;
use super::{Rows, before_the_driver, in_words};
use crate::raw_cuda::{OPAQUE_FD, OPAQUE_WIN32, RawCall};
use crate::scenario::scenarios;
use crate::{Context, Stop, Verdict, ensure, ensure_eq, request};

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.import_request", Any,
        "A size of 0, unknown flags and unknown or foreign kinds are rejected before the driver is called, or have no type; \
         the handle still imports.",
        request, mirrors("hip-tests: hipImportExternalMemory_Vulkan_Negative_Parameters");
    "misbehaviour.import_size", Any,
        "Sizes that the driver alone accepts: impossible ones are rejected, and no byte outside the allocation can be mapped.",
        size;
}

const FLAG_DEDICATED: u32 = 1;

fn request(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = prepared(context)?;
    let import = |kind, size, flags| RawCall::ImportMemory { kind, size, flags };

    let request = buffer.import_request()?;
    let size = request.size();
    let raw = rows.with_memory(&import(OPAQUE_FD, 0, 0), &request)?;
    let library = || {
        let result = context.device().import_memory(resized(request, 0));
        let (error, request) = rejected(result, &[ErrorKind::InvalidArgument], "a size of 0")?;
        works(context, resized(request, size))?;
        Ok(format!("{}; the handle came back and imports", before_the_driver(&error)?))
    };
    rows.row("import memory with a size of 0", raw, library())?;

    let raw = rows.with_memory(&import(OPAQUE_FD, size, 0x80), &buffer.import_request()?)?;
    rows.row("import memory with an unknown flag", raw, Ok("has no type: the one flag is a bool".into()))?;
    let raw = rows.with_memory(&import(99, size, 0), &buffer.import_request()?)?;
    rows.row("import memory of an unknown kind", raw, Ok("has no type: kinds are an enum".into()))?;

    let raw = rows.with_memory(&import(OPAQUE_WIN32, size, 0), &buffer.import_request()?)?;
    let library = || {
        let request = request::memory(MemoryHandle::OpaqueWin32Kmt(KmtHandle::new(0x1234)?), size);
        let (error, _) =
            rejected(context.device().import_memory(request), &[ErrorKind::Unsupported], "a Win32 handle")?;
        before_the_driver(&error)
    };
    rows.row("import a descriptor as a Win32 handle", raw, library())?;
    rows.hand_on();
    Ok(())
}

fn size(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = prepared(context)?;
    let import = |size, flags| RawCall::ImportMemory { kind: OPAQUE_FD, size, flags };
    let size = buffer.import_request()?.size();
    let flags = u32::from(buffer.import_request()?.is_dedicated()) * FLAG_DEDICATED;

    let raw = rows.with_memory(&import(size * 1024, flags), &buffer.import_request()?)?;
    rows.row("import memory as 1,024 times its size", raw, excess(context, buffer.import_request()?))?;

    let raw = rows.with_memory(&import(u64::MAX, flags), &buffer.import_request()?)?;
    let library = || {
        let result = context.device().import_memory(resized(buffer.import_request()?, u64::MAX));
        let (error, request) = rejected(result, &[ErrorKind::InvalidArgument], "a size of 2^64 - 1")?;
        works(context, resized(request, size))?;
        Ok(format!("{}; the handle came back and imports", before_the_driver(&error)?))
    };
    rows.row("import memory with a size of 2^64 - 1", raw, library())?;

    // The real size is not visible.
    let raw = rows.with_memory(&import(size / 2, flags), &buffer.import_request()?)?;
    let library = || {
        let memory = context.device().import_memory(resized(buffer.import_request()?, size / 2))?;
        let mapped = memory.map_buffer(0..(size / 2).min(SIZE))?;
        let stream = context.stream()?;
        context.pattern().verify(0, &context.read(&stream, &mapped)?, "the half that was imported")?;
        let beyond = super::super::expect_error(
            memory.map_buffer(size / 2..size / 2 + 1),
            ErrorKind::InvalidArgument,
            "a mapping beyond the size that was given",
        )?;
        before_the_driver(&beyond)?;
        Ok("accepted; the half has the right data, and nothing beyond it can be mapped".into())
    };
    rows.row("import memory as half its size", raw, library())?;

    let raw = rows.with_memory(&import(size, flags ^ FLAG_DEDICATED), &buffer.import_request()?)?;
    let library = || {
        let request = buffer.import_request()?;
        let dedicated = request.is_dedicated();
        works(context, request::with_dedicated(request, !dedicated))?;
        Ok("accepted; the data is right".into())
    };
    rows.row("import memory with the wrong dedicated flag", raw, library())?;
    rows.hand_on();
    Ok(())
}

/// Imports 1,024 times the size. Existing bytes must be right, and missing ones must not be mappable.
fn excess(context: &Context, request: MemoryImport) -> Verdict<String> {
    let size = request.size();
    match context.device().import_memory(resized(request, size * 1024)) {
        Ok(memory) => {
            let Err(error) = memory.map_buffer(size..size * 1024) else {
                return Err(Stop::failed("missing memory was mapped".into()));
            };
            ensure!(
                matches!(error.kind(), ErrorKind::Driver | ErrorKind::InvalidArgument | ErrorKind::OutOfMemory),
                "the error kind: {error}"
            );
            let mapped = memory.map_buffer(0..SIZE)?;
            let stream = context.stream()?;
            context.pattern().verify(0, &context.read(&stream, &mapped)?, "the existing range")?;
            Ok(format!(
                "accepted; the existing range has the right data, the excess cannot be mapped ({})",
                in_words(&error)
            ))
        }
        Err(failure) => {
            let (error, request) = failure.into_parts();
            let typed =
                matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::ImportRejected | ErrorKind::OutOfMemory);
            ensure_eq!(typed, true, "whether the error concerns the handle or the size: {error}");
            works(context, resized(request, size))?;
            Ok(format!("{}; the handle came back and imports", in_words(&error)))
        }
    }
}
