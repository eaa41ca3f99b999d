//! Memory of another Vulkan device and of another process in wgpu, both ways, every byte verified.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::common::{
    Context, adapter, buffer_desc, compute_pipeline, device, pattern, texture_desc, validation_messages,
};
use gpu_interop_wgpu::gpu_interop::vulkan::ash::vk;
use gpu_interop_wgpu::gpu_interop::vulkan::{
    BufferImportOptions, BufferOptions, DeviceChoice, ExportableBuffer, ExportableImage, HeadlessContext,
    HeadlessOptions, ImageImportOptions, ImageOptions, ImageSpec,
};
use gpu_interop_wgpu::gpu_interop::{ErrorKind, ImportError, MemoryHandle, MemoryImport};
use gpu_interop_wgpu::identity;
use gpu_interop_wgpu::import::{Fences, ImportOptions, ImportedBuffer, ImportedTexture, Importer};
use wgpu::TextureFormat as Format;
use wgpu::TextureUsages as Usage;

pub(crate) const BYTES: usize = 16_384;
pub(crate) const SIZE: u64 = BYTES as u64;
const TIMEOUT: Duration = Duration::from_secs(20);

/// A wgpu device and another device of the same GPU.
pub(crate) struct Pair {
    pub(crate) wgpu: Wgpu,
    pub(crate) producer: HeadlessContext,
}

/// A wgpu device without compute.
pub(crate) struct Wgpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) importer: Importer,
}

impl Wgpu {
    /// `None`, with the reason on the standard output, if this machine has no Vulkan. Any version of the layer is sound
    /// here: no bridge is used.
    pub(crate) fn new() -> Option<Self> {
        Self::with_validation(true)
    }

    /// Old versions of the layer reject the name of the shaders' language.
    fn for_shaders() -> Option<Self> {
        Self::with_validation(false)
    }

    fn with_validation(validated: bool) -> Option<Self> {
        let (device, queue) = device(&adapter(validated)?);
        let importer = Importer::new(&device, &queue).expect("a device for imports");
        Some(Self { device, queue, importer })
    }

    /// Copies a buffer or a texture to the host.
    fn read(&self, size: u64, copy: impl FnOnce(&mut wgpu::CommandEncoder, &wgpu::Buffer)) -> Vec<u8> {
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let seen = self.device.create_buffer(&desc);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        copy(&mut encoder, &seen);
        self.queue.submit([encoder.finish()]);
        seen.slice(..).map_async(wgpu::MapMode::Read, |mapped| mapped.expect("mapped"));
        self.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(TIMEOUT) }).expect("completes");
        seen.slice(..).get_mapped_range().expect("mapped").to_vec()
    }

    pub(crate) fn read_buffer(&self, buffer: &ImportedBuffer) -> Vec<u8> {
        self.read(SIZE, |encoder, seen| encoder.copy_buffer_to_buffer(buffer.wgpu(), 0, seen, 0, SIZE))
    }

    /// Reads a texture whose rows are a multiple of 256 bytes.
    pub(crate) fn read_texture(&self, texture: &wgpu::Texture, row: u32) -> Vec<u8> {
        let size = texture.size();
        self.read(u64::from(row * size.height), |encoder, buffer| {
            let layout = wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(row), rows_per_image: None };
            let to = wgpu::TexelCopyBufferInfo { buffer, layout };
            encoder.copy_texture_to_buffer(texture.as_image_copy(), to, size);
        })
    }

    pub(crate) fn write_texture(&self, texture: &wgpu::Texture, row: u32, texels: &[u8]) {
        let layout = wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(row), rows_per_image: None };
        self.queue.write_texture(texture.as_image_copy(), texels, layout, texture.size());
    }
}

impl Pair {
    pub(crate) fn new() -> Option<Self> {
        Wgpu::new().map(Self::with)
    }

    fn with(wgpu: Wgpu) -> Self {
        let choice = DeviceChoice::Identity(identity(&wgpu.device).expect("Vulkan"));
        let producer = HeadlessContext::new(&HeadlessOptions::default().device(choice)).expect("the same GPU");
        Self { wgpu, producer }
    }

    pub(crate) fn buffer(&self) -> ExportableBuffer {
        ExportableBuffer::new(self.producer.interop(), &BufferOptions::new(SIZE, buffer_usage())).expect("exportable")
    }

