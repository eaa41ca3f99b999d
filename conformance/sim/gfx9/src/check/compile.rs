//! Compilers of test programs: for the GPU, for this machine, and the assembler.
//!
//! Without clang-19 or lld-19, a test prints `left out:` and the package. With `GPU_INTEROP_REQUIRE_C`, a missing one is
//! a failure.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Object as _, ObjectSection as _};
use tempfile::TempDir;

const TARGET: [&str; 3] = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx906", "-nogpulib"];
/// Flags of both compilations: the results must be equal.
const FLAGS: [&str; 7] = [
    "-std=c17",
    "-O2",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-ident",
    // Generated code: unused variables, and comparisons that always hold.
    "-w",
];

/// `false`, with a report, if a compiler is missing.
pub(crate) fn has_tools() -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    ["clang-19", "ld.lld-19"].into_iter().zip(["clang-19", "lld-19"]).all(|(program, package)| {
        let found = env::split_paths(&folders).any(|folder| folder.join(program).is_file());
        if !found {
            assert!(env::var_os("GPU_INTEROP_REQUIRE_C").is_none(), "GPU_INTEROP_REQUIRE_C is set; install {package}");
            eprintln!("left out: needs the package {package}");
        }
        found
    })
}

fn run(command: &mut Command) {
    let output = command.output().expect("a process");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A program in C for both processors, in a folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Compiled {
    folder: TempDir,
    pub(crate) code_object: Vec<u8>,
}

impl Compiled {
    /// Compiles a source after the prelude, with more flags for the GPU.
    pub(crate) fn new(source: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("prelude.h"), include_str!("kernels/prelude.h")).expect("written");
        std::fs::write(at("program.c"), format!("#include \"prelude.h\"\n{source}")).expect("written");
        let mut native = Command::new("clang-19");
        native.args(FLAGS).args(["-shared", "-fPIC", "-Xclang", "-ffloat16-excess-precision=none"]);
        let mut native =
            native.arg("-o").arg(at("native.so")).arg(at("program.c")).arg("-lm").spawn().expect("clang-19");
        let mut compiler = Command::new("clang-19");
        // Code objects of version 4, as the project's kernels.
        compiler.args(TARGET).args(FLAGS).args(more).args(["-ffreestanding", "-mcode-object-version=4", "-c"]);
        run(compiler.arg("-o").arg(at("gpu.o")).arg(at("program.c")));
        run(Command::new("ld.lld-19").args(["-shared", "-o"]).arg(at("gpu.hsaco")).arg(at("gpu.o")));
        assert!(native.wait().expect("clang-19").success());
        let code_object = std::fs::read(at("gpu.hsaco")).expect("a code object");
        Self { folder, code_object }
    }

    /// The library for this machine.
    pub(crate) fn native(&self) -> PathBuf {
        self.folder.path().join("native.so")
    }
}

/// Assembles instructions: the words of `.text`.
pub(crate) fn assemble(text: &str) -> Vec<u32> {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, file) = (folder.path().join("program.s"), folder.path().join("program.o"));
    std::fs::write(&source, text).expect("written");
    run(Command::new("clang-19").args(TARGET).args(["-c", "-o"]).arg(&file).arg(&source));
    text_of(&file)
}

fn text_of(file: &Path) -> Vec<u32> {
    let bytes = std::fs::read(file).expect("an object");
    let elf = ElfFile64::<object::LittleEndian>::parse(&*bytes).expect("an object of ELF");
    assert!(elf.elf_header().is_class_64());
    let section = elf.section_by_name(".text").expect("instructions");
    let text = section.data().expect("instructions");
    text.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}
