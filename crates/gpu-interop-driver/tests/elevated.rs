//! A program with more privileges than its caller ignores the environment variables that name libraries.
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
/// Name of a library that no system has.
const NAME: &str = "libgpu-interop-elevated.so";
/// The user `nobody`.
const NOBODY: u32 = 65534;

/// Name of the test, which starts itself.
const TEST: &str = "variables_are_ignored_in_elevated_programs_only";
/// Set in child processes, which only print the result of the search.
const CHILD: &str = "GPU_INTEROP_TEST_ELEVATED_CHILD";

/// Prints whether the process is elevated, and the result of the search.
fn print_search_result() {
    let search = LibrarySearch {
        driver: "test library",
        variable: VARIABLE,
        names: &[NAME],
        folders: &[(Some(FOLDER), "lib")],
        install: "install nothing",
    };
    // SAFETY: takes a number and reads no memory of the caller.
    println!("SECURE {}", unsafe { libc::getauxval(libc::AT_SECURE) });
    match DriverLibrary::find(&search) {
        Ok(library) => println!("FOUND {}", library.name().display()),
        Err(error) => println!("NOT FOUND {error}"),
    }
}

/// Returns the output of the program; empty if it cannot be started.
fn run(program: &Path, user: Option<u32>, variable: &str, value: &Path) -> String {
    let mut command = Command::new(program);
    command.args(["--exact", TEST, "--nocapture"]).env(CHILD, "1").env(variable, value).current_dir("/");
    if let Some(user) = user {
        command.uid(user);
    }
    command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[test]
fn variables_are_ignored_in_elevated_programs_only() {
    if std::env::var_os(CHILD).is_some() {
        return print_search_result();
    }
    let program = std::env::current_exe().expect("a path");
    // A folder beside this program: readable by other users and not mounted nosuid.
    let place = program.with_extension(format!("elevated-{}", std::process::id()));
    let (folder, copy) = (place.join("lib"), place.join("program"));
    std::fs::create_dir_all(&folder).expect("makes folders");
    let libm = ["/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib", "/lib", "/lib/aarch64-linux-gnu"];
    let libm = libm.into_iter().map(|folder| Path::new(folder).join("libm.so.6")).find(|file| file.exists());
    let file = folder.join(NAME);
    std::fs::copy(libm.expect("every system has libm"), &file).expect("copies");
    let variables = [(VARIABLE, file.as_path()), (FOLDER, place.as_path())];
    let followed = variables.map(|(variable, value)| run(&program, None, variable, value));
    // SAFETY: `geteuid` has no preconditions.
    let elevated_runs = (unsafe { libc::geteuid() } == 0).then(|| {
        std::fs::copy(&program, &copy).expect("copies");
        std::fs::set_permissions(&copy, Permissions::from_mode(0o4755)).expect("sets the bit");
        variables.map(|(variable, value)| run(&copy, Some(NOBODY), variable, value))
    });
    std::fs::remove_dir_all(&place).expect("removes the folder");
    for output in followed {
        assert!(output.contains("FOUND ") && !output.contains("NOT FOUND"), "{output}");
    }
    let elevated = |outputs: &[String; 2]| outputs.iter().all(|output| output.contains("SECURE 1"));
    let Some(elevated_runs) = elevated_runs.filter(elevated) else {
        println!(
            "skipped: an elevated program cannot be created here (nosuid, not root, or a folder \
                  unreadable for other users)"
        );
        return;
    };
    for (output, (variable, _)) in elevated_runs.iter().zip(variables) {
        let ignored = format!("ignored in a process with more privileges than its caller: {variable}");
        assert!(output.contains("NOT FOUND") && output.contains(&ignored), "{variable}: {output}");
    }
}
