//! Checks of code objects.

use std::ffi::{CString, c_void};
use std::slice;

use cubecl_hip_sys as hip;
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _, elf};

use crate::hip::error::NO_BINARY_FOR_GPU;
use crate::hip::version::Era;
use crate::{code, settings};

/// Processors in code objects: the architecture, and the low byte of the flags.
const PROCESSORS: &[(&str, u8)] = &[
    ("gfx906", 0x2f),
    ("gfx908", 0x30),
    ("gfx90a", 0x3f),
    ("gfx942", 0x4c),
    ("gfx1030", 0x36),
    ("gfx1100", 0x41),
    ("gfx1201", 0x4e),
];

/// Processors in code objects of families, which HIP loads since version 6: the architectures of the family, and the
/// low byte of the flags.
const FAMILIES: &[(&[&str], u8)] = &[
    (&["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"], 0x51),
    (&["gfx1030"], 0x53),
    (&["gfx1100"], 0x54),
    (&["gfx1201"], 0x59),
];

/// Upper bound of the size of the project's code objects, bytes.
const LONGEST: u64 = 1 << 24;

type Header = elf::FileHeader64<LittleEndian>;

/// The architecture of the simulated device, with its features.
pub fn architecture() -> String {
    settings::text("GPU_INTEROP_SIM_ARCH").unwrap_or_else(|| "gfx90a:sramecc+:xnack-".into())
}

/// `true` if a code object of this processor runs on an architecture.
fn runs_on(architecture: &str, processor: u8) -> bool {
    let name = architecture.split(':').next().unwrap_or_default();
    let family = |(starts, of_family): &(&[&str], u8)| *of_family == processor && starts.contains(&name);
    PROCESSORS.contains(&(name, processor)) || (Era::now() >= Era::Six && FAMILIES.iter().any(family))
}

/// `hipErrorSharedObjectInitFailed`, `hipErrorInvalidKernelFile`.
pub const SHARED_OBJECT_INIT_FAILED: u32 = hip::hipError_t_hipErrorSharedObjectInitFailed;
const INVALID_KERNEL_FILE: u32 = hip::hipError_t_hipErrorInvalidKernelFile;

/// A section that the runtime needs and a code object lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// No section `.strtab`.
    NoNames,
    /// No section `.symtab`.
    NoSymbols,
}

/// Returns the missing section, if any: the runtime looks up sections by name, although the dynamic sections have the
/// same content.
///
/// # Safety
/// [`check`] has accepted the image.
pub unsafe fn damage(image: *const c_void) -> Option<Damage> {
    // SAFETY: the caller's promise: it begins with a header.
    let header = unsafe { slice::from_raw_parts(image.cast::<u8>(), size_of::<Header>()) };
    // SAFETY: as `check`.
    let image = unsafe { slice::from_raw_parts(image.cast::<u8>(), length(header)?) };
    let file = ElfFile64::<LittleEndian>::parse(image).ok()?;
    if file.section_by_name(".strtab").is_none() {
        return Some(Damage::NoNames);
    }
    file.section_by_name(".symtab").is_none().then_some(Damage::NoSymbols)
}

/// The status for an image that is not a code object.
fn no_code_object() -> u32 {
    if Era::now() < Era::Six { INVALID_KERNEL_FILE } else { code::INVALID_IMAGE }
}

/// The status for a code object of another architecture.
fn of_another() -> u32 {
    if Era::now() < Era::Six { SHARED_OBJECT_INIT_FAILED } else { NO_BINARY_FOR_GPU }
}

