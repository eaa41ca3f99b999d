//! NVIDIA's driver, loaded at the first call.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::AtomicPtr;

use cudarc::driver::sys::{
    self, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUcontext, CUctx_st, CUdevice,
    CUdevice_attribute, CUdeviceptr, CUevent, CUexternalMemory, CUfunction, CUgraph, CUgraphExec, CUhostFn,
    CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmodule, CUresult, CUstream, CUstreamCaptureMode, CUuuid,
};
use gpu_interop_sim_abi::{code, mark, settings};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The variable that replaces [`LIBRARY`].
const VARIABLE: &str = "GPU_INTEROP_SIM_CUDA_LIBRARY";
const LIBRARY: &str = "libcuda.so.1";
/// The symbol of a simulator of NVIDIA's driver.
const MARKER: &[u8] = b"gpu_interop_simulated\0";

macro_rules! functions {
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
    cuMemGetInfo_v2(*mut usize, *mut usize);
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
    cuStreamSynchronize(CUstream);
    cuStreamQuery(CUstream);
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
    cuGraphLaunch(CUgraphExec, CUstream);
    cuGraphExecDestroy(CUgraphExec);
    cuGraphDestroy(CUgraph);
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
    cuMemAddressFree(CUdeviceptr, usize);
    cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    cuMemUnmap(CUdeviceptr, usize);
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
        crate::code::check(unsafe { (functions.cuInit)(0) })?;
        let mut count = 0;
        // SAFETY: the pointer is valid for the call.
        crate::code::check(unsafe { (functions.cuDeviceGetCount)(&raw mut count) })?;
        let device = |ordinal| {
            let mut device = 0;
            // SAFETY: the pointer is valid for the call.
            crate::code::check(unsafe { (functions.cuDeviceGet)(&raw mut device, ordinal) })?;
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
        mark::works_on_gpu();
    }
    Ok(functions)
}
