//! Calls to Direct3D 11, and exports of its resources. The device is a simulator.
#![cfg(windows)]
#![allow(clippy::expect_used)]

mod simulated;

use std::sync::Arc;

use gpu_interop_core::handle::{ObjectName, Win32Object};
use gpu_interop_core::{
    ArrayUsage, DeviceIdentity, DeviceKind, ErrorKind, Luid, MemoryHandle, SemaphoreHandle, SemaphoreHandleKind,
};
use gpu_interop_d3d::d3d11::{D3d11Interop, ExportableFence, ExportableResource};
use gpu_interop_d3d::{BindFlags, DxgiFormat, MiscFlags, Sharing, SrvDimension, TextureSpec};
use simulated::os;
use simulated::{Behavior11, Device11, LUID_BYTES};
use windows::Win32::Graphics::Direct3D11::{
    D3D11_CREATE_DEVICE_BGRA_SUPPORT, D3D11_CREATE_DEVICE_SINGLETHREADED, D3D11_FENCE_FLAG_SHARED,
};
use windows::core::{HRESULT, PCWSTR};

fn interop() -> (D3d11Interop, Arc<Device11>) {
    let (device, state) = Device11::new(Behavior11::default());
    (D3d11Interop::new(&device).expect("a device"), state)
}

fn texture(dimension: SrvDimension, extent: (u64, u32, u16)) -> TextureSpec {
    TextureSpec::new(dimension, extent, DxgiFormat::B8G8R8A8_UNORM)
}

fn misc(flags: u32) -> MiscFlags {
    MiscFlags::from_bits_retain(flags)
}

#[test]
fn a_device_is_known_by_its_adapter() {
    let (interop, _) = interop();
    let identity = interop.identity();
    assert_eq!(identity.luid, Some(Luid { bytes: LUID_BYTES, node_mask: 1 }));
    assert_eq!((identity.name.as_str(), identity.kind), ("simulator", DeviceKind::Gpu));
    let second = DeviceIdentity::default().with_luid(Some(Luid { bytes: LUID_BYTES, node_mask: 2 }));
    D3d11Interop::for_importer(interop.device(), identity).expect("the same");
    let error = D3d11Interop::for_importer(interop.device(), &second).expect_err("another node");
    assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
}

#[test]
fn a_device_of_one_thread_is_rejected() {
    let open = |flags| D3d11Interop::new(&Device11::new(Behavior11 { flags, ..Behavior11::default() }).0);
    let bgra = D3D11_CREATE_DEVICE_BGRA_SUPPORT.0;
    open(bgra).expect("any thread may use it");
    let error = open(bgra | D3D11_CREATE_DEVICE_SINGLETHREADED.0).expect_err("one thread may use it");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("without D3D11_CREATE_DEVICE_SINGLETHREADED"), "{error}");
}

#[test]
fn buffers_are_shared_as_asked() {
    let (interop, state) = interop();
    for sharing in Sharing::ALL {
        let bind = BindFlags::VERTEX_BUFFER | BindFlags::UNORDERED_ACCESS;
        let buffer = ExportableResource::buffer(&interop, 1000, bind, sharing).expect("a buffer");
        let desc = *state.buffers.lock().expect("no panic").last().expect("a description");
        assert_eq!((desc.ByteWidth, desc.BindFlags, desc.CPUAccessFlags), (1000, 0x81, 0));
        assert_eq!(misc(desc.MiscFlags), sharing.misc_flags());
        let request = buffer.import_request().expect("a request");
        assert_eq!(request.handle().kind(), sharing.memory_handle_kind());
        assert!(request.is_dedicated() && request.size() == 1000, "{sharing:?}");
        assert_eq!(request.image(), None);
        request.validate("op", interop.identity()).expect("a request that devices take");
        match request.handle() {
            MemoryHandle::D3d11ResourceKmt(handle) => {
                let name = format!("Local\\gpu-interop-sim-kmt-{:x}\0", handle.as_raw());
                let name: Vec<u16> = name.encode_utf16().collect();
                os::open_section(PCWSTR(name.as_ptr())).expect("the memory that has the number");
            }
            handle => {
                let view = os::view(os::raw_of_memory(handle), 4096);
                view.write(3);
                assert_eq!(view.read(), [3; 4096]);
            }
        }
        assert_eq!(buffer.array_desc().expect_err("no array").kind(), ErrorKind::InvalidArgument);
    }
    for size in [0, 1 << 32, u64::MAX] {
        let refused = ExportableResource::buffer(&interop, size, BindFlags::empty(), Sharing::NtHandle);
        let error = refused.expect_err("no such size");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "ExportableResource::buffer"));
    }
    assert_eq!(state.buffers.lock().expect("no panic").len(), Sharing::ALL.len());
}

