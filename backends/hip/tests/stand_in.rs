//! The backend on libraries that play its driver. Linux only: they are built with the C compiler there.

#[cfg(target_os = "linux")]
#[path = "stand_in/linux.rs"]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
