//! The files and variables of the examined system: this one, or one in a folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use crate::files;

/// The number of symbolic links that a path may have.
const MOST_LINKS: usize = 40;
/// The greatest length of a file that is read, bytes. The linker's cache, the longest one, has some hundred kilobytes.
const MOST_BYTES: u64 = 16 << 20;

/// A system.
#[derive(Debug)]
pub(crate) struct System {
    root: PathBuf,
    /// The current folder of this process; empty for a system in a folder, in which no process runs.
    current: PathBuf,
    variables: BTreeMap<String, String>,
}

impl System {
    /// This system, or one below `root`, with the variables of this process.
    pub(crate) fn new(root: Option<&Path>) -> Self {
        let text = |value: OsString| value.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
        let current = if root.is_none() { std::env::current_dir().unwrap_or_default() } else { PathBuf::new() };
        Self { root: root.unwrap_or(Path::new("/")).to_owned(), current, variables }
    }

    /// A variable's value.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// As [`variable`](Self::variable), but one that is set to nothing counts as not set.
    pub(crate) fn set_variable(&self, name: &str) -> Option<&str> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    /// A list of folders or files, separated by colons. A relative one is one of the current folder; it stays relative if that is
    /// unknown.
    pub(crate) fn list(&self, name: &str) -> Vec<PathBuf> {
        let value = self.variable(name).unwrap_or_default();
        value.split(':').filter(|part| !part.is_empty()).map(|part| self.current.join(part)).collect()
    }

    /// The place of a path of the system in this process's file system.
    fn place(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The path without symbolic links, within the system; `None` if it does not exist.
    pub(crate) fn canonical(&self, path: &Path) -> Option<PathBuf> {
        let mut resolved = PathBuf::from("/");
        let mut rest: Vec<OsString> = components(path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                resolved.pop();
                continue;
            }
            let next = resolved.join(&name);
            let place = self.place(&next);
            let found = place.symlink_metadata().ok()?;
            if !found.is_symlink() {
                resolved = next;
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            let target = place.read_link().ok()?;
            if target.is_absolute() {
                resolved = PathBuf::from("/");
            }
            rest.extend(components(&target));
        }
        Some(resolved)
    }

    /// `true` if the path exists.
    pub(crate) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.canonical(path.as_ref()).is_some()
    }

    /// The place of an existing path, without the system's links.
    fn found(&self, path: &Path) -> Option<PathBuf> {
        self.canonical(path).map(|path| self.place(&path))
    }

    /// The contents of a text file.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The contents of a regular file of moderate length.
    pub(crate) fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        files::read(&self.found(path.as_ref())?, MOST_BYTES).ok()
    }

    /// The entries of a folder, sorted by name.
    pub(crate) fn entries(&self, folder: impl AsRef<Path>) -> Vec<PathBuf> {
        let folder = folder.as_ref();
        let found = self.found(folder).and_then(|place| place.read_dir().ok());
        let mut names: Vec<OsString> = found.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names.into_iter().map(|name| folder.join(name)).collect()
    }

    /// The reason why this process cannot open an existing file for reading and writing; `None` if it can.
    pub(crate) fn not_openable(&self, path: &Path) -> Option<std::io::Error> {
        let place = self.found(path)?;
        File::options().read(true).write(true).open(place).err()
    }

    /// The name, or else the number, of the group that owns a file.
    #[cfg(unix)]
    pub(crate) fn group(&self, path: &Path) -> Option<String> {
        use std::os::unix::fs::MetadataExt;
        let number = self.found(path)?.metadata().ok()?.gid();
        let groups = self.text("/etc/group").unwrap_or_default();
        let named = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == number.to_string()).then(|| name.to_owned())
        });
        Some(named.unwrap_or_else(|| number.to_string()))
    }

    /// The group that owns a file: unknown on this system.
    #[cfg(not(unix))]
    pub(crate) fn group(&self, _path: &Path) -> Option<String> {
        None
    }
}

/// The normal components of a path, the first one last.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_within_the_system() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("usr/lib");
        std::fs::create_dir_all(&lib).expect("created");
        std::fs::write(lib.join("libcuda.so.580.1"), "x").expect("written");
        symlink("libcuda.so.580.1", lib.join("libcuda.so.1")).expect("linked");
        symlink("/usr/lib", folder.path().join("lib")).expect("linked");
        symlink("loop", folder.path().join("loop")).expect("linked");
        symlink("../../../../usr", lib.join("up")).expect("linked");
        let system = System::new(Some(folder.path()));
        let canonical = |path: &str| system.canonical(Path::new(path));
        assert_eq!(canonical("/lib/libcuda.so.1"), Some("/usr/lib/libcuda.so.580.1".into()));
        assert_eq!(canonical("/usr/lib/up/lib"), Some("/usr/lib".into()));
        assert_eq!((canonical("/loop"), canonical("/etc/passwd")), (None, None));
        assert_eq!(system.text("/lib/libcuda.so.1").as_deref(), Some("x"));
        assert_eq!(system.entries("/lib").len(), 3);
    }
}
