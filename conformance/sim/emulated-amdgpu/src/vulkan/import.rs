//! Imports of memory that an emulated GPU exported.
//!
//! lavapipe imports only memory files whose header has the number of its own build. The number is read from a file that
//! lavapipe exports, and written to the header of the imported file.

use ash::vk;
use rustix::fd::{BorrowedFd, FromRawFd as _, OwnedFd};

use super::{DeviceTable, device_table};
use crate::memory::dmabuf;

/// Offset and length of the number in the header.
const NUMBER_OFFSET: u64 = 16;
const NUMBER_LENGTH: usize = 20;

pub(super) unsafe extern "system" fn allocate(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    // SAFETY: this layer created the device.
    let Some(table) = (unsafe { device_table(device) }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    let Some(next) = table.allocate else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the structure is the caller's.
    unsafe {
        if let Some(descriptor) = imported(&*info) {
            // If the write fails, lavapipe rejects the file and reports it.
            _ = complete(device, &table, descriptor, (*info).memory_type_index);
        }
        next(device, info, allocator, memory)
    }
}

/// The descriptor that an allocation imports, if an emulated GPU exported it.
///
/// # Safety
///
/// The structure has a valid chain.
unsafe fn imported<'a>(info: &vk::MemoryAllocateInfo<'_>) -> Option<BorrowedFd<'a>> {
    let mut chain = info.p_next.cast::<vk::BaseInStructure<'_>>();
    // SAFETY: every structure of a chain begins with its type and the next one.
    while let Some(structure) = unsafe { chain.as_ref() } {
        if structure.s_type == vk::StructureType::IMPORT_MEMORY_FD_INFO_KHR {
            // SAFETY: its type is that of this structure.
            let descriptor = unsafe { (*chain.cast::<vk::ImportMemoryFdInfoKHR<'_>>()).fd };
            if descriptor < 0 {
                return None;
            }
            // SAFETY: the application passes an open descriptor, which is used during this call only.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            return dmabuf::is_exported(descriptor).then_some(descriptor);
        }
        chain = structure.p_next;
    }
    None
}

/// Writes the number of the Vulkan driver to a file's header.
///
/// # Safety
///
/// The table is the device's.
unsafe fn complete(device: vk::Device, table: &DeviceTable, file: BorrowedFd<'_>, memory_type: u32) -> Option<()> {
    let (allocate, free, get) = (table.allocate?, table.free?, table.descriptor?);
    let kind = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
    let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(kind);
    let info =
        vk::MemoryAllocateInfo::default().allocation_size(4096).memory_type_index(memory_type).push_next(&mut export);
    let (mut memory, mut descriptor) = (vk::DeviceMemory::null(), -1);
    // SAFETY: the structures are valid, the functions are the device's, and the memory is freed after its last use.
    let exported = unsafe {
        allocate(device, &raw const info, std::ptr::null(), &raw mut memory).result().ok()?;
        let request = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(kind);
        let result = get(device, &raw const request, &raw mut descriptor);
        free(device, memory, std::ptr::null());
        result.result().ok()?;
        OwnedFd::from_raw_fd(descriptor)
    };
    let mut number = [0; NUMBER_LENGTH];
    rustix::io::pread(&exported, &mut number, NUMBER_OFFSET).ok()?;
    rustix::io::pwrite(file, &number, NUMBER_OFFSET).ok()?;
    Some(())
}
