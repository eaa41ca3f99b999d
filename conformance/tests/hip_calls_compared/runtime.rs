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

/// The folders of AMD's runtimes: `5.2.3=FOLDER`, separated by commas. A folder contains the runtime and all libraries
/// that it needs; one with a loader, `ld-linux-*.so.*`, contains a C library, too.
const RUNTIMES: &str = "GPU_INTEROP_AMD_RUNTIMES";
/// The emulated kernel driver, which is preloaded for them.
const EMULATED: &str = "GPU_INTEROP_EMULATED_AMDGPU";
/// If set, a version that is not named fails.
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
    /// The folder of AMD's libraries; `None` for the simulator.
    real: Option<Real>,
}

#[derive(Debug)]
struct Real {
    folder: PathBuf,
    /// The loader of the C library in the folder.
    loader: Option<PathBuf>,
    emulated: PathBuf,
}

impl Runtime {
    pub(crate) fn simulator(library: &Path, version: Version) -> Self {
        Self { library: library.into(), version, real: None }
    }

    /// AMD's runtime of a version; `None` if the environment does not name it.
    pub(crate) fn real(version: Version) -> Result<Option<Self>, String> {
        let list = std::env::var(RUNTIMES).unwrap_or_default();
        let mut pairs = list.split(',').filter_map(|pair| pair.trim().split_once('='));
        let Some((_, folder)) = pairs.find(|(name, _)| *name == version.name) else {
            return match std::env::var_os(REQUIRED) {
                Some(_) => Err(format!("{REQUIRED} is set, and {RUNTIMES} does not name {}", version.name)),
                None => Ok(None),
            };
        };
        let emulated = std::env::var_os(EMULATED).ok_or(format!("{RUNTIMES} without {EMULATED}"))?;
        let folder = PathBuf::from(folder);
        let library = folder.join(format!("libamdhip64.so.{}", version.major()));
        if !library.is_file() {
            return Err(format!("{} is not there", library.display()));
        }
        let loader = std::fs::read_dir(&folder).map_err(|error| error.to_string())?.flatten();
        let loader = loader.map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("ld-linux-") && name.contains(".so.")
        });
        Ok(Some(Self { library, version, real: Some(Real { folder, loader, emulated: emulated.into() }) }))
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
        let Some(loader) = &real.loader else {
            this.env("LD_PRELOAD", &real.emulated).env("LD_LIBRARY_PATH", &real.folder);
            return Ok(this);
        };
        let mut command = Command::new(loader);
        for (name, value) in this.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let folder = real.folder.display();
        command
            .arg("--library-path")
            .arg(format!("{folder}:{folder}/llvm:/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
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
