//! The operations on images: one row each. A new operation is a row of [`OPERATIONS`] and a function.

use gpu_interop::vulkan::ChannelOrder;
use gpu_interop::vulkan::ash::vk;
use gpu_interop::{ChannelType, ReadMode};
use vk::{AccessFlags as Access, ImageLayout as Layout, ImageUsageFlags as Usage, PipelineStageFlags as Stage};

use super::gpu::{Attachments, Bindings, Bound, Drawing, Gpu, PrivateImage, rectangle};
use super::operation::{COMPUTE, GRAPHICS, Kind, Masks, Operation, Outcome, TRANSFER, operations};
use super::shaders::{self, Channels};
use crate::ensure;
use crate::exporter::{ImageSpec, Tiling};
use crate::image::{Fetched, Texels};
use crate::outcome::{Stop, Verdict};
use crate::pattern::compare;

/// An operation on one layer of one level of an image. Its subject: whether it exists for an image.
pub(super) type ImageOperation = Operation<Usage, fn(&ImageSpec) -> bool, fn(&Work<'_>) -> Verdict<Outcome>>;

/// One layer of one level during an operation.
pub(super) struct Work<'a> {
    pub(super) gpu: &'a Gpu<'a>,
    pub(super) commands: vk::CommandBuffer,
    pub(super) image: vk::Image,
    pub(super) spec: &'a ImageSpec,
    pub(super) format: vk::Format,
    pub(super) level: u32,
    pub(super) layer: u32,
    /// The layout of the image.
    pub(super) layout: Layout,
    /// Texels as the other side wrote them, tightly packed.
    pub(super) before: &'a [u8],
    /// Other texels, to write.
    pub(super) data: &'a [u8],
}

const ATTACHMENT: Masks = Masks {
    stages: Stage::COLOR_ATTACHMENT_OUTPUT,
    access: Access::from_raw(Access::COLOR_ATTACHMENT_READ.as_raw() | Access::COLOR_ATTACHMENT_WRITE.as_raw()),
    layout: Layout::COLOR_ATTACHMENT_OPTIMAL,
};
const COPY_TARGET: Masks =
    Masks { stages: Stage::TRANSFER, access: Access::TRANSFER_WRITE, layout: Layout::TRANSFER_DST_OPTIMAL };
const COPY_SOURCE: Masks =
    Masks { stages: Stage::TRANSFER, access: Access::TRANSFER_READ, layout: Layout::TRANSFER_SRC_OPTIMAL };
const STORED: Masks = Masks { stages: Stage::COMPUTE_SHADER, access: Access::SHADER_WRITE, layout: Layout::GENERAL };
const STORED_DRAWN: Masks =
    Masks { stages: Stage::FRAGMENT_SHADER, access: Access::SHADER_WRITE, layout: Layout::GENERAL };
const LOADED: Masks = Masks { stages: Stage::COMPUTE_SHADER, access: Access::SHADER_READ, layout: Layout::GENERAL };
const FETCHED: Masks =
    Masks { stages: Stage::COMPUTE_SHADER, access: Access::SHADER_READ, layout: Layout::SHADER_READ_ONLY_OPTIMAL };
const FETCHED_DRAWN: Masks =
    Masks { stages: Stage::FRAGMENT_SHADER, access: Access::SHADER_READ, layout: Layout::SHADER_READ_ONLY_OPTIMAL };
/// A render pass also loads the attachment, and stores it.
const READ_INPUT: Masks = Masks {
    stages: Stage::from_raw(Stage::FRAGMENT_SHADER.as_raw() | Stage::COLOR_ATTACHMENT_OUTPUT.as_raw()),
    access: Access::from_raw(
        Access::INPUT_ATTACHMENT_READ.as_raw()
            | Access::COLOR_ATTACHMENT_READ.as_raw()
            | Access::COLOR_ATTACHMENT_WRITE.as_raw(),
    ),
    layout: Layout::SHADER_READ_ONLY_OPTIMAL,
};

