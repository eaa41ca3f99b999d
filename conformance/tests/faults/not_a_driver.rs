//! Files that are not drivers. The backends' own tests (`simulated`) cover a missing file, a text, a library without
//! the functions, and old and incomplete drivers.

use std::path::Path;

use gpu_interop::ErrorKind;
use libtest_mimic::Failed;

use crate::driver::DRIVERS;
use crate::outcome;
use gpu_interop_test_support::build;

/// A kind of file, its construction from a library, and the linker's message.
type File = (&'static str, fn(&Path, &[u8]) -> std::io::Result<()>, &'static str);

const FILES: &[File] = &[
    ("empty", |path, _| std::fs::write(path, ""), "file too short"),
    (
        "a text",
        |path, _| std::fs::write(path, "/* GNU ld script */ INPUT(libcuda.so.1)".repeat(9)),
        "invalid ELF header",
    ),
    ("a folder", |path, _| std::fs::create_dir(path), "Is a directory"),
    // The class in an ELF file's header: 32 bits.
    ("of 32 bits", |path, library| changed(path, library, 4, &[1]), "wrong ELF class: ELFCLASS32"),
    // The byte order there: big-endian.
    ("big-endian", |path, library| changed(path, library, 5, &[2]), "not little-endian"),
    // The machine there: one that this test is never built for, VAX.
    (
        "for another processor",
        |path, library| changed(path, library, 18, &[75, 0]),
        "check that it is built for this processor architecture",
    ),
    // The type there: an object file, not a library.
    ("not linked", |path, library| changed(path, library, 16, &[1, 0]), "only ET_DYN and ET_EXEC can be loaded"),
    ("not readable", |path, _| std::os::unix::fs::symlink(path, path), "Too many levels of symbolic links"),
];

fn changed(path: &Path, library: &[u8], at: usize, bytes: &[u8]) -> std::io::Result<()> {
    let mut library = library.to_vec();
    library[at..at + bytes.len()].copy_from_slice(bytes);
    std::fs::write(path, library)
}

/// Each is a typed error that names the file and the reason, also beside a simulator that loads.
pub(crate) fn files() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for driver in DRIVERS.iter().filter(|driver| driver.without.is_empty()) {
        let library = build(driver.vendor.package())?;
        let bytes = std::fs::read(&library)?;
        let sound = outcome::loading(driver, &library)?;
        if let Some(error) = sound {
            return Err(format!("the library itself: {error:?}").into());
        }
        for (what, make, words) in FILES {
            let path = folder.path().join(format!("{}, {what}", driver.name));
            make(&path, &bytes)?;
            let error = outcome::loading(driver, &path)?.ok_or_else(|| format!("{what}: it was loaded"))?;
            let named = error.text.contains(&format!("tried: {}: ", path.display())) && error.text.contains(words);
            if error.kind != ErrorKind::DriverNotFound || error.operation != "dlopen" || !named {
                return Err(format!("{what}: {error:?}").into());
            }
        }
    }
    Ok(())
}
