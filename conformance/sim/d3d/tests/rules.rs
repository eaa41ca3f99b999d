//! Direct3D's rules in the simulators: contexts, resource states, lifetimes and views.

#![cfg(windows)]
#![allow(clippy::expect_used)]

use std::mem::ManuallyDrop;
use std::process::Command;
use std::time::Duration;

use gpu_interop_sim_d3d::os::View;
use gpu_interop_sim_d3d::{Behavior11, Behavior12, Device11, Device12, E_NOTIMPL};
use windows::Win32::Foundation::{CloseHandle, E_INVALIDARG, GENERIC_ALL, HANDLE};
use windows::Win32::Graphics::Direct3D11::*;
use windows::Win32::Graphics::Direct3D12::{
    D3D12_RESOURCE_DESC, D3D12_RESOURCE_DIMENSION_BUFFER, D3D12_TEXTURE_LAYOUT_ROW_MAJOR, *,
};
use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_SAMPLE_DESC};
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

const COMMON: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COMMON;
const SOURCE: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COPY_SOURCE;
const DEST: D3D12_RESOURCE_STATES = D3D12_RESOURCE_STATE_COPY_DEST;
/// Of the texture, whose rows are as long as the pitch of copies.
const TEXTURE_BYTES: usize = 64 * 16 * 4;

/// A device with a queue.
struct Gpu {
    device: ID3D12Device,
    queue: ID3D12CommandQueue,
}

impl Gpu {
    fn new() -> Self {
        let (device, _) = Device12::new(Behavior12::default());
        // SAFETY: the description is plain data that outlives the call.
        let queue = unsafe { device.CreateCommandQueue(&D3D12_COMMAND_QUEUE_DESC::default()) }.expect("a queue");
        Self { device, queue }
    }

    fn resource(&self, flags: D3D12_HEAP_FLAGS, desc: &D3D12_RESOURCE_DESC, mapped: bool) -> ID3D12Resource {
        let kind = if mapped { D3D12_HEAP_TYPE_CUSTOM } else { D3D12_HEAP_TYPE_DEFAULT };
        let page = if mapped { D3D12_CPU_PAGE_PROPERTY_WRITE_BACK } else { D3D12_CPU_PAGE_PROPERTY_UNKNOWN };
        let memory = D3D12_HEAP_PROPERTIES { Type: kind, CPUPageProperty: page, ..D3D12_HEAP_PROPERTIES::default() };
        let mut resource = None;
        // SAFETY: the descriptions are plain data that outlives the call.
        unsafe { self.device.CreateCommittedResource(&raw const memory, flags, desc, COMMON, None, &raw mut resource) }
            .expect("created");
        resource.expect("a resource")
    }

