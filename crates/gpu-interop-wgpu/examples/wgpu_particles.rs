//! Example: compute moves a million particles in vertex buffers that wgpu draws: the discs of two galaxies that pass each
//! other.
//!
//! The particles' state is memory of compute's own. Each of three frames in flight has a vertex buffer, to which the kernel
//! writes positions. The kernel is PTX on CUDA (`kernels/particles.c`) and a Rust function on the CPU. `--help` lists the
//! arguments; there is one particle for each pixel.

mod common;

use std::collections::VecDeque;
use std::slice::from_raw_parts_mut;

use common::{Options, Result, Setup, bind, encode, fill, pass, pipeline, shader, square, view};
use gpu_interop_wgpu::gpu_interop::host::KernelCall;
use gpu_interop_wgpu::gpu_interop::{ExportableMemory, Kernel, KernelArg, LaunchConfig, Stream};
use gpu_interop_wgpu::{HandBack, Interop, SharedBuffer, gpu_interop, wgpu};

/// Launches of the kernel from the first frame to the last, unless there are more frames.
const STEPS: u32 = 600;
const SECONDS: f32 = 4.6;
const LIGHT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba16Float;
const LAYOUT: wgpu::VertexBufferLayout<'_> = wgpu::VertexBufferLayout {
    array_stride: size_of::<Vertex>() as u64,
    step_mode: wgpu::VertexStepMode::Vertex,
    attributes: &wgpu::vertex_attr_array![0 => Float32x4],
};

/// Position, 0, velocity, 0.
type State = [f32; 8];
/// Position, speed.
type Vertex = [f32; 4];

/// The kernel's parameter of this type.
#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    /// Position and mass.
    cores: [[f32; 4]; 2],
    seconds: f32,
}

struct Cores {
    /// Position and velocity of the first one; the other one is opposite.
    first: [f32; 4],
    seconds: f32,
    /// Launches for each frame.
    steps: u32,
}

struct Particles {
    pending: VecDeque<(usize, HandBack)>,
    vertices: Vec<SharedBuffer>,
    states: ExportableMemory,
    count: u32,
    cores: Cores,
    kernel: Kernel,
    stream: Stream,
    interop: Interop,
    light: wgpu::TextureView,
    exposed: wgpu::BindGroup,
    draw: wgpu::RenderPipeline,
    expose: wgpu::RenderPipeline,
}

impl common::Example for Particles {
    fn new(adapter: &wgpu::Adapter, format: wgpu::TextureFormat, options: &Options) -> Result<Self> {
        let ptx = include_str!("kernels/particles.ptx");
        let Setup { kernel, stream, interop } = Setup::new(adapter, c"advance", ptx, advance_on_the_cpu)?;
        let device = interop.device();
        let count = options.size * options.size;
        let size = u64::from(count) * size_of::<Vertex>() as u64;
        let desc =
            wgpu::BufferDescriptor { label: None, size, usage: wgpu::BufferUsages::VERTEX, mapped_at_creation: false };
        let vertices = (0..3).map(|_| interop.create_buffer(&desc)).collect::<gpu_interop::Result<_>>()?;
        // At the distance 3, on parabolas that come as near as 0.6.
        let first = [-1.5, 0.0, 0.515, -0.258];
        let states = interop.compute().allocate_exportable(u64::from(count) * size_of::<State>() as u64)?;
        let bytes: Vec<u8> = (0..count).flat_map(|index| state(index, first)).flat_map(f32::to_ne_bytes).collect();
        stream.write(states.slice(..)?, &bytes)?;

        let module = shader(device, include_str!("shaders/particles.wgsl"));
        let one = wgpu::BlendComponent { dst_factor: wgpu::BlendFactor::One, ..wgpu::BlendComponent::REPLACE };
        let add = wgpu::BlendState { color: one, alpha: one };
        let target = wgpu::ColorTargetState { blend: Some(add), ..LIGHT.into() };
        let draw = pipeline(device, &module, ["particle", "add"], target, |desc| {
            desc.primitive.topology = wgpu::PrimitiveTopology::PointList;
            desc.vertex.buffers = &[Some(LAYOUT)];
        });
        let expose = pipeline(device, &module, ["screen", "expose"], format.into(), |_| {});
        let usage = wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::TEXTURE_BINDING;
        let light = view(&device.create_texture(&square(options.size, LIGHT, usage)));
        let exposed = bind(device, &expose, &[wgpu::BindingResource::TextureView(&light)]);
        let steps = (STEPS / options.frames).max(1);
        let cores = Cores { first, seconds: SECONDS / (options.frames * steps) as f32, steps };
        Ok(Self {
            pending: VecDeque::new(),
            vertices,
            states,
            count,
            cores,
            kernel,
            stream,
            interop,
            light,
            exposed,
            draw,
            expose,
        })
    }

    fn interop(&self) -> &Interop {
        &self.interop
    }

