//! NT handles: no driver takes ownership, so the caller keeps its handle after every import.
//!
//! A request owns its handle, as with descriptors; a caller that keeps using its handle passes a duplicate. A returned
//! handle has the same number.

pub(super) mod names;
pub(super) mod other_objects;
pub(super) mod ownership;
pub(super) mod stress;

use std::os::windows::io::{AsRawHandle, OwnedHandle, RawHandle};

use gpu_interop::handle::Win32Object;
use gpu_interop::{
    MemoryHandle, MemoryHandleKind, MemoryImport, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport,
};

use super::import_request::{SIZE, prepared};
use crate::context::Context;
use crate::exporter::ExportedBuffer;
use crate::outcome::{Stop, Verdict};
use crate::system::objects::{is_open, is_same_object};
use crate::{ensure, ensure_eq, request};

/// Creates a memory handle of a kind for an object.
fn memory_of(kind: MemoryHandleKind, object: Win32Object) -> Verdict<MemoryHandle> {
    use MemoryHandleKind as Kind;
    Ok(match kind {
        Kind::OpaqueWin32 => MemoryHandle::OpaqueWin32(object),
        Kind::D3d12Heap => MemoryHandle::D3d12Heap(object),
        Kind::D3d12Resource => MemoryHandle::D3d12Resource(object),
        Kind::D3d11Resource => MemoryHandle::D3d11Resource(object),
        other => return Err(Stop::unsupported(format!("memory is exported as {other}, which is not an NT handle"))),
    })
}

/// Creates a semaphore handle of a kind for an object.
fn semaphore_of(kind: SemaphoreHandleKind, object: Win32Object) -> Verdict<SemaphoreHandle> {
    use SemaphoreHandleKind as Kind;
    Ok(match kind {
        Kind::OpaqueWin32 => SemaphoreHandle::OpaqueWin32(object),
        Kind::TimelineWin32 => SemaphoreHandle::TimelineWin32(object),
        Kind::D3d12Fence => SemaphoreHandle::D3d12Fence(object),
        Kind::D3d11Fence => SemaphoreHandle::D3d11Fence(object),
        Kind::D3d11KeyedMutex => SemaphoreHandle::D3d11KeyedMutex(object),
        other => {
            return Err(Stop::unsupported(format!("a semaphore is exported as {other}, which is not an NT handle")));
        }
    })
}

/// The NT handle of an object that is identified by one.
fn handle_of<H>(object: Result<Win32Object, H>) -> Verdict<OwnedHandle> {
    match object {
        Ok(Win32Object::Handle(handle)) => Ok(handle.into()),
        _ => Err(Stop::failed("the object is not the expected NT handle".into())),
    }
}

fn object(handle: OwnedHandle) -> Win32Object {
    Win32Object::Handle(handle.into())
}

/// Checks that a returned handle has the same number, and still refers to the same object.
fn came_back(handle: OwnedHandle, number: RawHandle, witness: &OwnedHandle, what: &str) -> Verdict<OwnedHandle> {
    let found = handle.as_raw_handle();
    if found == number && is_same_object(number, witness) {
        return Ok(handle);
    }
    // The number may have another owner by now.
    std::mem::forget(handle);
    ensure_eq!(found, number, "{what}: the handle that came back");
    let state = if is_open(number) { "another object's" } else { "no object's" };
    Err(Stop::failed(format!("{what}: the handle {number:?} that came back was closed elsewhere, and is {state} now")))
}

/// An exported handle, kept by the caller and imported by duplicates.
struct Kept {
    /// The exported buffer.
    buffer: Box<dyn ExportedBuffer>,
    own: OwnedHandle,
    /// Another handle of the same object, which is never passed on.
    witness: OwnedHandle,
    kind: MemoryHandleKind,
    size: u64,
    dedicated: bool,
}

impl Kept {
    /// Creates a buffer of [`SIZE`] bytes with the pattern.
    fn new(context: &Context) -> Verdict<Self> {
        let buffer = prepared(context)?;
        let request = buffer.import_request()?;
        let (kind, size, dedicated) = (request.handle().kind(), request.size(), request.is_dedicated());
        if request.handle().as_win32().is_none() {
            return Err(Stop::unsupported(format!("this exporter exports {kind}s")));
        }
        let own = handle_of(request.into_handle().into_win32())?;
        let witness = own.try_clone()?;
        Ok(Self { buffer, own, witness, kind, size, dedicated })
    }

    /// An import by a duplicate of the caller's handle.
    fn request(&self) -> Verdict<MemoryImport> {
        self.request_with(self.own.try_clone()?, self.size)
    }

    /// An import by this handle, with this size.
    fn request_with(&self, handle: OwnedHandle, size: u64) -> Verdict<MemoryImport> {
        Ok(request::memory_with(memory_of(self.kind, object(handle))?, size, self.dedicated))
    }

    /// Fails unless the caller's handle is unchanged.
    fn check(&self, when: &str) -> Verdict {
        let number = self.own.as_raw_handle();
        ensure!(is_open(number), "the caller's own handle {number:?} is closed {when}");
        ensure!(is_same_object(number, &self.witness), "the caller's own handle {number:?} is another object's {when}");
        Ok(())
    }
}

/// As [`Kept`], for semaphores.
struct KeptSemaphore {
    own: OwnedHandle,
    witness: OwnedHandle,
    kind: SemaphoreHandleKind,
}

impl KeptSemaphore {
    fn new(handle: SemaphoreHandle) -> Verdict<Self> {
        let kind = handle.kind();
        let own = handle_of(handle.into_win32())?;
        let witness = own.try_clone()?;
        Ok(Self { own, witness, kind })
    }

    fn request(&self) -> Verdict<SemaphoreImport> {
        Ok(request::semaphore(semaphore_of(self.kind, object(self.own.try_clone()?))?))
    }

    fn check(&self, when: &str) -> Verdict {
        let number = self.own.as_raw_handle();
        ensure!(is_same_object(number, &self.witness), "the caller's own handle {number:?} is lost {when}");
        Ok(())
    }
}
