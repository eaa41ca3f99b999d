//! Validation of code objects for requirements that the runtime does not check.
//!
//! The runtime's loader looks up the sections `.symtab` and `.strtab` by name. Without them, as after linking with
//! `--strip-all`, `hipModuleLoadData` of HIP 5.2.3, 5.7.1 and 6.4.3 crashes (SIGSEGV), and that of 7.2.4 returns
//! `hipErrorInvalidImage`. ELF files without them are therefore rejected before the call. Bundles and compressed
//! objects, which are not ELF files, are passed to the runtime.

use gpu_interop_core::{Error, Result};

const ELF_MAGIC: &[u8] = b"\x7fELF\x02\x01";
const NEEDED: [&[u8]; 2] = [b".symtab", b".strtab"];

/// Rejects an ELF file without a symbol table.
pub(crate) fn check(operation: &'static str, image: &[u8]) -> Result<()> {
    if !image.starts_with(ELF_MAGIC) {
        return Ok(());
    }
    let Some(names) = section_names(image) else {
        let message = "the code object is incomplete: its headers point behind its end; read or build the file again";
        return Err(Error::invalid(operation, message).with_context("bytes", image.len()));
    };
    match NEEDED.iter().find(|needed| !names.contains(*needed)) {
        None => Ok(()),
        Some(missing) => {
            let message = "the code object has no symbol table, without which AMD's loader crashes; link it without \
                           --strip-all";
            Err(Error::invalid(operation, message).with_context("missing section", String::from_utf8_lossy(missing)))
        }
    }
}

/// Returns the names of an ELF file's sections; `None` if a header points outside the file.
fn section_names(image: &[u8]) -> Option<Vec<&[u8]>> {
    // Elf64_Ehdr: e_shoff, e_shentsize, e_shnum, e_shstrndx.
    let table = usize::try_from(u64_at(image, 40)?).ok()?;
    let [size, count, names] = [u16_at(image, 58)?, u16_at(image, 60)?, u16_at(image, 62)?].map(usize::from);
    let header = |index: usize| image.get(table.checked_add(index.checked_mul(size)?)?..);
    // Elf64_Shdr: sh_name; sh_offset and sh_size of the section with the names.
    let strings = header(names)?;
    let strings =
        image.get(usize::try_from(u64_at(strings, 24)?).ok()?..)?.get(..usize::try_from(u64_at(strings, 32)?).ok()?)?;
    (0..count)
        .map(|index| {
            let start = usize::try_from(u32_at(header(index)?, 0)?).ok()?;
            strings.get(start..)?.split(|byte| *byte == 0).next()
        })
        .collect()
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    /// Returns a code object in which a section is renamed, as a replacement for a stripped one.
    fn without(section: &str) -> Vec<u8> {
        let mut bytes = gpu_interop_kernels::code_object("gfx906").expect("a code object").to_vec();
        let name = [b"\0", section.as_bytes(), b"\0"].concat();
        let at = bytes.windows(name.len()).rposition(|window| window == name).expect("the section's name");
        bytes[at + 1] = b'_';
        bytes
    }

    #[test]
    fn the_prebuilt_code_objects_are_accepted() {
        for (target, object) in gpu_interop_kernels::CODE_OBJECTS {
            check("hipModuleLoadData", object).unwrap_or_else(|error| panic!("{target}: {error}"));
        }
    }

    #[test]
    fn a_code_object_without_a_symbol_table_is_rejected() {
        for section in [".symtab", ".strtab"] {
            let error = check("hipModuleLoadData", &without(section)).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("--strip-all") && error.to_string().contains(section), "{error}");
        }
    }

    #[test]
    fn files_other_than_elf_are_accepted() {
        for image in [&b"__CLANG_OFFLOAD_BUNDLE__"[..], b"CCOB", b"", b"\x7fEL"] {
            check("hipModuleLoadData", image).expect("accepted");
        }
    }

    #[test]
    fn headers_that_point_outside_the_file_are_rejected() {
        let object = gpu_interop_kernels::code_object("gfx906").expect("a code object");
        for length in 6..object.len() - 64 {
            // Truncated: the section headers, of 64 bytes each, are at the end of the file.
            let error = check("hipModuleLoadData", &object[..length]).expect_err("rejected");
            assert!(error.to_string().contains("incomplete"), "{length}: {error}");
        }
        for field in [40..48, 58..60, 60..62, 62..64] {
            let mut bytes = object.to_vec();
            bytes[field].fill(0xff);
            let _ = check("hipModuleLoadData", &bytes);
        }
    }
}
