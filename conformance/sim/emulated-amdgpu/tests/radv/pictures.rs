//! Pictures on dma-bufs of other producers: this project's imports with an explicit layout, of images that RADV exports with
//! each of its modifiers, and of memory without a GPU.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use ash::vk;
use gpu_interop_core::ErrorKind;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier, TexelRow};
use gpu_interop_core::{PlaneLayout, VideoFormat};
use gpu_interop_test_support::Random;
use gpu_interop_vulkan::{ImportedPicture, OwnershipTransfer, PictureOptions, VulkanInterop};

use crate::CHILD;
use crate::modifiers::is_plain;
use crate::vulkan::{Buffer, Gpu, Result, check};

const DMA_BUF: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);
const FORMATS: [&str; 15] = [
    "AR24", "XR24", "AB24", "XB24", "AR30", "XR30", "AB30", "R8  ", "GR88", "R16 ", "GR32", "AB4H", "NV12", "P010",
    "YU12",
];

/// A plane of a format in a picture: its aspect, and its texels without padding.
#[derive(Debug, Clone, Copy)]
struct Plane {
    aspect: vk::ImageAspectFlags,
    layout: PlaneLayout,
    /// The significant bits of each byte pair.
    mask: [u8; 2],
}

impl Plane {
    fn size(&self) -> usize {
        self.layout.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
    }

    fn height(&self) -> usize {
        usize::try_from(self.layout.extent[1]).unwrap_or(0)
    }

    /// Texels that depend on the plane and the seed.
    fn texels(&self, seed: u64) -> Vec<u8> {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(self.aspect.as_raw()) | 1);
        let masks = self.mask.iter().cycle();
        masks.take(self.size()).map(|mask| random.word().to_be_bytes()[2] & mask).collect()
    }
}

/// The number of `VkFormat`, and the planes of a picture of this format.
fn planes(code: &str, extent: [u32; 2]) -> (vk::Format, Vec<Plane>) {
    let aspects = [vk::ImageAspectFlags::PLANE_0, vk::ImageAspectFlags::PLANE_1, vk::ImageAspectFlags::PLANE_2];
    let code = DrmFourcc::from_code(code).with_alpha();
    if let Some(video) = VideoFormat::from_drm(code) {
        // The lowest bits of each 16 are unused.
        let mask = if video == VideoFormat::P010 { [0xc0, 0xff] } else { [0xff; 2] };
        let plane = |(index, aspect)| {
            let layout = PlaneLayout::new(0, 0, video.plane_extent(index, extent), video.texel(index));
            Plane { aspect, layout, mask }
        };
        let all = aspects.into_iter().enumerate().take(video.planes()).map(plane).collect();
        return (vk::Format::from_raw(video.vulkan_number()), all);
    }
    let Some(row) = TexelRow::of_drm(code) else { return (vk::Format::UNDEFINED, Vec::new()) };
    let layout = PlaneLayout::new(0, 0, extent, row.array);
    let plane = Plane { aspect: vk::ImageAspectFlags::COLOR, layout, mask: [0xff; 2] };
    (vk::Format::from_raw(row.vulkan), vec![plane])
}

/// A random size; even where chroma is subsampled.
fn size(random: &mut Random, code: &str) -> [u32; 2] {
    let even = VideoFormat::from_drm(DrmFourcc::from_code(code)).is_some();
    [150, 90].map(|most| {
        let side = random.below(most) + 2;
        if even { side.next_multiple_of(2) } else { side }
    })
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    bytes.chunks(4).map(word).collect()
}