    /// `None` if the device does not export the image.
    pub(crate) fn image(&self, spec: ImageSpec) -> Option<ExportableImage> {
        match ExportableImage::new(self.producer.interop(), &ImageOptions::new(spec)) {
            Ok(image) => Some(image),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                println!("not exported: {error}");
                None
            }
        }
    }
}

pub(crate) fn buffer_usage() -> vk::BufferUsageFlags {
    use vk::BufferUsageFlags as Flags;
    Flags::TRANSFER_SRC | Flags::TRANSFER_DST | Flags::STORAGE_BUFFER
}

fn image_usage() -> vk::ImageUsageFlags {
    use vk::ImageUsageFlags as Flags;
    Flags::TRANSFER_SRC | Flags::TRANSFER_DST | Flags::SAMPLED
}

pub(crate) fn import_buffer(wgpu: &Wgpu, request: MemoryImport) -> Result<ImportedBuffer, ImportError<MemoryImport>> {
    let desc = buffer_desc(SIZE, wgpu::BufferUsages::STORAGE);
    wgpu.importer.import_buffer(request, &desc, &BufferImportOptions::new(SIZE, buffer_usage()))
}

/// Adds 1 to each word in a compute pass.
fn add_one(wgpu: &Wgpu, buffer: &wgpu::Buffer) {
    const SHADER: &str = "
        @group(0) @binding(0) var<storage, read_write> words: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) item: vec3<u32>) { words[item.x] += 1u; }";
    let pipeline = compute_pipeline(&wgpu.device, SHADER);
    let group = wgpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }],
    });
    let mut encoder = wgpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(u32::try_from(SIZE).expect("small") / 4 / 64, 1, 1);
    drop(pass);
    wgpu.queue.submit([encoder.finish()]);
}

fn plus_one(bytes: &[u8]) -> Vec<u8> {
    let word = |word: &[u8]| u32::from_ne_bytes(word.try_into().expect("4 bytes")).wrapping_add(1).to_ne_bytes();
    bytes.chunks_exact(4).flat_map(word).collect()
}

/// The producer writes, a compute pass of wgpu changes the words, and the producer reads.
#[test]
fn a_buffer_of_another_device_arrives_both_ways() {
    let Some(pair) = Wgpu::for_shaders().map(Pair::with) else { return };
    let Pair { wgpu, producer } = &pair;
    let exported = pair.buffer();
    let buffer = import_buffer(wgpu, exported.import_request().expect("a request")).expect("imported");
    for seed in 0..3 {
        let sent = pattern(seed, BYTES);
        if seed > 0 {
            producer.acquire(exported.buffer()).expect("acquired");
        }
        producer.upload(exported.buffer(), 0, &sent).expect("written");
        producer.release(exported.buffer()).expect("released");

        let access = buffer.begin_access(Fences::Completed).expect("begun");
        assert!(wgpu.read_buffer(&buffer) == sent, "seed {seed}");
        add_one(wgpu, buffer.wgpu());
        let ended = access.end().expect("ended");
        let (sender, receiver) = std::sync::mpsc::channel();
        ended.on_done(move || sender.send(seed).expect("received"));
        ended.wait(TIMEOUT).expect("completes");
        wgpu.device.poll(wgpu::PollType::wait_indefinitely()).expect("completes");
        assert_eq!(receiver.try_recv(), Ok(seed));

        producer.acquire(exported.buffer()).expect("acquired");
        let mut seen = vec![0; BYTES];
        producer.download(exported.buffer(), 0, &mut seen).expect("read");
        producer.release(exported.buffer()).expect("released");
        assert!(seen == plus_one(&sent), "seed {seed}: the answer");
    }
}

pub(crate) fn spec(tiling: vk::ImageTiling) -> ImageSpec {
    ImageSpec::new(vk::ImageViewType::TYPE_2D, [64, 37, 1], vk::Format::R8G8B8A8_UNORM, image_usage()).tiling(tiling)
}

pub(crate) fn import_texture(
    wgpu: &Wgpu,
    request: MemoryImport,
    desc: &wgpu::TextureDescriptor<'_>,
    spec: ImageSpec,
) -> Result<ImportedTexture, ImportError<MemoryImport>> {
    wgpu.importer.import_texture(request, desc, &ImageImportOptions::new(spec), ImportOptions::default())
}

