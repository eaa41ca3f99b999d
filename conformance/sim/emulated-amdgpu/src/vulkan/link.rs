//! The structures by which the Vulkan loader passes each layer the functions of the next.

use std::ffi::c_void;

use ash::vk;

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
