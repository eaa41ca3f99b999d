//! The Vulkan layer `VK_LAYER_gpu_interop_emulated_amdgpu`: sets the PCI address of the CPU's Vulkan device to that of
//! an emulated GPU, by `VK_EXT_pci_bus_info`.
//!
//! It also adapts memory exported by the emulated GPU to lavapipe's requirements for imports.
//!
//! The Vulkan loader finds this library by a manifest and calls [`vkNegotiateLoaderLayerInterfaceVersion`]. Physical
//! devices of other kinds than CPU, and those with an address, are not changed.

mod address;
mod import;
mod link;

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use ash::vk::Handle as _;

use crate::abi::native;

use self::link::{GetDevice, GetInstance, Negotiate};

/// The functions of the next layer, or of the driver, for an instance and its physical devices.
///
/// They are queried when the instance is created: later the loader may return the first layer's functions.
#[derive(Clone, Copy)]
struct InstanceTable {
    instance: vk::Instance,
    get: GetInstance,
    destroy: Option<vk::PFN_vkDestroyInstance>,
    properties: Option<vk::PFN_vkGetPhysicalDeviceProperties>,
    properties2: Option<vk::PFN_vkGetPhysicalDeviceProperties2>,
    extensions: Option<vk::PFN_vkEnumerateDeviceExtensionProperties>,
}

static INSTANCES: Mutex<Option<HashMap<u64, InstanceTable>>> = Mutex::new(None);
static DEVICES: Mutex<Option<HashMap<u64, DeviceTable>>> = Mutex::new(None);

fn lock<T>(table: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions for a device.
#[derive(Clone, Copy)]
struct DeviceTable {
    get: GetDevice,
    destroy: Option<vk::PFN_vkDestroyDevice>,
    allocate: Option<vk::PFN_vkAllocateMemory>,
    free: Option<vk::PFN_vkFreeMemory>,
    descriptor: Option<vk::PFN_vkGetMemoryFdKHR>,
}

/// The first word of an instance and its physical devices, or of a device and its queues, which they have in common.
///
/// # Safety
///
/// The handle is of a dispatchable object.
unsafe fn key(handle: u64) -> u64 {
    // SAFETY: a dispatchable handle is the address of a structure that begins with a pointer.
    unsafe { std::ptr::with_exposed_provenance::<u64>(native(handle)).read() }
}

/// The table of an instance or a physical device.
///
/// # Safety
///
/// The handle is of an instance or a physical device.
unsafe fn instance_table(handle: u64) -> Option<InstanceTable> {
    // SAFETY: the caller's promise.
    lock(&INSTANCES).as_ref()?.get(&unsafe { key(handle) }).copied()
}

/// A function of the next layer.
///
/// # Safety
///
/// `F` is the type of the function with this name, and the instance is one that `get` is for, or null.
unsafe fn next<F>(instance: vk::Instance, get: GetInstance, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<vk::PFN_vkVoidFunction>()) };
    // SAFETY: the caller guarantees the instance; the name is a C string.
    let function = unsafe { get(instance, name.as_ptr()) };
    // SAFETY: the sizes are equal, and the caller guarantees the type.
    function.map(|function| unsafe { std::mem::transmute_copy::<unsafe extern "system" fn(), F>(&function) })
}

impl InstanceTable {
    /// # Safety
    ///
    /// `get` is the next layer's function, and `instance` was just created through it.
    unsafe fn new(instance: vk::Instance, get: GetInstance) -> Self {
        // SAFETY: the types are those of the names.
        unsafe {
            // The first name exists from Vulkan 1.1 on.
            let properties2 = next(instance, get, c"vkGetPhysicalDeviceProperties2")
                .or_else(|| next(instance, get, c"vkGetPhysicalDeviceProperties2KHR"));
            Self {
                instance,
                get,
                destroy: next(instance, get, c"vkDestroyInstance"),
                properties: next(instance, get, c"vkGetPhysicalDeviceProperties"),
                properties2,
                extensions: next(instance, get, c"vkEnumerateDeviceExtensionProperties"),
            }
        }
    }
}

impl DeviceTable {
    /// # Safety
    ///
    /// `get` is the next layer's function, and is for this device.
    unsafe fn new(device: vk::Device, get: GetDevice) -> Self {
        /// # Safety
        ///
        /// `F` is the type of the function with this name.
        unsafe fn next<F>(device: vk::Device, get: GetDevice, name: &CStr) -> Option<F> {
            const { assert!(size_of::<F>() == size_of::<vk::PFN_vkVoidFunction>()) };
            // SAFETY: the caller guarantees the device; the name is a C string.
            let function = unsafe { get(device, name.as_ptr()) };
            // SAFETY: the sizes are equal, and the caller guarantees the type.
            function.map(|function| unsafe { std::mem::transmute_copy::<unsafe extern "system" fn(), F>(&function) })
        }
        // SAFETY: the types are those of the names.
        unsafe {
            Self {
                get,
                destroy: next(device, get, c"vkDestroyDevice"),
                allocate: next(device, get, c"vkAllocateMemory"),
                free: next(device, get, c"vkFreeMemory"),
                descriptor: next(device, get, c"vkGetMemoryFdKHR"),
            }
        }
    }
}

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

/// The table of a device.
///
/// # Safety
///
/// The handle is of a device.
unsafe fn device_table(device: vk::Device) -> Option<DeviceTable> {
    // SAFETY: the caller's promise.
    lock(&DEVICES).as_ref()?.get(&unsafe { key(device.as_raw()) }).copied()
}

unsafe extern "system" fn get_device(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the loader passes a C string.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetDeviceProcAddr" => erased!(get_device, vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => erased!(destroy_device, vk::PFN_vkDestroyDevice),
        b"vkAllocateMemory" => erased!(import::allocate, vk::PFN_vkAllocateMemory),
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
    let Some(get) = (unsafe { link::next_instance(info) }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the type is that of the name, and no instance is needed for it.
    let next = unsafe { next::<vk::PFN_vkCreateInstance>(vk::Instance::null(), get, c"vkCreateInstance") };
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
    let found = unsafe { (link::next_device(info), instance_table(physical.as_raw())) };
    let (Some((get, get_device)), Some(table)) = found else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the type is that of the name, and the instance is the device's.
    let next = unsafe { next::<vk::PFN_vkCreateDevice>(table.instance, get, c"vkCreateDevice") };
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
        let (key, table) = unsafe { (key((*device).as_raw()), DeviceTable::new(*device, get_device)) };
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
