//! Tests of AMD's own runtimes on this emulated kernel driver.
//!
//! `GPU_INTEROP_SIM_AMDGPU_TEST_ROOTS` is a colon list of folders, each with the unpacked Debian packages of one
//! runtime: HIP, ROCR, comgr, and their C library. Without it the tests run on the system's runtime; without that one,
//! they are skipped, which the output states.
//!
//! Each test runs in a separate process: this binary, started by the root's dynamic linker with the emulation
//! preloaded.

#![cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(unused))]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod child;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod root;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../shared/mod.rs"]
mod shared;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    use std::path::PathBuf;

    use libtest_mimic::{Arguments, Trial};

    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(root::CHILD) {
        let arguments: Vec<_> = arguments.collect();
        return child::run(&arguments);
    }
    const VARIABLE: &str = "GPU_INTEROP_SIM_AMDGPU_TEST_ROOTS";
    let system = || root::Root::find(std::path::Path::new("/")).is_ok().then(|| "/".into());
    let roots = std::env::var_os(VARIABLE).filter(|roots| !roots.is_empty()).or_else(system);
    let arguments = Arguments::from_args();
    let Some(roots) = roots else {
        if !arguments.list {
            eprintln!("SKIPPED: no test ran on AMD's runtimes: the system has none, and {VARIABLE} names none");
        }
        let nothing = Trial::test("no_runtime", || Ok(())).with_ignored_flag(true);
        libtest_mimic::run(&arguments, vec![nothing]).exit();
    };
    let mut trials = Vec::new();
    for root in std::env::split_paths(&roots).filter(|root| root != &PathBuf::new()) {
        let name = root.file_name().map_or_else(|| "system".to_owned(), |name| name.to_string_lossy().into_owned());
        type Test = fn(&root::Root) -> Result<(), String>;
        let tests: [(&str, Test); 6] = [
            ("cycles", root::cycles),
            ("page_fault", root::page_fault),
            ("reset", root::reset),
            ("two_gpus", root::two_gpus),
            ("small_bar", root::small_bar),
            ("exhausted_vram", root::exhausted_vram),
        ];
        for (test, function) in tests {
            let root = root.clone();
            trials.push(Trial::test(format!("{name}::{test}"), move || Ok(function(&root::Root::find(&root)?)?)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