#[test]
fn a_texture_of_another_device_arrives_both_ways() {
    let Some(pair) = Pair::new() else { return };
    let Pair { wgpu, producer } = &pair;
    let desc = texture_desc(Format::Rgba8Unorm, [64, 37], Usage::TEXTURE_BINDING);
    let mut shared = 0;
    for tiling in [vk::ImageTiling::LINEAR, vk::ImageTiling::OPTIMAL] {
        let Some(exported) = pair.image(spec(tiling)) else { continue };
        let request = exported.import_request().expect("a request");
        let texture = import_texture(wgpu, request, &desc, spec(tiling)).expect("imported");
        producer.initialize_image(exported.image()).expect("initialised");
        for seed in 0..3 {
            let [sent, returned] = [seed, !seed].map(|seed| pattern(seed, 64 * 37 * 4));
            producer.upload_image(exported.image(), 0, 0, &sent).expect("written");
            producer.release_image(exported.image()).expect("released");

            let access = texture.begin_access(Fences::Completed).expect("begun");
            assert!(wgpu.read_texture(texture.wgpu(), 256) == sent, "{tiling:?}, seed {seed}");
            wgpu.write_texture(texture.wgpu(), 256, &returned);
            access.end().expect("ended").wait(TIMEOUT).expect("completes");

            producer.acquire_image(exported.image()).expect("acquired");
            let mut seen = vec![0; sent.len()];
            producer.download_image(exported.image(), 0, 0, &mut seen).expect("read");
            assert!(seen == returned, "{tiling:?}, seed {seed}: the answer");
        }
        shared += 1;
    }
    assert!(shared > 0, "no tiling is shared");
    assert_eq!(validation_messages(), 0);
}

/// A render pass clears the producer's image through a view with another encoding.
#[test]
fn wgpu_renders_to_an_imported_texture() {
    let Some(pair) = Pair::new() else { return };
    let Pair { wgpu, producer } = &pair;
    let mut rendered = spec(vk::ImageTiling::OPTIMAL).flags(vk::ImageCreateFlags::MUTABLE_FORMAT);
    rendered.usage |= vk::ImageUsageFlags::COLOR_ATTACHMENT;
    let Some(exported) = pair.image(rendered) else { return };
    let desc = wgpu::TextureDescriptor {
        view_formats: &[Format::Rgba8UnormSrgb],
        ..texture_desc(Format::Rgba8Unorm, [64, 37], Usage::RENDER_ATTACHMENT)
    };
    let request = exported.import_request().expect("a request");
    let options = ImportOptions::default().never_discarded(true);
    let image = ImageImportOptions::new(rendered);
    let texture = wgpu.importer.import_texture(request, &desc, &image, options).expect("imported");
    let format = Some(Format::Rgba8UnormSrgb);
    let view = texture.wgpu().create_view(&wgpu::TextureViewDescriptor { format, ..Default::default() });
    producer.initialize_image(exported.image()).expect("initialised");
    producer.release_image(exported.image()).expect("released");

    let access = texture.begin_access(Fences::Completed).expect("begun");
    let mut encoder = wgpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let load = wgpu::LoadOp::Clear(wgpu::Color { r: 1.0, g: 0.0, b: 0.5, a: 1.0 });
    let ops = wgpu::Operations { load, store: wgpu::StoreOp::Store };
    let attachment = wgpu::RenderPassColorAttachment { view: &view, depth_slice: None, resolve_target: None, ops };
    let pass = wgpu::RenderPassDescriptor { color_attachments: &[Some(attachment)], ..Default::default() };
    drop(encoder.begin_render_pass(&pass));
    wgpu.queue.submit([encoder.finish()]);
    access.end().expect("ended").wait(TIMEOUT).expect("completes");

    producer.acquire_image(exported.image()).expect("acquired");
    let mut seen = vec![0; 64 * 37 * 4];
    producer.download_image(exported.image(), 0, 0, &mut seen).expect("read");
    // One half as sRGB.
    assert!(seen.chunks_exact(4).all(|texel| texel == [255, 0, 188, 255]), "{:?}", &seen[..8]);
    assert_eq!(validation_messages(), 0);
}

/// Runs in the process that `a_buffer_of_another_process_arrives_both_ways` starts, with the memory as its standard input.
#[test]
#[ignore = "the second process of a test"]
fn peer() {
    let wgpu = Wgpu::for_shaders().expect("as in the first process");
    let memory = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let size =
        std::env::args().rev().find_map(|argument| argument.strip_prefix("size=")?.parse().ok()).expect("a size");
    // SAFETY: the first process exports memory of this size, and keeps it alive.
    let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(memory), size) };
    let buffer = import_buffer(&wgpu, request).expect("imported");
    let access = buffer.begin_access(Fences::Completed).expect("begun");
    assert!(wgpu.read_buffer(&buffer) == pattern(7, BYTES));
    add_one(&wgpu, buffer.wgpu());
    access.end().expect("ended").wait(TIMEOUT).expect("completes");
}