/// Reads the planes of an image between two barriers, and then writes texels if there are some.
fn exchange(
    gpu: &Gpu,
    image: vk::Image,
    planes: &[Plane],
    [before, after]: [&dyn Fn(vk::CommandBuffer); 2],
    write: Option<u64>,
) -> Result<Vec<Vec<u8>>> {
    let buffers = |fill: u64| -> Result<Vec<Buffer>> {
        let buffer = |plane: &Plane| {
            let buffer = gpu.buffer(plane.size().div_ceil(4), None)?;
            buffer.write(words(&plane.texels(fill)));
            Ok(buffer)
        };
        planes.iter().map(buffer).collect()
    };
    let (seen, source) = (buffers(0)?, buffers(write.unwrap_or(0))?);
    let region = |plane: &Plane| {
        let [width, height] = plane.layout.extent;
        [vk::BufferImageCopy::default()
            .image_subresource(vk::ImageSubresourceLayers {
                aspect_mask: plane.aspect,
                layer_count: 1,
                ..Default::default()
            })
            .image_extent(vk::Extent3D { width, height, depth: 1 })]
    };
    let general = vk::ImageLayout::GENERAL;
    gpu.execute(|device, commands| {
        before(commands);
        for (plane, buffer) in planes.iter().zip(&seen) {
            // SAFETY: the command buffer is being recorded; image and buffer are live and have these sizes.
            unsafe { device.cmd_copy_image_to_buffer(commands, image, general, buffer.buffer, &region(plane)) };
        }
        if write.is_some() {
            crate::vulkan::barrier(device, commands);
            for (plane, buffer) in planes.iter().zip(&source) {
                // SAFETY: as above.
                unsafe { device.cmd_copy_buffer_to_image(commands, buffer.buffer, image, general, &region(plane)) };
            }
        }
        after(commands);
    })?;
    let bytes = |(plane, buffer): (&Plane, &Buffer)| -> Vec<u8> {
        buffer.words().into_iter().flat_map(u32::to_le_bytes).take(plane.size()).collect()
    };
    let found = planes.iter().zip(&seen).map(bytes).collect();
    seen.into_iter().chain(source).for_each(|buffer| gpu.free(buffer));
    Ok(found)
}

/// Fails unless every byte of every plane is that of the seed.
fn same(what: &str, planes: &[Plane], found: &[Vec<u8>], seed: u64) -> Result<()> {
    for (index, (plane, found)) in planes.iter().zip(found).enumerate() {
        let expected = plane.texels(seed);
        if let Some(at) = (0..expected.len()).find(|at| found.get(*at) != expected.get(*at)) {
            let row = at / usize::try_from(plane.layout.row_size()).unwrap_or(1);
            return Err(format!("{what}: plane {index}, row {row}: byte {at} is {:?}", found.get(at)));
        }
    }
    Ok(())
}

/// An image that RADV exports, with the layout of each memory plane.
struct Produced {
    image: vk::Image,
    file: OwnedFd,
    layouts: Vec<[u64; 2]>,
}

impl Produced {
    fn new(gpu: &Gpu, format: vk::Format, extent: [u32; 2], modifier: u64, planes: &[Plane]) -> Result<Self> {
        if let [_] = planes {
            let modifiers = [modifier];
            let mut list = vk::ImageDrmFormatModifierListCreateInfoEXT::default().drm_format_modifiers(&modifiers);
            let image = create(gpu, format, extent, &mut list)?;
            return Self::with_memory(gpu, image, vec![first_layout(gpu, image)]);
        }
        // RADV 22.3 reports wrong layouts of all memory planes but the first. Those of images with one plane are right.
        let (mut layouts, mut end) = (Vec::new(), 0_u64);
        for plane in planes {
            let modifiers = [modifier];
            let mut list = vk::ImageDrmFormatModifierListCreateInfoEXT::default().drm_format_modifiers(&modifiers);
            let row = TexelRow::of_array(plane.layout.texel).ok_or("no such texel")?;
            let image = create(gpu, vk::Format::from_raw(row.vulkan), plane.layout.extent, &mut list)?;
            let [_, pitch] = first_layout(gpu, image);
            let offset = end.next_multiple_of(64 << 10);
            layouts.push([offset, pitch]);
            // SAFETY: the structures of this and all calls below are valid, and the objects live until the process ends.
            end = offset + unsafe { gpu.device.get_image_memory_requirements(image) }.size;
        }
        let subresources: Vec<_> = layouts
            .iter()
            .map(|[offset, row_pitch]| vk::SubresourceLayout {
                offset: *offset,
                row_pitch: *row_pitch,
                ..Default::default()
            })
            .collect();
        let mut explicit = vk::ImageDrmFormatModifierExplicitCreateInfoEXT::default()
            .drm_format_modifier(modifier)
            .plane_layouts(&subresources);
        let image = create(gpu, format, extent, &mut explicit)?;
        Self::with_memory(gpu, image, layouts)
    }

