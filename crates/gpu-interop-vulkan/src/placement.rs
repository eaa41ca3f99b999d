//! Selection of memory types.

use std::fmt;

use ash::vk;
use gpu_interop_core::{Error, Result};

use crate::interop::VulkanInterop;

/// Placement of the memory of a buffer or an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryPlacement {
    /// Host-visible memory (`HOST_VISIBLE | HOST_COHERENT`), which stays mapped:
    /// [`OwnedBuffer::read`](crate::OwnedBuffer::read), [`OwnedImage::read`](crate::OwnedImage::read) and `write` work.
    /// Cached memory is preferred. Every device has such memory for buffers and images of linear tiling.
    HostVisible,
    /// Device-local memory (`DEVICE_LOCAL`). Never mapped, even if it is host-visible.
    #[default]
    DeviceLocal,
}

impl fmt::Display for MemoryPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostVisible => "host-visible",
            Self::DeviceLocal => "device-local",
        })
    }
}

impl MemoryPlacement {
    fn required(self) -> vk::MemoryPropertyFlags {
        match self {
            // Vulkan guarantees a coherent type, so no flush is needed.
            Self::HostVisible => vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT,
            Self::DeviceLocal => vk::MemoryPropertyFlags::DEVICE_LOCAL,
        }
    }

    /// Ranks a type; higher is better. The first of equals wins, as Vulkan lists faster types first.
    fn score(self, flags: vk::MemoryPropertyFlags) -> i32 {
        let has = |bit| i32::from(flags.contains(bit));
        match self {
            // Host-visible device-local memory is small and slow to read.
            Self::HostVisible => {
                2 * has(vk::MemoryPropertyFlags::HOST_CACHED) - has(vk::MemoryPropertyFlags::DEVICE_LOCAL)
            }
            Self::DeviceLocal => -has(vk::MemoryPropertyFlags::HOST_VISIBLE),
        }
    }
}

/// Properties of types that need an enabled feature, or cannot back a shared object.
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

/// Selects the memory type of an import that is never mapped: the best device-local one, or the first of the allowed ones.
/// `allowed` has one bit per type.
#[cfg(unix)]
pub(crate) fn imported_type(types: &[vk::MemoryType], allowed: u32) -> Option<u32> {
    best(types, allowed, MemoryPlacement::DeviceLocal).or_else(|| {
        let is_usable = |(index, kind): &(u32, &vk::MemoryType)| {
            allowed & (1 << index) != 0 && !kind.property_flags.intersects(excluded())
        };
        (0_u32..).zip(types).find(is_usable).map(|(index, _)| index)
    })
}

/// Selects a memory type: `requested` if it is suitable, or the best one if there is no preference. `allowed` has one
/// bit per type.
pub(crate) fn memory_type(
    interop: &VulkanInterop,
    allowed: u32,
    placement: MemoryPlacement,
    requested: Option<u32>,
) -> Result<u32> {
    const OPERATION: &str = "select a memory type";
    let types = interop.memory_types();
    let allowed_text = format!("{allowed:#x}");
    let Some(requested) = requested else {
        return best(types, allowed, placement).ok_or_else(|| {
            Error::unsupported(OPERATION, format!("the device has no {placement} memory for this object"))
                .with_device(interop.identity())
                .with_context("allowed types", allowed_text)
        });
    };
    if is_suitable(types, allowed, placement, requested) {
        return Ok(requested);
    }
    Err(Error::invalid(
        OPERATION,
        format!("the requested memory type is not {placement}, or the object does not allow it"),
    )
    .with_device(interop.identity())
    .with_context("memory type", requested)
    .with_context("allowed types", allowed_text))
}

fn is_suitable(types: &[vk::MemoryType], allowed: u32, placement: MemoryPlacement, requested: u32) -> bool {
    (0_u32..)
        .zip(types)
        .filter(|(index, _)| allowed & (1 << index) != 0)
        .any(|(index, kind)| index == requested && kind.property_flags.contains(placement.required()))
}

#[cfg(test)]
mod tests {
    use ash::vk::MemoryPropertyFlags as Flags;

    use super::*;

    fn types(flags: &[Flags]) -> Vec<vk::MemoryType> {
        flags.iter().map(|flags| vk::MemoryType { property_flags: *flags, heap_index: 0 }).collect()
    }

    /// This crate never flushes, so host-visible memory must be coherent.
    #[test]
    fn host_visible_memory_is_coherent() {
        let host = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let found = types(&[Flags::HOST_VISIBLE | Flags::HOST_CACHED, Flags::HOST_VISIBLE, host]);
        assert_eq!(best(&found, u32::MAX, MemoryPlacement::HostVisible), Some(2));
        assert_eq!(best(&found[..2], u32::MAX, MemoryPlacement::HostVisible), None);
        assert!(!is_suitable(&found, u32::MAX, MemoryPlacement::HostVisible, 0), "it needs flushes");
    }

    #[test]
    #[cfg(unix)]
    fn imports_need_no_device_local_type() {
        let host = Flags::HOST_VISIBLE | Flags::HOST_CACHED;
        let types = types(&[Flags::PROTECTED, host, Flags::DEVICE_LOCAL]);
        assert_eq!(imported_type(&types, u32::MAX), Some(2));
        assert_eq!(imported_type(&types, 0b011), Some(1));
        assert_eq!(imported_type(&types, 0b001), None);
        assert_eq!(imported_type(&types, 0), None);
    }

    #[test]
    fn types_of_a_discrete_gpu_are_ranked() {
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

        assert!(is_suitable(&types, u32::MAX, MemoryPlacement::DeviceLocal, 3), "requested, though not the best");
        assert!(!is_suitable(&types, 0b111_0111, MemoryPlacement::DeviceLocal, 3), "the buffer does not allow it");
        assert!(!is_suitable(&types, u32::MAX, MemoryPlacement::HostVisible, 3), "it is not mappable");
        assert!(!is_suitable(&types, u32::MAX, MemoryPlacement::DeviceLocal, 31), "there is no such type");
        assert!(!is_suitable(&types, u32::MAX, MemoryPlacement::DeviceLocal, u32::MAX), "there is no such type");
    }
}
