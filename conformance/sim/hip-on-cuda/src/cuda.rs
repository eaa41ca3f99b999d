//! NVIDIA's driver: its functions, loaded at the first call, its status codes as HIP's, and its contexts.
//!
//! HIP has no contexts: a call makes its device's context current, and restores the previous one.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::io::Write as _;
use std::ops::Deref;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use cubecl_hip_sys as hip;
use cudarc::driver::sys;
use cudarc::driver::sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUcontext, CUctx_st, CUdevice,
    CUdevice_attribute, CUdeviceptr, CUevent, CUexternalMemory, CUfunction, CUgraph, CUgraphExec, CUhostFn,
    CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmodule, CUresult, CUstream, CUstreamCaptureMode, CUuuid, cudaError_enum as Code,
};
use gpu_interop_sim_abi::code::INVALID_DEVICE;
pub(crate) use gpu_interop_sim_abi::code::{
    INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, OUT_OF_MEMORY, reject_if,
};
use gpu_interop_sim_abi::hip::device;
use gpu_interop_sim_abi::{code, report, settings};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The variable that replaces [`LIBRARY`].
const VARIABLE: &str = "GPU_INTEROP_SIM_CUDA_LIBRARY";
const LIBRARY: &str = "libcuda.so.1";
/// The symbol of a simulator of NVIDIA's driver.
const MARKER: &[u8] = b"gpu_interop_simulated\0";

macro_rules! functions {
    // Functions of HIP that are one call of the driver's, with the same arguments.
    (passed on { $($hip:ident = $cuda:ident($($argument:ident: $of:ty),*);)* } $($rest:tt)*) => {
        functions! { $( $cuda($($of),*); )* $($rest)* }
        gpu_interop_sim_abi::entries! {
            $( fn $hip($($argument: $of),*) { $crate::cuda::call!($cuda($($argument),*)) } )*
        }
    };
    ($($name:ident($($type:ty),* $(,)?);)*) => {
        /// The driver's functions, by their own names. They return a number, which the header need not define.
        #[derive(Debug)]
        #[allow(non_snake_case, reason = "the vendor's names")]
        pub(crate) struct Functions {
            $( pub(crate) $name: unsafe extern "C" fn($($type),*) -> u32, )*
        }

        // The types of the arguments are those of the vendor's header.
        $( const _: unsafe fn($($type),*) -> CUresult = sys::$name; )*

        impl Functions {
            /// # Safety
            /// The library is NVIDIA's driver, and is never unloaded.
            unsafe fn load(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the caller's promise, and the types of the header.
                    $( $name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?, )*
                })
            }
        }
    };
}

