//! Matching of devices, and objects that cannot be shared.

use std::sync::Arc;

use gpu_interop::cudarc::cudarc::driver::CudaContext;
use gpu_interop::cudarc::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use gpu_interop::cudarc::{SharedSlice, SharedStream, context_for, context_of, device};
use gpu_interop::vulkan::{DeviceChoice, HeadlessContext, HeadlessOptions};
use gpu_interop::{DeviceIdentity, DeviceKind, Error, ErrorKind};
use gpu_interop_test_support::{build, this_program};
use libtest_mimic::Failed;

use crate::machine::{Machine, SIZE, import, skip};

#[track_caller]
fn assert_error(error: &Error, kind: ErrorKind, part: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

pub(crate) fn contexts_and_devices_are_found_by_each_other(machine: &Machine) {
    let opened = device(&machine.context).expect("the context's device");
    assert_eq!(opened.identity(), machine.device.identity());
    assert_eq!(opened.context(), machine.device.context());
    assert_eq!(opened.context().map(gpu_interop::backend::RawContext::get), Some(machine.context.cu_ctx().addr()));
    let uuid = machine.context.uuid().expect("a UUID").bytes.map(|byte| byte.to_ne_bytes()[0]);
    assert_eq!(opened.identity().uuid.map(|uuid| *uuid.as_bytes()), Some(uuid));
    assert_eq!(*context_of(&opened).expect("a context"), *machine.context);
    // The reverse: from cudarc's context to Vulkan's device.
    let options = HeadlessOptions::default().device(DeviceChoice::Identity(opened.identity().clone()));
    let vulkan = HeadlessContext::new(&options).expect("the same GPU");
    assert_eq!(vulkan.identity(), machine.vulkan.identity());
    // An exporter that is on no CUDA device.
    let other = DeviceIdentity::new("another", machine.vulkan.identity().kind)
        .with_uuid(gpu_interop::Uuid::from_bytes([7; 16]))
        .with_pci("00ff:1f:1f.0".parse().ok());
    if !machine.is_simulated() {
        let error = gpu_interop::cudarc::context_for(&other).expect_err("no such device");
        assert_eq!(error.kind(), ErrorKind::NoDevice);
    }
}

pub(crate) fn other_contexts_are_rejected(machine: &Machine) {
    // SAFETY: device and context are live; the object is leaked, so it destroys neither.
    let raw = unsafe { CudaContext::from_raw_context(0, machine.context.cu_device(), machine.context.cu_ctx()) };
    let raw = std::mem::ManuallyDrop::new(raw.expect("a context"));
    let error = device(&raw).expect_err("not primary");
    assert_error(&error, ErrorKind::InvalidArgument, "not the primary one");
    if machine.is_simulated() {
        return;
    }
    let own = CudaContext::new_non_primary(machine.context.ordinal(), 0).expect("a context");
    assert_error(&device(&own).expect_err("not primary"), ErrorKind::InvalidArgument, "not the primary one");
    // SAFETY: nothing is captured.
    let error =
        unsafe { SharedStream::new(&machine.device, own.new_stream().expect("a stream")) }.expect_err("another");
    assert_error(&error, ErrorKind::InvalidArgument, "not the primary one");
    let slice = own.default_stream().alloc_zeros::<u32>(4).expect("memory");
    let error = SharedSlice::borrowed(&machine.stream(), slice).expect_err("another context");
    assert_error(&error, ErrorKind::InvalidArgument, "not the primary one");
    machine.context.bind_to_thread().expect("bound");
    if CudaContext::device_count().expect("a count") > 1 {
        let second = CudaContext::new(1 - machine.context.ordinal().min(1)).expect("the other GPU");
        // SAFETY: nothing is captured.
        let error = unsafe { SharedStream::new(&machine.device, second.default_stream()) }.expect_err("another GPU");
        assert_error(&error, ErrorKind::DeviceMismatch, "another GPU");
    }
}

pub(crate) fn other_streams_are_rejected(machine: &Machine) {
    // SAFETY: nothing is captured.
    let error = unsafe { SharedStream::new(&machine.device, machine.context.per_thread_stream()) }.expect_err("many");
    assert_error(&error, ErrorKind::InvalidArgument, "another stream on every thread");
    let stream = machine.context.new_stream().expect("a stream");
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).expect("begun");
    // SAFETY: fails because of the capture.
    let error = unsafe { SharedStream::new(&machine.device, stream.clone()) }.expect_err("capturing");
    assert_error(&error, ErrorKind::InvalidArgument, "graph is being captured");
    drop(stream.end_capture(CUgraphInstantiate_flags(0)).expect("ended"));
    for stream in [stream, machine.context.default_stream()] {
        // SAFETY: nothing is captured any more, nor on the default stream.
        unsafe { SharedStream::new(&machine.device, stream) }.expect("idle");
    }
    {
        let host = gpu_interop::Device::open(&gpu_interop::host::HostBackend::new(), 0).expect("the CPU");
        // SAFETY: nothing is captured.
        let error = unsafe { SharedStream::new(&host, machine.context.default_stream()) }.expect_err("not CUDA");
        assert_error(&error, ErrorKind::Unsupported, "CUDA backend only");
    }
}

