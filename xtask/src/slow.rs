//! The steps of `cargo xtask slow`, which take long and rarely fail, or need another build of the workspace or Debian's
//! next releases. CI runs them nightly.

use std::fs;
use std::path::Path;

use crate::fast::steps;
use crate::run::{Outcome, Run, cargo, has, run};
use crate::session::{Session, Step, build};
use crate::{debian, package, python, windows};

pub(crate) static STEPS: &[Step] = steps![
    "release", "the suite and the bundle, built with optimisation (README's command)", release;
    "slurm", "ci/slurm on a Slurm controller with two nodes on this machine", slurm;
    "browser", "the pages of the suite in Chromium", browser;
    "measurements", "equal measurements do not differ, and planted changes are found", |_| {
        // One test measures at a time.
        cargo("test --package gpu-interop-conformance-cli --test reports -- --test-threads 1 --ignored measurements")
            .check()
    };
    "bench-wgpu", "the bench of the crate for wgpu, a feature of the command that its bundle lacks", bench_wgpu;
    "loom", "the bridge of timelines and batches of semaphores, in every order of events", loom;
    "faults", "the fault campaign, with every use of every function", faults;
    "disassembler", "more than a million instructions of AMD's GPUs, decoded as LLVM's disassembler does", disassembler;
    "interpreter", "random kernels and millions of divisions, executed as AMD's GPUs and on this machine", interpreter;
    "shaders", "generated shaders on RADV with an emulated GPU, and on lavapipe", shaders;
    "pictures", "dma-bufs of 500 random sizes of each format, between two devices and two processes on RADV", pictures;
    "simulators", "the suite on simulators of all versions, built with optimisation", |_| {
        cargo("test --release --package gpu-interop-conformance-cli --test sims -- --include-ignored").check()
    };
    "aarch64", "the library on another processor, checked only", aarch64;
    "cuda-core", "NVIDIA's crate cuda-core with the guide's adapter, on the simulator of CUDA", cuda_core;
    "newer-vulkan", "the suite and the tests with wgpu, with validation, on Debian 13's Vulkan", newer_vulkan;
    "windows", "lints for Microsoft's linker, all tests and programs in C, under Wine", windows::slow;
    "address", "tests under AddressSanitizer", |_| run("ci/sanitize.sh address").check();
    "thread", "tests under ThreadSanitizer", |_| run("ci/sanitize.sh thread").check();
    "amd-5.2.3", "the suite on AMD's runtime 5.2.3, with repetitions; its recorded answers", |session| amd(session, "5.2.3");
    "amd-5.7.1", "the same on 5.7.1, and the tests of Debian 13's RADV", |session| amd(session, "5.7.1");
    "amd-6.4.3", "the same on 6.4.3", |session| amd(session, "6.4.3");
    "amd-7.2.4", "the same on 7.2.4", |session| amd(session, "7.2.4");
    "amd-newest-mesa", "the suite on 7.2.4 with the newest RADV of Debian", |session| {
        of_debian(session, "the newest RADV", run("ci/amd.sh --newest-mesa 7.2.4")).map(drop)
    };
    "package", "packages of the published crates, as Cargo verifies them before a release", package::verified;
    "outside", "an example with the README's dependency and a third party's backend, outside of the workspace", check;
    "floors", "the published crates with the oldest dependencies that they declare", package::floors;
    "deny", "licences, sources and duplicates of dependencies", |session| {
        tool(session, "cargo-deny", cargo("deny --log-level error check licenses bans sources"))
    };
    "semver", "the published crates are compatible with their last release", semver;
    "mutations", "random mutants of the source are caught by tests: others each week", mutations;
];

/// The exit status of scripts that cannot get Debian's packages.
const UNREACHABLE: i32 = 3;

fn release(session: &Session) -> Outcome {
    cargo("run --release --bin conformance -- --require host,vulkan,native --quiet --retries 0").check()?;
    cargo("bench --package gpu-interop-host --bench signal").check()?;
    simulators()?;
    run("ci/test.sh").arg(session.target.join("release")).check()
}

