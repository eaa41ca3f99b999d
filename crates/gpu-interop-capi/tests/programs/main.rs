//! C and C++ programs over the library, compiled with the system's compilers and run on the host backend. Each program verifies
//! its data and fails if a handle is left.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod build;
mod exports;

use std::process::Command;

use build::{Library, compiler, crate_folder, has, has_vulkan_header, left_out, run};

/// Programs in `tests/c`.
const PROGRAMS: [&str; 10] =
    ["errors", "devices", "memory", "semaphores", "timelines", "kernels", "borrowed", "threads", "log", "wrapper"];

#[test]
fn programs_verify_their_data() {
    let library = Library::built();
    for name in PROGRAMS {
        run(&mut library.command(&library.compile(name, &compiler(name), &[])));
    }
}

#[test]
fn clang_compiles_the_same_programs() {
    if !has("clang-19") {
        left_out("clang-19");
        return;
    }
    let library = Library::built();
    for name in PROGRAMS.into_iter().filter(|name| *name != "wrapper") {
        run(&mut library.command(&library.compile(name, "clang-19", &[])));
    }
}

/// The examples run as they are, and compute on the CPU.
#[test]
fn examples_run() {
    let library = Library::built();
    let examples = crate_folder().join("examples");
    let program = library.compile_file(&examples.join("fill.cpp"), &compiler("wrapper"), &[]);
    run(library.command(&program).env("GPU_INTEROP_BACKEND", "host"));
    if !has_vulkan_header() {
        left_out("libvulkan-dev");
        return;
    }
    // The loader by its file, which the package of the header is not needed for.
    let program = library.compile_file(&examples.join("fill.c"), &compiler("errors"), &["-l:libvulkan.so.1"]);
    let output = library.command(&program).output().expect("started");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if errors.contains("no Vulkan device") || errors.contains("vkCreateInstance") {
        eprintln!("skipped: {errors}");
        return;
    }
    assert!(output.status.success() && text.contains("1024 of 1024 words"), "{text}{errors}");
}

/// The headers alone, for Windows.
#[test]
fn mingw_accepts_the_header() {
    if !has("x86_64-w64-mingw32-gcc") {
        left_out("gcc-mingw-w64-x86-64");
        return;
    }
    let header = crate_folder().join("include/gpu_interop.h");
    let switches = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"];
    run(Command::new("x86_64-w64-mingw32-gcc").args(switches).arg(header));
}

#[test]
fn headers_are_c99_and_cpp17_on_their_own() {
    let include = crate_folder().join("include");
    let switches = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x"];
    run(Command::new(compiler("errors")).args(switches).args(["c", "-std=c99"]).arg(include.join("gpu_interop.h")));
    for header in ["gpu_interop.h", "gpu_interop.hpp"] {
        let mut command = Command::new(compiler("wrapper"));
        run(command
            .args(switches)
            .args(["c++", "-std=c++17", "-Wno-pragma-once-outside-header"])
            .arg(include.join(header)));
    }
}

/// Leaks and accesses outside of the programs' memory fail.
#[test]
fn programs_are_clean_under_address_sanitizer() {
    let library = Library::built();
    for name in PROGRAMS {
        let switches = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
        run(&mut library.command(&library.compile(name, &compiler(name), &switches)));
    }
}

#[test]
fn programs_are_clean_under_valgrind() {
    if !has("valgrind") {
        left_out("valgrind");
        return;
    }
    let library = Library::built();
    for name in PROGRAMS {
        let program = library.compile(name, &compiler(name), &["-DROUNDS=20"]);
        let mut valgrind = library.command(std::path::Path::new("valgrind"));
        let switches = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
        run(valgrind.args(switches).arg(program));
    }
}

/// The files of `install.sh`: shared and static, found by pkg-config.
#[test]
fn installed_libraries_work() {
    let library = Library::installed();
    for name in ["memory", "wrapper"] {
        run(&mut library.command(&library.compile(name, &compiler(name), &[])));
    }
    let linked = library.compile_static("memory");
    // Without the path of the shared library.
    run(&mut Command::new(linked));
    exports::check(&library.shared());
    library.check_cmake_files();
}
