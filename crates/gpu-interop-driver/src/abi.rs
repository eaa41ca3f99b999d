//! Interop descriptors shared by the CUDA driver API and HIP 6 and later, and the encoding of requests into them.
//!
//! Both vendors' headers give these structs the same layout and the handle kinds the same numbers (HIP lacks the last
//! memory kind). The tests of the backends compare them with bindings generated from the vendors' headers.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};
use std::ptr;
use std::time::Duration;

use gpu_interop_core::handle::{HandleObjectRef, ObjectName, Win32Object};
use gpu_interop_core::{MemoryImport, SemaphoreHandle, SignalParams, WaitParams};

/// `CUDA_EXTERNAL_MEMORY_DEDICATED`, `hipExternalMemoryDedicated`.
pub const MEMORY_DEDICATED: u32 = 1;
/// `CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC`.
pub const SIGNAL_SKIP_NVSCIBUF_MEMSYNC: u32 = 1;
/// `CUDA_EXTERNAL_SEMAPHORE_WAIT_SKIP_NVSCIBUF_MEMSYNC`.
pub const WAIT_SKIP_NVSCIBUF_MEMSYNC: u32 = 2;
/// Timeout of a keyed mutex wait that never times out.
pub const INFINITE_MS: u32 = u32::MAX;

/// NT handle or object name; the other field is null.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Win32 {
    /// The handle.
    pub handle: *mut c_void,
    /// The name, UTF-16 with a NUL.
    pub name: *const c_void,
}

/// The handle inside a descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Handle {
    /// File descriptor.
    pub fd: c_int,
    /// NT handle, object name or KMT handle.
    pub win32: Win32,
    /// An NvSci object.
    pub nv_sci: *const c_void,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    /// No handle: every byte 0.
    const NONE: Self = Self { win32: Win32 { handle: ptr::null_mut(), name: ptr::null() } };

    /// Encodes an object. `fd` is the file descriptor passed to the driver in place of a file descriptor. Returns `None` for
    /// objects of a later version.
    fn new(object: HandleObjectRef<'_>, fd: c_int) -> Option<Self> {
        Some(match object {
            HandleObjectRef::Fd(_) => Self::fd(fd),
            HandleObjectRef::Win32(object) => Self::win32(object),
            HandleObjectRef::Kmt(handle) => Self::kmt(handle.as_raw()),
            HandleObjectRef::NvSciBuf(object) => Self::nv_sci(object.as_raw()),
            HandleObjectRef::NvSciSync(object) => Self::nv_sci(object.as_raw()),
            _ => return None,
        })
    }

    fn fd(fd: c_int) -> Self {
        // The remaining bytes of the union stay 0: a driver may compare them.
        let mut handle = Self::NONE;
        handle.fd = fd;
        handle
    }

    fn nv_sci(object: *const c_void) -> Self {
        let mut handle = Self::NONE;
        handle.nv_sci = object;
        handle
    }

    fn win32(object: &Win32Object) -> Self {
        let name = |name: &ObjectName| name.as_utf16().as_ptr().cast::<c_void>();
        let win32 = match object {
            Win32Object::Handle(handle) => Win32 { handle: handle.as_raw(), name: ptr::null() },
            Win32Object::Name(object) => Win32 { handle: ptr::null_mut(), name: name(object) },
            _ => return Self::NONE,
        };
        Self { win32 }
    }

    fn kmt(value: usize) -> Self {
        Self { win32: Win32 { handle: ptr::without_provenance_mut(value), name: ptr::null() } }
    }
}

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`, `hipExternalMemoryHandleDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemoryHandleDesc {
    /// `CUexternalMemoryHandleType`, `hipExternalMemoryHandleType`: [`MemoryHandleKind::number`].
    ///
    /// [`MemoryHandleKind::number`]: gpu_interop_core::MemoryHandleKind::number
    pub kind: u32,
    /// The handle. Pointers in it borrow from the request that was encoded.
    pub handle: Handle,
    /// Bytes.
    pub size: u64,
    /// [`MEMORY_DEDICATED`].
    pub flags: u32,
    /// 0.
    pub reserved: [u32; 16],
}

