//! The parts of the examples that are not about sharing: arguments, the frame loop, pictures, and the window.

#![allow(dead_code, unused_imports, unused_macros, reason = "an example uses a part of it")]

pub(crate) mod edges;
pub(crate) mod galaxies;
mod picture;
mod setup;
mod window;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use gpu_interop_wgpu::{Interop, wgpu};

use picture::{Readback, SIDE};
use setup::wait;
pub(crate) use setup::{Code, Result, Setup, code, square};
use window::Window;

/// Frames with compute or behind it, while another one is recorded.
const IN_FLIGHT: u32 = 2;

/// A program that draws frames with wgpu and compute.
pub(crate) trait Example: Sized {
    /// Creates everything. Frames are drawn to a square target of `options.size` texels of `format`.
    fn new(adapter: &wgpu::Adapter, format: wgpu::TextureFormat, options: &Options) -> Result<Self>;

    fn interop(&self) -> &Interop;

    /// How compute and wgpu wait for each other.
    fn how(&self) -> Result<String> {
        let strategy = self.interop().create_timeline(0)?.timeline().strategy();
        Ok(format!("strategy {strategy}"))
    }

    /// Submits the first half of a frame: what wgpu does for compute, and what compute does.
    fn begin(&mut self, frame: u32) -> Result<()>;

    /// Submits the second half of the oldest frame: what wgpu does with the results, drawn to `target`.
    fn finish(&mut self, target: &wgpu::TextureView) -> Result<wgpu::SubmissionIndex>;
}

#[derive(Debug)]
pub(crate) struct Options {
    /// Number of frames.
    pub(crate) frames: u32,
    /// Width and height of a frame, texels.
    pub(crate) size: u32,
    /// Shares textures with linear tiling, also where the compute device maps arrays.
    pub(crate) linear: bool,
    headless: bool,
    /// The folder for a PNG of each frame.
    out: Option<PathBuf>,
    /// The picture for the last frame, in place of the committed one.
    expect: Option<PathBuf>,
    /// Where the last frame is written as the expected picture.
    write: Option<PathBuf>,
}

const USAGE: &str =
    "arguments: [--frames N] [--size N] [--headless] [--linear] [--out FOLDER] [--expect PNG] [--write PNG]
  --frames N    number of frames (default 600)
  --size N      width and height, a multiple of 256 (default 1024; 256 on a CPU)
  --headless    no window, even if there is a display
  --linear      textures with linear tiling, also where the compute device maps arrays
  --out FOLDER  write each frame as a PNG
  --expect PNG  compare the last frame with this picture instead of the committed one
  --write PNG   write the last frame as the expected picture, and compare with nothing";

impl Options {
    fn parse() -> Result<Self> {
        let mut options =
            Self { frames: 600, size: 0, linear: false, headless: false, out: None, expect: None, write: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"));
            match name.as_str() {
                "--frames" => options.frames = value()?.parse::<u32>()?.max(IN_FLIGHT + 1),
                "--size" => options.size = value()?.parse()?,
                "--linear" => options.linear = true,
                "--headless" => options.headless = true,
                "--out" => options.out = Some(value()?.into()),
                "--expect" => options.expect = Some(value()?.into()),
                "--write" => options.write = Some(value()?.into()),
                _ => return Err(USAGE.into()),
            }
        }
        if options.size.is_multiple_of(SIDE) {
            Ok(options)
        } else {
            Err(format!("--size is a multiple of {SIDE}").into())
        }
    }
}

/// Runs an example and compares its last frame with `expected`, a PNG of 256 x 256 texels, which may differ by
/// `tolerance` ([`picture::compare`]).
pub(crate) fn run<E: Example>(name: &str, expected: &[u8], tolerance: f64) -> Result<()> {
    let mut options = Options::parse()?;
    let mut window = if options.headless { None } else { Window::open(name, options.size.max(SIDE))? };
    let (adapter, format) = adapter(window.as_mut())?;
    if options.size == 0 {
        options.size = if adapter.get_info().device_type == wgpu::DeviceType::Cpu { SIDE } else { 4 * SIDE };
    }
    let mut example = E::new(&adapter, format, &options)?;
    let interop = example.interop().clone();
    let (device, queue) = (interop.device(), interop.queue());
    if let Some(window) = &mut window {
        window.configure(device, format, options.size);
    }
    let readback = Readback::new(device, format, options.size);
    let target = view(&readback.texture);

    let mut submitted = VecDeque::new();
    let start = Instant::now();
    for frame in 0..options.frames + IN_FLIGHT {
        if frame < options.frames {
            example.begin(frame)?;
        }
        let Some(frame) = frame.checked_sub(IN_FLIGHT) else { continue };
        submitted.push_back(example.finish(&target)?);
        if submitted.len() > IN_FLIGHT as usize {
            wait(device, submitted.pop_front())?;
        }
        if let Some(window) = &mut window
            && !window.present(device, queue, &readback.texture)?
        {
            return Ok(()); // It was closed.
        }
        if let Some(folder) = &options.out {
            picture::write(
                &folder.join(format!("{name}-{frame:04}.png")),
                options.size,
                &readback.read(device, queue)?,
            )?;
        }
    }
    wait(device, None)?;
    let seconds = start.elapsed().as_secs_f64();

    let (info, compute) = (adapter.get_info(), interop.compute());
    println!("{name}: wgpu on {}, {} on {}", info.name, compute.backend().name, compute.identity());
    println!(
        "{name}: {} frames of {1} x {1}, {2:.1} frames/s, {3}",
        options.frames,
        options.size,
        f64::from(options.frames) / seconds,
        example.how()?,
    );
    let last = picture::shrink(&readback.read(device, queue)?, options.size, SIDE);
    if let Some(path) = &options.write {
        return picture::write(path, SIDE, &last);
    }
    let file = options.expect.map(std::fs::read).transpose()?;
    let difference = picture::compare(&last, file.as_deref().unwrap_or(expected))?;
    println!("{name}: the last frame differs from the expected picture by {difference:.2} of 255, limit {tolerance}");
    if difference <= tolerance { Ok(()) } else { Err("the last frame is wrong; --write saves it".into()) }
}