// Columns: name, kind, the scenario's sentence, usage, queue, masks, images, commands.
operations! {
    ImageOperation, images_in;
    "clear" Changes, "vkCmdClearColorImage: the device finds the colour in every texel.",
        Usage::empty(), COMPUTE, COPY_TARGET, is_clearable, clear;
    "copy_from_buffer" Writes, "vkCmdCopyBufferToImage: the device finds every texel.",
        Usage::empty(), TRANSFER, COPY_TARGET, |_| true, copy_from_buffer;
    "copy_from_image" Writes, "vkCmdCopyImage from an image that is not shared: the device finds every texel.",
        Usage::empty(), TRANSFER, COPY_TARGET, |_| true, copy_from_image;
    "blit" Writes, "vkCmdBlitImage of equal size: the device finds every texel.",
        Usage::empty(), GRAPHICS, COPY_TARGET, |_| true, |work| blit(work, 1);
    "blit_scaled" Changes, "vkCmdBlitImage to twice the size: the device finds every texel, and its own texels around them.",
        Usage::empty(), GRAPHICS, COPY_TARGET, |_| true, |work| blit(work, 2);
    "blit_converted" Writes, "vkCmdBlitImage from BGRA to RGBA: the device finds every texel.",
        Usage::empty(), GRAPHICS, COPY_TARGET, is_rgba8, blit_converted;
    "draw" Writes, "A draw in a render pass: the device finds every texel.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, ATTACHMENT, is_drawable, draw;
    "draw_dynamic" Writes, "A draw in dynamic rendering: the device finds every texel.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, ATTACHMENT, is_drawable, draw_dynamic;
    "draw_over" Changes, "A draw over a part of an earlier draw: the device finds both.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, ATTACHMENT, is_drawable, draw_over;
    "draw_part" Changes, "A draw to a part of what the device wrote: the device finds it, and its own texels around it.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, ATTACHMENT, is_drawable, draw_part;
    "draw_added" Changes, "Blending adds to what the device wrote: the device finds the sums.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, ATTACHMENT, is_rgba8, draw_added;
    "draw_several" Writes, "A draw to two attachments: the device finds every texel of the second.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, ATTACHMENT, is_float, draw_several;
    "draw_resolved" Writes, "A render pass that resolves four samples: the device finds every texel.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, ATTACHMENT, is_resolvable, draw_resolved;
    "resolve" Writes, "vkCmdResolveImage of four samples: the device finds every texel.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, COPY_TARGET, is_resolvable, resolve;
    "store" Writes, "Stores of a compute shader to a storage image: the device finds every texel.",
        Usage::STORAGE, COMPUTE, STORED, shaders::has_storage, store;
    "store_drawn" Writes, "Stores of a fragment shader to a storage image: the device finds every texel.",
        Usage::STORAGE, GRAPHICS, STORED_DRAWN, is_stored_drawn, store_drawn;
    "copy_to_buffer" Reads, "vkCmdCopyImageToBuffer finds every texel of the device.",
        Usage::empty(), TRANSFER, COPY_SOURCE, |_| true, copy_to_buffer;
    "copy_to_image" Reads, "vkCmdCopyImage to an image that is not shared finds every texel of the device.",
        Usage::empty(), TRANSFER, COPY_SOURCE, |_| true, copy_to_image;
    "blit_from" Reads, "vkCmdBlitImage to twice the size finds every texel of the device.",
        Usage::empty(), GRAPHICS, COPY_SOURCE, |_| true, blit_from;
    "fetch" Reads, "Fetches of a compute shader find every texel of the device.",
        Usage::empty(), COMPUTE, FETCHED, |_| true, fetch;
    "fetch_drawn" Reads, "Fetches of a fragment shader find every texel of the device.",
        Usage::empty(), GRAPHICS, FETCHED_DRAWN, is_flat, fetch_drawn;
    "read_input" Reads, "An input attachment of a render pass has every texel of the device.",
        Usage::COLOR_ATTACHMENT, GRAPHICS, READ_INPUT, is_flat, read_input;
    "sample" Reads, "A sampler with a point filter finds every texel of the device.",
        Usage::empty(), COMPUTE, FETCHED, is_sampled, sample;
    "sample_linear" Reads, "A sampler with a linear filter finds the means of the device's texels, to within a code.",
        Usage::empty(), COMPUTE, FETCHED, is_sampled, sample_linear;
    "load" Reads, "Loads of a compute shader from a storage image find every texel of the device.",
        Usage::STORAGE, COMPUTE, LOADED, shaders::has_storage, load;
}

fn is_volume(spec: &ImageSpec) -> bool {
    matches!(spec.shape, gpu_interop::ArrayShape::D3 { .. })
}

fn is_flat(spec: &ImageSpec) -> bool {
    !is_volume(spec)
}

fn is_rgba8(spec: &ImageSpec) -> bool {
    spec.format.array.channel() == ChannelType::Unorm8 && spec.format.array.channels() == 4 && is_linear_light(spec)
}

/// Shaders' floats are encoded as sRGB with rounding that drivers choose.
fn is_linear_light(spec: &ImageSpec) -> bool {
    spec.format.encoding == gpu_interop::vulkan::ColorEncoding::Linear
}

fn is_float(spec: &ImageSpec) -> bool {
    Channels::of(spec) == Channels::Float && is_linear_light(spec)
}

fn is_drawable(spec: &ImageSpec) -> bool {
    is_linear_light(spec)
}

/// Of floats, averages of large numbers overflow.
fn is_resolvable(spec: &ImageSpec) -> bool {
    is_linear_light(spec) && !matches!(spec.format.array.channel(), ChannelType::Float16 | ChannelType::Float32)
}

fn is_stored_drawn(spec: &ImageSpec) -> bool {
    is_flat(spec) && shaders::has_storage(spec)
}

/// Halves of other formats are not codes that the comparison can compute.
fn is_sampled(spec: &ImageSpec) -> bool {
    is_flat(spec) && is_rgba8(spec)
}

/// A colour of floats or of integers, which `vkCmdClearColorImage` converts as a shader's output.
fn is_clearable(spec: &ImageSpec) -> bool {
    is_linear_light(spec)
}

