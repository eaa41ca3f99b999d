//! Handles of other objects: a typed error, before the driver is called if the system reports the type, and the handle
//! is returned.

use std::fs::File;
use std::io::{Read, Write};
use std::os::windows::io::{AsRawHandle, FromRawHandle, IntoRawHandle, OwnedHandle};

use gpu_interop::handle::{KmtHandle, NtHandle, ObjectName, Win32Object};
use gpu_interop::{
    ErrorKind, ImportError, MemoryHandle, MemoryHandleKind, MemoryImport, SemaphoreHandle, SemaphoreHandleKind,
};

use super::super::import_request::works;
use super::super::{expect_error, rejected, rejected_before_driver};
use super::{Kept, KeptSemaphore, SIZE, came_back, handle_of, memory_of, object, semaphore_of};
use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::system::objects::{self, is_open, is_same_object};
use crate::{ensure, ensure_eq, request};

scenarios! {
    "import.win32_no_handle", None, "0 and INVALID_HANDLE_VALUE cannot become handles.", no_handle;
    "import.win32_closed", None,
        "The number of a closed handle is rejected before the driver is called, comes back, and is not closed again.",
        closed, needs [memory OpaqueWin32];
    "import.win32_file", None, "A regular file is rejected before the driver is called, and comes back unread.", file;
    "import.win32_pipe", None, "Both ends of a pipe are rejected before the driver is called, and come back unread.", pipe;
    "import.win32_null_device", None, "The null device is rejected before the driver is called, and comes back.",
        |context| refuse(context, File::open("NUL")?, By::Library, "the null device").map(drop);
    "import.win32_process", None, "A process is rejected before the driver is called, and comes back.",
        |context| refuse(context, objects::this_process()?, By::Library, "a process").map(drop);
    "import.win32_thread", None, "A thread is rejected before the driver is called, and comes back.",
        |context| refuse(context, objects::this_thread()?, By::Library, "a thread").map(drop);
    "import.win32_event", None, "An event is rejected and comes back in the same state.", event;
    "import.win32_mutex", None, "A mutex is rejected and comes back.",
        |context| refuse(context, objects::mutex()?, By::Either, "a mutex").map(drop);
    "import.win32_system_semaphore", None, "A semaphore of the system is rejected and comes back with its count.",
        system_semaphore;
    "import.win32_memory_as_semaphore", Any,
        "Memory declared as a semaphore is harmless: a typed error and the handle, or an import that can be closed.",
        memory_as_semaphore, needs [semaphore OpaqueWin32];
    "import.win32_semaphore_as_memory", Any,
        "A semaphore declared as memory is harmless: a typed error and the handle, or an import that can be closed.",
        semaphore_as_memory, needs [memory OpaqueWin32, exporter BinarySemaphores];
    "import.win32_other_kinds", None,
        "NT, name and KMT handles of unsupported kinds are rejected before the driver is called, and come back.",
        other_kinds;
    "import.win32_sizes_within", Any, "Every size up to the allocation's imports and maps with the right data.", within;
    "import.win32_sizes_beyond", Any,
        "Sizes beyond the allocation, near 2^32 and near the address limit are rejected, at the import or at the mapping of \
         the excess; the same handle comes back and works.",
        beyond;
}

const MEMORY: [MemoryHandleKind; 4] = [
    MemoryHandleKind::OpaqueWin32,
    MemoryHandleKind::D3d12Heap,
    MemoryHandleKind::D3d12Resource,
    MemoryHandleKind::D3d11Resource,
];
const SEMAPHORES: [SemaphoreHandleKind; 5] = [
    SemaphoreHandleKind::OpaqueWin32,
    SemaphoreHandleKind::TimelineWin32,
    SemaphoreHandleKind::D3d12Fence,
    SemaphoreHandleKind::D3d11Fence,
    SemaphoreHandleKind::D3d11KeyedMutex,
];

/// The layer that must reject the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The library, before the driver is called.
    Library,
    /// The library or the driver.
    Either,
}

impl By {
    fn kinds(self) -> &'static [ErrorKind] {
        match self {
            Self::Library => &[ErrorKind::InvalidArgument],
            Self::Either => &[ErrorKind::InvalidArgument, ErrorKind::ImportRejected],
        }
    }
}

