//! Programs and libraries that tests start or load: this program, simulators and the C interface, and C libraries.
//!
//! Without Cargo, as under Wine, `GPU_INTEROP_SIMULATORS` names the folder of the built libraries.

use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
#[cfg(unix)]
use tempfile::TempDir;

/// File of a library, or the error of building it.
type Built = Result<PathBuf, String>;

/// Builds a library of this workspace once per process, with the profile of this program, and returns its file. Cargo
/// does not build these libraries for the tests because nothing links with them.
///
/// # Errors
/// Cargo's output, or the missing file.
pub fn build(package: &str) -> Result<PathBuf, String> {
    static BUILT: Mutex<BTreeMap<String, Built>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(package.to_owned()).or_insert_with(|| build_now(package)).clone()
}

/// The file of a library that is also a Rust library on which this program depends: Cargo built both at once.
///
/// # Errors
/// The missing file.
pub fn built_with_this_program(package: &str) -> Result<PathBuf, String> {
    existing(&dependencies()?, package)
}

fn existing(folder: &Path, package: &str) -> Built {
    let file = folder.join(format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_")));
    if file.is_file() { Ok(file) } else { Err(format!("{} does not exist", file.display())) }
}

fn build_now(package: &str) -> Built {
    if let Some(folder) = std::env::var_os("GPU_INTEROP_SIMULATORS") {
        return existing(Path::new(&folder), package);
    }
    let target = package.replace('-', "_");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--message-format=json-render-diagnostics", "--package", package]);
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "--target-dir"]);
    // Not the folder of the tests. Cargo enables fewer features of the dependencies for one package than for the whole
    // workspace, but the library's file has the same name: each build would replace the other's.
    cargo.arg(target_folder()?.join("simulators"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo build --package {package}: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == target.as_str())
        // The package may also have a Rust library.
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().filter(|file| file.ends_with(DLL_SUFFIX)).map(PathBuf::from))
        .next_back()
        .ok_or_else(|| format!("cargo reported no library of {package}"))
}

/// Cargo's target folder.
fn target_folder() -> Built {
    let dependencies = dependencies()?;
    let target = dependencies.parent().and_then(Path::parent);
    target.map(Path::to_owned).ok_or_else(|| format!("{} is not in a target folder of Cargo", dependencies.display()))
}

/// `deps`, two below the target folder, where Cargo puts the programs of tests and their dependencies.
fn dependencies() -> Built {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.ancestors().find(|folder| folder.ends_with("deps"));
    folder.map(Path::to_owned).ok_or_else(|| format!("{} is not in a target folder of Cargo", program.display()))
}

/// Variables by which schedulers and users select devices, libraries, a backend or a strategy for a whole machine.
/// Simulators follow them like drivers.
const MACHINE_VARIABLES: [&str; 10] = [
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "GPU_INTEROP_BACKEND",
    "GPU_INTEROP_D3D_LIBRARY",
    "GPU_INTEROP_NVSCIBUF_LIBRARY",
    "GPU_INTEROP_NVSCISYNC_LIBRARY",
    "GPU_INTEROP_TIMELINE",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
];

/// Returns a command that starts this program without the machine's selections.
///
/// # Errors
/// If the path of this program is unavailable.
pub fn this_program() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let simulator_variables = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.as_encoded_bytes().starts_with(b"GPU_INTEROP_SIM_"));
    for name in MACHINE_VARIABLES.into_iter().map(Into::into).chain(simulator_variables) {
        command.env_remove(name);
    }
    Ok(command)
}

/// Returns a command that starts a built example of the library without the machine's selections. `None`, after the
/// reason, if it is not built. `options` are further ones for Cargo to build it.
///
/// # Panics
/// If it is not built and `GPU_INTEROP_REQUIRE_C` is set, or if the path of this program is unavailable.
pub fn example(name: &str, options: &str) -> Option<Command> {
    let file = dependencies().map(|folder| folder.with_file_name("examples").join(name)).expect("Cargo's folder");
    if !file.is_file() {
        assert!(std::env::var_os("GPU_INTEROP_REQUIRE_C").is_none(), "GPU_INTEROP_REQUIRE_C is set; build the example");
        println!("skipped: build it with cargo build --package gpu-interop {options} --example {name}");
        return None;
    }
    let mut command = Command::new(file);
    for (name, _) in this_program().expect("this program").get_envs() {
        command.env_remove(name);
    }
    Some(command)
}

/// Runs a program, and prints and returns its exit code and its text.
///
/// # Panics
/// If it does not start.
pub fn code_and_text(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    println!("{}: {text}", output.status);
    (output.status.code(), text)
}

/// Runs the test of this name in a separate process, because other tests open and close descriptors, load drivers or
/// make calls. Returns `true` in the separate process, which runs the test; `false` in this process, after it has
/// ended.
///
/// # Panics
/// If the test fails there, or does not exist.
pub fn in_own_process(name: &str) -> bool {
    const ALONE: &str = "GPU_INTEROP_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut program = Command::new(std::env::current_exe().expect("a path"));
    let output = program.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().expect("started");
    let [text, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}{errors}", output.status);
    println!("{text}");
    false
}

/// Runs the tests of a program without Rust's test harness, as its arguments say. `threads` is the number of parallel
/// tests, unless the arguments name one.
pub fn run_tests(tests: Vec<Trial>, threads: Option<usize>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(threads);
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Library in a temporary folder, which is removed on drop.
#[cfg(unix)]
#[derive(Debug)]
pub struct CompiledLibrary {
    folder: TempDir,
    file: String,
}

#[cfg(unix)]
impl CompiledLibrary {
    /// Compiles `source` with the given switches and the C compiler that Rust links with. A missing compiler is a
    /// failure, because it would have prevented building the tests.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn compile(source: &str, switches: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the library");
        let name = Path::new(source).file_stem().expect("a file").to_string_lossy();
        let file = format!("lib{name}.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output = Command::new(&compiler)
            .args(["-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(folder.path().join(&file))
            .args(switches)
            .arg(source)
            .arg("-lpthread")
            .output()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        Self { folder, file }
    }

    /// File of the library.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join(&self.file)
    }
}

/// Returns the path of a source in the folder `c` of this crate.
#[cfg(unix)]
pub fn source(name: &str) -> String {
    format!("{}/c/{name}", env!("CARGO_MANIFEST_DIR"))
}
