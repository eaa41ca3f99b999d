//! HIP's functions called as by a C program, on sim-hip and on hip-on-cuda: calls that the backend avoids are tested
//! here. The expected results per version are in `hip_calls_compared`.
//!
//! Each test runs in a separate process, with one library. `HIP_LIBRARY=... sims hip-calls NAME` is such a process,
//! also on a machine with a GPU.

mod memory;
mod table;

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::ptr;

use cubecl_hip_sys as header;
use gpu_interop_kernels::{CODE_OBJECTS, FILL_PATTERN, SURFACE_FILL, VERIFY_PATTERN, code_object, pattern_word};
use gpu_interop_test_support::{build, this_program};
use libloading::os::unix::Library;
use libtest_mimic::{Failed, Trial};

use crate::hip_calls::table::{
    Hip, INVALID_DEVICE, INVALID_IMAGE, INVALID_VALUE, NO_BINARY_FOR_GPU, NO_DEVICE, NOT_FOUND, NOT_SUPPORTED,
    Properties, SUCCESS, SemaphoreDesc, SignalParams, WaitParams, call, calls, made,
};
use crate::run::{GPU_INTEROP_SIM_CUDA, GPU_INTEROP_SIM_HIP, HIP_ON_CUDA, check};

/// The first argument of the process that makes the calls.
pub(crate) const COMMAND: &str = "hip-calls";
const VARIABLE: &str = "HIP_LIBRARY";

/// A test: its name, its calls, and their environment.
type Calls = (&'static str, fn(&Hip), &'static [(&'static str, &'static str)]);

const CALLS: &[Calls] = &[
    ("imports_are_checked_and_close_no_descriptor", memory::imports, &[]),
    ("imports_that_cuda_refuses_close_no_descriptor", memory::refused_imports, &[]),
    ("semaphores_are_refused_or_do_nothing", nothing, &[]),
    ("pinned_memory_is_seen_by_both_sides", memory::both_sides, &[]),
    ("signal_memory_is_one_word", memory::signal_memory, &[]),
    ("either_function_frees_what_is_there", memory::freeing, &[]),
    ("code_objects_are_looked_at", code_objects, &[]),
    ("kernels_of_a_code_object_run", kernels, &[]),
    ("each_thread_has_its_own_device", threads, &[("GPU_INTEROP_SIM_DEVICES", "2")]),
    ("a_device_has_hips_identity", identity, &[("GPU_INTEROP_SIM_PCI", "1:c3:0")]),
    ("attributes_are_known_or_refused", attributes, &[]),
    ("hip_5_knows_fewer_attributes", attributes, &[("GPU_INTEROP_SIM_HIP_LAYOUT", "5")]),
    ("what_linux_lacks_is_not_exported", absent, &[]),
    ("without_a_device_everything_says_so", none, &[("GPU_INTEROP_SIM_DEVICES", "0")]),
];

/// Tests of the library on CUDA only: it has none of the runtime's defects, and returns where the runtime crashes.
const CALLS_ON_CUDA: &[Calls] = &[
    ("mappings_are_checked_and_freed_once", memory::mappings, &[]),
    ("mappings_at_one_address_are_one", memory::one_entry, &[]),
    ("hip_5_maps_an_import_and_no_range", memory::ignored_ranges, &[("GPU_INTEROP_SIM_HIP_LAYOUT", "5")]),
    (
        "imports_that_cuda_leaves_open_are_closed",
        memory::refused_imports,
        &[("GPU_INTEROP_SIM_FAIL", "cuImportExternalMemory:*:1"), ("GPU_INTEROP_SIM_FD_ON_FAILURE", "open")],
    ),
    ("each_sort_of_memory_is_freed_by_its_function", memory::freeing_on_cuda, &[]),
    ("contexts_of_cuda_are_what_they_were", contexts, &[]),
    ("without_a_driver_there_is_no_device", none, &[("GPU_INTEROP_SIM_CUDA_LIBRARY", "/nonexistent/libcuda.so.1")]),
];

