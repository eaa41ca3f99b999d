//! Example: `wgpu_particles` without interop: a compute pass of wgpu moves the particles. It draws the same picture, and
//! shows the cost of interop by the difference of the two frame rates.

mod common;

use std::collections::VecDeque;

use common::galaxies::{Camera, Cores, State, Step, Vertex, states};
use common::{Options, Result, encode, shader};
use gpu_interop_wgpu::{Interop, request_device, wgpu};
use wgpu::BufferUsages;

struct Particles {
    pending: VecDeque<usize>,
    frames: Vec<Frame>,
    count: u32,
    cores: Cores,
    advance: wgpu::ComputePipeline,
    /// Only its device is used.
    interop: Interop,
    camera: Camera,
}

struct Frame {
    vertices: wgpu::Buffer,
    /// A step and a bind group for each launch.
    launches: Vec<(wgpu::Buffer, wgpu::BindGroup)>,
}

impl common::Example for Particles {
    fn new(adapter: &wgpu::Adapter, format: wgpu::TextureFormat, options: &Options) -> Result<Self> {
        let (device, queue) = request_device(adapter, &wgpu::DeviceDescriptor::default())?;
        let interop = Interop::new(&device, &queue)?;
        let (count, cores) = (options.size * options.size, Cores::new(options));
        let advance = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &shader(&device, include_str!("shaders/advance.wgsl")),
            entry_point: Some("advance"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let buffer = |size: usize, count: u32, usage| {
            let size = size as u64 * u64::from(count);
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let memory = buffer(size_of::<State>(), count, BufferUsages::STORAGE | BufferUsages::COPY_DST);
        queue.write_buffer(&memory, 0, &states(count));
        let frame = |_| {
            let vertices = buffer(size_of::<Vertex>(), count, BufferUsages::STORAGE | BufferUsages::VERTEX);
            let launch = |_| {
                // WGSL rounds the size of a step up to 16 bytes.
                let step =
                    buffer(size_of::<Step>().next_multiple_of(16), 1, BufferUsages::UNIFORM | BufferUsages::COPY_DST);
                let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: None,
                    layout: &advance.get_bind_group_layout(0),
                    entries: &[entry(0, &memory), entry(1, &vertices), entry(2, &step)],
                });
                (step, group)
            };
            let launches = (0..cores.steps).map(launch).collect();
            Frame { vertices, launches }
        };
        let frames = (0..3).map(frame).collect();
        let camera = Camera::new(&device, format, options);
        Ok(Self { pending: VecDeque::new(), frames, count, cores, advance, interop, camera })
    }

    fn interop(&self) -> &Interop {
        &self.interop
    }

    fn how(&self) -> Result<String> {
        Ok("a compute pass of wgpu".into())
    }

    fn begin(&mut self, number: u32) -> Result<()> {
        let index = number as usize % self.frames.len();
        let frame = &self.frames[index];
        let (device, queue) = (self.interop.device(), self.interop.queue());
        for (buffer, _) in &frame.launches {
            let Step { cores: [first, second], seconds } = self.cores.step();
            let step: Vec<u8> =
                [&first[..], &second, &[seconds]].concat().into_iter().flat_map(f32::to_ne_bytes).collect();
            queue.write_buffer(buffer, 0, &step);
        }
        let moving = encode(device, |encoder| {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&self.advance);
            for (_, group) in &frame.launches {
                pass.set_bind_group(0, group, &[]);
                pass.dispatch_workgroups(self.count.div_ceil(256).min(65_535), 1, 1);
            }
        });
        queue.submit([moving]);
        self.pending.push_back(index);
        Ok(())
    }

    fn finish(&mut self, target: &wgpu::TextureView) -> Result<wgpu::SubmissionIndex> {
        let index = self.pending.pop_front().ok_or("no frame has begun")?;
        let drawing = self.camera.draw(self.interop.device(), &self.frames[index].vertices, target)?;
        Ok(self.interop.queue().submit([drawing]))
    }
}

fn entry(binding: u32, buffer: &wgpu::Buffer) -> wgpu::BindGroupEntry<'_> {
    wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() }
}

fn main() -> Result<()> {
    common::run::<Particles>("wgpu_particles_pass", include_bytes!("pictures/wgpu_particles.png"), 3.0)
}
