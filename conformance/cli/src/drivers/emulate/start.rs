//! Starts this program again on the emulated kernel driver, with AMD's runtime.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use gpu_interop_conformance::system::set_variable;
use gpu_interop_conformance::{Stop, Verdict, ensure};

use super::runtime::{self, Manifest};
use super::{Emulation, Session, VulkanDriver, kernel_driver};
use crate::drivers::restart;
use crate::files::beside;

/// Marks the emulated process; its value is the folder of its temporary files.
const SESSION: &str = "GPU_INTEROP_EMULATE_SESSION";
/// The library that the backend loads.
const LIBRARY: &str = "GPU_INTEROP_HIP_LIBRARY";
const PRELOAD: &str = "LD_PRELOAD";
/// The GPUs that the driver emulates; a value set by the user is kept.
const DEVICES: &str = "GPU_INTEROP_SIM_AMDGPU_DEVICES";

/// Two GPUs, for scenarios with several devices. HIP 5.2 does not support stream waits for words on gfx906, and therefore no
/// timelines. The newer RADV of newer runtimes does not support gfx908, which has no graphics.
fn two_gpus(release: &str) -> &'static str {
    if release.starts_with("5.2.") { "gfx908,gfx908" } else { "gfx906,gfx906" }
}

/// Replaces this process by the emulated one. In the emulated process, returns the object that cleans up at its end.
///
/// # Errors
/// If a part is missing, or the emulated driver was not loaded.
pub(super) fn enter(emulation: &Emulation, root: Option<&Path>, vulkan: Option<VulkanDriver>) -> Verdict<Session> {
    if let Some(folder) = std::env::var_os(SESSION) {
        let session = Session { folder: folder.into() };
        return match kernel_driver() {
            Some(_) => Ok(session),
            None => Err(Stop::failed(format!(
                "{emulation}: the emulated kernel driver was not loaded; see the dynamic loader's message above; the file \
                 may not be a shared library"
            ))),
        };
    }
    let this = std::env::current_exe()?;
    let file = find_driver(set_variable(DRIVER_VARIABLE).as_deref(), &this)?;
    let runtime = runtime::find(emulation, root, &this)?;
    let start = match &runtime.folder {
        Some(folder) => copy_for(folder, &this)?,
        None => this,
    };
    let folder = tempfile::Builder::new().prefix("gpu-interop-emulate-").tempdir()?;
    let mut command = Command::new(start);
    command.env(SESSION, folder.path()).env(LIBRARY, &runtime.library);
    command.env(PRELOAD, joined(file.as_os_str(), std::env::var_os(PRELOAD)));
    let drivers = driver_folders(runtime.folder.as_deref());
    command.envs(vulkan_variables(&file, folder.path(), &drivers, vulkan, |name| std::env::var_os(name))?);
    if set_variable(DEVICES).is_none() {
        command.env(DEVICES, two_gpus(&runtime.release));
    }
    // The other process removes the folder. After a failure this one does.
    let session = Session { folder: folder.keep() };
    let stop = restart(&mut command, &emulation.to_string());
    drop(session);
    Err(stop)
}

/// The variable that names the file of the library that emulates the kernel driver.
const DRIVER_VARIABLE: &str = "GPU_INTEROP_EMULATED_AMDGPU";
/// The library's name as built by Cargo.
const DRIVER_FILE: &str = "libgpu_interop_emulated_amdgpu.so";

/// Finds the library: the file that `named` contains, or the one in the folder of `program`.
///
/// # Errors
/// If it does not exist, or the dynamic loader cannot preload it.
fn find_driver(named: Option<&OsStr>, program: &Path) -> Verdict<PathBuf> {
    let file = match named.filter(|file| !file.is_empty()) {
        Some(file) => {
            let file = std::path::absolute(file)?;
            ensure!(file.is_file(), "{DRIVER_VARIABLE}={}: there is no such file", file.display());
            file
        }
        None => beside(program, DRIVER_FILE).ok_or_else(|| missing(program))?,
    };
    // Separators of the libraries in LD_PRELOAD.
    if file.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        let message = "the dynamic loader preloads no file with a space or a colon in its path";
        return Err(Stop::failed(format!(
            "{}: {message}; copy it, and name the copy with {DRIVER_VARIABLE}",
            file.display()
        )));
    }
    Ok(file)
}

