//! Vulkan images.

use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{self, ExportableImage, HeadlessContext, ImageOptions, OwnedImage, Recording, TexelFormat};
use gpu_interop::{ArrayShape, ArrayUsage, MemoryImport, MipmappedArrayDesc};

use super::buffer::Staging;
use crate::ensure;
use crate::exporter::{ExportedImage, ImageSpec, Placement, RowLayout, Tiling};
use crate::outcome::{Stop, Verdict};

/// The usage of images that Vulkan draws to: shaders of a render pass also read them.
const ATTACHMENTS: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw() | vk::ImageUsageFlags::INPUT_ATTACHMENT.as_raw(),
);

/// The usage of every image of the suite.
const USAGE: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw()
        | vk::ImageUsageFlags::TRANSFER_DST.as_raw()
        | vk::ImageUsageFlags::SAMPLED.as_raw(),
);

pub(super) struct VulkanImage {
    context: HeadlessContext,
    spec: ImageSpec,
    exported: ExportableImage,
    /// Locked while this side owns the image; between accesses the importer owns it (`VK_QUEUE_FAMILY_EXTERNAL`).
    owned: Mutex<()>,
    staging: Arc<Staging>,
}

impl VulkanImage {
    pub(super) fn new(context: &HeadlessContext, spec: ImageSpec, staging: Arc<Staging>) -> Verdict<Self> {
        let options = ImageOptions::new(as_vulkan(&spec)?)
            .memory(spec.placement.into())
            .dedicated(spec.dedicated)
            .offset(spec.offset);
        let exported = ExportableImage::new(context.interop(), &options).map_err(Stop::attempted)?;
        // Called once before the first write, because it discards the contents. Released while empty, because the
        // importer may write first.
        context.initialize_image(exported.image())?;
        context.release_image(exported.image())?;
        Ok(Self { context: context.clone(), spec, exported, owned: Mutex::new(()), staging })
    }

    fn lock(&self) -> Verdict<MutexGuard<'_, ()>> {
        self.owned.lock().map_err(|_| Stop::failed("another access panicked".into()))
    }

    fn image(&self) -> &OwnedImage {
        self.exported.image()
    }

    /// Acquires the image from the importer, calls `access`, and releases it again; also for accesses of the host, for
    /// the same reasons as with buffers.
    fn owned(&self, access: impl FnOnce() -> Verdict) -> Verdict {
        let _owned = self.lock()?;
        self.context.acquire_image(self.image())?;
        let outcome = access();
        // Released even after a failure, because the next access, or the importer, acquires the image again.
        let released = self.context.release_image(self.image());
        outcome?;
        Ok(released?)
    }

    /// As [`owned`](Self::owned), in one submission, with commands between the acquire and the release.
    fn owned_in_one_submission(
        &self,
        record: impl FnOnce(&mut Recording<'_>) -> gpu_interop::Result<()>,
    ) -> gpu_interop::Result<()> {
        self.context.run(|recording| {
            recording.acquire_image(self.image())?;
            record(recording)?;
            recording.release_image(self.image())
        })
    }

    /// `true` for copies of few texels to or from memory that the host does not map.
    fn is_staged(&self, level: u32, length: usize) -> bool {
        self.spec.placement == Placement::DeviceLocal
            && length <= Staging::SIZE
            && self.spec.layer_size(level) == length as u64
    }

    /// Calls `access` with the offset of every row in the memory and its range in `length` bytes of texels.
    fn rows(
        &self,
        (level, layer): (u32, u32),
        length: usize,
        mut access: impl FnMut(u64, std::ops::Range<usize>) -> gpu_interop::Result<()>,
    ) -> Verdict {
        let layout = self.row_layout(level, layer)?;
        let size = self.spec.layer_size(level);
        ensure!(length as u64 == size, "{length} bytes of texels instead of {size}");
        let index = |n: u64| usize::try_from(n).map_err(|error| Stop::failed(error.to_string()));
        for (place, at) in layout.places() {
            access(place, index(at)?..index(at + layout.row_size)?)?;
        }
        Ok(())
    }
}

