//! A compute pass of wgpu on shared words. Nothing is drawn.
//!
//! The compute device fills a buffer, a pass of wgpu changes each word, and the compute device reads the result. A
//! device without timelines, such as HIP 5.2's on most GPUs, cannot share with wgpu: wgpu then fills and reads the words
//! itself, and the program prints the reason.

use gpu_interop_wgpu::gpu_interop::ErrorKind;
use gpu_interop_wgpu::{Interop, request_device};
use wgpu::{BufferUsages, Device, Queue};

const WORDS: u32 = 4096;
const SIZE: u64 = WORDS as u64 * 4;
const FIRST: u32 = 7;
const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> words: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) item: vec3<u32>) {
    words[item.x] = words[item.x] * 3u + item.x;
}
";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Commands of the pass.
fn pass(device: &Device, buffer: &wgpu::Buffer) -> wgpu::CommandEncoder {
    let source = wgpu::ShaderSource::Wgsl(SHADER.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }],
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(WORDS / 64, 1, 1);
    drop(pass);
    encoder
}

fn buffer(usage: BufferUsages) -> wgpu::BufferDescriptor<'static> {
    wgpu::BufferDescriptor { label: None, size: SIZE, usage, mapped_at_creation: false }
}

/// The compute device fills and reads.
fn shared(interop: &Interop) -> Result<Vec<u8>> {
    let stream = interop.compute().create_stream()?;
    let words = interop.create_buffer(&buffer(BufferUsages::STORAGE))?;
    let compute = interop.begin_compute(&stream, &[&words])?;
    stream.fill_u32(&words, FIRST)?;
    compute.end_and_submit([pass(interop.device(), words.wgpu()).finish()])?;
    let compute = interop.begin_compute(&stream, &[&words])?;
    let mut bytes = vec![0; usize::try_from(SIZE)?];
    stream.read(&words, &mut bytes)?;
    compute.end()?;
    Ok(bytes)
}

/// wgpu fills and reads.
fn alone(device: &Device, queue: &Queue) -> Result<Vec<u8>> {
    let words = device.create_buffer(&buffer(BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC));
    let seen = device.create_buffer(&buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST));
    queue.write_buffer(&words, 0, &FIRST.to_ne_bytes().repeat(usize::try_from(WORDS)?));
    let mut encoder = pass(device, &words);
    encoder.copy_buffer_to_buffer(&words, 0, &seen, 0, SIZE);
    queue.submit([encoder.finish()]);
    // The view below fails if this has failed.
    seen.slice(..).map_async(wgpu::MapMode::Read, |_| {});
    device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None })?;
    Ok(seen.slice(..).get_mapped_range()?.to_vec())
}

fn main() -> Result<()> {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(desc);
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
    let (device, queue) = request_device(&adapter, &wgpu::DeviceDescriptor::default())?;
    let (bytes, by) = match Interop::new(&device, &queue) {
        Ok(interop) => (shared(&interop)?, interop.compute().identity().to_string()),
        Err(error) if [ErrorKind::DriverTooOld, ErrorKind::Unsupported].contains(&error.kind()) => {
            println!("not shared: {error}");
            (alone(&device, &queue)?, "wgpu alone".to_owned())
        }
        Err(error) => return Err(error.into()),
    };
    for (index, word) in (0..).zip(bytes.chunks_exact(4)) {
        assert_eq!(word, (FIRST * 3 + index).to_ne_bytes(), "word {index}");
    }
    println!("a compute pass on {} changed {WORDS} words; filled and read by {by}", adapter.get_info().name);
    Ok(())
}
