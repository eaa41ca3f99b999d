//! Buffer objects: allocation, mapping, dma-bufs.

use std::sync::Arc;

use rustix::fd::{BorrowedFd, IntoRawFd as _};
use rustix::io::Errno;

use crate::abi::kfd::{
    AllocMemory, AvailableMemory, DmabufInfo, ExportDmabuf, FLAG_DOORBELL, FLAG_GTT, FLAG_MMIO_REMAP, FLAG_USERPTR,
    FLAG_VRAM, FLAG_WRITABLE, FreeMemory, ImportDmabuf, MMAP_GPU_SHIFT, MMAP_TYPE_DOORBELL, MMAP_TYPE_REGISTERS,
    MMAP_TYPE_SHIFT, MapMemory,
};
use crate::abi::{Result, read_user, write_user};
use crate::emulation::Emulation;
use crate::gpu::Gpu;
use crate::memory::dmabuf::Form;
use crate::memory::{Backing, Buffer, Owner, Span};
use crate::report::say;

pub(super) fn available(emulation: &Emulation, value: &mut AvailableMemory) -> Result<()> {
    let gpu = emulation.gpu(value.gpu_id)?;
    value.available = gpu.vram.saturating_sub(emulation.memory.vram_used(gpu.index));
    Ok(())
}

/// The `mmap` offset of `/dev/kfd` for pages of this kind of a GPU.
fn page_offset(kind: u64, gpu: &Gpu) -> u64 {
    kind << MMAP_TYPE_SHIFT | u64::from(gpu.id()) << MMAP_GPU_SHIFT
}

/// The `mmap` offset of `/dev/kfd` for a GPU's doorbells.
pub(super) fn doorbell_offset(gpu: &Gpu) -> u64 {
    page_offset(MMAP_TYPE_DOORBELL, gpu)
}

pub(super) fn allocate(emulation: &Emulation, value: &mut AllocMemory) -> Result<()> {
    let gpu = emulation.gpu(value.gpu_id)?;
    if value.size == 0 {
        return Err(Errno::INVAL);
    }
    let memory = &emulation.memory;
    let (storage, offset) = if value.flags & FLAG_USERPTR != 0 {
        (memory.user(value.size, value.mmap_offset), Some(value.mmap_offset))
    } else if value.flags & FLAG_DOORBELL != 0 {
        let page = emulation.doorbells.get(gpu.index).ok_or(Errno::INVAL)?;
        (Arc::clone(page), Some(doorbell_offset(gpu)))
    } else if value.flags & FLAG_MMIO_REMAP != 0 {
        let page = emulation.registers.get(gpu.index).ok_or(Errno::INVAL)?;
        (Arc::clone(page), Some(page_offset(MMAP_TYPE_REGISTERS, gpu)))
    } else if value.flags & FLAG_VRAM != 0 {
        (memory.new_vram(gpu, value.size, Form::Lavapipe, &emulation.faults)?, None)
    } else if value.flags & FLAG_GTT != 0 {
        (memory.new_system(value.size, Form::Lavapipe)?, None)
    } else {
        return Err(Errno::INVAL);
    };
    value.mmap_offset = offset.unwrap_or_else(|| storage.mmap_offset());
    let buffer = Buffer {
        storage,
        address: value.va_addr,
        writable: value.flags & FLAG_WRITABLE != 0,
        imported: false,
        mapped: Vec::new(),
    };
    value.handle = memory.buffers().insert(gpu.id(), buffer);
    let AllocMemory { va_addr, size, flags, handle, .. } = value;
    say!(1, "buffer object {handle:#x}: {size:#x} bytes at {va_addr:#x}, flags {flags:#x}");
    Ok(())
}

pub(super) fn free(emulation: &Emulation, value: &mut FreeMemory) -> Result<()> {
    let mut buffers = emulation.memory.buffers();
    let buffer = buffers.get(value.handle).ok_or(Errno::INVAL)?;
    if !buffer.mapped.is_empty() {
        say!(1, "buffer object {:#x} is freed while it is mapped", value.handle);
        return Err(Errno::BUSY);
    }
    let buffer = buffers.remove(value.handle);
    drop(buffers);
    say!(
        1,
        "buffer object {:#x} is freed{}",
        value.handle,
        if buffer.is_some_and(|it| it.imported) { " (imported)" } else { "" }
    );
    Ok(())
}