    fn begin(&mut self, number: u32) -> Result<()> {
        let index = number as usize % self.vertices.len();
        let compute = self.interop.begin_compute(&self.stream, &[&self.vertices[index]])?;
        for _ in 0..self.cores.steps {
            let step = self.cores.step();
            let states = KernelArg::Buffer(self.states.slice(..)?);
            let vertices = KernelArg::Buffer((&self.vertices[index]).into());
            let arguments = [states, vertices, KernelArg::U64(self.count.into()), KernelArg::by_value(&step)];
            // SAFETY: the kernel takes two buffers for `count` particles, and a step.
            unsafe { self.stream.launch(&self.kernel, &LaunchConfig::linear(self.count.into()), &arguments) }?;
        }
        self.pending.push_back((index, compute.signal()?));
        Ok(())
    }

    fn finish(&mut self, target: &wgpu::TextureView) -> Result<wgpu::SubmissionIndex> {
        let (index, back) = self.pending.pop_front().ok_or("no frame has begun")?;
        let drawing = encode(self.interop.device(), |encoder| {
            let mut draw = pass(encoder, &self.light, wgpu::Color::BLACK, None);
            draw.set_pipeline(&self.draw);
            draw.set_vertex_buffer(0, self.vertices[index].wgpu().slice(..));
            draw.draw(0..self.count, 0..1);
            drop(draw);
            fill(encoder, target, &self.expose, &self.exposed);
        });
        Ok(back.acquire_and_submit([drawing])?)
    }
}

impl Cores {
    /// Moves them by a step. The result has their places in the middle of it.
    fn step(&mut self) -> Step {
        let [mut x, mut y, mut vx, mut vy] = self.first;
        let half = self.seconds / 2.0;
        (x, y) = (x + vx * half, y + vy * half);
        let square = 4.0 * (x * x + y * y) + 0.04;
        let pull = 2.0 * self.seconds / (square * square.sqrt());
        (vx, vy) = (vx - x * pull, vy - y * pull);
        self.first = [x + vx * half, y + vy * half, vx, vy];
        Step { cores: [[x, y, 0.0, 1.0], [-x, -y, 0.0, 1.0]], seconds: self.seconds }
    }
}

/// A particle on a circle around one of the cores.
fn state(index: u32, [x, y, vx, vy]: [f32; 4]) -> State {
    let random = |salt: u32| {
        let mixed = (index ^ salt).wrapping_mul(0x9E37_79B1);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77);
        ((mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE3D) >> 8) as f32 / (1 << 24) as f32
    };
    let (sin, cos) = (random(0x5BD1_E995) * std::f32::consts::TAU).sin_cos();
    let (radius, height) = (0.1 + 1.1 * random(0x1B87_3593).powf(0.7), 0.04 * random(0xCC9E_2D51) - 0.02);
    let speed = radius / (radius * radius + 0.04).powf(0.75);
    let (sign, tilt) = if index.is_multiple_of(2) { (1.0, 0.1_f32) } else { (-1.0, 0.7) };
    let (up, along) = tilt.sin_cos();
    let place = [cos * radius, sin * radius * along - height * up, sin * radius * up + height * along];
    let [u, v, w] = [-sin * speed, cos * speed * along, cos * speed * up];
    [sign * x + place[0], sign * y + place[1], place[2], 0.0, sign * vx + u, sign * vy + v, w, 0.0]
}

/// `kernels/particles.c`.
fn advance_on_the_cpu(call: &KernelCall<'_>) -> Result<(), String> {
    let (states, vertices) = (call.ptr(0)?.cast::<State>(), call.ptr(1)?.cast::<Vertex>());
    let count = usize::try_from(call.u64(2)?).map_err(|error| error.to_string())?;
    // SAFETY: launches pass a step. Both buffers are for `count` particles, aligned to pages, and used by this kernel only.
    let (step, states, vertices) =
        unsafe { (call.value::<Step>(3)?, from_raw_parts_mut(states, count), from_raw_parts_mut(vertices, count)) };
    for ([px, py, pz, _, vx, vy, vz, _], vertex) in states.iter_mut().zip(vertices) {
        let half = step.seconds * 0.5;
        let (x, y, z) = (*px + *vx * half, *py + *vy * half, *pz + *vz * half);
        for core in &step.cores {
            let (dx, dy, dz) = (core[0] - x, core[1] - y, core[2] - z);
            let square = dx * dx + dy * dy + dz * dz + 0.04;
            let pull = core[3] * step.seconds / (square * square.sqrt());
            (*vx, *vy, *vz) = (*vx + dx * pull, *vy + dy * pull, *vz + dz * pull);
        }
        (*px, *py, *pz) = (x + *vx * half, y + *vy * half, z + *vz * half);
        *vertex = [*px, *py, *pz, (*vx * *vx + *vy * *vy + *vz * *vz).sqrt()];
    }
    Ok(())
}

fn main() -> Result<()> {
    common::run::<Particles>("wgpu_particles", include_bytes!("pictures/wgpu_particles.png"), 3.0)
}
