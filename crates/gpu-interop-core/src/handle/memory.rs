//! Handles to memory.

use super::{FdHandle, KmtHandle, NvSciBufObject, Owner, Win32Object, handle_kinds};
use crate::nv_sci::NvSciBufProperties;

handle_kinds! {
    /// The kinds of memory handle that the CUDA and HIP headers declare.
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
    /// Whether drivers demand the dedicated flag for this kind: a committed resource is its own allocation.
    #[must_use]
    pub const fn requires_dedicated(self) -> bool {
        matches!(self, Self::D3d12Resource | Self::D3d11Resource | Self::D3d11ResourceKmt)
    }

    /// Whether it is of no graphics API: the kinds that a backend exports its own memory as.
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        matches!(self, Self::OpaqueFd | Self::OpaqueWin32)
    }
}

/// Memory that another API exported, owned.
///
/// A file descriptor does not tell whether it stands for memory or for a semaphore, and drivers accept either
/// for the other; these types keep them apart. Wrap a descriptor at the place that exported it.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemoryHandle {
    /// A POSIX descriptor from `vkGetMemoryFdKHR` with `OPAQUE_FD`, or from another allocator that exports them.
    OpaqueFd(FdHandle),
    /// An NT handle or name from `vkGetMemoryWin32HandleKHR`.
    OpaqueWin32(Win32Object),
    /// A KMT handle from `vkGetMemoryWin32HandleKHR`.
    OpaqueWin32Kmt(KmtHandle),
    /// An `ID3D12Heap` created with `D3D12_HEAP_FLAG_SHARED`: the NT handle from `ID3D12Device::CreateSharedHandle`, or the
    /// name given there.
    D3d12Heap(Win32Object),
    /// A committed `ID3D12Resource` created with `D3D12_HEAP_FLAG_SHARED`: the NT handle from
    /// `ID3D12Device::CreateSharedHandle`, or the name given there.
    D3d12Resource(Win32Object),
    /// An `ID3D11Resource` created with `D3D11_RESOURCE_MISC_SHARED_NTHANDLE`: the NT handle from
    /// `IDXGIResource1::CreateSharedHandle`, or the name given there.
    D3d11Resource(Win32Object),
    /// An `ID3D11Resource` created with `D3D11_RESOURCE_MISC_SHARED` or `D3D11_RESOURCE_MISC_SHARED_KEYEDMUTEX`: the KMT
    /// handle from `IDXGIResource::GetSharedHandle`.
    D3d11ResourceKmt(KmtHandle),
    /// An `NvSciBufObj`.
    NvSciBuf(NvSciBufObject),
    /// A dma-buf.
    DmaBufFd(FdHandle),
}

impl MemoryHandle {
    /// Which kind this is.
    #[must_use]
    pub const fn kind(&self) -> MemoryHandleKind {
        match self {
            Self::OpaqueFd(_) => MemoryHandleKind::OpaqueFd,
            Self::OpaqueWin32(_) => MemoryHandleKind::OpaqueWin32,
            Self::OpaqueWin32Kmt(_) => MemoryHandleKind::OpaqueWin32Kmt,
            Self::D3d12Heap(_) => MemoryHandleKind::D3d12Heap,
            Self::D3d12Resource(_) => MemoryHandleKind::D3d12Resource,
            Self::D3d11Resource(_) => MemoryHandleKind::D3d11Resource,
            Self::D3d11ResourceKmt(_) => MemoryHandleKind::D3d11ResourceKmt,
            Self::NvSciBuf(_) => MemoryHandleKind::NvSciBuf,
            Self::DmaBufFd(_) => MemoryHandleKind::DmaBufFd,
        }
    }

    /// What keeps the object behind it, if it points to one that is kept.
    pub(crate) fn owner(&self) -> Option<&Owner> {
        match self {
            Self::NvSciBuf(object) => object.owner(),
            _ => None,
        }
    }

    /// What was reconciled about an NvSciBuf object, if that is what it is, and the application said so.
    #[must_use]
    pub fn nv_sci_buf(&self) -> Option<&NvSciBufProperties> {
        match self {
            Self::NvSciBuf(object) => object.properties(),
            _ => None,
        }
    }

    /// The NT object of a handle that stands for one: by handle, still owned by `self`, or by name.
    #[must_use]
    pub fn as_win32(&self) -> Option<&Win32Object> {
        match self {
            Self::OpaqueWin32(object)
            | Self::D3d12Heap(object)
            | Self::D3d12Resource(object)
            | Self::D3d11Resource(object) => Some(object),
            _ => None,
        }
    }

    /// The NT object of a handle that stands for one, owned by the caller from here on.
    ///
    /// # Errors
    /// Gives `self` back if it stands for none.
    pub fn into_win32(self) -> Result<Win32Object, Self> {
        match self {
            Self::OpaqueWin32(object)
            | Self::D3d12Heap(object)
            | Self::D3d12Resource(object)
            | Self::D3d11Resource(object) => Ok(object),
            other => Err(other),
        }
    }

    /// The descriptor of an fd-based handle, still owned by `self`.
    #[cfg(unix)]
    #[must_use]
    pub fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        match self {
            Self::OpaqueFd(fd) | Self::DmaBufFd(fd) => Some(fd.as_fd()),
            _ => None,
        }
    }

    /// The descriptor of an fd-based handle, owned by the caller from here on.
    ///
    /// # Errors
    /// Gives `self` back if it is not fd-based.
    #[cfg(unix)]
    pub fn into_fd(self) -> Result<FdHandle, Self> {
        match self {
            Self::OpaqueFd(fd) | Self::DmaBufFd(fd) => Ok(fd),
            other => Err(other),
        }
    }

    /// Takes ownership of a raw opaque descriptor, for callers that come from C.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `fd` is negative or not open; nothing
    /// is closed then.
    ///
    /// # Safety
    /// If `fd` is open, nothing else may close it.
    #[cfg(unix)]
    pub unsafe fn opaque_from_raw_fd(fd: std::os::fd::RawFd) -> crate::error::Result<Self> {
        // SAFETY: the caller's promise is passed on.
        unsafe { super::owned_from_raw("MemoryHandle::opaque_from_raw_fd", fd) }.map(Self::OpaqueFd)
    }
}
