//! Processes forked after the driver was used, with simulators that behave there as NVIDIA's driver was measured to.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}
