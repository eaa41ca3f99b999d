//! A program with more rights than its caller loads nothing that the environment names.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, reason = "this is a test")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gpu_interop_driver::{DriverLibrary, LibrarySearch};

const VARIABLE: &str = "GPU_INTEROP_TEST_ELEVATED_LIBRARY";
const FOLDER: &str = "GPU_INTEROP_TEST_ELEVATED_FOLDER";
/// No library of any system.
const NAME: &str = "libgpu-interop-elevated.so";
/// The user `nobody`.
const NOBODY: u32 = 65534;

/// The test below.
const TEST: &str = "variables_are_followed_in_programs_without_other_rights_only";
/// Set in the processes that only print what they find.
const CHILD: &str = "GPU_INTEROP_TEST_ELEVATED_CHILD";

/// Prints whether the process is elevated, and what it finds.
fn print_what_is_found() {
    let search = LibrarySearch {
        driver: "test library",
        variable: VARIABLE,
        names: &[NAME],
        folders: &[(Some(FOLDER), "lib")],
        install: "install nothing",
    };
    // SAFETY: takes a number.
    println!("SECURE {}", unsafe { libc::getauxval(libc::AT_SECURE) });
    match DriverLibrary::find(&search) {
        Ok(library) => println!("FOUND {}", library.name().display()),
        Err(error) => println!("NOT FOUND {error}"),
    }
}

/// The output of the program; empty if it cannot be started.
fn run(program: &Path, user: Option<u32>, variable: &str, value: &Path) -> String {
    let mut command = Command::new(program);
    command.args(["--exact", TEST, "--nocapture"]).env(CHILD, "1").env(variable, value).current_dir("/");
    if let Some(user) = user {
        command.uid(user);
    }
    command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[test]
fn variables_are_followed_in_programs_without_other_rights_only() {
    if std::env::var_os(CHILD).is_some() {
        return print_what_is_found();
    }
    let itself = std::env::current_exe().expect("a path");
    // Beside this program, where others may read, and files may have other rights.
    let place = itself.with_extension(format!("elevated-{}", std::process::id()));
    let (folder, copy) = (place.join("lib"), place.join("program"));
    std::fs::create_dir_all(&folder).expect("makes folders");
    let libm = ["/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib", "/lib", "/lib/aarch64-linux-gnu"];
    let libm = libm.into_iter().map(|folder| Path::new(folder).join("libm.so.6")).find(|file| file.exists());
    let file = folder.join(NAME);
    std::fs::copy(libm.expect("every system has libm"), &file).expect("copies");
    let variables = [(VARIABLE, file.as_path()), (FOLDER, place.as_path())];
    let followed = variables.map(|(variable, value)| run(&itself, None, variable, value));
    // SAFETY: it has no preconditions.
    let elevated_runs = (unsafe { libc::geteuid() } == 0).then(|| {
        std::fs::copy(&itself, &copy).expect("copies");
        std::fs::set_permissions(&copy, Permissions::from_mode(0o4755)).expect("sets the bit");
        variables.map(|(variable, value)| run(&copy, Some(NOBODY), variable, value))
    });
    std::fs::remove_dir_all(&place).expect("nothing is left behind");
    for said in followed {
        assert!(said.contains("FOUND ") && !said.contains("NOT FOUND"), "{said}");
    }
    let elevated = |said: &[String; 2]| said.iter().all(|said| said.contains("SECURE 1"));
    let Some(elevated_runs) = elevated_runs.filter(elevated) else {
        println!(
            "left out: no program can be made here that has more rights than its caller (nosuid, not root, a folder \
                  that others cannot read)"
        );
        return;
    };
    for (said, (variable, _)) in elevated_runs.iter().zip(variables) {
        let ignored = format!("ignored in a process with more rights than its caller: {variable}");
        assert!(said.contains("NOT FOUND") && said.contains(&ignored), "{variable}: {said}");
    }
}
