//! Selection of AMD's runtime, and the manifest that `ci/amd-runtimes.sh` writes for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpu_interop_conformance::{Stop, Verdict};

use super::Emulation;

/// Debian's folder of the library.
const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";
/// The name of the library without its generation.
const NAME: &str = "libamdhip64.so.";
/// Generations known to the library, newest first.
const GENERATIONS: [u32; 3] = [7, 6, 5];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Runtime {
    /// The library's file.
    pub(super) library: PathBuf,
    /// AMD's release.
    pub(super) release: String,
    /// Its folder, with the libraries that it needs; `None` for the system's runtime.
    pub(super) folder: Option<PathBuf>,
}

impl Runtime {
    /// The runtimes that `ci/amd-runtimes.sh` has set up in a folder, oldest first.
    fn set_up_in(root: &Path) -> Vec<Self> {
        let folders = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut all: Vec<Self> = folders.filter_map(Self::of_folder).collect();
        all.sort_by_key(|runtime| numbers(&runtime.release));
        all
    }

    fn of_folder(folder: PathBuf) -> Option<Self> {
        let release = Manifest::read(&folder)?.release()?;
        Some(Self { library: library_in(&folder.join("amd"))?, release, folder: Some(folder) })
    }

    /// The system's installed runtime.
    fn of_system() -> Option<Self> {
        let library = library_in(Path::new(SYSTEM))?;
        let release = release_of(&library).or_else(|| version_of_library(&library))?;
        Some(Self { library, release, folder: None })
    }

    fn is_of(&self, version: Option<&str>) -> bool {
        let Some(version) = version else { return true };
        // Compares whole numbers: 5 and 5.2 match 5.2.3, 5.20 does not.
        self.release.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Its location, for messages.
    fn location(&self) -> String {
        let location =
            self.folder.as_ref().map_or_else(|| "the system's".into(), |folder| folder.display().to_string());
        format!("{} ({location})", self.release)
    }
}

fn library_in(folder: &Path) -> Option<PathBuf> {
    let files = GENERATIONS.map(|generation| folder.join(format!("{NAME}{generation}")));
    files.into_iter().find(|file| file.is_file())
}

/// The version in the name of a runtime's file, to which the library's name is a link.
pub(super) fn version_of_library(library: &Path) -> Option<String> {
    version_of_file(&library.canonicalize().ok()?)
}

/// `libamdhip64.so.5.2.21153` is 5.2.21153.
fn version_of_file(file: &Path) -> Option<String> {
    let version = file.file_name()?.to_str()?.strip_prefix(NAME)?;
    numbers(version).filter(|numbers| numbers.len() > 1).map(|_| version.to_owned())
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

/// The folders that may contain runtimes: the named one, or `amd` in those around the program. Cargo puts programs into
/// `target/release`, and tests one folder deeper.
fn roots(named: Option<&Path>, program: &Path) -> Vec<PathBuf> {
    named.map_or_else(
        || program.ancestors().skip(1).take(3).map(|folder| folder.join("amd")).collect(),
        |root| vec![root.to_owned()],
    )
}

/// Finds the requested runtime; without a version, the system's.
///
/// # Errors
/// If it does not exist, with the existing runtimes and the command to set one up.
pub(super) fn find(emulation: &Emulation, named: Option<&Path>, program: &Path) -> Verdict<Runtime> {
    let roots = roots(named, program);
    let set_up = roots.iter().flat_map(|root| Runtime::set_up_in(root)).collect();
    // Cargo's folder: programs are in a subfolder of it.
    let root = roots.get(1).or(roots.first()).map_or_else(|| PathBuf::from("target/amd"), Clone::clone);
    choose(emulation, Runtime::of_system(), set_up, &root)
}

fn choose(emulation: &Emulation, system: Option<Runtime>, set_up: Vec<Runtime>, root: &Path) -> Verdict<Runtime> {
    let version = emulation.version.as_deref();
    let all: Vec<Runtime> = match version {
        // A runtime in a folder is complete and verified.
        Some(_) => set_up.into_iter().chain(system).collect(),
        None => system.into_iter().chain(set_up).collect(),
    };
    if let Some(found) = all.iter().find(|runtime| runtime.is_of(version)) {
        return Ok(found.clone());
    }
    let here: Vec<String> = all.iter().map(Runtime::location).collect();
    let here = if here.is_empty() { "none".into() } else { here.join(", ") };
    let wanted = version.unwrap_or("5.2.3");
    let generation = wanted.split('.').next().unwrap_or_default();
    Err(Stop::failed(format!(
        "{emulation}: AMD's runtime is not here (found: {here}); it is Debian's package libamdhip64-{generation}: \
         `ci/amd-runtimes.sh {} {wanted}` sets it up in a folder, without root, and in Debian 12 `apt-get install \
         libamdhip64-5` installs 5.2.3; --emulate-root names another folder",
        root.display()
    )))
}

/// The file in the folder of a runtime, with one line per package: its name, version and the SHA-256 of its file.
pub(super) const FILE: &str = "manifest";
/// Prefix of the runtime's package; its generation follows.
const RUNTIME: &str = "libamdhip64-";

/// The packages of a runtime.
#[derive(Debug)]
pub(super) struct Manifest {
    packages: Vec<(String, String)>,
}

impl Manifest {
    /// Reads the manifest of a runtime's folder; `None` if it does not exist.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        std::fs::read_to_string(folder.join(FILE)).ok().map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let package = |line: &str| {
            let mut fields = line.split_whitespace().map(ToOwned::to_owned);
            Some((fields.next()?, fields.next()?))
        };
        Self { packages: text.lines().filter_map(package).collect() }
    }