#[test]
fn a_buffer_of_another_process_arrives_both_ways() {
    let Some(pair) = Pair::new() else { return };
    let exported = pair.buffer();
    let sent = pattern(7, BYTES);
    pair.producer.upload(exported.buffer(), 0, &sent).expect("written");
    pair.producer.release(exported.buffer()).expect("released");
    let request = exported.import_request().expect("a request");
    assert!(!request.is_dedicated());
    let size = format!("size={}", request.size());
    let memory: OwnedFd = request.handle().as_fd().expect("a descriptor").try_clone_to_owned().expect("duplicated");
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    // The harness takes the last argument for another name of a test, which is none.
    command.args(["--exact", "imports::peer", "--ignored", "--nocapture", &size]).stdin(memory);
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    pair.producer.acquire(exported.buffer()).expect("acquired");
    let mut seen = vec![0; BYTES];
    pair.producer.download(exported.buffer(), 0, &mut seen).expect("read");
    assert!(seen == plus_one(&sent), "the answer");
}

#[test]
fn accesses_alternate_with_the_producers() {
    let Some(pair) = Pair::new() else { return };
    let exported = pair.buffer();
    let buffer = import_buffer(&pair.wgpu, exported.import_request().expect("a request")).expect("imported");
    let access = buffer.begin_access(Fences::Completed).expect("begun");
    let error = buffer.begin_access(Fences::Completed).expect_err("begun already");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // The drop ends it, as a return by `?` does.
    drop(access);
    let error = buffer.begin_access(Fences::Implicit).expect_err("no dma-buf");
    assert!(error.to_string().contains("only pictures"), "{error}");
    let null = std::fs::File::open("/dev/null").expect("open");
    let error = buffer.begin_access(Fences::SyncFiles(&[null.as_fd()])).expect_err("no sync file");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("sync file: 0"), "{error}");
    // A failed begin leaves the buffer to the producer.
    let access = buffer.begin_access(Fences::SyncFiles(&[])).expect("begun");
    let ended = access.end().expect("ended");
    let error = ended.add_fence().expect_err("no dma-buf");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    match ended.sync_file() {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
    // The object is gone while wgpu owns it, and before.
    let access = buffer.begin_access(Fences::Completed).expect("begun");
    buffer.wgpu().destroy();
    let error = access.end().expect_err("destroyed");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let error = buffer.begin_access(Fences::Completed).expect_err("not ended");
    assert!(error.to_string().contains("import it again"), "{error}");
    let again = import_buffer(&pair.wgpu, exported.import_request().expect("a request")).expect("imported");
    again.wgpu().destroy();
    let error = again.begin_access(Fences::Completed).expect_err("destroyed");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(std::error::Error::source(&error).is_some(), "{error:?}");
    assert_eq!(validation_messages(), 0);
}

/// wgpu's queue waits for a fence that is signalled later, or the CPU does.
#[test]
fn an_access_waits_for_the_producers_fence() {
    let Some(pair) = Pair::new() else { return };
    let exported = pair.buffer();
    let buffer = import_buffer(&pair.wgpu, exported.import_request().expect("a request")).expect("imported");
    if pair.producer.interop().sync_file_features().expect("queried").importable {
        println!("skipped: the device imports sync files, which a pipe is not");
        return;
    }
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        rustix::io::write(&writer, &[1]).expect("written");
        writer
    });
    let begun = std::time::Instant::now();
    let access = buffer.begin_access(Fences::SyncFiles(&[reader.as_fd()])).expect("begun");
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    access.end().expect("ended").wait(TIMEOUT).expect("completes");
    drop(late.join().expect("written"));
    // The descriptor is still the caller's.
    assert!(rustix::fs::fstat(&reader).is_ok());
}

#[test]
fn the_queue_of_another_device_is_rejected() {
    let (Some(one), Some(other)) = (Wgpu::new(), Wgpu::new()) else { return };
    let error = Importer::new(&one.device, &other.queue).expect_err("another device's queue");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // The devices of an `Interop`, too.
    let Some(context) = Context::validated() else { return };
    Importer::new(context.device(), context.queue()).expect("the same device");
}
