//! Table of the functions that both vendors' drivers export, with each vendor's names.
//!
//! Opaque handles are pointer-sized integers here. Image descriptors differ between the vendors: functions take them as
//! untyped pointers, and [`Vendor`](crate::Vendor) encodes them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use gpu_interop_core::Result;
use gpu_interop_core::backend::HostFunction;

use crate::abi::{
    MemoryBufferDesc, MemoryHandleDesc, SemaphoreHandleDesc, SemaphoreNodeParams, SemaphoreSignalParams,
    SemaphoreWaitParams,
};
use crate::exportable::abi::{MemAccessDesc, MemAllocationProp};
use crate::library::DriverLibrary;
use crate::status::Status;
use crate::symbol::{ApiVersion, MissingSymbol, OptionalFunction};
use crate::texture::{ResourceDesc, TextureDesc};

/// `CUdevice`, `hipDevice_t`.
pub type DeviceNumber = c_int;
/// `CUcontext`, `CUstream`, `hipStream_t`, `hipExternalMemory_t`, ...: opaque pointers.
pub type Handle = usize;
/// `CUdeviceptr`, `hipDeviceptr_t`.
pub type DeviceAddress = u64;

/// `CU_STREAM_NON_BLOCKING`, `hipStreamNonBlocking`.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`, `hipEventDisableTiming`.
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;

/// Vendor whose names the functions are looked up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// NVIDIA: `cu...`.
    Cuda,
    /// AMD: `hip...`.
    Hip,
}

impl Naming {
    /// Name of the backend.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.pick("cuda", "hip")
    }

    /// Name of the API in versions and messages.
    #[must_use]
    pub fn api(self) -> &'static str {
        self.pick("CUDA", "HIP")
    }

    fn pick<T>(self, cuda: T, hip: T) -> T {
        match self {
            Self::Cuda => cuda,
            Self::Hip => hip,
        }
    }
}

/// Function that every driver exports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Required<F> {
    /// Name in the vendor's documentation, used in errors.
    pub(crate) operation: &'static str,
    function: F,
}

/// Function that a driver may lack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Optional<F> {
    /// Name in the vendor's documentation, used in errors.
    pub(crate) operation: &'static str,
    pub(crate) function: OptionalFunction<F>,
}

impl<F: Copy> Required<F> {
    /// Same signature as [`Optional::require`]; never fails.
    #[inline]
    #[allow(clippy::unnecessary_wraps, reason = "same signature as for optional functions")]
    pub(crate) fn require(&self, _driver: &ApiVersion) -> Result<F> {
        Ok(self.function)
    }

    #[inline]
    pub(crate) fn get(&self) -> F {
        self.function
    }
}

impl<F: Copy> Optional<F> {
    #[inline]
    pub(crate) fn require(&self, driver: &ApiVersion) -> Result<F> {
        self.function.require(driver)
    }
}

/// Symbol name as a C string.
macro_rules! symbol {
    ($name:ident) => {
        const {
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                // An identifier has no NUL.
                Err(_) => c"",
            }
        }
    };
}

/// Documented name of a function: its symbol, or the given name if the symbol has a version suffix.
macro_rules! operation {
    ($symbol:ident) => {
        stringify!($symbol)
    };
    ($symbol:ident $name:literal) => {
        $name
    };
}

