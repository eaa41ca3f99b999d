//! HIP's functions, with the types of AMD's header where they are structs.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use cubecl_hip_sys as hip;
use libloading::os::unix::Library;

/// Status codes.
pub(crate) const SUCCESS: u32 = hip::hipError_t_hipSuccess;
pub(crate) const INVALID_VALUE: u32 = hip::hipError_t_hipErrorInvalidValue;
pub(crate) const OUT_OF_MEMORY: u32 = hip::hipError_t_hipErrorOutOfMemory;
pub(crate) const NO_DEVICE: u32 = hip::hipError_t_hipErrorNoDevice;
pub(crate) const INVALID_DEVICE: u32 = hip::hipError_t_hipErrorInvalidDevice;
pub(crate) const INVALID_IMAGE: u32 = hip::hipError_t_hipErrorInvalidImage;
pub(crate) const NO_BINARY_FOR_GPU: u32 = hip::hipError_t_hipErrorNoBinaryForGpu;
pub(crate) const NOT_FOUND: u32 = hip::hipError_t_hipErrorNotFound;
pub(crate) const NOT_READY: u32 = hip::hipError_t_hipErrorNotReady;
pub(crate) const NOT_SUPPORTED: u32 = hip::hipError_t_hipErrorNotSupported;

/// An opaque handle, and the address of memory.
pub(crate) type Handle = usize;

pub(crate) type MemoryDesc = hip::hipExternalMemoryHandleDesc_st;
pub(crate) type BufferDesc = hip::hipExternalMemoryBufferDesc_st;
pub(crate) type SemaphoreDesc = hip::hipExternalSemaphoreHandleDesc_st;
pub(crate) type SignalParams = hip::hipExternalSemaphoreSignalParams_st;
pub(crate) type WaitParams = hip::hipExternalSemaphoreWaitParams_st;
pub(crate) type Properties = hip::hipDeviceProp_tR0600;

macro_rules! functions {
    ($($name:ident($($type:ty),* $(,)?);)*) => {
        /// The library.
        #[derive(Debug)]
        #[allow(non_snake_case, reason = "the vendor's names")]
        pub(crate) struct Hip {
            pub(crate) library: &'static Library,
            $( pub(crate) $name: unsafe extern "C" fn($($type),*) -> u32, )*
        }

        impl Hip {
            /// Loads the library, which is never unloaded.
            pub(crate) fn open(file: &OsStr) -> Self {
                // SAFETY: a library of this workspace, or the file that the user named as AMD's runtime.
                let library = Box::leak(Box::new(unsafe { Library::new(file) }.expect("the library")));
                Self {
                    library,
                    // SAFETY: the types of the header, with numbers for opaque values.
                    $( $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }.expect("a function"), )*
                }
            }
        }
    };
}

functions! {
    hipInit(c_uint);
    hipGetDeviceCount(*mut c_int);
    hipGetDevice(*mut c_int);
    hipDeviceGetAttribute(*mut c_int, c_uint, c_int);
    hipSetDevice(c_int);
    hipDeviceGetName(*mut c_char, c_int, c_int);
    hipDeviceGetPCIBusId(*mut c_char, c_int, c_int);
    hipDeviceGetUuid(*mut [u8; 16], c_int);
    hipGetDevicePropertiesR0600(*mut Properties, c_int);
    hipDeviceSynchronize();
    hipMalloc(*mut Handle, usize);
    hipExtMallocWithFlags(*mut Handle, usize, c_uint);
    hipFree(Handle);
    hipHostMalloc(*mut Handle, usize, c_uint);
    hipHostFree(Handle);
    hipHostGetDevicePointer(*mut Handle, Handle, c_uint);
    hipMemcpyDtoHAsync(*mut c_void, Handle, usize, Handle);
    hipMemcpyHtoDAsync(Handle, *const c_void, usize, Handle);
    hipStreamCreateWithFlags(*mut Handle, c_uint);
    hipStreamDestroy(Handle);
    hipStreamSynchronize(Handle);
    hipStreamQuery(Handle);
    hipStreamWaitValue32(Handle, Handle, u32, c_uint, u32);
    hipStreamWaitValue64(Handle, Handle, u64, c_uint, u64);
    hipStreamWriteValue64(Handle, Handle, u64, c_uint);
    hipModuleLoadData(*mut Handle, *const c_void);
    hipModuleUnload(Handle);
    hipModuleGetFunction(*mut Handle, Handle, *const c_char);
    hipModuleLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
        *mut *mut c_void);
    hipMemGetAllocationGranularity(*mut usize, *const hip::hipMemAllocationProp, c_uint);
    hipMemCreate(*mut Handle, usize, *const hip::hipMemAllocationProp, u64);
    hipMemRelease(Handle);
    hipMemExportToShareableHandle(*mut c_int, Handle, c_uint, u64);
    hipImportExternalMemory(*mut Handle, *const MemoryDesc);
    hipExternalMemoryGetMappedBuffer(*mut Handle, Handle, *const BufferDesc);
    hipDestroyExternalMemory(Handle);
    hipImportExternalSemaphore(*mut Handle, *const SemaphoreDesc);
    hipSignalExternalSemaphoresAsync(*const Handle, *const SignalParams, c_uint, Handle);
    hipWaitExternalSemaphoresAsync(*const Handle, *const WaitParams, c_uint, Handle);
    hipDestroyExternalSemaphore(Handle);
}