pub(crate) fn other_buffers_are_rejected(machine: &Machine) {
    let (stream, exported) = (machine.stream(), machine.export());
    let buffer = import(&machine.device, &exported);
    let mapped = |range: (u64, u64)| SharedSlice::<u32>::mapped(&stream, buffer.clone(), range.0..range.1);
    for (range, part) in [
        ((2, SIZE - 2), "not aligned"),
        ((0, SIZE - 2), "not a multiple"),
        ((0, SIZE + 4), "size"),
        ((8, 8), "size"),
        ((SIZE, SIZE + 4), "size"),
    ] {
        assert_error(&mapped(range).expect_err(part), ErrorKind::InvalidArgument, part);
    }
    assert_eq!(mapped((4, SIZE)).expect("inside").len() as u64, SIZE / 4 - 1);
    let error = SharedSlice::<[u64; 3]>::mapped(&stream, buffer.clone(), ..).expect_err("65536 is no multiple of 24");
    assert_error(&error, ErrorKind::InvalidArgument, "[u64; 3]");
    // Each `Device` is a device of its own.
    let other = device(&machine.context).expect("a device");
    let foreign = import(&other, &exported);
    let error = SharedSlice::<u32>::mapped(&stream, foreign, ..).expect_err("another device");
    assert_error(&error, ErrorKind::InvalidArgument, "another device");
    let empty = stream.cudarc().null::<u32>();
    // The simulator, as the driver's `cuMemAlloc`, allocates nothing of size 0.
    if let Ok(empty) = empty {
        let error = SharedSlice::borrowed(&stream, empty).expect_err("empty");
        assert_error(&error, ErrorKind::InvalidArgument, "empty");
    }
    drop(Arc::clone(&buffer));
}

/// Argument of a process without a driver, or with one that cudarc does not find.
pub(crate) const CHILD: &str = "without-a-driver";

pub(crate) fn child() {
    // The simulator's device matches every CPU, a GPU's driver matches none.
    let error = context_for(&DeviceIdentity::new("llvmpipe", DeviceKind::Cpu)).expect_err("no driver");
    println!("{:?}: {error}", error.kind());
    {
        let host = gpu_interop::host::HostBackend::new();
        let host = gpu_interop::Device::open(&host, 0).expect("the CPU");
        let error = gpu_interop::cudarc::context_of(&host).expect_err("not CUDA");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        println!("host: {error}");
    }
}

/// Runs the child with a driver file, and returns what it printed.
fn with_library(file: &std::path::Path) -> Result<String, Failed> {
    let output = this_program()?.arg(CHILD).env("GPU_INTEROP_CUDA_LIBRARY", file).output()?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if !output.status.success() || text.contains("panicked") {
        return Err(format!("{}: {text}", output.status).into());
    }
    Ok(text)
}

pub(crate) fn nothing_panics_without_a_driver() -> Result<(), Failed> {
    let text = with_library("/nonexistent/libcuda.so.1".as_ref())?;
    let wanted = ["DriverNotFound: ", "no CUDA driver was found", "/nonexistent/libcuda.so.1"];
    if wanted.iter().all(|part| text.contains(part)) { Ok(()) } else { Err(text.into()) }
}

/// This crate loads the simulator by its path. cudarc finds no driver by its names, or a GPU's.
pub(crate) fn another_library_is_rejected() -> Result<(), Failed> {
    let library = match build("gpu-interop-sim-cuda") {
        Ok(library) => library,
        Err(reason) => return skip("another_library_than_cudarcs_is_rejected", reason),
    };
    let text = with_library(&library)?;
    let absent = text.contains(&format!("{:?}: ", ErrorKind::DriverNotFound)) && text.contains("cudarc finds no");
    let other = text.contains(&format!("{:?}: ", ErrorKind::DeviceMismatch)) && text.contains("another");
    if (absent || other) && text.contains("sim_cuda") { Ok(()) } else { Err(text.into()) }
}
