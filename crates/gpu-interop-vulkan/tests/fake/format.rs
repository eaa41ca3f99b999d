//! Formats the structures that reach the driver, with everything chained to them, as lines of the tables.
//!
//! Each structure starts with its number in `VkStructureType`; flags are hexadecimal, as in the headers. Unknown
//! structures are formatted as `unknown`, so that no table can miss them.

use std::ffi::c_void;
use std::os::fd::RawFd;

use ash::vk::{self, Handle};

use crate::driver;

/// Casts a pointer to a structure.
macro_rules! at {
    ($pointer:expr, $structure:ty) => {
        // SAFETY: the caller of `structures` promises a valid chain; `s_type` names the type of the structure.
        unsafe { &*$pointer.cast::<$structure>() }
    };
}

/// Formats every structure of a chain, in order.
///
/// # Safety
/// `first` must be null, or the first of a chain of Vulkan's structures that are live for the call.
pub(crate) unsafe fn structures(first: *const c_void) -> String {
    let mut parts = Vec::new();
    let mut next = first.cast::<vk::BaseInStructure<'_>>();
    while !next.is_null() {
        let number = at!(next, vk::BaseInStructure<'_>).s_type.as_raw();
        parts.push(format!("{number}{{{}}}", fields(number, next.cast())));
        next = at!(next, vk::BaseInStructure<'_>).p_next;
    }
    parts.join(" ")
}

/// The elements of an array that a structure points to.
///
/// # Safety
/// `pointer` must point to `count` elements, unless `count` is 0.
pub(crate) unsafe fn elements<'a, T>(pointer: *const T, count: u32) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(pointer, count as usize) },
    }
}

fn fields(number: i32, pointer: *const c_void) -> String {
    object(number, pointer)
        .or_else(|| memory(number, pointer))
        .or_else(|| semaphore(number, pointer))
        .or_else(|| command(number, pointer))
        .unwrap_or_else(|| "unknown".into())
}