/// Fails unless an image is a code object that runs on the device. Returns the names of its kernels.
///
/// # Errors
/// [`code::INVALID_VALUE`] for NULL, [`code::INVALID_IMAGE`] for an image that is not a code object,
/// `hipErrorNoBinaryForGpu` for one of another architecture (before HIP 6 `hipErrorInvalidKernelFile` and
/// `hipErrorSharedObjectInitFailed`).
///
/// # Safety
/// `image` is NULL, or has 4 bytes, and the length in its header if they begin one.
pub unsafe fn check(image: *const c_void) -> Result<Vec<CString>, u32> {
    let image = image.cast::<u8>();
    code::reject_if(image.is_null())?;
    // Read in steps: an image that is not a code object may be shorter than the header.
    // SAFETY: the caller's promise.
    if unsafe { slice::from_raw_parts(image, 4) } != elf::ELFMAG {
        return Err(no_code_object());
    }
    // SAFETY: the caller's promise.
    let header = unsafe { slice::from_raw_parts(image, size_of::<Header>()) };
    let length = length(header).ok_or_else(no_code_object)?;
    // SAFETY: the caller's promise: the header says so.
    check_bytes(unsafe { slice::from_raw_parts(image, length) }, &architecture())
}

/// The length of a code object: its section headers are last.
fn length(header: &[u8]) -> Option<usize> {
    let header = Header::parse(header).ok()?;
    let endian = header.endian().ok()?;
    let headers = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    let length = header.e_shoff(endian).checked_add(headers).filter(|length| *length <= LONGEST)?;
    usize::try_from(length).ok().filter(|length| *length >= size_of::<Header>())
}

fn check_bytes(image: &[u8], architecture: &str) -> Result<Vec<CString>, u32> {
    let file = ElfFile64::<LittleEndian>::parse(image).map_err(|_| no_code_object())?;
    let (header, endian) = (file.elf_header(), file.endian());
    if header.e_machine(endian) != elf::EM_AMDGPU {
        return Err(no_code_object());
    }
    if !runs_on(architecture, header.e_flags(endian).0.to_le_bytes()[0]) {
        return Err(of_another());
    }
    // Each kernel has a descriptor.
    let names = file.dynamic_symbols().filter_map(|symbol| CString::new(symbol.name().ok()?.strip_suffix(".kd")?).ok());
    Ok(names.collect())
}

#[cfg(test)]
mod tests {
    use gpu_interop_kernels::code_object;

    use super::*;

    const HERE: &str = "gfx90a:sramecc+:xnack-";

    fn of(architecture: &str) -> Vec<u8> {
        code_object(architecture).expect("a code object").to_vec()
    }

    #[test]
    fn a_code_object_says_how_long_it_is() {
        for (target, object) in gpu_interop_kernels::CODE_OBJECTS {
            assert_eq!(length(&object[..64]), Some(object.len()), "{target}");
        }
    }

    #[test]
    fn only_the_right_code_object_is_accepted() {
        let kernels = |image: &[u8], architecture| {
            let mut names = check_bytes(image, architecture)?;
            names.sort();
            Ok(names)
        };
        let names = [c"fill_pattern", c"increment", c"rgba_to_yuv", c"verify_pattern", c"yuv_to_rgba"];
        let expected = Ok(names.map(CString::from).to_vec());
        assert_eq!(kernels(&of(HERE), HERE), expected);
        assert_eq!(kernels(&of("gfx942"), "gfx942"), expected);
        assert_eq!(kernels(&of("gfx942"), HERE), Err(NO_BINARY_FOR_GPU));
        assert_eq!(kernels(&of("gfx90c"), HERE), Err(NO_BINARY_FOR_GPU), "a family's");
        let mut other = of(HERE);
        other[18] = 62;
        assert_eq!(kernels(&other, HERE), Err(code::INVALID_IMAGE), "x86-64's");
        let cut = of(HERE);
        assert_eq!(kernels(&cut[..cut.len() / 2], HERE), Err(code::INVALID_IMAGE));
    }

    #[test]
    fn other_images_are_rejected_by_their_first_bytes() {
        // SAFETY: NULL, or 4 bytes that do not begin a header.
        unsafe {
            assert_eq!(check(std::ptr::null()), Err(code::INVALID_VALUE));
            assert_eq!(check(b".ver".as_ptr().cast()), Err(code::INVALID_IMAGE));
        }
        // SAFETY: as many bytes as the header says.
        assert!(unsafe { check(of(HERE).as_ptr().cast()) }.is_ok());
    }
}
