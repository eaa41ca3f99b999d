//! Learns the names of kernels: the runtime queries ROCR for a kernel object's address, and then for its symbol's name.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::emulation;

/// `hsa_executable_symbol_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Symbol(u64);

const NAME_LENGTH: c_int = 1;
const NAME: c_int = 2;
const KERNEL_OBJECT: c_int = 22;

/// See ROCR.
#[unsafe(no_mangle)]
unsafe extern "C" fn hsa_executable_symbol_get_info(symbol: Symbol, attribute: c_int, value: *mut c_void) -> c_int {
    let status = ask(symbol, attribute, value);
    if status == 0
        && attribute == KERNEL_OBJECT
        && let Some(emulation) = emulation::current()
    {
        // SAFETY: this attribute's value is a 64-bit address, which the call wrote.
        let object = unsafe { value.cast::<u64>().read_unaligned() };
        let mut length = 0_u32;
        if ask(symbol, NAME_LENGTH, (&raw mut length).cast()) == 0 {
            // One byte more than the name, because runtimes count differently.
            let mut name = vec![0_u8; length as usize + 1];
            if ask(symbol, NAME, name.as_mut_ptr().cast()) == 0 {
                name.retain(|byte| *byte != 0);
                emulation.kernels.learn(object, String::from_utf8_lossy(&name).into_owned());
            }
        }
    }
    status
}

/// Calls ROCR's function. Returns its general error if ROCR is not loaded.
fn ask(symbol: Symbol, attribute: c_int, value: *mut c_void) -> c_int {
    type Function = unsafe extern "C" fn(Symbol, c_int, *mut c_void) -> c_int;
    static FUNCTION: OnceLock<Option<Function>> = OnceLock::new();
    let find = || {
        // ROCR is usually not in the global scope, so "the next definition" is not found. SAFETY: the name is a C
        // string; initialisers of a loaded library do not run again.
        let rocr = unsafe { libc::dlopen(c"libhsa-runtime64.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if rocr.is_null() {
            return None;
        }
        // SAFETY: the handle is of a loaded library, the name a C string.
        let function = unsafe { libc::dlsym(rocr, c"hsa_executable_symbol_get_info".as_ptr()) };
        // SAFETY: null means none; any other address is the function of this name, which has this type.
        unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(function) }
    };
    match FUNCTION.get_or_init(find) {
        // SAFETY: the arguments are those of ROCR's caller, or valid for ROCR's names.
        Some(function) => unsafe { function(symbol, attribute, value) },
        None => 0x1000,
    }
}