/// Builds the bundle's simulators.
fn simulators() -> Outcome {
    let libraries = ["sim-cuda", "sim-hip", "hip-on-cuda"].map(|name| format!("--package=gpu-interop-{name}"));
    cargo("build --release").args(libraries).check()
}

/// Slurm's daemons run as root, with their files in a temporary folder.
fn slurm(session: &Session) -> Outcome {
    let programs = ["slurmctld", "slurmd", "munged", "sbatch"];
    let found = |program: &&str| has(program) || Path::new("/usr/sbin").join(program).is_file();
    if !programs.iter().all(found) || run("id -u").text()? != "0" {
        return session.leave_out("the files for Slurm", "root, and the packages slurm-wlm and munge");
    }
    cargo("build --release --bin conformance").check()?;
    simulators()?;
    run("ci/slurm/test.sh").arg(session.target.join("release")).check()
}

fn browser(session: &Session) -> Outcome {
    if !has("chromium") && !has("chromium-browser") {
        return session.leave_out("the pages in a browser", "the package chromium");
    }
    cargo("test --package gpu-interop-conformance-cli --test reports -- --ignored browser").check()
}

fn bench_wgpu(session: &Session) -> Outcome {
    build()?;
    let test = cargo("test --workspace --test bench_wgpu --features gpu-interop-conformance-cli/wgpu");
    test.env("GPU_INTEROP_SIMULATORS", session.debug("")).check()
}

fn loom(session: &Session) -> Outcome {
    cargo("test --release --package gpu-interop-core --lib -- bridge models")
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", session.target.join("loom"))
        .check()
}

fn faults(_: &Session) -> Outcome {
    cargo("test --package gpu-interop-conformance-cli --test faults -- every_fault")
        .env("FAULT_CAMPAIGN_EVERY_USE", "1")
        .check()
}

fn disassembler(session: &Session) -> Outcome {
    if !has("llvm-mc-14") {
        return session.leave_out("the comparison with LLVM's disassembler", "the package llvm-14");
    }
    cargo("test --package gpu-interop-sim-gfx9 --test llvm -- --include-ignored")
        .env("GPU_INTEROP_REQUIRE_LLVM_MC", "1")
        .check()
}

fn interpreter(session: &Session) -> Outcome {
    if !has("clang-19") || !has("ld.lld-19") {
        return session.leave_out("random kernels of AMD's GPUs", "the packages clang-19 and lld-19");
    }
    cargo("test --release --package gpu-interop-sim-gfx9 --lib -- --ignored").env("GPU_INTEROP_REQUIRE_C", "1").check()
}

fn shaders(session: &Session) -> Outcome {
    on_radv(session, "generated shaders on RADV", "--test shaders -- --include-ignored")
}

fn pictures(session: &Session) -> Outcome {
    on_radv(session, "pictures of many sizes on RADV", "--test radv -- --ignored pictures_500_sizes")
}

/// Tests on the system's RADV with an emulated GPU.
fn on_radv(session: &Session, what: &str, tests: &str) -> Outcome {
    if !Path::new("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json").is_file() {
        return session.leave_out(what, "the package mesa-vulkan-drivers");
    }
    cargo(&format!("test --release --package gpu-interop-emulated-amdgpu {tests}")).check()
}

fn aarch64(session: &Session) -> Outcome {
    let Some(cargo) = debian::cargo_for(session, "aarch64-unknown-linux-gnu")? else { return Ok(()) };
    cargo.arg("check").args(package::PUBLISHED.map(|name| format!("--package={name}"))).check()
}

const CUDA_CORE: &str = "conformance/examples/cuda-core";

