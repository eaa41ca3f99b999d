//! Checks every argument passed to the driver, recorded by a mock. Linux only: a C compiler builds the mock.

#[cfg(target_os = "linux")]
#[path = "recorded/linux.rs"]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
