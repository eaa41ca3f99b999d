//! Functions of libc and of ROCR that this library defines before them.
//!
//! Calls that concern neither a device nor a file of the emulated driver are forwarded to the next definition.
//!
//! Variadic functions are defined with all arguments that they may have. In this platform's calling convention an
//! argument that the caller did not pass is a register with any value, which is forwarded and not read by the callee.

mod access;
mod directory;
mod exit;
mod hsa;
mod ioctl;
pub(crate) mod map;
mod open;
mod path;
mod stat;

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::io::Errno;

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
