//! Copies of libraries with hidden functions.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use tempfile::TempDir;

/// Copy of a library in which symbols can be hidden.
#[derive(Debug)]
pub struct PartialLibrary {
    _folder: TempDir,
    path: PathBuf,
    file: File,
    /// Contents of the original library.
    bytes: Vec<u8>,
}

impl PartialLibrary {
    /// Copies `library` with all symbols.
    ///
    /// # Errors
    /// The library cannot be read or copied.
    pub fn of(library: &Path) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(library.file_name().ok_or("a file")?);
        std::fs::copy(library, &path)?;
        let file = File::options().write(true).open(&path)?;
        Ok(Self { _folder: folder, path, file, bytes: std::fs::read(library)? })
    }

    /// File of the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hides a symbol by changing the first letter of its name. The dynamic linker finds the entry by the hash of the
    /// original name, but the name does not match. No process may have the copy loaded.
    ///
    /// # Errors
    /// The library has no such symbol, or another symbol shares the end of its name.
    pub fn hide(&mut self, symbol: &str) -> Result<(), Failed> {
        let at = self.name_of(symbol)?;
        Ok(self.file.write_all_at(b"_", at)?)
    }

    /// Reverts [`PartialLibrary::hide`].
    ///
    /// # Errors
    /// As for [`PartialLibrary::hide`].
    pub fn show(&mut self, symbol: &str) -> Result<(), Failed> {
        let at = self.name_of(symbol)?;
        Ok(self.file.write_all_at(&symbol.as_bytes()[..1], at)?)
    }

    /// Returns the file offset of a symbol's name. Fails unless exactly one symbol uses the name and no other name ends
    /// with it.
    fn name_of(&self, symbol: &str) -> Result<u64, Failed> {
        let file = object::File::parse(&*self.bytes)?;
        let ends = |name: object::Result<&str>| name.is_ok_and(|name| name.ends_with(symbol));
        let sharing = file.dynamic_symbols().filter(|found| ends(found.name())).count();
        let strings = file.section_by_name(".dynstr").ok_or("a table of names")?;
        let (start, _) = strings.file_range().ok_or("a table in the file")?;
        // The name between two NULs.
        let wanted = [b"\0", symbol.as_bytes(), b"\0"].concat();
        let place = strings.data()?.windows(wanted.len()).position(|range| range == wanted);
        match place {
            Some(place) if sharing == 1 => Ok(start + place as u64 + 1),
            _ => Err(format!("{symbol} is the end of {sharing} names, and found at {place:?}").into()),
        }
    }
}