functions! {
    passed on {
        hipStreamSynchronize = cuStreamSynchronize(stream: CUstream);
        hipStreamQuery = cuStreamQuery(stream: CUstream);
        hipMemGetInfo = cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        hipMemAddressFree = cuMemAddressFree(pointer: CUdeviceptr, size: usize);
        hipMemUnmap = cuMemUnmap(pointer: CUdeviceptr, size: usize);
        hipGraphLaunch = cuGraphLaunch(graph: CUgraphExec, stream: CUstream);
        hipGraphExecDestroy = cuGraphExecDestroy(graph: CUgraphExec);
        hipGraphDestroy = cuGraphDestroy(graph: CUgraph);
    }
    cuInit(c_uint);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxGetCurrent(*mut CUcontext);
    cuCtxPushCurrent_v2(CUcontext);
    cuCtxPopCurrent_v2(*mut CUcontext);
    cuCtxSynchronize();
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemsetD8Async(CUdeviceptr, c_uchar, usize, CUstream);
    cuMemsetD32Async(CUdeviceptr, c_uint, usize, CUstream);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuStreamWaitValue32_v2(CUstream, CUdeviceptr, u32, c_uint);
    cuStreamWaitValue64_v2(CUstream, CUdeviceptr, u64, c_uint);
    cuStreamWriteValue32_v2(CUstream, CUdeviceptr, u32, c_uint);
    cuStreamWriteValue64_v2(CUstream, CUdeviceptr, u64, c_uint);
    cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
    cuStreamEndCapture(CUstream, *mut CUgraph);
    cuThreadExchangeStreamCaptureMode(*mut CUstreamCaptureMode);
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong);
    cuLaunchHostFunc(CUstream, CUhostFn, *mut c_void);
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
        *mut *mut c_void);
    cuMemGetAllocationGranularity(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    cuMemCreate(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
    cuMemRelease(CUmemGenericAllocationHandle);
    cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
    cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    cuMemExportToShareableHandle(*mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong);
    cuImportExternalMemory(*mut CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
    cuExternalMemoryGetMappedBuffer(*mut CUdeviceptr, CUexternalMemory, *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
    cuDestroyExternalMemory(CUexternalMemory);
}

/// The driver, initialised.
#[derive(Debug)]
pub(crate) struct Cuda {
    pub(crate) functions: Functions,
    /// CUDA's device, and its primary context once it was retained, by HIP's number.
    pub(crate) devices: Vec<(CUdevice, AtomicPtr<CUctx_st>)>,
}

/// The driver, loaded once. A failure is a HIP code, and final.
pub(crate) fn cuda() -> Result<&'static Cuda, u32> {
    static CUDA: OnceLock<Result<Cuda, u32>> = OnceLock::new();
    CUDA.get_or_init(Cuda::start).as_ref().map_err(|code| *code)
}

impl Cuda {
    fn start() -> Result<Self, u32> {
        let functions = load().map_err(|problem| {
            // HIP has no code for the reason, so it is printed.
            let _ = writeln!(std::io::stderr(), "HIP on CUDA: {problem}; name the library with {VARIABLE}");
            code::NO_DEVICE
        })?;
        // SAFETY: 0 is the only valid flag.
        check(unsafe { (functions.cuInit)(0) })?;
        let mut count = 0;
        // SAFETY: the pointer is valid for the call.
        check(unsafe { (functions.cuDeviceGetCount)(&raw mut count) })?;
        let device = |ordinal| {
            let mut device = 0;
            // SAFETY: the pointer is valid for the call.
            check(unsafe { (functions.cuDeviceGet)(&raw mut device, ordinal) })?;
            Ok((device, AtomicPtr::default()))
        };
        // Of the devices that CUDA shows by its own variable. An empty list shows none.
        let list = settings::text("HIP_VISIBLE_DEVICES");
        let visible = settings::visible(list.as_deref(), count);
        let devices = visible.into_iter().map(device).collect::<Result<Vec<_>, u32>>()?;
        if devices.is_empty() { Err(code::NO_DEVICE) } else { Ok(Self { functions, devices }) }
    }

    /// The number of devices.
    pub(crate) fn count(&self) -> c_int {
        c_int::try_from(self.devices.len()).unwrap_or(c_int::MAX)
    }
}

fn load() -> Result<Functions, libloading::Error> {
    let name = settings::text(VARIABLE).unwrap_or_else(|| LIBRARY.into());
    // SAFETY: NVIDIA's driver, or the file that the user named as such: supports loading at run time. Leaked, so that
    // it is never unloaded.
    let library = Box::leak(Box::new(unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }?));
    // SAFETY: as above.
    let functions = unsafe { Functions::load(library) }?;
    // SAFETY: the address is never dereferenced.
    if unsafe { library.get::<*const c_void>(MARKER) }.is_err() {
        report::works_on_gpu();
    }
    Ok(functions)
}

/// `CUDA_SUCCESS`.
const SUCCESS: u32 = Code::CUDA_SUCCESS as u32;

/// Codes with the same meaning. Most have the same number, too, which the table does not rely on.
const SAME: &[(Code, hip::hipError_t)] = &[
    (Code::CUDA_ERROR_INVALID_VALUE, hip::hipError_t_hipErrorInvalidValue),
    (Code::CUDA_ERROR_OUT_OF_MEMORY, hip::hipError_t_hipErrorOutOfMemory),
    (Code::CUDA_ERROR_NOT_INITIALIZED, hip::hipError_t_hipErrorNotInitialized),
    (Code::CUDA_ERROR_DEINITIALIZED, hip::hipError_t_hipErrorDeinitialized),
    (Code::CUDA_ERROR_STUB_LIBRARY, hip::hipError_t_hipErrorNoDevice),
    (Code::CUDA_ERROR_NO_DEVICE, hip::hipError_t_hipErrorNoDevice),
    (Code::CUDA_ERROR_INVALID_DEVICE, hip::hipError_t_hipErrorInvalidDevice),
    (Code::CUDA_ERROR_INVALID_IMAGE, hip::hipError_t_hipErrorInvalidImage),
    (Code::CUDA_ERROR_INVALID_CONTEXT, hip::hipError_t_hipErrorInvalidContext),
    (Code::CUDA_ERROR_MAP_FAILED, hip::hipError_t_hipErrorMapFailed),
    (Code::CUDA_ERROR_UNMAP_FAILED, hip::hipError_t_hipErrorUnmapFailed),
    (Code::CUDA_ERROR_ALREADY_MAPPED, hip::hipError_t_hipErrorAlreadyMapped),
    (Code::CUDA_ERROR_NO_BINARY_FOR_GPU, hip::hipError_t_hipErrorNoBinaryForGpu),
    (Code::CUDA_ERROR_NOT_MAPPED, hip::hipError_t_hipErrorNotMapped),
    (Code::CUDA_ERROR_ECC_UNCORRECTABLE, hip::hipError_t_hipErrorECCNotCorrectable),
    (Code::CUDA_ERROR_INVALID_PTX, hip::hipError_t_hipErrorInvalidKernelFile),
    (Code::CUDA_ERROR_INVALID_SOURCE, hip::hipError_t_hipErrorInvalidSource),
    (Code::CUDA_ERROR_OPERATING_SYSTEM, hip::hipError_t_hipErrorOperatingSystem),
    (Code::CUDA_ERROR_INVALID_HANDLE, hip::hipError_t_hipErrorInvalidHandle),
    (Code::CUDA_ERROR_ILLEGAL_STATE, hip::hipError_t_hipErrorIllegalState),
    (Code::CUDA_ERROR_NOT_FOUND, hip::hipError_t_hipErrorNotFound),
    (Code::CUDA_ERROR_NOT_READY, hip::hipError_t_hipErrorNotReady),
    (Code::CUDA_ERROR_ILLEGAL_ADDRESS, hip::hipError_t_hipErrorIllegalAddress),
    (Code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, hip::hipError_t_hipErrorLaunchOutOfResources),
    (Code::CUDA_ERROR_LAUNCH_TIMEOUT, hip::hipError_t_hipErrorLaunchTimeOut),
    (Code::CUDA_ERROR_CONTEXT_IS_DESTROYED, hip::hipError_t_hipErrorContextIsDestroyed),
    (Code::CUDA_ERROR_ASSERT, hip::hipError_t_hipErrorAssert),
    (Code::CUDA_ERROR_LAUNCH_FAILED, hip::hipError_t_hipErrorLaunchFailure),
    (Code::CUDA_ERROR_NOT_SUPPORTED, hip::hipError_t_hipErrorNotSupported),
    (Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, hip::hipError_t_hipErrorInsufficientDriver),
];

/// HIP's code for a CUDA code; codes without an equivalent are `hipErrorUnknown`.
pub(crate) fn check(answer: u32) -> Result<(), u32> {
    if answer == SUCCESS {
        return Ok(());
    }
    let same = SAME.iter().find(|(cuda, _)| *cuda as u32 == answer);
    Err(same.map_or(hip::hipError_t_hipErrorUnknown, |(_, hip)| *hip))
}

/// A device's context is current on this thread while this lives.
#[derive(Debug)]
pub(crate) struct Current {
    cuda: &'static Cuda,
    pushed: bool,
}

/// Makes the thread's current device current in CUDA.
pub(crate) fn enter() -> Result<Current, u32> {
    enter_device(device::current())
}

/// Makes a device current in CUDA.
pub(crate) fn enter_device(device: c_int) -> Result<Current, u32> {
    let cuda = cuda()?;
    let context = cuda.context(device)?;
    let mut current = ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    check(unsafe { (cuda.functions.cuCtxGetCurrent)(&raw mut current) })?;
    let pushed = current != context;
    if pushed {
        // SAFETY: the context is retained and therefore live.
        check(unsafe { (cuda.functions.cuCtxPushCurrent_v2)(context) })?;
    }
    Ok(Current { cuda, pushed })
}

impl Deref for Current {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.cuda.functions
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: pops what `enter_device` pushed on this thread: this never leaves the call that created it.
            let _ = unsafe { (self.cuda.functions.cuCtxPopCurrent_v2)(&raw mut popped) };
        }
    }
}

