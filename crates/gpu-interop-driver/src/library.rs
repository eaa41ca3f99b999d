//! Search for a driver's library.
//!
//! A process with more privileges than its caller (setuid, setgid, file capabilities) must not load libraries that the
//! caller names. As the dynamic linker does with its own variables, this module ignores these in such a process.

use std::env;
use std::error::Error as StdError;
use std::ffi::{CStr, OsStr, OsString, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, LoadAttempt, Result};
#[cfg(unix)]
use libloading::os::unix::Library;
#[cfg(windows)]
use libloading::os::windows::Library;

/// Names and places to search for a driver.
#[derive(Debug, Clone, Copy)]
pub struct LibrarySearch {
    /// Name of the driver in messages: "CUDA driver".
    pub driver: &'static str,
    /// Environment variable that names the library file. If it is set, nothing else is tried.
    pub variable: &'static str,
    /// File names in order of preference. Looked up among the libraries already in the process, then by the dynamic
    /// linker.
    pub names: &'static [&'static str],
    /// Folders searched if the dynamic linker finds no library: a folder below the value of an environment variable, or
    /// an absolute path without a variable. A `*` at the end of a component matches the rest of a folder's name; of
    /// several matches the one with the greatest version in its name comes first.
    pub folders: &'static [(Option<&'static str>, &'static str)],
    /// Advice what to install, as the end of a sentence.
    pub install: &'static str,
}

/// The folders of [`search_also`].
static ADDED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Adds a folder to later searches: for the binding of a language whose packages contain a driver's library. Other
/// packages of the same process load that one, so it is searched before the folders of each [`LibrarySearch`]. Relative
/// paths are ignored, and all are in a process with more privileges than its caller.
pub fn search_also(folder: PathBuf) {
    let mut added = lock(&ADDED);
    if folder.is_absolute() && !is_elevated() && !added.contains(&folder) {
        added.push(folder);
    }
}

/// Loaded driver library. Never unloaded: drivers own threads and thread-local data.
#[derive(Debug)]
pub struct DriverLibrary {
    library: &'static Library,
    name: PathBuf,
}

impl DriverLibrary {
    /// Finds and loads a library. If the variable is set, only the file it names is tried; processes with more
    /// privileges than their caller, such as setuid programs, ignore the variable. Otherwise the order is: a library
    /// already in the process, so that no second copy of a driver's runtime is loaded; the dynamic linker, by name; the
    /// folders of [`search_also`]; those of the search.
    ///
    /// # Errors
    /// [`ErrorKind::DriverNotFound`] with every path tried and the reason why it did not load.
    pub fn find(search: &LibrarySearch) -> Result<Self> {
        let mut attempts = Vec::new();
        let named = trusted_variable(search.variable);
        let found = match &named {
            Some(file) => Self::open(file, &mut attempts),
            None => (search.names.iter().find_map(|name| Self::already_loaded(name)))
                .or_else(|| search.names.iter().find_map(|name| Self::open(OsStr::new(name), &mut attempts)))
                .or_else(|| candidates(search).find_map(|path| Self::open(path.as_os_str(), &mut attempts))),
        };
        found.ok_or_else(|| {
            let message = match &named {
                None => format!("no {} was found; {}", search.driver, search.install),
                Some(_) => {
                    let LibrarySearch { driver, variable, .. } = search;
                    format!(
                        "no {driver} was found: {variable} names a file that does not load; correct it, or unset it"
                    )
                }
            };
            let error = Error::new(ErrorKind::DriverNotFound, "dlopen", message)
                .with_context("variable that names the file", search.variable)
                .with_attempts(attempts);
            let folders = search.folders.iter().filter_map(|(variable, _)| *variable);
            std::iter::once(search.variable)
                .chain(folders)
                .filter(|name| is_ignored(name))
                .fold(error, |error, name| {
                    error.with_context("ignored in a process with more privileges than its caller", name)
                })
        })
    }

