//! C and C++ programs over the library, compiled with the system's compilers and run on the host backend. Each program verifies
//! its data and fails if a handle is left.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod build;
mod exports;

use std::process::Command;

use gpu_interop_test_support::build as build_library;

use build::{Library, compiler, crate_folder, has, has_vulkan_header, left_out, run};

/// Programs in `tests/c`.
const PROGRAMS: [&str; 12] = [
    "errors",
    "messages",
    "devices",
    "memory",
    "semaphores",
    "timelines",
    "durations",
    "kernels",
    "borrowed",
    "threads",
    "log",
    "wrapper",
];

#[test]
fn programs_verify_their_data() {
    let library = Library::built();
    for name in PROGRAMS {
        run(&mut library.command(&library.compile(name, &compiler(name), &[])));
    }
}

/// What needs a driver: this project's simulators.
#[test]
fn programs_run_on_simulators() {
    let [cuda, hip] =
        ["cuda", "hip"].map(|name| build_library(&format!("gpu-interop-sim-{name}")).expect("the simulator"));
    let library = Library::built();
    let program = library.compile("drivers", &compiler("drivers"), &[]);
    let command = || {
        let mut command = library.command(&program);
        command.env("GPU_INTEROP_CUDA_LIBRARY", &cuda).env("GPU_INTEROP_HIP_LIBRARY", &hip);
        command
    };
    for backend in ["cuda", "hip"] {
        run(command().env("GPU_INTEROP_BACKEND", backend));
    }
    let mut failed = command();
    failed.env("GPU_INTEROP_HIP_LIBRARY", "/nonexistent").env("GPU_INTEROP_SIM_FAIL", "cuInit:1+:999");
    run(failed.arg("failed"));
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

/// Complete programs of the README run as they are.
#[test]
fn programs_of_the_readme_run() {
    let library = Library::built();
    let readme = std::fs::read_to_string(crate_folder().join("README.md")).expect("the README");
    let blocks = readme.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    let programs: Vec<_> = blocks.filter(|block| block.contains("int main")).collect();
    assert_eq!(programs.len(), 1, "the README has one program");
    for program in programs {
        let file = library.write("readme.c", program);
        run(&mut library.command(&library.compile_file(&file, &compiler("errors"), &[])));
    }
}

/// FFmpeg's own Vulkan images, by the public interface of its libraries. The example draws a bar and compares every sample.
#[test]
fn a_frame_of_ffmpeg_is_shared() {
    let packages = ["libavcodec", "libavutil"];
    let output = Command::new("pkg-config").args(["--modversion", "libavutil"]).output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if version.is_empty() || !has_vulkan_header() {
        left_out("libavcodec-dev, libavutil-dev or libvulkan-dev");
        return;
    }
    if !version.starts_with("57.") {
        eprintln!("skipped: the example is for libavutil 57; this is {version}");
        return;
    }
    let library = Library::built();
    let text = run(Command::new("pkg-config").args(["--cflags", "--libs"]).args(packages));
    let switches: Vec<&str> = text.split_whitespace().chain(["-l:libvulkan.so.1"]).collect();
    let file = crate_folder().join("examples/ffmpeg_frame.c");
    let program = library.compile_file(&file, &compiler("errors"), &switches);
    let output = library.command(&program).output().expect("started");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A machine without a Vulkan device.
    if errors.contains("av_hwdevice_ctx_create") {
        eprintln!("skipped: {errors}");
        return;
    }
    assert!(output.status.success() && text.contains("0 of 345600 samples differ"), "{text}{errors}");
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

/// Both headers may be included repeatedly, in either order.
#[test]
fn headers_may_be_included_twice() {
    let include = crate_folder().join("include");
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, headers: &[&str], compiler: String, switches: &[&str]| {
        let file = folder.path().join(name);
        let text: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
        std::fs::write(&file, text + "int main(void) { return gpi_arg_u32(1).kind != GPI_ARG_U32; }\n")
            .expect("written");
        let common = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"];
        run(Command::new(compiler).args(switches).args(common).arg(&include).arg(&file));
    };
    let (c, cpp) = ("gpu_interop.h", "gpu_interop.hpp");
    check("twice.c", &[c, c], compiler("errors"), &["-std=c99"]);
    for (index, headers) in [[c, c], [c, cpp], [cpp, c], [cpp, cpp]].iter().enumerate() {
        check(&format!("twice_{index}.cpp"), headers, compiler("wrapper"), &["-std=c++17"]);
    }
}

#[test]
fn exactly_the_functions_of_the_header_are_exported() {
    exports::check_names(&Library::built().shared());
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
        let known = crate_folder().join("tests/c/valgrind.supp");
        run(valgrind.args(switches).arg(format!("--suppressions={}", known.display())).arg(program));
    }
}

/// The compiler of C gives each structure the layout that Rust does.
#[test]
fn structures_have_the_same_layout_in_c() {
    macro_rules! layouts {
        ($($structure:ident { $($field:ident)+ })+) => {{
            use gpu_interop_capi::*;
            let mut text = String::from("#include <gpu_interop.h>\n");
            $(
                let (name, size) = (stringify!($structure), size_of::<$structure>());
                text += &format!("_Static_assert(sizeof({name}) == {size}, \"{name}\");\n");
                $(
                    let (field, offset) = (stringify!($field), std::mem::offset_of!($structure, $field));
                    text += &format!("_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");\n");
                )+
            )+
            text + "int main(void) { return 0; }\n"
        }};
    }
    let text = layouts! {
        gpi_stream { id }
        gpi_identity { name kind fields uuid luid luid_node_mask pci_domain pci_bus pci_function reserved }
        gpi_backend_info { name driver library simulated device_count passed_over }
        gpi_device_info { identity backend architecture context ordinal }
        gpi_support { level detail }
        gpi_array_desc { offset width height depth shape channel channels levels layout_levels usage }
        gpi_memory_import { kind flags size fd reserved object name exporter image }
        gpi_semaphore_import { kind flags fd reserved object name exporter }
        gpi_memory_info { size raw kind has_image image }
        gpi_range { buffer offset size }
        gpi_buffer_info { address size offset read_only exportable }
        gpi_array_level_info { raw extent size }
        gpi_array_region { array level reserved offset extent }
        gpi_texels { range row_pitch rows }
        gpi_launch_config { grid block shared_memory }
        gpi_kernel_arg { kind value_alignment bits range value value_size }
        gpi_semaphore_op { semaphore value timeout_ns fence skip_memsync reserved }
        gpi_timeline_functions { data value signal wait release }
        gpi_vulkan_device { instance physical_device device get_instance_proc_addr }
        gpi_vulkan_buffer_options { size usage dedicated placement kind }
        gpi_vulkan_memory_info { object memory allocation_size offset mapped dedicated reserved }
        gpi_vulkan_image_options { view format extent layers levels usage tiling flags offset dedicated placement kind }
        gpi_vulkan_row_layout { offset row_pitch depth_pitch array_pitch size }
        gpi_vulkan_transfer { queue_family stages access }
    };
    let library = Library::built();
    let file = library.write("layouts.c", &text);
    run(&mut library.command(&library.compile_file(&file, &compiler("errors"), &[])));
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
    exports::check_versions(&library.shared());
    library.check_cmake_files();
}
