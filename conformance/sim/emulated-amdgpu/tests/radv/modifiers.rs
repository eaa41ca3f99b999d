//! Images whose layout a DRM modifier names, shared as dma-bufs with a second process and with HIP.

use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

use ash::vk;

use crate::CHILD;
use crate::child::{hip, same};
use crate::vulkan::{Gpu, Result, check};

const DMA_BUF: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
const FORMAT: vk::Format = vk::Format::R32_UINT;
/// Parts of several blocks of 64 KiB in both directions.
const WIDTH: usize = 300;
const HEIGHT: usize = 180;
const LINEAR: u64 = 0;
/// The bit of AMD's modifiers for compressed colours, with data that other drivers do not read.
const COMPRESSED: u64 = 1 << 13;

/// `true` for a modifier without compressed colours.
pub(crate) fn is_plain(modifier: u64) -> bool {
    modifier == LINEAR || modifier & COMPRESSED == 0
}

/// The layout of an image: its modifier, where it begins and the bytes of a row.
#[derive(Debug, Clone, Copy)]
struct Layout {
    modifier: u64,
    offset: u64,
    pitch: u64,
}

/// The modifiers that the driver offers for the format, but those with compressed colours.
fn offered(gpu: &Gpu) -> Result<Vec<u64>> {
    let query = |list: &mut vk::DrmFormatModifierPropertiesListEXT<'_>| {
        let mut properties = vk::FormatProperties2::default().push_next(list);
        // SAFETY: the structures of this and all calls below are valid, and the objects live until the process ends.
        unsafe { gpu.instance.get_physical_device_format_properties2(gpu.physical, FORMAT, &mut properties) };
    };
    let mut list = vk::DrmFormatModifierPropertiesListEXT::default();
    query(&mut list);
    let mut all = vec![vk::DrmFormatModifierPropertiesEXT::default(); list.drm_format_modifier_count as usize];
    query(&mut vk::DrmFormatModifierPropertiesListEXT::default().drm_format_modifier_properties(&mut all));
    Ok(all.iter().map(|it| it.drm_format_modifier).filter(|modifier| is_plain(*modifier)).collect())
}

/// An image of a modifier in exportable memory.
struct Image {
    image: vk::Image,
    memory: vk::DeviceMemory,
    layout: Layout,
}

impl Image {
    /// Creates an image and its memory.
    fn new(gpu: &Gpu, modifier: u64, dedicated: bool) -> Result<Self> {
        let modifiers = [modifier];
        let mut list = vk::ImageDrmFormatModifierListCreateInfoEXT::default().drm_format_modifiers(&modifiers);
        let image = create(gpu, &mut list)?;
        let memory = allocate(gpu, image, dedicated, None)?;
        let device = ash::ext::image_drm_format_modifier::Device::new(&gpu.instance, &gpu.device);
        let mut found = vk::ImageDrmFormatModifierPropertiesEXT::default();
        // SAFETY: as above.
        check("vkGetImageDrmFormatModifierPropertiesEXT", unsafe {
            device.get_image_drm_format_modifier_properties(image, &mut found)
        })?;
        if found.drm_format_modifier != modifier {
            return Err(format!("the image has modifier {:#x}, not {modifier:#x}", found.drm_format_modifier));
        }
        let plane =
            vk::ImageSubresource { aspect_mask: vk::ImageAspectFlags::MEMORY_PLANE_0_EXT, ..Default::default() };
        // SAFETY: as above.
        let placed = unsafe { gpu.device.get_image_subresource_layout(image, plane) };
        Ok(Self { image, memory, layout: Layout { modifier, offset: placed.offset, pitch: placed.row_pitch } })
    }

