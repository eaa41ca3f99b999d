//! Direct3D's rules in the simulators.
#![cfg(windows)]
#![allow(clippy::expect_used)]

mod common;

use std::mem::ManuallyDrop;
use std::process::Command;
use std::time::Duration;

use common::buffer_desc;
use gpu_interop_sim_d3d::os::View;
use gpu_interop_sim_d3d::{Behavior11, Behavior12, Device11, Device12, E_NOTIMPL};
use windows::Win32::Foundation::{CloseHandle, E_INVALIDARG, GENERIC_ALL, HANDLE};
use windows::Win32::Graphics::Direct3D11::*;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT_R8G8B8A8_UNORM;
use windows::Win32::Graphics::Dxgi::{DXGI_SHARED_RESOURCE_READ, DXGI_SHARED_RESOURCE_WRITE, IDXGIResource1};
use windows::core::{HSTRING, Interface, PCWSTR};

const SIZE: u32 = 4096;
const SHARED: u32 = (D3D11_RESOURCE_MISC_SHARED.0 | D3D11_RESOURCE_MISC_SHARED_NTHANDLE.0).cast_unsigned();

fn buffer11(device: &ID3D11Device, usage: D3D11_USAGE, misc: u32) -> windows::core::Result<ID3D11Buffer> {
    let desc = D3D11_BUFFER_DESC { ByteWidth: SIZE, Usage: usage, MiscFlags: misc, ..D3D11_BUFFER_DESC::default() };
    let mut buffer = None;
    // SAFETY: the description is plain data that outlives the call.
    unsafe { device.CreateBuffer(&raw const desc, None, Some(&raw mut buffer)) }?;
    Ok(buffer.expect("a buffer"))
}

