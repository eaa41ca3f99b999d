//! Code objects and their kernels.

use std::ffi::c_void;
use std::ptr;

use gpu_interop_kernels::{CODE_OBJECTS, FILL_PATTERN, SURFACE_FILL, VERIFY_PATTERN, code_object, pattern_word};

use super::table::{
    Hip, INVALID_IMAGE, INVALID_VALUE, NO_BINARY_FOR_GPU, NOT_FOUND, NOT_SUPPORTED, SUCCESS, call, made,
};

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
