//! A wgpu device with validation, and what the tests do with it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpu_interop_wgpu::gpu_interop::vulkan::ash::vk;
use gpu_interop_wgpu::gpu_interop::{self, ErrorKind, Stream};
use gpu_interop_wgpu::{HandBack, HandOver, Interop, request_device};

/// A device, and the validation messages about it.
pub(crate) struct Context {
    pub(crate) interop: Interop,
    pub(crate) stream: Stream,
    /// The layer is on, if it is installed.
    pub(crate) validated: bool,
}

/// Messages of the validation layer, which wgpu logs.
static MESSAGES: AtomicUsize = AtomicUsize::new(0);

/// The first instance with an adapter. It keeps the driver loaded: NVIDIA's cannot be loaded any number of times in one
/// process.
static LOADED: OnceLock<wgpu::Instance> = OnceLock::new();

struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        eprintln!("{} {}: {}", record.level(), record.target(), record.args());
        // wgpu's names for messages of the layer begin with its kinds.
        if record.target().starts_with("wgpu_hal::vulkan") && record.args().to_string().contains("VALIDATION") {
            MESSAGES.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self) {}
}

/// The number of validation messages so far, in this process.
pub(crate) fn validation_messages() -> usize {
    MESSAGES.load(Ordering::Relaxed)
}

/// The first version of the layer that is known not to wait for itself where one thread of the host signals a timeline
/// that another waits for or reads, as a bridge does. Older ones then wait for 10 seconds and complain of a bug of
/// their own (KhronosGroup/Vulkan-ValidationLayers, #8519).
const SOUND: u32 = vk::make_api_version(0, 1, 4, 304);

/// `true` if the layer that is installed, if any, is fit for bridges. With `GPU_INTEROP_REQUIRE_VALIDATION`, a layer that
/// is missing or not fit is a failure.
fn layer_is_sound() -> bool {
    let layer = layer_version();
    let required = std::env::var_os("GPU_INTEROP_REQUIRE_VALIDATION").is_some();
    let fit = layer.map_or(!required, |version| version >= SOUND);
    assert!(fit || !required, "GPU_INTEROP_REQUIRE_VALIDATION is set; install a validation layer 1.4.304 or newer");
    fit
}

/// The version of the validation layer, if it is installed.
fn layer_version() -> Option<u32> {
    let entry = gpu_interop::vulkan::load_entry().ok()?;
    // SAFETY: the entry is a Vulkan loader's.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(c"VK_LAYER_KHRONOS_validation"));
    layer.map(|layer| layer.spec_version)
}

/// Set in the copy of a program beside the simulator of Direct3D 12: `simulated_d3d12.rs`.
pub(crate) const DIRECT3D_12: &str = "GPU_INTEROP_TEST_DIRECT3D_12";

/// wgpu runs on the simulator of Direct3D 12, which has no shaders.
pub(crate) fn is_simulated() -> bool {
    std::env::var_os(DIRECT3D_12).is_some()
}

