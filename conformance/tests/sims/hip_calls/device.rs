//! Devices, and the current one.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::ptr;

use cubecl_hip_sys as header;
use libloading::os::unix::Library;

use super::table::{Hip, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, Properties, SUCCESS, call, made};

pub(crate) fn threads(hip: &Hip) {
    assert_eq!(call!(hip.hipInit(1)), INVALID_VALUE, "there are no flags");
    assert_eq!(call!(hip.hipInit(0)), SUCCESS);
    let count: c_int = made!(hip.hipGetDeviceCount());
    if let Ok(expected) = std::env::var("GPU_INTEROP_SIM_DEVICES") {
        assert_eq!(count.to_string(), expected);
    }
    let current = || -> c_int { made!(hip.hipGetDevice()) };
    assert_eq!(current(), 0);
    for wrong in [-1, count] {
        assert_eq!(call!(hip.hipSetDevice(wrong)), INVALID_DEVICE);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(call!(hip.hipSetDevice(count - 1)), SUCCESS);
            let memory: usize = made!(hip.hipMalloc(4096));
            hip.write(memory, &[7; 16]);
            assert_eq!(current(), count - 1);
            assert_eq!(call!(hip.hipSetDevice(0)), SUCCESS);
            assert_eq!(call!(hip.hipFree(memory)), SUCCESS, "memory of a device that is not current");
            assert_eq!(current(), 0);
            assert_eq!(call!(hip.hipSetDevice(count - 1)), SUCCESS);
        });
    });
    assert_eq!(current(), 0, "another thread's device");
    assert_eq!(call!(hip.hipGetDevice(ptr::null_mut())), INVALID_VALUE);
    assert_eq!(call!(hip.hipDeviceSynchronize()), SUCCESS);
}

pub(crate) fn identity(hip: &Hip) {
    let address = Hip::text(|text, length| call!(hip.hipDeviceGetPCIBusId(text, length, 0)));
    if std::env::var_os("GPU_INTEROP_SIM_PCI").is_some() {
        assert_eq!(address, "0001:c3:00.0");
    }
    let letters: [u8; 16] = made!(hip.hipDeviceGetUuid(0));
    assert!(letters.iter().all(u8::is_ascii_hexdigit), "{letters:?}");
    let name = Hip::text(|text, length| call!(hip.hipDeviceGetName(text, length, 0)));
    assert!(name.contains(if hip.is_on_cuda() { " (HIP on CUDA)" } else { "simulated GPU" }), "{name}");
    let mut properties = MaybeUninit::<Properties>::zeroed();
    assert_eq!(call!(hip.hipGetDevicePropertiesR0600(properties.as_mut_ptr(), 0)), SUCCESS);
    // SAFETY: numbers, and text with a NUL at its end.
    let (bus, domain, text, architecture) = unsafe {
        let properties = properties.assume_init_ref();
        let text = |text: &[std::ffi::c_char]| CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned();
        (properties.pciBusID, properties.pciDomainID, text(&properties.name), text(&properties.gcnArchName))
    };
    assert!(address.starts_with(&format!("{domain:04x}:{bus:02x}:")), "{address}");
    assert_eq!((text, architecture.as_str()), (name, "gfx90a:sramecc+:xnack-"));
    assert_eq!(call!(hip.hipDeviceGetUuid(&mut [0; 16], 99)), INVALID_DEVICE);
    assert_eq!(call!(hip.hipGetDevicePropertiesR0600(ptr::null_mut(), 0)), INVALID_VALUE);
}

/// An attribute unknown to a runtime is an error, and not 0.
pub(crate) fn attributes(hip: &Hip) {
    let ask = |number| {
        let mut value = -1;
        (call!(hip.hipDeviceGetAttribute(&raw mut value, number, 0)), value)
    };
    assert_eq!(ask(9998), (INVALID_VALUE, -1));
    let managed = ask(header::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported);
    let young = std::env::var_os("GPU_INTEROP_SIM_HIP_LAYOUT").is_some() && !hip.is_on_cuda();
    let words = ask(header::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue);
    assert_eq!(words, (SUCCESS, (!young).into()), "HIP 5.2 denies it");
    assert_eq!(managed, if young { (INVALID_VALUE, -1) } else { (SUCCESS, 1) });
}