    /// Creates an image with the memory of a dma-buf.
    fn import(gpu: &Gpu, layout: Layout, file: OwnedFd) -> Result<Self> {
        let planes = [vk::SubresourceLayout { offset: layout.offset, row_pitch: layout.pitch, ..Default::default() }];
        let mut explicit = vk::ImageDrmFormatModifierExplicitCreateInfoEXT::default()
            .drm_format_modifier(layout.modifier)
            .plane_layouts(&planes);
        let image = create(gpu, &mut explicit)?;
        let memory = allocate(gpu, image, true, Some(file))?;
        Ok(Self { image, memory, layout })
    }

    fn export(&self, gpu: &Gpu) -> Result<OwnedFd> {
        let info = vk::MemoryGetFdInfoKHR::default().memory(self.memory).handle_type(DMA_BUF);
        // SAFETY: as above; the descriptor is new.
        unsafe { check("vkGetMemoryFdKHR", gpu.memory_fd.get_memory_fd(&info)).map(|file| OwnedFd::from_raw_fd(file)) }
    }

    /// Acquires the image, reads its texels, writes other ones if there are some, and releases it.
    fn exchange(&self, gpu: &Gpu, is_new: bool, write: Option<fn(usize) -> u32>) -> Result<Vec<u32>> {
        let [seen, source] = [gpu.buffer(WIDTH * HEIGHT, None)?, gpu.buffer(WIDTH * HEIGHT, None)?];
        source.write((0..WIDTH * HEIGHT).map(write.unwrap_or(texel)));
        let whole = [vk::BufferImageCopy::default()
            .image_subresource(vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                layer_count: 1,
                ..Default::default()
            })
            .image_extent(extent())];
        let general = vk::ImageLayout::GENERAL;
        let (own, other) = (gpu.family, vk::QUEUE_FAMILY_EXTERNAL);
        gpu.execute(|device, commands| {
            let pass = |layout, from, to| gpu.pass(commands, self.image, layout, [from, to]);
            if is_new {
                pass(vk::ImageLayout::UNDEFINED, own, own);
            } else {
                pass(general, other, own);
            }
            // SAFETY: the image and the buffers are live and have these sizes.
            unsafe { device.cmd_copy_image_to_buffer(commands, self.image, general, seen.buffer, &whole) };
            if write.is_some() {
                pass(general, own, own);
                // SAFETY: as above.
                unsafe { device.cmd_copy_buffer_to_image(commands, source.buffer, self.image, general, &whole) };
            }
            pass(general, own, other);
        })?;
        Ok(seen.words())
    }
}

fn extent() -> vk::Extent3D {
    let [width, height] = [WIDTH, HEIGHT].map(|size| u32::try_from(size).unwrap_or(0));
    vk::Extent3D { width, height, depth: 1 }
}

fn create<T: vk::ExtendsImageCreateInfo>(gpu: &Gpu, modifier: &mut T) -> Result<vk::Image> {
    let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(DMA_BUF);
    let info = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(FORMAT)
        .extent(extent())
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT)
        .usage(vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST)
        .push_next(&mut external)
        .push_next(modifier);
    // SAFETY: as above.
    check("vkCreateImage", unsafe { gpu.device.create_image(&info, None) })
}

fn allocate(gpu: &Gpu, image: vk::Image, dedicated: bool, import: Option<OwnedFd>) -> Result<vk::DeviceMemory> {
    // SAFETY: as above.
    let needs = unsafe { gpu.device.get_image_memory_requirements(image) };
    let index = gpu.memory_type(needs.memory_type_bits, vk::MemoryPropertyFlags::DEVICE_LOCAL)?;
    let mut for_image = vk::MemoryDedicatedAllocateInfo::default().image(image);
    let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(DMA_BUF);
    let mut source = vk::ImportMemoryFdInfoKHR::default().handle_type(DMA_BUF);
    let mut info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
    info = match import {
        Some(file) => {
            source = source.fd(file.into_raw_fd());
            info.push_next(&mut source)
        }
        None => info.push_next(&mut export),
    };
    if dedicated {
        info = info.push_next(&mut for_image);
    }
    // SAFETY: as above; the descriptor passes to Vulkan.
    let memory = check("vkAllocateMemory", unsafe { gpu.device.allocate_memory(&info, None) })?;
    // SAFETY: as above.
    check("vkBindImageMemory", unsafe { gpu.device.bind_image_memory(image, memory, 0) })?;
    Ok(memory)
}

