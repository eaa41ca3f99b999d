//! Imports of random sizes and descriptors, and random mappings.

use std::fs::File;
use std::os::fd::OwnedFd;

use gpu_interop::{ErrorKind, ExternalMemory, MemoryHandle};
use proptest::collection::vec;
use proptest::prelude::*;
use rustix::event::EventfdFlags;

use super::super::import_fd::descriptor;
use super::{check, with_all_descriptors_back};
use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::outcome::{Stop, StopKind, Verdict};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq, request};

scenarios! {
    "property.imports", Any,
        "Imports of random sizes, flags, kinds and descriptors (semaphores too, if the exporter has some), and random \
         mappings: the data is right, or the error is typed and the handle comes back.",
        imports, needs [memory OpaqueFd];
}

const SIZE: u64 = 70_001;

/// The file of the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandleKind {
    Exported,
    Semaphore,
    Pipe,
    Directory,
    File,
    Eventfd,
    NotOpen,
}

#[derive(Debug, Clone)]
struct Request {
    kind: HandleKind,
    size: u64,
    dedicated: bool,
    as_dma_buf: bool,
    /// Offsets and lengths.
    maps: Vec<(u64, u64)>,
}

fn requests(real: u64, semaphores: bool) -> impl Strategy<Value = Request> {
    let kind = prop_oneof![
        8 => Just(HandleKind::Exported),
        u32::from(semaphores) => Just(HandleKind::Semaphore),
        1 => Just(HandleKind::Pipe),
        1 => Just(HandleKind::Directory),
        1 => Just(HandleKind::File),
        1 => Just(HandleKind::Eventfd),
        1 => Just(HandleKind::NotOpen),
    ];
    let size = prop_oneof![
        6 => Just(real),
        2 => 0..real,
        1 => real + 1..real * 64,
        1 => any::<u64>(),
    ];
    let number = move || prop_oneof![6 => 0..SIZE, 2 => 0..real * 2, 1 => any::<u64>()];
    let maps = vec((number(), number()), 0..4);
    (kind, size, prop::bool::weighted(0.2), prop::bool::weighted(0.1), maps)
        .prop_map(|(kind, size, dedicated, as_dma_buf, maps)| Request { kind, size, dedicated, as_dma_buf, maps })
}

/// The largest allocation unit of drivers.
const UNIT: u64 = 2 << 20;

fn imports(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE)?;
    buffer.put(context.pattern())?;
    let right = buffer.import_request()?;
    let (real, dedicated) = (right.size(), right.is_dedicated());
    // Resources of the first use may stay open.
    drop(context.device().import_memory(right)?);
    let semaphores = match context.exporter()?.binary_semaphore() {
        Ok(_) => true,
        Err(Stop { kind: StopKind::Unsupported, reason, .. }) => {
            context.leave_out(format!("descriptors of semaphores: {reason}"));
            false
        }
        Err(stop) => return Err(stop),
    };
    check(context, "property.imports", 64, &requests(real, semaphores), |request| {
        with_all_descriptors_back(|| import(context, &*buffer, (real, dedicated), request))
    })
}

/// The descriptor of a request, if it is open.
fn open(context: &Context, buffer: &dyn ExportedBuffer, kind: HandleKind) -> Verdict<Option<OwnedFd>> {
    Ok(Some(match kind {
        HandleKind::Exported => descriptor(buffer.import_request()?.into_handle().into_fd())?,
        HandleKind::Semaphore => descriptor(context.exporter()?.binary_semaphore()?.export()?.into_fd())?,
        HandleKind::Pipe => rustix::pipe::pipe()?.0,
        HandleKind::Directory => File::open("/")?.into(),
        HandleKind::File => File::open(std::env::current_exe()?)?.into(),
        HandleKind::Eventfd => rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?,
        HandleKind::NotOpen => return Ok(None),
    }))
}

