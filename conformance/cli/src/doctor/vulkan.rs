//! Faults of Vulkan's loader and of the manifests of its drivers.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Fault;
use super::nvidia::{NVIDIA_VULKAN, without_graphics};
use crate::examined::System;

/// Variables that replace the loader's search, also if they are empty (loader 1.3.239). The first one that is set counts.
const ONLY: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
/// Variables that select drivers, and disable others, by the names of their manifests.
const SELECT: &str = "VK_LOADER_DRIVERS_SELECT";
const DISABLE: &str = "VK_LOADER_DRIVERS_DISABLE";

/// Drivers that use the same GPUs: their libraries, and the GPU.
const SAME_GPU: [(&str, &[&str]); 2] = [
    ("AMD", &["libvulkan_radeon", "amdvlk64", "amdvlkpro64", "libamdvlkpro"]),
    ("NVIDIA", &["libGLX_nvidia", "libEGL_nvidia"]),
];
/// Libraries that NVIDIA's Vulkan driver loads, with Debian's packages.
const NVIDIA_NEEDS: [(&str, &str); 2] = [("libX11.so.6", "libx11-6"), ("libXext.so.6", "libxext6")];

/// A manifest of a Vulkan driver.
#[derive(Debug)]
struct Manifest {
    path: PathBuf,
    /// The library as the manifest names it.
    named: String,
    /// Its file, if it exists.
    library: Option<PathBuf>,
}

/// All faults of Linux's loader. Windows' loader searches the registry.
pub(super) fn faults(system: &System) -> Vec<Fault> {
    if cfg!(windows) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let mut manifests = Vec::new();
    let (used, hidden) = files(system);
    faults.extend(hidden);
    for path in used {
        match read(system, &path) {
            Ok(manifest) => manifests.push(manifest),
            Err(reason) => faults.push(Fault::error(
                "icd_unreadable",
                format!("the Vulkan driver manifest {}: {reason}", path.display()),
                "reinstall the package that owns the file, or delete it",
            )),
        }
    }
    faults.extend(manifests.iter().filter_map(|manifest| missing(system, manifest)));
    faults.extend(needed_by_nvidia(system, &manifests));
    faults.extend(twice(system, &manifests));
    if !manifests.is_empty() && system.library("libvulkan.so.1").is_none() {
        let cause = "Vulkan drivers are installed, but not the loader libvulkan.so.1".into();
        faults.push(Fault::error("vulkan_loader_missing", cause, "install it (Debian: libvulkan1)"));
    }
    faults
}

/// The manifests that the loader uses, in the order of its search; and the variables that hide all of them.
fn files(system: &System) -> (Vec<PathBuf>, Option<Fault>) {
    let set = |name: &&str| system.variable(name).is_some();
    let only = ONLY.into_iter().find(set);
    let listed = only.map(|variable| system.list(variable)).unwrap_or_default();
    let (named, is_unknown) = (!listed.is_empty(), listed.iter().any(|path| path.is_relative()));
    let installed = installed(system);
    let count = installed.len();
    let found: Vec<PathBuf> = match only {
        Some(_) => {
            let named = listed.into_iter().flat_map(|path| of_place(system, path));
            named.filter(|path| system.exists(path)).collect()
        }
        None => installed,
    };
    let used: Vec<PathBuf> = found.into_iter().filter(|path| is_enabled(system, path)).collect();
    let variables: Vec<String> = (only.into_iter().chain([SELECT, DISABLE]))
        .filter_map(|name| Some(format!("{name}={}", system.variable(name)?)))
        .collect();
    let fault = (used.is_empty() && !is_unknown && !variables.is_empty() && (named || count > 0)).then(|| {
        let variables = variables.join(" and ");
        let cause = format!("{variables} leaves the Vulkan loader no driver; {count} are installed");
        let names = only.into_iter().chain([SELECT, DISABLE]).filter(set).collect::<Vec<_>>().join(" and ");
        Fault::error("vulkan_drivers_hidden", cause, format!("unset {names}, or name a driver's manifest that exists"))
    });
    (used, fault)
}

/// `true` unless variables exclude the manifest. A selected driver cannot be disabled (loader 1.3.239).
fn is_enabled(system: &System, manifest: &Path) -> bool {
    let name = manifest.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    // Globs with an asterisk at the beginning, at the end, or both.
    let matches = |pattern: &str| {
        let pattern = pattern.to_lowercase();
        match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            _ if pattern == "~all~" || pattern == "*" => true,
            (Some(rest), Some(_)) => name.contains(rest.strip_suffix('*').unwrap_or(rest)),
            (Some(end), None) => name.ends_with(end),
            (None, Some(start)) => name.starts_with(start),
            (None, None) => name == pattern,
        }
    };
    let listed = |variable| {
        let list = system.set_variable(variable)?;
        Some(list.split(',').any(matches))
    };
    listed(SELECT).unwrap_or_else(|| listed(DISABLE) != Some(true))
}

