//! Random descriptions: `Interop` accepts none that wgpu's own `create_texture` and `create_buffer` reject.
//!
//! 10,000 textures and buffers for each device, or `GPU_INTEROP_TEST_DESCRIPTIONS`.

use std::collections::BTreeMap;

use crate::common::{adapter, is_simulated};
use gpu_interop_test_support::Random;
use gpu_interop_wgpu::gpu_interop::ErrorKind;
use gpu_interop_wgpu::{Interop, TextureOptions, Tiling, request_device, shared_formats};
use wgpu::{BufferUsages, TextureDimension, TextureFormat, TextureUsages};

/// Flags: any known ones, few, or one more that may be unknown.
fn bits(random: &mut Random, known: u32, common: u32) -> u32 {
    let all = 1 << known;
    let few = random.below(all) & random.below(all);
    match random.below(6) {
        0 => random.below(all),
        1 => few,
        2 => common | 1 << random.below(32),
        _ => common | few,
    }
}

fn descriptions() -> u32 {
    std::env::var("GPU_INTEROP_TEST_DESCRIPTIONS").map_or(10_000, |count| count.parse().expect("a number"))
}

/// The devices: one with few features and small limits, one with everything that the adapter has.
fn interops() -> Vec<Interop> {
    if is_simulated() {
        println!("skipped: the checks are those of the other backend");
        return Vec::new();
    }
    let Some(adapter) = adapter(false) else { return Vec::new() };
    let everything = wgpu::DeviceDescriptor {
        required_features: adapter.features() - wgpu::Features::all_experimental_mask(),
        required_limits: adapter.limits(),
        ..wgpu::DeviceDescriptor::default()
    };
    [wgpu::DeviceDescriptor::default(), everything]
        .iter()
        .filter_map(|desc| {
            let (device, queue) = request_device(&adapter, desc).expect("a device that can share");
            match Interop::new(&device, &queue) {
                Ok(interop) => Some(interop),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoDevice, "{error}");
                    println!("skipped: {error}");
                    None
                }
            }
        })
        .collect()
}

/// Answers of both sides.
#[derive(Debug, Default)]
struct Answers {
    accepted: u32,
    rejected: u32,
    /// Rejections by drivers and compute APIs, by message.
    only_by_us: BTreeMap<String, u32>,
}

impl Answers {
    fn add<T>(
        &mut self,
        desc: &dyn std::fmt::Debug,
        ours: gpu_interop_wgpu::gpu_interop::Result<T>,
        own: Option<wgpu::Error>,
    ) {
        match (ours, own) {
            (Ok(_), None) => self.accepted += 1,
            (Ok(_), Some(error)) => panic!("accepted, although wgpu rejects it: {error}\n{desc:?}"),
            (Err(_), Some(_)) => self.rejected += 1,
            (Err(error), None) => {
                // The description is valid: only drivers and compute APIs reject it.
                assert_ne!(error.kind(), ErrorKind::InvalidArgument, "wgpu accepts it: {error}\n{desc:?}");
                *self.only_by_us.entry(error.message().chars().take(60).collect()).or_default() += 1;
            }
        }
    }

    fn report(&self, what: &str) {
        println!("{what}: {self:#?}");
        // The descriptions test something.
        assert!(self.accepted > descriptions() / 50 && self.rejected > descriptions() / 10, "{what}: {self:?}");
    }
}

/// wgpu's own answer.
fn wgpus<T>(device: &wgpu::Device, create: impl FnOnce() -> T) -> Option<wgpu::Error> {
    let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
    drop(create());
    pollster::block_on(scope.pop())
}

#[test]
fn textures_that_wgpu_rejects_are_rejected() {
    for interop in interops() {
        let (mut random, mut answers) = (Random(0x9e37_79b9_7f4a_7c15), Answers::default());
        let more = [TextureFormat::R64Uint, TextureFormat::Depth32Float, TextureFormat::Rg11b10Ufloat];
        let formats: Vec<_> = shared_formats().chain(more).collect();
        let limits = interop.device().limits();
        let (flat, solid) = (limits.max_texture_dimension_2d, limits.max_texture_dimension_3d);
        for _ in 0..descriptions() {
            let format = random.of(&formats);
            let srgb = [format.add_srgb_suffix(), format.remove_srgb_suffix()];
            let views: Vec<_> = match random.below(4) {
                0 => vec![random.of(&formats)],
                1 => vec![random.of(&srgb), random.of(&srgb)],
                _ => Vec::new(),
            };
            let mut side = || match random.below(12) {
                0 => random.of(&[0, flat, flat + 1, solid, solid + 1, u32::MAX]),
                1 => random.of(&[1, 2, 256, 257, 2048, 2049]),
                2 => random.of(&[6, 7, 12]),
                _ => 1 + random.below(40),
            };
            let mut size = wgpu::Extent3d { width: side(), height: side(), depth_or_array_layers: side() };
            let dimension =
                random.of(&[TextureDimension::D1, TextureDimension::D2, TextureDimension::D2, TextureDimension::D3]);
            if random.below(2) == 0 {
                size.depth_or_array_layers = 1;
            }
            if dimension == TextureDimension::D1 && random.below(5) > 0 {
                (size.height, size.depth_or_array_layers) = (1, 1);
            }
            let texels = [size.width, size.height, size.depth_or_array_layers].map(f64::from).iter().product::<f64>();
            // Perhaps valid, and large.
            if texels > 2e6 && texels < 1e12 {
                continue;
            }
            let desc = wgpu::TextureDescriptor {
                label: None,
                size,
                mip_level_count: random.of(&[1, 1, 1, 1, 2, 3, 7, 0, 33]),
                sample_count: random.of(&[1, 1, 1, 1, 1, 1, 0, 2, 4]),
                dimension,
                format,
                usage: TextureUsages::from_bits_retain(bits(&mut random, 7, 3)),
                view_formats: &views,
            };
            let tiling = random.of(&[Tiling::Auto, Tiling::Linear, Tiling::Optimal]);
            let options = TextureOptions::default().tiling(tiling).never_discarded(true);
            let ours = interop.create_texture_with(&desc, options);
            answers.add(&desc, ours, wgpus(interop.device(), || interop.device().create_texture(&desc)));
        }
        answers.report("textures");
    }
}

#[test]
fn buffers_that_wgpu_rejects_are_rejected() {
    for interop in interops() {
        let (mut random, mut answers) = (Random(0x9e37_79b9_7f4a_7c15), Answers::default());
        let limit = interop.device().limits().max_buffer_size;
        for _ in 0..descriptions() {
            let size = match random.below(10) {
                0 => random.of(&[limit.saturating_add(1), limit.saturating_add(4), 1 << 40, u64::MAX]),
                1 => random.of(&[1, 3, 5]),
                _ => u64::from(4 * (1 + random.below(5000))),
            };
            // wgpu's own buffers may be mapped, and ours not.
            let usage = BufferUsages::from_bits_retain(bits(&mut random, 12, 12));
            let usage = usage - (BufferUsages::MAP_READ | BufferUsages::MAP_WRITE);
            let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
            let ours = interop.create_buffer(&desc);
            answers.add(&desc, ours, wgpus(interop.device(), || interop.device().create_buffer(&desc)));
        }
        answers.report("buffers");
    }
}
