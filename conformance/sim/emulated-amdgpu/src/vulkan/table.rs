//! The functions of the next layer, and the structures by which the Vulkan loader passes them.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;

use ash::vk;
use ash::vk::Handle as _;

use crate::abi::native;
use crate::lock;

/// The functions of the next layer, or of the driver, for an instance and its physical devices.
///
/// They are queried when the instance is created: later the loader may return the first layer's functions.
#[derive(Clone, Copy)]
pub(super) struct InstanceTable {
    pub(super) instance: vk::Instance,
    pub(super) get: GetInstance,
    pub(super) destroy: Option<vk::PFN_vkDestroyInstance>,
    pub(super) properties: Option<vk::PFN_vkGetPhysicalDeviceProperties>,
    pub(super) properties2: Option<vk::PFN_vkGetPhysicalDeviceProperties2>,
    pub(super) extensions: Option<vk::PFN_vkEnumerateDeviceExtensionProperties>,
}

pub(super) static INSTANCES: Mutex<Option<HashMap<u64, InstanceTable>>> = Mutex::new(None);
pub(super) static DEVICES: Mutex<Option<HashMap<u64, DeviceTable>>> = Mutex::new(None);

/// The functions for a device.
#[derive(Clone, Copy)]
pub(super) struct DeviceTable {
    pub(super) get: GetDevice,
    /// The device is a CPU: lavapipe's.
    pub(super) is_cpu: bool,
    pub(super) destroy: Option<vk::PFN_vkDestroyDevice>,
    pub(super) allocate: Option<vk::PFN_vkAllocateMemory>,
    pub(super) free: Option<vk::PFN_vkFreeMemory>,
    pub(super) descriptor: Option<vk::PFN_vkGetMemoryFdKHR>,
}

/// The first word of an instance and its physical devices, or of a device and its queues, which they have in common.
///
/// # Safety
///
/// The handle is of a dispatchable object.
pub(super) unsafe fn key(handle: u64) -> u64 {
    // SAFETY: a dispatchable handle is the address of a structure that begins with a pointer.
    unsafe { std::ptr::with_exposed_provenance::<u64>(native(handle)).read() }
}

/// The table of an instance or a physical device.
///
/// # Safety
///
/// The handle is of an instance or a physical device.
pub(super) unsafe fn instance_table(handle: u64) -> Option<InstanceTable> {
    // SAFETY: the caller's promise.
    lock(&INSTANCES).as_ref()?.get(&unsafe { key(handle) }).copied()
}

/// The table of a device.
///
/// # Safety
///
/// The handle is of a device.
pub(super) unsafe fn device_table(device: vk::Device) -> Option<DeviceTable> {
    // SAFETY: the caller's promise.
    lock(&DEVICES).as_ref()?.get(&unsafe { key(device.as_raw()) }).copied()
}

/// A function of the next layer, which `get` finds by its name.
///
/// # Safety
///
/// `F` is the type of the function with this name.
pub(super) unsafe fn next<F>(get: impl FnOnce(*const c_char) -> vk::PFN_vkVoidFunction, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<vk::PFN_vkVoidFunction>()) };
    // SAFETY: the sizes are equal, and the caller guarantees the type.
    get(name.as_ptr()).map(|function| unsafe { std::mem::transmute_copy::<unsafe extern "system" fn(), F>(&function) })
}

impl InstanceTable {
    /// # Safety
    ///
    /// `get` is the next layer's function, and `instance` was just created through it.
    pub(super) unsafe fn new(instance: vk::Instance, get: GetInstance) -> Self {
        // SAFETY: the caller's promise.
        let find = |name| unsafe { get(instance, name) };
        // SAFETY: the types are those of the names.
        unsafe {
            // The first name exists from Vulkan 1.1 on.
            let properties2 = next(find, c"vkGetPhysicalDeviceProperties2")
                .or_else(|| next(find, c"vkGetPhysicalDeviceProperties2KHR"));
            Self {
                instance,
                get,
                destroy: next(find, c"vkDestroyInstance"),
                properties: next(find, c"vkGetPhysicalDeviceProperties"),
                properties2,
                extensions: next(find, c"vkEnumerateDeviceExtensionProperties"),
            }
        }
    }
}

