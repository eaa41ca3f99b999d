//! The shared descriptors are laid out and numbered as in NVIDIA's headers (cudarc's generated bindings, types only).

use std::mem::{align_of, offset_of, size_of};

use cudarc::driver::sys as cuda;
use gpu_interop_core::{MemoryHandleKind, SemaphoreHandleKind};
use gpu_interop_driver::abi;

/// Compares size, alignment and the offset of each named field.
macro_rules! same_layout {
    ($ours:ty, $theirs:ty, $( $our_field:tt = $($their_field:tt).+ ),+ $(,)?) => {
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), stringify!($ours));
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), stringify!($ours));
        $( assert_eq!(
            offset_of!($ours, $our_field),
            offset_of!($theirs, $($their_field).+),
            concat!(stringify!($ours), ".", stringify!($our_field))
        ); )+
    };
}

#[test]
fn descriptors() {
    same_layout!(
        abi::MemoryHandleDesc,
        cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st,
        kind = type_,
        handle = handle,
        size = size,
        flags = flags,
        reserved = reserved,
    );
    same_layout!(
        abi::MemoryBufferDesc,
        cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st,
        offset = offset,
        size = size,
        flags = flags,
        reserved = reserved,
    );
    same_layout!(
        abi::SemaphoreHandleDesc,
        cuda::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st,
        kind = type_,
        handle = handle,
        flags = flags,
        reserved = reserved,
    );
    same_layout!(
        abi::SemaphoreSignalParams,
        cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st,
        fence_value = params.fence.value,
        nv_sci_fence = params.nvSciSync,
        key = params.keyedMutex.key,
        params_reserved = params.reserved,
        flags = flags,
        reserved = reserved,
    );
    same_layout!(
        abi::SemaphoreWaitParams,
        cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st,
        fence_value = params.fence.value,
        nv_sci_fence = params.nvSciSync,
        key = params.keyedMutex.key,
        timeout_ms = params.keyedMutex.timeoutMs,
        params_reserved = params.reserved,
        flags = flags,
        reserved = reserved,
    );
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
        assert_eq!(abi::memory_type(kind), Some(number as u32), "{kind}");
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
        assert_eq!(abi::semaphore_type(kind), Some(number as u32), "{kind}");
    }
    assert_eq!(abi::MEMORY_DEDICATED, cuda::CUDA_EXTERNAL_MEMORY_DEDICATED);
    assert_eq!(abi::SIGNAL_SKIP_NVSCIBUF_MEMSYNC, cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC);
    assert_eq!(abi::WAIT_SKIP_NVSCIBUF_MEMSYNC, cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_SKIP_NVSCIBUF_MEMSYNC);
}
