//! Compares layouts and constants of the shared descriptors with NVIDIA's headers (cudarc's generated bindings, types
//! only).

use cudarc::driver::sys as cuda;
use gpu_interop_core::backend::{RawArray, RawMipmappedArray, TextureSource};
use gpu_interop_core::{AddressMode, FilterMode, MemoryHandleKind, ReadMode, SemaphoreHandleKind, TextureDesc};
use gpu_interop_driver::exportable::abi as exportable;
use gpu_interop_driver::texture::sampling;
use gpu_interop_driver::{abi, array, texture};
use gpu_interop_test_support::{same_copies, same_descriptors, same_textures, same_virtual_memory};

#[test]
fn structs() {
    same_descriptors!(
        cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st,
        cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st,
        cuda::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st,
        cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st,
        cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st
    );
    same_textures!(cuda::CUDA_RESOURCE_DESC_st, cuda::CUDA_TEXTURE_DESC_st);
    same_virtual_memory!(cuda::CUmemLocation_st, cuda::CUmemAccessDesc_st, cuda::CUmemAllocationProp_st);
}

#[test]
fn numbers() {
    use cuda::{CUmemAccess_flags_enum as Access, CUmemAllocationHandleType_enum as HandleType};
    use cuda::{CUmemAllocationType_enum as Allocation, CUmemLocationType_enum as Location, CUresourcetype_enum as R};
    assert_eq!(exportable::MEM_HANDLE_TYPE_POSIX_FD, HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0);
    assert_eq!(exportable::MEM_HANDLE_TYPE_WIN32, HandleType::CU_MEM_HANDLE_TYPE_WIN32.0);
    assert_eq!(exportable::MEM_ALLOCATION_TYPE_PINNED, Allocation::CU_MEM_ALLOCATION_TYPE_PINNED as u32);
    assert_eq!(exportable::MEM_LOCATION_TYPE_DEVICE, Location::CU_MEM_LOCATION_TYPE_DEVICE as u32);
    assert_eq!(exportable::MEM_ACCESS_READ_WRITE, Access::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as u32);
    assert_eq!(texture::resource_type::ARRAY, R::CU_RESOURCE_TYPE_ARRAY as u32);
    assert_eq!(texture::resource_type::MIPMAPPED_ARRAY, R::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY as u32);
    assert_eq!(texture::texture_flag::READ_AS_INTEGER, cuda::CU_TRSF_READ_AS_INTEGER);
    assert_eq!(texture::texture_flag::NORMALIZED_COORDINATES, cuda::CU_TRSF_NORMALIZED_COORDINATES);
    assert_eq!(texture::texture_flag::SRGB, cuda::CU_TRSF_SRGB);
}

#[test]
fn handle_kinds() {
    use cuda::CUexternalMemoryHandleType_enum as Memory;
    use cuda::CUexternalSemaphoreHandleType_enum as Semaphore;
    let memory = [
        (MemoryHandleKind::OpaqueFd, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD),
        (MemoryHandleKind::OpaqueWin32, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32),
        (MemoryHandleKind::OpaqueWin32Kmt, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT),
        (MemoryHandleKind::D3d12Heap, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP),
        (MemoryHandleKind::D3d12Resource, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE),
        (MemoryHandleKind::D3d11Resource, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE),
        (MemoryHandleKind::D3d11ResourceKmt, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT),
        (MemoryHandleKind::NvSciBuf, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF),
        (MemoryHandleKind::DmaBufFd, Memory::CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD),
    ];
    assert_eq!(memory.len(), MemoryHandleKind::ALL.len());
    for (kind, number) in memory {
        assert_eq!(kind.number(), number as u32, "{kind}");
    }
    let semaphores = [
        (SemaphoreHandleKind::OpaqueFd, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD),
        (SemaphoreHandleKind::OpaqueWin32, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32),
        (SemaphoreHandleKind::OpaqueWin32Kmt, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT),
        (SemaphoreHandleKind::D3d12Fence, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE),
        (SemaphoreHandleKind::D3d11Fence, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE),
        (SemaphoreHandleKind::NvSciSync, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC),
        (SemaphoreHandleKind::D3d11KeyedMutex, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX),
        (SemaphoreHandleKind::D3d11KeyedMutexKmt, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT),
        (SemaphoreHandleKind::TimelineFd, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD),
        (SemaphoreHandleKind::TimelineWin32, Semaphore::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32),
    ];
    assert_eq!(semaphores.len(), SemaphoreHandleKind::ALL.len());
    for (kind, number) in semaphores {
        assert_eq!(kind.number(), number as u32, "{kind}");
    }
    assert_eq!(abi::MEMORY_DEDICATED, cuda::CUDA_EXTERNAL_MEMORY_DEDICATED);
    assert_eq!(abi::SIGNAL_SKIP_NVSCIBUF_MEMSYNC, cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC);
    assert_eq!(abi::WAIT_SKIP_NVSCIBUF_MEMSYNC, cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_SKIP_NVSCIBUF_MEMSYNC);
}

#[test]
fn sampling_is_encoded_with_the_headers_constants() {
    use cuda::{CUaddress_mode_enum as A, CUfilter_mode_enum as F};
    let texture = |desc: &TextureDesc| sampling("op", TextureSource::Array(RawArray::new(1)), desc);
    let desc = TextureDesc::new();
    let encoded = texture(&desc).expect("encodes");
    assert_eq!(encoded.flags, cuda::CU_TRSF_READ_AS_INTEGER);
    assert_eq!(encoded.filter_mode, F::CU_TR_FILTER_MODE_POINT as u32);
    let modes = [
        (AddressMode::Wrap, A::CU_TR_ADDRESS_MODE_WRAP),
        (AddressMode::Clamp, A::CU_TR_ADDRESS_MODE_CLAMP),
        (AddressMode::Mirror, A::CU_TR_ADDRESS_MODE_MIRROR),
        (AddressMode::Border, A::CU_TR_ADDRESS_MODE_BORDER),
    ];
    for (ours, theirs) in modes {
        assert_eq!(texture(&desc.with_address(ours)).expect("encodes").address_mode, [theirs as u32; 3]);
    }
    let linear = desc.with_filter(FilterMode::Linear).with_normalized_coordinates(true).with_read(ReadMode::Srgb);
    let encoded = texture(&linear).expect("encodes");
    assert_eq!(encoded.flags, cuda::CU_TRSF_NORMALIZED_COORDINATES | cuda::CU_TRSF_SRGB);
    assert_eq!(encoded.filter_mode, F::CU_TR_FILTER_MODE_LINEAR as u32);
    assert_eq!(encoded.mipmap_filter_mode, F::CU_TR_FILTER_MODE_LINEAR as u32);
    let all = TextureSource::MipmappedArray { raw: RawMipmappedArray::new(1), levels: 5 };
    assert!((sampling("op", all, &linear).expect("encodes").max_mipmap_level_clamp - 4.0).abs() < f32::EPSILON);
}

#[test]
fn copies() {
    use cuda::CUmemorytype_enum as Type;
    assert_eq!(array::MEMORY_TYPE_HOST, Type::CU_MEMORYTYPE_HOST as u32);
    assert_eq!(array::MEMORY_TYPE_DEVICE, Type::CU_MEMORYTYPE_DEVICE as u32);
    same_copies!(usize, cuda::CUDA_MEMCPY3D_st, reserved0, reserved1);
}