impl DeviceTable {
    /// # Safety
    ///
    /// `get` is the next layer's function, and is for this device.
    pub(super) unsafe fn new(device: vk::Device, get: GetDevice, is_cpu: bool) -> Self {
        // SAFETY: the caller's promise.
        let find = |name| unsafe { get(device, name) };
        // SAFETY: the types are those of the names.
        unsafe {
            Self {
                get,
                is_cpu,
                destroy: next(find, c"vkDestroyDevice"),
                allocate: next(find, c"vkAllocateMemory"),
                free: next(find, c"vkFreeMemory"),
                descriptor: next(find, c"vkGetMemoryFdKHR"),
            }
        }
    }
}

pub(super) type GetInstance = vk::PFN_vkGetInstanceProcAddr;
pub(super) type GetDevice = vk::PFN_vkGetDeviceProcAddr;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Negotiate {
    kind: i32,
    next: *mut c_void,
    pub(super) version: u32,
    pub(super) get_instance: Option<GetInstance>,
    pub(super) get_device: Option<GetDevice>,
    pub(super) get_physical_device: Option<GetInstance>,
}

/// `VkLayerInstanceLink`.
#[repr(C)]
struct InstanceLink {
    next: *mut InstanceLink,
    get_instance: Option<GetInstance>,
    get_physical_device: Option<GetInstance>,
}

/// `VkLayerDeviceLink`.
#[repr(C)]
struct DeviceLink {
    next: *mut DeviceLink,
    get_instance: Option<GetInstance>,
    get_device: Option<GetDevice>,
}

/// `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`.
#[repr(C)]
struct CreateInfo<L> {
    kind: vk::StructureType,
    next: *mut c_void,
    function: i32,
    link: *mut L,
}

/// `VK_LAYER_LINK_INFO`.
const LINK_INFO: i32 = 0;

/// Finds the loader's structure in a chain.
///
/// # Safety
///
/// The chain is valid; structures of this kind in it have links of type `L`.
unsafe fn find<L>(mut chain: *const c_void, kind: vk::StructureType) -> Option<*mut CreateInfo<L>> {
    while !chain.is_null() {
        let structure = chain.cast::<CreateInfo<L>>();
        // SAFETY: every structure of a chain begins with its kind.
        let this = unsafe { (*structure).kind };
        // SAFETY: a structure of this kind has a function, by the caller's guarantee.
        if this == kind && unsafe { (*structure).function } == LINK_INFO {
            return Some(structure.cast_mut());
        }
        // SAFETY: every structure of a chain has the next one after its kind.
        chain = unsafe { (*structure).next };
    }
    None
}

/// Returns the next layer's function, and advances the chain to the layer after it.
///
/// # Safety
///
/// The loader passed the structure.
pub(super) unsafe fn next_instance(info: *const vk::InstanceCreateInfo<'_>) -> Option<GetInstance> {
    // SAFETY: the loader guarantees it; its structures may be written to, as its interface requires.
    unsafe {
        let info = find::<InstanceLink>((*info).p_next, vk::StructureType::LOADER_INSTANCE_CREATE_INFO)?;
        let link = (*info).link.as_ref()?;
        (*info).link = link.next;
        link.get_instance
    }
}

/// As [`next_instance`], for a device.
///
/// # Safety
///
/// The loader passed the structure.
pub(super) unsafe fn next_device(info: *const vk::DeviceCreateInfo<'_>) -> Option<(GetInstance, GetDevice)> {
    // SAFETY: the loader guarantees it; its structures may be written to, as its interface requires.
    unsafe {
        let info = find::<DeviceLink>((*info).p_next, vk::StructureType::LOADER_DEVICE_CREATE_INFO)?;
        let link = (*info).link.as_ref()?;
        (*info).link = link.next;
        Some((link.get_instance?, link.get_device?))
    }
}
