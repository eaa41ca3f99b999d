//! Vulkan on the emulated GPU: the CPU driver, with the GPU's PCI address.
//!
//! The emulated driver's library is also a Vulkan layer, which sets lavapipe's PCI address: a HIP device and a Vulkan
//! device are matched by it, as on hardware.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use gpu_interop_conformance::Verdict;

/// The layer's name.
const LAYER: &str = "VK_LAYER_gpu_interop_emulated_amdgpu";
/// Folders of the files that name drivers.
const DRIVERS: [&str; 3] = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
/// Prefix of the file of Mesa's CPU driver.
const LAVAPIPE: &str = "lvp_icd";

/// Writes the layer's manifest to `folder` and returns the variables that activate it. `current` reads the environment.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn variables(
    driver: &Path,
    folder: &Path,
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
    if !names.iter().any(chosen)
        && let Some(file) = lavapipe(&DRIVERS.map(PathBuf::from))
    {
        variables.extend(names.map(|name| (name, file.clone().into_os_string())));
    }
    Ok(variables)
}

/// Prepends a value to a variable's list.
pub(super) fn joined(first: &OsStr, others: Option<OsString>) -> OsString {
    let mut all = first.to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// The file of lavapipe, so that it is the only driver.
fn lavapipe(folders: &[PathBuf]) -> Option<PathBuf> {
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_lavapipe = |file: &PathBuf| {
        file.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            // Debian has one file per architecture.
            name.starts_with(LAVAPIPE) && (name.contains("x86_64") || name == "lvp_icd.json")
        })
    };
    files.map(|entry| entry.path()).find(is_lavapipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_is_added_and_lavapipe_is_the_only_driver() {
        let folder = tempfile::tempdir().expect("a folder");
        let with = |set: &[(&str, &str)]| {
            let set: Vec<(String, OsString)> = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).into())).collect();
            let current = move |name: &str| set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            variables(Path::new("/d/lib.so"), folder.path(), current).expect("variables")
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
        assert_eq!(lavapipe(&folders), None);
        let file = folder.path().join("lvp_icd.x86_64.json");
        std::fs::write(&file, "").expect("a file");
        assert_eq!(lavapipe(&folders), Some(file));
    }
}