pub(crate) fn absent(hip: &Hip) {
    for name in ["hipExternalMemoryGetMappedMipmappedArray", "hipMipmappedArrayGetLevel", "cuInit"] {
        // SAFETY: the address is never dereferenced.
        assert!(unsafe { hip.library.get::<*const u8>(name.as_bytes()) }.is_err(), "{name}");
    }
}

pub(crate) fn none(hip: &Hip) {
    assert_eq!(call!(hip.hipInit(0)), NO_DEVICE);
    let mut count = 7;
    assert_eq!((call!(hip.hipGetDeviceCount(&raw mut count)), count), (NO_DEVICE, 0));
    let (mut pointer, mut stream) = (0, 0);
    let answers = [
        call!(hip.hipSetDevice(0)),
        call!(hip.hipGetDevice(&raw mut count)),
        call!(hip.hipMalloc(&raw mut pointer, 8)),
        call!(hip.hipFree(0x1000)),
        call!(hip.hipStreamCreateWithFlags(&raw mut stream, 0)),
        call!(hip.hipDestroyExternalMemory(0x1000)),
        call!(hip.hipDestroyExternalSemaphore(0x1000)),
        call!(hip.hipDeviceSynchronize()),
    ];
    assert_eq!(answers, [NO_DEVICE; 8]);
}

/// Calls a CUDA function that must succeed.
macro_rules! cuda {
    ($cuda:ident.$function:ident($($argument:expr => $type:ty),*)) => {{
        // SAFETY: the type of the function.
        let function = unsafe {
            $cuda.get::<unsafe extern "C" fn($($type),*) -> u32>(concat!(stringify!($function), "\0").as_bytes())
        };
        // SAFETY: pointers are valid for the call.
        assert_eq!(unsafe { function.expect("a function")($($argument),*) }, 0, stringify!($function));
    }};
}

/// An application's own use of CUDA is not affected by successful or failed calls.
pub(crate) fn contexts(hip: &Hip) {
    let name = std::env::var_os("GPU_INTEROP_SIM_CUDA_LIBRARY").unwrap_or_else(|| "libcuda.so.1".into());
    // SAFETY: NVIDIA's driver, or its simulator.
    let cuda = unsafe { Library::new(name) }.expect("the library that the other uses");
    let current = || {
        let mut current = 1_usize;
        cuda!(cuda.cuCtxGetCurrent(&raw mut current => *mut usize));
        current
    };
    let calls = || {
        let memory: usize = made!(hip.hipMalloc(4096));
        hip.write(memory, &[1; 8]);
        assert_eq!(call!(hip.hipFree(memory)), SUCCESS);
        let mut pointer = 0;
        assert_ne!(call!(hip.hipMalloc(&raw mut pointer, usize::MAX / 2)), SUCCESS, "there is not as much");
        let stream = hip.stream();
        assert_eq!(call!(hip.hipStreamDestroy(stream)), SUCCESS);
    };
    assert_eq!(call!(hip.hipInit(0)), SUCCESS);
    assert_eq!(current(), 0);
    calls();
    assert_eq!(current(), 0);
    let mut context = 0_usize;
    cuda!(cuda.cuDevicePrimaryCtxRetain(&raw mut context => *mut usize, 0 => c_int));
    cuda!(cuda.cuCtxPushCurrent_v2(context => usize));
    calls();
    assert_eq!(current(), context);
    // Once: it pops only its own push.
    cuda!(cuda.cuCtxPopCurrent_v2(&raw mut context => *mut usize));
    assert_eq!(current(), 0);
    cuda!(cuda.cuDevicePrimaryCtxRelease_v2(0 => c_int));
}
