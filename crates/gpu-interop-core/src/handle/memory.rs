//! Memory handles.

use super::{FdHandle, KmtHandle, NvSciBufObject, Owner, Win32Object, handle_kinds, handle_methods};
use crate::nv_sci::NvSciBufProperties;

handle_kinds! {
    /// Kinds of memory handle in the CUDA and HIP headers.
    MemoryHandleKind {
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD` (1).
        OpaqueFd = "opaque fd" on Unix,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32` (2).
        OpaqueWin32 = "opaque Win32 handle" on Windows,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT` (3).
        OpaqueWin32Kmt = "opaque Win32 KMT handle" on Windows,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP` (4).
        D3d12Heap = "D3D12 heap" on Windows,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE` (5).
        D3d12Resource = "D3D12 resource" on Windows,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE` (6).
        D3d11Resource = "D3D11 resource" on Windows,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT` (7).
        D3d11ResourceKmt = "D3D11 resource, KMT handle" on Windows,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF` (8).
        NvSciBuf = "NvSciBuf object" on Any,
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD` (9). HIP has no such kind.
        DmaBufFd = "dma-buf fd" on Unix,
    }
}

impl MemoryHandleKind {
    /// `true` if drivers require the dedicated flag for this kind: a committed resource is its own allocation.
    #[must_use]
    pub const fn requires_dedicated(self) -> bool {
        matches!(self, Self::D3d12Resource | Self::D3d11Resource | Self::D3d11ResourceKmt)
    }

    /// `true` if the kind belongs to no graphics API. Backends export their own memory as such kinds.
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        matches!(self, Self::OpaqueFd | Self::OpaqueWin32)
    }
}

/// An owned handle to memory that another API exported.
///
/// A file descriptor does not reveal whether it refers to memory or to a semaphore, and drivers accept either in place
/// of the other; the types distinguish them. Wrap a descriptor where it is exported.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryHandle {
    /// A POSIX descriptor from `vkGetMemoryFdKHR` with `OPAQUE_FD`, or from another allocator that exports them.
    OpaqueFd(FdHandle),
    /// An NT handle or name from `vkGetMemoryWin32HandleKHR`.
    OpaqueWin32(Win32Object),
    /// A KMT handle from `vkGetMemoryWin32HandleKHR`.
    OpaqueWin32Kmt(KmtHandle),
    /// An `ID3D12Heap` created with `D3D12_HEAP_FLAG_SHARED`: the NT handle from `ID3D12Device::CreateSharedHandle`, or
    /// the name given there.
    D3d12Heap(Win32Object),
    /// A committed `ID3D12Resource` created with `D3D12_HEAP_FLAG_SHARED`: the NT handle from
    /// `ID3D12Device::CreateSharedHandle`, or the name given there.
    D3d12Resource(Win32Object),
    /// An `ID3D11Resource` created with `D3D11_RESOURCE_MISC_SHARED_NTHANDLE`: the NT handle from
    /// `IDXGIResource1::CreateSharedHandle`, or the name given there.
    D3d11Resource(Win32Object),
    /// An `ID3D11Resource` created with `D3D11_RESOURCE_MISC_SHARED` or `D3D11_RESOURCE_MISC_SHARED_KEYEDMUTEX`: the
    /// KMT handle from `IDXGIResource::GetSharedHandle`.
    D3d11ResourceKmt(KmtHandle),
    /// An `NvSciBufObj`.
    NvSciBuf(NvSciBufObject),
    /// A dma-buf.
    DmaBufFd(FdHandle),
}

handle_methods! {
    MemoryHandle: MemoryHandleKind {
        OpaqueFd OpaqueWin32 OpaqueWin32Kmt D3d12Heap D3d12Resource D3d11Resource D3d11ResourceKmt NvSciBuf DmaBufFd
    }
    Win32Object { OpaqueWin32 D3d12Heap D3d12Resource D3d11Resource } FdHandle { OpaqueFd DmaBufFd } owned { NvSciBuf }
}

impl MemoryHandle {
    /// Reconciled properties of an NvSciBuf object, if this is one and the application provided them.
    #[must_use]
    pub fn nv_sci_buf(&self) -> Option<&NvSciBufProperties> {
        match self {
            Self::NvSciBuf(object) => object.properties(),
            _ => None,
        }
    }

    /// Takes ownership of a raw opaque descriptor, for callers with a C interface.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `fd` is negative or not open; nothing is
    /// closed.
    ///
    /// # Safety
    /// If `fd` is open, nothing else may close it.
    #[cfg(unix)]
    pub unsafe fn opaque_from_raw_fd(fd: std::os::fd::RawFd) -> crate::error::Result<Self> {
        // SAFETY: the caller fulfils the same contract.
        unsafe { super::owned_from_raw("MemoryHandle::opaque_from_raw_fd", fd) }.map(Self::OpaqueFd)
    }
}