impl Work<'_> {
    /// Width, height and slices of the layer, texels.
    fn extent(&self) -> Verdict<[u32; 3]> {
        let [width, height, slices] = self.spec.layer_extent(self.level);
        Ok([u32::try_from(width)?, u32::try_from(height)?, u32::try_from(slices)?])
    }

    fn flat_extent(&self) -> Verdict<[u32; 2]> {
        let [width, height, _] = self.extent()?;
        Ok([width, height])
    }

    fn texel_size(&self) -> usize {
        self.spec.format.array.texel_size() as usize
    }

    fn subresource(&self) -> vk::ImageSubresourceLayers {
        vk::ImageSubresourceLayers::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .mip_level(self.level)
            .base_array_layer(self.layer)
            .layer_count(1)
    }

    /// The whole layer as the region of a copy to or from a tightly packed buffer.
    fn region(&self) -> Verdict<vk::BufferImageCopy> {
        let [width, height, depth] = self.extent()?;
        let region = vk::BufferImageCopy::default();
        Ok(region.image_subresource(self.subresource()).image_extent(vk::Extent3D { width, height, depth }))
    }

    /// A view of the layer for shaders: an array of one layer, or a volume.
    fn view(&self) -> Verdict<vk::ImageView> {
        let view_type =
            if is_volume(self.spec) { vk::ImageViewType::TYPE_3D } else { vk::ImageViewType::TYPE_2D_ARRAY };
        self.gpu.view(self.image, self.format, view_type, [self.level, self.layer])
    }

    /// A view for draws of each slice of the layer.
    fn attachments(&self) -> Verdict<Vec<vk::ImageView>> {
        let [_, _, slices] = self.extent()?;
        let view = |slice| {
            let place = [self.level, if is_volume(self.spec) { slice } else { self.layer }];
            self.gpu.view(self.image, self.format, vk::ImageViewType::TYPE_2D, place)
        };
        (0..slices).map(view).collect()
    }

    /// Four words a texel: what a shader must write for these bytes, or reads from them.
    fn channels(&self, bytes: &[u8]) -> Verdict<Vec<u32>> {
        let mut words = Vec::with_capacity(bytes.len() / self.texel_size() * 4);
        for texel in bytes.chunks_exact(self.texel_size()) {
            let mut four = [0_u32; 4];
            for (word, expected) in four.iter_mut().zip(self.fetched(texel)?) {
                *word = match expected {
                    Fetched::Bits(bits) => bits,
                    #[allow(clippy::cast_possible_truncation, reason = "rounds")]
                    Fetched::Near(value) => (value as f32).to_bits(),
                    Fetched::SrgbCode(_) => return Err(Stop::failed("shaders write no sRGB here".into())),
                };
            }
            words.extend(self.as_colour(four));
        }
        Ok(words)
    }

    fn fetched(&self, texel: &[u8]) -> Verdict<Vec<Fetched>> {
        let array = self.spec.format.array;
        let read = if Channels::of(self.spec) == Channels::Float && array.channel().is_integer() {
            ReadMode::NormalizedFloat
        } else {
            ReadMode::Element
        };
        Fetched::expected(array, read, texel)
    }

    /// The channels of a texel in the order red, green, blue, alpha, or the other way.
    fn as_colour<T: Copy>(&self, four: [T; 4]) -> [T; 4] {
        let [first, second, third, fourth] = four;
        match self.spec.format.order {
            ChannelOrder::Bgra => [third, second, first, fourth],
            _ => four,
        }
    }

    /// Checks four words a texel, as read by a shader, against bytes.
    fn check_channels(
        &self,
        what: &'static str,
        expected: &[u8],
        results: gpu_interop::vulkan::OwnedBuffer,
    ) -> Verdict<Outcome> {
        let fetched = expected.chunks_exact(self.texel_size()).map(|texel| self.fetched(texel));
        let fetched = fetched.collect::<Verdict<Vec<_>>>()?;
        let [width, height, _] = self.extent()?;
        let (order, level, layer, spec) = (self.spec.format.order, self.level, self.layer, *self.spec);
        Ok(Outcome::read(move || {
            let mut bytes = vec![0; fetched.len() * 16];
            results.read(0, &mut bytes)?;
            for (index, (texel, expected)) in bytes.as_chunks::<16>().0.iter().zip(&fetched).enumerate() {
                let mut words: Vec<u32> =
                    texel.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
                if order == ChannelOrder::Bgra {
                    words.swap(0, 2);
                }
                let met = expected.iter().zip(&words).all(|(expected, bits)| expected.is_met_by(*bits));
                let (x, y) = (index % width as usize, index / width as usize % height as usize);
                ensure!(
                    met,
                    "{what}: texel ({x}, {y}) of layer {layer}, level {level} of {spec}: expected {expected:?}, found {words:#x?}"
                );
            }
            Ok(())
        }))
    }

    /// Checks the bytes that were copied to `found`.
    fn check_bytes(&self, what: &'static str, expected: Vec<u8>, found: gpu_interop::vulkan::OwnedBuffer) -> Outcome {
        let (level, layer, spec) = (self.level, self.layer, *self.spec);
        Outcome::read(move || {
            let mut bytes = vec![0; expected.len()];
            found.read(0, &mut bytes)?;
            compare(&bytes, &expected, format_args!("{what}: layer {layer}, level {level} of {spec}"))
        })
    }

    /// The texels of `inner` at the places of `region`, and of `outer` elsewhere.
    fn mixed(&self, outer: &[u8], inner: &[u8], [origin, extent]: [[u32; 2]; 2]) -> Verdict<Vec<u8>> {
        let size = self.texel_size();
        let [width, height, slices] = self.extent()?.map(|n| n as usize);
        let mut mixed = Texels::new([width, height, slices], size, outer.to_vec())?;
        let inner = Texels::new([width, height, slices], size, inner.to_vec())?;
        let (origin, extent) = (origin.map(|n| n as usize), extent.map(|n| n as usize));
        let (origin, extent) = ([origin[0], origin[1], 0], [extent[0], extent[1], slices]);
        mixed.put(origin, extent, &inner.part(origin, extent))?;
        Ok(mixed.bytes)
    }

    /// A region that leaves a border where the layer is wide enough.
    fn part(&self) -> Verdict<[[u32; 2]; 2]> {
        let extent = self.flat_extent()?;
        let origin = extent.map(|n| n / 4);
        Ok([origin, extent.map(|n| (n / 2).max(1))])
    }

    /// A private image of the layer's format and extent with these texels, in the layout `TRANSFER_SRC_OPTIMAL`.
    fn private_source(&self, format: vk::Format, extent: [u32; 3], bytes: &[u8]) -> Verdict<vk::Image> {
        let wanted = PrivateImage {
            format,
            extent,
            samples: vk::SampleCountFlags::TYPE_1,
            usage: Usage::TRANSFER_SRC | Usage::TRANSFER_DST,
        };
        let image = self.gpu.image(&wanted)?;
        let source = self.gpu.buffer(bytes, vk::BufferUsageFlags::TRANSFER_SRC)?;
        self.gpu.transition(self.commands, image, [Layout::UNDEFINED, Layout::TRANSFER_DST_OPTIMAL]);
        let [width, height, depth] = extent;
        let region = vk::BufferImageCopy::default().image_subresource(whole()).image_extent(vk::Extent3D {
            width,
            height,
            depth,
        });
        // SAFETY: recording, outside a render pass; buffer and image are live, of this device and usable for it, the image
        // in this layout; the buffer has as many bytes as the image's texels.
        unsafe {
            self.gpu.device().cmd_copy_buffer_to_image(
                self.commands,
                source.as_raw(),
                image,
                Layout::TRANSFER_DST_OPTIMAL,
                &[region],
            );
        }
        self.gpu.transition(self.commands, image, [Layout::TRANSFER_DST_OPTIMAL, Layout::TRANSFER_SRC_OPTIMAL]);
        Ok(image)
    }

    /// A private image without contents, in the layout `TRANSFER_DST_OPTIMAL`.
    fn private_target(&self, extent: [u32; 3]) -> Verdict<vk::Image> {
        let usage = Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
        let wanted = PrivateImage { format: self.format, extent, samples: vk::SampleCountFlags::TYPE_1, usage };
        let image = self.gpu.image(&wanted)?;
        self.gpu.transition(self.commands, image, [Layout::UNDEFINED, Layout::TRANSFER_DST_OPTIMAL]);
        Ok(image)
    }

    /// Copies a private image to a buffer, and checks the bytes.
    fn check_private(
        &self,
        what: &'static str,
        image: vk::Image,
        extent: [u32; 3],
        expected: Vec<u8>,
    ) -> Verdict<Outcome> {
        let found = self.gpu.results(expected.len())?;
        self.gpu.transition(self.commands, image, [Layout::TRANSFER_DST_OPTIMAL, Layout::TRANSFER_SRC_OPTIMAL]);
        let [width, height, depth] = extent;
        let region = vk::BufferImageCopy::default().image_subresource(whole()).image_extent(vk::Extent3D {
            width,
            height,
            depth,
        });
        // SAFETY: as in `private_source`.
        unsafe {
            self.gpu.device().cmd_copy_image_to_buffer(
                self.commands,
                image,
                Layout::TRANSFER_SRC_OPTIMAL,
                found.as_raw(),
                &[region],
            );
        }
        Ok(self.check_bytes(what, expected, found))
    }

    fn needs_features(&self, of: &str, has: impl FnOnce(&vk::PhysicalDeviceFeatures) -> vk::Bool32) -> Verdict {
        if has(&self.gpu.features()) == vk::TRUE {
            return Ok(());
        }
        Err(Stop::unsupported(format!("the exporter's device has no {of}")))
    }
}