macro_rules! functions {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $table:ident {
            required { $( $required:ident($($required_type:ty),* $(,)?)
                = $cuda:ident $(as $cuda_name:literal)?, $hip:ident; )* }
            optional { $( $optional:ident($($optional_type:ty),* $(,)?)
                = $optional_cuda:ident $(as $optional_cuda_name:literal)? since $cuda_since:tt,
                  $optional_hip:ident since $hip_since:tt; )* }
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[allow(clippy::type_complexity)]
        $visibility struct $table {
            $( pub(crate) $required: Required<unsafe extern "system" fn($($required_type),*) -> Status>, )*
            $( pub(crate) $optional: Optional<unsafe extern "system" fn($($optional_type),*) -> Status>, )*
        }

        impl $table {
            /// Looks up every function by its name in `naming`.
            ///
            /// # Safety
            /// The library is that vendor's driver.
            pub(crate) unsafe fn load(
                library: &DriverLibrary,
                naming: Naming,
            ) -> std::result::Result<Self, MissingSymbol> {
                Ok(Self {
                    $( $required: {
                        let symbol = naming.pick(symbol!($cuda), symbol!($hip));
                        // SAFETY: the library is the vendor's, and the table has the types of the vendor's header.
                        let function = unsafe { library.symbol(symbol) }.ok_or(MissingSymbol(symbol))?;
                        Required { operation: naming.pick(operation!($cuda $($cuda_name)?), operation!($hip)), function }
                    }, )*
                    $( $optional: {
                        let symbol = naming.pick(symbol!($optional_cuda), symbol!($optional_hip));
                        let since = naming.pick($cuda_since, $hip_since);
                        // SAFETY: as above.
                        let function = OptionalFunction::new(symbol, since, unsafe { library.symbol(symbol) });
                        let operation = operation!($optional_cuda $($optional_cuda_name)?);
                        Optional { operation: naming.pick(operation, operation!($optional_hip)), function }
                    }, )*
                })
            }
        }
    };
}

impl Functions {
    /// Symbol of the function that returns the driver's version.
    pub(crate) fn version_symbol(naming: Naming) -> &'static CStr {
        naming.pick(c"cuDriverGetVersion", c"hipRuntimeGetVersion")
    }
}

