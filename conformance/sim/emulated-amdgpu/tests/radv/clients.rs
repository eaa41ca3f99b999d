//! Other programs on the emulated GPU: each is started as any user would, and its output has what the row names.
//!
//! A program that is not here is left out, with the command that installs or builds it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::vulkan::Result;

/// A program, how it is run, and what its output has. The programs compare their data themselves, and fail if it differs.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    program: Program,
    arguments: &'static [&'static str],
    /// HIP 5.2 has timelines on gfx908 only, which has no graphics queue; a program that asks for one needs gfx906.
    pub(crate) gpus: &'static str,
    pub(crate) hip: bool,
    pub(crate) output: &'static [&'static str],
}

#[derive(Debug)]
enum Program {
    /// In a folder of `PATH`; Debian's package.
    Installed { package: &'static str },
    /// An example of a package in Rust.
    Example { package: &'static str },
    /// A source file in C, with the library for C.
    C { source: &'static str },
    /// A script, for the interpreter that [`PYTHON`] names.
    Python { script: &'static str },
}

pub(crate) const CLIENTS: &[Client] = &[
    Client {
        name: "vulkaninfo",
        program: Program::Installed { package: "vulkan-tools" },
        arguments: &[],
        gpus: "gfx906",
        hip: false,
        // The largest heap is the video memory.
        output: &[
            "= AMD Radeon Graphics (RADV VEGA20)",
            "driverName      = radv",
            "pciBus      = 3",
            "size   = 8589934592 (0x200000000)",
            "VK_KHR_external_memory_fd  ",
        ],
    },
    Client {
        name: "fill",
        program: Program::Example { package: "gpu-interop" },
        arguments: &[],
        gpus: "gfx906",
        hip: true,
        output: &["AMD Radeon Graphics, pci 0000:03:00.0 wrote 1,024 words, AMD Radeon Graphics (RADV VEGA20)"],
    },
    Client {
        name: "frames_in_flight",
        program: Program::Example { package: "gpu-interop" },
        arguments: &["30", "compute"],
        gpus: "gfx908",
        hip: true,
        output: &["30 frames by strategy bridge", "with AMD Radeon Graphics, pci 0000:03:00.0"],
    },
    Client {
        name: "own_device",
        program: Program::Example { package: "gpu-interop" },
        arguments: &["30"],
        gpus: "gfx908",
        hip: true,
        output: &["30 rounds by strategy bridge", "with AMD Radeon Graphics, pci 0000:03:00.0"],
    },
    Client {
        name: "picture_to_compute",
        program: Program::Example { package: "gpu-interop" },
        arguments: &["3"],
        gpus: "gfx908",
        hip: true,
        // HIP 5.2 does not share.
        output: &["LINEAR", "copied (the modifier AMD", "3 frames of each picture, with AMD Radeon Graphics"],
    },
    Client {
        name: "wgpu_compute",
        program: Program::Example { package: "gpu-interop-wgpu" },
        arguments: &[],
        gpus: "gfx906",
        hip: true,
        output: &["a compute pass on AMD Radeon Graphics (RADV VEGA20) changed 4096 words", "not shared: "],
    },
    Client {
        name: "wgpu_picture",
        program: Program::Example { package: "gpu-interop-wgpu" },
        arguments: &[],
        gpus: "gfx906",
        hip: false,
        output: &["7 linear and ", "4 planes of NV12 and P010, went to AMD Radeon Graphics (RADV VEGA20) and back"],
    },
    Client {
        name: "fill_c",
        program: Program::C { source: "crates/gpu-interop-capi/examples/fill.c" },
        arguments: &[],
        gpus: "gfx906",
        hip: true,
        output: &["AMD Radeon Graphics (RADV VEGA20): 1024 of 1024 words"],
    },
    Client {
        name: "gpu_memory_python",
        program: Program::Python { script: "crates/gpu-interop-python/examples/gpu_memory.py" },
        arguments: &[],
        gpus: "gfx906",
        hip: true,
        output: &["20 rounds over 4,096 words of hip"],
    },
    Client {
        name: "picture_python",
        program: Program::Python { script: "crates/gpu-interop-python/examples/picture.py" },
        arguments: &[],
        gpus: "gfx906",
        hip: false,
        output: &["20 rounds over 2 planes of 64 x 32"],
    },
];

/// The variable that names an interpreter with the module for Python. `cargo xtask ci --only python` sets it.
const PYTHON: &str = "GPU_INTEROP_SIM_AMDGPU_TEST_PYTHON";

/// The workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

impl Client {
    /// The program's file, or, if it is missing, the command that installs or builds it.
    fn file(&self) -> Result<PathBuf> {
        let (file, remedy) = match self.program {
            Program::Installed { package } => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let file =
                    std::env::split_paths(&path).map(|folder| folder.join(self.name)).find(|file| file.is_file());
                return file.ok_or_else(|| format!("apt-get install {package}"));
            }
            Program::Example { package } => (
                built(&format!("examples/{}", self.name))?,
                format!("cargo build --package {package} --example {}", self.name),
            ),
            Program::C { .. } => {
                (built("libgpu_interop_capi.so")?, "cargo build --package gpu-interop-capi".to_owned())
            }
            Program::Python { .. } => {
                (std::env::var_os(PYTHON).unwrap_or_default().into(), format!("{PYTHON} names no interpreter"))
            }
        };
        if file.is_file() { Ok(file) } else { Err(remedy) }
    }

    /// How to get the program, if the test is left out without it.
    pub(crate) fn missing(&self) -> Option<String> {
        let built_here = matches!(self.program, Program::Example { .. } | Program::C { .. });
        let required = built_here && std::env::var_os("GPU_INTEROP_REQUIRE_C").is_some();
        self.file().err().filter(|_| !required)
    }

    /// Runs the program by a function that preloads the emulation. `folder` is for what is built for it.
    pub(crate) fn run(&self, folder: &Path, run: impl FnOnce(Command) -> Result<String>) -> Result<()> {
        let file = self.file()?;
        let mut command = match self.program {
            Program::Installed { .. } | Program::Example { .. } => Command::new(file),
            Program::C { source } => Command::new(compiled(source, &file, folder)?),
            Program::Python { script } => {
                let mut command = Command::new(file);
                command.arg(Path::new(ROOT).join(script));
                command
            }
        };
        command.args(self.arguments);
        let text = run(command)?;
        match self.output.iter().find(|part| !text.contains(**part)) {
            None => Ok(()),
            Some(part) => Err(format!("`{part}` is not in the output: {text}")),
        }
    }
}

/// A file of Cargo's folder, in which this program is in another one.
fn built(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = own.ancestors().nth(2).ok_or("this program is in no folder of Cargo's")?;
    Ok(folder.join(name))
}

/// Compiles a program in C, and links it with Vulkan and the library for C.
fn compiled(source: &str, library: &Path, folder: &Path) -> Result<PathBuf> {
    let fails = |error: std::io::Error| error.to_string();
    let program = folder.join("program");
    std::os::unix::fs::symlink(library, folder.join("libgpu_interop.so.0")).map_err(fails)?;
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.arg(Path::new(ROOT).join(source)).arg("-I").arg(Path::new(ROOT).join("crates/gpu-interop-capi/include"));
    compiler.arg(library).args(["-lvulkan", "-o"]).arg(&program);
    let ended = compiler.arg(format!("-Wl,-rpath,{}", folder.display())).output().map_err(fails)?;
    match ended.status.success() {
        true => Ok(program),
        false => Err(format!("{compiler:?}: {}", String::from_utf8_lossy(&ended.stderr))),
    }
}
