//! Compilers, and the library as built or installed.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_interop_test_support::built_with_this_program;
use tempfile::TempDir;

pub(crate) fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `true` if a program is installed.
pub(crate) fn has(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// Reports that a test is left out for want of a package. It fails if `GPU_INTEROP_REQUIRE_C` is set.
pub(crate) fn left_out(package: &str) {
    assert!(env::var_os("GPU_INTEROP_REQUIRE_C").is_none(), "GPU_INTEROP_REQUIRE_C is set; install {package}");
    eprintln!("left out: needs the package {package}");
}

/// `true` if the compiler finds Vulkan's header.
pub(crate) fn has_vulkan_header() -> bool {
    let mut compiler = Command::new(compiler("errors"));
    compiler.args(["-fsyntax-only", "-include", "vulkan/vulkan.h", "-x", "c", "/dev/null"]);
    compiler.output().is_ok_and(|output| output.status.success())
}

/// The compiler of a program: of C++ for `wrapper`.
pub(crate) fn compiler(program: &str) -> String {
    let (variable, default) = if program == "wrapper" { ("CXX", "c++") } else { ("CC", "cc") };
    env::var(variable).unwrap_or_else(|_| default.to_owned())
}

/// Runs a command, which must succeed. Returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{errors}", output.status);
    out.into_owned()
}

/// The source of a program in `tests/c`.
fn source(name: &str) -> PathBuf {
    let extension = if name == "wrapper" { "cpp" } else { "c" };
    crate_folder().join(format!("tests/c/{name}.{extension}"))
}

/// The library, and a folder for programs.
pub(crate) struct Library {
    folder: TempDir,
    include: PathBuf,
    /// Folder of the libraries.
    libraries: PathBuf,
}

/// The shared library that Cargo built for this test. The static one is beside it.
fn built() -> PathBuf {
    built_with_this_program("gpu-interop-capi").expect("the library")
}

impl Library {
    /// The shared library that Cargo built, under its soname.
    pub(crate) fn built() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let libraries = folder.path().join("lib");
        fs::create_dir(&libraries).expect("a folder");
        for name in ["libgpu_interop.so.0", "libgpu_interop.so"] {
            symlink(built(), libraries.join(name)).expect("a link");
        }
        Self { include: crate_folder().join("include"), libraries, folder }
    }

    /// The files of `install.sh`.
    pub(crate) fn installed() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("prefix");
        let archive = built().with_extension("a");
        let script = crate_folder().join("install/install.sh");
        run(Command::new(script).arg(archive).arg(&prefix).arg(env!("CARGO_PKG_VERSION")));
        Self { include: prefix.join("include"), libraries: prefix.join("lib"), folder }
    }

    pub(crate) fn shared(&self) -> PathBuf {
        self.libraries.join("libgpu_interop.so")
    }

    /// Writes a source.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        fs::write(&file, text).expect("written");
        file
    }

    /// Compiles `tests/c/NAME` and links it with the shared library.
    pub(crate) fn compile(&self, name: &str, compiler: &str, switches: &[&str]) -> PathBuf {
        self.compile_file(&source(name), compiler, switches)
    }

    /// Compiles a file and links it with the shared library.
    pub(crate) fn compile_file(&self, file: &Path, compiler: &str, switches: &[&str]) -> PathBuf {
        let mut command = self.compiler(file, compiler);
        let name = file.file_name().expect("a file").to_string_lossy();
        let program = self.folder.path().join(format!("{name}-{compiler}"));
        command.arg("-o").arg(&program).arg("-L").arg(&self.libraries).args(["-lgpu_interop", "-pthread"]);
        run(command.args(switches));
        program
    }

    /// Compiles a program and links it with the static library, by the switches of pkg-config.
    pub(crate) fn compile_static(&self, name: &str) -> PathBuf {
        let mut package = Command::new("pkg-config");
        package.args(["--static", "--cflags", "--libs", "gpu_interop"]);
        let text = run(package.env("PKG_CONFIG_PATH", self.libraries.join("pkgconfig")));
        let program = self.folder.path().join(format!("{name}-static"));
        // The archive instead of the switch, which prefers the shared library.
        let archive = self.libraries.join("libgpu_interop.a");
        let switches = text.split_whitespace().map(|switch| match switch {
            "-lgpu_interop" => archive.display().to_string(),
            other => other.to_owned(),
        });
        run(self.compiler(&source(name), &compiler(name)).arg("-o").arg(&program).args(switches));
        program
    }

    fn compiler(&self, file: &Path, compiler: &str) -> Command {
        let is_cpp = file.extension().is_some_and(|extension| extension == "cpp");
        let mut command = Command::new(compiler);
        command.args([
            if is_cpp { "-std=c++17" } else { "-std=gnu11" },
            "-g",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-I",
        ]);
        command.arg(&self.include).arg(file);
        command
    }

    /// A command with the library's path, and without the machine's selection of a backend.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command.env_remove("GPU_INTEROP_BACKEND").env_remove("GPU_INTEROP_TIMELINE");
        command
    }

    /// Files of CMake name the installed files, and no template is left.
    pub(crate) fn check_cmake_files(&self) {
        let folder = self.libraries.join("cmake/gpu_interop");
        for file in ["gpu_interop-config.cmake", "gpu_interop-config-version.cmake"] {
            let text = fs::read_to_string(folder.join(file)).expect("installed");
            assert!(!text.contains('@'), "{file}: {text}");
        }
        for file in ["libgpu_interop.so.0.1", "libgpu_interop.so.0", "libgpu_interop.a"] {
            assert!(self.libraries.join(file).is_file(), "{file}");
        }
        if !has("cmake") {
            left_out("cmake");
            return;
        }
        let source = self.folder.path().join("source");
        fs::create_dir(&source).expect("a folder");
        let program = crate_folder().join("tests/c/memory.c");
        let list = format!(
            "cmake_minimum_required(VERSION 3.13)\nproject(test C)\nfind_package(gpu_interop 0.1 REQUIRED)\n\
             add_executable(test {})\ntarget_link_libraries(test gpu_interop::gpu_interop)\n",
            program.display()
        );
        fs::write(source.join("CMakeLists.txt"), list).expect("written");
        let build = self.folder.path().join("build");
        let prefix = format!("-DCMAKE_PREFIX_PATH={}", self.libraries.parent().expect("a prefix").display());
        run(Command::new("cmake").arg("-S").arg(&source).arg("-B").arg(&build).arg(prefix));
        run(Command::new("cmake").arg("--build").arg(&build));
        run(&mut self.command(&build.join("test")));
    }
}