#[test]
fn textures_are_described_as_they_are() {
    let (interop, state) = interop();
    let make = |spec: TextureSpec| {
        let bind = BindFlags::SHADER_RESOURCE | BindFlags::RENDER_TARGET;
        let resource = ExportableResource::texture(&interop, &spec, bind, Sharing::NtHandleKeyedMutex).expect("one");
        let array = resource.array_desc().expect("an array");
        assert_eq!((array.shape, array.usage), (spec.shape().expect("a shape"), ArrayUsage::COLOR_ATTACHMENT));
        assert_eq!((array.levels, array.offset), (spec.levels.into(), 0));
        array.validate(resource.size()).expect("an array that fits");
        assert_eq!(resource.import_request().expect("a request").image(), Some(&array));
    };
    make(texture(SrvDimension::TEXTURE1DARRAY, (16, 1, 3)));
    let desc = state.textures1d.lock().expect("no panic")[0];
    assert_eq!((desc.Width, desc.ArraySize, desc.MipLevels, desc.BindFlags), (16, 3, 1, 0x28));
    assert_eq!((desc.MiscFlags, desc.Format.0), (0x900, 87));

    make(texture(SrvDimension::TEXTURE2D, (16, 8, 1)).levels(2));
    make(texture(SrvDimension::TEXTURECUBEARRAY, (16, 16, 12)));
    let descs = state.textures2d.lock().expect("no panic").clone();
    let flat = (descs[0].Width, descs[0].Height, descs[0].ArraySize, descs[0].MipLevels);
    assert_eq!((flat, descs[0].MiscFlags, descs[0].SampleDesc.Count), ((16, 8, 1, 2), 0x900, 1));
    assert_eq!((descs[1].ArraySize, descs[1].MiscFlags), (12, 0x904));

    make(texture(SrvDimension::TEXTURE3D, (16, 8, 4)).levels(5));
    let desc = state.textures3d.lock().expect("no panic")[0];
    assert_eq!((desc.Width, desc.Height, desc.Depth, desc.MipLevels, desc.MiscFlags), (16, 8, 4, 5, 0x900));
}

#[test]
fn what_cannot_be_shared_is_refused_before_the_device_is_asked() {
    let (interop, state) = interop();
    let flat = texture(SrvDimension::TEXTURE2D, (16, 8, 1));
    let make = |spec: TextureSpec, bind| {
        ExportableResource::texture(&interop, &spec, bind, Sharing::NtHandle).expect_err("refused").kind()
    };
    assert_eq!(make(flat, BindFlags::DEPTH_STENCIL), ErrorKind::Unsupported);
    assert_eq!(make(flat, BindFlags::DECODER | BindFlags::SHADER_RESOURCE), ErrorKind::Unsupported);
    assert_eq!(make(flat.levels(0), BindFlags::empty()), ErrorKind::InvalidArgument);
    let wide = texture(SrvDimension::TEXTURE1D, (1 << 32, 1, 1));
    assert_eq!(make(wide, BindFlags::empty()), ErrorKind::InvalidArgument);
    let nv12 = TextureSpec::new(SrvDimension::TEXTURE2D, (16, 8, 1), DxgiFormat::NV12);
    assert_eq!(make(nv12, BindFlags::empty()), ErrorKind::Unsupported);
    assert_eq!(ExportableFence::new(&interop, u64::MAX).expect_err("refused").kind(), ErrorKind::InvalidArgument);
    let plain = ExportableResource::texture(&interop, &flat, BindFlags::empty(), Sharing::Kmt).expect("a texture");
    assert_eq!(plain.keyed_mutex().expect_err("it has none").kind(), ErrorKind::InvalidArgument);
    let name = ObjectName::new("gpu-interop-d3d-kmt").expect("a name");
    assert_eq!(plain.import_request_by_name(&name).expect_err("no name").kind(), ErrorKind::InvalidArgument);
    assert_eq!(state.textures2d.lock().expect("no panic").len(), 1);
    // The packed size fits 64 bits; with a device's padding it does not.
    let great = TextureSpec::new(SrvDimension::TEXTURE2D, (u32::MAX.into(), u32::MAX, 1), DxgiFormat::R8_UNORM);
    let refused = ExportableResource::texture(&interop, &great, BindFlags::empty(), Sharing::NtHandle);
    assert_eq!(refused.expect_err("too great").kind(), ErrorKind::Driver);
}

