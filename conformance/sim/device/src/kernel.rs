//! Modules and kernels: CPU versions of the project's kernels, looked up by name, and those of a library for the CPU.
//! The variable `GPU_INTEROP_SIM_KERNELS` names the library, which is built with `kernels/device/simulated.h`.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::io::Write as _;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use gpu_interop_kernels::convert::{cpu, plane_sizes};
use gpu_interop_kernels::{
    FILL_PATTERN, INCREMENT, ParameterType, RGBA_TO_YUV, Signature, VERIFY_PATTERN, YUV_TO_RGBA, pattern_word,
};
use gpu_interop_sim_abi::lock;
use libloading::Library;

use crate::objects::Objects;
use crate::{code, settings};

/// Modules by handle.
pub static MODULES: Objects<Module> = Objects::new();

/// A loaded image.
#[derive(Debug)]
pub struct Module {
    /// Names of the kernels in the image.
    kernels: Vec<CString>,
}

impl Module {
    /// A module of an image with these kernels.
    pub fn new(kernels: Vec<CString>) -> Self {
        Self { kernels }
    }

    /// As [`Module::new`].
    ///
    /// # Errors
    /// [`code::NOT_SUPPORTED`] if the simulator lacks one of the kernels.
    pub fn complete(kernels: Vec<CString>) -> Result<Self, u32> {
        let known = kernels.iter().all(|name| find(name).is_some());
        if known { Ok(Self { kernels }) } else { Err(code::NOT_SUPPORTED) }
    }

    /// The handle of a kernel, if the image contains it and the simulator has it.
    pub fn kernel(&self, name: &CStr) -> Option<usize> {
        find(name).filter(|_| self.kernels.iter().any(|kernel| **kernel == *name))
    }
}

/// A kernel of the project.
#[derive(Debug)]
struct OwnKernel {
    signature: Signature,
    run: fn(&[u64]),
}

/// The project's kernels. The index determines the handle.
const KERNELS: &[OwnKernel] = &[
    OwnKernel { signature: FILL_PATTERN, run: fill_pattern },
    OwnKernel { signature: VERIFY_PATTERN, run: verify_pattern },
    OwnKernel { signature: INCREMENT, run: increment },
    OwnKernel { signature: YUV_TO_RGBA, run: |arguments| convert(arguments, cpu::yuv_to_rgba) },
    OwnKernel { signature: RGBA_TO_YUV, run: |arguments| convert(arguments, cpu::rgba_to_yuv) },
];

/// A kernel that can be launched.
#[derive(Debug)]
pub struct Kernel(Source);

#[derive(Debug)]
enum Source {
    Own(&'static OwnKernel),
    Library(&'static LibraryKernel),
}

/// The work of a launch.
pub type Work = Box<dyn Fn() + Send + Sync>;

/// The handle of the first kernel, which looks like a pointer.
const FIRST: usize = 0x53_0000_1000;

/// The handle of the kernel with this name.
fn find(name: &CStr) -> Option<usize> {
    let own = KERNELS.iter().position(|kernel| kernel.signature.name == name).map(|place| FIRST + 16 * place);
    own.or_else(|| find_in_library(name))
}

/// The kernel of a handle.
pub fn of(handle: usize) -> Option<Kernel> {
    let own = handle.checked_sub(FIRST).filter(|offset| offset % 16 == 0).and_then(|offset| KERNELS.get(offset / 16));
    own.map(Source::Own).or_else(|| library_kernel(handle).map(Source::Library)).map(Kernel)
}

impl Kernel {
    /// Reads the arguments and returns the work of a launch.
    ///
    /// # Errors
    /// [`code::NOT_SUPPORTED`] for a launch of more than one dimension of a library's kernel.
    ///
    /// # Safety
    /// `pointers` has a pointer to each argument. The memory that the arguments refer to is valid until the work has
    /// run.
    pub unsafe fn launch(&self, grid: [u32; 3], block: [u32; 3], pointers: *const *mut c_void) -> Result<Work, u32> {
        match self.0 {
            // SAFETY: the caller's promise.
            Source::Own(kernel) => Ok(Box::new(unsafe { kernel.launch(pointers) })),
            Source::Library(_) if grid[1..] != [1; 2] || block[1..] != [1; 2] => Err(code::NOT_SUPPORTED),
            Source::Library(kernel) => {
                let threads = u64::from(grid[0]) * u64::from(block[0]);
                // SAFETY: the caller's promise.
                Ok(Box::new(unsafe { kernel.launch(pointers, threads) }))
            }
        }
    }
}

impl OwnKernel {
    /// Reads the arguments by the signature and returns the work.
    ///
    /// # Safety
    /// As [`Kernel::launch`].
    unsafe fn launch(&self, pointers: *const *mut c_void) -> impl Fn() + Send + Sync + use<> {
        let argument = |index: usize, ty: ParameterType| {
            // SAFETY: the caller's promise.
            unsafe {
                let pointer = *pointers.add(index);
                match ty.size() {
                    4 => u64::from(pointer.cast::<u32>().read_unaligned()),
                    _ => pointer.cast::<u64>().read_unaligned(),
                }
            }
        };
        let parameters = self.signature.parameters.iter().enumerate();
        let arguments: Vec<u64> = parameters.map(|(index, parameter)| argument(index, parameter.ty)).collect();
        let run = self.run;
        move || run(&arguments)
    }
}

fn words<'a>(address: u64, count: u64) -> &'a [AtomicU32] {
    let address = usize::try_from(address).unwrap_or(0);
    // SAFETY: the caller of the launch guarantees that many words until the work has run.
    unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(address), usize::try_from(count).unwrap_or(0)) }
}

