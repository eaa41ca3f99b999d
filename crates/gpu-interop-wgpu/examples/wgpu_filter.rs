//! Example: wgpu renders a scene to a shared texture, compute detects its edges, and wgpu composes both.
//!
//! Three frames are in flight, each with textures of its own: while a kernel filters one, wgpu renders the next. The
//! kernel is `kernels/edges.c` on CUDA and HIP, and a Rust function on the CPU. `--help` lists the arguments.

mod common;

use std::collections::VecDeque;

use common::edges::{edge, edges_on_the_cpu};
use common::{Options, Result, Setup, bind, encode, fill, pass, pipeline, shader, square, view};
use gpu_interop_wgpu::gpu_interop::{Kernel, KernelArg, LaunchConfig, Stream, Surface};
use gpu_interop_wgpu::{HandBack, Interop, SharedTexture, TextureOptions, Tiling, wgpu};
use wgpu::TextureUsages as Use;

const DEPTH: wgpu::TextureFormat = wgpu::TextureFormat::Depth32Float;
const BACKGROUND: wgpu::Color = wgpu::Color { r: 0.07, g: 0.08, b: 0.12, a: 1.0 };

/// A texture of both sides, and what the kernel takes for it.
struct Image {
    surface: Option<Surface>,
    texture: SharedTexture,
}

impl Image {
    fn new(interop: &Interop, size: u32, usage: Use, linear: bool) -> Result<Self> {
        let tiling = if linear { Tiling::Linear } else { Tiling::Auto };
        let desc = square(size, wgpu::TextureFormat::Rgba8Unorm, usage | Use::TEXTURE_BINDING);
        // The passes below store what they render.
        let options = TextureOptions::default().tiling(tiling).never_discarded(true);
        let texture = interop.create_texture_with(&desc, options)?;
        Ok(Self { surface: texture.array().map(|array| array.surface(0)).transpose()?, texture })
    }

    /// A surface, or an address and the row pitch.
    fn arguments(&self) -> [KernelArg<'_>; 2] {
        match (&self.surface, self.texture.linear(0, 0)) {
            (None, Some((memory, layout))) => [KernelArg::Buffer(memory), KernelArg::U64(layout.row_pitch)],
            (surface, _) => [surface.as_ref().map_or(KernelArg::U64(0), Surface::as_arg), KernelArg::U64(0)],
        }
    }
}

struct Frame {
    scene: Image,
    /// Where wgpu renders, if the shared texture is linear: few drivers render to it with a depth attachment.
    canvas: Option<wgpu::Texture>,
    edges: Image,
    scene_view: wgpu::TextureView,
    composed: wgpu::BindGroup,
}

struct Filter {
    pending: VecDeque<(usize, HandBack)>,
    frames: Vec<Frame>,
    kernel: Kernel,
    stream: Stream,
    interop: Interop,
    angle: wgpu::Buffer,
    lit: wgpu::BindGroup,
    depth: wgpu::TextureView,
    render: wgpu::RenderPipeline,
    compose: wgpu::RenderPipeline,
    size: i32,
    count: u32,
}

impl common::Example for Filter {
    fn new(adapter: &wgpu::Adapter, format: wgpu::TextureFormat, options: &Options) -> Result<Self> {
        let code = common::code!("edges");
        let Setup { kernel, stream, interop } = Setup::new(adapter, c"edges", &code, edges_on_the_cpu)?;
        let device = interop.device();
        let module = shader(device, include_str!("shaders/filter.wgsl"));
        let render = pipeline(device, &module, ["torus", "light"], wgpu::TextureFormat::Rgba8Unorm.into(), |desc| {
            desc.depth_stencil = Some(common::nearest(DEPTH));
        });
        let compose = pipeline(device, &module, ["screen", "compose"], format.into(), |_| {});
        let frame = |_| {
            let edges = Image::new(&interop, options.size, Use::empty(), options.linear)?;
            let linear = edges.surface.is_none();
            let usage = if linear { Use::COPY_DST } else { Use::RENDER_ATTACHMENT };
            let scene = Image::new(&interop, options.size, usage, linear)?;
            let canvas = square(options.size, wgpu::TextureFormat::Rgba8Unorm, Use::RENDER_ATTACHMENT | Use::COPY_SRC);
            let canvas = linear.then(|| device.create_texture(&canvas));
            let views = [&scene, &edges].map(|image| view(image.texture.wgpu()));
            let composed = bind(device, &compose, &views.each_ref().map(wgpu::BindingResource::TextureView));
            let scene_view = view(canvas.as_ref().unwrap_or(scene.texture.wgpu()));
            Ok(Frame { scene, canvas, edges, scene_view, composed })
        };
        let frames = (0..3).map(frame).collect::<Result<_>>()?;
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let angle = wgpu::BufferDescriptor { label: None, size: 4, usage, mapped_at_creation: false };
        let angle = device.create_buffer(&angle);
        let depth = device.create_texture(&square(options.size, DEPTH, Use::RENDER_ATTACHMENT));
        Ok(Self {
            pending: VecDeque::new(),
            frames,
            kernel,
            stream,
            lit: bind(device, &render, &[angle.as_entire_binding()]),
            depth: view(&depth),
            interop,
            angle,
            render,
            compose,
            size: options.size.try_into()?,
            count: options.frames,
        })
    }

