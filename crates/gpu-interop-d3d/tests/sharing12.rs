//! Calls to Direct3D 12, and ownership of the returned handles. The device is a simulator.
#![cfg(windows)]
#![allow(clippy::expect_used)]

mod simulated;

use gpu_interop_core::handle::{ObjectName, Win32Object};
use gpu_interop_core::{
    ArrayShape, ArrayUsage, DeviceIdentity, ErrorKind, Luid, MemoryHandle, MemoryHandleKind, SemaphoreHandle,
};
use gpu_interop_d3d::d3d12::{
    D3d12Interop, ExportableFence, ExportableHeap, ExportableResource, HeapContents, HeapOptions,
};
use gpu_interop_d3d::{DxgiFormat, ResourceFlags, SrvDimension, TextureSpec};
use simulated::os;
use simulated::{Behavior12, Device12, LUID_BYTES};
use windows::Win32::Graphics::Direct3D12::{
    D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS, D3D12_HEAP_FLAG_ALLOW_ONLY_NON_RT_DS_TEXTURES,
    D3D12_HEAP_FLAG_ALLOW_ONLY_RT_DS_TEXTURES, D3D12_HEAP_FLAG_SHARED, D3D12_HEAP_TYPE_DEFAULT,
    D3D12_RESOURCE_DIMENSION_BUFFER, D3D12_RESOURCE_DIMENSION_TEXTURE1D, D3D12_RESOURCE_DIMENSION_TEXTURE2D,
    D3D12_RESOURCE_DIMENSION_TEXTURE3D, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET, D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
    D3D12_TEXTURE_LAYOUT_UNKNOWN,
};
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT_R8G8B8A8_UNORM;

const PAGE: u64 = 64 << 10;

fn compute(node_mask: u32) -> DeviceIdentity {
    DeviceIdentity::default().with_luid(Some(Luid { bytes: LUID_BYTES, node_mask }))
}

fn interop(behavior: Behavior12) -> (D3d12Interop, std::sync::Arc<Device12>) {
    let (device, state) = Device12::new(behavior);
    (D3d12Interop::new(&device).expect("one node"), state)
}

fn texture(dimension: SrvDimension, extent: (u64, u32, u16)) -> TextureSpec {
    TextureSpec::new(dimension, extent, DxgiFormat::R8G8B8A8_UNORM)
}

#[test]
fn a_device_is_known_by_luid_and_node() {
    let (interop, _) = interop(Behavior12::default());
    assert_eq!(interop.identity().luid, compute(1).luid);
    let (device, _) = Device12::new(Behavior12::default());
    D3d12Interop::for_importer(&device, &compute(1)).expect("the same device");
    let other = DeviceIdentity::default().with_luid(Some(Luid { bytes: [7; 8], node_mask: 1 }));
    let error = D3d12Interop::for_importer(&device, &other).expect_err("another device");
    assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
    assert_eq!(error.mismatch().expect("both").exporter.luid, compute(1).luid);
}

#[test]
fn linked_adapters_are_refused_unless_the_importer_names_a_node() {
    let (device, state) = Device12::new(Behavior12 { nodes: 2, ..Behavior12::default() });
    let error = D3d12Interop::new(&device).expect_err("two nodes");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("linked"), "{error}");
    for importer in [DeviceIdentity::default(), compute(0), compute(3), compute(4)] {
        let error = D3d12Interop::for_importer(&device, &importer).expect_err("no node named");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{importer}");
    }
    let second = D3d12Interop::for_importer(&device, &compute(2)).expect("the second node");
    assert_eq!((second.node_mask(), second.identity().luid), (2, compute(2).luid));
    // Its memory is on that node.
    ExportableResource::buffer(&second, 16, ResourceFlags::empty()).expect("a buffer");
    let (memory, ..) = state.committed.lock().expect("no panic")[0];
    assert_eq!((memory.CreationNodeMask, memory.VisibleNodeMask), (2, 2));
}

