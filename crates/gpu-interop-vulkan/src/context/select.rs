//! Selection of the physical device and queue family of a context.

use ash::vk;
use gpu_interop_core::{DeviceIdentity, Error, ErrorKind, IdentityMatch, LoadAttempt, Result};

use crate::error::Checked;
use crate::identity::{device_identity, has_extension, version};
use crate::interop::VulkanInterop;
use crate::queue::QueueKind;

/// Selects the device of a [`HeadlessContext`](crate::HeadlessContext).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceChoice {
    /// The device at this index of [`HeadlessContext::devices`](crate::HeadlessContext::devices).
    Index(usize),
    /// The device with this identity.
    Identity(DeviceIdentity),
}

/// A physical device and its suitability.
pub(super) struct Candidate {
    pub(super) physical_device: vk::PhysicalDevice,
    pub(super) api_version: u32,
    pub(super) identity: DeviceIdentity,
    /// The queue family to use, or the reason why the device cannot be used.
    pub(super) queue_family: Result<u32, String>,
    /// The transfer-only queue family, if any.
    pub(super) transfer_only: Option<u32>,
    /// The family of compute queues without graphics, if any.
    pub(super) compute_only: Option<u32>,
    rank: u8,
}

/// All devices in the driver's order.
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
/// As [`candidates`], and `physical_device` belongs to the instance.
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
        kind.find_family(&families).ok_or_else(|| {
            let instead = match kind {
                QueueKind::General => "",
                QueueKind::ComputeOnly => "; queues of the kind General also support dispatches and copies",
                QueueKind::TransferOnly => "; queues of the kind General also support copies",
            };
            format!("it has no queue of the kind {kind:?}{instead}")
        })
    };
    let rank = rank(properties.device_type);
    let transfer_only = QueueKind::TransferOnly.find_family(&families);
    let compute_only = QueueKind::ComputeOnly.find_family(&families);
    let api_version = properties.api_version;
    Candidate { physical_device, api_version, identity, queue_family, transfer_only, compute_only, rank }
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

/// The chosen device with its queue family, or an error that lists all devices.
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
        Error::new(ErrorKind::NoDevice, "HeadlessContext::new", wanted).with_attempts(candidates.iter().map(
            |candidate| {
                LoadAttempt::new(
                    candidate.identity.to_string(),
                    candidate.queue_family.clone().err().unwrap_or_else(|| "it is another device".into()),
                )
            },
        ))
    })
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::Uuid;

    use super::*;

    fn device(byte: u8, rank: u8, queue_family: Result<u32, String>) -> Candidate {
        let identity = DeviceIdentity::default().with_uuid(Uuid::from_bytes([byte; 16]));
        let physical_device = vk::PhysicalDevice::null();
        let (api_version, transfer_only, compute_only) = (vk::API_VERSION_1_1, None, None);
        Candidate { physical_device, api_version, identity, queue_family, transfer_only, compute_only, rank }
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
}