    fn interop(&self) -> &Interop {
        &self.interop
    }

    fn begin(&mut self, number: u32) -> Result<()> {
        let index = number as usize % self.frames.len();
        let Frame { scene, canvas, edges, scene_view, .. } = &self.frames[index];
        let turned = (number + 1) as f32 / self.count as f32 * std::f32::consts::TAU + 0.4;
        self.interop.queue().write_buffer(&self.angle, 0, &turned.to_ne_bytes());
        let rendering = encode(self.interop.device(), |encoder| {
            let mut render = pass(encoder, scene_view, BACKGROUND, Some(&self.depth));
            render.set_pipeline(&self.render);
            render.set_bind_group(0, &self.lit, &[]);
            render.draw(0..96 * 48 * 6, 0..2);
            drop(render);
            if let Some(canvas) = canvas {
                let scene = scene.texture.wgpu();
                encoder.copy_texture_to_texture(canvas.as_image_copy(), scene.as_image_copy(), scene.size());
            }
        });

        let objects: [&dyn gpu_interop_wgpu::Shared; 2] = [&scene.texture, &edges.texture];
        let compute = self.interop.submit_and_begin_compute([rendering], &self.stream, &objects)?;
        let ([from, from_pitch], [to, to_pitch]) = (scene.arguments(), edges.arguments());
        let (size, radius) = (KernelArg::I32(self.size), KernelArg::I32(self.size / 256));
        let arguments = [from, from_pitch, to, to_pitch, size, radius];
        let config = LaunchConfig::linear(self.size.unsigned_abs().pow(2).into());
        // SAFETY: the kernel takes two images of `size` rows of `size` texels, and 32-bit integers. `drop` waits for
        // the stream before it destroys surfaces.
        unsafe { self.stream.launch(&self.kernel, &config, &arguments) }?;
        if number + 1 == self.count {
            self.verify(scene, edges)?;
        }
        self.pending.push_back((index, compute.signal()?));
        Ok(())
    }

    fn finish(&mut self, target: &wgpu::TextureView) -> Result<wgpu::SubmissionIndex> {
        let (index, back) = self.pending.pop_front().ok_or("no frame has begun")?;
        let composing = encode(self.interop.device(), |encoder| {
            fill(encoder, target, &self.compose, &self.frames[index].composed);
        });
        Ok(back.acquire_and_submit([composing])?)
    }
}

impl Filter {
    /// Compares every texel of a frame, which compute owns, with the CPU's result.
    fn verify(&self, scene: &Image, edges: &Image) -> Result<()> {
        let read = |image: &Image| -> Result<Vec<u32>> {
            let bytes = image.texture.read_texels(&self.stream, 0, 0)?;
            Ok(bytes.as_chunks().0.iter().map(|texel| u32::from_ne_bytes(*texel)).collect())
        };
        let (from, to) = (read(scene)?, read(edges)?);
        let texel = |x: i32, y: i32| from[(y * self.size + x) as usize];
        let all = (0..self.size).flat_map(|y| (0..self.size).map(move |x| (x, y)));
        let wrong = all.zip(&to).filter(|(at, found)| edge(texel, *at, self.size, self.size / 256) != **found).count();
        println!("wgpu_filter: {wrong} of {} texels differ from the CPU's result", to.len());
        if wrong == 0 { Ok(()) } else { Err("the kernel's result is wrong".into()) }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // After an error, a kernel may still use the surfaces.
        let _ = self.stream.synchronize();
    }
}

fn main() -> Result<()> {
    common::run::<Filter>("wgpu_filter", include_bytes!("pictures/wgpu_filter.png"), 1.0)
}