fn missing(program: &Path) -> Stop {
    let folder = program.parent().unwrap_or(program).display();
    Stop::failed(format!(
        "the emulated kernel driver, {DRIVER_FILE}, is not in {folder}; build it with the same profile as this program: cargo \
         build --release -p gpu-interop-emulated-amdgpu; or name its file with {DRIVER_VARIABLE}"
    ))
}

/// The layer's name.
const LAYER: &str = "VK_LAYER_gpu_interop_emulated_amdgpu";
/// The system's folders of the files that name drivers.
const DRIVERS: [&str; 3] = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// The folders of the files that name drivers: that of a runtime's folder, whose RADV is of the same age, then the system's.
fn driver_folders(runtime: Option<&Path>) -> Vec<PathBuf> {
    runtime.map(|folder| folder.join("vulkan")).into_iter().chain(DRIVERS.map(PathBuf::from)).collect()
}

impl VulkanDriver {
    /// Prefix of the name of the driver's file.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Radv => "radeon_icd",
            Self::Lavapipe => "lvp_icd",
        }
    }
}

/// Vulkan on the emulated GPU: RADV, or the CPU driver with the GPU's PCI address. The emulated driver's library is also a
/// Vulkan layer, which sets lavapipe's PCI address: a HIP device and a Vulkan device are matched by it, as on hardware.
///
/// Writes the layer's manifest to `folder` and returns the variables that activate it. `drivers` are the folders of the
/// files that name drivers. `current` reads the environment.
///
/// # Errors
/// If the file cannot be written, or the wanted driver is not installed.
fn vulkan_variables(
    driver: &Path,
    folder: &Path,
    drivers: &[PathBuf],
    wanted: Option<VulkanDriver>,
    current: impl Fn(&str) -> Option<OsString>,
) -> Verdict<Vec<(&'static str, OsString)>> {
    let manifest = serde_json::json!({
        "file_format_version": "1.2.0",
        "layer": {
            "name": LAYER,
            "type": "GLOBAL",
            "library_path": driver,
            "api_version": "1.3.0",
            "implementation_version": "1",
            "description": "Gives Vulkan's device on the CPU the PCI address of an emulated AMD GPU",
        },
    });
    std::fs::write(folder.join("layer.json"), manifest.to_string())?;
    let mut variables = vec![
        ("VK_ADD_LAYER_PATH", joined(folder.as_os_str(), current("VK_ADD_LAYER_PATH"))),
        ("VK_INSTANCE_LAYERS", joined(OsStr::new(LAYER), current("VK_INSTANCE_LAYERS"))),
    ];
    // The second name is the older one. A driver chosen by the user is kept.
    let names = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
    let chosen = |name: &&str| current(name).is_some_and(|files| !files.is_empty());
    if wanted.is_none() && names.iter().any(chosen) {
        return Ok(variables);
    }
    let found = |driver: VulkanDriver| driver_file(drivers, driver.prefix()).map(|file| (driver, file));
    let file = match wanted {
        Some(driver) => Some(found(driver).ok_or_else(|| {
            Stop::failed(format!(
                "Vulkan's driver {driver:?} is not installed (Debian: mesa-vulkan-drivers); there is no {}*.json in {}",
                driver.prefix(),
                drivers.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
            ))
        })?),
        None => found(VulkanDriver::Radv).or_else(|| found(VulkanDriver::Lavapipe)),
    };
    if let Some((driver, file)) = file {
        variables.extend(names.map(|name| (name, file.clone().into_os_string())));
        // RADV copies and clears images by draws on its graphics queue, and by programs on its compute queues.
        if driver == VulkanDriver::Radv && current(QUEUE).is_none() {
            variables.push((QUEUE, "compute".into()));
        }
    }
    Ok(variables)
}

/// Prepends a value to a variable's list.
fn joined(first: &OsStr, others: Option<OsString>) -> OsString {
    let mut all = first.to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// The variable that selects the exporter's queue.
const QUEUE: &str = "GPU_INTEROP_VULKAN_QUEUE";

/// The file of a driver, so that it is the only one.
fn driver_file(folders: &[PathBuf], prefix: &str) -> Option<PathBuf> {
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_driver = |file: &PathBuf| {
        file.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            // Debian has one file per architecture.
            name.starts_with(prefix) && (name.contains("x86_64") || name == format!("{prefix}.json").as_str())
        })
    };
    files.map(|entry| entry.path()).find(is_driver)
}