    fn with_memory(gpu: &Gpu, image: vk::Image, layouts: Vec<[u64; 2]>) -> Result<Self> {
        // SAFETY: as above.
        let needs = unsafe { gpu.device.get_image_memory_requirements(image) };
        let index = gpu.memory_type(needs.memory_type_bits, vk::MemoryPropertyFlags::DEVICE_LOCAL)?;
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().image(image);
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(DMA_BUF);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(index)
            .push_next(&mut export)
            .push_next(&mut dedicated);
        // SAFETY: as above.
        let memory = check("vkAllocateMemory", unsafe { gpu.device.allocate_memory(&info, None) })?;
        // SAFETY: as above.
        check("vkBindImageMemory", unsafe { gpu.device.bind_image_memory(image, memory, 0) })?;
        let info = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(DMA_BUF);
        // SAFETY: as above; the descriptor is new.
        let file = unsafe {
            check("vkGetMemoryFdKHR", gpu.memory_fd.get_memory_fd(&info)).map(|file| OwnedFd::from_raw_fd(file))
        }?;
        Ok(Self { image, file, layouts })
    }

    /// Exchanges texels with the image; a new one has no layout yet.
    fn exchange(&self, gpu: &Gpu, planes: &[Plane], is_new: bool, write: Option<u64>) -> Result<Vec<Vec<u8>>> {
        let (own, other) = (gpu.family, vk::QUEUE_FAMILY_FOREIGN_EXT);
        let pass = |commands, layout, from, to| gpu.pass(commands, self.image, layout, [from, to]);
        let acquire = |commands| match is_new {
            true => pass(commands, vk::ImageLayout::UNDEFINED, own, own),
            false => pass(commands, vk::ImageLayout::GENERAL, other, own),
        };
        let release = |commands| pass(commands, vk::ImageLayout::GENERAL, own, other);
        exchange(gpu, self.image, planes, [&acquire, &release], write)
    }

    /// The picture as a producer passes it.
    fn picture(&self, code: &str, modifier: u64, extent: [u32; 2]) -> Result<DmaBufPicture> {
        let plane = |[offset, pitch]: &[u64; 2]| {
            let file = self.file.try_clone().map_err(|error| error.to_string())?;
            Ok(DmaBufPlane::new(file, *offset, *pitch))
        };
        let planes = self.layouts.iter().map(plane).collect::<Result<_>>()?;
        Ok(DmaBufPicture::new(DrmFourcc::from_code(code), DrmModifier(modifier), extent, planes))
    }
}

/// Offset and pitch of the first memory plane.
fn first_layout(gpu: &Gpu, image: vk::Image) -> [u64; 2] {
    let plane = vk::ImageSubresource { aspect_mask: vk::ImageAspectFlags::MEMORY_PLANE_0_EXT, ..Default::default() };
    // SAFETY: as above.
    let found = unsafe { gpu.device.get_image_subresource_layout(image, plane) };
    [found.offset, found.row_pitch]
}

fn create<T: vk::ExtendsImageCreateInfo>(
    gpu: &Gpu,
    format: vk::Format,
    [width, height]: [u32; 2],
    layout: &mut T,
) -> Result<vk::Image> {
    let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(DMA_BUF);
    let info = vk::ImageCreateInfo::default()
        .image_type(vk::ImageType::TYPE_2D)
        .format(format)
        .extent(vk::Extent3D { width, height, depth: 1 })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .tiling(vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT)
        .usage(USAGE)
        .push_next(&mut external)
        .push_next(layout);
    // SAFETY: as above.
    check("vkCreateImage", unsafe { gpu.device.create_image(&info, None) })
}