/// Calls a function and returns its status.
macro_rules! call {
    ($hip:ident.$function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: pointers are valid for the call, or NULL, or invalid on purpose if the function rejects them; memory
        // of enqueued work is valid until it has run.
        unsafe { ($hip.$function)($($argument),*) }
    };
}
pub(crate) use call;

/// Calls a function that must succeed, and returns the value that it writes to its first argument.
macro_rules! made {
    ($hip:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        let mut made = ::std::default::Default::default();
        let status = $crate::hip_calls::table::call!($hip.$function(&raw mut made $(, $argument)*));
        assert_eq!(status, $crate::hip_calls::table::SUCCESS, "{}", stringify!($function));
        made
    }};
}
pub(crate) use made;

/// The number of calls of a library's function, which simulators count.
pub(crate) fn calls(library: &Library, function: &CStr) -> u64 {
    // SAFETY: the type of the function.
    let calls = unsafe { library.get::<unsafe extern "C" fn(*const c_char) -> u64>(b"sim_calls\0") };
    // SAFETY: a string.
    unsafe { calls.expect("a counter")(function.as_ptr()) }
}

impl Hip {
    /// A text of a function that fills a buffer.
    pub(crate) fn text(fill: impl FnOnce(*mut c_char, c_int) -> u32) -> String {
        let mut text: [c_char; 256] = [0; 256];
        assert_eq!(fill(text.as_mut_ptr(), 255), SUCCESS);
        // SAFETY: the last byte is a NUL, whatever the call wrote.
        unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().expect("UTF-8").to_owned()
    }

    /// `true` if NVIDIA's driver does the work.
    pub(crate) fn is_on_cuda(&self) -> bool {
        Self::text(|text, length| call!(self.hipDeviceGetName(text, length, 0))).ends_with(" (HIP on CUDA)")
    }

    /// Creates a stream.
    pub(crate) fn stream(&self) -> Handle {
        made!(self.hipStreamCreateWithFlags(1))
    }

    /// Reads the device's memory.
    pub(crate) fn read(&self, from: Handle, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        assert_eq!(call!(self.hipMemcpyDtoHAsync(bytes.as_mut_ptr().cast(), from, size, 0)), SUCCESS);
        assert_eq!(call!(self.hipStreamSynchronize(0)), SUCCESS);
        bytes
    }

    /// Writes to the device's memory.
    pub(crate) fn write(&self, to: Handle, bytes: &[u8]) {
        assert_eq!(call!(self.hipMemcpyHtoDAsync(to, bytes.as_ptr().cast(), bytes.len(), 0)), SUCCESS);
        assert_eq!(call!(self.hipStreamSynchronize(0)), SUCCESS);
    }

    /// Exports the device's memory as for another process: a descriptor, and the size.
    pub(crate) fn export(&self) -> (OwnedFd, u64) {
        let prop = hip::hipMemAllocationProp {
            type_: hip::hipMemAllocationType_hipMemAllocationTypePinned,
            __bindgen_anon_1: hip::hipMemAllocationProp__bindgen_ty_1 {
                requestedHandleType: hip::hipMemAllocationHandleType_hipMemHandleTypePosixFileDescriptor,
            },
            location: hip::hipMemLocation { type_: hip::hipMemLocationType_hipMemLocationTypeDevice, id: 0 },
            win32HandleMetaData: ptr::null_mut(),
            allocFlags: hip::hipMemAllocationProp__bindgen_ty_2 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
            },
        };
        let size: usize = made!(self.hipMemGetAllocationGranularity(&raw const prop, 0));
        let memory: Handle = made!(self.hipMemCreate(size, &raw const prop, 0));
        let fd: c_int = made!(self.hipMemExportToShareableHandle(memory, 1, 0));
        assert_eq!(call!(self.hipMemRelease(memory)), SUCCESS);
        // SAFETY: a successful export creates a new descriptor for the caller.
        (unsafe { OwnedFd::from_raw_fd(fd) }, size as u64)
    }
}
