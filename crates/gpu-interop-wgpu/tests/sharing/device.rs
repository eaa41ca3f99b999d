//! Which wgpu devices can share, and what errors say about the others.

use crate::common::{Context, adapter, buffer_desc};
use gpu_interop_wgpu::gpu_interop::{DeviceIdentity, DeviceKind, ErrorKind, TimelineStrategy, Uuid};
use gpu_interop_wgpu::{Interop, identity, request_device};

/// A device that the application created with wgpu's own feature: its timelines go over the host.
#[test]
fn a_device_with_wgpus_feature_shares_over_the_bridge() {
    let Some(adapter) = adapter(false) else { return };
    let feature = if cfg!(windows) {
        wgpu::Features::VULKAN_EXTERNAL_MEMORY_WIN32
    } else {
        wgpu::Features::VULKAN_EXTERNAL_MEMORY_FD
    };
    let desc = wgpu::DeviceDescriptor { required_features: feature, ..wgpu::DeviceDescriptor::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&desc)).expect("a device");
    let interop = Interop::new(&device, &queue).expect("it can share");
    assert_eq!(interop.create_timeline(0).expect("a timeline").timeline().strategy(), TimelineStrategy::HostBridge);
    let stream = interop.compute().create_stream().expect("a stream");
    let buffer = interop.create_buffer(&buffer_desc(64, wgpu::BufferUsages::VERTEX)).expect("a buffer");
    let compute = interop.begin_compute(&stream, &[&buffer]).expect("handed over");
    stream.fill_u32(&buffer, 7).expect("filled");
    compute.end().expect("handed back");
    let context = Context { interop, stream, validated: false };
    let readback = context.readback(64);
    let copy = context.encode(|encoder| encoder.copy_buffer_to_buffer(buffer.wgpu(), 0, &readback, 0, 64));
    context.queue().submit([copy]);
    assert_eq!(context.map_words(&readback), [7; 16]);
}

#[test]
fn what_the_adapter_lacks_is_an_error_before_the_device_is_created() {
    let Some(adapter) = adapter(false) else { return };
    let missing = wgpu::Features::all() - adapter.features() - wgpu::Features::all_experimental_mask();
    let desc = wgpu::DeviceDescriptor { required_features: missing, ..wgpu::DeviceDescriptor::default() };
    let error = request_device(&adapter, &desc).expect_err("missing features");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let limits = wgpu::Limits { max_texture_dimension_2d: 1 << 24, ..wgpu::Limits::default() };
    let desc = wgpu::DeviceDescriptor { required_limits: limits, ..wgpu::DeviceDescriptor::default() };
    let error = request_device(&adapter, &desc).expect_err("a limit");
    assert!(error.to_string().contains("max_texture_dimension_2d: 16777216"), "{error}");
}

#[test]
fn other_backends_and_other_hardware_are_typed_errors() {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = wgpu::Backends::NOOP;
    desc.backend_options.noop.enable = true;
    let instance = wgpu::Instance::new(desc);
    let noop = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).expect("noop");
    let error = request_device(&noop, &wgpu::DeviceDescriptor::default()).expect_err("shares nothing");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let (device, queue) = pollster::block_on(noop.request_device(&wgpu::DeviceDescriptor::default())).expect("noop");
    let error = Interop::new(&device, &queue).expect_err("shares nothing");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("Backends::VULKAN"), "{error}");

    let Some(context) = Context::new() else { return };
    // The same device, given by the application.
    Interop::with_compute(context.device(), context.queue(), context.interop.compute().clone()).expect("the same");
    assert_eq!(identity(context.device()).expect("it can share"), *context.interop.identity());
    let Some(second) = Context::new() else { return };
    let error = Interop::new(context.device(), second.queue()).expect_err("another device's queue");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let other = DeviceIdentity::new("another GPU", DeviceKind::Gpu).with_uuid(Uuid::from_bytes([9; 16]));
    let error = gpu_interop_wgpu::gpu_interop::device_for(&other).expect_err("no such device");
    assert_eq!(error.kind(), ErrorKind::NoDevice);
}
