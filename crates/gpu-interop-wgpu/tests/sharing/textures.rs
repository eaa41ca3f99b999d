//! Textures, both ways, every texel verified.

use crate::common::{Context, compute_pipeline, frames, is_simulated, pattern, texture_desc, validation_messages};
use gpu_interop_wgpu::gpu_interop::ErrorKind;
use gpu_interop_wgpu::{SharedTexture, TextureOptions, Tiling, shared_formats};
use wgpu::TextureFormat as Format;
use wgpu::TextureUsages as Usage;

/// A width whose rows are padded with linear tiling.
const SIZE: [u32; 2] = [61, 37];

/// `None` if the device shares no such texture.
fn create(context: &Context, desc: &wgpu::TextureDescriptor<'_>) -> Option<SharedTexture> {
    match context.interop.create_texture_with(desc, TextureOptions::default().never_discarded(true)) {
        Ok(texture) => Some(texture),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            println!("{:?} {:?}: not shared: {error}", desc.format, desc.size);
            None
        }
        Err(error) => panic!("{:?}: {error}", desc.format),
    }
}

/// Sends a level of a layer from wgpu to compute, and another one back.
fn exchange(context: &Context, texture: &SharedTexture, level: u32, layer: u32, seed: u32) {
    let name = format!("{:?}, level {level}, layer {layer}, seed {seed}", texture.wgpu().format());
    let extent = texture.wgpu().size().mip_level_size(level, texture.wgpu().dimension());
    let slices =
        if texture.wgpu().dimension() == wgpu::TextureDimension::D3 { extent.depth_or_array_layers } else { 1 };
    let texels = extent.width * extent.height * slices * texture.format().texel_size();
    let [sent, returned] = [seed, !seed].map(|seed| pattern(seed, texels as usize));
    context.write_texture(texture.wgpu(), level, layer, &sent);
    let compute = context.interop.begin_compute(&context.stream, &[texture]).expect("handed over");
    assert!(texture.read_texels(&context.stream, level, layer).expect("read") == sent, "to compute: {name}");
    texture.write_texels(&context.stream, level, layer, &returned).expect("written");
    context.end(compute);
    assert!(context.read_texture(texture.wgpu(), level, layer) == returned, "to wgpu: {name}");
}

#[test]
fn every_format_arrives_both_ways() {
    let Some(context) = Context::new() else { return };
    let features = context.device().features();
    let mut shared = Vec::new();
    for format in shared_formats().filter(|format| features.contains(format.required_features())) {
        let Some(texture) = create(&context, &texture_desc(format, SIZE, Usage::TEXTURE_BINDING)) else { continue };
        shared.push(format);
        for seed in 0..3 {
            exchange(&context, &texture, 0, 0, seed);
        }
    }
    println!("{} formats", shared.len());
    for format in [Format::R8Unorm, Format::Rgba8Unorm, Format::Bgra8Unorm, Format::Rgba16Float, Format::Rgba32Float] {
        assert!(shared.contains(&format), "{format:?}");
    }
    assert_eq!(validation_messages(), 0);
}

#[test]
fn levels_layers_and_slices_arrive_where_the_device_shares_them() {
    let Some(context) = Context::new() else { return };
    let flat = texture_desc(Format::Rgba8Uint, [64, 32], Usage::TEXTURE_BINDING);
    let with = |depth_or_array_layers, mip_level_count, dimension| wgpu::TextureDescriptor {
        size: wgpu::Extent3d { depth_or_array_layers, ..flat.size },
        mip_level_count,
        dimension,
        ..flat.clone()
    };
    use wgpu::TextureDimension::{D2, D3};
    // Square layers are created for cube views, and mapped as layers.
    let square = |layers, levels| wgpu::TextureDescriptor {
        size: wgpu::Extent3d { width: 32, height: 32, depth_or_array_layers: layers },
        ..with(layers, levels, D2)
    };
    for desc in [
        with(1, 7, D2),
        with(3, 1, D2),
        with(3, 5, D2),
        with(6, 1, D3),
        with(6, 3, D3),
        square(6, 1),
        square(7, 1),
        square(12, 4),
    ] {
        let Some(texture) = create(&context, &desc) else { continue };
        let layers = if desc.dimension == D3 { 1 } else { desc.size.depth_or_array_layers };
        for (level, layer) in (0..desc.mip_level_count).flat_map(|level| (0..layers).map(move |layer| (level, layer))) {
            exchange(&context, &texture, level, layer, level * 16 + layer);
        }
        println!("{:?} with {} levels: verified", desc.size, desc.mip_level_count);
    }
    assert_eq!(validation_messages(), 0);
}

