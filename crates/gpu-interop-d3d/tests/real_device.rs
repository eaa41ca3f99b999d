//! Tests with the machine's own Direct3D, if it has one. A missing feature must be a typed error; skipped tests are
//! printed with the reason. Wine's implementation needs a display (`xvfb-run`), and does not support sharing. With
//! `GPU_INTEROP_REQUIRE_D3D=1`, for machines with full support, a skipped test fails.
#![cfg(windows)]
#![allow(clippy::expect_used, clippy::panic)]

use std::time::Duration;

use gpu_interop_core::{DeviceIdentity, Error, ErrorKind, IdentityMatch, TimelineWaiter};
use gpu_interop_d3d::d3d11::{self, D3d11Interop};
use gpu_interop_d3d::d3d12::{self, D3d12Interop, ExportableHeap, HeapContents, HeapOptions};
use gpu_interop_d3d::{BindFlags, DxgiFormat, ResourceFlags, Sharing, SrvDimension, TextureSpec};
use windows::Win32::Foundation::HMODULE;
use windows::Win32::Graphics::Direct3D::{D3D_DRIVER_TYPE_HARDWARE, D3D_FEATURE_LEVEL_11_0};
use windows::Win32::Graphics::Direct3D11::{
    D3D11_CREATE_DEVICE_BGRA_SUPPORT, D3D11_SDK_VERSION, D3D11CreateDevice, ID3D11Device,
};
use windows::Win32::Graphics::Direct3D12::{
    D3D12_COMMAND_LIST_TYPE_DIRECT, D3D12_COMMAND_QUEUE_DESC, D3D12CreateDevice, ID3D12CommandQueue, ID3D12Device,
};

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(20);

fn left_out(what: &str, why: &dyn std::fmt::Display) {
    println!("LEFT OUT: {what}: {why}");
    let required = std::env::var_os("GPU_INTEROP_REQUIRE_D3D").is_some_and(|value| value == "1");
    assert!(!required, "{what} is required: {why}");
}

fn device12() -> Option<ID3D12Device> {
    let mut device = None;
    // SAFETY: the result is kept as the requested interface.
    let answer = unsafe { D3D12CreateDevice(None, D3D_FEATURE_LEVEL_11_0, &raw mut device) };
    if let Err(error) = answer {
        left_out("a device of Direct3D 12", &error);
        return None;
    }
    device
}

fn device11() -> Option<ID3D11Device> {
    let mut device = None;
    // SAFETY: all results go to live variables.
    let answer = unsafe {
        D3D11CreateDevice(
            None,
            D3D_DRIVER_TYPE_HARDWARE,
            HMODULE::default(),
            D3D11_CREATE_DEVICE_BGRA_SUPPORT,
            None,
            D3D11_SDK_VERSION,
            Some(&raw mut device),
            None,
            None,
        )
    };
    if let Err(error) = answer {
        left_out("a device of Direct3D 11", &error);
        return None;
    }
    device
}

/// A missing feature is `Unsupported` and no other error.
fn unless_lacking<T>(what: &str, answer: Result<T, Error>) -> Option<T> {
    match answer {
        Ok(found) => Some(found),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
            left_out(what, &error);
            None
        }
    }
}

#[test]
fn direct3d_12() {
    let Some(device) = device12() else { return };
    let interop = D3d12Interop::new(&device).expect("a device of one node");
    println!("Direct3D 12: {}", interop.identity());
    assert_eq!(interop.identity().compare(&interop.identity().clone()), IdentityMatch::Same);
    D3d12Interop::for_importer(&device, interop.identity()).expect("the same device");

    let buffer = d3d12::ExportableResource::buffer(&interop, 100_000, ResourceFlags::ALLOW_UNORDERED_ACCESS);
    let buffer = buffer.expect("a buffer");
    assert!(buffer.size() >= 100_000 && buffer.size().is_multiple_of(64 << 10), "{}", buffer.size());
    let spec = TextureSpec::new(SrvDimension::TEXTURE2D, (64, 32, 1), DxgiFormat::R8G8B8A8_UNORM).levels(3);
    let texture = d3d12::ExportableResource::texture(&interop, &spec, ResourceFlags::ALLOW_RENDER_TARGET);
    let texture = texture.expect("a texture");
    texture.array_desc().expect("an array").validate(texture.size()).expect("an array that fits its allocation");
    // SAFETY: the resource is live.
    let desc = unsafe { texture.resource().GetDesc() };
    assert_eq!((desc.Width, desc.Height, desc.MipLevels, desc.Format.0), (64, 32, 3, 28));

    let heap = ExportableHeap::new(&interop, &HeapOptions::new(1 << 20, HeapContents::Buffers)).expect("a heap");
    let placed = heap.place_buffer(64 << 10, 1000, ResourceFlags::empty()).expect("a buffer");
    // SAFETY: the resource is live.
    assert_eq!((unsafe { placed.resource().GetDesc() }.Width, placed.offset()), (1000, 64 << 10));
    let outside = heap.place_buffer(1 << 20, 1000, ResourceFlags::empty()).expect_err("behind the heap");
    assert_eq!(outside.kind(), ErrorKind::InvalidArgument);

    let fence = d3d12::ExportableFence::new(&interop, 0).expect("a fence");
    for (what, exported) in
        [("a committed buffer", buffer.export()), ("a committed texture", texture.export()), ("a heap", heap.export())]
    {
        if let Some(handle) = unless_lacking(what, exported) {
            println!("exported {what}: {handle:?}");
        }
    }
    if let Some(handle) = unless_lacking("a fence", fence.export()) {
        let gpu_interop_core::SemaphoreHandle::D3d12Fence(gpu_interop_core::handle::Win32Object::Handle(handle)) =
            handle
        else {
            panic!("no handle: {handle:?}")
        };
        // The handle refers to the fence.
        let twin = interop.open_fence(&handle).expect("a fence");
        fence.signal(1).expect("above");
        // SAFETY: the fence is live.
        assert_eq!(unsafe { twin.GetCompletedValue() }, 1);
    }
}

