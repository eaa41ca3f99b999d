//! The discs of two galaxies that pass each other: their particles, and how wgpu draws them.

use gpu_interop_wgpu::wgpu;

use super::setup::{Result, square};
use super::{Options, bind, encode, fill, pass, pipeline, shader, view};

/// Steps from the first frame to the last, unless there are more frames.
const STEPS: u32 = 600;
const SECONDS: f32 = 4.6;
/// Position and velocity of the first core at the start; the other one is opposite. At the distance 3, on parabolas that
/// come as near as 0.6.
const START: [f32; 4] = [-1.5, 0.0, 0.515, -0.258];
const LIGHT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba16Float;
const LAYOUT: wgpu::VertexBufferLayout<'_> = wgpu::VertexBufferLayout {
    array_stride: size_of::<Vertex>() as u64,
    step_mode: wgpu::VertexStepMode::Vertex,
    attributes: &wgpu::vertex_attr_array![0 => Float32x4],
};

/// Position, 0, velocity, 0.
pub(crate) type State = [f32; 8];
/// Position, speed.
pub(crate) type Vertex = [f32; 4];

/// The kernel's parameter of this type.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// Position and mass.
    pub(crate) cores: [[f32; 4]; 2],
    pub(crate) seconds: f32,
}

pub(crate) struct Cores {
    /// Position and velocity of the first one; the other one is opposite.
    first: [f32; 4],
    seconds: f32,
    /// Launches for each frame.
    pub(crate) steps: u32,
}

impl Cores {
    pub(crate) fn new(options: &Options) -> Self {
        let steps = (STEPS / options.frames).max(1);
        Self { first: START, seconds: SECONDS / (options.frames * steps) as f32, steps }
    }

    /// Moves them by a step. The result has their places in the middle of it.
    pub(crate) fn step(&mut self) -> Step {
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

/// The bytes of `count` states at the start.
pub(crate) fn states(count: u32) -> Vec<u8> {
    (0..count).flat_map(state).flat_map(f32::to_ne_bytes).collect()
}

/// A particle on a circle around one of the cores.
fn state(index: u32) -> State {
    let [x, y, vx, vy] = START;
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

/// Draws particles: their light is added, then exposed like a film.
pub(crate) struct Camera {
    light: wgpu::TextureView,
    exposed: wgpu::BindGroup,
    draw: wgpu::RenderPipeline,
    expose: wgpu::RenderPipeline,
}

impl Camera {
    pub(crate) fn new(device: &wgpu::Device, format: wgpu::TextureFormat, options: &Options) -> Self {
        let module = shader(device, include_str!("../shaders/particles.wgsl"));
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
        Self { light, exposed, draw, expose }
    }

    pub(crate) fn draw(
        &self,
        device: &wgpu::Device,
        vertices: &wgpu::Buffer,
        target: &wgpu::TextureView,
    ) -> Result<wgpu::CommandBuffer> {
        let count = u32::try_from(vertices.size() / size_of::<Vertex>() as u64)?;
        Ok(encode(device, |encoder| {
            let mut draw = pass(encoder, &self.light, wgpu::Color::BLACK, None);
            draw.set_pipeline(&self.draw);
            draw.set_vertex_buffer(0, vertices.slice(..));
            draw.draw(0..count, 0..1);
            drop(draw);
            fill(encoder, target, &self.expose, &self.exposed);
        }))
    }
}
