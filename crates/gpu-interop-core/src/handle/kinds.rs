//! Kinds of memory and semaphore handles, and the handles.

use super::{
    FdHandle, HandleObject, HandleObjectRef, HandleType, KmtHandle, NvSciBufObject, NvSciSyncObject, Object, Owner,
    Win32Object,
};
use crate::nv_sci::NvSciBufProperties;

/// Declares an enum of handles and the enum of their kinds. Each row is a kind: the variant of both enums, its object, its
/// number in the vendors' headers and in the C interface, its name (see `named_enum`), and its text in messages.
macro_rules! handles {
    (
        $(#[$kind_meta:meta])* $kind:ident,
        $(#[$handle_meta:meta])* $handle:ident {
            $( $(#[$doc:meta])* $variant:ident($object:ty) = $number:literal, $name:literal, $text:literal; )+
        }
    ) => {
        named_enum! { $(#[$kind_meta])* $kind { $( $(#[$doc])* $variant = $name, $text; )+ } }

        $(#[$handle_meta])*
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum $handle { $( $(#[$doc])* $variant($object), )+ }

        impl $kind {
            /// The number in the headers of CUDA and HIP.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self { $( Self::$variant => $number, )+ }
            }

            /// The kind with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $( $number => Some(Self::$variant), )+ _ => None }
            }

            /// Type of the object that handles of this kind contain.
            #[must_use]
            pub const fn handle_type(self) -> HandleType {
                match self { $( Self::$variant => <$object as Object>::TYPE, )+ }
            }
        }

        impl $handle {
            /// A handle of `kind` that contains `object`.
            ///
            /// # Errors
            /// Returns `object` if handles of this kind contain another type of object.
            pub fn new(kind: $kind, object: impl Into<HandleObject>) -> std::result::Result<Self, HandleObject> {
                let object = object.into();
                match kind { $( $kind::$variant => object.try_into().map(Self::$variant), )+ }
            }

            /// Kind of the handle.
            #[must_use]
            pub const fn kind(&self) -> $kind {
                match self { $( Self::$variant(_) => $kind::$variant, )+ }
            }

            /// The object, still owned by `self`.
            #[must_use]
            pub fn object(&self) -> HandleObjectRef<'_> {
                match self { $( Self::$variant(object) => object.into(), )+ }
            }

            /// Returns the object, owned by the caller.
            #[must_use]
            pub fn into_object(self) -> HandleObject {
                match self { $( Self::$variant(object) => object.into(), )+ }
            }

            /// Owner of the object, if any.
            pub(crate) fn owner(&self) -> Option<&Owner> {
                match self.object() {
                    HandleObjectRef::NvSciBuf(object) => object.owner(),
                    HandleObjectRef::NvSciSync(object) => object.owner(),
                    _ => None,
                }
            }

            /// The NT object of an NT handle or name, still owned by `self`.
            #[must_use]
            pub fn as_win32(&self) -> Option<&Win32Object> {
                match self.object() {
                    HandleObjectRef::Win32(object) => Some(object),
                    _ => None,
                }
            }

            /// Returns the NT object of an NT handle or name, owned by the caller.
            ///
            /// # Errors
            /// Returns the object if it is neither.
            pub fn into_win32(self) -> std::result::Result<Win32Object, HandleObject> {
                self.into_object().try_into()
            }

            /// The descriptor of an fd-based handle, still owned by `self`.
            #[cfg(unix)]
            #[must_use]
            pub fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
                match self.object() {
                    HandleObjectRef::Fd(fd) => Some(std::os::fd::AsFd::as_fd(fd)),
                    _ => None,
                }
            }

            /// Returns the descriptor of an fd-based handle, owned by the caller.
            ///
            /// # Errors
            /// Returns the object if it is not fd-based.
            #[cfg(unix)]
            pub fn into_fd(self) -> std::result::Result<FdHandle, HandleObject> {
                self.into_object().try_into()
            }
        }
    };
}
handles! {
    /// Kinds of memory handle in the CUDA and HIP headers.
    MemoryHandleKind,
    /// An owned handle to memory that another API exported.
    ///
    /// A file descriptor does not reveal whether it refers to memory or to a semaphore, and drivers accept either in place
    /// of the other; the types distinguish them. Wrap a descriptor where it is exported.
    MemoryHandle {
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD`: a POSIX descriptor from `vkGetMemoryFdKHR` with `OPAQUE_FD`, or
        /// from another allocator that exports them.
        OpaqueFd(FdHandle) = 1, "opaque_fd", "opaque fd";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32`: an NT handle or name from `vkGetMemoryWin32HandleKHR`.
        OpaqueWin32(Win32Object) = 2, "opaque_win32", "opaque Win32 handle";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT`: a KMT handle from `vkGetMemoryWin32HandleKHR`.
        OpaqueWin32Kmt(KmtHandle) = 3, "opaque_win32_kmt", "opaque Win32 KMT handle";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP`: an `ID3D12Heap` created with `D3D12_HEAP_FLAG_SHARED`: the NT
        /// handle from `ID3D12Device::CreateSharedHandle`, or the name given there.
        D3d12Heap(Win32Object) = 4, "d3d12_heap", "D3D12 heap";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE`: a committed `ID3D12Resource` created with
        /// `D3D12_HEAP_FLAG_SHARED`: the NT handle from `ID3D12Device::CreateSharedHandle`, or the name given there.
        D3d12Resource(Win32Object) = 5, "d3d12_resource", "D3D12 resource";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE`: an `ID3D11Resource` created with
        /// `D3D11_RESOURCE_MISC_SHARED_NTHANDLE`: the NT handle from `IDXGIResource1::CreateSharedHandle`, or the name
        /// given there.
        D3d11Resource(Win32Object) = 6, "d3d11_resource", "D3D11 resource";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT`: an `ID3D11Resource` created with
        /// `D3D11_RESOURCE_MISC_SHARED` or `D3D11_RESOURCE_MISC_SHARED_KEYEDMUTEX`: the KMT handle from
        /// `IDXGIResource::GetSharedHandle`.
        D3d11ResourceKmt(KmtHandle) = 7, "d3d11_resource_kmt", "D3D11 resource, KMT handle";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF`: an `NvSciBufObj`.
        NvSciBuf(NvSciBufObject) = 8, "nv_sci_buf", "NvSciBuf object";
        /// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD`: a dma-buf. HIP has no such kind.
        DmaBufFd(FdHandle) = 9, "dma_buf_fd", "dma-buf fd";
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

handles! {
    /// Kinds of semaphore handle in the CUDA and HIP headers.
    SemaphoreHandleKind,
    /// An owned handle to a semaphore that another API exported. [`super::MemoryHandle`] explains why the types differ.
    SemaphoreHandle {
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD`: a binary semaphore's descriptor from `vkGetSemaphoreFdKHR`
        /// with `OPAQUE_FD`.
        OpaqueFd(FdHandle) = 1, "opaque_fd", "opaque fd";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32`: a binary semaphore's NT handle or name.
        OpaqueWin32(Win32Object) = 2, "opaque_win32", "opaque Win32 handle";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT`: a binary semaphore's KMT handle.
        OpaqueWin32Kmt(KmtHandle) = 3, "opaque_win32_kmt", "opaque Win32 KMT handle";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE`: an `ID3D12Fence` created with `D3D12_FENCE_FLAG_SHARED`:
        /// the NT handle from `ID3D12Device::CreateSharedHandle`, or the name given there.
        D3d12Fence(Win32Object) = 4, "d3d12_fence", "D3D12 fence";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE`: an `ID3D11Fence` created with `D3D11_FENCE_FLAG_SHARED`:
        /// the NT handle from `ID3D11Fence::CreateSharedHandle`, or the name given there.
        D3d11Fence(Win32Object) = 5, "d3d11_fence", "D3D11 fence";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC`: an `NvSciSyncObj`.
        NvSciSync(NvSciSyncObject) = 6, "nv_sci_sync", "NvSciSync object";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX`: the `IDXGIKeyedMutex` of a resource created with
        /// `D3D11_RESOURCE_MISC_SHARED_KEYEDMUTEX`: the resource's NT handle or name
        /// ([`MemoryHandle::D3d11Resource`](super::MemoryHandle::D3d11Resource)).
        D3d11KeyedMutex(Win32Object) = 7, "d3d11_keyed_mutex", "D3D11 keyed mutex";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT`: the same, by the resource's KMT handle
        /// ([`MemoryHandle::D3d11ResourceKmt`](super::MemoryHandle::D3d11ResourceKmt)).
        D3d11KeyedMutexKmt(KmtHandle) = 8, "d3d11_keyed_mutex_kmt", "D3D11 keyed mutex, KMT handle";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD`: a timeline semaphore's descriptor from
        /// `vkGetSemaphoreFdKHR` with `OPAQUE_FD`, or from `HostSemaphore::export`.
        TimelineFd(FdHandle) = 9, "timeline_fd", "timeline semaphore fd";
        /// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32`: a timeline semaphore's NT handle or name.
        TimelineWin32(Win32Object) = 10, "timeline_win32", "timeline semaphore Win32 handle";
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