#[test]
fn a_failure_to_create_names_what_was_asked_for() {
    let code = Some(HRESULT(0x8007_000e_u32.cast_signed()));
    let (device, _) = Device11::new(Behavior11 { create: code, ..Behavior11::default() });
    let interop = D3d11Interop::new(&device).expect("a device");
    let flat = texture(SrvDimension::TEXTURE2D, (16, 8, 1));
    let error = ExportableResource::texture(&interop, &flat, BindFlags::empty(), Sharing::Kmt).expect_err("no memory");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::OutOfMemory, "ID3D11Device::CreateTexture2D"));
    let text = error.to_string();
    for word in ["E_OUTOFMEMORY", "simulator", "DXGI_FORMAT_B8G8R8A8_UNORM", "Kmt"] {
        assert!(text.contains(word), "{text} should say {word}");
    }
}

#[test]
fn fences_and_mutexes_are_exported_as_what_they_are() {
    let (interop, state) = interop();
    let fence = ExportableFence::new(&interop, 5).expect("a fence");
    assert_eq!(state.fence_flags.lock().expect("no panic")[0], D3D11_FENCE_FLAG_SHARED);
    let request = fence.import_request().expect("a request");
    assert_eq!(request.handle().kind(), SemaphoreHandleKind::D3d11Fence);
    assert!(os::is_open(os::raw_of_semaphore(request.handle())));
    assert_eq!(request.exporter(), Some(interop.identity()));

    for sharing in [Sharing::NtHandleKeyedMutex, Sharing::KmtKeyedMutex] {
        let flat = texture(SrvDimension::TEXTURE2D, (16, 8, 1));
        let resource = ExportableResource::texture(&interop, &flat, BindFlags::empty(), sharing).expect("a texture");
        let request = resource.keyed_mutex().expect("a mutex").import_request().expect("a request");
        assert_eq!(Some(request.handle().kind()), sharing.semaphore_handle_kind());
        request.validate("op", interop.identity()).expect("a request that devices take");
    }
    let name = ObjectName::new(&format!("gpu-interop-d3d11-{}", std::process::id())).expect("a name");
    // The simulator assigns names only to resources that it has not shared yet.
    let fence = ExportableFence::new(&interop, 5).expect("a fence");
    let (_handle, request) = fence.import_request_by_name(&name).expect("a free name");
    assert!(matches!(request.handle(), SemaphoreHandle::D3d11Fence(Win32Object::Name(found)) if *found == name));
    let error = fence.import_request_by_name(&name).expect_err("the name is taken");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("gpu-interop-d3d11-"), "{error}");
}