/// A 32-bit argument, read as such.
fn narrow(argument: u64) -> u32 {
    u32::try_from(argument).unwrap_or(u32::MAX)
}

fn fill_pattern(arguments: &[u64]) {
    let &[address, count, seed] = arguments else { return };
    for (word, index) in words(address, count).iter().zip(0..) {
        word.store(pattern_word(narrow(seed), index), Ordering::Relaxed);
    }
}

fn verify_pattern(arguments: &[u64]) {
    let &[address, count, seed, mismatches] = arguments else { return };
    let words = words(address, count).iter().zip(0..);
    let wrong = words.filter(|(word, index)| word.load(Ordering::Relaxed) != pattern_word(narrow(seed), *index));
    let wrong = u32::try_from(wrong.count()).unwrap_or(u32::MAX);
    for counter in self::words(mismatches, 1) {
        counter.fetch_add(wrong, Ordering::Relaxed);
    }
}

fn increment(arguments: &[u64]) {
    let &[address, count] = arguments else { return };
    for word in words(address, count) {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs the CPU version of a conversion, whose arguments are three addresses and 32-bit numbers.
fn convert<const N: usize>(arguments: &[u64], run: fn([&[AtomicU8]; 3], &[u32; N])) {
    let &[luma, chroma, rgba, ref numbers @ ..] = arguments else { return };
    let Ok(numbers) = <[u64; N]>::try_from(numbers) else { return };
    let numbers = numbers.map(narrow);
    let Some([luma_size, chroma_size, rgba_size]) = plane_sizes(&numbers) else { return };
    run([bytes(luma, luma_size), bytes(chroma, chroma_size), bytes(rgba, rgba_size)], &numbers);
}

fn bytes<'a>(address: u64, size: u64) -> &'a [AtomicU8] {
    let address = usize::try_from(address).unwrap_or(0);
    // SAFETY: the caller of the launch guarantees that many bytes until the work has run.
    unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(address), usize::try_from(size).unwrap_or(0)) }
}

/// The variable that names the library.
const LIBRARY_VARIABLE: &str = "GPU_INTEROP_SIM_KERNELS";

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
        let name = settings::text(LIBRARY_VARIABLE)?;
        // SAFETY: the user named a library of kernels, which supports loading at run time.
        let library = unsafe { Library::new(&name) };
        library.inspect_err(|error| drop(writeln!(std::io::stderr(), "simulator: {LIBRARY_VARIABLE}: {error}"))).ok()
    };
    LIBRARY.get_or_init(load).as_ref()
}

/// The kernels that were found, by their handles, which are their addresses.
static LIBRARY_KERNELS: Mutex<BTreeMap<usize, &'static LibraryKernel>> = Mutex::new(BTreeMap::new());

/// The handle of the kernel with this name, if the library has it.
pub(crate) fn find_in_library(name: &CStr) -> Option<usize> {
    let symbol = [b"gpu_interop_kernel_", name.to_bytes_with_nul()].concat();
    // SAFETY: the library exports constants of this type under such names, and is never unloaded.
    let kernel = unsafe { library()?.get::<*const LibraryKernel>(symbol.as_slice()) }.ok()?;
    // SAFETY: as above.
    let kernel: &'static LibraryKernel = unsafe { (*kernel).as_ref() }?;
    let handle = (&raw const *kernel).addr();
    lock(&LIBRARY_KERNELS).insert(handle, kernel);
    Some(handle)
}

/// The kernel of a handle.
pub(crate) fn library_kernel(handle: usize) -> Option<&'static LibraryKernel> {
    lock(&LIBRARY_KERNELS).get(&handle).copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_kernels_compute_like_device_kernels() {
        let (mut data, mut mismatches) = ([0_u32; 9], 3_u32);
        let address = data.as_mut_ptr().expose_provenance() as u64;
        let count = (&raw mut mismatches).expose_provenance() as u64;
        let launch = |name: &CStr, arguments: &[u64]| {
            let pointers: Vec<*mut c_void> = arguments.iter().map(|at| (&raw const *at).cast_mut().cast()).collect();
            let kernel = of(find(name).expect("a kernel")).expect("a kernel");
            // SAFETY: a pointer to each argument; a little-endian 64-bit number begins with its low half.
            let run = unsafe { kernel.launch([1; 3], [1; 3], pointers.as_ptr()) };
            run.expect("the work")();
        };
        launch(c"fill_pattern", &[address, 8, 7]);
        launch(c"increment", &[address + 4, 1]);
        launch(c"verify_pattern", &[address, 9, 7, count]);
        // SAFETY: the kernels wrote through the exposed addresses.
        let (data, mismatches) =
            unsafe { ((&raw const data).read_volatile(), (&raw const mismatches).read_volatile()) };
        assert_eq!((data[0], data[1], data[8]), (pattern_word(7, 0), pattern_word(7, 1) + 1, 0));
        assert_eq!(mismatches, 3 + 2);
        assert_eq!(find(c"surface_fill"), None);
        assert!(of(0).is_none() && of(FIRST + 8).is_none() && of(FIRST + 80).is_none());
    }
}