    fn already_loaded(name: &str) -> Option<Self> {
        sys::open_loaded(OsStr::new(name)).map(|library| Self::keep(library, Path::new(name)))
    }

    fn open(file: &OsStr, attempts: &mut Vec<LoadAttempt>) -> Option<Self> {
        match sys::open(file) {
            Ok(library) => Some(Self::keep(library, Path::new(file))),
            Err(error) => {
                attempts.push(LoadAttempt::new(file.to_string_lossy().into_owned(), reason(file, &error)));
                None
            }
        }
    }

    fn keep(library: Library, name: &Path) -> Self {
        Self { library: Box::leak(Box::new(library)), name: name.to_owned() }
    }

    /// Name by which the library was found.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// File that contains a symbol, according to the dynamic linker; [`DriverLibrary::name`] if that is unknown.
    #[must_use]
    pub fn file(&self, symbol: &CStr) -> PathBuf {
        // SAFETY: a raw pointer is pointer-sized; the address is only looked up, never dereferenced.
        unsafe { self.symbol::<*const c_void>(symbol) }.and_then(sys::file_of).unwrap_or_else(|| self.name.clone())
    }

    /// Returns the address of a symbol as a value of type `T`; `None` if the library has no such symbol.
    ///
    /// # Safety
    /// `T` is pointer-sized: a raw pointer, or a function pointer of the symbol's type.
    #[must_use]
    pub unsafe fn symbol<T: Copy>(&self, name: &CStr) -> Option<T> {
        // SAFETY: the caller's promise for the type.
        let symbol = unsafe { self.library.get::<T>(name) }.ok()?;
        // The library is never unloaded, so the value may outlive `symbol`.
        Some(*symbol)
    }
}

/// Existing library files in the folders of a search.
fn candidates(search: &LibrarySearch) -> impl Iterator<Item = PathBuf> {
    let folder = |(variable, folder): &(Option<&'static str>, &'static str)| match variable {
        Some(variable) => trusted_variable(variable).map(|value| (PathBuf::from(value), *folder)),
        None => Some((PathBuf::new(), *folder)),
    };
    let known = search.folders.iter().filter_map(folder);
    // An empty variable must not add the current directory.
    let known = known.filter(|(root, folder)| root.join(folder).is_absolute());
    let known = known.flat_map(|(root, folder)| folders(&root, folder));
    let added = lock(&ADDED).clone();
    (added.into_iter().chain(known))
        .flat_map(|folder| search.names.iter().map(move |name| folder.join(name)))
        .filter(|path| path.exists())
}

/// Folders below `root` that match a pattern.
fn folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else { return vec![root.join(pattern)] };
    let path = root.join(before);
    let (Some(parent), Some(beginning)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let beginning = beginning.to_string_lossy();
    let mut found: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = numbers(name.to_string_lossy().strip_prefix(&*beginning)?);
            Some((version, entry.path().join(after.trim_start_matches(['/', '\\']))))
        })
        .collect();
    found.sort_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// Extracts the numbers in a name: 10 and 1 from `-10.1`.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Reason why a file was not loaded: the dynamic linker's message, with a hint for existing files of another
/// architecture, which it reports as missing.
fn reason(file: &OsStr, error: &dyn StdError) -> String {
    let text = chain(error);
    let path = Path::new(file);
    if path.is_absolute()
        && path.is_file()
        && text.contains(&format!("{}: ", path.display()))
        && text.contains("No such file")
    {
        return format!("{text} (the file exists; check that it is built for this processor architecture)");
    }
    text
}

/// Joins the texts of an error and its sources: libloading stores the dynamic linker's message in the source.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}

#[cfg(unix)]
mod sys {
    use std::ffi::{CStr, OsStr, OsString, c_void};
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

