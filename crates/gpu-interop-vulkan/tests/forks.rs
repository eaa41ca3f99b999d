//! A fork after a failed start, which used no driver. Alone in its process.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used)]

use gpu_interop_core::ErrorKind;
use gpu_interop_vulkan::{HeadlessContext, HeadlessOptions};

#[test]
fn a_failed_start_is_no_use_of_the_drivers() {
    // The loader's old and new names of the list of drivers.
    for variable in ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"] {
        // SAFETY: no other thread of this process reads or changes the environment.
        unsafe { std::env::set_var(variable, "/nonexistent") };
    }
    let start = || HeadlessContext::new(&HeadlessOptions::default()).map(drop).expect_err("no driver").kind();
    assert_eq!(start(), ErrorKind::DriverNotFound);
    // SAFETY: the child only starts Vulkan without a driver, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = start() == ErrorKind::DriverNotFound;
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just created.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 0), "the child found a driver's error");
}