impl MemoryHandleDesc {
    /// Encodes a request. `fd` is the file descriptor passed to the driver for fd-based kinds. Returns `None` for objects of
    /// a later version.
    #[must_use]
    pub fn new(request: &MemoryImport, fd: c_int) -> Option<Self> {
        Some(Self {
            kind: request.handle().kind().number(),
            handle: Handle::new(request.handle().object(), fd)?,
            size: request.size(),
            flags: if request.is_dedicated() { MEMORY_DEDICATED } else { 0 },
            reserved: [0; 16],
        })
    }
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`, `hipExternalMemoryBufferDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBufferDesc {
    /// Bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// 0.
    pub flags: u32,
    /// 0.
    pub reserved: [u32; 16],
}

impl MemoryBufferDesc {
    /// A range, in bytes.
    #[must_use]
    pub const fn new(offset: u64, size: u64) -> Self {
        Self { offset, size, flags: 0, reserved: [0; 16] }
    }
}

/// `CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC`, `hipExternalSemaphoreHandleDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SemaphoreHandleDesc {
    /// `CUexternalSemaphoreHandleType`, `hipExternalSemaphoreHandleType`: [`SemaphoreHandleKind::number`].
    ///
    /// [`SemaphoreHandleKind::number`]: gpu_interop_core::SemaphoreHandleKind::number
    pub kind: u32,
    /// The handle. Pointers in it borrow from the request that was encoded.
    pub handle: Handle,
    /// 0.
    pub flags: u32,
    /// 0.
    pub reserved: [u32; 16],
}

impl SemaphoreHandleDesc {
    /// Encodes a handle. `fd` is the file descriptor passed to the driver for fd-based kinds. Returns `None` for objects of
    /// a later version.
    #[must_use]
    pub fn new(handle: &SemaphoreHandle, fd: c_int) -> Option<Self> {
        let (kind, handle) = (handle.kind().number(), Handle::new(handle.object(), fd)?);
        Some(Self { kind, handle, flags: 0, reserved: [0; 16] })
    }
}

/// `CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS`, `hipExternalSemaphoreSignalParams` of HIP 6.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemaphoreSignalParams {
    /// New value of a timeline.
    pub fence_value: u64,
    /// Pointer to which the NvSciSync fence is written.
    pub nv_sci_fence: *mut c_void,
    /// A keyed mutex's key.
    pub key: u64,
    /// 0.
    pub params_reserved: [u32; 12],
    /// [`SIGNAL_SKIP_NVSCIBUF_MEMSYNC`].
    pub flags: u32,
    /// 0.
    pub reserved: [u32; 16],
}

impl SemaphoreSignalParams {
    /// Parameters of a binary semaphore: every byte is 0.
    pub const BINARY: Self = Self {
        fence_value: 0,
        nv_sci_fence: ptr::null_mut(),
        key: 0,
        params_reserved: [0; 12],
        flags: 0,
        reserved: [0; 16],
    };

    /// Encodes parameters. Returns `None` for variants without an encoding.
    #[must_use]
    #[inline]
    pub fn new(params: &SignalParams) -> Option<Self> {
        Some(match *params {
            SignalParams::Binary => Self::BINARY,
            SignalParams::Value(fence_value) => Self { fence_value, ..Self::BINARY },
            SignalParams::Key(key) => Self { key, ..Self::BINARY },
            SignalParams::NvSciSync { fence, skip_memsync } => Self {
                nv_sci_fence: fence.as_raw(),
                flags: if skip_memsync { SIGNAL_SKIP_NVSCIBUF_MEMSYNC } else { 0 },
                ..Self::BINARY
            },
            _ => return None,
        })
    }
}