/// Builds the crate with the headers of NVIDIA's wheels. It looks for the driver by name only.
fn cuda_core(session: &Session) -> Outcome {
    let folder = session.target.join("cuda-core");
    let uuid = run("vulkaninfo").text().unwrap_or_default();
    let uuid = uuid.lines().find_map(|line| line.trim().strip_prefix("deviceUUID")).unwrap_or_default();
    let uuid = uuid.trim_start_matches([' ', '=']);
    if uuid.is_empty() || !python::install(&folder, &format!("{CUDA_CORE}/requirements.txt")) {
        let needed = "the packages vulkan-tools, mesa-vulkan-drivers, libclang-dev and python3-venv, and the wheels in";
        return session.leave_out("the crate cuda-core", &format!("{needed} {CUDA_CORE}/requirements.txt"));
    }
    cargo("build --package gpu-interop-sim-cuda").check()?;
    fs::copy(session.debug("libgpu_interop_sim_cuda.so"), folder.join("libcuda.so.1"))
        .map_err(|error| error.to_string())?;
    let site = run("env").arg(folder.join("bin/python")).args(["-c", "import site; print(site.getsitepackages()[0])"]);
    let cargo =
        |line: &str| cargo(line).within(&session.root.join(CUDA_CORE)).env("CARGO_TARGET_DIR", folder.join("target"));
    cargo("fmt --check").check()?;
    cargo("run --quiet --locked")
        .env("CUDA_HOME", Path::new(&site.text()?).join("nvidia/cu13"))
        .env("LD_LIBRARY_PATH", &folder)
        .env("GPU_INTEROP_SIM_UUID", uuid)
        .check()
}

/// Debian 12's validation layer waits for itself on bridges, so that only this validates the crate for wgpu.
fn newer_vulkan(session: &Session) -> Outcome {
    if !has("debootstrap") || run("id -u").text()? != "0" {
        return session.leave_out("Debian 13's Vulkan", "root, and the package debootstrap");
    }
    let runner = format!("ci/newer-vulkan.sh {}", session.target.join("debian-13").display());
    let status = run(&format!("{runner} true")).status()?;
    if status.code() == Some(UNREACHABLE) {
        return session.leave_out("Debian 13's Vulkan", "access to Debian's suites");
    }
    cargo("test --package gpu-interop-wgpu --lib --tests")
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", session.root.join(&runner))
        .env("GPU_INTEROP_REQUIRE_VALIDATION", "1")
        .check()?;
    cargo("build --bin conformance").check()?;
    run(&runner)
        .arg(session.debug("conformance"))
        .args("run --quiet --require host,vulkan,native --retries 0 --jobs 2".split(' '))
        .check()?;
    // Debian 12's Vulkan has no surfaces without a display. The command fails unless one of these cases runs.
    run(&runner)
        .arg(session.debug("conformance"))
        .args("run --quiet --require host,vulkan --exporter vulkan --filter present.*".split(' '))
        .check()
}

/// Runs a script that needs packages of Debian's next releases. `false` if a suite cannot be reached, or is inconsistent today:
/// then `what` is left out.
fn of_debian(session: &Session, what: &str, script: Run) -> Result<bool, String> {
    let status = script.status()?;
    match status.code() {
        Some(0) => Ok(true),
        Some(UNREACHABLE) => session.leave_out(what, "access to Debian's suites").map(|()| false),
        _ => Err(format!("{what}: {status}")),
    }
}

fn amd(session: &Session, version: &str) -> Outcome {
    // Not the folder in which `amd.sh` prefers runtimes to the system's.
    let root = session.target.join("amd-recorded");
    for script in [run("ci/amd.sh").arg(version), run("ci/amd-runtimes.sh").arg(&root).arg(version)] {
        if !of_debian(session, &format!("AMD's runtime {version}"), script)? {
            return Ok(());
        }
    }
    // The simulator of HIP is compared with these answers. `amd.sh` has built the emulated kernel driver.
    let test = format!("hip_calls_compared -- the_record_is_what_{version}_answers");
    cargo(&format!("test --package gpu-interop-conformance-cli --test {test}"))
        .env("GPU_INTEROP_AMD_RUNTIMES", &root)
        .env("GPU_INTEROP_REQUIRE_AMD_RUNTIMES", "1")
        .env("GPU_INTEROP_EMULATED_AMDGPU", session.target.join("release/libgpu_interop_emulated_amdgpu.so"))
        .check()?;
    // The fast step runs these on the system's RADV and runtime.
    let folder = root.join(version);
    if !folder.join("vulkan").is_dir() {
        return Ok(());
    }
    cargo("test --package gpu-interop-emulated-amdgpu --test radv")
        .env("GPU_INTEROP_SIM_AMDGPU_TEST_RUNTIME", folder)
        .check()
}

