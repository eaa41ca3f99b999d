//! The functions of the next layer.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ash::vk;
use ash::vk::Handle as _;

use super::link::{GetDevice, GetInstance};
use crate::abi::native;

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

pub(super) fn lock<T>(table: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions for a device.
#[derive(Clone, Copy)]
pub(super) struct DeviceTable {
    pub(super) get: GetDevice,
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
    pub(super) unsafe fn new(device: vk::Device, get: GetDevice) -> Self {
        // SAFETY: the caller's promise.
        let find = |name| unsafe { get(device, name) };
        // SAFETY: the types are those of the names.
        unsafe {
            Self {
                get,
                destroy: next(find, c"vkDestroyDevice"),
                allocate: next(find, c"vkAllocateMemory"),
                free: next(find, c"vkFreeMemory"),
                descriptor: next(find, c"vkGetMemoryFdKHR"),
            }
        }
    }
}