fn whole() -> vk::ImageSubresourceLayers {
    vk::ImageSubresourceLayers::default().aspect_mask(vk::ImageAspectFlags::COLOR).layer_count(1)
}

/// Every texel becomes the first one of the data.
fn clear(work: &Work<'_>) -> Verdict<Outcome> {
    let size = work.texel_size();
    let first = work.data.get(..size).ok_or_else(|| Stop::failed("no texel".into()))?;
    let words = work.channels(first)?;
    let mut uint32 = [0; 4];
    uint32.copy_from_slice(&words);
    let range = vk::ImageSubresourceRange::default()
        .aspect_mask(vk::ImageAspectFlags::COLOR)
        .base_mip_level(work.level)
        .level_count(1)
        .base_array_layer(work.layer)
        .layer_count(1);
    // The three forms of a colour are the same 16 bytes.
    let color = vk::ClearColorValue { uint32 };
    // SAFETY: recording, outside a render pass, on a queue that is not transfer-only; the image is live, of this device, a
    // transfer destination, in this layout, and has the level and layer.
    unsafe { work.gpu.device().cmd_clear_color_image(work.commands, work.image, work.layout, &color, &[range]) };
    Ok(Outcome::written(first.repeat(work.data.len() / size)))
}

fn copy_from_buffer(work: &Work<'_>) -> Verdict<Outcome> {
    let source = work.gpu.buffer(work.data, vk::BufferUsageFlags::TRANSFER_SRC)?;
    let region = work.region()?;
    // SAFETY: recording, outside a render pass; both are live, of this device and usable for it, the image in this layout;
    // the buffer has as many bytes as the layer's texels.
    unsafe {
        work.gpu.device().cmd_copy_buffer_to_image(work.commands, source.as_raw(), work.image, work.layout, &[region]);
    }
    Ok(Outcome::written(work.data.to_vec()))
}

fn copy_from_image(work: &Work<'_>) -> Verdict<Outcome> {
    let extent = work.extent()?;
    let source = work.private_source(work.format, extent, work.data)?;
    let region = image_copy(whole(), work.subresource(), extent);
    // SAFETY: recording, outside a render pass; both images are live, of this device, usable for it, of one format, in
    // these layouts, and have the region.
    unsafe {
        work.gpu.device().cmd_copy_image(
            work.commands,
            source,
            Layout::TRANSFER_SRC_OPTIMAL,
            work.image,
            work.layout,
            &[region],
        );
    }
    Ok(Outcome::written(work.data.to_vec()))
}

fn image_copy(
    from: vk::ImageSubresourceLayers,
    to: vk::ImageSubresourceLayers,
    [width, height, depth]: [u32; 3],
) -> vk::ImageCopy {
    vk::ImageCopy::default().src_subresource(from).dst_subresource(to).extent(vk::Extent3D { width, height, depth })
}

fn image_blit(
    from: (vk::ImageSubresourceLayers, [u32; 3]),
    to: (vk::ImageSubresourceLayers, [u32; 3]),
) -> vk::ImageBlit {
    let corner = |extent: [u32; 3]| {
        let [x, y, z] = extent.map(|n| i32::try_from(n).unwrap_or(i32::MAX));
        [vk::Offset3D::default(), vk::Offset3D { x, y, z }]
    };
    vk::ImageBlit::default()
        .src_subresource(from.0)
        .src_offsets(corner(from.1))
        .dst_subresource(to.0)
        .dst_offsets(corner(to.1))
}

