//! Modules and kernels. A code object is validated, and PTX of the same source runs.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};
use gpu_interop_kernels::KERNELS;
use gpu_interop_sim_abi::hip::code_object;
use gpu_interop_sim_abi::{entries, give, kernels_of_ptx, lock, settings};

use crate::cuda::{INVALID_HANDLE, NOT_FOUND, NOT_SUPPORTED, call, cuda, make, reject_if};

/// The kernels of each module's code object, by the module's handle: the PTX may have more.
static LOADED: Mutex<BTreeMap<usize, Vec<CString>>> = Mutex::new(BTreeMap::new());

/// `true` if the code object of a module contains a kernel.
fn contains(module: CUmodule, name: &CStr) -> bool {
    lock(&LOADED).get(&module.addr()).is_some_and(|kernels| kernels.iter().any(|kernel| **kernel == *name))
}

entries! {
    fn hipModuleLoadData(module: *mut CUmodule, image: *const c_void) gives module {
        cuda()?;
        reject_if(module.is_null())?;
        let kernels = code_object::check(image)?;
        let loaded: CUmodule = make!(cuModuleLoadData(ptx_of(&kernels)?.as_ptr().cast()))?;
        lock(&LOADED).insert(loaded.addr(), kernels);
        give(module, loaded)
    }

    fn hipModuleUnload(module: CUmodule) {
        reject_if(module.is_null())?;
        lock(&LOADED).remove(&module.addr());
        call!(cuModuleUnload(module))
    }

    fn hipModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) gives function {
        reject_if(function.is_null() || name.is_null())?;
        if module.is_null() {
            return Err(INVALID_HANDLE);
        }
        if !contains(module, CStr::from_ptr(name)) {
            return Err(NOT_FOUND);
        }
        give(function, make!(cuModuleGetFunction(module, name))?)
    }

    fn hipModuleLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: CUstream, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        reject_if(function.is_null() || (arguments.is_null() && extra.is_null()))?;
        // The two APIs mark the end of such arguments with different numbers.
        if !extra.is_null() {
            return Err(NOT_SUPPORTED);
        }
        call!(cuLaunchKernel(
            function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, extra,
        ))
    }
}

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
pub(crate) fn ptx_of(kernels: &[CString]) -> Result<&'static CStr, u32> {
    let is_own = |name: &CString| KERNELS.iter().any(|own| !own.nvidia_only && own.name == name.as_c_str());
    if kernels.iter().all(is_own) {
        return Ok(gpu_interop_kernels::ptx());
    }
    static OTHERS: OnceLock<Vec<Ptx>> = OnceLock::new();
    let others = OTHERS.get_or_init(|| settings::text(VARIABLE).map(|list| read_all(&list)).unwrap_or_default());
    let found = others.iter().find(|ptx| kernels.iter().all(|name| ptx.kernels.contains(name)));
    found.map(|ptx| ptx.text.as_c_str()).ok_or_else(|| {
        print_problem(&format!(
            "no PTX has the kernels {kernels:?} of a code object; name its file or folder with {VARIABLE}"
        ));
        NOT_SUPPORTED
    })
}

/// HIP has no code for the reason, so it is printed.
fn print_problem(problem: &str) {
    let _ = writeln!(std::io::stderr(), "HIP on CUDA: {problem}");
}

/// All files of a list of files and folders.
fn read_all(list: &str) -> Vec<Ptx> {
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file)
            .inspect_err(|error| print_problem(&format!("{}: {error}", file.display())))
            .ok()?;
        Some(Ptx { kernels: kernels_of_ptx(&text), text: CString::new(text).ok()? })
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