#[test]
fn a_committed_buffer_is_shared_dedicated_and_as_large_as_its_allocation() {
    let (interop, state) = interop(Behavior12::default());
    let buffer = ExportableResource::buffer(&interop, 1000, ResourceFlags::ALLOW_UNORDERED_ACCESS).expect("a buffer");
    let (memory, flags, desc) = state.committed.lock().expect("no panic")[0];
    assert_eq!((memory.Type, flags), (D3D12_HEAP_TYPE_DEFAULT, D3D12_HEAP_FLAG_SHARED));
    assert_eq!((desc.Dimension, desc.Width, desc.Height), (D3D12_RESOURCE_DIMENSION_BUFFER, 1000, 1));
    assert_eq!((desc.Layout, desc.SampleDesc.Count, desc.MipLevels), (D3D12_TEXTURE_LAYOUT_ROW_MAJOR, 1, 1));
    assert_eq!(desc.Flags.0, 4);
    assert_eq!(buffer.size(), PAGE);
    assert_eq!(buffer.array_desc().expect_err("no array").kind(), ErrorKind::InvalidArgument);

    let request = buffer.import_request().expect("a request");
    assert_eq!(request.handle().kind(), MemoryHandleKind::D3d12Resource);
    assert_eq!((request.size(), request.is_dedicated(), request.image()), (PAGE, true, None));
    request.validate("op", &compute(1)).expect("a request for the same device");
    let mismatch = request.validate("op", &compute(2)).expect_err("a request for another");
    assert_eq!(mismatch.kind(), ErrorKind::DeviceMismatch);
    // A real handle, to memory.
    let view = os::view(os::raw_of_memory(request.handle()), 4096);
    view.write(0x5a);
    assert_eq!(view.read(), [0x5a; 4096]);
}

#[test]
fn textures_are_described_as_they_are() {
    let (interop, state) = interop(Behavior12::default());
    let cases = [
        (texture(SrvDimension::TEXTURE1D, (16, 1, 1)), D3D12_RESOURCE_DIMENSION_TEXTURE1D),
        (texture(SrvDimension::TEXTURE1DARRAY, (16, 1, 4)), D3D12_RESOURCE_DIMENSION_TEXTURE1D),
        (texture(SrvDimension::TEXTURE2D, (16, 8, 1)).levels(3), D3D12_RESOURCE_DIMENSION_TEXTURE2D),
        (texture(SrvDimension::TEXTURE2DARRAY, (16, 8, 4)), D3D12_RESOURCE_DIMENSION_TEXTURE2D),
        (texture(SrvDimension::TEXTURE3D, (16, 8, 4)), D3D12_RESOURCE_DIMENSION_TEXTURE3D),
        (texture(SrvDimension::TEXTURECUBE, (16, 16, 6)), D3D12_RESOURCE_DIMENSION_TEXTURE2D),
        (texture(SrvDimension::TEXTURECUBEARRAY, (16, 16, 12)), D3D12_RESOURCE_DIMENSION_TEXTURE2D),
    ];
    for (spec, dimension) in cases {
        let resource = ExportableResource::texture(&interop, &spec, ResourceFlags::ALLOW_RENDER_TARGET).expect("one");
        let (_, flags, desc) = *state.committed.lock().expect("no panic").last().expect("a resource");
        assert_eq!((desc.Dimension, flags), (dimension, D3D12_HEAP_FLAG_SHARED), "{spec:?}");
        assert_eq!((desc.Width, desc.Height), (spec.width, spec.height), "{spec:?}");
        assert_eq!((desc.DepthOrArraySize, desc.MipLevels), (spec.depth_or_array_size, spec.levels), "{spec:?}");
        assert_eq!((desc.Format, desc.Layout), (DXGI_FORMAT_R8G8B8A8_UNORM, D3D12_TEXTURE_LAYOUT_UNKNOWN), "{spec:?}");
        assert_eq!(desc.Flags, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET);
        let array = resource.array_desc().expect("an array");
        assert_eq!((array.shape, array.usage), (spec.shape().expect("a shape"), ArrayUsage::COLOR_ATTACHMENT));
        assert_eq!((array.levels, array.offset), (spec.levels.into(), 0));
        array.validate(resource.size()).expect("an array that fits");
        assert_eq!(resource.import_request().expect("a request").image(), Some(&array));
    }
}