impl Cuda {
    /// The primary context of a device, retained once and never released, so that objects that a caller leaks live as
    /// long as with HIP.
    fn context(&self, device: c_int) -> Result<CUcontext, u32> {
        let place = usize::try_from(device).ok().and_then(|device| self.devices.get(device));
        let (device, kept) = place.ok_or(INVALID_DEVICE)?;
        let known = kept.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        check(unsafe { (self.functions.cuDevicePrimaryCtxRetain)(&raw mut context, *device) })?;
        if kept.compare_exchange(ptr::null_mut(), context, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread retained the same context first. SAFETY: undoes the call above.
            let _ = unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(*device) };
        }
        Ok(context)
    }
}

/// Calls a CUDA function with the thread's device current. Expands inside an unsafe block.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let cuda = $crate::cuda::enter()?;
        $crate::cuda::check((cuda.$function)($($argument),*))
    }};
}

pub(crate) use call;

/// As [`call`], for functions that write their result to their first argument.
macro_rules! make {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let mut made = ::std::default::Default::default();
        $crate::cuda::call!($function(&raw mut made $(, $argument)*)).map(|()| made)
    }};
}

pub(crate) use make;

#[cfg(test)]
mod tests {
    use gpu_interop_sim_abi::hip::error;

    use super::*;

    #[test]
    fn codes_are_translated_and_others_are_unknown() {
        assert_eq!(check(0), Ok(()));
        assert_eq!(check(719), Err(hip::hipError_t_hipErrorLaunchFailure));
        assert_eq!(check(803), Err(hip::hipError_t_hipErrorInsufficientDriver));
        assert_eq!([check(54321), check(u32::MAX), check(999), check(34567)], [Err(999); 4]);
        for (cuda, hip) in SAME {
            assert_ne!(error::name(*hip), c"hipErrorUnknown", "{cuda:?} has a name in HIP");
        }
    }
}
