//! GEM: buffer objects by the handles of an open render node, their addresses on the GPU, and PRIME descriptors.

use rustix::io::Errno;

use crate::abi::drm::{
    CreateInfo, DOMAIN_GTT, DOMAIN_VRAM, GemClose, GemCreate, GemMetadata, GemMmap, GemOp, GemUserptr, GemVa,
    GemWaitIdle, METADATA_GET, METADATA_SET, PrimeHandle, VA_CLEAR, VA_MAP, VA_PRT, VA_REPLACE, VA_UNMAP, VA_WRITEABLE,
};
use crate::abi::{Result, write_user};
use crate::drm::{Caller, passed, returned};
use crate::lock;
use crate::memory::dmabuf::Form;
use crate::memory::{Backing, Owner, Span};
use crate::report::say;
use crate::sync::{Deadline, Fence};

pub(super) fn create(caller: Caller<'_>, value: &mut GemCreate) -> Result<()> {
    let [size, _alignment, domains, flags] = value.words;
    let size = size.checked_next_multiple_of(4096).filter(|size| *size > 0).ok_or(Errno::INVAL)?;
    let memory = &caller.emulation.memory;
    let storage = if domains & DOMAIN_VRAM != 0 {
        memory.new_vram(caller.gpu, size, Form::Plain, &caller.emulation.faults)?
    } else {
        memory.new_system(size, Form::Plain)?
    };
    storage.set_metadata(|metadata| (metadata.domains, metadata.flags) = (domains, flags))?;
    value.words[0] = caller.handle_of(storage)?.into();
    say!(1, "GEM object {}: {size:#x} bytes, domains {domains:#x}", value.words[0]);
    Ok(())
}

pub(super) fn userptr(caller: Caller<'_>, value: &mut GemUserptr) -> Result<()> {
    if value.size == 0 || !value.address.is_multiple_of(4096) || !value.size.is_multiple_of(4096) {
        return Err(Errno::INVAL);
    }
    let storage = caller.emulation.memory.user(value.size, value.address);
    value.handle = caller.handle_of(storage)?;
    Ok(())
}

/// Closing a handle ends the mappings of addresses that were made by it.
pub(super) fn close(caller: Caller<'_>, value: &mut GemClose) -> Result<()> {
    let storage = lock(&caller.file.handles.objects).remove(value.handle).ok_or(Errno::INVAL)?;
    caller.emulation.memory.unmap_object(caller.gpu.index, caller.file.number, &storage);
    say!(1, "GEM object {} is closed", value.handle);
    Ok(())
}

/// The offset for mapping an object through the render node.
pub(super) fn mmap_offset(caller: Caller<'_>, value: &mut GemMmap) -> Result<()> {
    let handle = u32::try_from(value.word & 0xffff_ffff).map_err(|_| Errno::INVAL)?;
    value.word = caller.object(handle)?.mmap_offset();
    Ok(())
}

/// Addresses below are reserved.
pub(super) const FIRST_ADDRESS: u64 = 2 << 20;
/// Addresses in this range are no sign-extended 48-bit addresses.
const HOLE: std::ops::Range<u64> = 1 << 47..0xffff_8000_0000_0000;

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
    let aligned = [value.address, value.offset, value.size].iter().all(|it| it.is_multiple_of(4096));
    if !aligned || value.size == 0 || value.address < FIRST_ADDRESS || HOLE.contains(&value.address) {
        return Err(Errno::INVAL);
    }
    let owner = Owner::Gem(caller.file.number);
    let without_memory = value.flags & VA_PRT != 0;
    let object = || if without_memory { Ok(None) } else { caller.object(value.handle).map(Some) };
    // Page tables are written at once, also with the flag for a delay.
    let span = || {
        let backing = match object()? {
            None => Backing::Nothing,
            Some(storage) => {
                let end = value.offset.checked_add(value.size).ok_or(Errno::INVAL)?;
                if end > storage.size().next_multiple_of(4096) {
                    return Err(Errno::INVAL);
                }
                Backing::Object { storage, offset: value.offset }
            }
        };
        let writable = without_memory || value.flags & VA_WRITEABLE != 0;
        Ok(Span { length: value.size, backing, writable, owner })
    };
    match value.operation {
        VA_MAP => memory.map(gpu, value.address, span()?),
        VA_UNMAP => memory.unmap_of(gpu, value.address, owner, object()?.as_ref()).map(drop),
        VA_CLEAR => memory.clear(gpu, value.address, value.size),
        VA_REPLACE => {
            let span = span()?;
            memory.clear(gpu, value.address, value.size)?;
            memory.map(gpu, value.address, span)
        }
        _ => Err(Errno::INVAL),
    }
}

/// Waits for the submissions that use an object.
pub(super) fn wait_idle(caller: Caller<'_>, value: &mut GemWaitIdle) -> Result<()> {
    let handle = u32::try_from(value.words[0] & 0xffff_ffff).map_err(|_| Errno::INVAL)?;
    let fences: Vec<_> = caller.object(handle)?.users().into_iter().map(Fence::Job).collect();
    let idle = caller.emulation.signals.wait_all(&fences, Deadline::at(value.words[1].cast_signed()));
    value.words[0] = u64::from(!idle);
    Ok(())
}

/// Layouts of images: the kernel stores them for the drivers that share an object.
pub(super) fn metadata(caller: Caller<'_>, value: &mut GemMetadata) -> Result<()> {
    let storage = caller.object(value.handle)?;
    match value.operation {
        METADATA_SET => {
            let bytes = u64::from(value.bytes);
            if bytes > size_of_val(&value.data) as u64 {
                return Err(Errno::INVAL);
            }
            say!(1, "GEM object {}: tiling {:#x}, {bytes} bytes of metadata", value.handle, value.tiling);
            storage.set_metadata(|metadata| {
                (metadata.tiling, metadata.bytes, metadata.data) = (value.tiling, bytes, value.data);
            })
        }
        METADATA_GET => {
            let metadata = storage.metadata();
            value.flags = 0;
            value.tiling = metadata.tiling;
            value.bytes = u32::try_from(metadata.bytes).map_err(|_| Errno::INVAL)?;
            value.data = metadata.data;
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn operation(caller: Caller<'_>, value: &mut GemOp) -> Result<()> {
    let storage = caller.object(value.handle)?;
    match value.operation {
        // The creation parameters.
        0 => {
            let metadata = storage.metadata();
            let domains = match metadata.domains {
                0 if storage.gpu().is_some() => DOMAIN_VRAM,
                0 => DOMAIN_GTT,
                domains => domains,
            };
            let info = CreateInfo { size: storage.size(), alignment: 4096, domains, flags: metadata.flags };
            // SAFETY: the caller of the ioctl passes a writable structure of this kind.
            unsafe { write_user(value.value, info) }
        }
        // The requested domain is ignored: the object is not moved.
        1 => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn import(caller: Caller<'_>, value: &mut PrimeHandle) -> Result<()> {
    let storage = caller.emulation.memory.import(caller.gpu.index, passed(value.descriptor)?)?;
    value.handle = caller.handle_of(storage)?;
    say!(1, "GEM object {}: descriptor {} imported", value.handle, value.descriptor);
    Ok(())
}

pub(super) fn export(caller: Caller<'_>, value: &mut PrimeHandle) -> Result<()> {
    let storage = caller.object(value.handle)?;
    let file = caller.emulation.memory.export(&storage)?;
    value.descriptor = returned(file, value.flags)?;
    say!(1, "GEM object {} is exported as descriptor {}", value.handle, value.descriptor);
    Ok(())
}