/// The GPUs of a map or unmap.
fn devices<'a>(emulation: &'a Emulation, value: &MapMemory) -> Result<Vec<&'a Gpu>> {
    if value.devices == 0 || value.successes > value.devices {
        return Err(Errno::INVAL);
    }
    let id = |index: u32| {
        // SAFETY: the caller of the ioctl passes an array of this many numbers.
        let id = unsafe { read_user::<u32>(value.device_ids.wrapping_add(u64::from(index) * 4))? };
        emulation.gpu(id)
    };
    (0..value.devices).map(id).collect()
}

pub(super) fn map(emulation: &Emulation, value: &mut MapMemory) -> Result<()> {
    let gpus = devices(emulation, value)?;
    let mut buffers = emulation.memory.buffers();
    let buffer = buffers.get_mut(value.handle).ok_or(Errno::INVAL)?;
    for gpu in gpus {
        if !buffer.mapped.contains(&gpu.index) {
            let length = buffer.storage.size().next_multiple_of(4096);
            let storage = Arc::clone(&buffer.storage);
            let backing = Backing::Object { storage, offset: 0 };
            let span = Span { length, backing, writable: buffer.writable, owner: Owner::Kfd };
            emulation.memory.map(gpu.index, buffer.address, span)?;
            buffer.mapped.push(gpu.index);
        }
        value.successes += 1;
    }
    value.successes = value.devices;
    Ok(())
}

pub(super) fn unmap(emulation: &Emulation, value: &mut MapMemory) -> Result<()> {
    let gpus = devices(emulation, value)?;
    let mut buffers = emulation.memory.buffers();
    let buffer = buffers.get_mut(value.handle).ok_or(Errno::INVAL)?;
    for gpu in gpus {
        if let Some(at) = buffer.mapped.iter().position(|index| *index == gpu.index) {
            emulation.memory.unmap(gpu.index, buffer.address)?;
            buffer.mapped.swap_remove(at);
        }
    }
    value.successes = value.devices;
    Ok(())
}

/// A descriptor passed by the application.
fn descriptor<'a>(number: u32) -> Result<BorrowedFd<'a>> {
    let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: it is used during this call only; if it is closed, its uses fail.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

pub(super) fn dmabuf_info(emulation: &Emulation, value: &mut DmabufInfo) -> Result<()> {
    let first = emulation.gpus.first().ok_or(Errno::INVAL)?;
    let storage = emulation.memory.import(first.index, descriptor(value.dmabuf_fd)?)?;
    let owner = storage.gpu().and_then(|index| emulation.gpus.get(index));
    let metadata = storage.metadata();
    let set = u32::try_from(metadata.bytes).map_err(|_| Errno::INVAL)?;
    let room = std::mem::replace(&mut value.metadata_size, set);
    if value.metadata != 0 && room >= set {
        let words = metadata.data.as_flattened().iter().copied().take(set.div_ceil(4) as usize);
        for (at, word) in (value.metadata..).step_by(4).zip(words) {
            // SAFETY: the caller of the ioctl passes a buffer of `room` bytes, whole words.
            unsafe { write_user(at, word)? };
        }
    }
    value.size = storage.size();
    value.gpu_id = owner.unwrap_or(first).id();
    value.flags = if owner.is_some() { FLAG_VRAM } else { FLAG_GTT };
    Ok(())
}

pub(super) fn import(emulation: &Emulation, value: &mut ImportDmabuf) -> Result<()> {
    let gpu = emulation.gpu(value.gpu_id)?;
    let storage = emulation.memory.import(gpu.index, descriptor(value.dmabuf_fd)?)?;
    let size = storage.size();
    let buffer = Buffer { storage, address: value.va_addr, writable: true, imported: true, mapped: Vec::new() };
    value.handle = emulation.memory.buffers().insert(gpu.id(), buffer);
    say!(
        1,
        "buffer object {:#x}: descriptor {} imported, {size:#x} bytes at {:#x}",
        value.handle,
        value.dmabuf_fd,
        value.va_addr
    );
    Ok(())
}

pub(super) fn export(emulation: &Emulation, value: &mut ExportDmabuf) -> Result<()> {
    let storage = {
        let buffers = emulation.memory.buffers();
        Arc::clone(&buffers.get(value.handle).ok_or(Errno::INVAL)?.storage)
    };
    let file = emulation.memory.export(&storage)?;
    if value.flags & rustix::fs::OFlags::CLOEXEC.bits() == 0 {
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    }
    value.dmabuf_fd = u32::try_from(file.into_raw_fd()).map_err(|_| Errno::MFILE)?;
    say!(1, "buffer object {:#x} is exported as descriptor {}", value.handle, value.dmabuf_fd);
    Ok(())
}
