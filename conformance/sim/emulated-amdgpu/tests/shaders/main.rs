//! Generated compute shaders, the same SPIR-V on RADV with this emulation, and on Mesa's driver for the CPU, lavapipe:
//! both must leave equal words.
//!
//! Manifests of both are searched in the folders of the Vulkan loader. Without one of the drivers, the test is skipped,
//! which the output states.
//!
//! Both drivers run in separate processes: this binary, which generates the same shaders from the same seeds.

#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(unused))]
// Numbers of shaders are cut to their width, and sizes are small.
#![allow(clippy::cast_possible_truncation)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod assembler;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod compare;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod device;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod generate;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod random;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../shared/mod.rs"]
mod shared;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}

/// The first argument of the processes that the tests start.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const CHILD: &str = "child";

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    use libtest_mimic::{Arguments, Trial};

    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [child, first, end, most, file] = &arguments[..]
        && child == CHILD
        && let (Ok(first), Ok(end), Ok(most)) = (first.parse(), end.parse(), most.parse())
    {
        if let Err(error) = device::run(first..end, most, file) {
            println!("error: {error}");
            std::process::exit(1);
        }
        return;
    }
    let arguments = Arguments::from_args();
    let drivers = [shared::radv(), shared::manifest(&["lvp_icd.json", "lvp_icd.x86_64.json"])];
    let [Some(radv), Some(lavapipe)] = drivers else {
        if !arguments.list {
            eprintln!("SKIPPED: no shader ran: RADV and lavapipe are not installed (Debian: mesa-vulkan-drivers)");
        }
        let nothing = Trial::test("no_drivers", || Ok(())).with_ignored_flag(true);
        libtest_mimic::run(&arguments, vec![nothing]).exit();
    };
    let trials = [("few", 0..24), ("many", 24..320)].map(|(name, seeds)| {
        let drivers = [radv.clone(), lavapipe.clone()];
        Trial::test(name, move || Ok(compare::compare(&drivers, seeds)?)).with_ignored_flag(name == "many")
    });
    libtest_mimic::run(&arguments, trials.into()).exit();
}
