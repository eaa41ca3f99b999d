//! Device identity of a `VkPhysicalDevice`, in terms that other APIs share.

use ash::vk;
use gpu_interop_core::{DeviceIdentity, DeviceKind, Luid, PciAddress, Uuid};

use crate::error::Checked;

/// Identifies a physical device by name, kind, UUID, LUID with node mask, and PCI address, as far as the driver reports
/// them.
///
/// UUID and LUID come from `VkPhysicalDeviceIDProperties` (the LUID only with `deviceLUIDValid`), the PCI address from
/// `VK_EXT_pci_bus_info`, which the device must list but need not enable. A device below Vulkan 1.1 is identified by
/// name and kind alone.
///
/// # Safety
/// `instance` must be a live instance created for Vulkan 1.1 or later, and `physical_device` one of its devices.
#[doc(alias("vkGetPhysicalDeviceProperties2", "VkPhysicalDeviceIDProperties"))]
#[must_use]
pub unsafe fn device_identity(instance: &ash::Instance, physical_device: vk::PhysicalDevice) -> DeviceIdentity {
    // SAFETY: the caller promises that both are live and belong together.
    let basic = unsafe { instance.get_physical_device_properties(physical_device) };
    let mut identity = name_and_kind(&basic);
    if basic.api_version < vk::API_VERSION_1_1 {
        return identity;
    }
    // SAFETY: as above.
    let has_pci = unsafe { has_extension(instance, physical_device, vk::EXT_PCI_BUS_INFO_NAME) };
    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    if has_pci {
        properties = properties.push_next(&mut pci);
    }
    // SAFETY: device and instance are 1.1 or later, so the function exists. The PCI structure is chained only if the
    // device lists its extension.
    unsafe { instance.get_physical_device_properties2(physical_device, &mut properties) };

    identity.uuid = Uuid::from_bytes(id.device_uuid);
    identity.luid =
        (id.device_luid_valid == vk::TRUE).then_some(Luid { bytes: id.device_luid, node_mask: id.device_node_mask });
    identity.pci = has_pci.then(|| pci_address(&pci)).flatten();
    identity
}

/// Formats a Vulkan version as `major.minor`.
pub(crate) fn version(version: u32) -> String {
    format!("{}.{}", vk::api_version_major(version), vk::api_version_minor(version))
}

/// The identity that Vulkan 1.0 reports.
pub(crate) fn name_and_kind(basic: &vk::PhysicalDeviceProperties) -> DeviceIdentity {
    DeviceIdentity::new(
        basic.device_name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        device_kind(basic.device_type),
    )
}

/// Describes the driver of a physical device for reports: name and version in its vendor's spelling, and the Vulkan
/// version of the device. Uses `VkPhysicalDeviceDriverProperties`; the name is missing below Vulkan 1.2.
///
/// # Safety
/// As for [`device_identity`].
pub(crate) unsafe fn driver_description(instance: &ash::Instance, physical_device: vk::PhysicalDevice) -> String {
    // SAFETY: the caller promises that both are live and belong together.
    let basic = unsafe { instance.get_physical_device_properties(physical_device) };
    let vulkan = format!("Vulkan {}", version(basic.api_version));
    // SAFETY: the caller's promise; the properties are this device's.
    let Some(driver) = (unsafe { driver_properties(instance, physical_device, &basic) }) else {
        return vulkan;
    };
    let text = |bytes: Result<&std::ffi::CStr, _>| {
        bytes.map(|text: &std::ffi::CStr| text.to_string_lossy().into_owned()).unwrap_or_default()
    };
    format!("{} {}, {vulkan}", text(driver.driver_name_as_c_str()), text(driver.driver_info_as_c_str()))
}

/// The driver of a physical device (`VkPhysicalDeviceDriverProperties`), `None` below Vulkan 1.2, and the PCI vendor of
/// the device.
///
/// # Safety
/// As for [`device_identity`].
pub(crate) unsafe fn driver_and_vendor(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
) -> (Option<vk::DriverId>, u32) {
    // SAFETY: the caller promises that both are live and belong together; the properties are this device's.
    unsafe {
        let basic = instance.get_physical_device_properties(physical_device);
        let driver = driver_properties(instance, physical_device, &basic);
        (driver.map(|driver| driver.driver_id), basic.vendor_id)
    }
}

