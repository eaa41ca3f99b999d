//! Kernels of another source, for the CPU: in the library that `GPU_INTEROP_SIM_KERNELS` names, built with
//! `kernels/device/simulated.h`.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::io::Write as _;
use std::slice;
use std::sync::{Mutex, OnceLock};

use gpu_interop_sim_abi::lock;
use libloading::Library;

use crate::settings;

/// The variable that names the library.
const VARIABLE: &str = "GPU_INTEROP_SIM_KERNELS";

/// `struct simulated_kernel`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LibraryKernel {
    arguments: u64,
    sizes: *const u64,
    run: unsafe extern "C" fn(pointers: *const *const c_void, threads: u64),
}

// SAFETY: a constant of a library that is never unloaded; `run` may be called by any thread.
unsafe impl Send for LibraryKernel {}
// SAFETY: as above.
unsafe impl Sync for LibraryKernel {}

/// The library, if there is one. A failure is printed, because no driver has a code for it.
fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let load = || {
        let name = settings::text(VARIABLE)?;
        // SAFETY: the user named a library of kernels, which supports loading at run time.
        let library = unsafe { Library::new(&name) };
        library.inspect_err(|error| drop(writeln!(std::io::stderr(), "simulator: {VARIABLE}: {error}"))).ok()
    };
    LIBRARY.get_or_init(load).as_ref()
}

/// The kernels that were found, by their handles, which are their addresses.
static KERNELS: Mutex<BTreeMap<usize, &'static LibraryKernel>> = Mutex::new(BTreeMap::new());

/// The handle of the kernel with this name, if the library has it.
pub(crate) fn find(name: &CStr) -> Option<usize> {
    let symbol = [b"gpu_interop_kernel_", name.to_bytes_with_nul()].concat();
    // SAFETY: the library exports constants of this type under such names, and is never unloaded.
    let kernel = unsafe { library()?.get::<*const LibraryKernel>(symbol.as_slice()) }.ok()?;
    // SAFETY: as above.
    let kernel: &'static LibraryKernel = unsafe { (*kernel).as_ref() }?;
    let handle = (&raw const *kernel).addr();
    lock(&KERNELS).insert(handle, kernel);
    Some(handle)
}

/// The kernel of a handle.
pub(crate) fn of(handle: usize) -> Option<&'static LibraryKernel> {
    lock(&KERNELS).get(&handle).copied()
}

impl LibraryKernel {
    /// Copies the arguments and returns the work.
    ///
    /// # Safety
    /// `pointers` has a pointer to each argument. The memory that the arguments refer to is valid until the work has
    /// run.
    pub(crate) unsafe fn launch(&self, pointers: *const *mut c_void, threads: u64) -> impl Fn() + Send + Sync + use<> {
        // SAFETY: the library states how many sizes there are.
        let sizes = unsafe { slice::from_raw_parts(self.sizes, usize::try_from(self.arguments).unwrap_or(0)) };
        // Each argument is aligned as any type of C.
        let mut places = Vec::new();
        let mut words: Vec<u128> = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let size = usize::try_from(*size).unwrap_or(0);
            let place = words.len();
            words.resize(place + size.div_ceil(16).max(1), 0);
            // SAFETY: the caller's promise; the words from `place` on have room for the argument.
            unsafe {
                let target = words.as_mut_ptr().add(place).cast::<u8>();
                target.copy_from_nonoverlapping((*pointers.add(index)).cast::<u8>(), size);
            }
            places.push(place);
        }
        let run = self.run;
        move || {
            let pointers: Vec<*const c_void> = places.iter().map(|place| (&raw const words[*place]).cast()).collect();
            // SAFETY: a pointer to each argument; the caller's promise about their memory.
            unsafe { run(pointers.as_ptr(), threads) };
        }
    }
}
