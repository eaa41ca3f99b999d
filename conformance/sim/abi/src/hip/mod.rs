//! Behaviour of HIP's runtime that does not depend on the simulated device: current devices, validation of imports,
//! external semaphores that have no effect on Linux, code objects, names of codes.
//!
//! A simulator exports the functions with [`hip_entries!`](crate::hip_entries).

pub mod allocation;
pub mod behaviour;
pub mod code_object;
pub mod device;
pub mod era;
pub mod error;
pub mod generation;
pub mod physical;
pub mod rows;
#[cfg(target_os = "linux")]
pub mod semaphore;

/// Exports the functions of HIP that are the same for every [`Runtime`](device::Runtime): those of devices and of status
/// codes.
#[macro_export]
macro_rules! hip_entries {
    ($runtime:expr) => {
        $crate::entries! {
            fn hipInit(flags: ::std::ffi::c_uint) {
                $crate::hip::device::init(&$runtime, flags)
            }

            fn hipRuntimeGetVersion(version: *mut ::std::ffi::c_int) gives version {
                $crate::give(version, $crate::hip::generation::Generation::now().version())
            }

            fn hipDriverGetVersion(version: *mut ::std::ffi::c_int) gives version {
                $crate::give(version, $crate::hip::generation::Generation::now().version())
            }

            fn hipGetDeviceCount(count: *mut ::std::ffi::c_int) gives count {
                $crate::hip::device::count(&$runtime, count)
            }

            fn hipDeviceGet(device: *mut ::std::ffi::c_int, ordinal: ::std::ffi::c_int) gives device {
                $crate::hip::device::get(&$runtime, device, ordinal)
            }

            fn hipGetDevice(device: *mut ::std::ffi::c_int) gives device {
                $crate::hip::device::get_current(&$runtime, device)
            }

            fn hipSetDevice(device: ::std::ffi::c_int) {
                $crate::hip::device::set_current(&$runtime, device)
            }

            fn hipDeviceGetName(
                text: *mut ::std::ffi::c_char,
                length: ::std::ffi::c_int,
                device: ::std::ffi::c_int,
            ) {
                $crate::hip::device::name(&$runtime, text, length, device)
            }

            fn hipDeviceGetPCIBusId(
                text: *mut ::std::ffi::c_char,
                length: ::std::ffi::c_int,
                device: ::std::ffi::c_int,
            ) {
                $crate::hip::device::pci(&$runtime, text, length, device)
            }

            fn hipDeviceGetUuid(uuid: *mut [u8; 16], device: ::std::ffi::c_int) gives uuid {
                $crate::hip::device::uuid(&$runtime, uuid, device)
            }

            fn hipDeviceGetAttribute(
                value: *mut ::std::ffi::c_int,
                number: ::std::ffi::c_uint,
                device: ::std::ffi::c_int,
            ) gives value {
                $crate::hip::device::attribute(&$runtime, value, number, device)
            }

            fn hipGetDevicePropertiesR0600(
                properties: *mut $crate::hip::Properties,
                device: ::std::ffi::c_int,
            ) gives properties {
                $crate::hip::device::properties(&$runtime, properties, device)
            }

            fn hipGetDeviceProperties(properties: *mut ::std::ffi::c_void, device: ::std::ffi::c_int) {
                $crate::hip::device::properties_5(&$runtime, properties, device)
            }

            fn hipDeviceSynchronize() {
                $crate::hip::device::synchronize(&$runtime)
            }
        }

        /// Simulates `hipGetErrorName`: an unknown code has the name of the unknown error.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the vendor's interface")]
        pub extern "C" fn hipGetErrorName(code: u32) -> *const ::std::ffi::c_char {
            $crate::hip::error::answer("hipGetErrorName", $crate::hip::error::name(code))
        }

        /// Simulates `hipGetErrorString`.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the vendor's interface")]
        pub extern "C" fn hipGetErrorString(code: u32) -> *const ::std::ffi::c_char {
            $crate::hip::error::answer("hipGetErrorString", $crate::hip::error::text(code))
        }
    };
}

/// Exports the functions of external semaphores as on Linux.
#[macro_export]
macro_rules! hip_semaphore_stubs {
    ($runtime:expr) => {
        $crate::entries! {
            fn hipImportExternalSemaphore(semaphore: *mut usize, desc: *const ::std::ffi::c_void) gives semaphore
                failing |_code| $crate::hip::semaphore::import_failed(desc);
            {
                $crate::hip::semaphore::import(&$runtime, semaphore, desc)
            }

            fn hipSignalExternalSemaphoresAsync(
                semaphores: *const usize,
                params: *const ::std::ffi::c_void,
                count: ::std::ffi::c_uint,
                stream: usize,
            ) {
                $crate::hip::semaphore::ignore(&$runtime, semaphores, params, count, stream)
            }

            fn hipWaitExternalSemaphoresAsync(
                semaphores: *const usize,
                params: *const ::std::ffi::c_void,
                count: ::std::ffi::c_uint,
                stream: usize,
            ) {
                $crate::hip::semaphore::ignore(&$runtime, semaphores, params, count, stream)
            }

            fn hipDestroyExternalSemaphore(semaphore: usize) {
                $crate::hip::semaphore::destroy(&$runtime, semaphore)
            }
        }
    };
}

#[doc(hidden)]
pub use cubecl_hip_sys::hipDeviceProp_tR0600 as Properties;