/// Folders of the system's libraries.
const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";
/// The loader, in a folder's part for the C library.
const LOADER: &str = "libc/ld-linux-x86-64.so.2";
/// The part of the folder for copies.
const COPIES: &str = "programs";
/// Time that a copy is kept after its program no longer exists.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The copy of `program` for the runtime in `folder`, created if necessary.
///
/// Runtimes of newer Debian releases need a newer C library. A program is bound to its C library by the dynamic loader
/// that it names, so a copy names the loader and the library paths of the folder. The environment is not changed: a
/// variable such as LD_LIBRARY_PATH would also affect the system's own programs, which then fail.
///
/// # Errors
/// If it cannot be created.
fn copy_for(folder: &Path, program: &Path) -> Verdict<PathBuf> {
    let folder = folder.canonicalize()?;
    let found = std::fs::metadata(program)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let copies = folder.join(COPIES);
    let copy = copies.join(format!("{name}-{:x}-{:x}-{:x}", found.size(), found.mtime(), found.mtime_nsec()));
    if copy.is_file() {
        return Ok(copy);
    }
    let cannot = |error: std::io::Error| Stop::failed(format!("cannot write {}: {error}", copy.display()));
    std::fs::create_dir_all(&copies).map_err(cannot)?;
    remove_old(&copies);
    // Renamed last, so that a file with this name is complete.
    let new = tempfile::Builder::new().tempfile_in(&copies).map_err(cannot)?.into_temp_path();
    std::fs::copy(program, &new).map_err(cannot)?;
    let c_library = Manifest::read(&folder).and_then(|manifest| manifest.c_library());
    change(&new, &folder, is_newer(c_library.as_deref(), &c_library_here()))?;
    match new.persist_noclobber(&copy) {
        Err(error) if error.error.kind() != std::io::ErrorKind::AlreadyExists => Err(cannot(error.error)),
        // Another process has made the same one, and may have started it.
        _ => Ok(copy),
    }
}