/// The checks of the Python module's mutants use its environment.
fn mutations(session: &Session) -> Outcome {
    let Some(_) = python::environment(session)? else { return Ok(()) };
    tool(session, "cargo-mutants", run("conformance/mutations/run.py"))
}

/// Compares with the last tag of a release.
fn semver(session: &Session) -> Outcome {
    let tags = run("git tag --list v* --merged HEAD --sort=-version:refname").text()?;
    match tags.lines().next() {
        Some(tag) => {
            let compare = format!("semver-checks --workspace --baseline-rev {tag}");
            tool(session, "cargo-semver-checks", cargo(&compare))
        }
        None => {
            println!("there is no release to compare with");
            Ok(())
        }
    }
}

/// Runs a command that uses a subcommand of cargo, and installs that from the registry if it is missing.
fn tool(session: &Session, program: &str, command: Run) -> Outcome {
    let own = session.target.join("tools");
    if !has(program) && !own.join("bin").join(program).is_file() {
        let install = cargo("install --locked --quiet --root").arg(&own).arg(program);
        if let Err(error) = install.check() {
            return session.leave_out(program, &format!("the crate {program}: {error}"));
        }
    }
    let path = format!("{}/bin:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).check()
}

const THIRD_PARTY: &str = "conformance/examples/third-party";

pub(crate) fn check(session: &Session) -> Outcome {
    let fails = |error: std::io::Error| error.to_string();
    let readme = fs::read_to_string("README.md").map_err(fails)?;
    let dependency = readme.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```"));
    let (dependency, _) = dependency.ok_or("README.md has no block of TOML")?;
    let dependency = dependency.replace("\"../gpu-interop/", &format!("\"{}/", session.root.display()));
    let manifest = format!("[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n{dependency}");
    let example = fs::read_to_string("crates/gpu-interop/examples/fill.rs").map_err(fails)?;
    start(session, "outside", &manifest, &[("main.rs", &example)], "")?;
    let folder = session.root.join(THIRD_PARTY);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).map_err(fails)?;
    // Three folders up, and two.
    let manifest = manifest
        .replace("\"../../../", &format!("\"{}/", session.root.display()))
        .replace("\"../../", &format!("\"{}/conformance/", session.root.display()));
    let read = |file: &str| fs::read_to_string(folder.join("src").join(file)).map_err(fails);
    let sources = [("main.rs", &*read("main.rs")?), ("processor.rs", &read("processor.rs")?)];
    start(session, "outside-third-party", &manifest, &sources, SUITE)
}

/// Arguments of the suite with the third party's backend.
pub(crate) const SUITE: &str =
    "--backend third-party --exporter native --quiet --filter {identity,import,lifetime,map,memory}.*";

/// Creates a crate of these files with a workspace of its own, builds and starts it.
fn start(session: &Session, name: &str, manifest: &str, sources: &[(&str, &str)], arguments: &str) -> Outcome {
    let folder = session.target.join(name);
    let write = |file: &str, text: &str| fs::write(folder.join(file), text);
    fs::create_dir_all(folder.join("src"))
        .and_then(|()| sources.iter().try_for_each(|(file, text)| write(&format!("src/{file}"), text)))
        .and_then(|()| write("Cargo.toml", &format!("{manifest}\n[workspace]\n")))
        .and_then(|()| fs::copy(session.root.join("Cargo.lock"), folder.join("Cargo.lock")))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    run_of(session, &folder.join("Cargo.toml")).arg("--").args(arguments.split_whitespace()).check()
}

/// Cargo with the target folder and profile of the workspace, so that common dependencies are built once.
fn run_of(session: &Session, manifest: &Path) -> crate::run::Run {
    cargo("--config profile.dev.package.'*'.debug=false run --quiet --manifest-path")
        .arg(manifest)
        .env("CARGO_TARGET_DIR", &session.target)
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_DEV_LTO", "off")
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    #[test]
    fn nightly_workflows_have_every_step() {
        for workflow in [include_str!("../../ci/github/slow.yml"), include_str!("../../ci/gitlab/slow.yml")] {
            for step in STEPS {
                assert!(workflow.split_whitespace().any(|word| word == step.name), "{}: {workflow}", step.name);
            }
        }
    }
}
