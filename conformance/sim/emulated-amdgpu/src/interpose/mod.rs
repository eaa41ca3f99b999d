//! Functions of libc and of ROCR that this library defines before them.
//!
//! Calls that concern neither a device nor a file of the emulated driver are forwarded to the next definition.
//!
//! Variadic functions are defined with all arguments that they may have. In this platform's calling convention an
//! argument that the caller did not pass is a register with any value, which is forwarded and not read by the callee.

pub(crate) mod device;
mod path;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::io::Errno;

use crate::{emulation, report};

/// The next definition of a function, in the search order of the dynamic linker; null if there is none.
fn resolve(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cache.store(found, Ordering::Release);
    found
}

/// Calls the next definition of a function. Without one, fails with ENOSYS.
///
/// The name and the types are those of libc's declaration, and the call is unsafe as the function is.
macro_rules! next {
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $failure:expr) => {{
        static NEXT: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        };
        let next = $crate::interpose::resolve(&NEXT, NAME);
        if next.is_null() {
            $crate::interpose::set_errno(rustix::io::Errno::NOSYS);
            $failure
        } else {
            // SAFETY: the address is that of the function of this name, which has this type.
            let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(next) };
            // SAFETY: the arguments are those of the caller of the same function.
            unsafe { next($($argument),*) }
        }
    }};
}
use next;

/// Defines functions ahead of libc's: `NAME, OTHER_NAME: fn(ARGUMENTS) -> RESULT, FAILURE; { BODY }`. A body returns
/// what the emulation does, whose errors go to `errno`, or nothing: then the next definition is called. A function's
/// caller passes what libc demands.
macro_rules! interpose {
    ($( $($name:ident),+: fn $arguments:tt -> $result:ty, $failure:expr; $body:block )*) => {
        $($( $crate::interpose::interpose_one! { $name $arguments -> $result, $failure, $body } )+)*
    };
}
use interpose;

macro_rules! interpose_one {
    ($name:ident ($($argument:ident: $type:ty),*) -> $result:ty, $failure:expr, $body:block) => {
        /// See libc.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            let emulated = || -> Option<$crate::abi::Result<$result>> { $body };
            match emulated() {
                Some(Ok(result)) => result,
                Some(Err(error)) => {
                    $crate::interpose::set_errno(error);
                    $failure
                }
                None => $crate::interpose::next!($name($($argument: $type),*) -> $result, $failure),
            }
        }
    };
}
use interpose_one;

fn set_errno(error: Errno) {
    // SAFETY: the location belongs to this thread.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
}

/// A path of the caller; `None` for null.
///
/// # Safety
///
/// `path` is null or a C string that outlives the result.
unsafe fn bytes<'a>(path: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, and a C string by the caller's guarantee.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes())
}

macro_rules! define_exit {
    ($($name:ident),*) => {
        $(
            /// See libc.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(status: c_int) -> ! {
                report::at_exit();
                next!($name(status: c_int) -> (), ());
                std::process::abort()
            }
        )*
    };
}

define_exit!(_exit, _Exit);

extern "C" fn finish() {
    report::at_exit();
}

/// The dynamic linker calls it when the process ends by `exit` or by returning from `main`.
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

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