/// `CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS`, `hipExternalSemaphoreWaitParams` of HIP 6.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemaphoreWaitParams {
    /// The value a timeline must reach.
    pub fence_value: u64,
    /// The NvSciSync fence to wait for.
    pub nv_sci_fence: *mut c_void,
    /// A keyed mutex's key.
    pub key: u64,
    /// Timeout of the wait for the key in milliseconds, or [`INFINITE_MS`].
    pub timeout_ms: u32,
    /// 0: padding that aligns the next field.
    pub padding: u32,
    /// 0.
    pub params_reserved: [u32; 10],
    /// [`WAIT_SKIP_NVSCIBUF_MEMSYNC`].
    pub flags: u32,
    /// 0.
    pub reserved: [u32; 16],
}

impl SemaphoreWaitParams {
    /// Parameters of a binary semaphore: every byte is 0.
    pub const BINARY: Self = Self {
        fence_value: 0,
        nv_sci_fence: ptr::null_mut(),
        key: 0,
        timeout_ms: 0,
        padding: 0,
        params_reserved: [0; 10],
        flags: 0,
        reserved: [0; 16],
    };

    /// Encodes parameters. Returns `None` for variants without an encoding.
    #[must_use]
    #[inline]
    pub fn new(params: &WaitParams) -> Option<Self> {
        Some(match *params {
            WaitParams::Binary => Self::BINARY,
            WaitParams::Value(fence_value) => Self { fence_value, ..Self::BINARY },
            WaitParams::Key { key, timeout } => Self { key, timeout_ms: timeout_ms(timeout), ..Self::BINARY },
            WaitParams::NvSciSync { fence, skip_memsync } => Self {
                nv_sci_fence: fence.as_raw(),
                flags: if skip_memsync { WAIT_SKIP_NVSCIBUF_MEMSYNC } else { 0 },
                ..Self::BINARY
            },
            _ => return None,
        })
    }
}

/// `CUDA_EXT_SEM_SIGNAL_NODE_PARAMS`, `hipExternalSemaphoreSignalNodeParams` and the `WAIT` structs of the same layout.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SemaphoreNodeParams<T> {
    /// Handles of the semaphores. The driver only reads them.
    pub semaphores: *const usize,
    /// One parameter block per semaphore.
    pub params: *const T,
    /// Number of semaphores.
    pub count: c_uint,
}

/// Converts a timeout to milliseconds, rounded up so that a wait never times out early. Longer finite timeouts are
/// clamped to `INFINITE_MS - 1`.
fn timeout_ms(timeout: Option<Duration>) -> u32 {
    match timeout {
        None => INFINITE_MS,
        Some(timeout) => {
            u32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(INFINITE_MS).min(INFINITE_MS - 1)
        }
    }
}

// Layout on 64-bit systems according to the vendors' headers.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<MemoryHandleDesc>() == 104);
    assert!(offset_of!(MemoryHandleDesc, handle) == 8);
    assert!(offset_of!(MemoryHandleDesc, size) == 24);
    assert!(offset_of!(MemoryHandleDesc, flags) == 32);
    assert!(size_of::<MemoryBufferDesc>() == 88);
    assert!(size_of::<SemaphoreHandleDesc>() == 96);
    assert!(offset_of!(SemaphoreHandleDesc, flags) == 24);
    assert!(size_of::<SemaphoreSignalParams>() == 144);
    assert!(offset_of!(SemaphoreSignalParams, flags) == 72);
    assert!(size_of::<SemaphoreNodeParams<SemaphoreSignalParams>>() == 24);
    assert!(size_of::<SemaphoreWaitParams>() == 144);
    assert!(offset_of!(SemaphoreWaitParams, params_reserved) == 32);
    assert!(offset_of!(SemaphoreWaitParams, flags) == 72);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_up_and_only_none_is_infinite() {
        assert_eq!(timeout_ms(None), INFINITE_MS);
        assert_eq!(timeout_ms(Some(Duration::ZERO)), 0);
        assert_eq!(timeout_ms(Some(Duration::from_nanos(1))), 1);
        assert_eq!(timeout_ms(Some(Duration::from_millis(7))), 7);
        assert_eq!(timeout_ms(Some(Duration::MAX)), INFINITE_MS - 1);
    }
}
