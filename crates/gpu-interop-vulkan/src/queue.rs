//! Which family of queues suits a hand-over.

use ash::vk;

use crate::interop::VulkanInterop;

/// Which kind of queue hands work over.
///
/// A GPU runs one context at a time on its graphics and compute engine. Where Vulkan hands work over from a graphics or
/// compute queue to an API that computes on the same GPU, and gets an answer, the engine changes its context twice. That
/// takes longer than everything else about the hand-over, and no semaphore avoids it. Copies on a queue that does
/// nothing else run on another engine. A round trip between Vulkan and CUDA on an H200 takes 325 to 351 µs on a
/// graphics queue, and 29 to 40 µs on a transfer-only one.
///
/// So what is only copied, say from memory that the host wrote or to memory that it reads, is best handed over on a
/// transfer-only queue ([`HeadlessContext::send`](crate::HeadlessContext::send), [`HeadlessContext::receive`](crate::HeadlessContext::receive)). What a
/// graphics queue has rendered gains nothing by being copied on another one: the engine changes its context all the
/// same, to render the next frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueKind {
    /// A queue that computes, and draws if the device can. Every device has one.
    #[default]
    General,
    /// A queue that only copies. Not every device has one.
    TransferOnly,
}

impl QueueKind {
    /// The first family of this kind, of those that `vkGetPhysicalDeviceQueueFamilyProperties` lists; `None` if there is
    /// none. For applications that choose the queues of their device before they create it.
    #[must_use]
    pub fn find_family(self, families: &[vk::QueueFamilyProperties]) -> Option<u32> {
        let general = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
        let video =
            vk::QueueFlags::VIDEO_DECODE_KHR | vk::QueueFlags::VIDEO_ENCODE_KHR | vk::QueueFlags::OPTICAL_FLOW_NV;
        (0_u32..)
            .zip(families)
            .filter(|(_, family)| family.queue_count > 0)
            .filter(|(_, family)| match self {
                // Compute implies transfer, whether the driver says so or not.
                Self::General => family.queue_flags.contains(vk::QueueFlags::COMPUTE),
                Self::TransferOnly => {
                    family.queue_flags.contains(vk::QueueFlags::TRANSFER)
                        && !family.queue_flags.intersects(general | video)
                }
            })
            .min_by_key(|(_, family)| !family.queue_flags.contains(vk::QueueFlags::GRAPHICS))
            .map(|(index, _)| index)
    }
}

impl VulkanInterop {
    /// The family of the physical device's queues that only copy ([`QueueKind::TransferOnly`]); `None` if it has none.
    /// Whether the device was created with a queue of that family is the application's to know: Vulkan cannot be asked.
    #[must_use]
    pub fn transfer_only_queue_family(&self) -> Option<u32> {
        // SAFETY: whoever made this object promised that both are live and belong together.
        let families = unsafe { self.instance().get_physical_device_queue_family_properties(self.physical_device()) };
        QueueKind::TransferOnly.find_family(&families)
    }
}

#[cfg(test)]
mod tests {
    use ash::vk::QueueFlags as Flags;

    use super::*;

    #[test]
    fn families_are_told_apart() {
        let family = |queue_flags| vk::QueueFamilyProperties { queue_flags, queue_count: 1, ..Default::default() };
        let families = [
            family(Flags::TRANSFER | Flags::VIDEO_DECODE_KHR),
            family(Flags::TRANSFER | Flags::SPARSE_BINDING),
            family(Flags::COMPUTE | Flags::TRANSFER),
            family(Flags::GRAPHICS | Flags::COMPUTE | Flags::TRANSFER),
        ];
        assert_eq!(QueueKind::General.find_family(&families), Some(3));
        assert_eq!(QueueKind::General.find_family(&families[..3]), Some(2));
        assert_eq!(QueueKind::TransferOnly.find_family(&families), Some(1));
        assert_eq!(QueueKind::TransferOnly.find_family(&families[2..]), None);
        let empty = vk::QueueFamilyProperties { queue_count: 0, ..families[1] };
        assert_eq!(QueueKind::TransferOnly.find_family(&[empty]), None);
    }
}