    /// AMD's release of the runtime.
    pub(super) fn release(&self) -> Option<String> {
        self.packages.iter().find(|(name, _)| name.starts_with(RUNTIME)).map(|(_, version)| upstream(version))
    }

    /// The version of the C library.
    #[cfg_attr(
        not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")),
        allow(dead_code, reason = "elsewhere no program is changed for it")
    )]
    pub(super) fn c_library(&self) -> Option<String> {
        self.packages.iter().find(|(name, _)| name == "libc6").map(|(_, version)| upstream(version))
    }
}

/// The release of a runtime, according to the manifest of its folder, or Debian's data of the installed package.
pub(super) fn release_of(library: &Path) -> Option<String> {
    let of_folder = library.ancestors().skip(1).find_map(Manifest::read);
    of_folder.map_or_else(|| installed(&library.canonicalize().ok()?), |manifest| manifest.release())
}

/// The upstream version of the installed package that contains a file.
fn installed(file: &Path) -> Option<String> {
    // The query must not run on the emulation.
    let ask = |arguments: &[&std::ffi::OsStr]| {
        let mut query = Command::new("dpkg-query");
        query.args(arguments).env_remove("LD_PRELOAD").stdin(Stdio::null()).stderr(Stdio::null());
        let output = query.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let found = ask(&["--search".as_ref(), file.as_os_str()])?;
    let package = found.split_once(": ")?.0;
    let version = ask(&["--show".as_ref(), "--showformat=${Version}".as_ref(), package.as_ref()])?;
    Some(upstream(&version))
}

/// The upstream part of a Debian version, its leading numbers: `1:5.7.1-6+deb13u1` is 5.7.1, `2.41-12` is 2.41.
fn upstream(version: &str) -> String {
    let version = version.trim();
    let version = version.split_once(':').map_or(version, |(_, version)| version);
    let numbers = version.split(|character: char| !character.is_ascii_digit() && character != '.').next();
    numbers.unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(release: &str, folder: Option<&str>) -> Runtime {
        Runtime { library: "l".into(), release: release.into(), folder: folder.map(Into::into) }
    }

    #[test]
    fn versions_are_prefixes_by_whole_numbers() {
        let found = runtime("5.2.3", None);
        for (version, fits) in
            [(None, true), (Some("5"), true), (Some("5.2.3"), true), (Some("5.20"), false), (Some("5.2.31"), false)]
        {
            assert_eq!(found.is_of(version), fits, "{version:?}");
        }
        assert!(!runtime("5.20.1", None).is_of(Some("5.2")));
    }

    #[test]
    fn the_systems_runtime_is_taken_unless_a_version_is_set_up() {
        let choose = |text: &str, system: Option<&str>| {
            let emulation = text.parse().expect("an emulation");
            let set_up = vec![runtime("5.2.3", Some("t/5.2.3")), runtime("7.2.4", Some("t/7.2.4"))];
            choose(&emulation, system.map(|release| runtime(release, None)), set_up, Path::new("t"))
        };
        assert_eq!(choose("amd", Some("5.2.3")), Ok(runtime("5.2.3", None)));
        assert_eq!(choose("amd", None), Ok(runtime("5.2.3", Some("t/5.2.3"))));
        assert_eq!(choose("amd:5.2.3", Some("5.2.3")), Ok(runtime("5.2.3", Some("t/5.2.3"))));
        assert_eq!(choose("amd:5.7.1", Some("5.7.1")), Ok(runtime("5.7.1", None)));
        assert_eq!(choose("amd:7", None), Ok(runtime("7.2.4", Some("t/7.2.4"))));
        let stop = choose("amd:6.4.3", Some("5.2.3")).expect_err("not there");
        for part in [
            "--emulate amd:6.4.3: ",
            "found: 5.2.3 (t/5.2.3), 7.2.4 (t/7.2.4), 5.2.3 (the system's)",
            "libamdhip64-6",
            "ci/amd-runtimes.sh t 6.4.3",
        ] {
            assert!(stop.reason().contains(part), "{part}: {stop}");
        }
    }

    #[test]
    fn runtimes_are_found_in_the_folder_that_the_script_lays_out() {
        let root = tempfile::tempdir().expect("a folder");
        for (version, generation) in [("7.2.4", 7), ("5.7.1", 5), ("6.4.3", 6)] {
            let amd = root.path().join(version).join("amd");
            std::fs::create_dir_all(&amd).expect("folders");
            std::fs::write(amd.join(format!("{NAME}{generation}")), "").expect("a library");
            let manifest = format!("libamdhip64-{generation} {version}-1 00\n");
            std::fs::write(root.path().join(version).join(FILE), manifest).expect("a manifest");
        }
        // Incomplete.
        std::fs::create_dir_all(root.path().join("6.0.0/amd")).expect("folders");
        let found = Runtime::set_up_in(root.path());
        let releases: Vec<&str> = found.iter().map(|runtime| runtime.release.as_str()).collect();
        assert_eq!(releases, ["5.7.1", "6.4.3", "7.2.4"]);
        assert_eq!(found[1].library, root.path().join("6.4.3/amd/libamdhip64.so.6"));
        assert_eq!(Runtime::set_up_in(&root.path().join("none")), []);
    }

    #[test]
    fn folders_are_looked_for_around_the_program() {
        let program = Path::new("/w/target/release/conformance");
        assert_eq!(roots(Some(Path::new("r")), program), [PathBuf::from("r")]);
        let around = roots(None, program);
        assert!(around.contains(&"/w/target/amd".into()), "{around:?}");
        let of_test = roots(None, Path::new("/w/target/debug/deps/sims-01"));
        assert!(of_test.contains(&"/w/target/amd".into()), "{of_test:?}");
    }

    #[test]
    fn the_version_is_in_the_files_name() {
        for (name, version) in [
            ("libamdhip64.so.5.2.21153", Some("5.2.21153")),
            ("libamdhip64.so.7", None),
            ("libamdhip64.so", None),
            ("libgpu_interop_sim_hip.so", None),
            ("libamdhip64.so.x.1", None),
        ] {
            assert_eq!(version_of_file(Path::new(name)).as_deref(), version, "{name}");
        }
    }

    #[test]
    fn the_release_is_the_upstream_version_of_the_runtimes_package() {
        for (version, expected) in [
            ("5.2.3-8", "5.2.3"),
            ("5.7.1-6+deb13u1", "5.7.1"),
            ("7.2.4-1~exp2", "7.2.4"),
            ("1:5.2.3+dfsg-1", "5.2.3"),
            ("2.41-12+deb13u4\n", "2.41"),
            ("", ""),
        ] {
            assert_eq!(upstream(version), expected, "{version}");
        }
        let text = "libamdhip64-5 5.7.1-6+deb13u1 aa\nlibc6 2.41-12 bb\nlibhsa-runtime64-1 6.1.2-3 cc\n\n";
        let manifest = Manifest::parse(text);
        assert_eq!(manifest.release().as_deref(), Some("5.7.1"));
        assert_eq!(manifest.c_library().as_deref(), Some("2.41"));
        assert_eq!(Manifest::parse("").release(), None);
    }

    #[test]
    fn a_runtimes_file_is_of_the_folder_that_it_is_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let libraries = folder.path().join("6.4.3/amd/usr/lib");
        std::fs::create_dir_all(&libraries).expect("folders");
        let file = libraries.join("libamdhip64.so.6.4.43484");
        std::fs::write(folder.path().join("6.4.3").join(FILE), "libamdhip64-6 6.4.3-5 00\n").expect("a manifest");
        assert_eq!(release_of(&file).as_deref(), Some("6.4.3"));
        assert_eq!(release_of(&folder.path().join("nowhere/libamdhip64.so.6")), None, "no package has this file");
    }
}
