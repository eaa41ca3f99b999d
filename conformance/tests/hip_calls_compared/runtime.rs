//! Runtimes for scripts: a version of AMD's runtime, or the simulator of that version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use wait_timeout::ChildExt as _;

use super::language::Script;
use super::machine::{ANSWER, END};
use gpu_interop_test_support::this_program;

/// The first argument of the process of one script; the name of the script follows.
pub(crate) const COMMAND: &str = "script";
/// Environment of that process: the library, and the major version of its structs.
pub(crate) const LIBRARY: &str = "HIP_LIBRARY";
pub(crate) const MAJOR: &str = "HIP_MAJOR";

/// The folder in which `ci/amd-runtimes.sh` has set up AMD's runtimes.
const RUNTIMES: &str = "GPU_INTEROP_AMD_RUNTIMES";
/// The emulated kernel driver, which is preloaded for them.
const EMULATED: &str = "GPU_INTEROP_EMULATED_AMDGPU";
/// If set, a version that is not set up fails.
const REQUIRED: &str = "GPU_INTEROP_REQUIRE_AMD_RUNTIMES";

/// Time limit of a script on AMD's runtime and on the simulator, which starts faster. Most take well below a second,
/// except those that verify that an event does not happen. One that hangs ends here.
const LIMITS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(8)];

/// A recorded version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    /// The version in AMD's packages.
    pub(crate) name: &'static str,
    /// The number that `hipRuntimeGetVersion` returns.
    number: u32,
}

/// All recorded versions: those with Debian packages.
pub(crate) const VERSIONS: [Version; 4] = [
    Version { name: "5.2.3", number: 50_221_153 },
    Version { name: "5.7.1", number: 50_731_921 },
    Version { name: "6.4.3", number: 60_443_484 },
    Version { name: "7.2.4", number: 70_253_211 },
];

impl Version {
    fn major(self) -> u32 {
        self.number / 10_000_000
    }
}

/// A runtime for scripts.
#[derive(Debug)]
pub(crate) struct Runtime {
    library: PathBuf,
    version: Version,
    /// `None` for the simulator.
    real: Option<Real>,
}

#[derive(Debug)]
struct Real {
    /// The folder of the version: `amd`, `libc` and `lib` have the runtime, its C library and its other libraries.
    folder: PathBuf,
    emulated: PathBuf,
}

impl Runtime {
    pub(crate) fn simulator(library: &Path, version: Version) -> Self {
        Self { library: library.into(), version, real: None }
    }

    /// AMD's runtime of a version; `None` if it is not set up.
    pub(crate) fn real(version: Version) -> Result<Option<Self>, String> {
        let folder = std::env::var_os(RUNTIMES).map(|root| Path::new(&root).join(version.name));
        let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
            return match std::env::var_os(REQUIRED) {
                Some(_) => Err(format!("{REQUIRED} is set, and {RUNTIMES} is no folder with {}", version.name)),
                None => Ok(None),
            };
        };
        // The suite's command knows the first variable, too.
        let emulated = match (std::env::var_os(EMULATED), std::env::var_os(REQUIRED)) {
            (Some(emulated), _) => emulated,
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(format!("{REQUIRED} is set, and {EMULATED} is not")),
        };
        let library = folder.join(format!("amd/libamdhip64.so.{}", version.major()));
        if !library.is_file() {
            return Err(format!("{} is not there", library.display()));
        }
        Ok(Some(Self { library, version, real: Some(Real { folder, emulated: emulated.into() }) }))
    }

    /// The process of a script, without the last arguments.
    fn program(&self) -> Result<Command, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut this = this_program().map_err(failed)?;
        let Some(real) = &self.real else {
            // The device of the emulated kernel driver.
            this.env("GPU_INTEROP_SIM_ARCH", "gfx906:sramecc-:xnack-").env("GPU_INTEROP_SIM_PCI", "0:3:0");
            this.env("GPU_INTEROP_SIM_VERSION", self.version.number.to_string());
            return Ok(this);
        };
        let [amd, lib, libc] = ["amd", "lib", "libc"].map(|name| real.folder.join(name));
        let mut command = Command::new(libc.join("ld-linux-x86-64.so.2"));
        for (name, value) in this.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.arg("--library-path").arg(format!("{}:{}:{}", amd.display(), lib.display(), libc.display()));
        command.arg("--preload").arg(&real.emulated).arg(this.get_program());
        Ok(command)
    }

    /// Runs a script and returns its results, the last of which describes the end of the process.
    pub(crate) fn run(&self, script: &Script) -> Result<Vec<String>, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", script.name);
        let mut command = self.program()?;
        command.args([COMMAND, &script.name]).envs(script.environment.iter().cloned());
        command.env(LIBRARY, &self.library).env(MAJOR, self.version.major().to_string());
        let folder = tempfile::tempdir().map_err(failed)?;
        let [output, errors] = [folder.path().join("output"), folder.path().join("errors")];
        let file = |path: &Path| std::fs::File::create(path).map(Stdio::from).map_err(failed);
        command.stdin(Stdio::null()).stdout(file(&output)?).stderr(file(&errors)?);
        let mut child = command.spawn().map_err(failed)?;
        let status = child.wait_timeout(LIMITS[usize::from(self.real.is_none())]).map_err(failed)?;
        if status.is_none() {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
        }
        let text = |path: &Path| std::fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
        let (output, errors) = (text(&output).map_err(failed)?, text(&errors).map_err(failed)?);
        if std::env::var_os("GPU_INTEROP_SHOW_ERRORS").is_some() {
            eprintln!("--- {}\n{errors}", script.name);
        }
        if let Some(line) = errors.lines().find(|line| line.starts_with(WRONG)) {
            return Err(format!("{}: {line}", script.name));
        }
        let mut answers: Vec<String> =
            output.lines().filter_map(|line| line.strip_prefix(ANSWER)).map(ToOwned::to_owned).collect();
        match status {
            None => answers.push(DIED_OR_NOT[0].into()),
            Some(status) => match std::os::unix::process::ExitStatusExt::signal(&status) {
                Some(signal) => answers.push(format!("{}{signal}", DIED_OR_NOT[1])),
                None if answers.iter().any(|answer| answer == END) => {}
                None if status.success() => answers.push("exits".into()),
                None => return Err(format!("{}: {status}: {errors}", script.name)),
            },
        }
        Ok(answers)
    }
}

/// Output of a process with an invalid script.
pub(crate) const WRONG: &str = "wrong script: ";
/// Possible ends of a process.
pub(crate) const DIED_OR_NOT: [&str; 2] = ["hangs", "dies of signal "];