fn import(
    context: &Context,
    buffer: &dyn ExportedBuffer,
    (real, dedicated): (u64, bool),
    request: &Request,
) -> Verdict {
    let Some(fd) = open(context, buffer, request.kind)? else {
        // SAFETY: no process has as many descriptors, so the number is not open.
        let handle = unsafe { MemoryHandle::opaque_from_raw_fd(i32::MAX - 1) };
        ensure!(handle.is_err(), "a number that is not open became a handle");
        return Ok(());
    };
    let file = rustix::fs::fstat(&fd)?;
    let handle = if request.as_dma_buf { MemoryHandle::DmaBufFd(fd) } else { MemoryHandle::OpaqueFd(fd) };
    let wanted = request::memory_with(handle, request.size, request.dedicated);
    // SAFETY: nothing truncates any of these files.
    let wanted = unsafe { wanted.trusted_peer(true) };
    match (context.device().import_memory(wanted), request.kind) {
        (Ok(memory), HandleKind::Exported) => {
            ensure!(request.size > 0, "a size of 0 was accepted");
            let told_right = request.dedicated == dedicated && request.size <= real;
            let real = (real, told_right);
            request.maps.iter().try_for_each(|(offset, length)| map(context, &memory, real, *offset, *length))?;
            Ok(memory.close()?)
        }
        // Some drivers accept it, and nothing can be mapped.
        (Ok(memory), HandleKind::Semaphore) => Ok(memory.close()?),
        (Ok(_), kind) => Err(Stop::failed(format!("a descriptor of the kind {kind:?} was accepted as memory"))),
        (Err(failure), kind) => {
            let is_right = kind == HandleKind::Exported
                && (request.size, request.dedicated, request.as_dma_buf) == (real, dedicated, false);
            ensure!(!is_right, "the exporter's own request was rejected: {failure}");
            typed(failure.error())?;
            let returned = rustix::fs::fstat(descriptor(failure.into_request().into_handle().into_fd())?)?;
            ensure_eq!((returned.st_dev, returned.st_ino), (file.st_dev, file.st_ino), "the file that came back");
            Ok(())
        }
    }
}

fn typed(error: &gpu_interop::Error) -> Verdict {
    use ErrorKind as Kind;
    let kinds = [Kind::InvalidArgument, Kind::ImportRejected, Kind::OutOfMemory, Kind::Unsupported];
    ensure!(kinds.contains(&error.kind()), "rejected with an error of the kind {:?}: {error}", error.kind());
    Ok(())
}

/// Maps a range of memory of `real` bytes, of which the first `SIZE` have the pattern. `accurate` is true if the
/// import's size is within `real` and its dedicated flag is right.
fn map(
    context: &Context,
    memory: &ExternalMemory,
    (real, told_right): (u64, bool),
    offset: u64,
    length: u64,
) -> Verdict {
    let inside = |size: u64| length > 0 && offset.checked_add(length).is_some_and(|end| end <= size);
    match memory.map_buffer(offset..offset.wrapping_add(length)) {
        Ok(mapped) => {
            ensure!(inside(memory.size()), "{length} bytes at {offset} of {} were mapped", memory.size());
            // A driver knows the allocation's units, not its end within the last one.
            let allocated = real.next_multiple_of(UNIT);
            ensure!(inside(allocated), "{length} bytes at {offset} were mapped of memory that has {real}");
            let known = length.min(SIZE.saturating_sub(offset));
            if known > 0 {
                let mut found = vec![0; usize::try_from(known)?];
                context.stream()?.read(mapped.slice(..known)?, &mut found)?;
                context.pattern().verify(offset, &found, format_args!("{length} bytes mapped at {offset}"))?;
            }
            Ok(mapped.close()?)
        }
        Err(error) if !inside(memory.size()) => {
            ensure_eq!(error.kind(), ErrorKind::InvalidArgument, "the error kind of {length} bytes at {offset}");
            ensure!(error.code().is_none(), "the driver was called for {length} bytes at {offset}: {error}");
            Ok(())
        }
        // The import trusted the caller's size; the driver knows the real one.
        Err(_) if !inside(real) => Ok(()),
        // A driver may map a falsely dedicated allocation from its beginning only, and maps the whole declared size.
        Err(error) if !told_right && error.code().is_some() => Ok(()),
        Err(error) => {
            Err(Stop::failed(format!("{length} bytes at {offset} of {real} cannot be mapped: {error}"))
                .with_error(&error))
        }
    }
}
