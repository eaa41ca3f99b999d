//! Malformed imports and mappings of memory: descriptors, sizes, flags, ranges, and kinds of handles.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use gpu_interop::handle::{FdKind, KmtHandle, classify_fd};
use gpu_interop::{
    ArrayFormat, ArrayShape, ChannelType, ErrorKind, ExternalMemory, MemoryHandle, MemoryImport, MipmappedArrayDesc,
    SemaphoreHandle,
};
use rustix::event::epoll;

use super::super::import_fd::{descriptor, harmless, memfd, refuse};
use super::super::import_request::{SIZE, prepared, resized, works};
use super::super::{expect_error, rejected};
use super::{Rows, before_the_driver, in_words};
use crate::context::Context;
use crate::leak_check::keeps_descriptors;
use crate::outcome::{Stop, Verdict};
use crate::raw_cuda::{DMA_BUF_FD, OPAQUE_FD, OPAQUE_WIN32, RawCall};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq, request};

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.descriptors", None,
        "Numbers that are not open, /dev/null and directories are rejected by name; the driver alone reports 'unknown' and \
         closes the descriptor.",
        descriptors, needs [memory OpaqueFd];
    "misbehaviour.close_twice", None,
        "After a failure for which the driver closes the descriptor, nothing is closed twice and nothing leaks.",
        close_twice, needs [semaphore OpaqueFd];
    "misbehaviour.import_request", Any,
        "A size of 0, unknown flags and unknown or foreign kinds are rejected before the driver is called, or have no type; \
         the handle still imports.",
        request, mirrors("hip-tests: hipImportExternalMemory_Vulkan_Negative_Parameters");
    "misbehaviour.import_size", Any,
        "Sizes that the driver alone accepts: impossible ones are rejected, and no byte outside the allocation can be mapped.",
        size;
    "misbehaviour.map_range", Any,
        "Empty mappings and mappings past the end are rejected before the driver is called; an unaligned one shows the right \
         bytes.",
        map_range, mirrors("hip-tests: hipExternalMemoryGetMappedBuffer_Vulkan_Negative_Parameters");
    "misbehaviour.mip_levels", Any,
        "20 levels and 0 levels, which crashed the driver, are rejected before it is called.", mip_levels,
        mirrors("hip-tests: hipExternalMemoryGetMappedMipmappedArray_Vulkan_Negative_Parameters");
    "misbehaviour.destroy_memory", Any,
        "Memory closed while mapped lives as long as the mapping, and cannot be closed twice.", destroy_memory,
        mirrors("hip-tests: hipDestroyExternalMemory_Vulkan_Negative_Parameters");
    "misbehaviour.native_memory", None,
        "512 MiB exported by the driver itself import as native memory; importing them as another API's memory crashes \
         some drivers.",
        native, needs [ExportableMemory];
    "misbehaviour.dma_buf", None,
        "The driver's own dma-buf is rejected with a typed error by a driver that cannot import it, and comes back.",
        dma_buf, needs [memory OpaqueFd],
        mirrors("hip-tests contract: VmmHandle_GetHandleForAddressRange_DmaBufFd_IsQueryableWhenSupported");
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

fn map_range(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = prepared(context)?;
    let request = buffer.import_request()?;
    let size = request.size();
    rows.with_memory(&RawCall::KeepMemory { size }, &request)?;
    let memory = context.device().import_memory(request)?;

    let raw = rows.call(&RawCall::MapBuffer { offset: 4, size: 1000, flags: 0 })?.text;
    let library = || {
        let mapped = memory.map_buffer(4..1004)?;
        let stream = context.stream()?;
        context.pattern().verify(4, &context.read(&stream, &mapped)?, "1,000 bytes from offset 4")?;
        Ok("accepted; these bytes and no others".into())
    };
    rows.row("map 1,000 bytes from offset 4", raw, library())?;

    for (what, offset, length) in [("map a size of 0", 0, 0), ("map from the end", size, 1)] {
        let raw = rows.call(&RawCall::MapBuffer { offset, size: length, flags: 0 })?.text;
        let refusal = expect_error(memory.map_buffer(offset..offset + length), ErrorKind::InvalidArgument, "the range");
        rows.row(what, raw, refusal.and_then(|error| before_the_driver(&error)))?;
    }
    let raw = rows.call(&RawCall::MapBuffer { offset: 0, size, flags: 1 })?.text;
    rows.row("map with a flag", raw, Ok("has no type: there is no flag".into()))?;
    rows.hand_on();
    Ok(())
}