/// A view of another format, a cube, and a 3D texture that is rendered to: what Vulkan needs flags for.
#[test]
fn views_that_need_flags_are_valid() {
    let Some(context) = Context::new() else { return };
    let usage = Usage::RENDER_ATTACHMENT | Usage::TEXTURE_BINDING;
    let flat = texture_desc(Format::Rgba8Unorm, [16, 16], usage);
    let srgb = wgpu::TextureDescriptor { view_formats: &[Format::Rgba8UnormSrgb], ..flat.clone() };
    if let Some(texture) = create(&context, &srgb) {
        let format = Some(Format::Rgba8UnormSrgb);
        let desc = wgpu::TextureViewDescriptor { format, ..wgpu::TextureViewDescriptor::default() };
        context
            .queue()
            .submit([context.encode(|encoder| clear(encoder, texture.wgpu(), &desc, [0.5, 0.0, 0.25, 1.0]))]);
        let compute = context.interop.begin_compute(&context.stream, &[&texture]).expect("handed over");
        let seen = texture.read_texels(&context.stream, 0, 0).expect("read");
        context.end(compute);
        // Linear 0.5 and 0.25 in the encoding of sRGB.
        assert!(seen.chunks(4).all(|texel| texel == [188, 0, 137, 255]), "{:?}", &seen[..4]);
    }
    let size = wgpu::Extent3d { depth_or_array_layers: 6, ..flat.size };
    let solid = wgpu::TextureDescriptor { size, dimension: wgpu::TextureDimension::D3, ..flat.clone() };
    if let Some(texture) = create(&context, &solid) {
        exchange(&context, &texture, 0, 0, 1);
    }
    let cube = wgpu::TextureDescriptor { size, ..flat };
    let options = TextureOptions::default().cube(true);
    match context.interop.create_texture_with(&cube, options) {
        Ok(texture) => {
            let dimension = Some(wgpu::TextureViewDimension::Cube);
            let desc = wgpu::TextureViewDescriptor { dimension, ..wgpu::TextureViewDescriptor::default() };
            drop(texture.wgpu().create_view(&desc));
            exchange(&context, &texture, 0, 5, 2);
        }
        Err(error) => println!("no cubes: {error}"),
    }
    context.wait();
    assert_eq!(validation_messages(), 0);
}

/// wgpu lets the application make cube views of every square array with enough layers.
#[test]
fn cube_views_of_arrays_are_valid() {
    let Some(context) = Context::validated() else { return };
    for (layers, dimension) in [
        (6, wgpu::TextureViewDimension::Cube),
        (7, wgpu::TextureViewDimension::Cube),
        (12, wgpu::TextureViewDimension::CubeArray),
    ] {
        let flat = texture_desc(Format::Rgba8Unorm, [16, 16], Usage::TEXTURE_BINDING);
        let size = wgpu::Extent3d { depth_or_array_layers: layers, ..flat.size };
        let Some(texture) = create(&context, &wgpu::TextureDescriptor { size, ..flat }) else { continue };
        let desc = wgpu::TextureViewDescriptor {
            dimension: Some(dimension),
            array_layer_count: Some(layers / 6 * 6),
            ..wgpu::TextureViewDescriptor::default()
        };
        drop(texture.wgpu().create_view(&desc));
        println!("{dimension:?} view of {layers} layers");
    }
    context.wait();
    assert_eq!(validation_messages(), 0);
}

