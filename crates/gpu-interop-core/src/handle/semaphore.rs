//! Semaphore handles.

use super::{FdHandle, KmtHandle, NvSciSyncObject, Owner, Win32Object, handle_kinds, handle_methods};

handle_kinds! {
    /// Kinds of semaphore handle in the CUDA and HIP headers.
    SemaphoreHandleKind {
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD` (1).
        OpaqueFd = "opaque fd" on Unix,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32` (2).
        OpaqueWin32 = "opaque Win32 handle" on Windows,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT` (3).
        OpaqueWin32Kmt = "opaque Win32 KMT handle" on Windows,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE` (4).
        D3d12Fence = "D3D12 fence" on Windows,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE` (5).
        D3d11Fence = "D3D11 fence" on Windows,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC` (6).
        NvSciSync = "NvSciSync object" on Any,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX` (7).
        D3d11KeyedMutex = "D3D11 keyed mutex" on Windows,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT` (8).
        D3d11KeyedMutexKmt = "D3D11 keyed mutex, KMT handle" on Windows,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD` (9).
        TimelineFd = "timeline semaphore fd" on Unix,
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32` (10).
        TimelineWin32 = "timeline semaphore Win32 handle" on Windows,
    }
}

/// Payload of a semaphore, which determines the parameters of its signals and waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum SemaphorePayload {
    /// Signalled or not; one wait consumes one signal.
    Binary,
    /// A monotonic 64-bit counter: timeline semaphores and Direct3D fences.
    Timeline,
    /// A key that is acquired and released.
    KeyedMutex,
    /// An NvSciSync fence.
    NvSciSync,
}

impl SemaphoreHandleKind {
    /// Payload of semaphores of this kind.
    #[must_use]
    pub const fn payload(self) -> SemaphorePayload {
        match self {
            Self::OpaqueFd | Self::OpaqueWin32 | Self::OpaqueWin32Kmt => SemaphorePayload::Binary,
            Self::D3d12Fence | Self::D3d11Fence | Self::TimelineFd | Self::TimelineWin32 => SemaphorePayload::Timeline,
            Self::D3d11KeyedMutex | Self::D3d11KeyedMutexKmt => SemaphorePayload::KeyedMutex,
            Self::NvSciSync => SemaphorePayload::NvSciSync,
        }
    }
}

/// An owned handle to a semaphore that another API exported. [`super::MemoryHandle`] explains why the types differ.
#[derive(Debug)]
#[non_exhaustive]
pub enum SemaphoreHandle {
    /// A binary semaphore's descriptor from `vkGetSemaphoreFdKHR` with `OPAQUE_FD`.
    OpaqueFd(FdHandle),
    /// A binary semaphore's NT handle or name.
    OpaqueWin32(Win32Object),
    /// A binary semaphore's KMT handle.
    OpaqueWin32Kmt(KmtHandle),
    /// An `ID3D12Fence` created with `D3D12_FENCE_FLAG_SHARED`: the NT handle from `ID3D12Device::CreateSharedHandle`,
    /// or the name given there.
    D3d12Fence(Win32Object),
    /// An `ID3D11Fence` created with `D3D11_FENCE_FLAG_SHARED`: the NT handle from `ID3D11Fence::CreateSharedHandle`,
    /// or the name given there.
    D3d11Fence(Win32Object),
    /// An `NvSciSyncObj`.
    NvSciSync(NvSciSyncObject),
    /// The `IDXGIKeyedMutex` of a resource created with `D3D11_RESOURCE_MISC_SHARED_KEYEDMUTEX`: the resource's NT
    /// handle or name ([`MemoryHandle::D3d11Resource`](super::MemoryHandle::D3d11Resource)).
    D3d11KeyedMutex(Win32Object),
    /// The same, by the resource's KMT handle
    /// ([`MemoryHandle::D3d11ResourceKmt`](super::MemoryHandle::D3d11ResourceKmt)).
    D3d11KeyedMutexKmt(KmtHandle),
    /// A timeline semaphore's descriptor from `vkGetSemaphoreFdKHR` with `OPAQUE_FD`, or from `HostSemaphore::export`.
    TimelineFd(FdHandle),
    /// A timeline semaphore's NT handle or name.
    TimelineWin32(Win32Object),
}

handle_methods! {
    SemaphoreHandle: SemaphoreHandleKind {
        OpaqueFd OpaqueWin32 OpaqueWin32Kmt D3d12Fence D3d11Fence NvSciSync D3d11KeyedMutex D3d11KeyedMutexKmt
        TimelineFd TimelineWin32
    }
    Win32Object { OpaqueWin32 D3d12Fence D3d11Fence D3d11KeyedMutex TimelineWin32 } FdHandle { OpaqueFd TimelineFd }
    owned { NvSciSync }
}
