//! The PCI address of a physical device, and the extension that reports it.

use std::ffi::{CStr, c_char};

use ash::vk;
use ash::vk::Handle as _;

use super::table::{InstanceTable, instance_table};
use crate::settings::{PciAddress, settings};

const NAME: &CStr = ash::ext::pci_bus_info::NAME;

/// The address that a physical device gets; `None` if it keeps its own, or must have none.
///
/// # Safety
///
/// The handle is of a physical device of the table.
unsafe fn own_address(physical: vk::PhysicalDevice, table: &InstanceTable) -> Option<PciAddress> {
    let settings = settings()?;
    let address = settings.gpus.get(settings.vulkan_gpu?)?.address;
    // SAFETY: the caller's promise.
    unsafe { is_cpu(physical, table) }.then_some(address)
}

/// `true` if a physical device is a CPU.
///
/// # Safety
///
/// As for [`own_address`].
pub(super) unsafe fn is_cpu(physical: vk::PhysicalDevice, table: &InstanceTable) -> bool {
    let Some(get) = table.properties else { return false };
    let mut properties = vk::PhysicalDeviceProperties::default();
    // SAFETY: the structure is writable.
    unsafe { get(physical, &raw mut properties) };
    properties.device_type == vk::PhysicalDeviceType::CPU
}

/// The extensions of the next layer.
///
/// # Safety
///
/// The handle is of a physical device of the table.
unsafe fn next_extensions(
    physical: vk::PhysicalDevice,
    table: &InstanceTable,
) -> Result<Vec<vk::ExtensionProperties>, vk::Result> {
    let enumerate = table.extensions.ok_or(vk::Result::ERROR_INITIALIZATION_FAILED)?;
    let mut count = 0;
    // SAFETY: without an array only the number is written.
    unsafe { enumerate(physical, std::ptr::null(), &raw mut count, std::ptr::null_mut()) }.result()?;
    let mut extensions = vec![vk::ExtensionProperties::default(); count as usize];
    // SAFETY: the array has the stated number of elements.
    unsafe { enumerate(physical, std::ptr::null(), &raw mut count, extensions.as_mut_ptr()) }.result()?;
    extensions.truncate(count as usize);
    Ok(extensions)
}

fn is_named(extension: &vk::ExtensionProperties) -> bool {
    extension.extension_name_as_c_str() == Ok(NAME)
}

pub(super) unsafe extern "system" fn extensions(
    physical: vk::PhysicalDevice,
    layer: *const c_char,
    count: *mut u32,
    properties: *mut vk::ExtensionProperties,
) -> vk::Result {
    // SAFETY: the physical device is of an instance that this layer created.
    let Some(table) = (unsafe { instance_table(physical.as_raw()) }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: as above, and a layer's name is a C string.
    let (address, layer) = unsafe { (own_address(physical, &table), layer.as_ref()) };
    if address.is_none() || layer.is_some() {
        let Some(next) = table.extensions else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        // SAFETY: the arguments are the caller's.
        return unsafe { next(physical, layer.map_or(std::ptr::null(), std::ptr::from_ref), count, properties) };
    }
    // SAFETY: as above.
    let mut all = match unsafe { next_extensions(physical, &table) } {
        Ok(all) => all,
        Err(error) => return error,
    };
    if !all.iter().any(is_named) {
        let mut own = vk::ExtensionProperties { spec_version: 2, ..Default::default() };
        for (to, from) in own.extension_name.iter_mut().zip(NAME.to_bytes_with_nul()) {
            *to = c_char::from_ne_bytes([*from]);
        }
        all.push(own);
    }
    let available = u32::try_from(all.len()).unwrap_or(0);
    // SAFETY: the caller passes a number, and an array of that many or null.
    unsafe {
        if properties.is_null() {
            *count = available;
            return vk::Result::SUCCESS;
        }
        *count = available.min(*count);
        std::ptr::copy_nonoverlapping(all.as_ptr(), properties, *count as usize);
        if *count < available { vk::Result::INCOMPLETE } else { vk::Result::SUCCESS }
    }
}

pub(super) unsafe extern "system" fn properties(
    physical: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: the physical device is of an instance that this layer created.
    let Some(table) = (unsafe { instance_table(physical.as_raw()) }) else { return };
    let Some(next) = table.properties2 else { return };
    // SAFETY: the arguments are the caller's.
    unsafe { next(physical, properties) };
    // SAFETY: as above.
    let Some(address) = (unsafe { own_address(physical, &table) }) else { return };
    // SAFETY: the caller passes a chain whose structures are writable.
    let mut chain = unsafe { (*properties).p_next }.cast::<vk::BaseOutStructure<'_>>();
    // SAFETY: every structure of a chain begins with its type and the next one.
    while let Some(structure) = unsafe { chain.as_mut() } {
        if structure.s_type == vk::StructureType::PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT {
            let info = chain.cast::<vk::PhysicalDevicePCIBusInfoPropertiesEXT<'_>>();
            // SAFETY: its type is that of this structure.
            unsafe {
                (*info).pci_domain = address.domain.into();
                (*info).pci_bus = address.bus.into();
                (*info).pci_device = address.device.into();
                (*info).pci_function = address.function.into();
            }
        }
        chain = structure.p_next;
    }
}

/// The names of the extensions to enable, without the one that this layer adds.
///
/// # Safety
///
/// The handle is of a physical device of an instance that this layer created; the structure has the array that it
/// states.
pub(super) unsafe fn without_own_extension(
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
) -> Vec<*const c_char> {
    let count = info.enabled_extension_count as usize;
    if count == 0 || info.pp_enabled_extension_names.is_null() {
        return Vec::new();
    }
    // SAFETY: the array has `count` names.
    let mut names = unsafe { std::slice::from_raw_parts(info.pp_enabled_extension_names, count) }.to_vec();
    // SAFETY: the caller's promise.
    let drivers_own = unsafe { instance_table(physical.as_raw()).map(|table| next_extensions(physical, &table)) };
    if !drivers_own.is_some_and(|extensions| extensions.is_ok_and(|all| all.iter().any(is_named))) {
        // SAFETY: the names are C strings.
        names.retain(|name| unsafe { CStr::from_ptr(*name) } != NAME);
    }
    names
}
