//! Which physical device and queue family a context takes.

use ash::vk;
use gpu_interop_core::{DeviceIdentity, Error, ErrorKind, IdentityMatch, LoadAttempt, Result};

use crate::error::Checked;
use crate::identity::{device_identity, has_extension};
use crate::interop::{VulkanInterop, version};

/// Which device a [`Context`](crate::Context) takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The device at this place of [`Context::devices`](crate::Context::devices).
    Index(usize),
    /// The device with this identity.
    Identity(DeviceIdentity),
}

/// Which kind of queue a [`Context`](crate::Context) takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// A queue that computes, and draws if the device can.
    #[default]
    General,
    /// A queue that only copies. Where another API computes on the same GPU, a hand-over to such a queue spares the
    /// switch between the two APIs' contexts on the compute engine. Not every device has one.
    TransferOnly,
}

/// A physical device, and whether it is any good.
pub(super) struct Candidate {
    pub(super) physical_device: vk::PhysicalDevice,
    pub(super) api_version: u32,
    pub(super) identity: DeviceIdentity,
    /// The queue family to use, or why the device cannot be used.
    pub(super) queue_family: Result<u32, String>,
    rank: u8,
}

/// Every device in the driver's order.
///
/// # Safety
/// `instance` must be live and of Vulkan 1.1 or later.
pub(super) unsafe fn candidates(instance: &ash::Instance, kind: QueueKind) -> Result<Vec<Candidate>> {
    // SAFETY: the instance is live.
    let devices = unsafe { instance.enumerate_physical_devices() }.checked("vkEnumeratePhysicalDevices")?;
    Ok(devices
        .into_iter()
        .map(|physical_device| {
            // SAFETY: the device is one of the live instance's, which is 1.1 or later.
            unsafe { candidate(instance, physical_device, kind) }
        })
        .collect())
}

/// # Safety
/// As [`candidates`], and `physical_device` is one of the instance's.
unsafe fn candidate(instance: &ash::Instance, physical_device: vk::PhysicalDevice, kind: QueueKind) -> Candidate {
    // SAFETY: the caller's promise.
    let (properties, families, identity) = unsafe {
        (
            instance.get_physical_device_properties(physical_device),
            instance.get_physical_device_queue_family_properties(physical_device),
            device_identity(instance, physical_device),
        )
    };
    // SAFETY: the caller's promise.
    let lacks = |name: &&std::ffi::CStr| unsafe { !has_extension(instance, physical_device, name) };
    let missing = VulkanInterop::required_device_extensions().iter().copied().find(lacks);
    let queue_family = if properties.api_version < vk::API_VERSION_1_1 {
        Err(format!("it is Vulkan {}, and sharing needs 1.1", version(properties.api_version)))
    } else if let Some(missing) = missing {
        Err(format!("it has no {}", missing.to_string_lossy()))
    } else {
        find_family(&families, kind).ok_or_else(|| format!("it has no queue of the kind {kind:?}"))
    };
    let rank = rank(properties.device_type);
    Candidate { physical_device, api_version: properties.api_version, identity, queue_family, rank }
}

/// Lower is better.
fn rank(kind: vk::PhysicalDeviceType) -> u8 {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::VIRTUAL_GPU => 2,
        vk::PhysicalDeviceType::CPU => 4,
        _ => 3,
    }
}

fn find_family(families: &[vk::QueueFamilyProperties], kind: QueueKind) -> Option<u32> {
    let general = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    let video = vk::QueueFlags::VIDEO_DECODE_KHR | vk::QueueFlags::VIDEO_ENCODE_KHR | vk::QueueFlags::OPTICAL_FLOW_NV;
    (0_u32..)
        .zip(families)
        .filter(|(_, family)| family.queue_count > 0)
        .filter(|(_, family)| match kind {
            // Compute implies transfer, whether the driver says so or not.
            QueueKind::General => family.queue_flags.contains(vk::QueueFlags::COMPUTE),
            QueueKind::TransferOnly => {
                family.queue_flags.contains(vk::QueueFlags::TRANSFER) && !family.queue_flags.intersects(general | video)
            }
        })
        .min_by_key(|(_, family)| !family.queue_flags.contains(vk::QueueFlags::GRAPHICS))
        .map(|(index, _)| index)
}

