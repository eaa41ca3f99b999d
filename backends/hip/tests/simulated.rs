//! The backend on simulated drivers that are old, incomplete or failing, and on files that are no driver.
//!
//! Linux only: functions are hidden in ELF files.

#[cfg(target_os = "linux")]
#[path = "simulated/linux.rs"]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