/// The first owner's texels, and those of the process that gets the image.
fn texel(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(0).wrapping_mul(0x9e37_79b1) | 1
}

fn answer(at: usize) -> u32 {
    !texel(at)
}

/// The name of the second process.
pub(crate) const PEER: &str = "modifier_peer";

/// A second process reads the image of each modifier, and writes other texels.
pub(crate) fn modifiers() -> Result<()> {
    let gpu = Gpu::new(false)?;
    let offered = offered(&gpu)?;
    println!("modifiers without compression: {offered:#x?}");
    if !offered.contains(&LINEAR) || offered.len() < 2 {
        return Err(format!("linear and tiled modifiers are needed, but RADV offers {offered:#x?}"));
    }
    for modifier in offered {
        let image = Image::new(&gpu, modifier, true)?;
        image.exchange(&gpu, true, Some(texel))?;
        let file = image.export(&gpu)?;
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).map_err(|error| error.to_string())?;
        let Layout { modifier, offset, pitch } = image.layout;
        let numbers = [u64::try_from(file.as_raw_fd()).unwrap_or(0), modifier, offset, pitch];
        let mut peer = super::child::this_program();
        peer.args([CHILD, PEER]).args(numbers.map(|number| number.to_string()));
        let status = peer.status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("modifier {modifier:#x}: the second process: {status}"));
        }
        same(&format!("modifier {modifier:#x}: the answer"), &image.exchange(&gpu, false, None)?, answer)?;
    }
    Ok(())
}

pub(crate) fn peer(numbers: &[String]) -> Result<()> {
    let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let [file, modifier, offset, pitch] = numbers[..] else { return Err("four numbers are needed".to_owned()) };
    // SAFETY: the parent passed it, and nothing else in this process uses it.
    let file = unsafe { OwnedFd::from_raw_fd(i32::try_from(file).map_err(|error| error.to_string())?) };
    let gpu = Gpu::new(false)?;
    let image = Image::import(&gpu, Layout { modifier, offset, pitch }, file)?;
    same(&format!("modifier {modifier:#x}"), &image.exchange(&gpu, false, Some(answer))?, texel)
}

/// HIP reads and writes the rows of an image with the linear modifier.
pub(crate) fn with_hip() -> Result<()> {
    let (gpu, hip) = (Gpu::new(false)?, hip()?);
    // HIP 5.2 crashes at memory that is dedicated to an image, which RADV asks for.
    let image = Image::new(&gpu, LINEAR, false)?;
    image.exchange(&gpu, true, Some(texel))?;
    let file = image.export(&gpu)?;
    let Layout { offset, pitch, .. } = image.layout;
    let [offset, pitch] = [offset, pitch].map(|number| usize::try_from(number).unwrap_or(0));
    let bytes = offset + pitch * HEIGHT;
    let memory = hip.import(file.as_raw_fd(), bytes as u64)?;
    let address = hip.map(memory, bytes as u64)?;
    let mut seen = hip.download(address, bytes)?;
    let places = || (0..WIDTH * HEIGHT).map(|at| offset + at / WIDTH * pitch + at % WIDTH * 4);
    let words: Vec<u32> = places().filter_map(|at| Some(u32::from_ne_bytes(*seen.get(at..)?.first_chunk()?))).collect();
    same("HIP", &words, texel)?;
    for (index, at) in places().enumerate() {
        seen[at..at + 4].copy_from_slice(&answer(index).to_ne_bytes());
    }
    hip.upload(address, &seen)?;
    same("what HIP has written", &image.exchange(&gpu, false, None)?, answer)?;
    hip.destroy(memory)
}
