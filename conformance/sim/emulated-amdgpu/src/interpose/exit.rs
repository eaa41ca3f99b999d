//! The end of the process: writes the report.

use std::ffi::c_int;

use super::next;
use crate::report;

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