#[test]
fn fences_of_direct3d_12_wait_and_wake() {
    let Some(device) = device12() else { return };
    let interop = D3d12Interop::new(&device).expect("a device of one node");
    let fence = d3d12::ExportableFence::new(&interop, 3).expect("a fence");
    assert_eq!(fence.value().expect("a value"), 3);
    assert_eq!(fence.wait(4, SOON).expect_err("no signal").kind(), ErrorKind::Timeout);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| fence.wait(4, LONG));
        std::thread::sleep(SOON);
        fence.signal(4).expect("above");
        waits.join().expect("no panic").expect("reached");
    });
    // The queue waits for the host and signals it.
    let desc = D3D12_COMMAND_QUEUE_DESC { Type: D3D12_COMMAND_LIST_TYPE_DIRECT, ..D3D12_COMMAND_QUEUE_DESC::default() };
    // SAFETY: the description is plain data that outlives the call.
    let queue: ID3D12CommandQueue = unsafe { device.CreateCommandQueue(&raw const desc) }.expect("a queue");
    fence.queue_wait(&queue, 5).expect("enqueued");
    fence.queue_signal(&queue, 6).expect("enqueued");
    assert_eq!(fence.wait(6, SOON).expect_err("the queue waits").kind(), ErrorKind::Timeout);
    fence.signal(5).expect("above");
    fence.wait(6, LONG).expect("reached");
    assert_eq!(fence.value().expect("a value"), 6);

    let waiter: Box<dyn TimelineWaiter> = gpu_interop_core::ExporterTimeline::waiter(&fence).expect("a waiter");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.wait_any(&[(&fence, 7)], LONG));
        std::thread::sleep(SOON);
        fence.queue_signal(&queue, 7).expect("enqueued");
        waits.join().expect("no panic").expect("reached");
    });
    assert_eq!(fence.value().expect("a value"), 7);
}

#[test]
fn direct3d_11() {
    let Some(device) = device11() else { return };
    let interop = D3d11Interop::new(&device).expect("a device");
    println!("Direct3D 11: {}", interop.identity());
    assert!(interop.identity().luid.is_some(), "every adapter has a LUID");
    assert_eq!(DeviceIdentity::compare(interop.identity(), interop.identity()), IdentityMatch::Same);
    for sharing in Sharing::ALL {
        let spec = TextureSpec::new(SrvDimension::TEXTURE2D, (64, 32, 1), DxgiFormat::B8G8R8A8_UNORM);
        let bind = BindFlags::SHADER_RESOURCE | BindFlags::RENDER_TARGET;
        let made = d3d11::ExportableResource::texture(&interop, &spec, bind, sharing);
        let Some(texture) = unless_lacking(&format!("a texture shared by {sharing:?}"), made) else { continue };
        if let Some(handle) = unless_lacking(&format!("exporting it by {sharing:?}"), texture.export()) {
            println!("exported a texture: {handle:?}");
        }
        if sharing.semaphore_handle_kind().is_some()
            && let Some(mutex) = unless_lacking("a keyed mutex", texture.keyed_mutex())
        {
            // SAFETY: this thread alone uses the device.
            unsafe {
                mutex.acquire(0, Some(SOON)).expect("a new one");
                mutex.release(1).expect("acquired");
                assert_eq!(mutex.acquire(2, Some(SOON)).expect_err("another key").kind(), ErrorKind::Timeout);
            }
        }
    }
    if let Some(fence) = unless_lacking("a fence", d3d11::ExportableFence::new(&interop, 3)) {
        assert_eq!(fence.value().expect("a value"), 3);
        // SAFETY: the device is live.
        let context = unsafe { device.GetImmediateContext() }.expect("a context");
        // SAFETY: the context is the device's, and only this thread uses it.
        unsafe { fence.context_signal(&context, 4) }.expect("enqueued");
        // SAFETY: the context is live, and only this thread uses it.
        unsafe { context.Flush() };
        fence.wait(4, LONG).expect("reached");
        unless_lacking("exporting a fence", fence.export());
    }
}
