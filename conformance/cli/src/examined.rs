//! A system as it is examined: its files and variables, the dynamic linker's search, and the kind of container.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use crate::files;

/// The number of symbolic links that a path may have.
const MOST_LINKS: usize = 40;
/// The greatest length of a file that is read, bytes. The list of installed packages, the longest one, has some megabytes.
const MOST_BYTES: u64 = 16 << 20;

/// The dynamic linker's default folders, by distribution.
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

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

    /// The path in this process's file system.
    fn real_path(&self, path: &Path) -> PathBuf {
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
            let real = self.real_path(&next);
            let found = real.symlink_metadata().ok()?;
            if !found.is_symlink() {
                resolved = next;
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            let target = real.read_link().ok()?;
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

    /// The path of an existing file in this process's file system, without the system's links.
    fn found(&self, path: &Path) -> Option<PathBuf> {
        self.canonical(path).map(|path| self.real_path(&path))
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
        let found = self.found(folder).and_then(|real| real.read_dir().ok());
        let mut names: Vec<OsString> = found.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names.into_iter().map(|name| folder.join(name)).collect()
    }

    /// The reason why this process cannot open an existing file for reading and writing; `None` if it can.
    pub(crate) fn not_openable(&self, path: &Path) -> Option<std::io::Error> {
        let real = self.found(path)?;
        File::options().read(true).write(true).open(real).err()
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

    /// The libraries with this name, in the order of the dynamic linker's search: `LD_LIBRARY_PATH`, the configured folders,
    /// the default folders. Links that lead to one file count once.
    pub(crate) fn libraries(&self, name: &str) -> Vec<PathBuf> {
        let mut folders = self.list("LD_LIBRARY_PATH");
        folders.extend(self.configured_folders());
        folders.extend(FOLDERS.iter().map(PathBuf::from));
        let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
        for path in folders.into_iter().map(|folder| folder.join(name)) {
            let Some(file) = self.canonical(&path) else { continue };
            if !found.iter().any(|(_, known)| *known == file) {
                found.push((path, file));
            }
        }
        found.into_iter().map(|(path, _)| path).collect()
    }

    /// The first library with this name.
    pub(crate) fn library(&self, name: &str) -> Option<PathBuf> {
        self.libraries(name).into_iter().next()
    }

    /// The folders of the dynamic linker's configuration, of which `ldconfig` makes its cache.
    fn configured_folders(&self) -> Vec<PathBuf> {
        let mut files = self.entries("/etc/ld.so.conf.d");
        files.retain(|file| file.extension().is_some_and(|extension| extension == "conf"));
        files.insert(0, "/etc/ld.so.conf".into());
        let text = files.iter().filter_map(|file| self.text(file)).collect::<Vec<_>>().join("\n");
        // The others are comments and `include`.
        text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
    }

    /// The kind of container that the system is in; `None` outside of one.
    pub(crate) fn container(&self) -> Option<String> {
        if self.exists("/.dockerenv") {
            return Some("docker".into());
        }
        if let Some(text) = self.text("/run/.containerenv") {
            let engine = text.lines().find_map(|line| line.strip_prefix("engine="));
            return Some(engine.map_or("podman", |engine| engine.trim_matches('"')).into());
        }
        if self.exists("/.singularity.d") {
            return Some("apptainer".into());
        }
        if self.set_variable("KUBERNETES_SERVICE_HOST").is_some() {
            return Some("kubernetes".into());
        }
        if let Some(name) = self.set_variable("container") {
            return Some(name.into());
        }
        let groups = self.text("/proc/1/cgroup").unwrap_or_default();
        ["kubepods", "docker", "containerd", "lxc"].into_iter().find(|name| groups.contains(name)).map(Into::into)
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

    #[test]
    fn libraries_are_found_in_configured_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in [
            ("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n"),
            ("etc/ld.so.conf.d/nvidia.conf", "# The driver's\n/usr/local/nvidia/lib64\n"),
            ("etc/ld.so.conf.d/nvidia.conf.old", "/opt/old\n"),
            ("usr/local/nvidia/lib64/libcuda.so.1", ""),
            ("opt/old/libcuda.so.1", ""),
            ("usr/lib64/libcuda.so.1", ""),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            std::fs::write(path, text).expect("written");
        }
        let system = System { variables: BTreeMap::new(), ..System::new(Some(folder.path())) };
        let found = ["/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib64/libcuda.so.1"].map(PathBuf::from);
        assert_eq!(system.libraries("libcuda.so.1"), found);
        assert_eq!(system.library("libz.so.1"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_c_library_of_this_system_is_found() {
        assert!(System::new(None).library("libc.so.6").is_some());
    }
}
