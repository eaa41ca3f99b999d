//! The Vulkan layer `VK_LAYER_gpu_interop_emulated_amdgpu`: sets the PCI address of the CPU's Vulkan device to that of
//! an emulated GPU, by `VK_EXT_pci_bus_info`.
//!
//! It also adapts memory exported by the emulated GPU to lavapipe's requirements for imports.
//!
//! The Vulkan loader finds this library by a manifest and calls [`vkNegotiateLoaderLayerInterfaceVersion`]. The address
//! of physical devices of other kinds than CPU, and of those with an address, is not changed.

mod address;
mod table;

use std::ffi::{CStr, c_char};

use ash::vk;
use ash::vk::Handle as _;
use rustix::fd::{BorrowedFd, FromRawFd as _, OwnedFd};

use crate::lock;
use crate::memory::dmabuf;
use crate::vulkan::table::{
    DEVICES, DeviceTable, INSTANCES, InstanceTable, Negotiate, device_table, instance_table, key, next,
};

/// See Vulkan's interface between loader and layers.
///
/// # Safety
///
/// `negotiate` points to the loader's structure.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(negotiate: *mut Negotiate) -> vk::Result {
    // SAFETY: the loader guarantees it.
    let Some(negotiate) = (unsafe { negotiate.as_mut() }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    negotiate.version = negotiate.version.min(2);
    negotiate.get_instance = Some(get_instance);
    negotiate.get_device = Some(get_device);
    negotiate.get_physical_device = None;
    vk::Result::SUCCESS
}

/// Converts a function of this layer to an untyped pointer.
macro_rules! erased {
    ($function:expr, $type:ty) => {{
        let function: $type = $function;
        // SAFETY: function pointers have one size; the caller casts it back to the type of its name.
        Some(unsafe { std::mem::transmute::<$type, unsafe extern "system" fn()>(function) })
    }};
}

unsafe extern "system" fn get_instance(instance: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the loader passes a C string.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetInstanceProcAddr" => erased!(get_instance, vk::PFN_vkGetInstanceProcAddr),
        b"vkGetDeviceProcAddr" => erased!(get_device, vk::PFN_vkGetDeviceProcAddr),
        b"vkCreateInstance" => erased!(create_instance, vk::PFN_vkCreateInstance),
        b"vkDestroyInstance" => erased!(destroy_instance, vk::PFN_vkDestroyInstance),
        b"vkCreateDevice" => erased!(create_device, vk::PFN_vkCreateDevice),
        b"vkGetPhysicalDeviceProperties2" | b"vkGetPhysicalDeviceProperties2KHR" => {
            erased!(address::properties, vk::PFN_vkGetPhysicalDeviceProperties2)
        }
        b"vkEnumerateDeviceExtensionProperties" => {
            erased!(address::extensions, vk::PFN_vkEnumerateDeviceExtensionProperties)
        }
        _ if instance.is_null() => None,
        _ => {
            // SAFETY: this layer created the instance.
            let table = unsafe { instance_table(instance.as_raw()) }?;
            // SAFETY: both are the loader's.
            unsafe { (table.get)(instance, name) }
        }
    }
}

unsafe extern "system" fn get_device(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the loader passes a C string.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetDeviceProcAddr" => erased!(get_device, vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => erased!(destroy_device, vk::PFN_vkDestroyDevice),
        b"vkAllocateMemory" => erased!(allocate, vk::PFN_vkAllocateMemory),
        _ => {
            // SAFETY: this layer created the device; both arguments are the loader's.
            unsafe { (device_table(device)?.get)(device, name) }
        }
    }
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader passes its chain.
    let Some(get) = (unsafe { table::next_instance(info) }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: no instance is needed for this name.
    let find = |name| unsafe { get(vk::Instance::null(), name) };
    // SAFETY: the type is that of the name.
    let next = unsafe { next::<vk::PFN_vkCreateInstance>(find, c"vkCreateInstance") };
    let Some(next) = next else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the arguments are the caller's.
    let result = unsafe { next(info, allocator, instance) };
    if result == vk::Result::SUCCESS {
        // SAFETY: the call above wrote the handle.
        let instance = unsafe { *instance };
        // SAFETY: it is a new instance.
        let (key, table) = unsafe { (key(instance.as_raw()), InstanceTable::new(instance, get)) };
        lock(&INSTANCES).get_or_insert_default().insert(key, table);
    }
    result
}

unsafe extern "system" fn destroy_instance(instance: vk::Instance, allocator: *const vk::AllocationCallbacks<'_>) {
    if instance.is_null() {
        return;
    }
    // SAFETY: it is a live instance.
    let key = unsafe { key(instance.as_raw()) };
    let Some(table) = lock(&INSTANCES).get_or_insert_default().remove(&key) else { return };
    if let Some(next) = table.destroy {
        // SAFETY: the arguments are the caller's.
        unsafe { next(instance, allocator) };
    }
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: the loader passes its chain, and a physical device of an instance that this layer created.
    let found = unsafe { (table::next_device(info), instance_table(physical.as_raw())) };
    let (Some((get, get_device)), Some(table)) = found else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the instance is the device's.
    let find = |name| unsafe { get(table.instance, name) };
    // SAFETY: the type is that of the name.
    let next = unsafe { next::<vk::PFN_vkCreateDevice>(find, c"vkCreateDevice") };
    let Some(next) = next else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the structure is the caller's, with the array of names that it states.
    let result = unsafe {
        let names = address::without_own_extension(physical, &*info);
        let info = vk::DeviceCreateInfo {
            enabled_extension_count: u32::try_from(names.len()).unwrap_or(0),
            pp_enabled_extension_names: names.as_ptr(),
            ..*info
        };
        next(physical, &raw const info, allocator, device)
    };
    if result == vk::Result::SUCCESS {
        // SAFETY: the call above wrote the handle of a device, which `get_device` is for.
        let (key, table) = unsafe {
            let is_cpu = address::is_cpu(physical, &table);
            (key((*device).as_raw()), DeviceTable::new(*device, get_device, is_cpu))
        };
        lock(&DEVICES).get_or_insert_default().insert(key, table);
    }
    result
}

unsafe extern "system" fn destroy_device(device: vk::Device, allocator: *const vk::AllocationCallbacks<'_>) {
    if device.is_null() {
        return;
    }
    // SAFETY: it is a live device.
    let key = unsafe { key(device.as_raw()) };
    let table = lock(&DEVICES).get_or_insert_default().remove(&key);
    if let Some(next) = table.and_then(|table| table.destroy) {
        // SAFETY: the arguments are the caller's.
        unsafe { next(device, allocator) };
    }
}

/// Offset and length of the number in the header.
const NUMBER_OFFSET: u64 = 16;
const NUMBER_LENGTH: usize = 20;

unsafe extern "system" fn allocate(
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
        if let Some(descriptor) = imported(&*info).filter(|_| table.is_cpu) {
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
            // A file without a header is memory from its start on.
            let has_header = dmabuf::inspect(descriptor).is_ok_and(|found| found.offset != 0);
            return (has_header && dmabuf::is_exported(descriptor)).then_some(descriptor);
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