/// Each texel of each row repeated `factor` times in each of the two dimensions; cut to `width` and `height`.
fn enlarged(texels: &[u8], size: usize, [width, height]: [u32; 2], factor: u32, from_width: u32) -> Vec<u8> {
    let source = |x: u32, y: u32| {
        let at = (y / factor * from_width + x / factor) as usize * size;
        texels.get(at..at + size).unwrap_or_default()
    };
    (0..height).flat_map(|y| (0..width).flat_map(move |x| source(x, y))).copied().collect()
}

/// A nearest filter, scaled by a whole factor.
fn blit(work: &Work<'_>, factor: u32) -> Verdict<Outcome> {
    check_blits(work, [work.format; 2])?;
    let [width, height, slices] = work.extent()?;
    if slices > 1 && factor > 1 {
        return Err(Stop::unsupported("slices are not enlarged".into()));
    }
    // Only the texels of whole squares are written.
    let from = [(width / factor).max(1), (height / factor).max(1)];
    let to =
        if factor == 1 { [width, height] } else { [(from[0] * factor).min(width), (from[1] * factor).min(height)] };
    if factor > 1 && (to[0] != from[0] * factor || to[1] != from[1] * factor) {
        return Err(Stop::unsupported("the level is smaller than a square of the scale".into()));
    }
    let bytes = from[0] as usize * from[1] as usize * slices as usize * work.texel_size();
    let texels = work.data.get(..bytes).unwrap_or(work.data);
    let source = work.private_source(work.format, [from[0], from[1], slices], texels)?;
    let region = image_blit((whole(), [from[0], from[1], slices]), (work.subresource(), [to[0], to[1], slices]));
    record_blit(work, (source, Layout::TRANSFER_SRC_OPTIMAL), (work.image, work.layout), region);
    if factor == 1 {
        return Ok(Outcome::written(texels.to_vec()));
    }
    let mut full = vec![0; work.before.len()];
    let large = enlarged(texels, work.texel_size(), to, factor, from[0]);
    let rows = large.chunks_exact(to[0] as usize * work.texel_size());
    for (row, target) in rows.zip(full.chunks_exact_mut(width as usize * work.texel_size())) {
        target[..row.len()].copy_from_slice(row);
    }
    Ok(Outcome::written(work.mixed(work.before, &full, [[0, 0], to])?))
}

fn check_blits(work: &Work<'_>, [from, to]: [vk::Format; 2]) -> Verdict {
    let interop = work.gpu.context.interop();
    let features = |format, linear| {
        // SAFETY: the physical device belongs to the live instance.
        let properties =
            unsafe { interop.instance().get_physical_device_format_properties(interop.physical_device(), format) };
        if linear { properties.linear_tiling_features } else { properties.optimal_tiling_features }
    };
    let linear = work.spec.tiling == Tiling::Linear;
    // Private images are of optimal tiling.
    let source = features(from, false) | if linear { features(from, true) } else { vk::FormatFeatureFlags::empty() };
    if source.contains(vk::FormatFeatureFlags::BLIT_SRC)
        && features(to, false).contains(vk::FormatFeatureFlags::BLIT_DST)
        && features(work.format, linear).contains(vk::FormatFeatureFlags::BLIT_SRC | vk::FormatFeatureFlags::BLIT_DST)
    {
        return Ok(());
    }
    Err(Stop::unsupported(format!("the exporter does not blit {from:?} to {to:?}, {:?}", work.spec.tiling)))
}

fn record_blit(
    work: &Work<'_>,
    (from, from_layout): (vk::Image, Layout),
    (to, to_layout): (vk::Image, Layout),
    region: vk::ImageBlit,
) {
    // SAFETY: recording, outside a render pass, on a queue with graphics; both images are live, of this device, have
    // formats for blits, are in these layouts, and have the regions.
    unsafe {
        work.gpu.device().cmd_blit_image(
            work.commands,
            from,
            from_layout,
            to,
            to_layout,
            &[region],
            vk::Filter::NEAREST,
        );
    }
}

/// From an image with red and blue exchanged.
fn blit_converted(work: &Work<'_>) -> Verdict<Outcome> {
    let other = match work.spec.format.order {
        ChannelOrder::Bgra => vk::Format::R8G8B8A8_UNORM,
        _ => vk::Format::B8G8R8A8_UNORM,
    };
    check_blits(work, [other, work.format])?;
    let extent = work.extent()?;
    let mut exchanged = work.data.to_vec();
    exchanged.as_chunks_mut::<4>().0.iter_mut().for_each(|texel| texel.swap(0, 2));
    let source = work.private_source(other, extent, &exchanged)?;
    let region = image_blit((whole(), extent), (work.subresource(), extent));
    record_blit(work, (source, Layout::TRANSFER_SRC_OPTIMAL), (work.image, work.layout), region);
    Ok(Outcome::written(work.data.to_vec()))
}

/// How texels are drawn to views.
struct Draws<'a> {
    fragment: &'a str,
    samples: vk::SampleCountFlags,
    load: vk::AttachmentLoadOp,
    adds: bool,
}

const OVERWRITES: vk::AttachmentLoadOp = vk::AttachmentLoadOp::DONT_CARE;
const ONE_SAMPLE: vk::SampleCountFlags = vk::SampleCountFlags::TYPE_1;
const FOUR_SAMPLES: vk::SampleCountFlags = vk::SampleCountFlags::TYPE_4;

/// A buffer with the channels of these texels, bound for draws.
fn bind_texels(work: &Work<'_>, bytes: &[u8]) -> Verdict<Bindings> {
    let texels = work.gpu.words(&work.channels(bytes)?)?;
    work.gpu.bind(&[Bound::Read(texels.as_raw())])
}