impl ExportedImage for VulkanImage {
    fn vulkan(&self) -> Option<&OwnedImage> {
        Some(self.image())
    }

    fn spec(&self) -> &ImageSpec {
        &self.spec
    }

    fn import_request(&self) -> Verdict<MemoryImport> {
        Ok(self.exported.import_request()?)
    }

    fn array_desc(&self) -> Verdict<MipmappedArrayDesc> {
        Ok(self.exported.array_desc()?)
    }

    fn row_layout(&self, level: u32, layer: u32) -> Verdict<RowLayout> {
        let layout = self.image().subresource_layout(level, layer)?;
        let [_, rows, slices] = self.spec.layer_extent(level);
        Ok(RowLayout {
            offset: layout.offset,
            row_pitch: layout.row_pitch,
            slice_pitch: layout.depth_pitch.unwrap_or(0),
            row_size: self.spec.row_size(level),
            rows,
            slices,
        })
    }

    fn write(&self, level: u32, layer: u32, data: &[u8]) -> Verdict {
        let image = self.image();
        if self.is_staged(level, data.len()) {
            let _owned = self.lock()?;
            return self.staging.with(&self.context, |staging| {
                staging.write(0, data)?;
                self.owned_in_one_submission(|recording| recording.copy_to_image(staging, 0, image, level, layer))
            });
        }
        self.owned(|| match self.spec.placement {
            Placement::DeviceLocal => Ok(self.context.upload_image(image, level, layer, data)?),
            Placement::HostVisible => {
                self.rows((level, layer), data.len(), |place, range| image.write(place, &data[range]))
            }
        })
    }

    fn read(&self, level: u32, layer: u32, data: &mut [u8]) -> Verdict {
        let image = self.image();
        if self.is_staged(level, data.len()) {
            let _owned = self.lock()?;
            return self.staging.with(&self.context, |staging| {
                self.owned_in_one_submission(|recording| recording.copy_from_image(image, level, layer, staging, 0))?;
                staging.read(0, data)
            });
        }
        self.owned(|| match self.spec.placement {
            Placement::DeviceLocal => Ok(self.context.download_image(image, level, layer, data)?),
            Placement::HostVisible => {
                self.rows((level, layer), data.len(), |place, range| image.read(place, &mut data[range]))
            }
        })
    }

    fn clear(&self, color: [f32; 4]) -> Verdict {
        let image = self.image();
        let color = vk::ClearColorValue { float32: color };
        let all = vk::ImageSubresourceRange::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .level_count(self.spec.levels)
            .layer_count(self.spec.layers());
        self.owned(|| {
            Ok(self.context.run(|recording| {
                recording.keep_image(image);
                // SAFETY: recording, outside a render pass, on a queue that is not transfer-only; the image is live,
                // kept, of this device, a transfer destination and in the layout `GENERAL`; it has these levels and
                // layers.
                unsafe {
                    self.context.interop().device().cmd_clear_color_image(
                        recording.as_raw(),
                        image.as_raw(),
                        vk::ImageLayout::GENERAL,
                        &color,
                        &[all],
                    );
                }
                Ok(())
            })?)
        })
    }
}