/// An adapter of wgpu's Vulkan backend, or of Direct3D 12 on the simulator, with the validation layer and its search for
/// hazards if `validated` and if it is installed; `None`, with the reason on the standard output, without a driver.
pub(crate) fn adapter(validated: bool) -> Option<wgpu::Adapter> {
    let _ = log::set_logger(&Log);
    log::set_max_level(log::LevelFilter::Warn);
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = if is_simulated() { wgpu::Backends::DX12 } else { wgpu::Backends::VULKAN };
    desc.flags = if validated {
        wgpu::InstanceFlags::VALIDATION | wgpu::InstanceFlags::DEBUG
    } else {
        wgpu::InstanceFlags::empty()
    };
    let instance = wgpu::Instance::new(desc);
    match pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())) {
        Ok(adapter) => {
            LOADED.get_or_init(|| instance);
            Some(adapter)
        }
        Err(error) => {
            assert!(!is_simulated() && LOADED.get().is_none(), "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

pub(crate) fn device(adapter: &wgpu::Adapter) -> (wgpu::Device, wgpu::Queue) {
    let desc = wgpu::DeviceDescriptor {
        required_features: adapter.features() & wgpu::Features::TEXTURE_FORMAT_16BIT_NORM,
        required_limits: adapter.limits(),
        ..wgpu::DeviceDescriptor::default()
    };
    request_device(adapter, &desc).expect("a device that can share")
}

/// The number of frames of the tests that go round: 1,000, or `GPU_INTEROP_TEST_FRAMES`.
pub(crate) fn frames() -> u32 {
    std::env::var("GPU_INTEROP_TEST_FRAMES").map_or(1000, |frames| frames.parse().expect("a number"))
}

/// A pipeline of the source's only entry point.
pub(crate) fn compute_pipeline(device: &wgpu::Device, source: &str) -> wgpu::ComputePipeline {
    let source = wgpu::ShaderSource::Wgsl(source.into());
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source }),
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    })
}

impl Context {
    /// `None`, with the reason on the standard output, if this machine cannot share. Validated if the layer is sound.
    pub(crate) fn new() -> Option<Self> {
        let sound = !is_simulated() && layer_is_sound();
        if !sound && !is_simulated() {
            println!("without validation: the layer is older than 1.4.304, and waits for itself");
        }
        Self::with_validation(sound)
    }

    /// As [`new`](Self::new), without the layer: for what is wrong on purpose, or what confuses it.
    pub(crate) fn unvalidated() -> Option<Self> {
        Self::with_validation(false)
    }

    /// As [`new`](Self::new), with the layer of any version: for what neither waits for a bridge nor signals it.
    pub(crate) fn validated() -> Option<Self> {
        Self::with_validation(!is_simulated())
    }

    fn with_validation(validated: bool) -> Option<Self> {
        let (device, queue) = device(&adapter(validated)?);
        let interop = match Interop::new(&device, &queue) {
            Ok(interop) => interop,
            Err(error) if error.kind() == ErrorKind::NoDevice && !is_simulated() => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let stream = interop.compute().create_stream().expect("a stream");
        Some(Self { interop, stream, validated })
    }

    /// Ends a hand-over.
    pub(crate) fn end(&self, compute: HandOver<'_>) {
        self.end_and_submit(compute, []);
    }

    /// Ends a hand-over, and submits commands behind.
    pub(crate) fn end_and_submit(
        &self,
        compute: HandOver<'_>,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
    ) {
        let back = compute.signal().expect("signalled");
        self.settle(&back);
        back.acquire_and_submit(commands).expect("handed back");
    }

    /// With the layer, lets the thread of the bridge return from its call of Vulkan that signals. Version 1.4.309 of
    /// the layer otherwise replays a submission in both threads, and reports its commands as hazards with themselves.
    pub(crate) fn settle(&self, back: &HandBack) {
        if self.validated {
            pollster::block_on(back.done()).expect("reached");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn device(&self) -> &wgpu::Device {
        self.interop.device()
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        self.interop.queue()
    }

    pub(crate) fn encode(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> wgpu::CommandBuffer {
        let mut encoder = self.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        record(&mut encoder);
        encoder.finish()
    }

    /// A buffer of wgpu's own that can be mapped for reading. Take a new one for each frame: the layer records the host
    /// signal of a bridge after this thread has seen it, and then takes a copy that this thread waited for as pending.
    pub(crate) fn readback(&self, size: u64) -> wgpu::Buffer {
        self.device().create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        })
    }

    /// Waits for wgpu, then reads the words of a mappable buffer.
    pub(crate) fn map_words(&self, buffer: &wgpu::Buffer) -> Vec<u32> {
        self.map(buffer).chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("4 bytes"))).collect()
    }