/// The adapter, and the format of frames: one that the window presents, if there is one.
fn adapter(window: Option<&mut Window>) -> Result<(wgpu::Adapter, wgpu::TextureFormat)> {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = wgpu::Backends::VULKAN | wgpu::Backends::DX12;
    // Validation on request only (`WGPU_VALIDATION=1`): layers older than 1.4.304 deadlock with bridges.
    desc.flags = wgpu::InstanceFlags::empty().with_env();
    let instance = wgpu::Instance::new(desc);
    let surface = window.map(|window| window.surface(&instance)).transpose()?;
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        compatible_surface: surface,
        ..wgpu::RequestAdapterOptions::default()
    }))?;
    let formats = surface.map(|surface| surface.get_capabilities(&adapter).formats);
    let bgra = formats.is_some_and(|formats| !formats.contains(&wgpu::TextureFormat::Rgba8Unorm));
    Ok((adapter, if bgra { wgpu::TextureFormat::Bgra8Unorm } else { wgpu::TextureFormat::Rgba8Unorm }))
}

/// A shader module.
pub(crate) fn shader(device: &wgpu::Device, source: &str) -> wgpu::ShaderModule {
    let source = wgpu::ShaderSource::Wgsl(source.into());
    device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source })
}

/// A pipeline from `vertex` to `fragment`, without vertex buffers, blending and depth; change the rest in `adjust`.
pub(crate) fn pipeline(
    device: &wgpu::Device,
    module: &wgpu::ShaderModule,
    [vertex, fragment]: [&str; 2],
    target: wgpu::ColorTargetState,
    adjust: impl FnOnce(&mut wgpu::RenderPipelineDescriptor<'_>),
) -> wgpu::RenderPipeline {
    let targets = [Some(target)];
    let compilation_options = wgpu::PipelineCompilationOptions::default();
    let mut desc = wgpu::RenderPipelineDescriptor {
        label: None,
        layout: None,
        vertex: wgpu::VertexState {
            module,
            entry_point: Some(vertex),
            compilation_options: compilation_options.clone(),
            buffers: &[],
        },
        primitive: wgpu::PrimitiveState::default(),
        depth_stencil: None,
        multisample: wgpu::MultisampleState::default(),
        fragment: Some(wgpu::FragmentState {
            module,
            entry_point: Some(fragment),
            compilation_options,
            targets: &targets,
        }),
        multiview_mask: None,
        cache: None,
    };
    adjust(&mut desc);
    device.create_render_pipeline(&desc)
}

/// Draws what is nearest.
pub(crate) fn nearest(format: wgpu::TextureFormat) -> wgpu::DepthStencilState {
    wgpu::DepthStencilState {
        format,
        depth_write_enabled: Some(true),
        depth_compare: Some(wgpu::CompareFunction::Less),
        stencil: wgpu::StencilState::default(),
        bias: wgpu::DepthBiasState::default(),
    }
}

/// A bind group of a pipeline's group 0, with the resources in the order of their bindings.
pub(crate) fn bind(
    device: &wgpu::Device,
    pipeline: &wgpu::RenderPipeline,
    resources: &[wgpu::BindingResource<'_>],
) -> wgpu::BindGroup {
    let entries: Vec<_> = (0..)
        .zip(resources)
        .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource: resource.clone() })
        .collect();
    let layout = pipeline.get_bind_group_layout(0);
    device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries })
}

/// Records commands.
pub(crate) fn encode(device: &wgpu::Device, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> wgpu::CommandBuffer {
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    record(&mut encoder);
    encoder.finish()
}

/// The whole of a texture.
pub(crate) fn view(texture: &wgpu::Texture) -> wgpu::TextureView {
    texture.create_view(&wgpu::TextureViewDescriptor::default())
}

/// A render pass that clears one colour target, and a depth target if there is one.
pub(crate) fn pass<'e>(
    encoder: &'e mut wgpu::CommandEncoder,
    view: &wgpu::TextureView,
    clear: wgpu::Color,
    depth: Option<&wgpu::TextureView>,
) -> wgpu::RenderPass<'e> {
    let ops = wgpu::Operations { load: wgpu::LoadOp::Clear(clear), store: wgpu::StoreOp::Store };
    let color = wgpu::RenderPassColorAttachment { view, depth_slice: None, resolve_target: None, ops };
    let depth_ops = Some(wgpu::Operations { load: wgpu::LoadOp::Clear(1.0), store: wgpu::StoreOp::Discard });
    encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        color_attachments: &[Some(color)],
        depth_stencil_attachment: depth.map(|view| wgpu::RenderPassDepthStencilAttachment {
            view,
            depth_ops,
            stencil_ops: None,
        }),
        ..wgpu::RenderPassDescriptor::default()
    })
}

/// A pass that draws one triangle, which covers the whole target.
pub(crate) fn fill(
    encoder: &mut wgpu::CommandEncoder,
    target: &wgpu::TextureView,
    pipeline: &wgpu::RenderPipeline,
    group: &wgpu::BindGroup,
) {
    let mut pass = pass(encoder, target, wgpu::Color::BLACK, None);
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, group, &[]);
    pass.draw(0..3, 0..1);
}