/// Imports a handle as memory and as a semaphore of every kind that the device imports. It must be rejected and
/// returned.
fn refuse(context: &Context, handle: impl Into<OwnedHandle>, by: By, what: &str) -> Verdict<OwnedHandle> {
    let (mut handle, capabilities): (OwnedHandle, _) = (handle.into(), context.device().capabilities());
    let (number, witness) = (handle.as_raw_handle(), handle.try_clone()?);
    let mut asked = 0;
    for kind in MEMORY.into_iter().filter(|kind| capabilities.memory(*kind).is_supported()) {
        let request = request::memory_with(memory_of(kind, object(handle))?, 4096, kind.requires_dedicated());
        let (error, request) = rejected(context.device().import_memory(request), by.kinds(), what)?;
        ensure!(by == By::Either || error.code().is_none(), "the driver was called about {what}, as {kind}: {error}");
        ensure!(error.to_string().contains("4096"), "the text does not name the size: {error}");
        handle = came_back(handle_of(request.into_handle().into_win32())?, number, &witness, what)?;
        asked += 1;
    }
    for kind in SEMAPHORES.into_iter().filter(|kind| capabilities.semaphore(*kind).is_supported()) {
        let result = context.device().import_semaphore(request::semaphore(semaphore_of(kind, object(handle))?));
        let (_, request) = rejected(result, by.kinds(), what)?;
        handle = came_back(handle_of(request.into_handle().into_win32())?, number, &witness, what)?;
        asked += 1;
    }
    if asked == 0 {
        return Err(Stop::unsupported("the device imports no NT handles".into()));
    }
    Ok(handle)
}

fn no_handle(_: &Context) -> Verdict {
    for number in [0, usize::MAX] {
        // SAFETY: neither is a handle, and neither is accepted.
        let handle = unsafe { NtHandle::from_raw(std::ptr::without_provenance_mut(number)) };
        expect_error(handle, ErrorKind::InvalidArgument, "a number that is not a handle")?;
    }
    Ok(())
}

fn closed(context: &Context) -> Verdict {
    // No other handle gets this number. Wine assigns lower numbers first, and lower numbers are free. Windows assigns
    // the number that was closed last, and other handles are closed after this one.
    let mut fillers = (0..512).map(|_| objects::event()).collect::<Result<Vec<_>, _>>()?;
    fillers.sort_by_key(|handle| handle.as_raw_handle().addr());
    let Some(highest) = fillers.pop() else { return Err(Stop::failed("no handles were made".into())) };
    let number = highest.as_raw_handle();
    let closed_after = fillers.split_off(fillers.len() / 2);
    drop(fillers);
    drop(highest);
    drop(closed_after);
    // SAFETY: simulates a stray close elsewhere; the owner of the number is forgotten below.
    let stale = unsafe { OwnedHandle::from_raw_handle(number) };
    let request = request::memory(MemoryHandle::OpaqueWin32(object(stale)), 4096);
    let (error, back) = match context.device().import_memory(request) {
        Ok(imported) => {
            std::mem::forget(imported);
            return Err(Stop::failed("a closed handle was accepted".into()));
        }
        Err(failure) => failure.into_parts(),
    };
    // Before the error is checked: the number must not be closed.
    let back = match back.into_handle() {
        MemoryHandle::OpaqueWin32(Win32Object::Handle(handle)) => Some(OwnedHandle::from(handle).into_raw_handle()),
        other => {
            std::mem::forget(other);
            None
        }
    };
    ensure_eq!(back, Some(number), "the number that came back");
    ensure_eq!(error.kind(), ErrorKind::InvalidArgument, "the error kind: {error}");
    ensure!(error.code().is_none(), "the driver was called: {error}");
    ensure!(error.to_string().contains(&format!("{:#x}", number.addr())), "the text does not name it: {error}");
    ensure!(!is_open(number), "the number of the closed handle is open");
    Ok(())
}

