//! The PTX that runs in place of a code object of the same source.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gpu_interop_kernels::KERNELS;
use gpu_interop_sim_abi::{ptx, settings};

use crate::code::NOT_SUPPORTED;

/// The variable that names PTX of other sources.
const VARIABLE: &str = "GPU_INTEROP_SIM_PTX";

/// A text of PTX.
#[derive(Debug)]
struct Ptx {
    kernels: Vec<CString>,
    text: CString,
}

/// The PTX with all kernels of a code object.
///
/// # Errors
/// [`NOT_SUPPORTED`] if there is none, with a line about it.
pub(crate) fn of(kernels: &[CString]) -> Result<&'static CStr, u32> {
    let is_own = |name: &CString| KERNELS.iter().any(|own| !own.nvidia_only && own.name == name.as_c_str());
    if kernels.iter().all(is_own) {
        return Ok(gpu_interop_kernels::ptx());
    }
    static OTHERS: OnceLock<Vec<Ptx>> = OnceLock::new();
    let others = OTHERS.get_or_init(|| settings::text(VARIABLE).map(|list| read_all(&list)).unwrap_or_default());
    let found = others.iter().find(|ptx| kernels.iter().all(|name| ptx.kernels.contains(name)));
    found.map(|ptx| ptx.text.as_c_str()).ok_or_else(|| {
        say(&format!("no PTX has the kernels {kernels:?} of a code object; name its file or folder with {VARIABLE}"));
        NOT_SUPPORTED
    })
}

/// HIP has no code for the reason, so it is printed.
fn say(problem: &str) {
    let _ = writeln!(std::io::stderr(), "HIP on CUDA: {problem}");
}

/// All files of a list of files and folders.
fn read_all(list: &str) -> Vec<Ptx> {
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file).inspect_err(|error| say(&format!("{}: {error}", file.display()))).ok()?;
        Some(Ptx { kernels: ptx::kernels(&text), text: CString::new(text).ok()? })
    };
    std::env::split_paths(list).flat_map(|path| files(&path)).filter_map(|file| read(&file)).collect()
}

/// The files `*.ptx` of a folder in the order of their names, or the file itself.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.into()] };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "ptx"));
    files.sort();
    files
}