/// Reports whether a driver is NVIDIA's own; without its id, by the vendor of the device.
pub(crate) fn is_nvidias_driver(driver: Option<vk::DriverId>, vendor: u32) -> bool {
    const NVIDIA: u32 = 0x10de;
    driver.map_or(vendor == NVIDIA, |driver| driver == vk::DriverId::NVIDIA_PROPRIETARY)
}

/// The driver properties; `None` below Vulkan 1.2.
///
/// # Safety
/// As for [`device_identity`], and `basic` must be the properties of `physical_device`.
unsafe fn driver_properties(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
    basic: &vk::PhysicalDeviceProperties,
) -> Option<vk::PhysicalDeviceDriverProperties<'static>> {
    if basic.api_version < vk::API_VERSION_1_2 {
        return None;
    }
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    // SAFETY: the instance is 1.1 or later, and the structure is part of Vulkan 1.2, which the device has.
    unsafe { query_properties(instance, physical_device, &mut driver) };
    Some(driver)
}

/// Fills one extending structure of `vkGetPhysicalDeviceProperties2`.
///
/// # Safety
/// `physical_device` must be a device of the live `instance`, both of Vulkan 1.1 or later, and support the structure.
pub(crate) unsafe fn query_properties<T: vk::ExtendsPhysicalDeviceProperties2>(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
    structure: &mut T,
) {
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(structure);
    // SAFETY: the caller's promise.
    unsafe { instance.get_physical_device_properties2(physical_device, &mut properties) };
}

fn device_kind(kind: vk::PhysicalDeviceType) -> DeviceKind {
    match kind {
        vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
        vk::PhysicalDeviceType::DISCRETE_GPU
        | vk::PhysicalDeviceType::INTEGRATED_GPU
        | vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::Gpu,
        _ => DeviceKind::Unknown,
    }
}

/// Converts the PCI address; `None` for numbers out of range.
fn pci_address(pci: &vk::PhysicalDevicePCIBusInfoPropertiesEXT<'_>) -> Option<PciAddress> {
    Some(PciAddress {
        domain: pci.pci_domain,
        bus: u8::try_from(pci.pci_bus).ok()?,
        device: u8::try_from(pci.pci_device).ok()?,
        function: u8::try_from(pci.pci_function).ok()?,
    })
}

/// Reports whether the device lists an extension. A device that fails to list its extensions has none.
///
/// # Safety
/// `physical_device` must be a device of the live `instance`.
pub(crate) unsafe fn has_extension(
    instance: &ash::Instance,
    physical_device: vk::PhysicalDevice,
    name: &std::ffi::CStr,
) -> bool {
    // SAFETY: the caller's promise.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical_device) };
    extensions
        .checked("vkEnumerateDeviceExtensionProperties")
        .inspect_err(|error| tracing::warn!(%error, "the device's extensions are unknown"))
        .is_ok_and(|extensions| extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_numbers_out_of_range_give_no_address() {
        let mut pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT { pci_bus: 0x17, ..Default::default() };
        assert_eq!(pci_address(&pci).map(|address| address.to_string()).as_deref(), Some("0000:17:00.0"));
        pci.pci_bus = 256;
        assert_eq!(pci_address(&pci), None);
    }

    #[test]
    fn nvidia_driver_is_detected_by_driver_id() {
        let (nvidia, amd) = (0x10de, 0x1002);
        assert!(is_nvidias_driver(Some(vk::DriverId::NVIDIA_PROPRIETARY), nvidia));
        assert!(!is_nvidias_driver(Some(vk::DriverId::MESA_NVK), nvidia));
        assert!(!is_nvidias_driver(Some(vk::DriverId::MESA_RADV), amd));
        // Below Vulkan 1.2 only the vendor is known.
        assert!(is_nvidias_driver(None, nvidia) && !is_nvidias_driver(None, amd));
    }

    #[test]
    fn device_types_map_to_kinds() {
        assert_eq!(device_kind(vk::PhysicalDeviceType::CPU), DeviceKind::Cpu);
        assert_eq!(device_kind(vk::PhysicalDeviceType::INTEGRATED_GPU), DeviceKind::Gpu);
        assert_eq!(device_kind(vk::PhysicalDeviceType::OTHER), DeviceKind::Unknown);
    }
}