/// wgpu would panic at the next use.
#[test]
fn a_texture_that_may_be_discarded_is_refused() {
    let Some(context) = Context::new() else { return };
    let desc = texture_desc(Format::Rgba8Unorm, [16, 16], Usage::RENDER_ATTACHMENT);
    let error = context.interop.create_texture(&desc).expect_err("it may be discarded");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    for words in ["StoreOp::Discard", "never_discarded(true)", "create_texture_with"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    if is_simulated() {
        return println!("skipped: no several samples");
    }
    // Stored: `rendered_frames_are_changed_in_place_and_sampled`. Resolved: the attachment with four samples is discarded.
    let Some(texture) = create(&context, &desc) else { return };
    let samples = wgpu::TextureDescriptor { sample_count: 4, usage: Usage::RENDER_ATTACHMENT, ..desc };
    let samples = context.device().create_texture(&samples);
    let [from, to] = [&samples, texture.wgpu()].map(|of| of.create_view(&wgpu::TextureViewDescriptor::default()));
    let render = context.encode(|encoder| {
        let ops = wgpu::Operations { load: wgpu::LoadOp::Clear(wgpu::Color::RED), store: wgpu::StoreOp::Discard };
        let attachment =
            wgpu::RenderPassColorAttachment { view: &from, depth_slice: None, resolve_target: Some(&to), ops };
        drop(encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            color_attachments: &[Some(attachment)],
            ..wgpu::RenderPassDescriptor::default()
        }));
    });
    context.queue().submit([render]);
    assert!(context.read_texture(texture.wgpu(), 0, 0).chunks(4).all(|texel| texel == [255, 0, 0, 255]));
    assert_eq!(validation_messages(), 0);
}

/// A view of larger texels would reach memory behind the texture.
#[test]
fn views_differ_in_the_srgb_encoding_only() {
    let Some(context) = Context::new() else { return };
    let views = [Format::Rgba32Float];
    let desc = texture_desc(Format::R32Float, SIZE, Usage::STORAGE_BINDING);
    let desc = wgpu::TextureDescriptor { view_formats: &views, ..desc };
    let error = context.interop.create_texture(&desc).expect_err("four times the bytes");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("Rgba32Float"), "{error}");
    assert!(error.to_string().contains("sRGB"), "{error}");
    // The texture's own format needs no flag.
    let own = wgpu::TextureDescriptor { view_formats: &[Format::R32Float], ..desc };
    create(&context, &own);
    assert_eq!(validation_messages(), 0);
}