functions! {
    /// Functions of both drivers. A driver without one of the optional functions is usable; `since` gives the versions
    /// of CUDA and HIP that introduced them.
    pub(crate) struct Functions {
        required {
            init(c_uint) = cuInit, hipInit;
            get_version(*mut c_int) = cuDriverGetVersion, hipRuntimeGetVersion;
            device_get_count(*mut c_int) = cuDeviceGetCount, hipGetDeviceCount;
            device_get(*mut DeviceNumber, c_int) = cuDeviceGet, hipDeviceGet;
            device_get_name(*mut c_char, c_int, DeviceNumber) = cuDeviceGetName, hipDeviceGetName;
            device_get_attribute(*mut c_int, c_int, DeviceNumber) = cuDeviceGetAttribute, hipDeviceGetAttribute;
            mem_free(DeviceAddress) = cuMemFree_v2 as "cuMemFree", hipFree;
            memcpy_dtod_async(DeviceAddress, DeviceAddress, usize, Handle)
                = cuMemcpyDtoDAsync_v2 as "cuMemcpyDtoDAsync", hipMemcpyDtoDAsync;
            memcpy_dtoh_async(*mut c_void, DeviceAddress, usize, Handle)
                = cuMemcpyDtoHAsync_v2 as "cuMemcpyDtoHAsync", hipMemcpyDtoHAsync;
            memcpy_htod_async(DeviceAddress, *const c_void, usize, Handle)
                = cuMemcpyHtoDAsync_v2 as "cuMemcpyHtoDAsync", hipMemcpyHtoDAsync;
            memset_d8_async(DeviceAddress, u8, usize, Handle) = cuMemsetD8Async, hipMemsetD8Async;
            memset_d32_async(DeviceAddress, c_uint, usize, Handle) = cuMemsetD32Async, hipMemsetD32Async;
            stream_create(*mut Handle, c_uint) = cuStreamCreate, hipStreamCreateWithFlags;
            stream_destroy(Handle) = cuStreamDestroy_v2 as "cuStreamDestroy", hipStreamDestroy;
            stream_synchronize(Handle) = cuStreamSynchronize, hipStreamSynchronize;
            stream_query(Handle) = cuStreamQuery, hipStreamQuery;
            stream_wait_event(Handle, Handle, c_uint) = cuStreamWaitEvent, hipStreamWaitEvent;
            event_create(*mut Handle, c_uint) = cuEventCreate, hipEventCreateWithFlags;
            event_destroy(Handle) = cuEventDestroy_v2 as "cuEventDestroy", hipEventDestroy;
            event_record(Handle, Handle) = cuEventRecord, hipEventRecord;
            event_query(Handle) = cuEventQuery, hipEventQuery;
        }
        optional {
            import_external_memory(*mut Handle, *const MemoryHandleDesc)
                = cuImportExternalMemory since (10, 0), hipImportExternalMemory since (4, 3);
            get_mapped_buffer(*mut DeviceAddress, Handle, *const MemoryBufferDesc)
                = cuExternalMemoryGetMappedBuffer since (10, 0), hipExternalMemoryGetMappedBuffer since (4, 3);
            get_mapped_mipmapped_array(*mut Handle, Handle, *const c_void)
                = cuExternalMemoryGetMappedMipmappedArray since (10, 0),
                  hipExternalMemoryGetMappedMipmappedArray since (6, 0);
            destroy_external_memory(Handle)
                = cuDestroyExternalMemory since (10, 0), hipDestroyExternalMemory since (4, 3);
            mipmapped_array_get_level(*mut Handle, Handle, c_uint)
                = cuMipmappedArrayGetLevel since (5, 0), hipMipmappedArrayGetLevel since (4, 2);
            mipmapped_array_destroy(Handle)
                = cuMipmappedArrayDestroy since (5, 0), hipMipmappedArrayDestroy since (4, 2);
            memcpy_3d_async(*const c_void, Handle)
                = cuMemcpy3DAsync_v2 as "cuMemcpy3DAsync" since (3, 2), hipDrvMemcpy3DAsync since (4, 2);
            surface_create(*mut u64, *const ResourceDesc)
                = cuSurfObjectCreate since (5, 0), hipCreateSurfaceObject since (4, 2);
            surface_destroy(u64) = cuSurfObjectDestroy since (5, 0), hipDestroySurfaceObject since (4, 2);
            texture_create(*mut u64, *const ResourceDesc, *const TextureDesc, *const c_void)
                = cuTexObjectCreate since (5, 0), hipTexObjectCreate since (4, 2);
            texture_destroy(u64) = cuTexObjectDestroy since (5, 0), hipTexObjectDestroy since (4, 2);
            import_external_semaphore(*mut Handle, *const SemaphoreHandleDesc)
                = cuImportExternalSemaphore since (10, 0), hipImportExternalSemaphore since (4, 3);
            signal_external_semaphores(*const Handle, *const SemaphoreSignalParams, c_uint, Handle)
                = cuSignalExternalSemaphoresAsync since (10, 0), hipSignalExternalSemaphoresAsync since (4, 3);
            wait_external_semaphores(*const Handle, *const SemaphoreWaitParams, c_uint, Handle)
                = cuWaitExternalSemaphoresAsync since (10, 0), hipWaitExternalSemaphoresAsync since (4, 3);
            destroy_external_semaphore(Handle)
                = cuDestroyExternalSemaphore since (10, 0), hipDestroyExternalSemaphore since (4, 3);
            stream_write_value_32(Handle, DeviceAddress, u32, c_uint)
                = cuStreamWriteValue32_v2 as "cuStreamWriteValue32" since (11, 7), hipStreamWriteValue32 since (4, 4);
            stream_write_value_64(Handle, DeviceAddress, u64, c_uint)
                = cuStreamWriteValue64_v2 as "cuStreamWriteValue64" since (11, 7), hipStreamWriteValue64 since (4, 4);
            mem_host_register(*mut c_void, usize, c_uint)
                = cuMemHostRegister_v2 as "cuMemHostRegister" since (6, 5), hipHostRegister since (4, 2);
            mem_host_get_device_pointer(*mut DeviceAddress, *mut c_void, c_uint)
                = cuMemHostGetDevicePointer_v2 as "cuMemHostGetDevicePointer" since (3, 2),
                  hipHostGetDevicePointer since (4, 2);
            mem_host_unregister(*mut c_void) = cuMemHostUnregister since (4, 0), hipHostUnregister since (4, 2);
            launch_host_func(Handle, HostFunction, *mut c_void)
                = cuLaunchHostFunc since (10, 0), hipLaunchHostFunc since (5, 3);
            module_load_data(*mut Handle, *const c_void) = cuModuleLoadData since (2, 0), hipModuleLoadData since (4, 2);
            module_unload(Handle) = cuModuleUnload since (2, 0), hipModuleUnload since (4, 2);
            module_get_function(*mut Handle, Handle, *const c_char)
                = cuModuleGetFunction since (2, 0), hipModuleGetFunction since (4, 2);
            launch_kernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
                *mut *mut c_void) = cuLaunchKernel since (4, 0), hipModuleLaunchKernel since (4, 2);
            stream_begin_capture(Handle, c_uint)
                = cuStreamBeginCapture_v2 as "cuStreamBeginCapture" since (10, 1), hipStreamBeginCapture since (4, 3);
            stream_end_capture(Handle, *mut Handle) = cuStreamEndCapture since (10, 0), hipStreamEndCapture since (4, 3);
            stream_get_capture_info(Handle, *mut c_uint, *mut u64, *mut Handle, *mut *const Handle, *mut usize)
                = cuStreamGetCaptureInfo_v2 as "cuStreamGetCaptureInfo" since (11, 3),
                  hipStreamGetCaptureInfo_v2 since (4, 5);
            thread_exchange_capture_mode(*mut c_uint)
                = cuThreadExchangeStreamCaptureMode since (10, 1), hipThreadExchangeStreamCaptureMode since (4, 3);
            graph_instantiate(*mut Handle, Handle, u64)
                = cuGraphInstantiateWithFlags since (11, 4), hipGraphInstantiateWithFlags since (4, 5);
            graph_launch(Handle, Handle) = cuGraphLaunch since (10, 0), hipGraphLaunch since (4, 3);
            graph_exec_destroy(Handle) = cuGraphExecDestroy since (10, 0), hipGraphExecDestroy since (4, 3);
            graph_destroy(Handle) = cuGraphDestroy since (10, 0), hipGraphDestroy since (4, 3);
            graph_exec_set_signals(Handle, Handle, *const SemaphoreNodeParams<SemaphoreSignalParams>)
                = cuGraphExecExternalSemaphoresSignalNodeSetParams since (11, 2),
                  hipGraphExecExternalSemaphoresSignalNodeSetParams since (6, 1);
            graph_exec_set_waits(Handle, Handle, *const SemaphoreNodeParams<SemaphoreWaitParams>)
                = cuGraphExecExternalSemaphoresWaitNodeSetParams since (11, 2),
                  hipGraphExecExternalSemaphoresWaitNodeSetParams since (6, 1);
            mem_get_allocation_granularity(*mut usize, *const MemAllocationProp, c_uint)
                = cuMemGetAllocationGranularity since (10, 2), hipMemGetAllocationGranularity since (5, 1);
            mem_create(*mut u64, usize, *const MemAllocationProp, u64)
                = cuMemCreate since (10, 2), hipMemCreate since (5, 1);
            mem_release(u64) = cuMemRelease since (10, 2), hipMemRelease since (5, 1);
            mem_address_reserve(*mut DeviceAddress, usize, usize, DeviceAddress, u64)
                = cuMemAddressReserve since (10, 2), hipMemAddressReserve since (5, 1);
            mem_address_free(DeviceAddress, usize) = cuMemAddressFree since (10, 2), hipMemAddressFree since (5, 1);
            mem_map(DeviceAddress, usize, usize, u64, u64) = cuMemMap since (10, 2), hipMemMap since (5, 1);
            mem_unmap(DeviceAddress, usize) = cuMemUnmap since (10, 2), hipMemUnmap since (5, 1);
            mem_set_access(DeviceAddress, usize, *const MemAccessDesc, usize)
                = cuMemSetAccess since (10, 2), hipMemSetAccess since (5, 1);
            mem_export_to_shareable_handle(*mut c_void, u64, c_uint, u64)
                = cuMemExportToShareableHandle since (10, 2), hipMemExportToShareableHandle since (5, 1);
            mem_import_from_shareable_handle(*mut u64, *mut c_void, c_uint)
                = cuMemImportFromShareableHandle since (10, 2), hipMemImportFromShareableHandle since (5, 1);
        }
    }
}
