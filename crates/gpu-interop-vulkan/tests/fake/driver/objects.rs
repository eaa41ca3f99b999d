//! Devices, buffers, images, memory and semaphores.

use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use ash::vk::{self, Handle};

use super::macros::{formatted, formatted_all, functions, write_result};
use super::state::{change, file, new_handle, record, settings};
use crate::results;

type Physical = vk::PhysicalDevice;
type Device = vk::Device;
type Allocator<'a> = *const vk::AllocationCallbacks<'a>;

/// Closes a descriptor that the driver now owns.
fn close_imported(fd: RawFd) {
    // SAFETY: the library passes ownership of the descriptor.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

functions! {
    create {
        PFN_vkCreateBuffer vkCreateBuffer(BufferCreateInfo) -> Buffer 0xb;
        PFN_vkCreateImage vkCreateImage(ImageCreateInfo) -> Image 0xa;
        PFN_vkCreateSemaphore vkCreateSemaphore(SemaphoreCreateInfo) -> Semaphore 0xe;
    }
    destroy {
        PFN_vkDestroyBuffer vkDestroyBuffer(Buffer);
        PFN_vkDestroyImage vkDestroyImage(Image);
        PFN_vkFreeMemory vkFreeMemory(DeviceMemory);
        PFN_vkDestroySemaphore vkDestroySemaphore(Semaphore);
    }

    PFN_vkGetPhysicalDeviceProperties vkGetPhysicalDeviceProperties(
        device: Physical, to: *mut vk::PhysicalDeviceProperties,
    ) -> () {
        write_result!(to, vk::PhysicalDeviceProperties { api_version: settings().version, ..Default::default() });
    }
    PFN_vkGetPhysicalDeviceMemoryProperties vkGetPhysicalDeviceMemoryProperties(
        device: Physical, to: *mut vk::PhysicalDeviceMemoryProperties,
    ) -> () {
        write_result!(to, results::memory_types());
    }
    PFN_vkEnumerateDeviceExtensionProperties vkEnumerateDeviceExtensionProperties(
        device: Physical, layer: *const c_char, count: *mut u32, to: *mut vk::ExtensionProperties,
    ) -> vk::Result {
        let all = [
            (settings().modifiers, c"VK_EXT_image_drm_format_modifier"),
            (settings().dma_bufs, c"VK_EXT_external_memory_dma_buf"),
            (settings().foreign, c"VK_EXT_queue_family_foreign"),
        ];
        let names: Vec<_> = all.into_iter().filter_map(|(listed, name)| listed.then_some(name)).collect();
        write_result!(count, u32::try_from(names.len()).unwrap_or(0));
        for (index, name) in names.iter().enumerate().filter(|_| !to.is_null()) {
            let mut extension = vk::ExtensionProperties::default();
            for (to, from) in extension.extension_name.iter_mut().zip(name.to_bytes()) {
                *to = from.cast_signed();
            }
            // SAFETY: the library passes an array for all of them.
            unsafe { to.add(index).write(extension) };
        }
        vk::Result::SUCCESS
    }
    PFN_vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceProperties2(
        device: Physical, to: *mut vk::PhysicalDeviceProperties2<'_>,
    ) -> () {
        // SAFETY: the library passes a chain of structures.
        unsafe { results::fill(to.cast()) };
    }
    PFN_vkGetPhysicalDeviceFeatures2 vkGetPhysicalDeviceFeatures2(
        device: Physical, to: *mut vk::PhysicalDeviceFeatures2<'_>,
    ) -> () {
        // SAFETY: the library passes a chain of structures.
        unsafe { results::fill(to.cast()) };
    }
    PFN_vkGetPhysicalDeviceExternalBufferProperties vkGetPhysicalDeviceExternalBufferProperties(
        device: Physical,
        info: *const vk::PhysicalDeviceExternalBufferInfo<'_>,
        to: *mut vk::ExternalBufferProperties<'_>,
    ) -> () {
        record("vkGetPhysicalDeviceExternalBufferProperties", formatted!(info));
        // SAFETY: the library passes a pointer to the structure.
        unsafe { (*to).external_memory_properties = results::external_memory() };
    }
    PFN_vkGetPhysicalDeviceImageFormatProperties2 vkGetPhysicalDeviceImageFormatProperties2(
        device: Physical,
        info: *const vk::PhysicalDeviceImageFormatInfo2<'_>,
        to: *mut vk::ImageFormatProperties2<'_>,
    ) -> vk::Result {
        let call = formatted!(info);
        let linear_dma_buf = call.contains("tiling 1,") && call.contains("{type 0x200}");
        record("vkGetPhysicalDeviceImageFormatProperties2", call);
        if linear_dma_buf && !settings().linear_dma_bufs {
            return vk::Result::ERROR_FORMAT_NOT_SUPPORTED;
        }
        // SAFETY: the library passes a chain of structures.
        unsafe {
            (*to).image_format_properties = results::image_limits();
            results::fill(to.cast());
        }
        vk::Result::SUCCESS
    }
    PFN_vkGetPhysicalDeviceExternalSemaphoreProperties vkGetPhysicalDeviceExternalSemaphoreProperties(
        device: Physical,
        info: *const vk::PhysicalDeviceExternalSemaphoreInfo<'_>,
        to: *mut vk::ExternalSemaphoreProperties<'_>,
    ) -> () {
        record("vkGetPhysicalDeviceExternalSemaphoreProperties", formatted!(info));
        // SAFETY: the library passes a pointer to the structure.
        unsafe { (*to).external_semaphore_features = vk::ExternalSemaphoreFeatureFlags::from_raw(settings().semaphores) };
    }

    PFN_vkGetBufferMemoryRequirements2 vkGetBufferMemoryRequirements2(
        device: Device, info: *const vk::BufferMemoryRequirementsInfo2<'_>, to: *mut vk::MemoryRequirements2<'_>,
    ) -> () {
        record("vkGetBufferMemoryRequirements2", formatted!(info));
        // SAFETY: the library passes a chain of structures.
        unsafe { results::fill(to.cast()) };
    }
    PFN_vkBindBufferMemory vkBindBufferMemory(
        device: Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64,
    ) -> vk::Result {
        record("vkBindBufferMemory", format!("{:#x}, {:#x}, {offset}", buffer.as_raw(), memory.as_raw()));
        vk::Result::SUCCESS
    }
    PFN_vkGetImageMemoryRequirements2 vkGetImageMemoryRequirements2(
        device: Device, info: *const vk::ImageMemoryRequirementsInfo2<'_>, to: *mut vk::MemoryRequirements2<'_>,
    ) -> () {
        record("vkGetImageMemoryRequirements2", formatted!(info));
        // SAFETY: the library passes a chain of structures.
        unsafe { results::fill(to.cast()) };
    }
    PFN_vkBindImageMemory vkBindImageMemory(
        device: Device, image: vk::Image, memory: vk::DeviceMemory, offset: u64,
    ) -> vk::Result {
        record("vkBindImageMemory", format!("{:#x}, {:#x}, {offset}", image.as_raw(), memory.as_raw()));
        vk::Result::SUCCESS
    }
    PFN_vkBindImageMemory2 vkBindImageMemory2(
        device: Device, count: u32, infos: *const vk::BindImageMemoryInfo<'_>,
    ) -> vk::Result {
        record("vkBindImageMemory2", formatted_all!(infos, count));
        vk::Result::SUCCESS
    }
    PFN_vkGetPhysicalDeviceFormatProperties vkGetPhysicalDeviceFormatProperties(
        device: Physical, format: vk::Format, to: *mut vk::FormatProperties,
    ) -> () {
        record("vkGetPhysicalDeviceFormatProperties", format!("format {}", format.as_raw()));
        let features = vk::FormatFeatureFlags::from_raw(if settings().disjoint { u32::MAX } else { 0xffbf_ffff });
        let found = vk::FormatProperties {
            linear_tiling_features: features,
            optimal_tiling_features: features,
            ..Default::default()
        };
        write_result!(to, found);
    }
    PFN_vkGetPhysicalDeviceFormatProperties2 vkGetPhysicalDeviceFormatProperties2(
        device: Physical, format: vk::Format, to: *mut vk::FormatProperties2<'_>,
    ) -> () {
        // SAFETY: the library passes a chain of structures.
        unsafe { results::fill(to.cast()) };
    }
    PFN_vkGetImageDrmFormatModifierPropertiesEXT vkGetImageDrmFormatModifierPropertiesEXT(
        device: Device, image: vk::Image, to: *mut vk::ImageDrmFormatModifierPropertiesEXT<'_>,
    ) -> vk::Result {
        record("vkGetImageDrmFormatModifierPropertiesEXT", format!("{:#x}", image.as_raw()));
        // SAFETY: the library passes a pointer to the structure.
        unsafe { (*to).drm_format_modifier = results::MODIFIERS[0] };
        vk::Result::SUCCESS
    }
    PFN_vkGetImageSubresourceLayout vkGetImageSubresourceLayout(
        device: Device, image: vk::Image, of: *const vk::ImageSubresource, to: *mut vk::SubresourceLayout,
    ) -> () {
        // SAFETY: the library passes a pointer to the structure.
        let of = unsafe { *of };
        let aspect = of.aspect_mask.as_raw();
        let arguments = format!("{:#x}, aspect {aspect:#x}, level {}, layer {}", image.as_raw(), of.mip_level, of.array_layer);
        record("vkGetImageSubresourceLayout", arguments);
        // Of VK_IMAGE_ASPECT_MEMORY_PLANE_0_BIT_EXT to 3.
        let plane = u64::from(aspect.checked_shr(7).unwrap_or(0).checked_ilog2().unwrap_or(0));
        write_result!(to, vk::SubresourceLayout { offset: plane * settings().plane_step, ..Default::default() });
    }
    PFN_vkAllocateMemory vkAllocateMemory(
        device: Device, info: *const vk::MemoryAllocateInfo<'_>, allocator: Allocator<'_>, to: *mut vk::DeviceMemory,
    ) -> vk::Result {
        record("vkAllocateMemory", formatted!(info));
        // SAFETY: the library passes a chain of structures.
        if let Some(fd) = unsafe { results::imported(info.cast()) } {
            close_imported(fd);
        }
        new_handle(0xd, to)
    }
    PFN_vkMapMemory vkMapMemory(
        device: Device, memory: vk::DeviceMemory, offset: u64, size: u64, flags: vk::MemoryMapFlags, to: *mut *mut c_void,
    ) -> vk::Result {
        record("vkMapMemory", format!("{:#x}, offset {offset}, size {size:#x}, flags {:#x}", memory.as_raw(), flags.as_raw()));
        // Leaked, because the fake driver does not track its use.
        write_result!(to, Box::leak(Box::new([0_u64; 1024])).as_mut_ptr().cast());
        vk::Result::SUCCESS
    }
    PFN_vkGetMemoryFdKHR vkGetMemoryFdKHR(
        device: Device, info: *const vk::MemoryGetFdInfoKHR<'_>, to: *mut RawFd,
    ) -> vk::Result {
        record("vkGetMemoryFdKHR", formatted!(info));
        write_result!(to, file(8192).into_raw_fd());
        vk::Result::SUCCESS
    }
    PFN_vkGetMemoryFdPropertiesKHR vkGetMemoryFdPropertiesKHR(
        device: Device,
        types: vk::ExternalMemoryHandleTypeFlags,
        fd: RawFd,
        to: *mut vk::MemoryFdPropertiesKHR<'_>,
    ) -> vk::Result {
        let arguments = format!("type {:#x}, {}", types.as_raw(), crate::format::descriptor(fd));
        record("vkGetMemoryFdPropertiesKHR", arguments);
        // SAFETY: the library passes a pointer to the structure.
        unsafe { (*to).memory_type_bits = settings().fd_types };
        vk::Result::SUCCESS
    }

    PFN_vkGetSemaphoreFdKHR vkGetSemaphoreFdKHR(
        device: Device, info: *const vk::SemaphoreGetFdInfoKHR<'_>, to: *mut RawFd,
    ) -> vk::Result {
        record("vkGetSemaphoreFdKHR", formatted!(info));
        // SAFETY: the library passes a pointer to the structure.
        let sync_file = unsafe { (*info).handle_type } == vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD;
        if settings().export_semaphore == vk::Result::SUCCESS {
            write_result!(to, if sync_file && settings().signalled { -1 } else { file(64).into_raw_fd() });
        }
        settings().export_semaphore
    }
    PFN_vkImportSemaphoreFdKHR vkImportSemaphoreFdKHR(
        device: Device, info: *const vk::ImportSemaphoreFdInfoKHR<'_>,
    ) -> vk::Result {
        record("vkImportSemaphoreFdKHR", formatted!(info));
        // SAFETY: the library passes a pointer to the structure.
        let fd = unsafe { (*info).fd };
        if fd != -1 {
            close_imported(fd);
        }
        vk::Result::SUCCESS
    }
    PFN_vkGetSemaphoreCounterValue vkGetSemaphoreCounterValue(
        device: Device, semaphore: vk::Semaphore, to: *mut u64,
    ) -> vk::Result {
        record("vkGetSemaphoreCounterValue", format!("{:#x}", semaphore.as_raw()));
        write_result!(to, settings().reached);
        vk::Result::SUCCESS
    }
    PFN_vkGetBufferDeviceAddress vkGetBufferDeviceAddress(
        device: Device, info: *const vk::BufferDeviceAddressInfo<'_>,
    ) -> vk::DeviceAddress {
        1 << 12
    }
    PFN_vkWaitSemaphores vkWaitSemaphores(
        device: Device, info: *const vk::SemaphoreWaitInfo<'_>, timeout: u64,
    ) -> vk::Result {
        record("vkWaitSemaphores", format!("{}, {timeout} ns", formatted!(info)));
        // SAFETY: the library passes a structure with at least one value.
        let value = unsafe { *(*info).p_values };
        change(|settings| settings.reached = settings.reached.max(settings.wait_reaches.min(value)));
        vk::Result::SUCCESS
    }
    PFN_vkSignalSemaphore vkSignalSemaphore(device: Device, info: *const vk::SemaphoreSignalInfo<'_>) -> vk::Result {
        record("vkSignalSemaphore", formatted!(info));
        vk::Result::SUCCESS
    }
}