#[test]
fn a_context_begins_when_it_is_flushed() {
    let (device, _) = Device11::new(Behavior11::default());
    // SAFETY: the device is live.
    let context = unsafe { device.GetImmediateContext() }.expect("a context");
    let buffer = buffer11(&device, D3D11_USAGE_DEFAULT, SHARED).expect("a buffer");
    let shared: IDXGIResource1 = buffer.cast().expect("an interface");
    let access = DXGI_SHARED_RESOURCE_READ.0 | DXGI_SHARED_RESOURCE_WRITE.0;
    // SAFETY: the resource is live; the handle is a new one.
    let view = unsafe {
        let handle = shared.CreateSharedHandle(None, access, PCWSTR::null()).expect("a handle");
        let view = View::new(handle, SIZE as usize).expect("memory");
        CloseHandle(handle).expect("open");
        view
    };
    let data = [0x5a_u8; SIZE as usize];
    // SAFETY: the buffer is as large as the data.
    unsafe { context.UpdateSubresource(&buffer, 0, None, data.as_ptr().cast(), 0, 0) };
    std::thread::sleep(Duration::from_millis(50));
    assert!(view.read().iter().all(|byte| *byte == 0), "the context starts without a flush");
    // SAFETY: the context is live.
    unsafe { context.Flush() };
    for _ in 0..1000 {
        if view.read() == data {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(view.read(), data, "the context does not start at a flush");
}

#[test]
fn what_the_host_maps_is_not_shared() {
    let (device, _) = Device11::new(Behavior11::default());
    let by_mutex = D3D11_RESOURCE_MISC_SHARED_KEYEDMUTEX.0.cast_unsigned();
    let by_number = D3D11_RESOURCE_MISC_SHARED.0.cast_unsigned();
    for misc in [by_number, by_mutex, SHARED, by_mutex | SHARED] {
        let refused = buffer11(&device, D3D11_USAGE_STAGING, misc).expect_err("both");
        assert_eq!(refused.code(), E_INVALIDARG, "{misc:#x}");
    }
    let buffer = buffer11(&device, D3D11_USAGE_STAGING, 0).expect("a buffer");
    // SAFETY: the buffer is live.
    assert_eq!(unsafe { buffer.GetType() }, D3D11_RESOURCE_DIMENSION_BUFFER);
}

fn resource12(device: &ID3D12Device, memory: D3D12_HEAP_TYPE, texture: bool) -> ID3D12Resource {
    let memory = D3D12_HEAP_PROPERTIES { Type: memory, ..D3D12_HEAP_PROPERTIES::default() };
    let buffer = buffer_desc(SIZE.into());
    let desc = D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: 64,
        Height: 17,
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
        ..buffer
    };
    let (flags, desc) = if texture { (D3D12_HEAP_FLAG_NONE, desc) } else { (D3D12_HEAP_FLAG_SHARED, buffer) };
    let mut resource = None;
    // SAFETY: the descriptions are plain data that outlives the call.
    unsafe {
        let (memory, desc) = (&raw const memory, &raw const desc);
        device.CreateCommittedResource(memory, flags, desc, D3D12_RESOURCE_STATE_COMMON, None, &raw mut resource)
    }
    .expect("created");
    resource.expect("a resource")
}

/// The name belongs to the first handle; a later section of this name may be another one.
#[test]
fn what_is_named_is_shared_once() {
    let (device, _) = Device12::new(Behavior12::default());
    let buffer = resource12(&device, D3D12_HEAP_TYPE_DEFAULT, false);
    let name = HSTRING::from(format!("gpu-interop-sim-d3d-{}", std::process::id()));
    let share = |name: PCWSTR| -> windows::core::Result<HANDLE> {
        // SAFETY: the resource is live, and the name ends with NUL.
        unsafe { device.CreateSharedHandle(&buffer, None, GENERIC_ALL.0, name) }
    };
    let handle = share(PCWSTR(name.as_ptr())).expect("a free name");
    // SAFETY: a new handle, closed once.
    unsafe { CloseHandle(handle) }.expect("open");
    for again in [PCWSTR::null(), PCWSTR(name.as_ptr())] {
        assert_eq!(share(again).expect_err("shared already").code(), E_NOTIMPL);
    }
}

/// Records a copy of 17 rows of 256 bytes to a buffer of 4096.
fn copy_behind_the_end() {
    let (device, _) = Device12::new(Behavior12::default());
    let buffer = resource12(&device, D3D12_HEAP_TYPE_DEFAULT, false);
    let texture = resource12(&device, D3D12_HEAP_TYPE_DEFAULT, true);
    let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        Width: 64,
        Height: 17,
        Depth: 1,
        RowPitch: 256,
    };
    let source = D3D12_TEXTURE_COPY_LOCATION {
        pResource: ManuallyDrop::new(Some(texture)),
        Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: 0 },
    };
    let target = D3D12_TEXTURE_COPY_LOCATION {
        pResource: ManuallyDrop::new(Some(buffer)),
        Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
            PlacedFootprint: D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: 0, Footprint: footprint },
        },
    };
    // SAFETY: all are live and of one device; the buffer is too short on purpose.
    unsafe {
        let allocator: ID3D12CommandAllocator =
            device.CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_DIRECT).expect("an allocator");
        let list: ID3D12GraphicsCommandList =
            device.CreateCommandList(0, D3D12_COMMAND_LIST_TYPE_DIRECT, &allocator, None).expect("a list");
        list.CopyTextureRegion(&raw const target, 0, 0, 0, &raw const source, None);
    }
}

/// Reported at the recording, where the caller is visible.
#[test]
fn a_copy_behind_a_buffers_end_ends_the_process() {
    const CHILD: &str = "GPU_INTEROP_SIM_D3D_TEST_COPY";
    if std::env::var_os(CHILD).is_some() {
        return copy_behind_the_end();
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "a_copy_behind_a_buffers_end_ends_the_process", "--nocapture"]).env(CHILD, "1");
    let output = child.output().expect("a process");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("of a resource of 4096 bytes"), "{output:?}");
}
