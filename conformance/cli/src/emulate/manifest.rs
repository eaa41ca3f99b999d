//! The manifest that `ci/amd-runtimes.sh` writes for a runtime, and Debian's data of an installed one.

use std::path::Path;
use std::process::{Command, Stdio};

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