/// Sets loader and library paths of a copy: AMD's first, then those of the newer system, the folder's or this one.
fn change(copy: &Path, folder: &Path, with_own_c_library: bool) -> Verdict {
    let part = |name: &str| folder.join(name).into_os_string();
    let mut command = Command::new("patchelf");
    let parts = if with_own_c_library {
        command.arg("--set-interpreter").arg(folder.join(LOADER));
        vec![part("amd"), part("libc"), part("lib"), SYSTEM.into()]
    } else {
        vec![part("amd"), SYSTEM.into(), part("lib")]
    };
    // RPATH instead of RUNPATH, because it also applies to the dependencies of libraries.
    command.arg("--force-rpath").arg("--set-rpath").arg(parts.join(&OsString::from(":"))).arg(copy);
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Stop::failed("patchelf is not installed (Debian: patchelf)".into()),
        _ => Stop::failed(format!("patchelf: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Stop::failed(format!("patchelf: {}: {}", output.status, said.trim())))
}

/// The version of this process's C library.
fn c_library_here() -> String {
    // SAFETY: the function has no arguments, and returns a static NUL-terminated string.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

/// `true` if a folder's C library, of this version, is newer than the system's. An unknown version counts as newer.
fn is_newer(folder: Option<&str>, system: &str) -> bool {
    let numbers = |version: &str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    folder.is_none_or(|folder| numbers(folder) > numbers(system))
}

/// Removes copies of programs that have been rebuilt since. A recent copy is kept, because another process may still
/// start it.
fn remove_old(copies: &Path) {
    let now = SystemTime::now();
    for entry in std::fs::read_dir(copies).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        let age = made.ok().and_then(|made| now.duration_since(made).ok());
        if age.is_some_and(|age| age > KEPT) {
            // A copy that cannot be removed only takes space.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_beside_the_program_or_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("release/conformance");
        let test = folder.path().join("release/deps/sims-0123");
        std::fs::create_dir_all(test.parent().expect("a folder")).expect("folders");
        let stop = find_driver(None, &program).expect_err("none there");
        for part in ["release; build it", "cargo build --release -p gpu-interop-emulated-amdgpu", DRIVER_VARIABLE] {
            assert!(stop.reason().contains(part), "{stop}");
        }
        let library = folder.path().join("release").join(DRIVER_FILE);
        std::fs::write(&library, "").expect("a file");
        assert_eq!(find_driver(None, &program), Ok(library.clone()));
        assert_eq!(find_driver(None, &test), Ok(library.clone()));
        assert_eq!(find_driver(Some(OsStr::new("")), &program), Ok(library), "an empty variable names nothing");

        let other = folder.path().join("other.so");
        let stop = find_driver(Some(other.as_os_str()), &program).expect_err("not there");
        assert!(stop.reason().contains("there is no such file"), "{stop}");
        std::fs::write(&other, "").expect("a file");
        assert_eq!(find_driver(Some(other.as_os_str()), &program), Ok(other));
        let spaced = folder.path().join("a b.so");
        std::fs::write(&spaced, "").expect("a file");
        let stop = find_driver(Some(spaced.as_os_str()), &program).expect_err("a space");
        assert!(stop.reason().contains("a space or a colon"), "{stop}");
    }

    #[test]
    fn the_layer_is_added_and_lavapipe_is_the_only_driver() {
        let folder = tempfile::tempdir().expect("a folder");
        let with = |set: &[(&str, &str)]| {
            let set: Vec<(String, OsString)> = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).into())).collect();
            let current = move |name: &str| set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            vulkan_variables(Path::new("/d/lib.so"), folder.path(), &[], None, current).expect("variables")
        };
        let value = |all: &[(&'static str, OsString)], name: &str| {
            all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string_lossy().into_owned())
        };
        let all = with(&[("VK_INSTANCE_LAYERS", "VK_LAYER_mine"), ("VK_ADD_LAYER_PATH", "")]);
        let layers = "VK_LAYER_gpu_interop_emulated_amdgpu:VK_LAYER_mine";
        assert_eq!(value(&all, "VK_INSTANCE_LAYERS").as_deref(), Some(layers));
        assert_eq!(value(&all, "VK_ADD_LAYER_PATH"), Some(folder.path().display().to_string()));
        let text = std::fs::read_to_string(folder.path().join("layer.json")).expect("the manifest");
        let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(manifest["layer"]["library_path"], "/d/lib.so");
        assert_eq!(manifest["layer"]["name"], LAYER);
        let chosen = with(&[("VK_ICD_FILENAMES", "/mine.json")]);
        assert_eq!(value(&chosen, "VK_DRIVER_FILES"), None, "the user has chosen");
        assert_eq!(value(&chosen, "VK_ICD_FILENAMES"), None, "the user has chosen");
    }

    #[test]
    fn lavapipe_is_found_among_other_drivers() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = [folder.path().join("none"), folder.path().to_owned()];
        for name in ["radeon_icd.x86_64.json", "lvp_icd.i686.json"] {
            std::fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(driver_file(&folders, VulkanDriver::Lavapipe.prefix()), None);
        let file = folder.path().join("lvp_icd.x86_64.json");
        std::fs::write(&file, "").expect("a file");
        assert_eq!(driver_file(&folders, VulkanDriver::Lavapipe.prefix()), Some(file));
    }

    #[test]
    fn a_runtime_with_its_own_radv_is_used_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |runtime: Option<&Path>| {
            let drivers: Vec<PathBuf> =
                driver_folders(runtime).into_iter().map(|path| in_root(folder.path(), &path)).collect();
            driver_file(&drivers, VulkanDriver::Radv.prefix())
        };
        let system = folder.path().join("usr/share/vulkan/icd.d/radeon_icd.x86_64.json");
        let own = folder.path().join("amd/7.2.4/vulkan/radeon_icd.json");
        for file in [&system, &own] {
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
            std::fs::write(file, "").expect("a file");
        }
        assert_eq!(file(None), Some(system.clone()));
        assert_eq!(file(Some(Path::new("/amd/7.2.4"))), Some(own));
        assert_eq!(file(Some(Path::new("/amd/5.2.3"))), Some(system), "the folder has none");
    }

    /// A path below another root.
    fn in_root(root: &Path, path: &Path) -> PathBuf {
        root.join(path.strip_prefix("/").expect("an absolute path"))
    }

    #[test]
    fn the_newer_c_library_is_used() {
        for (folder, system, newer) in [
            (Some("2.41"), "2.36", true),
            (Some("2.36"), "2.36", false),
            (Some("2.36"), "2.41", false),
            (Some("2.100"), "2.36", true),
            (None, "2.36", true),
        ] {
            assert_eq!(is_newer(folder, system), newer, "{folder:?} {system}");
        }
        let here = c_library_here();
        assert!(here.starts_with("2."), "{here}");
    }

    #[test]
    fn only_old_copies_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (young, old) = (folder.path().join("young"), folder.path().join("old"));
        std::fs::write(&young, "").expect("a file");
        let file = std::fs::File::create(&old).expect("a file");
        file.set_modified(SystemTime::now() - 2 * KEPT).expect("its time");
        remove_old(folder.path());
        assert!(young.exists() && !old.exists());
    }
}