#[test]
fn a_mutex_has_the_name_of_its_resource() {
    let (interop, _) = interop();
    let name = ObjectName::new(&format!("gpu-interop-d3d11-mutex-{}", std::process::id())).expect("a name");
    let make = |sharing| ExportableResource::buffer(&interop, 16, BindFlags::VERTEX_BUFFER, sharing).expect("a buffer");
    let buffer = make(Sharing::NtHandleKeyedMutex);
    let mutex = buffer.keyed_mutex().expect("a mutex");
    let (kept, of_memory) = buffer.import_request_by_name(&name).expect("a free name");
    // SAFETY: the name is of the mutex's resource, and nothing is imported.
    let of_mutex = unsafe { mutex.import_request_by_name(&name) }.expect("the same name");
    assert!(matches!(of_memory.handle(), MemoryHandle::D3d11Resource(Win32Object::Name(found)) if *found == name));
    assert!(matches!(of_mutex.handle(), SemaphoreHandle::D3d11KeyedMutex(Win32Object::Name(found)) if *found == name));
    of_mutex.validate("op", interop.identity()).expect("a request that devices take");
    // No second handle was created, which would keep the name valid.
    interop.open_resource_by_name(&name).expect("the resource");
    drop((kept, of_memory));
    let error = interop.open_resource_by_name(&name).expect_err("no handle keeps it");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    let by_number = make(Sharing::KmtKeyedMutex).keyed_mutex().expect("a mutex");
    // SAFETY: there is no request.
    let error = unsafe { by_number.import_request_by_name(&name) }.expect_err("no name");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "KeyedMutex::import_request_by_name"));
}

#[test]
fn names_that_are_too_long_are_refused_and_told() {
    let (interop, _) = interop();
    let start = format!("gpu-interop-d3d11-long-{}-", std::process::id());
    let name = |length: usize| ObjectName::new(&format!("{start:x<length$}")).expect("a name");
    // Of two code units each.
    let crabs = ObjectName::new(&"\u{1f980}".repeat(131)).expect("a name");
    let sharing = Sharing::NtHandle;
    let buffer = ExportableResource::buffer(&interop, 16, BindFlags::VERTEX_BUFFER, sharing).expect("a buffer");
    let fence = ExportableFence::new(&interop, 5).expect("a fence");
    for name in [name(261), name(8000), crabs] {
        let answers = [
            (buffer.import_request_by_name(&name).map(drop), "IDXGIResource1::CreateSharedHandle"),
            (fence.import_request_by_name(&name).map(drop), "ID3D11Fence::CreateSharedHandle"),
            (interop.open_resource_by_name(&name).map(drop), "ID3D11Device1::OpenSharedResourceByName"),
        ];
        for (answer, operation) in answers {
            let error = answer.expect_err("too long");
            assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, operation));
            assert!(error.code().is_none(), "the driver was asked: {error}");
            assert!(error.device().is_some() && error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }
}

/// An invalid result.
#[test]
fn success_without_a_handle_is_an_error_of_the_driver() {
    let (device, _) = Device11::new(Behavior11 { share: Some(HRESULT(0)), ..Behavior11::default() });
    let interop = D3d11Interop::new(&device).expect("a device");
    for (sharing, operation) in
        [(Sharing::NtHandle, "IDXGIResource1::CreateSharedHandle"), (Sharing::Kmt, "IDXGIResource::GetSharedHandle")]
    {
        let buffer = ExportableResource::buffer(&interop, 16, BindFlags::VERTEX_BUFFER, sharing).expect("a buffer");
        let error = buffer.export().expect_err("no handle");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Driver, operation));
        assert!(error.message().contains("no handle") && error.device().is_some(), "{error}");
    }
}

#[test]
fn resources_are_opened_by_handle_and_by_name() {
    let (interop, _) = interop();
    let name = ObjectName::new(&format!("gpu-interop-d3d11-resource-{}", std::process::id())).expect("a name");
    let sharing = Sharing::NtHandle;
    let buffer = ExportableResource::buffer(&interop, 16, BindFlags::VERTEX_BUFFER, sharing).expect("a buffer");
    let (handle, request) = buffer.import_request_by_name(&name).expect("a free name");
    assert!(matches!(request.handle(), MemoryHandle::D3d11Resource(Win32Object::Name(found)) if *found == name));
    assert!(request.is_dedicated() && request.size() == 16);
    interop.open_resource(&handle).expect("the resource");
    interop.open_resource_by_name(&name).expect("the resource");
    drop(handle);
    interop.open_resource_by_name(&name).expect("the request keeps it");
    drop(request);
    let error = interop.open_resource_by_name(&name).expect_err("no handle keeps it");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("gpu-interop-d3d11-resource-"), "{error}");
}