fn file(context: &Context) -> Verdict {
    // An object whose name ends once its handles are closed.
    refuse(context, tempfile::tempfile()?, By::Library, "a file that is deleted when it is closed")?;
    let named = tempfile::NamedTempFile::new()?;
    std::fs::write(named.path(), b"unread")?;
    let back = refuse(context, File::open(named.path())?, By::Library, "a file on disk")?;
    let mut text = String::new();
    File::from(back).read_to_string(&mut text)?;
    ensure_eq!(text, "unread", "the file's contents from its handle's position");
    refuse(context, File::open(std::env::current_exe()?)?, By::Library, "a running program's file").map(drop)
}

fn pipe(context: &Context) -> Verdict {
    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(b"unread")?;
    let reader = refuse(context, reader, By::Library, "the reading end of a pipe")?;
    drop(refuse(context, writer, By::Library, "the writing end of a pipe")?);
    let mut text = String::new();
    std::io::PipeReader::from(reader).read_to_string(&mut text)?;
    ensure_eq!(text, "unread", "the pipe's contents");
    Ok(())
}

fn event(context: &Context) -> Verdict {
    let back = refuse(context, objects::event()?, By::Either, "an event")?;
    ensure!(objects::take(&back)?, "a wait has reset the event");
    ensure!(!objects::take(&back)?, "the event is of another kind than before");
    Ok(())
}

fn system_semaphore(context: &Context) -> Verdict {
    let back = refuse(context, objects::semaphore()?, By::Either, "a semaphore of the system")?;
    ensure!(objects::take(&back)? && !objects::take(&back)?, "the semaphore's count has changed");
    Ok(())
}

/// Drivers may be unable to distinguish the two, so both outcomes are legal; a crash, a lost handle or an untyped error
/// is not.
fn harmless<T, R: std::fmt::Debug>(
    imported: Result<T, ImportError<R>>,
    close: impl FnOnce(T) -> gpu_interop::Result<()>,
    handle: impl FnOnce(R) -> Verdict<OwnedHandle>,
    (number, witness): (std::os::windows::io::RawHandle, &OwnedHandle),
) -> Verdict {
    match imported {
        Ok(object) => close(object)?,
        Err(failure) => {
            ensure_eq!(failure.kind(), ErrorKind::ImportRejected, "the error kind");
            came_back(handle(failure.into_request())?, number, witness, "a rejected handle")?;
        }
    }
    ensure!(!is_same_object(number, witness), "the import's handle is open after its end");
    Ok(())
}

fn memory_as_semaphore(context: &Context) -> Verdict {
    let kept = Kept::new(context)?;
    let handle = kept.own.try_clone()?;
    let number = handle.as_raw_handle();
    let imported = context.device().import_semaphore(request::semaphore(SemaphoreHandle::OpaqueWin32(object(handle))));
    let back = |request: gpu_interop::SemaphoreImport| handle_of(request.into_handle().into_win32());
    harmless(imported, gpu_interop::ExternalSemaphore::close, back, (number, &kept.witness))?;
    kept.check("afterwards")
}

fn semaphore_as_memory(context: &Context) -> Verdict {
    let kept = KeptSemaphore::new(context.exporter()?.binary_semaphore()?.export()?)?;
    let handle = kept.own.try_clone()?;
    let number = handle.as_raw_handle();
    let imported = context.device().import_memory(request::memory(MemoryHandle::OpaqueWin32(object(handle)), 4096));
    let back = |request: MemoryImport| handle_of(request.into_handle().into_win32());
    harmless(imported, gpu_interop::ExternalMemory::close, back, (number, &kept.witness))?;
    kept.check("afterwards")
}