#[test]
fn what_cannot_be_shared_is_refused_before_the_device_is_asked() {
    let (interop, state) = interop(Behavior12::default());
    let flat = texture(SrvDimension::TEXTURE2D, (16, 8, 1));
    let make = |spec: &TextureSpec, flags| ExportableResource::texture(&interop, spec, flags).map(drop);
    let depth = TextureSpec::new(SrvDimension::TEXTURE2D, (16, 8, 1), DxgiFormat::D32_FLOAT);
    let cases = [
        (ExportableResource::buffer(&interop, 0, ResourceFlags::empty()).map(drop), ErrorKind::InvalidArgument),
        (
            ExportableResource::buffer(&interop, 16, ResourceFlags::ALLOW_RENDER_TARGET).map(drop),
            ErrorKind::Unsupported,
        ),
        (make(&depth, ResourceFlags::empty()), ErrorKind::Unsupported),
        (make(&flat, ResourceFlags::ALLOW_DEPTH_STENCIL), ErrorKind::Unsupported),
        (make(&flat, ResourceFlags::ALLOW_CROSS_ADAPTER), ErrorKind::Unsupported),
        (make(&flat.levels(9), ResourceFlags::empty()), ErrorKind::InvalidArgument),
        (
            ExportableHeap::new(&interop, &HeapOptions::new(0, HeapContents::Buffers)).map(drop),
            ErrorKind::InvalidArgument,
        ),
        (
            ExportableHeap::new(&interop, &HeapOptions::new(u64::MAX, HeapContents::Buffers)).map(drop),
            ErrorKind::InvalidArgument,
        ),
        (ExportableFence::new(&interop, u64::MAX).map(drop), ErrorKind::InvalidArgument),
        // The simulator rejects this width.
        (make(&texture(SrvDimension::TEXTURE2D, (16_385, 1, 1)), ResourceFlags::empty()), ErrorKind::Unsupported),
    ];
    for (index, (answer, kind)) in cases.into_iter().enumerate() {
        assert_eq!(answer.expect_err("refused").kind(), kind, "{index}");
    }
    assert!(state.committed.lock().expect("no panic").is_empty() && state.heaps.lock().expect("no panic").is_empty());
}