#[test]
fn what_no_device_shares_is_an_error_with_advice() {
    let Some(context) = Context::new() else { return };
    let flat = texture_desc(Format::Rgba8Unorm, [16, 16], Usage::TEXTURE_BINDING);
    let cases = [
        (wgpu::TextureDescriptor { sample_count: 4, ..flat.clone() }, ErrorKind::Unsupported, "resolve"),
        (
            wgpu::TextureDescriptor { format: Format::Depth32Float, ..flat.clone() },
            ErrorKind::Unsupported,
            "copy to it",
        ),
        (wgpu::TextureDescriptor { mip_level_count: 9, ..flat.clone() }, ErrorKind::InvalidArgument, "from 1 to 5"),
        (wgpu::TextureDescriptor { usage: Usage::empty(), ..flat.clone() }, ErrorKind::InvalidArgument, "no usage"),
        (
            wgpu::TextureDescriptor { size: wgpu::Extent3d { width: 1 << 20, ..flat.size }, ..flat.clone() },
            ErrorKind::InvalidArgument,
            "limit",
        ),
        (
            wgpu::TextureDescriptor { format: Format::Rgba8Snorm, usage: Usage::RENDER_ATTACHMENT, ..flat.clone() },
            ErrorKind::Unsupported,
            "usage",
        ),
    ];
    for (desc, kind, advice) in cases {
        let error = context.interop.create_texture(&desc).expect_err("rejected");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
    let optimal = TextureOptions::default().tiling(Tiling::Optimal);
    match context.interop.create_texture_with(&flat, optimal) {
        Ok(texture) => assert!(texture.array().is_some()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
    context.wait();
    assert_eq!(validation_messages(), 0);
}

#[test]
fn a_new_texture_is_zero_on_both_sides() {
    let Some(context) = Context::new() else { return };
    let Some(texture) = create(&context, &texture_desc(Format::R32Uint, SIZE, Usage::TEXTURE_BINDING)) else { return };
    assert!(context.read_texture(texture.wgpu(), 0, 0).iter().all(|byte| *byte == 0));
    let compute = context.interop.begin_compute(&context.stream, &[&texture]).expect("handed over");
    assert!(texture.read_texels(&context.stream, 0, 0).expect("read").iter().all(|byte| *byte == 0));
    context.end(compute);
    context.wait();
    assert_eq!(validation_messages(), 0);
}

/// wgpu renders, compute changes every texel in place, wgpu samples: each step in another layout.
#[test]
fn rendered_frames_are_changed_in_place_and_sampled() {
    if is_simulated() {
        return println!("skipped: no shaders");
    }
    let Some(context) = Context::new() else { return };
    let usage = Usage::RENDER_ATTACHMENT | Usage::TEXTURE_BINDING;
    let Some(texture) = create(&context, &texture_desc(Format::Rgba8Uint, [32, 16], usage)) else { return };
    let sampler = Sampler::new(&context, texture.wgpu());
    for frame in 0..frames() {
        let colour = [frame & 0xFF, frame >> 8 & 0xFF, 7, 255 - (frame & 0x7F)];
        let render = context.encode(|encoder| {
            clear(encoder, texture.wgpu(), &wgpu::TextureViewDescriptor::default(), colour.map(f64::from));
        });
        let compute =
            context.interop.submit_and_begin_compute([render], &context.stream, &[&texture]).expect("handed over");
        let mut texels = texture.read_texels(&context.stream, 0, 0).expect("read");
        for (index, texel) in texels.chunks_exact_mut(4).enumerate() {
            assert!(texel.iter().copied().map(u32::from).eq(colour), "frame {frame}, texel {index}: {texel:?}");
            texel
                .iter_mut()
                .for_each(|channel| *channel = channel.wrapping_add(u8::try_from(index % 251).expect("small")));
        }
        texture.write_texels(&context.stream, 0, 0, &texels).expect("written");
        let readback = context.readback(32 * 16 * 4);
        context.end_and_submit(compute, [sampler.sample(&context, &readback)]);
        assert!(context.map(&readback) == texels, "frame {frame}");
    }
    assert_eq!(validation_messages(), 0);
}

fn clear(
    encoder: &mut wgpu::CommandEncoder,
    texture: &wgpu::Texture,
    view: &wgpu::TextureViewDescriptor<'_>,
    [r, g, b, a]: [f64; 4],
) {
    let view = texture.create_view(view);
    let attachment = wgpu::RenderPassColorAttachment {
        view: &view,
        depth_slice: None,
        resolve_target: None,
        ops: wgpu::Operations { load: wgpu::LoadOp::Clear(wgpu::Color { r, g, b, a }), store: wgpu::StoreOp::Store },
    };
    drop(encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        color_attachments: &[Some(attachment)],
        ..wgpu::RenderPassDescriptor::default()
    }));
}

/// A shader that loads every texel of an integer texture into a buffer.
struct Sampler {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    output: wgpu::Buffer,
}

const LOAD: &str = "
@group(0) @binding(0) var image: texture_2d<u32>;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let texel = textureLoad(image, id.xy, 0);
    words[id.y * textureDimensions(image).x + id.x] = texel.x | texel.y << 8 | texel.z << 16 | texel.w << 24;
}";

impl Sampler {
    fn new(context: &Context, texture: &wgpu::Texture) -> Self {
        let device = context.device();
        let pipeline = compute_pipeline(device, LOAD);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let size = u64::from(texture.width() * texture.height() * 4);
        let output =
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::TextureView(&view) },
                wgpu::BindGroupEntry { binding: 1, resource: output.as_entire_binding() },
            ],
        });
        Self { pipeline, group, output }
    }

    fn sample(&self, context: &Context, to: &wgpu::Buffer) -> wgpu::CommandBuffer {
        context.encode(|encoder| {
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                pass.set_pipeline(&self.pipeline);
                pass.set_bind_group(0, &self.group, &[]);
                pass.dispatch_workgroups(4, 2, 1);
            }
            encoder.copy_buffer_to_buffer(&self.output, 0, to, 0, to.size());
        })
    }
}