/// Buffers and images.
fn object(number: i32, pointer: *const c_void) -> Option<String> {
    Some(match number {
        12 => {
            let info = at!(pointer, vk::BufferCreateInfo<'_>);
            let (flags, usage, sharing) = (info.flags.as_raw(), info.usage.as_raw(), info.sharing_mode.as_raw());
            let families = info.queue_family_index_count;
            format!("flags {flags:#x}, size {}, usage {usage:#x}, sharing {sharing}, families {families}", info.size)
        }
        14 => {
            let info = at!(pointer, vk::ImageCreateInfo<'_>);
            let vk::Extent3D { width, height, depth } = info.extent;
            format!(
                "flags {:#x}, type {}, format {}, extent {width} {height} {depth}, levels {}, layers {}, samples {:#x}, \
                 tiling {}, usage {:#x}, sharing {}, families {}, layout {}",
                info.flags.as_raw(),
                info.image_type.as_raw(),
                info.format.as_raw(),
                info.mip_levels,
                info.array_layers,
                info.samples.as_raw(),
                info.tiling.as_raw(),
                info.usage.as_raw(),
                info.sharing_mode.as_raw(),
                info.queue_family_index_count,
                info.initial_layout.as_raw(),
            )
        }
        1_000_072_000 => {
            format!("types {:#x}", at!(pointer, vk::ExternalMemoryBufferCreateInfo<'_>).handle_types.as_raw())
        }
        1_000_072_001 => {
            format!("types {:#x}", at!(pointer, vk::ExternalMemoryImageCreateInfo<'_>).handle_types.as_raw())
        }
        1_000_071_002 => {
            let info = at!(pointer, vk::PhysicalDeviceExternalBufferInfo<'_>);
            let (flags, usage, types) = (info.flags.as_raw(), info.usage.as_raw(), info.handle_type.as_raw());
            format!("flags {flags:#x}, usage {usage:#x}, type {types:#x}")
        }
        1_000_059_004 => {
            let info = at!(pointer, vk::PhysicalDeviceImageFormatInfo2<'_>);
            format!(
                "format {}, type {}, tiling {}, usage {:#x}, flags {:#x}",
                info.format.as_raw(),
                info.ty.as_raw(),
                info.tiling.as_raw(),
                info.usage.as_raw(),
                info.flags.as_raw(),
            )
        }
        1_000_071_000 => {
            format!("type {:#x}", at!(pointer, vk::PhysicalDeviceExternalImageFormatInfo<'_>).handle_type.as_raw())
        }
        1_000_146_000 => {
            format!("buffer {:#x}", at!(pointer, vk::BufferMemoryRequirementsInfo2<'_>).buffer.as_raw())
        }
        1_000_156_003 => {
            let info = at!(pointer, vk::ImagePlaneMemoryRequirementsInfo<'_>);
            format!("plane {:#x}", info.plane_aspect.as_raw())
        }
        1_000_157_001 => {
            let info = at!(pointer, vk::BindImageMemoryInfo<'_>);
            let (image, memory) = (info.image.as_raw(), info.memory.as_raw());
            format!("image {image:#x}, memory {memory:#x}, offset {}", info.memory_offset)
        }
        1_000_156_002 => {
            format!("plane {:#x}", at!(pointer, vk::BindImagePlaneMemoryInfo<'_>).plane_aspect.as_raw())
        }
        1_000_158_002 => {
            let info = at!(pointer, vk::PhysicalDeviceImageDrmFormatModifierInfoEXT<'_>);
            format!("modifier {:#x}, sharing {}", info.drm_format_modifier, info.sharing_mode.as_raw())
        }
        1_000_158_003 => {
            let info = at!(pointer, vk::ImageDrmFormatModifierListCreateInfoEXT<'_>);
            // SAFETY: the library's structure has an array of this length.
            let modifiers = unsafe { elements(info.p_drm_format_modifiers, info.drm_format_modifier_count) };
            format!("modifiers {modifiers:x?}")
        }
        1_000_158_004 => {
            let info = at!(pointer, vk::ImageDrmFormatModifierExplicitCreateInfoEXT<'_>);
            // SAFETY: as above.
            let layouts = unsafe { elements(info.p_plane_layouts, info.drm_format_modifier_plane_count) };
            let text = |plane: &vk::SubresourceLayout| {
                let unused = [plane.size, plane.array_pitch, plane.depth_pitch];
                format!("{} {} {unused:?}", plane.offset, plane.row_pitch)
            };
            let planes = layouts.iter().map(text).collect::<Vec<_>>().join(", ");
            format!("modifier {:#x}, planes {planes}", info.drm_format_modifier)
        }
        1_000_146_001 => format!("image {:#x}", at!(pointer, vk::ImageMemoryRequirementsInfo2<'_>).image.as_raw()),
        _ => return None,
    })
}

fn memory(number: i32, pointer: *const c_void) -> Option<String> {
    Some(match number {
        5 => {
            let info = at!(pointer, vk::MemoryAllocateInfo<'_>);
            format!("size {}, memory type {}", info.allocation_size, info.memory_type_index)
        }
        1_000_127_001 => {
            let info = at!(pointer, vk::MemoryDedicatedAllocateInfo<'_>);
            format!("image {:#x}, buffer {:#x}", info.image.as_raw(), info.buffer.as_raw())
        }
        1_000_060_000 => {
            let info = at!(pointer, vk::MemoryAllocateFlagsInfo<'_>);
            format!("flags {:#x}, devices {:#x}", info.flags.as_raw(), info.device_mask)
        }
        1_000_072_002 => format!("types {:#x}", at!(pointer, vk::ExportMemoryAllocateInfo<'_>).handle_types.as_raw()),
        1_000_074_000 => {
            let info = at!(pointer, vk::ImportMemoryFdInfoKHR<'_>);
            format!("type {:#x}, {}", info.handle_type.as_raw(), descriptor(info.fd))
        }
        1_000_074_002 => {
            let info = at!(pointer, vk::MemoryGetFdInfoKHR<'_>);
            format!("memory {:#x}, type {:#x}", info.memory.as_raw(), info.handle_type.as_raw())
        }
        _ => return None,
    })
}

/// Semaphores and submissions.
fn semaphore(number: i32, pointer: *const c_void) -> Option<String> {
    Some(match number {
        9 => format!("flags {:#x}", at!(pointer, vk::SemaphoreCreateInfo<'_>).flags.as_raw()),
        1_000_077_000 => {
            format!("types {:#x}", at!(pointer, vk::ExportSemaphoreCreateInfo<'_>).handle_types.as_raw())
        }
        1_000_207_002 => {
            let info = at!(pointer, vk::SemaphoreTypeCreateInfo<'_>);
            format!("semaphore type {}, initial {}", info.semaphore_type.as_raw(), info.initial_value)
        }
        1_000_076_000 => {
            format!("type {:#x}", at!(pointer, vk::PhysicalDeviceExternalSemaphoreInfo<'_>).handle_type.as_raw())
        }
        1_000_079_001 => {
            let info = at!(pointer, vk::SemaphoreGetFdInfoKHR<'_>);
            format!("semaphore {:#x}, type {:#x}", info.semaphore.as_raw(), info.handle_type.as_raw())
        }
        1_000_079_000 => {
            let info = at!(pointer, vk::ImportSemaphoreFdInfoKHR<'_>);
            let (semaphore, flags, types) = (info.semaphore.as_raw(), info.flags.as_raw(), info.handle_type.as_raw());
            format!("semaphore {semaphore:#x}, flags {flags:#x}, type {types:#x}, {}", descriptor(info.fd))
        }
        1_000_207_004 => {
            let info = at!(pointer, vk::SemaphoreWaitInfo<'_>);
            let count = info.semaphore_count;
            // SAFETY: the library's structure has arrays of this length.
            let (semaphores, values) = unsafe { (elements(info.p_semaphores, count), elements(info.p_values, count)) };
            format!("flags {:#x}, semaphores {}, values {values:?}", info.flags.as_raw(), handles(semaphores))
        }
        1_000_207_005 => {
            let info = at!(pointer, vk::SemaphoreSignalInfo<'_>);
            format!("semaphore {:#x}, value {}", info.semaphore.as_raw(), info.value)
        }
        4 => {
            let info = at!(pointer, vk::SubmitInfo<'_>);
            let (waits, signals) = (info.wait_semaphore_count, info.signal_semaphore_count);
            // SAFETY: as above.
            let (before, stages, commands, after) = unsafe {
                (
                    elements(info.p_wait_semaphores, waits),
                    elements(info.p_wait_dst_stage_mask, waits),
                    elements(info.p_command_buffers, info.command_buffer_count),
                    elements(info.p_signal_semaphores, signals),
                )
            };
            let stages: Vec<String> = stages.iter().map(|stages| format!("{:#x}", stages.as_raw())).collect();
            let (before, commands, after) = (handles(before), handles(commands), handles(after));
            format!("wait {before} at [{}], run {commands}, signal {after}", stages.join(", "))
        }
        1_000_207_003 => {
            let info = at!(pointer, vk::TimelineSemaphoreSubmitInfo<'_>);
            // SAFETY: as above.
            let (waits, signals) = unsafe {
                (
                    elements(info.p_wait_semaphore_values, info.wait_semaphore_value_count),
                    elements(info.p_signal_semaphore_values, info.signal_semaphore_value_count),
                )
            };
            format!("wait {waits:?}, signal {signals:?}")
        }
        _ => return None,
    })
}

/// Command buffers, fences and barriers.
fn command(number: i32, pointer: *const c_void) -> Option<String> {
    Some(match number {
        8 => format!("flags {:#x}", at!(pointer, vk::FenceCreateInfo<'_>).flags.as_raw()),
        39 => {
            let info = at!(pointer, vk::CommandPoolCreateInfo<'_>);
            format!("flags {:#x}, family {}", info.flags.as_raw(), info.queue_family_index)
        }
        40 => {
            let info = at!(pointer, vk::CommandBufferAllocateInfo<'_>);
            let (pool, level) = (info.command_pool.as_raw(), info.level.as_raw());
            format!("pool {pool:#x}, level {level}, count {}", info.command_buffer_count)
        }
        42 => {
            let info = at!(pointer, vk::CommandBufferBeginInfo<'_>);
            format!("flags {:#x}, inherited {}", info.flags.as_raw(), !info.p_inheritance_info.is_null())
        }
        44 => {
            let barrier = at!(pointer, vk::BufferMemoryBarrier<'_>);
            let (source, target) = (barrier.src_access_mask.as_raw(), barrier.dst_access_mask.as_raw());
            let (from, to) = (barrier.src_queue_family_index, barrier.dst_queue_family_index);
            let (buffer, offset, size) = (barrier.buffer.as_raw(), barrier.offset, barrier.size);
            format!(
                "access {source:#x} to {target:#x}, family {from:#x} to {to:#x}, buffer {buffer:#x}, offset {offset}, \
                 size {size:#x}"
            )
        }
        45 => {
            let barrier = at!(pointer, vk::ImageMemoryBarrier<'_>);
            let (source, target) = (barrier.src_access_mask.as_raw(), barrier.dst_access_mask.as_raw());
            let (from, to) = (barrier.src_queue_family_index, barrier.dst_queue_family_index);
            let (old, new, image) = (barrier.old_layout.as_raw(), barrier.new_layout.as_raw(), barrier.image.as_raw());
            let range = barrier.subresource_range;
            let (levels, layers) =
                ((range.base_mip_level, range.level_count), (range.base_array_layer, range.layer_count));
            format!(
                "access {source:#x} to {target:#x}, layout {old} to {new}, family {from:#x} to {to:#x}, image {image:#x}, \
                 aspect {:#x}, levels {} {:#x}, layers {} {:#x}",
                range.aspect_mask.as_raw(),
                levels.0,
                levels.1,
                layers.0,
                layers.1,
            )
        }
        46 => {
            let barrier = at!(pointer, vk::MemoryBarrier<'_>);
            format!("access {:#x} to {:#x}", barrier.src_access_mask.as_raw(), barrier.dst_access_mask.as_raw())
        }
        _ => return None,
    })
}

fn handles<T: Handle + Copy>(handles: &[T]) -> String {
    let parts: Vec<String> = handles.iter().map(|handle| format!("{:#x}", handle.as_raw())).collect();
    format!("[{}]", parts.join(", "))
}

/// Describes a descriptor lent to the driver: the caller's own or a duplicate, the file, and close-on-exec.
pub(crate) fn descriptor(fd: RawFd) -> String {
    if fd == -1 {
        return "no descriptor".to_owned();
    }
    let (own, file) = driver::lent();
    // SAFETY: the library passes an open descriptor, which is only inspected.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let number = if std::os::fd::AsRawFd::as_raw_fd(&fd) == own { "the caller's own" } else { "a duplicate" };
    let same = rustix::fs::fstat(fd).is_ok_and(|found| found.st_ino == file);
    let of = if same { "the file" } else { "another file" };
    let closes = rustix::io::fcntl_getfd(fd).is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC));
    format!("{number} of {of}, {}", if closes { "closed on exec" } else { "inherited" })
}