pub(crate) fn tests() -> Vec<Trial> {
    let on_cuda = CALLS.iter().chain(CALLS_ON_CUDA).map(|calls| {
        Trial::test(format!("hip_on_cuda_calls_{}", calls.0), move || {
            run(calls, HIP_ON_CUDA, Some(GPU_INTEROP_SIM_CUDA))
        })
    });
    let sim = CALLS
        .iter()
        .map(|calls| Trial::test(format!("hip_calls_{}", calls.0), move || run(calls, GPU_INTEROP_SIM_HIP, None)));
    on_cuda.chain(sim).collect()
}

fn run((name, _, variables): &Calls, library: &str, cuda: Option<&str>) -> Result<(), Failed> {
    let mut command = this_program()?;
    command.args([COMMAND, name]).env(VARIABLE, build(library)?);
    if let Some(cuda) = cuda {
        command.env("GPU_INTEROP_SIM_CUDA_LIBRARY", build(cuda)?);
    }
    let output = command.envs(variables.iter().copied()).output()?;
    check(output.status.success(), format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// The process that makes the calls.
pub(crate) fn main() -> ExitCode {
    let name = std::env::args().nth(2).unwrap_or_default();
    let known = CALLS.iter().chain(CALLS_ON_CUDA).find(|(known, _, _)| *known == name);
    let (_, calls, _) = known.unwrap_or_else(|| panic!("no calls are named {name}"));
    calls(&Hip::open(&std::env::var_os(VARIABLE).expect("the library's file")));
    ExitCode::SUCCESS
}

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

const ARCHITECTURE: &str = "gfx90a";

fn load(hip: &Hip, image: &[u8]) -> u32 {
    call!(hip.hipModuleLoadData(&mut 0, image.as_ptr().cast()))
}

pub(crate) fn code_objects(hip: &Hip) {
    for (target, object) in CODE_OBJECTS {
        let mut module = 0_usize;
        let code = call!(hip.hipModuleLoadData(&raw mut module, object.as_ptr().cast()));
        if *target == ARCHITECTURE {
            assert_eq!(code, SUCCESS);
            assert_eq!(call!(hip.hipModuleUnload(module)), SUCCESS);
        } else {
            assert_eq!(code, NO_BINARY_FOR_GPU, "{target}");
        }
    }
    assert_eq!(load(hip, gpu_interop_kernels::ptx().to_bytes()), INVALID_IMAGE);
    let mut other = code_object(ARCHITECTURE).expect("a code object").to_vec();
    while let Some(at) = other.windows(10).position(|part| part == b"increment.") {
        other[at] = b'x';
    }
    assert_eq!(load(hip, &other), NOT_SUPPORTED, "other kernels");
    assert_eq!(call!(hip.hipModuleLoadData(&mut 0, ptr::null())), INVALID_VALUE);
    assert_eq!(call!(hip.hipModuleLoadData(ptr::null_mut(), other.as_ptr().cast())), INVALID_VALUE);
}

pub(crate) fn kernels(hip: &Hip) {
    const WORDS: usize = 10_000;
    let object = code_object(ARCHITECTURE).expect("a code object");
    let module: usize = made!(hip.hipModuleLoadData(object.as_ptr().cast()));
    let fill: usize = made!(hip.hipModuleGetFunction(module, FILL_PATTERN.name.as_ptr()));
    let verify: usize = made!(hip.hipModuleGetFunction(module, VERIFY_PATTERN.name.as_ptr()));
    let surface = call!(hip.hipModuleGetFunction(&mut 0, module, SURFACE_FILL.name.as_ptr()));
    assert_eq!(surface, NOT_FOUND, "code objects do not have it");
    assert_eq!(call!(hip.hipModuleGetFunction(&mut 0, module, ptr::null())), INVALID_VALUE);

    let mut memory: usize = made!(hip.hipMalloc(WORDS * 4));
    let mut mismatches: usize = made!(hip.hipMalloc(4));
    let (mut count, mut seed) = (WORDS as u64, 7_u32);
    let stream = hip.stream();
    let launch = |kernel: usize, arguments: &mut [*mut c_void]| {
        let arguments = arguments.as_mut_ptr();
        let code = call!(hip.hipModuleLaunchKernel(kernel, 16, 1, 1, 64, 1, 1, 0, stream, arguments, ptr::null_mut()));
        assert_eq!(code, SUCCESS);
        assert_eq!(call!(hip.hipStreamSynchronize(stream)), SUCCESS);
    };
    let pointers = [(&raw mut memory).cast(), (&raw mut count).cast(), (&raw mut seed).cast()];
    launch(fill, &mut pointers.clone());
    let bytes: Vec<u8> = (0..WORDS as u64).flat_map(|index| pattern_word(7, index).to_le_bytes()).collect();
    assert_eq!(hip.read(memory, WORDS * 4), bytes);
    // Two words are broken, and counted.
    hip.write(memory + 400, &[0; 8]);
    hip.write(mismatches, &[0; 4]);
    let [first, second, third] = pointers;
    launch(verify, &mut [first, second, third, (&raw mut mismatches).cast()]);
    assert_eq!(hip.read(mismatches, 4), [2, 0, 0, 0]);

    let none = ptr::null_mut();
    assert_eq!(call!(hip.hipModuleLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, stream, none, none)), INVALID_VALUE);
    assert_eq!(call!(hip.hipStreamDestroy(stream)), SUCCESS);
    assert_eq!([call!(hip.hipFree(memory)), call!(hip.hipFree(mismatches))], [SUCCESS; 2]);
    assert_eq!(call!(hip.hipModuleUnload(module)), SUCCESS);
}

pub(crate) fn nothing(hip: &Hip) {
    let fd = rustix::fs::memfd_create("semaphore", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
    rustix::fs::ftruncate(&fd, 4096).expect("a size");
    // SAFETY: numbers and pointers, for which zeros are valid.
    let mut desc: SemaphoreDesc = unsafe { MaybeUninit::zeroed().assume_init() };
    desc.handle.fd = fd.as_raw_fd();
    let mut semaphore = 0;
    for (kind, code) in
        [(0, INVALID_VALUE), (1, NOT_SUPPORTED), (4, NOT_SUPPORTED), (5, INVALID_VALUE), (9, INVALID_VALUE)]
    {
        desc.type_ = kind;
        assert_eq!(call!(hip.hipImportExternalSemaphore(&raw mut semaphore, &raw const desc)), code, "{kind}");
    }
    assert!(rustix::io::fcntl_getfd(&fd).is_ok());
    assert_eq!(call!(hip.hipImportExternalSemaphore(ptr::null_mut(), &raw const desc)), INVALID_VALUE);

    // A caller that ignores the failed import gets success without effect.
    // SAFETY: as above.
    let (mut signal, wait): (SignalParams, WaitParams) = unsafe { MaybeUninit::zeroed().assume_init() };
    let stream = hip.stream();
    let semaphores = [0x1000];
    for _ in 0..3 {
        assert_eq!(
            call!(hip.hipSignalExternalSemaphoresAsync(semaphores.as_ptr(), &raw const signal, 1, stream)),
            SUCCESS
        );
        assert_eq!(call!(hip.hipWaitExternalSemaphoresAsync(semaphores.as_ptr(), &raw const wait, 1, stream)), SUCCESS);
    }
    assert_eq!(call!(hip.hipStreamSynchronize(stream)), SUCCESS);
    signal.flags = 1;
    let wrong = call!(hip.hipSignalExternalSemaphoresAsync(semaphores.as_ptr(), &raw const signal, 1, stream));
    assert_eq!(wrong, INVALID_VALUE);
    let none = call!(hip.hipWaitExternalSemaphoresAsync([0].as_ptr(), &raw const wait, 1, stream));
    assert_eq!(none, INVALID_VALUE);
    assert_eq!(call!(hip.hipWaitExternalSemaphoresAsync(ptr::null(), ptr::null(), 1, stream)), INVALID_VALUE);
    assert_eq!(call!(hip.hipDestroyExternalSemaphore(semaphores[0])), SUCCESS);
    assert_eq!(call!(hip.hipDestroyExternalSemaphore(0)), INVALID_VALUE);
    assert_eq!(call!(hip.hipStreamDestroy(stream)), SUCCESS);

    for (function, count) in [
        (c"hipImportExternalSemaphore", 6),
        (c"hipSignalExternalSemaphoresAsync", 4),
        (c"hipWaitExternalSemaphoresAsync", 5),
        (c"hipDestroyExternalSemaphore", 2),
        (c"hipMalloc", 0),
    ] {
        assert_eq!(calls(hip.library, function), count, "{function:?}");
    }
}
