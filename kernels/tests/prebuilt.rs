//! Compares the embedded files with their sources and signatures.

#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gpu_interop_kernels::{CODE_OBJECTS, KERNELS, Parameter, ParameterType, ptx};
use object::read::elf::{ElfFile64, FileHeader};
use object::{Object, ObjectSymbol, elf};
use sha2::{Digest, Sha256};

/// Lists the files of a folder of this crate as `prebuilt/MANIFEST` does.
fn files(folder: &str) -> impl Iterator<Item = String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join(folder)).expect("folder");
    entries.map(move |entry| format!("{folder}/{}", entry.expect("entry").file_name().to_string_lossy()))
}

#[test]
fn prebuilt_files_match_the_manifest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("prebuilt/MANIFEST")).expect("manifest");
    let mut listed = BTreeSet::new();
    for line in manifest.lines().filter(|line| !line.starts_with('#')) {
        let (expected, file) = line.split_once("  ").expect("hash, two spaces, file");
        let hash = Sha256::digest(fs::read(root.join(file)).expect(file));
        let found: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "{file} changed since prebuilt/ was built: run kernels/build.sh");
        listed.insert(file.to_owned());
    }
    let mut present: BTreeSet<String> = files("device").chain(files("prebuilt")).collect();
    present.extend(["build.sh", "code_objects.sh"].map(str::to_owned));
    present.remove("prebuilt/MANIFEST");
    assert_eq!(listed, present, "run kernels/build.sh");
}

#[test]
fn every_built_code_object_is_embedded() {
    let built: BTreeSet<String> = files("prebuilt").filter(|file| file.ends_with(".hsaco")).collect();
    let embedded = CODE_OBJECTS.iter().map(|(target, _)| format!("prebuilt/{target}.hsaco")).collect();
    assert_eq!(built, embedded);
}

fn ptx_type(parameter: &Parameter) -> &'static str {
    match parameter.ty {
        ParameterType::U32 => ".u32",
        _ => ".u64",
    }
}

#[test]
fn the_ptx_declares_each_kernel_with_its_parameters() {
    let text = ptx().to_str().expect("ASCII");
    assert!(text.contains("\n.version 6.0\n.target sm_70\n.address_size 64\n"), "the documented versions");
    let entries: Vec<(&str, Vec<&str>)> = text
        .split(".visible .entry ")
        .skip(1)
        .map(|entry| {
            let (name, rest) = entry.split_once('(').expect("parameters");
            let (parameters, _) = rest.split_once(')').expect("the end of the parameters");
            // `.param .u64 fill_pattern_param_0`; some versions of LLVM insert the pointer's address space.
            let types = parameters.split(',').map(|declared| declared.split_whitespace().nth(1).expect("a type"));
            (name, types.collect())
        })
        .collect();
    let expected: Vec<(&str, Vec<&str>)> = KERNELS
        .iter()
        .map(|kernel| (kernel.name.to_str().expect("ASCII"), kernel.parameters.iter().map(ptx_type).collect()))
        .collect();
    assert_eq!(entries, expected);
}

/// `EF_AMDGPU_MACH` and `EF_AMDGPU_GENERIC_VERSION` according to LLVM's AMDGPU documentation.
const MACHINE: [(&str, u32); 12] = [
    ("gfx906", 0x2f),
    ("gfx908", 0x30),
    ("gfx90a", 0x3f),
    ("gfx942", 0x4c),
    ("gfx1030", 0x36),
    ("gfx1100", 0x41),
    ("gfx1201", 0x4e),
    ("gfx9-generic", 0x0100_0051),
    ("gfx10-1-generic", 0x0100_0052),
    ("gfx10-3-generic", 0x0100_0053),
    ("gfx11-generic", 0x0100_0054),
    ("gfx12-generic", 0x0100_0059),
];
const MACHINE_MASK: u32 = 0xff00_00ff;
/// SRAM-ECC and XNACK flags "any": the object runs with and without the features.
const ANY_FEATURES: [u32; 4] = [0x000, 0x100, 0x400, 0x500];

#[test]
fn each_code_object_is_for_its_target_and_has_each_kernel() {
    assert_eq!(CODE_OBJECTS.len(), MACHINE.len());
    for ((target, bytes), (expected_target, machine)) in CODE_OBJECTS.iter().zip(MACHINE) {
        assert_eq!(*target, expected_target);
        let file = ElfFile64::<object::LittleEndian>::parse(*bytes).unwrap_or_else(|error| panic!("{target}: {error}"));
        let (header, endian) = (file.elf_header(), file.endian());
        assert_eq!(header.e_machine(endian), elf::EM_AMDGPU, "{target}");
        assert_eq!(header.e_type(endian), elf::ET_DYN, "{target}");
        // ABI version 2 is code object version 4, 4 is 6.
        let version = if target.ends_with("generic") { 4 } else { 2 };
        assert_eq!((header.e_ident().os_abi.0, header.e_ident().abi_version), (64, version), "{target}");
        let flags = header.e_flags(endian).0;
        assert_eq!(flags & MACHINE_MASK, machine, "{target}: {flags:#x}");
        assert!(ANY_FEATURES.contains(&(flags & !MACHINE_MASK)), "{target}: {flags:#x}");

        let symbols: BTreeSet<String> =
            file.dynamic_symbols().map(|symbol| symbol.name().expect("UTF-8").to_owned()).collect();
        let mut expected = BTreeSet::new();
        for kernel in KERNELS.iter().filter(|kernel| !kernel.nvidia_only) {
            let name = kernel.name.to_str().expect("ASCII");
            expected.extend([name.to_owned(), format!("{name}.kd")]);
            assert_eq!(
                kernarg_size(&file, name),
                expected_kernarg_size(kernel.parameters, version),
                "{target}: {name}"
            );
        }
        assert_eq!(symbols, expected, "{target}");
        // AMD's loader looks up these sections by name: HIP 5.2 to 6.4 crash without them, 7.2 rejects the object.
        for section in [".symtab", ".strtab"] {
            assert!(file.section_by_name(section).is_some(), "{target} has no {section}");
        }
        let defined: BTreeSet<&str> = file.symbols().filter_map(|symbol| symbol.name().ok()).collect();
        assert!(expected.iter().all(|name| defined.contains(name.as_str())), "{target}: {defined:?}");
    }
}

/// Size of the arguments in bytes according to a kernel's descriptor.
fn kernarg_size(file: &ElfFile64<'_, object::LittleEndian>, name: &str) -> usize {
    use object::ObjectSection;
    let descriptor = format!("{name}.kd");
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(&descriptor)).expect("descriptor");
    assert_eq!(symbol.size(), 64, "{descriptor}");
    let section = file.section_by_index(symbol.section_index().expect("defined")).expect("section");
    let bytes = section.data_range(symbol.address(), 64).expect("data").expect("within the section");
    // `kernarg_size` is the third word, after the sizes of group and private memory, which are 0 for these kernels.
    assert_eq!(bytes[..8], [0; 8], "{descriptor}");
    u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes")) as usize
}

/// Size of the parameters in C's layout, plus the 256 bytes of hidden arguments of code object versions 5 and 6.
fn expected_kernarg_size(parameters: &[Parameter], version: u8) -> usize {
    let end = parameters.iter().fold(0_usize, |end, parameter| {
        let size = parameter.ty.size();
        end.next_multiple_of(size) + size
    });
    // Since code object version 5 the launch dimensions are in 256 bytes of hidden arguments; before, they are in the
    // packet.
    if version < 3 { end } else { end.next_multiple_of(8) + 256 }
}
