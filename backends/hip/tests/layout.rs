//! Compares layouts and constants of the shared descriptors with AMD's headers of HIP 6 and later (cubecl-hip-sys's
//! generated bindings, types only). `src/sys/generation_5.rs` covers HIP 5.

use cubecl_hip_sys as hip;
use gpu_interop_core::{MemoryHandleKind, SemaphoreHandleKind};
use gpu_interop_driver::exportable::abi as exportable;
use gpu_interop_driver::{abi, array, texture};
use gpu_interop_test_support::{same_copies, same_descriptors, same_textures, same_virtual_memory};

#[test]
fn structs() {
    same_descriptors!(
        hip::hipExternalMemoryHandleDesc_st,
        hip::hipExternalMemoryBufferDesc_st,
        hip::hipExternalSemaphoreHandleDesc_st,
        hip::hipExternalSemaphoreSignalParams_st,
        hip::hipExternalSemaphoreWaitParams_st
    );
    same_textures!(hip::HIP_RESOURCE_DESC, hip::HIP_TEXTURE_DESC);
    same_virtual_memory!(hip::hipMemLocation, hip::hipMemAccessDesc, hip::hipMemAllocationProp);
    // Surfaces are created from a shorter struct, a prefix of the longer one.
    use std::mem::{offset_of, size_of};
    assert_eq!(offset_of!(hip::hipResourceDesc, res), offset_of!(texture::ResourceDesc, array));
    assert!(size_of::<hip::hipResourceDesc>() <= size_of::<texture::ResourceDesc>());
}

#[test]
fn numbers() {
    let pairs = [
        (abi::MEMORY_DEDICATED, hip::hipExternalMemoryDedicated),
        (exportable::GRANULARITY_MINIMUM, hip::hipMemAllocationGranularity_flags_hipMemAllocationGranularityMinimum),
        (exportable::MEM_ACCESS_READ_WRITE, hip::hipMemAccessFlags_hipMemAccessFlagsProtReadWrite),
        (exportable::MEM_LOCATION_TYPE_DEVICE, hip::hipMemLocationType_hipMemLocationTypeDevice),
        (exportable::MEM_ALLOCATION_TYPE_PINNED, hip::hipMemAllocationType_hipMemAllocationTypePinned),
        (exportable::MEM_HANDLE_TYPE_POSIX_FD, hip::hipMemAllocationHandleType_hipMemHandleTypePosixFileDescriptor),
        (exportable::MEM_HANDLE_TYPE_WIN32, hip::hipMemAllocationHandleType_hipMemHandleTypeWin32),
        (texture::texture_flag::READ_AS_INTEGER, hip::HIP_TRSF_READ_AS_INTEGER),
        (texture::texture_flag::SRGB, hip::HIP_TRSF_SRGB),
        (texture::texture_flag::NORMALIZED_COORDINATES, hip::HIP_TRSF_NORMALIZED_COORDINATES),
        (texture::resource_type::MIPMAPPED_ARRAY, hip::HIPresourcetype_enum_HIP_RESOURCE_TYPE_MIPMAPPED_ARRAY),
        (texture::resource_type::ARRAY, hip::HIPresourcetype_enum_HIP_RESOURCE_TYPE_ARRAY),
        // `wait_flags`, stream and event flags.
        (0, hip::hipStreamWaitValueGte),
        (1, hip::hipStreamWaitValueEq),
        (2, hip::hipStreamWaitValueAnd),
        (3, hip::hipStreamWaitValueNor),
        (1, hip::hipStreamNonBlocking),
        (2, hip::hipEventDisableTiming),
    ];
    for (index, (ours, theirs)) in pairs.into_iter().enumerate() {
        assert_eq!(ours, theirs, "pair {index}");
    }
}

#[test]
fn handle_kinds() {
    // Order of the headers and of `ALL`.
    let memory = [
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeOpaqueFd,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeOpaqueWin32,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeOpaqueWin32Kmt,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D12Heap,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D12Resource,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11Resource,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11ResourceKmt,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeNvSciBuf,
    ];
    let ours = MemoryHandleKind::ALL.iter().map(|kind| kind.number());
    assert!(ours.take(memory.len()).eq(memory));
    let semaphores = [
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueFd,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32Kmt,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeD3D12Fence,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeD3D11Fence,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeNvSciSync,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeKeyedMutex,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeKeyedMutexKmt,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeTimelineSemaphoreFd,
        hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeTimelineSemaphoreWin32,
    ];
    let ours = SemaphoreHandleKind::ALL.iter().map(|kind| kind.number());
    assert!(ours.eq(semaphores));
}

#[test]
fn copies() {
    assert_eq!(array::MEMORY_TYPE_HOST, hip::hipMemoryType_hipMemoryTypeHost);
    assert_eq!(array::MEMORY_TYPE_DEVICE, hip::hipMemoryType_hipMemoryTypeDevice);
    same_copies!([usize; 0], hip::HIP_MEMCPY3D);
}