/// The device as this project uses it.
pub(crate) fn interop(gpu: &Gpu) -> Result<VulkanInterop> {
    // SAFETY: instance and device belong together, have the extensions, and live until the process ends.
    unsafe { VulkanInterop::new(&gpu.instance, gpu.physical, &gpu.device) }.map_err(|error| error.to_string())
}

fn import(interop: &VulkanInterop, picture: DmaBufPicture) -> gpu_interop_core::Result<ImportedPicture> {
    // SAFETY: the dma-bufs have the picture; the device has the extension for foreign queue families.
    let imported = unsafe { ImportedPicture::new(interop, picture, &PictureOptions::new(USAGE)) };
    imported.map_err(|failure| failure.into_parts().0)
}

/// Acquires the image, exchanges texels, and releases it.
fn exchange_imported(
    gpu: &Gpu,
    imported: &ImportedPicture,
    planes: &[Plane],
    write: Option<u64>,
) -> Result<Vec<Vec<u8>>> {
    let (image, all) = (imported.image(), OwnershipTransfer::all(gpu.family));
    // SAFETY: the command buffer is being recorded, and the image is live.
    let acquire = |commands| _ = unsafe { image.record_acquire(commands, all, vk::ImageLayout::GENERAL) };
    // SAFETY: as above.
    let release = |commands| _ = unsafe { image.record_release(commands, all, vk::ImageLayout::GENERAL) };
    exchange(gpu, image.as_raw(), planes, [&acquire, &release], write)
}

/// The modifiers without compression.
fn offered(interop: &VulkanInterop, code: &str) -> Result<Vec<u64>> {
    let found = interop.picture_modifiers(DrmFourcc::from_code(code), USAGE).map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|found| found.modifier.0).filter(|modifier| is_plain(*modifier)).collect())
}

/// A second device reads the image of each format and modifier, and writes other texels.
pub(crate) fn pictures() -> Result<()> {
    let [gpu, second] = [Gpu::new(false)?, Gpu::new(false)?];
    let interop = interop(&second)?;
    let mut random = Random(0x5eed_0002);
    let mut count = 0;
    for code in FORMATS {
        let offered = offered(&interop, code)?;
        println!("{code}: {offered:x?}");
        // RADV 22.3 has no modifiers for formats with several planes of more than 8 bits.
        if code != "P010" && !(offered.len() > 1 && offered.contains(&0)) {
            return Err(format!("{code}: RADV imports no linear pictures, only {offered:x?}"));
        }
        for modifier in offered {
            let extent = size(&mut random, code);
            let what = format!("{code}, modifier {modifier:#x}, {extent:?}");
            let (format, planes) = planes(code, extent);
            let produced = Produced::new(&gpu, format, extent, modifier, &planes)?;
            let [texels, answer] = [random.word(), random.word()];
            produced.exchange(&gpu, &planes, true, Some(texels))?;
            let imported = import(&interop, produced.picture(code, modifier, extent)?);
            let imported = imported.map_err(|error| format!("{what}: {error}"))?;
            let found = exchange_imported(&second, &imported, &planes, Some(answer))?;
            same(&what, &planes, &found, texels)?;
            same(&format!("{what}: the answer"), &planes, &produced.exchange(&gpu, &planes, false, None)?, answer)?;
            count += 1;
        }
    }
    println!("{count} pictures");
    if count < 2 * FORMATS.len() { Err(format!("only {count} pictures")) } else { Ok(()) }
}

/// The name of the second process.
pub(crate) const PEER: &str = "picture_peer";

