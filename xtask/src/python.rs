//! Checks the Python module: builds its wheel, installs it into a virtual environment, and runs its tests there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, Run, cargo, run};
use crate::session::{Session, build, lint};

const CRATE: &str = "crates/gpu-interop-python";
const VULKAN: &str = "from gpu_interop import vulkan; print(vulkan.Context().identity.uuid)";

/// The virtual environment with what the module's tests need; `None` if they are left out.
///
/// # Errors
/// As for [`Session::leave_out`].
pub(crate) fn environment(session: &Session) -> Result<Option<PathBuf>, String> {
    let environment = session.target.join("python");
    if install(&environment, &format!("{CRATE}/requirements.txt")) {
        return Ok(Some(environment));
    }
    let needed = format!("the package python3-venv, and those in {CRATE}/requirements.txt");
    session.leave_out("the Python module", &needed).map(|()| None)
}

pub(crate) fn check(session: &Session) -> Outcome {
    let folder = session.root.join(CRATE);
    let Some(environment) = environment(session)? else { return Ok(()) };
    let tool = |name: &str, line: &str| -> Run {
        run("env").arg(environment.join("bin").join(name)).args(line.split(' ')).within(&folder)
    };
    cargo("fmt --check").within(&folder).check()?;
    tool("ruff", "check --quiet .").check()?;
    tool("ruff", "format --quiet --check .").check()?;
    // In the target folders of the workspace, so that common dependencies are built once.
    lint(session, "clippy --quiet --locked").args(["--", "-D", "warnings"]).within(&folder).check()?;
    let wheel = built_wheel(&session.target.join("python-wheel"), |out| {
        tool("maturin", "build --quiet --locked --profile dev --compatibility linux --out")
            .arg(out)
            .env("CARGO_TARGET_DIR", &session.target)
    })?;
    tool("pip", "install --quiet --no-index --no-deps --force-reinstall").arg(wheel).check()?;
    tool("python", "-m mypy --strict python examples").check()?;
    tool("python", "-m mypy.stubtest gpu_interop").check()?;
    let Ok(uuid) = run("env").arg(environment.join("bin/python")).arg("-c").arg(VULKAN).text() else {
        return session.leave_out("the tests of the Python module", "the packages libvulkan1 and mesa-vulkan-drivers");
    };
    tool("python", "-m pytest --quiet -p no:cacheprovider tests").check()?;
    // Again with CUDA: the simulator, whose device is that of Vulkan's driver for the CPU.
    build()?;
    tool("python", "-m pytest --quiet -p no:cacheprovider tests/cuda")
        .env("GPU_INTEROP_CUDA_LIBRARY", session.debug("libgpu_interop_sim_cuda.so"))
        .env("GPU_INTEROP_SIM_UUID", uuid)
        .env("GPU_INTEROP_REQUIRE_CUDA", "1")
        .check()?;
    // And with AMD's runtime, on the emulated GPU.
    cargo("test --quiet --workspace --test radv -- _python")
        .env("GPU_INTEROP_SIMULATORS", session.debug(""))
        .env("GPU_INTEROP_SIM_AMDGPU_TEST_PYTHON", environment.join("bin/python"))
        .check()
}

/// Builds the wheel into an empty folder. Returns its path.
fn built_wheel(out: &Path, maturin: impl FnOnce(&Path) -> Run) -> Result<PathBuf, String> {
    let fails = |error: std::io::Error| format!("{}: {error}", out.display());
    if out.exists() {
        fs::remove_dir_all(out).map_err(fails)?;
    }
    maturin(out).check()?;
    let mut wheels = fs::read_dir(out).map_err(fails)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    wheels.find(|path| path.extension().is_some_and(|end| end == "whl")).ok_or("maturin built no wheel".into())
}

/// Creates a virtual environment with the packages of `requirements`, if necessary. Returns whether it exists.
pub(crate) fn install(folder: &Path, requirements: &str) -> bool {
    let installed = folder.join("installed");
    let wanted = fs::read(requirements).unwrap_or_default();
    if fs::read(&installed).is_ok_and(|found| found == wanted) {
        return true;
    }
    run("python3 -m venv").arg(folder).succeeds()
        && run("env")
            .arg(folder.join("bin/pip"))
            .args(["--quiet", "install", "--requirement", requirements])
            .check()
            .is_ok()
        && fs::write(installed, wanted).is_ok()
}