    pub(super) fn open_loaded(name: &OsStr) -> Option<Library> {
        // SAFETY: with RTLD_NOLOAD nothing is loaded and no initialiser runs.
        unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD) }.ok()
    }

    pub(super) fn open(name: &OsStr) -> Result<Library, libloading::Error> {
        // SAFETY: the name is a driver's library, whose initialisers support loading at run time, or a file that the
        // user named for this purpose.
        unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }
    }

    pub(super) fn file_of(address: *const c_void) -> Option<PathBuf> {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: dladdr only looks the address up, and fills `info` if it returns non-zero.
        if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: `dladdr` returned non-zero, so it filled `info`.
        let name = unsafe { info.assume_init() }.dli_fname;
        if name.is_null() {
            return None;
        }
        // SAFETY: a NUL-terminated string of the dynamic linker that lives as long as the library, which is never
        // unloaded.
        let bytes = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
        Some(PathBuf::from(OsString::from_vec(bytes)))
    }
}

#[cfg(windows)]
mod sys {
    use std::ffi::{OsStr, c_void};
    use std::path::{Path, PathBuf};

    use libloading::os::windows::{LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, LOAD_LIBRARY_SEARCH_SYSTEM32, Library};

    pub(super) fn open_loaded(name: &OsStr) -> Option<Library> {
        Library::open_already_loaded(name).ok()
    }

    pub(super) fn open(name: &OsStr) -> Result<Library, libloading::Error> {
        // Relative names are searched in the system folder only, never in the current directory.
        let flags = if Path::new(name).is_absolute() {
            LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32
        } else {
            LOAD_LIBRARY_SEARCH_SYSTEM32
        };
        // SAFETY: the name is a driver's library, whose initialisers support loading at run time, or a file that the
        // user named for this purpose.
        unsafe { Library::load_with_flags(name, flags) }
    }

    pub(super) fn file_of(_address: *const c_void) -> Option<PathBuf> {
        None
    }
}

/// Returns the value of a variable if it is set, not empty and not ignored.
fn trusted_variable(name: &str) -> Option<OsString> {
    value(name).filter(|_| !is_elevated())
}

/// Returns whether a variable is set and ignored.
fn is_ignored(name: &str) -> bool {
    value(name).is_some() && is_elevated()
}