    fn texture(&self) -> ID3D12Resource {
        let desc = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
            Width: 64,
            Height: 16,
            Format: DXGI_FORMAT_R8G8B8A8_UNORM,
            Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
            ..buffer_desc(TEXTURE_BYTES as u64)
        };
        self.resource(D3D12_HEAP_FLAG_SHARED, &desc, false)
    }

    /// A mapped buffer with the same byte everywhere.
    fn upload(&self, byte: u8) -> ID3D12Resource {
        let buffer = self.resource(D3D12_HEAP_FLAG_NONE, &buffer_desc(TEXTURE_BYTES as u64), true);
        let mut address = std::ptr::null_mut();
        // SAFETY: the buffer is mapped memory of this size.
        unsafe {
            buffer.Map(0, None, Some(&raw mut address)).expect("mapped");
            address.cast::<u8>().write_bytes(byte, TEXTURE_BYTES);
        }
        buffer
    }

    /// Executes a list, and waits for it if `finish`. The list is returned.
    fn execute(&self, finish: bool, record: impl FnOnce(&ID3D12GraphicsCommandList)) -> ID3D12GraphicsCommandList {
        // SAFETY: all are live and of one device; the list is closed.
        unsafe {
            let allocator: ID3D12CommandAllocator =
                self.device.CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_DIRECT).expect("an allocator");
            let list: ID3D12GraphicsCommandList =
                self.device.CreateCommandList(0, D3D12_COMMAND_LIST_TYPE_DIRECT, &allocator, None).expect("a list");
            record(&list);
            list.Close().expect("closed");
            self.queue.ExecuteCommandLists(&[Some(list.cast().expect("a list"))]);
            if finish {
                self.finish();
            }
            list
        }
    }

    fn finish(&self) {
        // SAFETY: both are live and of one device.
        unsafe {
            let fence: ID3D12Fence = self.device.CreateFence(0, D3D12_FENCE_FLAG_NONE).expect("a fence");
            self.queue.Signal(&fence, 1).expect("signalled");
            while fence.GetCompletedValue() < 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn transition(
    list: &ID3D12GraphicsCommandList,
    resource: &ID3D12Resource,
    before: D3D12_RESOURCE_STATES,
    after: D3D12_RESOURCE_STATES,
) {
    let transition = D3D12_RESOURCE_TRANSITION_BARRIER {
        pResource: ManuallyDrop::new(Some(resource.clone())),
        Subresource: D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
        StateBefore: before,
        StateAfter: after,
    };
    let mut barrier = D3D12_RESOURCE_BARRIER {
        Type: D3D12_RESOURCE_BARRIER_TYPE_TRANSITION,
        Anonymous: D3D12_RESOURCE_BARRIER_0 { Transition: ManuallyDrop::new(transition) },
        ..D3D12_RESOURCE_BARRIER::default()
    };
    // SAFETY: the resource is live; the reference is released once.
    unsafe {
        list.ResourceBarrier(std::slice::from_ref(&barrier));
        ManuallyDrop::drop(&mut (*barrier.Anonymous.Transition).pResource);
    }
}

/// Copies a buffer to the texture.
fn fill(list: &ID3D12GraphicsCommandList, texture: &ID3D12Resource, buffer: &ID3D12Resource) {
    let footprint = D3D12_SUBRESOURCE_FOOTPRINT {
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        Width: 64,
        Height: 16,
        Depth: 1,
        RowPitch: 256,
    };
    let mut target = D3D12_TEXTURE_COPY_LOCATION {
        pResource: ManuallyDrop::new(Some(texture.clone())),
        Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 { SubresourceIndex: 0 },
    };
    let mut source = D3D12_TEXTURE_COPY_LOCATION {
        pResource: ManuallyDrop::new(Some(buffer.clone())),
        Type: D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0 {
            PlacedFootprint: D3D12_PLACED_SUBRESOURCE_FOOTPRINT { Offset: 0, Footprint: footprint },
        },
    };
    // SAFETY: both are live and of one device; the references are released once.
    unsafe {
        list.CopyTextureRegion(&raw const target, 0, 0, 0, &raw const source, None);
        ManuallyDrop::drop(&mut target.pResource);
        ManuallyDrop::drop(&mut source.pResource);
    }
}

/// The memory that others see.
fn shared(gpu: &Gpu, resource: &ID3D12Resource) -> View {
    // SAFETY: the resource is live; the handle is a new one, closed once.
    unsafe {
        let handle = gpu.device.CreateSharedHandle(resource, None, GENERIC_ALL.0, PCWSTR::null()).expect("a handle");
        let view = View::new(handle, TEXTURE_BYTES).expect("memory");
        CloseHandle(handle).expect("open");
        view
    }
}

#[test]
fn others_see_a_texture_in_the_common_state_only() {
    let gpu = Gpu::new();
    let texture = gpu.texture();
    let memory = shared(&gpu, &texture);
    let [first, second] = [1, 2].map(|byte| gpu.upload(byte));
    // Use makes it a target of copies, which it stays.
    gpu.execute(true, |list| fill(list, &texture, &first));
    assert!(memory.read().iter().all(|byte| *byte == 0), "without a transition");
    gpu.execute(true, |list| transition(list, &texture, DEST, COMMON));
    assert!(memory.read().iter().all(|byte| *byte == 1));
    gpu.execute(true, |list| {
        transition(list, &texture, COMMON, DEST);
        fill(list, &texture, &second);
    });
    memory.write(3);
    // What others wrote in between is lost.
    gpu.execute(true, |list| transition(list, &texture, DEST, COMMON));
    assert!(memory.read().iter().all(|byte| *byte == 2));
    // Reading changes nothing.
    gpu.execute(true, |list| transition(list, &texture, COMMON, SOURCE));
    memory.write(4);
    gpu.execute(true, |list| transition(list, &texture, SOURCE, COMMON));
    assert!(memory.read().iter().all(|byte| *byte == 4));
}

#[test]
fn buffers_return_to_the_common_state() {
    let gpu = Gpu::new();
    let buffer = gpu.resource(D3D12_HEAP_FLAG_SHARED, &buffer_desc(TEXTURE_BYTES as u64), false);
    let memory = shared(&gpu, &buffer);
    let source = gpu.upload(5);
    for _ in 0..2 {
        // SAFETY: both are live, and as large.
        gpu.execute(true, |list| unsafe { list.CopyBufferRegion(&buffer, 0, &source, 0, TEXTURE_BYTES as u64) });
        gpu.execute(true, |list| transition(list, &buffer, COMMON, SOURCE));
    }
    assert!(memory.read().iter().all(|byte| *byte == 5));
}

/// A name, a violation, and words of the message before the process ends.
type Violation = (&'static str, fn(&Gpu), &'static str);

const VIOLATIONS: [Violation; 6] = [
    (
        "before",
        |gpu| {
            let texture = gpu.texture();
            gpu.execute(true, |list| transition(list, &texture, D3D12_RESOURCE_STATE_RENDER_TARGET, SOURCE));
        },
        "a transition from",
    ),
    (
        "flags",
        |gpu| {
            let texture = gpu.texture();
            gpu.execute(true, |list| transition(list, &texture, COMMON, D3D12_RESOURCE_STATE_RENDER_TARGET));
        },
        "of a resource with",
    ),
    (
        "copy",
        |gpu| {
            let (texture, buffer) = (gpu.texture(), gpu.upload(1));
            gpu.execute(true, |list| {
                transition(list, &texture, COMMON, SOURCE);
                fill(list, &texture, &buffer);
            });
        },
        "a command that needs",
    ),
    (
        "released",
        |gpu| {
            let (texture, buffer) = (gpu.texture(), gpu.upload(1));
            // SAFETY: both are live and of one device. The fence is never signalled.
            unsafe {
                let fence: ID3D12Fence = gpu.device.CreateFence(0, D3D12_FENCE_FLAG_NONE).expect("a fence");
                gpu.queue.Wait(&fence, 1).expect("waits");
            }
            let _list = gpu.execute(false, |list| fill(list, &texture, &buffer));
            drop(texture);
        },
        "is released while",
    ),
    (
        "constants",
        |gpu| {
            let desc = D3D12_RESOURCE_DESC { Width: 260, ..buffer_desc(TEXTURE_BYTES as u64) };
            let buffer = gpu.resource(D3D12_HEAP_FLAG_NONE, &desc, false);
            // SAFETY: the buffer is live. The view is too long on purpose.
            unsafe {
                let view =
                    D3D12_CONSTANT_BUFFER_VIEW_DESC { BufferLocation: buffer.GetGPUVirtualAddress(), SizeInBytes: 512 };
                gpu.device.CreateConstantBufferView(Some(&raw const view), D3D12_CPU_DESCRIPTOR_HANDLE::default());
            }
        },
        "exceeds its buffer",
    ),
    (
        "view",
        |gpu| {
            let texture = gpu.texture();
            let view = D3D12_RENDER_TARGET_VIEW_DESC {
                Format: DXGI_FORMAT_R8G8B8A8_UNORM,
                ViewDimension: D3D12_RTV_DIMENSION_TEXTURE2D,
                ..D3D12_RENDER_TARGET_VIEW_DESC::default()
            };
            // SAFETY: the texture is live. It has another usage on purpose.
            unsafe {
                let place = D3D12_CPU_DESCRIPTOR_HANDLE::default();
                gpu.device.CreateRenderTargetView(&texture, Some(&raw const view), place);
            }
        },
        "a view that needs",
    ),
];

#[test]
fn violations_end_the_process() {
    const CHILD: &str = "GPU_INTEROP_SIM_D3D_TEST_VIOLATION";
    if let Ok(name) = std::env::var(CHILD) {
        let (_, violate, _) = VIOLATIONS.into_iter().find(|(own, ..)| *own == name).expect("a violation");
        return violate(&Gpu::new());
    }
    for (name, _, message) in VIOLATIONS {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "violations_end_the_process", "--nocapture"]).env(CHILD, name);
        let output = child.output().expect("a process");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(message), "{name}: {output:?}");
    }
}

/// A buffer of `size` bytes.
pub(crate) fn buffer_desc(size: u64) -> D3D12_RESOURCE_DESC {
    D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
        Width: size,
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        ..D3D12_RESOURCE_DESC::default()
    }
}
