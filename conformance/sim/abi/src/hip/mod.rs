//! Behaviour of HIP's runtime that does not depend on the simulated device: current devices, validation of imports,
//! external semaphores that have no effect on Linux, code objects, names of codes.
//!
//! A simulator exports the functions with [`hip_entries!`](crate::hip_entries).

pub mod code_object;
pub mod device;
pub mod error;
pub mod generation;
pub mod memory;
#[cfg(target_os = "linux")]
pub mod semaphore;
pub mod version;

#[doc(hidden)]
pub use cubecl_hip_sys::hipDeviceProp_tR0600 as Properties;

/// Exports the functions of HIP that are the same for every [`Runtime`](device::Runtime): those of devices and of
/// status codes.
#[macro_export]
macro_rules! hip_entries {
    ($runtime:expr) => {
        $crate::entries! {
            fn hipInit(flags: ::std::ffi::c_uint) {
                if $crate::hip::version::Era::now() == $crate::hip::version::Era::Early {
                    return $runtime.ready_early();
                }
                $crate::code::reject_if(flags != 0)?;
                $runtime.ready()
            }

            fn hipRuntimeGetVersion(version: *mut ::std::ffi::c_int) gives version {
                $crate::give(version, $crate::hip::generation::Generation::now().version())
            }

            fn hipDriverGetVersion(version: *mut ::std::ffi::c_int) gives version {
                $crate::give(version, $crate::hip::generation::Generation::now().version())
            }

            fn hipGetDeviceCount(count: *mut ::std::ffi::c_int) gives count {
                let ready = $runtime.ready();
                $crate::give(count, if ready.is_ok() { $runtime.count() } else { 0 })?;
                ready
            }

            fn hipDeviceGet(device: *mut ::std::ffi::c_int, ordinal: ::std::ffi::c_int) gives device {
                $crate::hip::device::check(&$runtime, ordinal)?;
                if device.is_null() && $crate::hip::version::Era::now() == $crate::hip::version::Era::Early {
                    return Err($crate::code::INVALID_DEVICE);
                }
                $crate::give(device, ordinal)
            }

            fn hipGetDevice(device: *mut ::std::ffi::c_int) gives device {
                $runtime.ready()?;
                $crate::give(device, $crate::hip::device::reported_current())
            }

            fn hipSetDevice(device: ::std::ffi::c_int) {
                $crate::hip::device::set_current(&$runtime, device)
            }

            fn hipDeviceGetName(text: *mut ::std::ffi::c_char, length: ::std::ffi::c_int, device: ::std::ffi::c_int) {
                $crate::hip::device::check(&$runtime, device)?;
                let name = $runtime.name(device)?;
                let early = $crate::hip::version::Era::now() == $crate::hip::version::Era::Early;
                $crate::code::reject_if(early && !$crate::hip::device::fits(&name, length))?;
                $crate::hip::device::give_text(text, length, &name)
            }

            fn hipDeviceGetPCIBusId(
                text: *mut ::std::ffi::c_char, length: ::std::ffi::c_int, device: ::std::ffi::c_int,
            ) {
                $crate::hip::device::check(&$runtime, device)?;
                let [domain, bus, slot] = $runtime.pci(device)?;
                let address = format!("{domain:04x}:{bus:02x}:{slot:02x}.0");
                $crate::hip::device::give_text(text, length, &address)?;
                // Cut all the same.
                let early = $crate::hip::version::Era::now() == $crate::hip::version::Era::Early;
                $crate::code::reject_if(!early && !$crate::hip::device::fits(&address, length))
            }

            fn hipDeviceGetUuid(uuid: *mut [u8; 16], device: ::std::ffi::c_int) gives uuid {
                $crate::hip::device::check(&$runtime, device)?;
                $crate::give(uuid, $runtime.uuid(device)?)
            }

            fn hipDeviceGetAttribute(
                value: *mut ::std::ffi::c_int, number: ::std::ffi::c_uint, device: ::std::ffi::c_int,
            ) gives value {
                $crate::hip::device::check(&$runtime, device)?;
                $crate::give(value, $runtime.attribute(device, number)?)
            }

            fn hipGetDevicePropertiesR0600(
                properties: *mut $crate::hip::Properties, device: ::std::ffi::c_int,
            ) gives properties {
                $crate::hip::device::properties(&$runtime, properties, device)
            }

            fn hipGetDeviceProperties(properties: *mut ::std::ffi::c_void, device: ::std::ffi::c_int) {
                $crate::hip::device::properties_5(&$runtime, properties, device)
            }

            fn hipDeviceSynchronize() {
                $crate::hip::device::ready_to_synchronize(&$runtime)?;
                $runtime.synchronize()
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
                semaphores: *const usize, params: *const ::std::ffi::c_void, count: ::std::ffi::c_uint, stream: usize,
            ) {
                $crate::hip::semaphore::ignore(&$runtime, semaphores, params, count, stream)
            }

            fn hipWaitExternalSemaphoresAsync(
                semaphores: *const usize, params: *const ::std::ffi::c_void, count: ::std::ffi::c_uint, stream: usize,
            ) {
                $crate::hip::semaphore::ignore(&$runtime, semaphores, params, count, stream)
            }

            fn hipDestroyExternalSemaphore(semaphore: usize) {
                $crate::hip::semaphore::destroy(&$runtime, semaphore)
            }
        }
    };
}
