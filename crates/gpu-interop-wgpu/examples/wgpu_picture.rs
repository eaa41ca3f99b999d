//! Pictures in dma-bufs that another Vulkan device and wgpu change in turn. Nothing is drawn.
//!
//! The other device is the producer, in the place of a compositor or decoder. It writes each picture, and passes its dma-buf and a fence. wgpu copies
//! the texels out. Of RGBA with 8 bits, a compute pass reads them, too, and another one writes others. The producer then reads
//! the picture. Every byte is compared, for each DRM modifier without compression. A device that imports no dma-bufs prints
//! the reason.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("dma-bufs exist on Linux only");
}

#[cfg(target_os = "linux")]
fn main() -> linux::Result<()> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::time::Duration;

    use gpu_interop_wgpu::gpu_interop::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
    use gpu_interop_wgpu::gpu_interop::vulkan::ash::vk;
    use gpu_interop_wgpu::gpu_interop::vulkan::{
        BufferOptions, DeviceChoice, ExportableBuffer, HeadlessContext, HeadlessOptions, ImportedPicture,
        ImportedSemaphore, MemoryPlacement, OwnedBuffer, OwnedImage, PictureOptions, SemaphoreOp, Submission,
        SyncFileSemaphore,
    };
    use gpu_interop_wgpu::gpu_interop::{ErrorKind, ImportError, MemoryHandleKind};
    use gpu_interop_wgpu::import::{Fences, ImportOptions, Importer, picture_format};
    use gpu_interop_wgpu::{identity, request_device};
    use wgpu::TextureUsages;

    pub(super) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

    /// Whole blocks of every tiling.
    const SIDE: u32 = 256;
    const TIMEOUT: Duration = Duration::from_secs(60);
    const LOAD: &str = "
@group(0) @binding(0) var picture: texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) item: vec3<u32>) {
    words[item.y * 256u + item.x] = pack4x8unorm(textureLoad(picture, item.xy, 0));
}
";
    const STORE: &str = "
