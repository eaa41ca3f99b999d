//! GEM: buffer objects by the handles of an open render node, their addresses on the GPU, and PRIME descriptors.

use rustix::fd::{BorrowedFd, IntoRawFd as _};
use rustix::io::Errno;

use crate::abi::drm::{
    CreateInfo, DOMAIN_VRAM, GemClose, GemCreate, GemMetadata, GemMmap, GemOp, GemUserptr, GemVa, GemWaitIdle,
    PrimeHandle, VA_CLEAR, VA_MAP, VA_REPLACE, VA_UNMAP, VA_WRITEABLE,
};
use crate::abi::{Result, write_user};
use crate::drm::Caller;
use crate::memory::{Owner, Span};
use crate::report::say;

pub(super) fn create(caller: Caller<'_>, value: &mut GemCreate) -> Result<()> {
    let [size, _alignment, domains, _flags] = value.words;
    let size = size.checked_next_multiple_of(4096).filter(|size| *size > 0).ok_or(Errno::INVAL)?;
    let memory = &caller.emulation.memory;
    let storage = if domains & DOMAIN_VRAM != 0 {
        memory.new_vram(caller.gpu, size, &caller.emulation.faults)?
    } else {
        memory.new_system(size)?
    };
    value.words[0] = caller.with_handles(|handles| handles.of(storage))?.into();
    say!(1, "GEM object {}: {size:#x} bytes, domains {domains:#x}", value.words[0]);
    Ok(())
}

pub(super) fn userptr(caller: Caller<'_>, value: &mut GemUserptr) -> Result<()> {
    if value.size == 0 || !value.address.is_multiple_of(4096) || !value.size.is_multiple_of(4096) {
        return Err(Errno::INVAL);
    }
    let storage = caller.emulation.memory.user(value.size, value.address);
    value.handle = caller.with_handles(|handles| handles.of(storage))?;
    Ok(())
}

/// Closing a handle ends the mappings of addresses that were made by it.
pub(super) fn close(caller: Caller<'_>, value: &mut GemClose) -> Result<()> {
    let storage = caller.with_handles(|handles| handles.remove(value.handle)).ok_or(Errno::INVAL)?;
    caller.emulation.memory.unmap_object(caller.gpu.index, &storage);
    say!(1, "GEM object {} is closed", value.handle);
    Ok(())
}

/// The offset for mapping an object through the render node.
pub(super) fn mmap_offset(caller: Caller<'_>, value: &mut GemMmap) -> Result<()> {
    let handle = u32::try_from(value.word & 0xffff_ffff).map_err(|_| Errno::INVAL)?;
    value.word = caller.object(handle)?.mmap_offset();
    Ok(())
}

pub(super) fn address(caller: Caller<'_>, value: &mut GemVa) -> Result<()> {
    let (memory, gpu) = (&caller.emulation.memory, caller.gpu.index);
    say!(
        1,
        "GEM object {}: operation {} at {:#x}, {:#x} bytes from {:#x} on, flags {:#x}",
        value.handle,
        value.operation,
        value.address,
        value.size,
        value.offset,
        value.flags
    );
    if !value.address.is_multiple_of(4096) || !value.offset.is_multiple_of(4096) {
        return Err(Errno::INVAL);
    }
    let span = || {
        let storage = caller.object(value.handle)?;
        let end = value.offset.checked_add(value.size).ok_or(Errno::INVAL)?;
        if value.size == 0 || end > storage.size().next_multiple_of(4096) {
            return Err(Errno::INVAL);
        }
        let writable = value.flags & VA_WRITEABLE != 0;
        Ok(Span { length: value.size, storage, offset: value.offset, writable, owner: Owner::Gem })
    };
    match value.operation {
        VA_MAP => memory.map(gpu, value.address, span()?),
        VA_UNMAP => memory.unmap(gpu, value.address).map(drop),
        VA_CLEAR => memory.clear(gpu, value.address, value.size),
        VA_REPLACE => {
            let span = span()?;
            memory.clear(gpu, value.address, value.size)?;
            memory.map(gpu, value.address, span)
        }
        _ => Err(Errno::INVAL),
    }
}

/// The render node executes no work, so every object is idle.
pub(super) fn wait_idle(caller: Caller<'_>, value: &mut GemWaitIdle) -> Result<()> {
    let handle = u32::try_from(value.words[0] & 0xffff_ffff).map_err(|_| Errno::INVAL)?;
    caller.object(handle)?;
    value.words[0] = 0;
    Ok(())
}

/// Objects have no metadata.
pub(super) fn metadata(caller: Caller<'_>, value: &mut GemMetadata) -> Result<()> {
    caller.object(value.handle)?;
    (value.flags, value.tiling, value.bytes) = (0, 0, 0);
    Ok(())
}

pub(super) fn operation(caller: Caller<'_>, value: &mut GemOp) -> Result<()> {
    let storage = caller.object(value.handle)?;
    match value.operation {
        // The creation parameters.
        0 => {
            let domains = if storage.gpu().is_some() { DOMAIN_VRAM } else { 2 };
            let info = CreateInfo { size: storage.size(), alignment: 4096, domains, flags: 0 };
            // SAFETY: the caller of the ioctl passes a writable structure of this kind.
            unsafe { write_user(value.value, info) }
        }
        // The requested domain is ignored: the object is not moved.
        1 => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn import(caller: Caller<'_>, value: &mut PrimeHandle) -> Result<()> {
    // SAFETY: it is used during this call only; if it is closed, its uses fail.
    let descriptor = unsafe { BorrowedFd::borrow_raw(value.descriptor) };
    let storage = caller.emulation.memory.import(caller.gpu.index, descriptor)?;
    value.handle = caller.with_handles(|handles| handles.of(storage))?;
    say!(1, "GEM object {}: descriptor {} imported", value.handle, value.descriptor);
    Ok(())
}

pub(super) fn export(caller: Caller<'_>, value: &mut PrimeHandle) -> Result<()> {
    let storage = caller.object(value.handle)?;
    let file = caller.emulation.memory.export(&storage)?;
    if value.flags & rustix::fs::OFlags::CLOEXEC.bits() == 0 {
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    }
    value.descriptor = file.into_raw_fd();
    say!(1, "GEM object {} is exported as descriptor {}", value.handle, value.descriptor);
    Ok(())
}