/// Draws texels, from number `base` of those that are bound, to attachments of one extent.
fn draw_to(
    work: &Work<'_>,
    (views, resolved): (&[vk::ImageView], Option<vk::ImageView>),
    draws: &Draws<'_>,
    bindings: &[(Bindings, u32, vk::Rect2D)],
) -> Verdict {
    let extent = work.flat_extent()?;
    let formats = vec![work.format; views.len()];
    let attachments = Attachments {
        views,
        formats: &formats,
        samples: draws.samples,
        load: draws.load,
        resolved,
        input: None,
        extent,
    };
    let pass = work.gpu.begin(work.commands, &attachments)?;
    for (bindings, base, scissor) in bindings {
        let drawing = Drawing {
            shader: shaders::DRAW,
            vertex: "covering",
            fragment: Some(draws.fragment),
            formats: &formats,
            samples: draws.samples,
            pass: Some(pass),
            adds: draws.adds,
            points: None,
        };
        work.gpu.draws(work.commands, &drawing, *bindings, [extent[0], extent[1], *base])?;
        work.gpu.cover(work.commands, extent, *scissor);
    }
    work.gpu.end(work.commands);
    Ok(())
}

fn of_format(work: &Work<'_>) -> Draws<'static> {
    let fragment = shaders::drawn(Channels::of(work.spec));
    Draws { fragment, samples: ONE_SAMPLE, load: OVERWRITES, adds: false }
}

/// For each slice: its view, the number of its first texel, and its whole rectangle.
fn slices(work: &Work<'_>) -> Verdict<Vec<(vk::ImageView, u32, vk::Rect2D)>> {
    let extent = work.flat_extent()?;
    let slice = extent[0] * extent[1];
    let views = work.attachments()?;
    Ok((0..).zip(views).map(|(index, view)| (view, index * slice, rectangle([0, 0], extent))).collect())
}

fn draw(work: &Work<'_>) -> Verdict<Outcome> {
    let texels = bind_texels(work, work.data)?;
    for (view, base, all) in slices(work)? {
        draw_to(work, (&[view], None), &of_format(work), &[(texels, base, all)])?;
    }
    Ok(Outcome::written(work.data.to_vec()))
}

fn draw_dynamic(work: &Work<'_>) -> Verdict<Outcome> {
    let texels = bind_texels(work, work.data)?;
    let extent = work.flat_extent()?;
    for (view, base, all) in slices(work)? {
        let functions = work.gpu.begin_dynamic(work.commands, view, extent)?;
        let drawing = Drawing {
            shader: shaders::DRAW,
            vertex: "covering",
            fragment: Some(of_format(work).fragment),
            formats: &[work.format],
            samples: ONE_SAMPLE,
            pass: None,
            adds: false,
            points: None,
        };
        work.gpu.draws(work.commands, &drawing, texels, [extent[0], extent[1], base])?;
        work.gpu.cover(work.commands, extent, all);
        // SAFETY: recording, inside the rendering that was just begun.
        unsafe { functions.cmd_end_rendering(work.commands) };
    }
    Ok(Outcome::written(work.data.to_vec()))
}

/// Two draws in one render pass: the second covers a part of the first.
fn draw_over(work: &Work<'_>) -> Verdict<Outcome> {
    let first: Vec<u8> = work.data.chunks_exact(work.texel_size()).rev().flatten().copied().collect();
    let (below, above) = (bind_texels(work, &first)?, bind_texels(work, work.data)?);
    let part = work.part()?;
    for (view, base, all) in slices(work)? {
        let draws = [(below, base, all), (above, base, rectangle(part[0], part[1]))];
        draw_to(work, (&[view], None), &of_format(work), &draws)?;
    }
    Ok(Outcome::written(work.mixed(&first, work.data, part)?))
}

/// The render pass loads what the other side wrote, and keeps it outside of a part.
fn draw_part(work: &Work<'_>) -> Verdict<Outcome> {
    let texels = bind_texels(work, work.data)?;
    let part = work.part()?;
    let draws = Draws { load: vk::AttachmentLoadOp::LOAD, ..of_format(work) };
    for (view, base, _) in slices(work)? {
        draw_to(work, (&[view], None), &draws, &[(texels, base, rectangle(part[0], part[1]))])?;
    }
    Ok(Outcome::written(work.mixed(work.before, work.data, part)?))
}

/// Blending adds to what the other side wrote.
fn draw_added(work: &Work<'_>) -> Verdict<Outcome> {
    // Sums that no code exceeds.
    let added: Vec<u8> =
        work.data.iter().zip(work.before).map(|(data, before)| data % (u8::MAX - before).max(1)).collect();
    let sums = added.iter().zip(work.before).map(|(added, before)| added.saturating_add(*before)).collect();
    let texels = bind_texels(work, &added)?;
    let draws = Draws { load: vk::AttachmentLoadOp::LOAD, adds: true, ..of_format(work) };
    for (view, base, all) in slices(work)? {
        draw_to(work, (&[view], None), &draws, &[(texels, base, all)])?;
    }
    Ok(Outcome::written(sums))
}

/// The shared image is the second of two attachments.
fn draw_several(work: &Work<'_>) -> Verdict<Outcome> {
    let extent = work.flat_extent()?;
    let slice = extent[0] as usize * extent[1] as usize * work.texel_size();
    for (index, (view, _, all)) in slices(work)?.into_iter().enumerate() {
        let second = work.data.get(index * slice..(index + 1) * slice).unwrap_or_default();
        let first: Vec<u8> = second.chunks_exact(work.texel_size()).rev().flatten().copied().collect();
        let texels = bind_texels(work, &[&first, second].concat())?;
        let other = private_attachment(work, ONE_SAMPLE)?;
        let draws = Draws { fragment: "two", ..of_format(work) };
        draw_to(work, (&[other, view], None), &draws, &[(texels, 0, all)])?;
    }
    Ok(Outcome::written(work.data.to_vec()))
}

/// A view of a private image of the layer's extent, for draws.
fn private_attachment(work: &Work<'_>, samples: vk::SampleCountFlags) -> Verdict<vk::ImageView> {
    let image = multisampled(work, samples)?;
    work.gpu.view(image, work.format, vk::ImageViewType::TYPE_2D, [0, 0])
}

fn multisampled(work: &Work<'_>, samples: vk::SampleCountFlags) -> Verdict<vk::Image> {
    if Channels::of(work.spec) != Channels::Float && !work.gpu.integer_samples().contains(samples) {
        return Err(Stop::unsupported("the exporter does not draw several samples of integers".into()));
    }
    let [width, height] = work.flat_extent()?;
    let usage = Usage::COLOR_ATTACHMENT | Usage::TRANSFER_SRC;
    let wanted = PrivateImage { format: work.format, extent: [width, height, 1], samples, usage };
    let image = work.gpu.image(&wanted)?;
    work.gpu.transition(work.commands, image, [Layout::UNDEFINED, Layout::COLOR_ATTACHMENT_OPTIMAL]);
    Ok(image)
}

/// The shared image is what a render pass resolves four equal samples to.
fn draw_resolved(work: &Work<'_>) -> Verdict<Outcome> {
    let texels = bind_texels(work, work.data)?;
    for (view, base, all) in slices(work)? {
        let samples = private_attachment(work, FOUR_SAMPLES)?;
        let draws = Draws { samples: FOUR_SAMPLES, ..of_format(work) };
        draw_to(work, (&[samples], Some(view)), &draws, &[(texels, base, all)])?;
    }
    Ok(Outcome::written(work.data.to_vec()))
}

/// `vkCmdResolveImage` of four equal samples.
fn resolve(work: &Work<'_>) -> Verdict<Outcome> {
    let texels = bind_texels(work, work.data)?;
    let [width, height, slices] = work.extent()?;
    for slice in 0..slices {
        let image = multisampled(work, FOUR_SAMPLES)?;
        let view = work.gpu.view(image, work.format, vk::ImageViewType::TYPE_2D, [0, 0])?;
        let draws = Draws { samples: FOUR_SAMPLES, ..of_format(work) };
        let all = rectangle([0, 0], [width, height]);
        draw_to(work, (&[view], None), &draws, &[(texels, slice * width * height, all)])?;
        let layouts = [Layout::COLOR_ATTACHMENT_OPTIMAL, Layout::TRANSFER_SRC_OPTIMAL];
        work.gpu.transition(work.commands, image, layouts);
        let region = vk::ImageResolve::default()
            .src_subresource(whole())
            .dst_subresource(work.subresource())
            .dst_offset(vk::Offset3D { x: 0, y: 0, z: i32::try_from(slice)? })
            .extent(vk::Extent3D { width, height, depth: 1 });
        // SAFETY: recording, outside a render pass, on a queue with graphics; both images are live, of this device, of one
        // format that is drawn to, in these layouts; the first has four samples, the second one; both have the region.
        unsafe {
            work.gpu.device().cmd_resolve_image(
                work.commands,
                image,
                Layout::TRANSFER_SRC_OPTIMAL,
                work.image,
                work.layout,
                &[region],
            );
        }
    }
    Ok(Outcome::written(work.data.to_vec()))
}

/// Dispatches workgroups of 8 x 8 for every texel of the layer.
fn dispatch(work: &Work<'_>, shader: (shaders::Shader, &str), bindings: Bindings) -> Verdict {
    let [width, height, slices] = work.extent()?;
    work.gpu.dispatch(work.commands, shader, bindings, [width, height, 0], |device| {
        // SAFETY: recording, outside a render pass; a pipeline and its set are bound; the shader stays inside of image
        // and buffers.
        unsafe { device.cmd_dispatch(work.commands, width.div_ceil(8), height.div_ceil(8), slices) };
    })
}

/// Draws without attachments; the shader stores or loads.
fn draw_nothing(
    work: &Work<'_>,
    (shader, fragment): (shaders::Shader, &str),
    bindings: Bindings,
    input: Option<(vk::ImageView, vk::Format, Layout)>,
) -> Verdict {
    work.needs_features("stores by fragment shaders", |features| features.fragment_stores_and_atomics)?;
    let extent = work.flat_extent()?;
    let attachments =
        Attachments { views: &[], formats: &[], samples: ONE_SAMPLE, load: OVERWRITES, resolved: None, input, extent };
    let pass = work.gpu.begin(work.commands, &attachments)?;
    let drawing = Drawing {
        shader,
        vertex: "covering",
        fragment: Some(fragment),
        formats: &[],
        samples: ONE_SAMPLE,
        pass: Some(pass),
        adds: false,
        points: None,
    };
    work.gpu.draws(work.commands, &drawing, bindings, [extent[0], extent[1], 0])?;
    work.gpu.cover(work.commands, extent, rectangle([0, 0], extent));
    work.gpu.end(work.commands);
    Ok(())
}

fn bind_stored(work: &Work<'_>) -> Verdict<Bindings> {
    let texels = work.gpu.words(&work.channels(work.data)?)?;
    work.gpu.bind(&[Bound::Read(texels.as_raw()), Bound::Stored(work.view()?)])
}

fn store(work: &Work<'_>) -> Verdict<Outcome> {
    dispatch(work, (shaders::storage(work.spec)?, "store"), bind_stored(work)?)?;
    Ok(Outcome::written(work.data.to_vec()))
}

fn store_drawn(work: &Work<'_>) -> Verdict<Outcome> {
    draw_nothing(work, (shaders::storage(work.spec)?, "store_drawn"), bind_stored(work)?, None)?;
    Ok(Outcome::written(work.data.to_vec()))
}

fn copy_to_buffer(work: &Work<'_>) -> Verdict<Outcome> {
    let found = work.gpu.results(work.before.len())?;
    let region = work.region()?;
    // SAFETY: as in `copy_from_buffer`.
    unsafe {
        work.gpu.device().cmd_copy_image_to_buffer(work.commands, work.image, work.layout, found.as_raw(), &[region]);
    }
    Ok(work.check_bytes("vkCmdCopyImageToBuffer", work.before.to_vec(), found))
}

fn copy_to_image(work: &Work<'_>) -> Verdict<Outcome> {
    let extent = work.extent()?;
    let target = work.private_target(extent)?;
    let region = image_copy(work.subresource(), whole(), extent);
    // SAFETY: as in `copy_from_image`.
    unsafe {
        work.gpu.device().cmd_copy_image(
            work.commands,
            work.image,
            work.layout,
            target,
            Layout::TRANSFER_DST_OPTIMAL,
            &[region],
        );
    }
    work.check_private("vkCmdCopyImage", target, extent, work.before.to_vec())
}

/// Enlarged to twice the width and height.
fn blit_from(work: &Work<'_>) -> Verdict<Outcome> {
    check_blits(work, [work.format; 2])?;
    let [width, height, slices] = work.extent()?;
    let factor = if slices > 1 { 1 } else { 2 };
    let extent = [width * factor, height * factor, slices];
    let target = work.private_target(extent)?;
    let region = image_blit((work.subresource(), [width, height, slices]), (whole(), extent));
    record_blit(work, (work.image, work.layout), (target, Layout::TRANSFER_DST_OPTIMAL), region);
    let expected = if factor == 1 {
        work.before.to_vec()
    } else {
        enlarged(work.before, work.texel_size(), [extent[0], extent[1]], factor, width)
    };
    work.check_private("vkCmdBlitImage", target, extent, expected)
}

fn bind_fetched(work: &Work<'_>, sampler: Option<vk::Filter>) -> Verdict<(Bindings, gpu_interop::vulkan::OwnedBuffer)> {
    let results = work.gpu.results(work.before.len() / work.texel_size() * 16)?;
    let mut bound = vec![Bound::Written(results.as_raw()), Bound::Sampled(work.view()?, work.layout)];
    if let Some(filter) = sampler {
        bound.push(Bound::Sampler(work.gpu.sampler(filter)?));
    }
    Ok((work.gpu.bind(&bound)?, results))
}

fn fetch(work: &Work<'_>) -> Verdict<Outcome> {
    let (bindings, results) = bind_fetched(work, None)?;
    dispatch(work, (shaders::texture(work.spec)?, "fetch"), bindings)?;
    work.check_channels("textureLoad", work.before, results)
}

fn fetch_drawn(work: &Work<'_>) -> Verdict<Outcome> {
    let (bindings, results) = bind_fetched(work, None)?;
    draw_nothing(work, (shaders::texture(work.spec)?, "fetch_drawn"), bindings, None)?;
    work.check_channels("textureLoad in a fragment shader", work.before, results)
}

fn read_input(work: &Work<'_>) -> Verdict<Outcome> {
    let results = work.gpu.results(work.before.len() / work.texel_size() * 16)?;
    let format = work.format;
    let view = work.gpu.view(work.image, format, vk::ImageViewType::TYPE_2D, [work.level, work.layer])?;
    let bindings = work.gpu.bind(&[Bound::Written(results.as_raw()), Bound::Input(view, work.layout)])?;
    draw_nothing(work, (shaders::input(work.spec)?, "read"), bindings, Some((view, format, work.layout)))?;
    work.check_channels("an input attachment", work.before, results)
}

fn sample(work: &Work<'_>) -> Verdict<Outcome> {
    let (bindings, results) = bind_fetched(work, Some(vk::Filter::NEAREST))?;
    dispatch(work, (shaders::SAMPLE, "centres"), bindings)?;
    work.check_channels("a point filter", work.before, results)
}

/// Halfway between two columns: the mean of both, to within a code.
fn sample_linear(work: &Work<'_>) -> Verdict<Outcome> {
    let (bindings, results) = bind_fetched(work, Some(vk::Filter::LINEAR))?;
    dispatch(work, (shaders::SAMPLE, "between"), bindings)?;
    let [width, ..] = work.extent()?;
    let texels: Vec<[u8; 4]> = work.before.as_chunks::<4>().0.to_vec();
    let (order, spec, level) = (work.spec.format.order, *work.spec, work.level);
    Ok(Outcome::read(move || {
        let mut bytes = vec![0; texels.len() * 16];
        results.read(0, &mut bytes)?;
        for (index, found) in bytes.as_chunks::<16>().0.iter().enumerate() {
            let x = index % width as usize;
            let right = index + usize::from(x + 1 < width as usize);
            let means = (0..4).map(|channel| {
                let code = |texel: usize| f64::from(texels[texel][channel]);
                f64::midpoint(code(index), code(right))
            });
            let mut means: Vec<f64> = means.collect();
            if order == ChannelOrder::Bgra {
                means.swap(0, 2);
            }
            let words = found.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word));
            for (mean, found) in means.into_iter().zip(words) {
                let found = f64::from(found) * 255.0;
                let is_near = (mean - 1.0..=mean + 1.0).contains(&found);
                ensure!(
                    is_near,
                    "a linear filter: right of texel {index}, level {level} of {spec}: expected {mean}, found {found}"
                );
            }
        }
        Ok(())
    }))
}

fn load(work: &Work<'_>) -> Verdict<Outcome> {
    let results = work.gpu.results(work.before.len() / work.texel_size() * 16)?;
    let bindings = work.gpu.bind(&[Bound::Written(results.as_raw()), Bound::Loaded(work.view()?)])?;
    dispatch(work, (shaders::storage(work.spec)?, "load"), bindings)?;
    work.check_channels("imageLoad", work.before, results)
}
