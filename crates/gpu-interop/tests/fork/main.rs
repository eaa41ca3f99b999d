//! Processes forked after the driver was used, with simulators that behave there as NVIDIA's driver was measured to.

#[cfg(all(target_os = "linux", feature = "cuda", feature = "hip", feature = "host"))]
mod linux;

#[cfg(all(target_os = "linux", feature = "cuda", feature = "hip", feature = "host"))]
fn main() {
    linux::main();
}

#[cfg(not(all(target_os = "linux", feature = "cuda", feature = "hip", feature = "host")))]
fn main() {}