fn other_kinds(context: &Context) -> Verdict {
    let (device, capabilities) = (context.device(), context.device().capabilities());
    let name = || Ok::<_, gpu_interop::Error>(Win32Object::Name(ObjectName::new("Local\\gpu-interop-conformance")?));
    let kmt = KmtHandle::new(0x4000_0042)?;
    let mut memory = vec![MemoryHandle::OpaqueWin32Kmt(kmt), MemoryHandle::D3d11ResourceKmt(kmt)];
    let mut semaphores = vec![SemaphoreHandle::OpaqueWin32Kmt(kmt), SemaphoreHandle::D3d11KeyedMutexKmt(kmt)];
    for kind in MEMORY {
        memory.extend([memory_of(kind, name()?)?, memory_of(kind, object(objects::section(None, 4096)?))?]);
    }
    for kind in SEMAPHORES {
        semaphores.extend([semaphore_of(kind, name()?)?, semaphore_of(kind, object(objects::section(None, 4096)?))?]);
    }
    let mut asked = 0;
    for handle in memory {
        let (kind, text) = (handle.kind(), format!("{handle:?}"));
        if capabilities.memory(kind).is_supported() {
            continue;
        }
        asked += 1;
        let request = request::memory_with(handle, 4096, kind.requires_dedicated());
        let (_, request) = rejected_before_driver(device.import_memory(request), &[ErrorKind::Unsupported], "memory")?;
        ensure_eq!(format!("{:?}", request.handle()), text, "the handle that came back");
    }
    for handle in semaphores {
        let (kind, text) = (handle.kind(), format!("{handle:?}"));
        if capabilities.semaphore(kind).is_supported() {
            continue;
        }
        asked += 1;
        let result = device.import_semaphore(request::semaphore(handle));
        let (_, request) = rejected(result, &[ErrorKind::Unsupported], "a semaphore")?;
        ensure_eq!(format!("{:?}", request.handle()), text, "the handle that came back");
    }
    if asked == 0 {
        return Err(Stop::unsupported("the device imports every kind of handle".into()));
    }
    Ok(())
}

/// No driver allocates in units greater than this, bytes.
const UNIT: u64 = 2 << 20;

fn within(context: &Context) -> Verdict {
    let kept = Kept::new(context)?;
    let stream = context.stream()?;
    for size in [1, 2, 4095, 4096, 4097, SIZE - 1, SIZE, kept.size - 1, kept.size] {
        let memory = context.device().import_memory(kept.request_with(kept.own.try_clone()?, size)?)?;
        ensure_eq!(memory.size(), size, "the size of the import");
        let mapped = memory.map_buffer(0..size)?;
        let known = size.min(SIZE);
        let mut found = vec![0; usize::try_from(known)?];
        stream.read(mapped.slice(..known)?, &mut found)?;
        context.pattern().verify(0, &found, format_args!("an import of {size} bytes"))?;
        let error = memory.map_buffer(0..size + 1).err();
        ensure_eq!(
            error.map(|error| error.kind()),
            Some(ErrorKind::InvalidArgument),
            "a mapping of {size} bytes and one"
        );
    }
    kept.check("after all sizes")
}

fn beyond(context: &Context) -> Verdict {
    const GIB_4: u64 = 1 << 32;
    let kept = Kept::new(context)?;
    let end = kept.size.next_multiple_of(UNIT);
    let sizes = [
        end + 1,
        end + 4096,
        GIB_4 - 1,
        GIB_4,
        GIB_4 + 1,
        GIB_4 + kept.size,
        1 << 56,
        (1 << 57) + 1,
        i64::MAX.unsigned_abs(),
        1 << 63,
        u64::MAX,
    ];
    for size in sizes {
        let handle = kept.own.try_clone()?;
        let number = handle.as_raw_handle();
        match context.device().import_memory(kept.request_with(handle, size)?) {
            Err(failure) => {
                let kinds = [ErrorKind::InvalidArgument, ErrorKind::ImportRejected, ErrorKind::OutOfMemory];
                ensure!(kinds.contains(&failure.kind()), "a size of {size}: {failure}");
                ensure!(failure.to_string().contains(&size.to_string()), "the text does not name the size: {failure}");
                let back = handle_of(failure.into_request().into_handle().into_win32())?;
                let back = came_back(back, number, &kept.witness, &format!("a size of {size}"))?;
                works(context, kept.request_with(back, kept.size)?)?;
            }
            Ok(_) if size > 1 << 57 => return Err(Stop::failed(format!("{size} bytes were accepted"))),
            // CUDA's driver trusts the caller.
            Ok(memory) => {
                ensure!(memory.map_buffer(end..size).is_err(), "{size} bytes: a missing range was mapped");
                memory.close()?;
            }
        }
        kept.check(&format!("after a size of {size}"))?;
    }
    Ok(())
}