fn as_vulkan(spec: &ImageSpec) -> Verdict<vulkan::ImageSpec> {
    use vk::ImageViewType as View;
    let view = match spec.shape {
        ArrayShape::D1 { .. } => View::TYPE_1D,
        ArrayShape::D1Layered { .. } => View::TYPE_1D_ARRAY,
        ArrayShape::D2 { .. } => View::TYPE_2D,
        ArrayShape::D2Layered { .. } => View::TYPE_2D_ARRAY,
        ArrayShape::D3 { .. } => View::TYPE_3D,
        ArrayShape::Cube { .. } => View::CUBE,
        ArrayShape::CubeLayered { .. } => View::CUBE_ARRAY,
        other => return Err(Stop::failed(format!("the suite does not support images of the shape {other:?}"))),
    };
    let mut extent = [1; 3];
    for (extent, texels) in extent.iter_mut().zip(spec.layer_extent(0)) {
        *extent = u32::try_from(texels)?;
    }
    let used = |bit, flag| if spec.usage.contains(bit) { flag } else { vk::ImageUsageFlags::empty() };
    let usage = USAGE
        | used(ArrayUsage::SURFACE_LOAD_STORE, vk::ImageUsageFlags::STORAGE)
        | used(ArrayUsage::COLOR_ATTACHMENT, ATTACHMENTS);
    let tiling = match spec.tiling {
        Tiling::Optimal => vk::ImageTiling::OPTIMAL,
        Tiling::Linear => vk::ImageTiling::LINEAR,
    };
    let image = vulkan::ImageSpec::new(view, extent, vulkan_format(spec.format)?, usage)
        .layers(spec.layers())
        .levels(spec.levels)
        .tiling(tiling);
    // Slices of a volume are drawn to one by one.
    let is_drawn_volume = view == View::TYPE_3D && usage.contains(vk::ImageUsageFlags::COLOR_ATTACHMENT);
    Ok(if is_drawn_volume { image.flags(vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE) } else { image })
}

fn vulkan_format(format: TexelFormat) -> Verdict<vk::Format> {
    TexelFormat::vulkan_formats()
        .find(|candidate| TexelFormat::from_vulkan(*candidate).is_ok_and(|found| found == format))
        .ok_or_else(|| Stop::unsupported(format!("Vulkan has no format that is {format:?}")))
}

#[cfg(test)]
mod tests {
    use gpu_interop::vulkan::{ChannelOrder, ColorEncoding};
    use gpu_interop::{ArrayFormat, ChannelType};

    use super::*;
    use crate::outcome::StopKind;

    fn rgba8() -> TexelFormat {
        let array = ArrayFormat::new(ChannelType::Unorm8, 4).expect("a format");
        TexelFormat { array, order: ChannelOrder::Rgba, encoding: ColorEncoding::Linear }
    }

    #[test]
    fn vulkan_makes_the_shape_that_was_asked_for() {
        let shapes = [
            ArrayShape::D1 { width: 9 },
            ArrayShape::D1Layered { width: 9, layers: 5 },
            ArrayShape::D2 { width: 9, height: 7 },
            ArrayShape::D2Layered { width: 9, height: 7, layers: 5 },
            ArrayShape::D3 { width: 9, height: 7, depth: 5 },
            ArrayShape::Cube { width: 9 },
            ArrayShape::CubeLayered { width: 9, cubes: 2 },
        ];
        for shape in shapes {
            let spec = ImageSpec { levels: 2, usage: ArrayUsage::COLOR_ATTACHMENT, ..ImageSpec::new(shape, rgba8()) };
            let image = as_vulkan(&spec).expect("an image");
            assert_eq!(image.shape().expect("a shape"), shape);
            assert_eq!((image.levels, image.tiling), (2, vk::ImageTiling::OPTIMAL));
            assert_eq!(vulkan::array_usage(image.usage), spec.usage);
            for level in 0..2 {
                assert_eq!(image.level_size(level).expect("small"), spec.layer_size(level), "{shape:?}, {level}");
            }
        }
    }

    #[test]
    fn formats_are_found_by_channels_order_and_encoding() {
        let rgba = rgba8();
        assert_eq!(vulkan_format(rgba), Ok(vk::Format::R8G8B8A8_UNORM));
        let bgra = TexelFormat { order: ChannelOrder::Bgra, ..rgba };
        assert_eq!(vulkan_format(bgra), Ok(vk::Format::B8G8R8A8_UNORM));
        let srgb = TexelFormat { encoding: ColorEncoding::Srgb, ..rgba };
        assert_eq!(vulkan_format(srgb), Ok(vk::Format::R8G8B8A8_SRGB));
        let array = ArrayFormat::new(ChannelType::Float16, 2).expect("a format");
        let impossible = TexelFormat { array, order: ChannelOrder::Bgra, encoding: ColorEncoding::Srgb };
        assert!(vulkan_format(impossible).is_err_and(|stop| stop.kind == StopKind::Unsupported));
    }
}