/// The chosen device with its queue family, or an error that lists what there is.
pub(super) fn choose<'a>(candidates: &'a [Candidate], choice: Option<&DeviceChoice>) -> Result<(&'a Candidate, u32)> {
    let usable = |candidate: &'a Candidate| candidate.queue_family.as_ref().ok().map(|family| (candidate, *family));
    let chosen = match choice {
        None => candidates.iter().filter_map(usable).min_by_key(|(candidate, _)| candidate.rank),
        Some(DeviceChoice::Index(index)) => candidates.get(*index).and_then(usable),
        Some(DeviceChoice::Identity(identity)) => candidates
            .iter()
            .find(|candidate| candidate.identity.compare(identity) == IdentityMatch::Same)
            .and_then(usable),
    };
    chosen.ok_or_else(|| {
        let wanted = match choice {
            None => "no Vulkan device can be used".to_owned(),
            Some(DeviceChoice::Index(index)) => format!("there is no usable Vulkan device with index {index}"),
            Some(DeviceChoice::Identity(identity)) => format!("there is no usable Vulkan device that is {identity}"),
        };
        Error::new(ErrorKind::NoDevice, "Context::new", wanted).with_attempts(candidates.iter().map(|candidate| {
            LoadAttempt {
                target: candidate.identity.to_string(),
                reason: candidate.queue_family.clone().err().unwrap_or_else(|| "it is another one".into()),
            }
        }))
    })
}

#[cfg(test)]
mod tests {
    use ash::vk::QueueFlags as Flags;
    use gpu_interop_core::Uuid;

    use super::*;

    fn device(byte: u8, rank: u8, queue_family: Result<u32, String>) -> Candidate {
        let identity = DeviceIdentity { uuid: Uuid::from_bytes([byte; 16]), ..Default::default() };
        let physical_device = vk::PhysicalDevice::null();
        Candidate { physical_device, api_version: vk::API_VERSION_1_1, identity, queue_family, rank }
    }

    #[test]
    fn a_gpu_goes_before_a_cpu() {
        let all = [device(1, 4, Ok(0)), device(2, 0, Err("too old".into())), device(3, 1, Ok(7))];
        let (chosen, family) = choose(&all, None).expect("a device");
        assert_eq!((chosen.identity.uuid, family), (Uuid::from_bytes([3; 16]), 7));
        let cpu = DeviceChoice::Identity(all[0].identity.clone());
        assert_eq!(choose(&all, Some(&cpu)).expect("the CPU").1, 0);
        assert_eq!(choose(&all, Some(&DeviceChoice::Index(2))).expect("the GPU").1, 7);
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let all = [device(2, 0, Err("too old".into()))];
        for choice in [None, Some(DeviceChoice::Index(0)), Some(DeviceChoice::Index(9))] {
            let Err(error) = choose(&all, choice.as_ref()) else { panic!("nothing is usable") };
            assert_eq!(error.kind(), ErrorKind::NoDevice);
            assert_eq!(error.attempts()[0].reason, "too old");
        }
    }

    #[test]
    fn families_are_told_apart() {
        let family = |queue_flags| vk::QueueFamilyProperties { queue_flags, queue_count: 1, ..Default::default() };
        let families = [
            family(Flags::TRANSFER | Flags::VIDEO_DECODE_KHR),
            family(Flags::TRANSFER | Flags::SPARSE_BINDING),
            family(Flags::COMPUTE | Flags::TRANSFER),
            family(Flags::GRAPHICS | Flags::COMPUTE | Flags::TRANSFER),
        ];
        assert_eq!(find_family(&families, QueueKind::General), Some(3));
        assert_eq!(find_family(&families[..3], QueueKind::General), Some(2));
        assert_eq!(find_family(&families, QueueKind::TransferOnly), Some(1));
        assert_eq!(find_family(&families[2..], QueueKind::TransferOnly), None);
    }
}
