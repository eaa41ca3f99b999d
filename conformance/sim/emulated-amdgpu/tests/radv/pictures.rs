//! Pictures on dma-bufs of other producers: this project's imports with an explicit layout, of images that RADV exports with
//! each of its modifiers, and of memory without a GPU.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use ash::vk;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier, TexelRow};
use gpu_interop_core::{ErrorKind, ImportError, PlaneLayout, VideoFormat};
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
pub(crate) struct Plane {
    aspect: vk::ImageAspectFlags,
    layout: PlaneLayout,
    /// The significant bits of each byte pair.
    mask: [u8; 2],
}

impl Plane {
    fn size(&self) -> usize {
        self.layout.size().and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
    }

    /// The plane as the only one of an image.
    fn alone(&self) -> Self {
        Self { aspect: vk::ImageAspectFlags::COLOR, ..*self }
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
pub(crate) struct Produced {
    image: vk::Image,
    memory: vk::DeviceMemory,
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
            // SAFETY: as above; no work uses it.
            unsafe { gpu.device.destroy_image(image, None) };
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
        Ok(Self { image, memory, file, layouts })
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

    /// Frees the image and its memory, which no work uses.
    fn free(self, gpu: &Gpu) {
        // SAFETY: both are live, and the caller has waited for all work on them.
        unsafe {
            gpu.device.destroy_image(self.image, None);
            gpu.device.free_memory(self.memory, None);
        }
    }
}

/// A picture in one image of RADV, or with each plane in an image of its own.
pub(crate) struct Sample {
    code: &'static str,
    modifier: u64,
    extent: [u32; 2],
    parts: Vec<(Produced, Vec<Plane>)>,
}

impl Sample {
    pub(crate) fn new(gpu: &Gpu, code: &'static str, extent: [u32; 2], modifier: u64, apart: bool) -> Result<Self> {
        let (format, planes) = planes(code, extent);
        let part = |plane: &Plane| -> Result<_> {
            let row = TexelRow::of_array(plane.layout.texel).ok_or("no such texel")?;
            let planes = vec![plane.alone()];
            let format = vk::Format::from_raw(row.vulkan);
            Ok((Produced::new(gpu, format, plane.layout.extent, modifier, &planes)?, planes))
        };
        let parts = match apart {
            true => planes.iter().map(part).collect::<Result<_>>()?,
            false => vec![(Produced::new(gpu, format, extent, modifier, &planes)?, planes)],
        };
        Ok(Self { code, modifier, extent, parts })
    }

    fn is_apart(&self) -> bool {
        self.parts.len() > 1
    }

    fn name(&self) -> String {
        format!("{}, modifier {:#x}, {:?}, in {} objects", self.code, self.modifier, self.extent, self.parts.len())
    }

    /// Writes the first texels, and releases the picture.
    pub(crate) fn write(&self, gpu: &Gpu, seed: u64) -> Result<()> {
        self.parts.iter().try_for_each(|(part, planes)| part.exchange(gpu, planes, true, Some(seed)).map(drop))
    }

    /// Fails unless the texels are those of the seed.
    fn expect(&self, gpu: &Gpu, seed: u64) -> Result<()> {
        let what = format!("{}: the answer", self.name());
        let check =
            |(part, planes): &(Produced, Vec<_>)| same(&what, planes, &part.exchange(gpu, planes, false, None)?, seed);
        self.parts.iter().try_for_each(check)
    }

    /// The planes as a producer passes them. The descriptors stay open on exec.
    pub(crate) fn planes(&self) -> Result<Vec<DmaBufPlane>> {
        let planes = self.parts.iter().flat_map(|(part, _)| part.layouts.iter().map(|layout| (&part.file, *layout)));
        let plane = |(file, [offset, pitch]): (&OwnedFd, [u64; 2])| {
            let file = rustix::io::dup(file).map_err(|error| error.to_string())?;
            Ok(DmaBufPlane::new(file, offset, pitch))
        };
        planes.map(plane).collect()
    }

    fn picture(&self) -> Result<DmaBufPicture> {
        Ok(DmaBufPicture::new(DrmFourcc::from_code(self.code), DrmModifier(self.modifier), self.extent, self.planes()?))
    }

    fn free(self, gpu: &Gpu) {
        self.parts.into_iter().for_each(|(part, _)| part.free(gpu));
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

fn import(
    interop: &VulkanInterop,
    picture: DmaBufPicture,
) -> std::result::Result<ImportedPicture, ImportError<DmaBufPicture>> {
    // SAFETY: the dma-bufs have the picture; the device has the extension for foreign queue families.
    unsafe { ImportedPicture::new(interop, picture, &PictureOptions::new(USAGE)) }
}

/// Imports the planes of a picture that RADV does not import as a whole: it has no disjoint images with modifiers.
fn import_planes(interop: &VulkanInterop, picture: DmaBufPicture) -> Result<Vec<ImportedPicture>> {
    let Err(failure) = import(interop, picture) else { return Err("imported as a whole".to_owned()) };
    let (error, picture) = failure.into_parts();
    if error.kind() != ErrorKind::Unsupported || !error.message().contains("into_planes") {
        return Err(error.to_string());
    }
    let planes = picture.into_planes().map_err(|failure| failure.to_string())?;
    planes.into_iter().map(|plane| import(interop, plane).map_err(|error| error.to_string())).collect()
}

/// Imports a picture, verifies its texels, and writes other ones.
pub(crate) fn answer(
    gpu: &Gpu,
    interop: &VulkanInterop,
    code: &str,
    picture: DmaBufPicture,
    apart: bool,
    [seed, answer]: [u64; 2],
) -> Result<()> {
    let what = format!("{code}, modifier {:#x}, {:?}, apart: {apart}", picture.modifier.0, picture.extent);
    let (_, planes) = planes(code, picture.extent);
    let images = match apart {
        true => import_planes(interop, picture),
        false => import(interop, picture).map(|image| vec![image]).map_err(|error| error.to_string()),
    };
    let images = images.map_err(|error| format!("{what}: {error}"))?;
    let planes = if apart { planes.iter().map(|plane| vec![plane.alone()]).collect() } else { vec![planes] };
    for (image, planes) in images.iter().zip(&planes) {
        same(&what, planes, &exchange_imported(gpu, image, planes, Some(answer))?, seed)?;
    }
    Ok(())
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
pub(crate) fn offered(interop: &VulkanInterop, code: &str) -> Result<Vec<u64>> {
    let found = interop.picture_modifiers(DrmFourcc::from_code(code), USAGE).map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|found| found.modifier.0).filter(|modifier| is_plain(*modifier)).collect())
}

/// The modifiers of the pictures of each plane.
pub(crate) fn offered_apart(interop: &VulkanInterop, code: &str) -> Result<Vec<u64>> {
    let (_, planes) = planes(code, [16, 16]);
    let Some(video) = VideoFormat::from_drm(DrmFourcc::from_code(code)) else { return Ok(Vec::new()) };
    let deep = video == VideoFormat::P010;
    let (luma, chroma) = (if deep { "R16 " } else { "R8  " }, if deep { "GR32" } else { "GR88" });
    let found = offered(interop, luma)?;
    let chroma = if planes.len() == 2 { offered(interop, chroma)? } else { found.clone() };
    Ok(found.into_iter().filter(|modifier| chroma.contains(modifier)).collect())
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
            let sample = Sample::new(&gpu, code, size(&mut random, code), modifier, false)?;
            let seed = random.word();
            sample.write(&gpu, seed)?;
            answer(&second, &interop, code, sample.picture()?, false, [seed, seed ^ 1])?;
            sample.expect(&gpu, seed ^ 1)?;
            count += 1;
        }
    }
    println!("{count} pictures");
    if count < 2 * FORMATS.len() { Err(format!("only {count} pictures")) } else { Ok(()) }
}

/// Pictures that one process answers.
const BATCH: usize = 50;

/// The seeds of the texels of a picture: at first, then as the second device and the second process answer.
fn seeds(base: u64, index: usize) -> [u64; 3] {
    [0, 1, 2].map(|turn| base.wrapping_add(4 * index as u64 + turn))
}

/// Random sizes of each format, in turn of each modifier and with the planes in one or in several objects. A second device answers
/// each picture, then a second process, and every byte is compared.
pub(crate) fn sizes(count: usize) -> Result<()> {
    let [gpu, second] = [Gpu::new(false)?, Gpu::new(false)?];
    let interop = interop(&second)?;
    let mut random = Random(0x5eed_0005);
    let (mut all, mut several) = (0, 0);
    for code in FORMATS {
        let (joint, apart) = (offered(&interop, code)?, offered_apart(&interop, code)?);
        let video = !apart.is_empty();
        let mut left = count;
        while left > 0 {
            let (mut samples, base) = (Vec::new(), random.word());
            for at in (0..left).take(BATCH) {
                let is_apart = video && (joint.is_empty() || at % 2 == 1);
                let modifiers = if is_apart { &apart } else { &joint };
                let turn = if video { at / 2 } else { at };
                let modifier = *modifiers.get(turn % modifiers.len().max(1)).ok_or("no modifier")?;
                let sample = Sample::new(&gpu, code, size(&mut random, code), modifier, is_apart)?;
                let [first, second_device, _] = seeds(base, samples.len());
                sample.write(&gpu, first)?;
                answer(&second, &interop, code, sample.picture()?, is_apart, [first, second_device])?;
                several += usize::from(is_apart);
                samples.push(sample);
            }
            left -= samples.len();
            all += samples.len();
            answer_elsewhere(&samples, base)?;
            (0..).zip(&samples).try_for_each(|(index, sample)| sample.expect(&gpu, seeds(base, index)[2]))?;
            samples.into_iter().for_each(|sample| sample.free(&gpu));
        }
    }
    println!("{all} pictures, {several} of them in several objects");
    match (all, several) {
        (all, several) if all == count * FORMATS.len() && several >= count => Ok(()),
        _ => Err(format!("{all} pictures, {several} in several objects")),
    }
}

/// The name of the second process.
pub(crate) const PEER: &str = "picture_peer";

/// A second process answers pictures of one format.
fn answer_elsewhere(samples: &[Sample], base: u64) -> Result<()> {
    let Some(Sample { code, .. }) = samples.first() else { return Ok(()) };
    let mut numbers = vec![base];
    let mut files = Vec::new();
    for sample in samples {
        let planes = sample.planes()?;
        let [width, height] = sample.extent.map(u64::from);
        numbers.extend([sample.modifier, width, height, u64::from(sample.is_apart()), planes.len() as u64]);
        for plane in planes {
            numbers.extend([u64::try_from(plane.fd.as_raw_fd()).unwrap_or(0), plane.offset, plane.pitch]);
            files.push(plane.fd);
        }
    }
    let mut peer = super::child::this_program();
    peer.args([CHILD, PEER, *code]).args(numbers.iter().map(u64::to_string));
    let status = peer.status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the second process: {status}")) }
}

/// As [`pictures`], in a second process.
pub(crate) fn second_process() -> Result<()> {
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let mut random = Random(0x5eed_0003);
    for code in ["XR24", "NV12"] {
        let modifiers = [(offered(&interop, code)?, false), (offered_apart(&interop, code)?, true)];
        let mut samples = Vec::new();
        for (modifiers, apart) in modifiers {
            for modifier in modifiers {
                let sample = Sample::new(&gpu, code, size(&mut random, code), modifier, apart)?;
                sample.write(&gpu, seeds(11, samples.len())[1])?;
                samples.push(sample);
            }
        }
        answer_elsewhere(&samples, 11)?;
        (0..).zip(&samples).try_for_each(|(index, sample)| sample.expect(&gpu, seeds(11, index)[2]))?;
    }
    Ok(())
}

pub(crate) fn peer(arguments: &[String]) -> Result<()> {
    let [code, numbers @ ..] = arguments else { return Err("a format is needed".to_owned()) };
    let mut numbers = numbers.iter().filter_map(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().ok_or("a number is missing");
    let base = next()?;
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let mut index = 0;
    while let Ok(modifier) = next() {
        let [_, seed, answered] = seeds(base, index);
        index += 1;
        let extent = [next()?, next()?].map(|side| u32::try_from(side).unwrap_or(0));
        let (apart, count) = (next()? != 0, next()?);
        let mut planes = Vec::new();
        for _ in 0..count {
            let file = i32::try_from(next()?).map_err(|error| error.to_string())?;
            // SAFETY: the parent passed it, and nothing else in this process uses it.
            let file = unsafe { OwnedFd::from_raw_fd(file) };
            planes.push(DmaBufPlane::new(file, next()?, next()?));
        }
        let picture = DmaBufPicture::new(DrmFourcc::from_code(code), DrmModifier(modifier), extent, planes);
        answer(&gpu, &interop, code, picture, apart, [seed, answered])?;
    }
    Ok(())
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
        let images = import_planes(&interop, picture).map_err(|error| format!("{what}: {error}"))?;
        for (index, (image, plane)) in images.iter().zip(&planes).enumerate() {
            let found = exchange_imported(&gpu, image, &[plane.alone()], None)?;
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