/// As [`pictures`], in a second process, of two formats.
pub(crate) fn second_process() -> Result<()> {
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let mut random = Random(0x5eed_0003);
    for (format_index, code) in FORMATS.into_iter().enumerate().filter(|(_, code)| ["XR24", "NV12"].contains(code)) {
        for modifier in offered(&interop, code)? {
            let extent = size(&mut random, code);
            let (format, planes) = planes(code, extent);
            let produced = Produced::new(&gpu, format, extent, modifier, &planes)?;
            produced.exchange(&gpu, &planes, true, Some(11))?;
            rustix::io::fcntl_setfd(&produced.file, rustix::io::FdFlags::empty()).map_err(|error| error.to_string())?;
            let file = u64::try_from(produced.file.as_raw_fd()).unwrap_or(0);
            let numbers = [format_index as u64, file, modifier, extent[0].into(), extent[1].into()];
            let mut peer = super::child::this_program();
            let layouts = produced.layouts.iter().flatten().copied();
            peer.args([CHILD, PEER]).args(numbers.into_iter().chain(layouts).map(|number| number.to_string()));
            let status = peer.status().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("{code}, modifier {modifier:#x}: the second process: {status}"));
            }
            let found = produced.exchange(&gpu, &planes, false, None)?;
            same(&format!("{code}, modifier {modifier:#x}: the answer"), &planes, &found, 12)?;
        }
    }
    Ok(())
}

pub(crate) fn peer(numbers: &[String]) -> Result<()> {
    let numbers: Vec<u64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let [code, file, modifier, width, height, layouts @ ..] = &numbers[..] else {
        return Err("five numbers are needed".to_owned());
    };
    let code = FORMATS[usize::try_from(*code).unwrap_or(0)];
    let extent = [*width, *height].map(|side| u32::try_from(side).unwrap_or(0));
    // SAFETY: the parent passed it, and nothing else in this process uses it.
    let file = unsafe { OwnedFd::from_raw_fd(i32::try_from(*file).map_err(|error| error.to_string())?) };
    let layouts = layouts.chunks(2).map(|layout| [layout[0], layout[layout.len() - 1]]).collect();
    let produced = Produced { image: vk::Image::null(), file, layouts };
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let imported = import(&interop, produced.picture(code, *modifier, extent)?).map_err(|error| error.to_string())?;
    let (_, planes) = planes(code, extent);
    let found = exchange_imported(&gpu, &imported, &planes, Some(12))?;
    same(&format!("{code}, modifier {modifier:#x}"), &planes, &found, 11)
}

/// Memory of a camera: linear rows at any offset and pitch, written by the CPU, also with a dma-buf for each plane.
pub(crate) fn without_gpu() -> Result<()> {
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let mut random = Random(0x5eed_0004);
    let (mut imports, mut apart) = (0, 0);
    for round in 0..FORMATS.len() * 4 {
        let code = FORMATS[round % FORMATS.len()];
        let extent = size(&mut random, code);
        let (_, planes) = planes(code, extent);
        let several = planes.len() > 1 && round >= FORMATS.len() * 2;
        let mut camera = Camera::default();
        for plane in &planes {
            camera.add(plane, several, &mut random)?;
        }
        let seed = random.word();
        camera.write(&planes, seed)?;
        let what = format!("{code}, {extent:?}, {:?}", camera.places);
        let picture = camera.picture(code, extent)?;
        if !several && offered(&interop, code)?.contains(&0) {
            let imported = import(&interop, picture).map_err(|error| format!("{what}: {error}"))?;
            same(&what, &planes, &exchange_imported(&gpu, &imported, &planes, Some(seed ^ 1))?, seed)?;
            same(&format!("{what}: the answer"), &planes, &camera.read(&planes)?, seed ^ 1)?;
            imports += 1;
            continue;
        }
        // RADV has no disjoint images with modifiers, and no modifiers for P010.
        let Err(error) = import(&interop, picture) else { return Err(format!("{what}: imported as a whole")) };
        if error.kind() != ErrorKind::Unsupported || !error.message().contains("into_planes") {
            return Err(format!("{what}: {error}"));
        }
        let single = camera.picture(code, extent)?.into_planes().map_err(|failure| failure.to_string())?;
        for (index, (picture, plane)) in single.into_iter().zip(&planes).enumerate() {
            let imported = import(&interop, picture).map_err(|error| format!("{what}, plane {index}: {error}"))?;
            let plane_alone = [Plane { aspect: vk::ImageAspectFlags::COLOR, ..*plane }];
            let found = exchange_imported(&gpu, &imported, &plane_alone, None)?;
            same(&format!("{what}, plane {index}"), &[*plane], &found, seed)?;
            apart += 1;
        }
    }
    println!("{imports} pictures, {apart} planes apart");
    if imports < 30 || apart < 10 { Err(format!("{imports} pictures, {apart} planes apart")) } else { Ok(()) }
}

