//! Every argument that reaches the driver, recorded by a mock of it. Linux only: it is built with the C compiler there.

#[cfg(target_os = "linux")]
#[path = "recorded/linux.rs"]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