@group(0) @binding(0) var picture: texture_storage_2d<rgba8unorm, write>;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) item: vec3<u32>) {
    textureStore(picture, item.xy, unpack4x8unorm(words[item.y * 256u + item.x]));
}
";

    struct Sides {
        device: wgpu::Device,
        queue: wgpu::Queue,
        importer: Importer,
        producer: HeadlessContext,
    }

    /// Bytes of a texel.
    fn texel(code: DrmFourcc) -> Result<u32> {
        let format = picture_format(code).ok_or("wgpu has no such format")?;
        Ok(format.block_copy_size(None).ok_or("the format has blocks")?)
    }

    /// Texels that depend on the seed; finite as numbers of 16 bits.
    fn texels(seed: u64, size: u32) -> Vec<u8> {
        let byte = |index: u64| ((index ^ seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[1] & 0x3f;
        (0..u64::from(size)).map(byte).collect()
    }

    fn usages(code: DrmFourcc) -> TextureUsages {
        // Storage textures of all devices.
        let stored = code == DrmFourcc::from_code("AB24");
        let stored = if stored { TextureUsages::STORAGE_BINDING } else { TextureUsages::empty() };
        TextureUsages::COPY_SRC | TextureUsages::TEXTURE_BINDING | stored
    }

    /// Memory of a picture, and its dma-buf.
    fn memory(producer: &HeadlessContext, size: u64) -> Result<OwnedFd> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC;
        let options = BufferOptions::new(size, usage).handle(MemoryHandleKind::DmaBufFd);
        let exported = ExportableBuffer::new(producer.interop(), &options)?.export()?;
        Ok(exported.as_fd().ok_or("the export is a descriptor")?.try_clone_to_owned()?)
    }

    /// The picture as a producer passes it.
    fn picture(code: DrmFourcc, modifier: DrmModifier, file: BorrowedFd<'_>, offset: u64) -> Result<DmaBufPicture> {
        let plane = DmaBufPlane::new(file.try_clone_to_owned()?, offset, u64::from(SIDE * texel(code)?));
        Ok(DmaBufPicture::new(code, modifier, [SIDE; 2], vec![plane]))
    }

    impl Sides {
        fn new() -> Result<Self> {
            let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
            desc.backends = wgpu::Backends::VULKAN;
            desc.flags = wgpu::InstanceFlags::empty().with_env();
            let instance = wgpu::Instance::new(desc);
            let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
            // Planes of P010 have 16 bits.
            let required_features = adapter.features() & wgpu::Features::TEXTURE_FORMAT_16BIT_NORM;
            let desc = wgpu::DeviceDescriptor { required_features, ..wgpu::DeviceDescriptor::default() };
            let (device, queue) = request_device(&adapter, &desc)?;
            let importer = Importer::new(&device, &queue)?;
            let choice = DeviceChoice::Identity(identity(&device)?);
            let producer = HeadlessContext::new(&HeadlessOptions::default().device(choice).computing(true))?;
            // Copies on a compute queue, where the device has one, are no draws.
            let producer = producer.computing().unwrap_or(&producer).clone();
            Ok(Self { device, queue, importer, producer })
        }

        /// Submits commands that write a buffer, and reads it.
        fn read(&self, size: u64, record: impl FnOnce(&mut wgpu::CommandEncoder, &wgpu::Buffer)) -> Result<Vec<u8>> {
            let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
            let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
            let seen = self.device.create_buffer(&desc);
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            record(&mut encoder, &seen);
            self.queue.submit([encoder.finish()]);
            // The view below fails if this has failed.
            seen.slice(..).map_async(wgpu::MapMode::Read, |_| {});
            self.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(TIMEOUT) })?;
            Ok(seen.slice(..).get_mapped_range()?.to_vec())
        }

        /// Reads a texture by a copy.
        fn copied(&self, texture: &wgpu::Texture, row: u32) -> Result<Vec<u8>> {
            self.read(u64::from(row * texture.height()), |encoder, buffer| {
                let layout = wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(row), rows_per_image: None };
                let to = wgpu::TexelCopyBufferInfo { buffer, layout };
                encoder.copy_texture_to_buffer(texture.as_image_copy(), to, texture.size());
            })
        }

        /// A compute pass that reads or writes a texture with RGBA of 8 bits, and the buffer with its words.
        fn pass(&self, encoder: &mut wgpu::CommandEncoder, shader: &str, texture: &wgpu::Texture) -> wgpu::Buffer {
            let source = wgpu::ShaderSource::Wgsl(shader.into());
            let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
            let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: None,
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                cache: None,
            });
            let size = u64::from(SIDE * SIDE * 4);
            let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
            let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
            let words = self.device.create_buffer(&desc);
            let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
            let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.get_bind_group_layout(0),
                entries: &[
                    wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::TextureView(&view) },
                    wgpu::BindGroupEntry { binding: 1, resource: words.as_entire_binding() },
                ],
            });
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(SIDE / 64, SIDE, 1);
            words
        }

        /// Reads a texture in a compute pass.
        fn loaded(&self, texture: &wgpu::Texture) -> Result<Vec<u8>> {
            let size = u64::from(SIDE * SIDE * 4);
            self.read(size, |encoder, seen| {
                let words = self.pass(encoder, LOAD, texture);
                encoder.copy_buffer_to_buffer(&words, 0, seen, 0, size);
            })
        }

        /// Submits a compute pass that writes a texture.
        fn store(&self, texture: &wgpu::Texture, texels: &[u8]) {
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let words = self.pass(&mut encoder, STORE, texture);
            self.queue.write_buffer(&words, 0, texels);
            self.queue.submit([encoder.finish()]);
        }

        /// Submits the producer's work, which writes the picture. Returns its fence, and what keeps the work alive.
        fn produce(&self, image: &OwnedImage, texels: &[u8]) -> Result<(Option<OwnedFd>, Submission)> {
            let interop = self.producer.interop();
            let usage = vk::BufferUsageFlags::TRANSFER_SRC;
            let staging = OwnedBuffer::new(interop, texels.len() as u64, usage, MemoryPlacement::HostVisible)?;
            staging.write(0, texels)?;
            let done = SyncFileSemaphore::new(interop)?;
            let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
            let submitted = self.producer.submit(&[], &[signal], |commands| {
                commands.acquire_image(image)?;
                commands.copy_to_image(&staging, 0, image, 0, 0)?;
                commands.release_image(image)
            })?;
            // SAFETY: the submission waits for nothing.
            Ok((unsafe { done.export() }?, submitted))
        }

        /// The producer writes a picture, wgpu reads and writes it, and the producer reads it. `given` is what a producer passes.
        fn exchange(&self, own: DmaBufPicture, given: DmaBufPicture) -> Result<()> {
            let (code, [width, height]) = (own.format, own.extent);
            let row = width * texel(code)?;
            let what = format!("{code}, modifier {:#x}", own.modifier.0);
            let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
            // SAFETY: the memory is as large as the picture. The device has the extension for foreign queue families, or the
            // import below fails.
            let image = unsafe { ImportedPicture::new(self.producer.interop(), own, &PictureOptions::new(usage)) };
            let image = image.map_err(|failure| format!("{what}: {}", failure.into_parts().0))?;
            let image = image.image();
            let desc = wgpu::TextureDescriptor {
                label: None,
                size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format: picture_format(code).ok_or("wgpu has no such format")?,
                usage: usages(code),
                view_formats: &[],
            };
            // SAFETY: as above.
            let texture = unsafe { self.importer.import_picture(given, &desc, ImportOptions::default()) };
            let texture = texture.map_err(ImportError::into_parts).map_err(|(error, _)| error)?;
            for seed in 0..2 {
                let [sent, answer] = [seed, seed + 100].map(|seed| texels(seed, height * row));
                let (fence, submitted) = self.produce(image, &sent)?;

                let files: Vec<_> = fence.iter().map(AsFd::as_fd).collect();
                let access = match seed {
                    0 => texture.begin_access(Fences::SyncFiles(&files))?,
                    _ => {
                        submitted.wait(TIMEOUT)?;
                        // Vulkan adds no implicit fences.
                        texture.begin_access(Fences::Implicit)?
                    }
                };
                assert!(self.copied(texture.wgpu(), row)? == sent, "{what}: copied");
                let written = desc.usage.contains(TextureUsages::STORAGE_BINDING);
                if written {
                    assert!(self.loaded(texture.wgpu())? == sent, "{what}: loaded");
                    self.store(texture.wgpu(), &answer);
                }
                let answered = ImportedSemaphore::from_sync_file(self.producer.interop(), access.end()?.sync_file()?);
                let answered = answered.map_err(ImportError::into_parts).map_err(|(error, _)| error)?;

                let wait = SemaphoreOp { semaphore: answered.semaphore(), value: 0 };
                self.producer.submit(&[wait], &[], |commands| commands.acquire_image(image))?;
                let mut seen = vec![0; sent.len()];
                self.producer.download_image(image, 0, 0, &mut seen)?;
                self.producer.release_image(image)?;
                assert!(seen == if written { answer } else { sent }, "{what}: read by the producer");
            }
            Ok(())
        }
    }

    pub(super) fn main() -> Result<()> {
        let sides = Sides::new()?;
        let name = sides.device.adapter_info().name;
        let (mut linear, mut tiled) = (0, 0);
        for code in ["AR24", "XR24", "AB24", "AB30", "R8  ", "GR88", "AB4H"].map(DrmFourcc::from_code) {
            let modifiers = match sides.importer.picture_modifiers(code, TextureUsages::COPY_SRC) {
                Ok(_) => sides.importer.plane_modifiers(code, usages(code))?,
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    println!("{name} imports no pictures: {error}");
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            for modifier in modifiers {
                let file = memory(&sides.producer, 1 << 20)?;
                let [own, given] = [(); 2].map(|()| picture(code, modifier, file.as_fd(), 0));
                sides.exchange(own?, given?)?;
                *(if modifier == DrmModifier::LINEAR { &mut linear } else { &mut tiled }) += 1;
            }
        }
        // Planes of 8 and of 16 bits are pictures of their own.
        let mut planes = 0;
        for (code, bytes) in [("NV12", 1), ("P010", 2)] {
            if bytes == 2 && !sides.device.features().contains(wgpu::Features::TEXTURE_FORMAT_16BIT_NORM) {
                continue;
            }
            let common = sides.importer.plane_modifiers(DrmFourcc::from_code(code), TextureUsages::COPY_SRC)?;
            assert!(common.contains(&DrmModifier::LINEAR), "{code}: {common:?}");
            let file = memory(&sides.producer, 1 << 20)?;
            let pitch = u64::from(SIDE) * 2 * bytes;
            let plane =
                |offset| Ok::<_, std::io::Error>(DmaBufPlane::new(file.as_fd().try_clone_to_owned()?, offset, pitch));
            let apart = || -> Result<Vec<DmaBufPicture>> {
                let both = vec![plane(0)?, plane(pitch * u64::from(SIDE) * 2)?];
                let (code, extent) = (DrmFourcc::from_code(code), [SIDE * 2, SIDE * 2]);
                let picture = DmaBufPicture::new(code, DrmModifier::LINEAR, extent, both);
                Ok(picture.into_planes().map_err(|failure| failure.into_parts().0)?)
            };
            for (own, given) in apart()?.into_iter().zip(apart()?) {
                sides.exchange(own, given)?;
                planes += 1;
            }
        }
        println!(
            "{linear} linear and {tiled} tiled pictures, and {planes} planes of NV12 and P010, went to {name} and back"
        );
        Ok(())
    }
}
