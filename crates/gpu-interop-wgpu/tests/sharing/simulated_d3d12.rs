//! The other tests on Direct3D 12: wgpu's own backend on sim-d3d, with sim-cuda and sim-hip as the compute device.
//!
//! wgpu loads `d3d12.dll` and `dxgi.dll` by name, which Windows looks for beside the program first. Therefore a copy of
//! this program runs the tests, in a folder with the simulator under both names. Wine prefers its own libraries, unless
//! `WINEDLLOVERRIDES` contains `d3d12,dxgi=n,b`. The simulator ends the process at a violation of Direct3D's rules for
//! resource states, views and lifetimes.

use std::process::Command;

use crate::common::{Context, DIRECT3D_12, adapter, buffer_desc, device, is_simulated, texture_desc};
use gpu_interop_test_support::{build, this_program};
use gpu_interop_wgpu::gpu_interop::{ErrorKind, TimelineStrategy};
use gpu_interop_wgpu::{Interop, TextureOptions};
use wgpu::{BufferUsages, TextureUsages};

/// Tests of this program that need the copy.
const TESTS: usize = 36;
const BACKEND: &str = "GPU_INTEROP_BACKEND";
const TIMELINE: &str = "GPU_INTEROP_TIMELINE";

/// Settings of a run, and the tests that it leaves out.
type Run = (&'static [(&'static str, &'static str)], &'static [&'static str]);

const RUNS: [Run; 3] = [
    (&[(BACKEND, "cuda")], &[]),
    (&[(BACKEND, "cuda"), (TIMELINE, "bridge")], &[]),
    // HIP has no arrays of normalised formats.
    (&[(BACKEND, "hip")], &["textures::every_format_arrives_both_ways"]),
];

#[test]
fn on_the_simulator() {
    if is_simulated() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let original = this_program().expect("this program");
    let copy = folder.path().join("simulated_d3d12.exe");
    std::fs::copy(original.get_program(), &copy).expect("a copy");
    let simulator = build("gpu-interop-sim-d3d").expect("the simulator of Direct3D");
    for name in ["d3d12.dll", "dxgi.dll"] {
        std::fs::copy(&simulator, folder.path().join(name)).expect("a copy");
    }
    for (settings, left_out) in RUNS {
        let mut tests = Command::new(&copy);
        for (name, _) in original.get_envs() {
            tests.env_remove(name);
        }
        // The tests of lifetimes count the handles of the process.
        tests.args([
            "--test-threads",
            "1",
            "--skip",
            "on_the_simulator",
            "--skip",
            "device::",
            "--skip",
            "driver_calls::",
        ]);
        tests.args(left_out.iter().flat_map(|name| ["--skip", name]));
        tests.env(DIRECT3D_12, "1").envs(settings.iter().copied());
        tests.env("GPU_INTEROP_CUDA_LIBRARY", build("gpu-interop-sim-cuda").expect("the simulator of CUDA"));
        tests.env("GPU_INTEROP_HIP_LIBRARY", build("gpu-interop-sim-hip").expect("the simulator of HIP"));
        let output = tests.output().expect("a process");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        println!("{settings:?}: {}\n{text}", output.status);
        assert!(output.status.success(), "{settings:?}: {}", output.status);
        let passed = format!("test result: ok. {} passed", TESTS - left_out.len());
        assert!(text.contains(&passed), "{settings:?}: not all of the tests ran");
    }
}

#[test]
fn the_device_is_the_simulator() {
    if !is_simulated() {
        return;
    }
    let Some(context) = Context::new() else { return };
    let info = context.device().adapter_info();
    assert_eq!((info.backend, info.name.as_str()), (wgpu::Backend::Dx12, "simulator"));
    assert_eq!(context.interop.identity().name, "simulator");
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    let bridged = std::env::var_os(TIMELINE).is_some();
    let expected = if bridged { TimelineStrategy::HostBridge } else { TimelineStrategy::Native };
    assert_eq!(timeline.timeline().strategy(), expected);
}

/// Two devices of wgpu are one device of Direct3D, with two queues.
#[test]
fn the_queue_of_another_device_is_rejected() {
    if !is_simulated() {
        return;
    }
    let Some(adapter) = adapter(false) else { return };
    let [(device, queue), (_other, other_queue)] = [device(&adapter), device(&adapter)];
    let error = Interop::new(&device, &other_queue).expect_err("another device's queue");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    Interop::new(&device, &queue).expect("its own queue");
}

/// wgpu's views of whole buffers, of each kind of usage. Views of constants have whole blocks of 256 bytes.
#[test]
fn buffers_have_the_views_of_their_usages() {
    if !is_simulated() {
        return;
    }
    let Some(context) = Context::new() else { return };
    let device = context.device();
    for (usage, ty) in [
        (BufferUsages::UNIFORM, wgpu::BufferBindingType::Uniform),
        (BufferUsages::STORAGE, wgpu::BufferBindingType::Storage { read_only: false }),
        (BufferUsages::STORAGE, wgpu::BufferBindingType::Storage { read_only: true }),
    ] {
        for size in [4, 16, 252, 256, 260, 65_536] {
            let buffer = context.interop.create_buffer(&buffer_desc(size, usage)).expect("a buffer");
            assert_eq!((buffer.size(), buffer.wgpu().size()), (size, size));
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &[wgpu::BindGroupLayoutEntry {
                    binding: 0,
                    visibility: wgpu::ShaderStages::COMPUTE,
                    ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
                    count: None,
                }],
            });
            drop(device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &layout,
                entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.wgpu().as_entire_binding() }],
            }));
        }
    }
}

/// wgpu's views of textures, of each kind of usage.
#[test]
fn textures_have_the_views_of_their_usages() {
    if !is_simulated() {
        return;
    }
    let Some(context) = Context::new() else { return };
    let usages = [TextureUsages::TEXTURE_BINDING, TextureUsages::STORAGE_BINDING, TextureUsages::RENDER_ATTACHMENT];
    for usage in usages.into_iter().chain([TextureUsages::TEXTURE_BINDING | usages[1] | usages[2]]) {
        let desc = texture_desc(wgpu::TextureFormat::Rgba8Uint, [20, 10], usage);
        let options = TextureOptions::default().never_discarded(true);
        let texture = context.interop.create_texture_with(&desc, options).expect("a texture");
        drop(texture.wgpu().create_view(&wgpu::TextureViewDescriptor::default()));
    }
}