/// The manifests that the loader's own search finds.
fn installed(system: &System) -> Vec<PathBuf> {
    let expand = |paths: Vec<PathBuf>| paths.into_iter().flat_map(|path| of_place(system, path)).collect::<Vec<_>>();
    let home = |below: &str| system.set_variable("HOME").map(|home| Path::new(home).join(below));
    let or = |list: Vec<PathBuf>, default: &[&str]| {
        if list.is_empty() { default.iter().map(PathBuf::from).collect() } else { list }
    };
    let mut folders = system.list("XDG_CONFIG_HOME");
    folders.extend(home(".config"));
    folders.extend(or(system.list("XDG_CONFIG_DIRS"), &["/etc/xdg"]));
    folders.push("/etc".into());
    folders.extend(system.list("XDG_DATA_HOME"));
    folders.extend(home(".local/share"));
    folders.extend(or(system.list("XDG_DATA_DIRS"), &["/usr/local/share", "/usr/share"]));
    let mut all = expand(system.list("VK_ADD_DRIVER_FILES"));
    all.extend(folders.into_iter().flat_map(|folder| of_place(system, folder.join("vulkan/icd.d"))));
    let mut found: Vec<PathBuf> = Vec::new();
    for path in all {
        let is_new = !found.iter().any(|known| system.canonical(known) == system.canonical(&path));
        if is_new {
            found.push(path);
        }
    }
    found
}

/// A file, or the manifests in a folder.
fn of_place(system: &System, path: PathBuf) -> Vec<PathBuf> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return vec![path];
    }
    let is_manifest = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    system.entries(&path).into_iter().filter(is_manifest).collect()
}

fn read(system: &System, path: &Path) -> Result<Manifest, String> {
    let text = system.text(path).ok_or("it does not exist or cannot be read")?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("it is not JSON: {error}"))?;
    let named = value.pointer("/ICD/library_path").and_then(Value::as_str);
    let named = named.ok_or("it has no ICD.library_path")?.to_owned();
    let library = if named.starts_with('/') {
        system.canonical(Path::new(&named)).map(|_| PathBuf::from(&named))
    } else if named.contains('/') {
        let relative = path.parent().unwrap_or(Path::new("/")).join(&named);
        system.canonical(&relative).map(|_| relative)
    } else {
        system.library(&named)
    };
    Ok(Manifest { path: path.to_owned(), named, library })
}

/// A manifest that names a missing library.
fn missing(system: &System, manifest: &Manifest) -> Option<Fault> {
    if manifest.library.is_some() {
        return None;
    }
    let Manifest { path, named, .. } = manifest;
    // The container toolkit mounts NVIDIA's library if asked for graphics.
    if named == NVIDIA_VULKAN && without_graphics(system).is_some() {
        return None;
    }
    let remedy = if named.contains("nvidia") {
        "install the Vulkan part of NVIDIA's driver, of the kernel module's version (Debian: nvidia-vulkan-icd; \
         Ubuntu: libnvidia-gl-VERSION), or delete the manifest"
    } else {
        "install the package that contains the library, or delete the manifest"
    };
    Some(Fault::error(
        "icd_library_missing",
        format!("the Vulkan driver manifest {} names {named}, which is not installed", path.display()),
        remedy,
    ))
}

/// Libraries without which NVIDIA's Vulkan driver does not load.
fn needed_by_nvidia(system: &System, manifests: &[Manifest]) -> Vec<Fault> {
    let used =
        manifests.iter().any(|manifest| manifest.named.starts_with("libGLX_nvidia") && manifest.library.is_some());
    let needs = NVIDIA_NEEDS.iter().filter(|(library, _)| used && system.library(library).is_none());
    needs
        .map(|(library, package)| {
            let cause = format!("NVIDIA's Vulkan driver {NVIDIA_VULKAN} needs {library}, which is not installed");
            Fault::error("nvidia_needs_x11", cause, format!("install it (Debian: apt-get install {package})"))
        })
        .collect()
}

/// Manifests of one driver, or of two drivers for the same GPU.
fn twice(system: &System, manifests: &[Manifest]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let usable: Vec<(&Manifest, PathBuf)> = manifests
        .iter()
        .filter_map(|manifest| Some((manifest, system.canonical(manifest.library.as_ref()?)?)))
        .collect();
    for (index, (second, library)) in usable.iter().enumerate() {
        if let Some((first, _)) = usable[..index].iter().find(|(_, known)| known == library) {
            faults.push(Fault::warning(
                "icd_twice",
                format!(
                    "{} and {} name the same driver, {}",
                    first.path.display(),
                    second.path.display(),
                    second.named
                ),
                format!("delete one, or set VK_DRIVER_FILES={}", first.path.display()),
            ));
        }
    }
    for (gpu, drivers) in SAME_GPU {
        let of_gpu =
            |driver: &&str| usable.iter().find(|(manifest, _)| file_name(&manifest.named).starts_with(*driver));
        let found: Vec<&Manifest> = drivers.iter().filter_map(of_gpu).map(|(manifest, _)| *manifest).collect();
        if let [first, second, ..] = found.as_slice() {
            faults.push(Fault::warning(
                "two_icds_of_one_gpu",
                format!(
                    "{} ({}) and {} ({}) are two Vulkan drivers for {gpu}'s GPUs, with different handles and UUIDs",
                    first.path.display(),
                    first.named,
                    second.path.display(),
                    second.named
                ),
                format!("remove one, or set VK_DRIVER_FILES={}", first.path.display()),
            ));
        }
    }
    faults
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