fn mip_levels(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    // Enough for all levels of 256 x 128 texels.
    let buffer = context.buffer(1 << 20)?;
    let request = buffer.import_request()?;
    rows.with_memory(&RawCall::KeepMemory { size: request.size() }, &request)?;
    let memory = context.device().import_memory(request)?;
    let shape = ArrayShape::D2 { width: 256, height: 128 };
    let desc = MipmappedArrayDesc::new(shape, ArrayFormat::new(ChannelType::Uint8, 4)?);
    for levels in [20, 0] {
        rows.replace_lost_process(|rows| {
            let request = buffer.import_request()?;
            rows.with_memory(&RawCall::KeepMemory { size: request.size() }, &request)
        })?;
        let raw = rows.call(&RawCall::MapMipmappedArray { levels })?.text;
        let mapped = memory.map_mipmapped_array(&desc.with_levels(levels));
        let refusal = expect_error(mapped, ErrorKind::InvalidArgument, "the number of levels");
        rows.row(
            &format!("map an array of 256 x 128 texels with {levels} levels"),
            raw,
            refusal.and_then(|error| before_the_driver(&error)),
        )?;
    }
    memory.close()?;
    rows.end()
}

fn destroy_memory(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = prepared(context)?;
    let request = buffer.import_request()?;
    let size = request.size();
    rows.with_memory(&RawCall::KeepMemory { size }, &request)?;
    let raw = rows.call(&RawCall::DestroyWhileMapped)?.text;
    // Only the process filled the first page.
    buffer.put(context.pattern())?;
    let library = || {
        let memory = context.device().import_memory(request)?;
        let mapped = memory.map_buffer(0..8192)?;
        memory.close()?;
        let stream = context.stream()?;
        context.pattern().verify(0, &context.read(&stream, &mapped)?, "data after the import was closed")?;
        mapped.close()?;
        Ok("accepted; the import ends with its last mapping, which has the right data until then".into())
    };
    rows.row("destroy memory while it is mapped", raw, library())?;

    rows.with_memory(&RawCall::KeepMemory { size }, &buffer.import_request()?)?;
    let raw = rows.call(&RawCall::DestroyTwice)?.text;
    let library = || {
        context.import_memory(&*buffer)?.close()?;
        works(context, buffer.import_request()?)?;
        Ok("has no type: closing takes the object away; the exporter's memory imports again".into())
    };
    rows.row("destroy memory twice", raw, library())?;
    rows.end()
}

/// The size from which the driver crashes on hosts with two GPUs, bytes.
const NATIVE_SIZE: u64 = 512 << 20;
/// The length of the checked ranges at its beginning and its end, bytes.
const PART: usize = 64 << 10;

fn native(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let device = context.device();
    let memory = device.allocate_exportable(NATIVE_SIZE)?;
    let request = memory.import_request()?;
    ensure!(request.is_native(), "the device's export lacks the native flag");
    let raw = rows.with_memory(&RawCall::ImportMemory { kind: OPAQUE_FD, size: request.size(), flags: 0 }, &request)?;
    let library = || {
        let imported = device.import_memory(request)?;
        let (stream, part) = (device.create_stream()?, PART as u64);
        let last = NATIVE_SIZE - part;
        let (pattern, other) = (context.pattern(), context.pattern().other());
        for (offset, pattern) in [(0, &pattern), (last, &other)] {
            stream.write(memory.slice(offset..offset + part)?, &pattern.bytes(0, PART))?;
            let mapped = imported.map_buffer(offset..offset + part)?;
            pattern.verify(0, &context.read(&stream, &mapped)?, "data through the import")?;
            let back = pattern.other().other();
            stream.write(&mapped, &back.bytes(0, PART))?;
            let mut found = vec![0; PART];
            stream.read(memory.slice(offset..offset + part)?, &mut found)?;
            back.verify(0, &found, "data written through the import")?;
        }
        imported.close()?;
        Ok("imported as native memory: data right at both ends, both ways".to_owned())
    };
    rows.row("import 512 MiB that the driver itself exported as another API's memory", raw, library())?;
    if rows.raw.is_running() {
        rows.hand_on();
    }
    Ok(())
}

const DMA_BUF_SIZE: u64 = 2 << 20;

fn dma_buf(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let exported = rows.call(&RawCall::ExportDmaBuf)?;
    let Some(fd) = exported.fd else {
        // Without a dma-buf, the library must still reject the kind without a driver call.
        let library = || {
            let request = request::memory(MemoryHandle::DmaBufFd(memfd(DMA_BUF_SIZE)?), DMA_BUF_SIZE);
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
        let raw = rows.raw.call(&RawCall::ImportMemory { kind, size: DMA_BUF_SIZE, flags: 0 }, Some(fd.as_fd()))?.text;
        let library = || {
            let request = request::memory(label(fd.try_clone()?), DMA_BUF_SIZE);
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