#[test]
fn what_no_device_holds_is_an_error() {
    let (interop, _) = interop(Behavior12::default());
    for size in [u64::MAX, u64::MAX - PAGE] {
        let buffer = ExportableResource::buffer(&interop, size, ResourceFlags::empty()).expect_err("no such size");
        let kinds = [ErrorKind::Unsupported, ErrorKind::Driver, ErrorKind::OutOfMemory];
        assert!(kinds.contains(&buffer.kind()), "{size}: {buffer}");
        let options = HeapOptions::new(size - PAGE, HeapContents::Buffers);
        let heap = ExportableHeap::new(&interop, &options).expect_err("no such size");
        assert!(heap.device().is_some(), "{size}: {heap}");
    }
    let great = (16_384, u32::MAX, u16::MAX);
    let texture = TextureSpec::new(SrvDimension::TEXTURE2DARRAY, great, DxgiFormat::R32G32B32A32_FLOAT);
    let refused = ExportableResource::texture(&interop, &texture, ResourceFlags::empty()).expect_err("too great");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

#[test]
fn heaps_hold_what_they_were_made_for() {
    let (interop, state) = interop(Behavior12::default());
    let heap = |contents| ExportableHeap::new(&interop, &HeapOptions::new(4 * PAGE - 5, contents)).expect("a heap");
    let buffers = heap(HeapContents::Buffers);
    let flags = |flag| D3D12_HEAP_FLAG_SHARED | flag;
    let made = *state.heaps.lock().expect("no panic").last().expect("a heap");
    assert_eq!((made.SizeInBytes, made.Flags), (4 * PAGE, flags(D3D12_HEAP_FLAG_ALLOW_ONLY_BUFFERS)));
    let request = buffers.import_request().expect("a request");
    assert_eq!((request.handle().kind(), request.size()), (MemoryHandleKind::D3d12Heap, 4 * PAGE));
    assert!(!request.is_dedicated(), "a heap is no dedicated allocation");

    let placed = buffers.place_buffer(PAGE, 1000, ResourceFlags::empty()).expect("a buffer");
    assert_eq!((placed.offset(), placed.size().expect("its own")), (PAGE, 1000));
    assert_eq!(state.placed.lock().expect("no panic")[0].0, PAGE);
    let last = buffers.place_buffer(3 * PAGE, 1000, ResourceFlags::empty()).expect("a buffer at the end");
    assert_eq!(last.heap().size(), 4 * PAGE);
    let refused = [
        buffers.place_buffer(PAGE + 256, 1000, ResourceFlags::empty()).expect_err("not aligned"),
        buffers.place_buffer(4 * PAGE, 1000, ResourceFlags::empty()).expect_err("behind the heap"),
        buffers.place_buffer(3 * PAGE, 2 * PAGE, ResourceFlags::empty()).expect_err("ends behind the heap"),
        buffers.place_buffer(0_u64.wrapping_sub(PAGE), 1000, ResourceFlags::empty()).expect_err("wraps around"),
        buffers
            .place_texture(0, &texture(SrvDimension::TEXTURE2D, (16, 8, 1)), ResourceFlags::empty())
            .expect_err("no textures"),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.operation().starts_with("ExportableHeap::place_"), "{error}");
    }

    let flat = texture(SrvDimension::TEXTURE2DARRAY, (16, 8, 2));
    for (contents, flag, good, bad) in [
        (
            HeapContents::Textures,
            D3D12_HEAP_FLAG_ALLOW_ONLY_NON_RT_DS_TEXTURES,
            ResourceFlags::ALLOW_UNORDERED_ACCESS,
            ResourceFlags::ALLOW_RENDER_TARGET,
        ),
        (
            HeapContents::RenderTargets,
            D3D12_HEAP_FLAG_ALLOW_ONLY_RT_DS_TEXTURES,
            ResourceFlags::ALLOW_RENDER_TARGET,
            ResourceFlags::empty(),
        ),
    ] {
        let heap = heap(contents);
        assert_eq!(state.heaps.lock().expect("no panic").last().expect("a heap").Flags, flags(flag));
        let placed = heap.place_texture(2 * PAGE, &flat, good).expect("a texture");
        let desc = placed.array_desc().expect("an array");
        assert_eq!((desc.offset, desc.shape), (2 * PAGE, ArrayShape::D2Layered { width: 16, height: 8, layers: 2 }));
        desc.validate(heap.size()).expect("an array that fits");
        assert_eq!(heap.place_texture(0, &flat, bad).expect_err("the other sort").kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn heaps_of_everything_need_a_device_that_has_them() {
    let options = HeapOptions::new(PAGE, HeapContents::Any);
    let (first, _) = interop(Behavior12 { heap_tier: 1, ..Behavior12::default() });
    assert_eq!(ExportableHeap::new(&first, &options).expect_err("tier 1").kind(), ErrorKind::Unsupported);
    let (second, state) = interop(Behavior12::default());
    let heap = ExportableHeap::new(&second, &options).expect("tier 2");
    assert_eq!(state.heaps.lock().expect("no panic")[0].Flags, D3D12_HEAP_FLAG_SHARED);
    heap.place_buffer(0, 16, ResourceFlags::empty()).expect("a buffer");
    let flat = texture(SrvDimension::TEXTURE2D, (16, 8, 1));
    heap.place_texture(0, &flat, ResourceFlags::ALLOW_RENDER_TARGET).expect("a texture in its place");
}

#[test]
fn names_work_until_the_handle_is_closed() {
    let (interop, _) = interop(Behavior12::default());
    let buffer = ExportableResource::buffer(&interop, 4096, ResourceFlags::empty()).expect("a buffer");
    let name = ObjectName::new(&format!("gpu-interop-d3d-{}", std::process::id())).expect("a name");
    let (handle, request) = buffer.import_request_by_name(&name).expect("a name that is free");
    assert!(matches!(request.handle(), MemoryHandle::D3d12Resource(Win32Object::Name(found)) if *found == name));
    assert!(request.is_dedicated() && request.size() == buffer.size());
    os::view(os::raw(&handle), 4096).write(7);

    let found = interop.open_by_name(&name).expect("the object");
    assert_eq!(os::view(os::raw(&found), 4096).read(), [7; 4096]);
    let error = buffer.import_request_by_name(&name).expect_err("the name is taken");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("taken") && error.to_string().contains("gpu-interop-d3d-"), "{error}");
    drop((handle, found));
    interop.open_by_name(&name).expect("the request keeps it");
    drop(request);
    assert_eq!(interop.open_by_name(&name).expect_err("no handle keeps it").kind(), ErrorKind::InvalidArgument);

    let fence = ExportableFence::new(&interop, 0).expect("a fence");
    let (handle, request) = fence.import_request_by_name(&name).expect("free again");
    assert!(matches!(request.handle(), SemaphoreHandle::D3d12Fence(Win32Object::Name(_))));
    drop((handle, request));
    let long = ObjectName::new(&"long".repeat(66)).expect("a name");
    let answers = [buffer.import_request_by_name(&long).map(drop), interop.open_by_name(&long).map(drop)];
    for answer in answers {
        let error = answer.expect_err("too long");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidArgument, None));
        assert!(error.device().is_some() && error.to_string().contains(&format!("{long:?}")), "{error}");
    }
    let heap = ExportableHeap::new(&interop, &HeapOptions::new(1, HeapContents::Buffers)).expect("a heap");
    let (_handle, request) = heap.import_request_by_name(&name).expect("free again");
    assert!(matches!(request.handle(), MemoryHandle::D3d12Heap(Win32Object::Name(_))) && !request.is_dedicated());
}