    pub(crate) fn map(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        buffer.slice(..).map_async(wgpu::MapMode::Read, |mapped| mapped.expect("mapped"));
        self.wait();
        let bytes = buffer.slice(..).get_mapped_range().expect("mapped").to_vec();
        buffer.unmap();
        bytes
    }

    /// Writes one mip level of a layer, or of a 3D texture, from packed texels.
    pub(crate) fn write_texture(&self, texture: &wgpu::Texture, level: u32, layer: u32, texels: &[u8]) {
        let (extent, row) = level_extent(texture, level);
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(row), rows_per_image: Some(extent.height) };
        self.queue().write_texture(place(texture, level, layer), texels, layout, extent);
    }

    /// Reads one mip level of a layer, or of a 3D texture, as packed texels, through a copy that is submitted with the
    /// commands of `submit`.
    pub(crate) fn read_texture(&self, texture: &wgpu::Texture, level: u32, layer: u32) -> Vec<u8> {
        self.read_texture_by(texture, level, layer, |commands| {
            self.queue().submit([commands]);
        })
    }

    pub(crate) fn read_texture_by(
        &self,
        texture: &wgpu::Texture,
        level: u32,
        layer: u32,
        submit: impl FnOnce(wgpu::CommandBuffer),
    ) -> Vec<u8> {
        let (extent, row) = level_extent(texture, level);
        let pitch = row.next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let rows = extent.height * extent.depth_or_array_layers;
        let buffer = self.readback(u64::from(pitch) * u64::from(rows));
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(pitch), rows_per_image: Some(extent.height) };
        let to = wgpu::TexelCopyBufferInfo { buffer: &buffer, layout };
        submit(self.encode(|encoder| encoder.copy_texture_to_buffer(place(texture, level, layer), to, extent)));
        let pitched = self.map(&buffer);
        pitched.chunks_exact(pitch as usize).flat_map(|line| line[..row as usize].iter().copied()).collect()
    }

    /// Waits for all submissions, for at most 20 seconds.
    pub(crate) fn wait(&self) {
        let timeout = Some(Duration::from_secs(20));
        let status = self.device().poll(wgpu::PollType::Wait { submission_index: None, timeout });
        status.expect("wgpu's queue completes");
    }
}

pub(crate) fn buffer_desc(size: u64, usage: wgpu::BufferUsages) -> wgpu::BufferDescriptor<'static> {
    let usage = usage | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false }
}

pub(crate) fn texture_desc(
    format: wgpu::TextureFormat,
    [width, height]: [u32; 2],
    usage: wgpu::TextureUsages,
) -> wgpu::TextureDescriptor<'static> {
    wgpu::TextureDescriptor {
        label: None,
        size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format,
        usage: usage | wgpu::TextureUsages::COPY_SRC | wgpu::TextureUsages::COPY_DST,
        view_formats: &[],
    }
}

fn place(texture: &wgpu::Texture, level: u32, layer: u32) -> wgpu::TexelCopyTextureInfo<'_> {
    let origin = wgpu::Origin3d { x: 0, y: 0, z: layer };
    wgpu::TexelCopyTextureInfo { texture, mip_level: level, origin, aspect: wgpu::TextureAspect::All }
}

/// The extent of a level, of one layer, and the bytes in a row.
fn level_extent(texture: &wgpu::Texture, level: u32) -> (wgpu::Extent3d, u32) {
    let mut extent = texture.size().mip_level_size(level, texture.dimension());
    if texture.dimension() != wgpu::TextureDimension::D3 {
        extent.depth_or_array_layers = 1;
    }
    let texel = texture.format().block_copy_size(None).expect("a colour format");
    (extent, extent.width * texel)
}

/// Bytes in which neighbours, seeds and halves differ. Finite as numbers of 16 and 32 bits.
pub(crate) fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let word =
        |index: u32| (index ^ seed.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0x9E37_79B1).rotate_left(9) & 0x3FFF_3FFF;
    (0..u32::MAX).flat_map(|index| word(index).to_ne_bytes()).take(length).collect()
}