fn value(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns whether the process has more privileges than its caller.
#[cfg(target_os = "linux")]
fn is_elevated() -> bool {
    // SAFETY: takes a number and reads no memory of the caller. Linux has `AT_SECURE` since 2.6; without it the result
    // is 0.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Version for other Unix systems, which have no file capabilities.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_elevated() -> bool {
    // SAFETY: these functions have no preconditions.
    unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
}

/// Version for Windows, which has no setuid: a program has its caller's privileges, or is elevated by a prompt.
#[cfg(windows)]
fn is_elevated() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: LibrarySearch = LibrarySearch {
        driver: "test driver",
        variable: "GPU_INTEROP_TEST_LIBRARY",
        names: &["libgpu-interop-no-such.so.2", "libgpu-interop-no-such.so.1"],
        folders: &[(None, "/nonexistent"), (None, "relative")],
        install: "install it",
    };

    #[test]
    fn every_attempt_is_reported_with_the_linkers_message() {
        let error = DriverLibrary::find(&SEARCH).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::DriverNotFound);
        let tried: Vec<&str> = error.attempts().iter().map(|attempt| attempt.target.as_str()).collect();
        assert_eq!(tried, SEARCH.names);
        let expected = if cfg!(windows) { "os error 126" } else { "No such file" };
        assert!(error.attempts()[0].reason.contains(expected), "{error}");
        assert!(error.to_string().contains("GPU_INTEROP_TEST_LIBRARY"), "{error}");
    }

    #[test]
    fn folders_with_versions_are_found_and_the_newest_comes_first() {
        let root = std::env::temp_dir().join(format!("gpu-interop-folders-{}", std::process::id()));
        for name in ["core-7.14", "core-10", "core-10.1", "core-9.2", "core", "other-11"] {
            std::fs::create_dir_all(root.join(name).join("lib")).expect("a folder");
        }
        let found = folders(&root, "core-*/lib");
        for name in ["python3.9", "python3.11"] {
            std::fs::create_dir_all(root.join("lib").join(name)).expect("a folder");
        }
        let inner = folders(&root, "lib/python*/site-packages/lib");
        let plain = folders(&root, "core/lib");
        let absent = folders(&root.join("nothing"), "core-*/lib");
        std::fs::remove_dir_all(&root).expect("removes the folder");
        let expected = ["core-10.1", "core-10", "core-9.2", "core-7.14"].map(|name| root.join(name).join("lib"));
        assert_eq!(found, expected);
        let expected = ["python3.11", "python3.9"].map(|name| root.join("lib").join(name).join("site-packages/lib"));
        assert_eq!(inner, expected);
        assert_eq!(plain, [root.join("core/lib")]);
        assert!(absent.is_empty(), "{absent:?}");
    }

    #[test]
    fn added_folders_are_searched_first() {
        let root = std::env::temp_dir().join(format!("gpu-interop-added-{}", std::process::id()));
        // Not of another test's search.
        let search = LibrarySearch { names: &["libgpu-interop-added.so.1", "libgpu-interop-added.so"], ..SEARCH };
        let file = root.join(search.names[1]);
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::write(&file, "no library").expect("a file");
        for folder in [root.clone(), "relative".into(), root.clone()] {
            search_also(folder);
        }
        let added = lock(&ADDED).clone();
        let found: Vec<PathBuf> = candidates(&search).collect();
        lock(&ADDED).clear();
        std::fs::remove_dir_all(&root).expect("removes the folder");
        assert_eq!((added, found), (vec![root], vec![file]));
    }

    /// DLL planting: a library of the driver's name in the current directory is not loaded.
    #[cfg(windows)]
    #[test]
    fn a_library_planted_in_the_current_directory_is_not_loaded() {
        const PLANTED: &str = "gpu-interop-planted.dll";
        let planted = std::env::current_dir().expect("a folder").join(PLANTED);
        let system = std::env::var_os("SystemRoot").expect("Windows has a folder");
        std::fs::copy(Path::new(&system).join("system32/version.dll"), &planted).expect("copies");
        let error = DriverLibrary::find(&LibrarySearch { names: &[PLANTED], ..SEARCH });
        // Control: the default search loads the file, so it is a loadable library.
        // SAFETY: `version.dll` is a system library whose initialisers have no preconditions.
        let loaded = unsafe { Library::new(PLANTED) }.map(drop);
        let by_path = sys::open(planted.as_os_str()).map(drop);
        // The library is closed by now: Windows cannot remove a loaded file.
        std::fs::remove_file(&planted).expect("removes the file");
        assert_eq!(error.expect_err("the name is not in the system folder").kind(), ErrorKind::DriverNotFound);
        loaded.expect("the default search finds the file in the current directory");
        by_path.expect("an absolute path loads the file");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_already_in_the_process_is_found() {
        let names: &[&str] = &["libgpu-interop-no-such.so.2", "libc.so.6"];
        let library = DriverLibrary::find(&LibrarySearch { names, ..SEARCH }).expect("libc is in the process");
        assert_eq!(library.name(), Path::new("libc.so.6"));
        assert!(library.file(c"getpid").is_absolute(), "{:?}", library.file(c"getpid"));
        // SAFETY: getpid has this type.
        let getpid = unsafe { library.symbol::<unsafe extern "C" fn() -> i32>(c"getpid") }.expect("a symbol");
        // SAFETY: getpid has no preconditions.
        assert_eq!(unsafe { getpid() }.unsigned_abs(), std::process::id());
        // SAFETY: a raw pointer is pointer-sized, and is not dereferenced.
        assert!(unsafe { library.symbol::<*const c_void>(c"no_such_symbol") }.is_none());
    }
}