/// Memory without a GPU's driver.
#[derive(Default)]
struct Camera {
    files: Vec<(OwnedFd, u64)>,
    /// The file, the offset and the pitch of each plane.
    places: Vec<(usize, u64, u64)>,
}

impl Camera {
    /// Places a plane behind the others, or in a file of its own. The rows of RADV begin at multiples of 256 bytes.
    fn add(&mut self, plane: &Plane, alone: bool, random: &mut Random) -> Result<()> {
        if alone || self.files.is_empty() {
            let file = rustix::fs::memfd_create("camera", rustix::fs::MemfdFlags::CLOEXEC);
            self.files.push((file.map_err(|error| error.to_string())?, 0));
        }
        let file = self.files.len() - 1;
        let end = &mut self.files[file].1;
        let pitch = (plane.layout.row_size() + u64::from(random.below(3)) * 256).next_multiple_of(256);
        let offset = end.next_multiple_of(4096) + u64::from(random.below(16)) * 256;
        *end = offset + pitch * u64::from(plane.layout.extent[1]);
        // Whole pages, as every dma-buf has.
        let length = end.next_multiple_of(4096);
        rustix::fs::ftruncate(&self.files[file].0, length).map_err(|error| error.to_string())?;
        self.places.push((file, offset, pitch));
        Ok(())
    }

    fn picture(&self, code: &str, extent: [u32; 2]) -> Result<DmaBufPicture> {
        let plane = |(file, offset, pitch): &(usize, u64, u64)| {
            let file = self.files[*file].0.try_clone().map_err(|error| error.to_string())?;
            Ok(DmaBufPlane::new(file, *offset, *pitch))
        };
        let planes = self.places.iter().map(plane).collect::<Result<_>>()?;
        Ok(DmaBufPicture::new(DrmFourcc::from_code(code), DrmModifier::LINEAR, extent, planes))
    }

    fn write(&self, planes: &[Plane], seed: u64) -> Result<()> {
        for (plane, (file, offset, pitch)) in planes.iter().zip(&self.places) {
            let texels = plane.texels(seed);
            for (row, texels) in texels.chunks(texels.len() / plane.height()).enumerate() {
                let at = offset + pitch * row as u64;
                let written =
                    rustix::io::pwrite(&self.files[*file].0, texels, at).map_err(|error| error.to_string())?;
                assert_eq!(written, texels.len());
            }
        }
        Ok(())
    }

    fn read(&self, planes: &[Plane]) -> Result<Vec<Vec<u8>>> {
        let rows = |(plane, (file, offset, pitch)): (&Plane, &(usize, u64, u64))| {
            let mut texels = vec![0; plane.size()];
            let length = texels.len() / plane.height();
            for (row, texels) in texels.chunks_mut(length).enumerate() {
                let at = offset + pitch * row as u64;
                rustix::io::pread(&self.files[*file].0, texels, at).map_err(|error| error.to_string())?;
            }
            Ok(texels)
        };
        planes.iter().zip(&self.places).map(rows).collect()
    }
}
