//! Which memory type an object gets.

use ash::vk;
use gpu_interop_core::{Error, Result};

use crate::interop::VulkanInterop;

/// Where the memory of a buffer or an image should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryPlacement {
    /// Memory that the host maps (`HOST_VISIBLE | HOST_COHERENT`): it stays mapped, and
    /// [`OwnedBuffer::read`](crate::OwnedBuffer::read), [`OwnedImage::read`](crate::OwnedImage::read) and `write` work.
    /// Cached memory is preferred. Every device has such memory for buffers and images of linear tiling.
    HostVisible,
    /// The device's own memory (`DEVICE_LOCAL`). Never mapped, even where the host could.
    #[default]
    DeviceLocal,
}

impl MemoryPlacement {
    fn required(self) -> vk::MemoryPropertyFlags {
        match self {
            // Vulkan guarantees a coherent type, so flushes are never needed.
            Self::HostVisible => vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT,
            Self::DeviceLocal => vk::MemoryPropertyFlags::DEVICE_LOCAL,
        }
    }

    /// Higher is better; the first of equals wins, as Vulkan lists faster types first.
    fn score(self, flags: vk::MemoryPropertyFlags) -> i32 {
        let has = |bit| i32::from(flags.contains(bit));
        match self {
            // Device-local memory that the host sees is a small window and slow to read.
            Self::HostVisible => {
                2 * has(vk::MemoryPropertyFlags::HOST_CACHED) - has(vk::MemoryPropertyFlags::DEVICE_LOCAL)
            }
            Self::DeviceLocal => -has(vk::MemoryPropertyFlags::HOST_VISIBLE),
        }
    }
}

/// Types that need a feature enabled, or cannot back a shared object.
fn excluded() -> vk::MemoryPropertyFlags {
    vk::MemoryPropertyFlags::PROTECTED
        | vk::MemoryPropertyFlags::LAZILY_ALLOCATED
        | vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD
        | vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD
        | vk::MemoryPropertyFlags::RDMA_CAPABLE_NV
}

fn best(types: &[vk::MemoryType], allowed: u32, placement: MemoryPlacement) -> Option<u32> {
    (0_u32..)
        .zip(types)
        .filter(|(index, _)| allowed & (1 << index) != 0)
        .filter(|(_, kind)| kind.property_flags.contains(placement.required()))
        .filter(|(_, kind)| !kind.property_flags.intersects(excluded()))
        .min_by_key(|(_, kind)| -placement.score(kind.property_flags))
        .map(|(index, _)| index)
}

/// The memory type to allocate from: `wanted` if it is fit, else the best one. `allowed` has a bit per type.
pub(crate) fn memory_type(
    interop: &VulkanInterop,
    allowed: u32,
    placement: MemoryPlacement,
    wanted: Option<u32>,
) -> Result<u32> {
    const OPERATION: &str = "choose a memory type";
    let types = interop.memory_types();
    let allowed_text = format!("{allowed:#x}");
    let Some(wanted) = wanted else {
        return best(types, allowed, placement).ok_or_else(|| {
            Error::unsupported(OPERATION, format!("the device has no {placement:?} memory for such an object"))
                .with_device(interop.identity())
                .with_context("allowed types", allowed_text)
        });
    };
    if is_fit(types, allowed, placement, wanted) {
        return Ok(wanted);
    }
    Err(Error::invalid(
        OPERATION,
        format!("the memory type asked for is not {placement:?}, or not one for such an object"),
    )
    .with_device(interop.identity())
    .with_context("memory type", wanted)
    .with_context("allowed types", allowed_text))
}

fn is_fit(types: &[vk::MemoryType], allowed: u32, placement: MemoryPlacement, wanted: u32) -> bool {
    (0_u32..)
        .zip(types)
        .filter(|(index, _)| allowed & (1 << index) != 0)
        .any(|(index, kind)| index == wanted && kind.property_flags.contains(placement.required()))
}

#[cfg(test)]
mod tests {
    use ash::vk::MemoryPropertyFlags as Flags;

    use super::*;

    fn types(flags: &[Flags]) -> Vec<vk::MemoryType> {
        flags.iter().map(|flags| vk::MemoryType { property_flags: *flags, heap_index: 0 }).collect()
    }

    /// Nothing here flushes: memory that the host maps must need none.
    #[test]
    fn memory_of_the_host_is_coherent() {
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let found = types(&[Flags::HOST_VISIBLE | Flags::HOST_CACHED, Flags::HOST_VISIBLE, host]);
        assert_eq!(best(&found, u32::MAX, MemoryPlacement::HostVisible), Some(2));
        assert_eq!(best(&found[..2], u32::MAX, MemoryPlacement::HostVisible), None);
        assert!(!is_fit(&found, u32::MAX, MemoryPlacement::HostVisible, 0), "it needs flushes");
    }

    #[test]
    fn the_types_of_a_graphics_card() {
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let types = types(&[
            Flags::empty(),
            Flags::DEVICE_LOCAL | host,
            Flags::DEVICE_LOCAL,
            Flags::DEVICE_LOCAL,
            host,
            host | Flags::HOST_CACHED,
            Flags::DEVICE_LOCAL | Flags::PROTECTED,
        ]);
        assert_eq!(best(&types, u32::MAX, MemoryPlacement::DeviceLocal), Some(2));
        assert_eq!(best(&types, u32::MAX, MemoryPlacement::HostVisible), Some(5));
        assert_eq!(best(&types, 0b01_0010, MemoryPlacement::HostVisible), Some(4));
        assert_eq!(best(&types, 0b00_0010, MemoryPlacement::DeviceLocal), Some(1));
        assert_eq!(best(&types, 0b100_0001, MemoryPlacement::DeviceLocal), None);
        assert_eq!(best(&types, 0, MemoryPlacement::HostVisible), None);

        assert!(is_fit(&types, u32::MAX, MemoryPlacement::DeviceLocal, 3), "not the best, but what was asked for");
        assert!(!is_fit(&types, 0b111_0111, MemoryPlacement::DeviceLocal, 3), "the buffer does not allow it");
        assert!(!is_fit(&types, u32::MAX, MemoryPlacement::HostVisible, 3), "it is not mappable");
        assert!(!is_fit(&types, u32::MAX, MemoryPlacement::DeviceLocal, 31), "there is no such type");
        assert!(!is_fit(&types, u32::MAX, MemoryPlacement::DeviceLocal, u32::MAX), "there is no such type");
    }
}
